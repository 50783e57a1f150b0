//! Which rank's end is the cause of the others': the first news of a failure may come from a rank that only followed.

use std::time::Duration;

use pp_schedule::Rank;

use crate::deadline::Deadline;
use crate::error::Loss;

/// How long the host waits for better news after a rank has left because of another, or without a reason.
pub(super) const SETTLE: Duration = Duration::from_millis(250);

/// What was said by ranks that leave, none of which settles the matter.
#[derive(Debug, Default)]
pub(super) struct Inquest {
    suspicions: Vec<Suspicion>,
    deadline: Option<Deadline>,
}

/// One rank's word about another, or about itself.
#[derive(Debug)]
struct Suspicion {
    teller: Rank,
    accused: Rank,
    reason: String,
}

impl Inquest {
    /// Takes in what a rank says.
    pub(super) fn hear(&mut self, teller: Rank, accused: Rank, reason: String) {
        self.suspicions.push(Suspicion { teller, accused, reason });
        self.deadline.get_or_insert(Deadline::after(SETTLE));
    }

    /// When a verdict is due, if there is anything to judge.
    pub(super) const fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// The verdict: from the first word on, an accused that accuses another is believed.
    pub(super) fn verdict(&mut self) -> Option<Loss> {
        self.deadline = None;
        let suspicions = std::mem::take(&mut self.suspicions);
        let mut last = suspicions.first()?;
        // In a circle everybody was asked once.
        for _ in &suspicions {
            let of_accused = |next: &&Suspicion| next.teller == last.accused && next.teller != last.teller;
            let Some(next) = suspicions.iter().find(of_accused) else { break };
            last = next;
        }
        let &Suspicion { teller, accused, ref reason } = last;
        let reason = if teller == accused { reason.clone() } else { format!("rank {teller} says: {reason}") };
        Some(Loss { rank: accused, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(words: &[(u32, u32)]) -> Option<(u32, String)> {
        let mut inquest = Inquest::default();
        for &(teller, accused) in words {
            inquest.hear(Rank(teller), Rank(accused), "it ended".to_owned());
        }
        assert_eq!(inquest.deadline().is_some(), !words.is_empty());
        let verdict = inquest.verdict().map(|loss| (loss.rank.0, loss.reason));
        assert!(inquest.verdict().is_none() && inquest.deadline().is_none(), "one verdict");
        verdict
    }

    #[test]
    fn the_end_of_a_chain_is_to_blame_and_a_circle_ends() {
        assert_eq!(judge(&[]), None);
        assert_eq!(judge(&[(2, 2)]), Some((2, "it ended".to_owned())));
        assert_eq!(judge(&[(1, 2)]), Some((2, "rank 1 says: it ended".to_owned())));
        assert_eq!(judge(&[(0, 1), (2, 3), (1, 2)]), Some((3, "rank 2 says: it ended".to_owned())));
        assert_eq!(judge(&[(1, 2), (2, 2)]), Some((2, "it ended".to_owned())));
        assert!(judge(&[(1, 2), (2, 1)]).is_some());
    }
}
