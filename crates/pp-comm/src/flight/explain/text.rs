//! An explanation in words.

use std::fmt;

use super::Explanation;

/// Of more ranks than this, the rest are counted.
const MOST_LISTED: usize = 64;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary)?;
        for line in &self.evidence {
            write!(f, "\n  {line}")?;
        }
        write!(f, "\nwhat each rank was at:")?;
        for blocked in self.ranks.iter().take(MOST_LISTED) {
            write!(f, "\n  rank {} {}", blocked.rank, blocked.text)?;
        }
        for rank in self.missing.iter().take(MOST_LISTED) {
            let why = if self.unreadable.contains(rank) { "a record that cannot be read" } else { "no record" };
            write!(f, "\n  rank {rank} left {why}")?;
        }
        let listed = |len: usize| len.saturating_sub(MOST_LISTED);
        let rest = listed(self.ranks.len()) + listed(self.missing.len());
        if rest > 0 {
            write!(f, "\n  and {rest} more")?;
        }
        for problem in &self.problems {
            write!(f, "\nnot used: {problem}")?;
        }
        Ok(())
    }
}
