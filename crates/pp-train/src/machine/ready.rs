//! Ranks tell each other, as the first thing after they have met, that each has what it needs. One that has not would else leave
//! the others waiting for it in the middle of what comes next.

use anyhow::{Context, Result};
use pp_comm::{CommError, Control};
use pp_schedule::Rank;

use super::Machine;
use crate::report::say;

const READY: u8 = 1;
const FAILED: u8 = 0;

/// Gives this rank's machine when every rank has its own; rank 0 says what they are.
///
/// # Errors
/// Why this rank has none, or that another has none, which counts as lost.
pub(crate) fn all_ready(control: &mut Control, mine: Result<Machine>) -> Result<Machine> {
    let parts = control.all_gather(&part(&mine));
    // Whatever else goes wrong, its own reason is what this rank has to say.
    let machine = mine?;
    let told = judge(&parts?)?;
    if control.rank() == Rank(0) && !told.is_empty() {
        say(&told)?;
    }
    Ok(machine)
}

/// What a rank tells: whether it is ready, and what with or why not.
fn part(mine: &Result<Machine>) -> Vec<u8> {
    let (ready, text) = match mine {
        Ok(machine) => (READY, machine.told().unwrap_or_default()),
        Err(error) => (FAILED, format!("{error:#}")),
    };
    std::iter::once(ready).chain(text.into_bytes()).collect()
}

/// What all ranks make of all parts.
fn judge(parts: &[Vec<u8>]) -> Result<String> {
    let mut lines = Vec::new();
    for (rank, part) in (0..).map(Rank).zip(parts) {
        let (&ready, text) =
            part.split_first().with_context(|| format!("rank {rank} does not say whether it is ready"))?;
        let text = String::from_utf8_lossy(text);
        if ready != READY {
            return Err(CommError::PeerLost { rank, reason: text.into_owned() }.into());
        }
        if !text.is_empty() {
            lines.push(format!("rank {rank}: {text}"));
        }
    }
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    fn ready(text: &str) -> Vec<u8> {
        [&[READY], text.as_bytes()].concat()
    }

    #[test]
    fn ranks_that_are_ready_say_what_with() {
        assert_eq!(judge(&[ready(""), ready("")]).unwrap(), "");
        assert_eq!(judge(&[ready("GPU 0"), ready("GPU 1")]).unwrap(), "rank 0: GPU 0\nrank 1: GPU 1");
    }

    #[test]
    fn a_rank_that_is_not_is_lost_to_the_others() {
        let failed = part(&Err(anyhow::anyhow!("no driver")));
        let error = judge(&[ready("GPU 0"), failed]).unwrap_err();
        assert_eq!((error.to_string().as_str(), Failure::of(&error)), ("rank 1 is lost: no driver", Failure::Lost));
        assert!(judge(&[ready(""), Vec::new()]).unwrap_err().to_string().contains("rank 1 does not say"));
    }
}
