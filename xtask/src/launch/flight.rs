//! The ranks' flight records after a failure: what they tell, said before the launcher's last line.

use std::path::Path;

use pp_comm::flight::{self, Explanation, ReadError, Records, Verdict, explain, write_ends};

use super::failure::{Culprit, How, RankEnd, What, signal_name};

/// What the records tell of a failure.
pub(crate) struct Told {
    /// For standard error.
    pub(crate) text: String,
    /// Whom they name, and as what, where they do.
    pub(crate) culprit: Option<Culprit>,
}

/// What the records tell of the failure; else why there are none.
///
/// How the ranks' processes ended is noted beside them: that a rank was killed, and by which signal, no record says.
pub(crate) fn told(folder: &Path, ends: &[RankEnd]) -> Result<Told, ReadError> {
    let mut records = Records::read(folder)?;
    records.ends = ends.iter().map(noted).collect();
    // One that cannot be written to can still be read.
    let _ = write_ends(folder, &records.ends);
    let explanation = explain(&records);
    let rank = explanation.rank.and_then(|rank| usize::try_from(rank).ok()).filter(|_| explanation.is_known());
    let what = match explanation.verdict {
        Verdict::Killed | Verdict::Failed => What::Ended,
        Verdict::Frozen => What::Froze,
        _ => What::Other,
    };
    let culprit = rank.map(|rank| Culprit { rank, what, summary: explanation.summary.clone() });
    Ok(Told { text: laid_out(&explanation, folder), culprit })
}

fn noted(end: &RankEnd) -> flight::RankEnd {
    let rank = u32::try_from(end.rank).unwrap_or(u32::MAX);
    let (killed_by, code) = match end.how {
        _ if end.stopped => (None, None),
        How::Signal(signal) => (Some(signal_name(signal)), None),
        How::Code(code) => (None, Some(code)),
    };
    flight::RankEnd { rank, killed_by, code, stopped: end.stopped }
}

fn laid_out(explanation: &Explanation, folder: &Path) -> String {
    let folder = folder.display();
    format!("{explanation}\nwhat the ranks did last is in {folder}; `cargo xtask explain {folder}` says this again\n")
}

/// Forgets the records of a job that has not failed: ranks that were interrupted may have lost each other. Only of a
/// directory that was made for this job.
pub(crate) fn forget(folder: &Path) {
    // Mostly there is none.
    let _ = std::fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use pp_comm::flight::{Cause, RankRecord, Recorder, Report};
    use pp_comm::{Event, State, Subject};
    use pp_schedule::Rank;

    use super::super::scratch::ScratchDir;
    use super::*;

    #[test]
    fn a_killed_rank_is_named_with_its_signal_and_what_others_were_at() {
        let scratch = ScratchDir::new().unwrap();
        let folder = scratch.path().join("flight");
        let end = |rank, how, stopped| RankEnd { rank, how, look: 1, stopped, last_error: None };
        let ends = [end(0, How::Code(3), false), end(1, How::Signal(9), false), end(2, How::Signal(9), true)];
        assert!(told(&folder, &ends).is_err(), "nobody wrote anything, and nothing is made");
        assert!(!folder.exists());

        let recorder = Recorder::new(Rank(0));
        let subject = Subject::Compute { step: 4, work: "0F3".parse().unwrap() };
        recorder.note(subject, State::Begun, 0);
        let Some(Event { action: None, .. }) = recorder.last() else { panic!("it was noted") };
        let cause = Cause::Lost { rank: 1, reason: "it closed its connection".to_owned() };
        RankRecord::new(&recorder, Report { why: "rank 1 is lost".to_owned(), cause, heard: Vec::new() })
            .write(&folder)
            .unwrap();
        let Told { text: told, culprit } = told(&folder, &ends).unwrap();
        assert_eq!(culprit.map(|culprit| (culprit.rank, culprit.what)), Some((1, What::Ended)));
        assert!(told.starts_with("rank 1 was killed by signal 9 (SIGKILL)\n"), "{told}");
        for part in ["rank 0 was", "into the computation 0F3 of step 4", "cargo xtask explain"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(explain(&Records::read(&folder).unwrap()).summary.contains("SIGKILL"), "noted for later");
        forget(&folder);
        assert!(!folder.exists());
    }
}
