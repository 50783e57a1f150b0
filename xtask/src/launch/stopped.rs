//! Ranks that were asked to stop, and did so after the same step.

use super::failure::{How, RankEnd};

/// What ranks exit with that were asked by SIGINT or SIGTERM.
const CODES: [i32; 2] = [130, 143];

/// Whether a rank ended because it was asked to.
pub(crate) fn is_stop(code: Option<i32>) -> bool {
    code.is_some_and(|code| CODES.contains(&code))
}

/// The exit code of ranks that have all stopped after the same step, and what each of them said.
pub(crate) fn together(ends: &[RankEnd]) -> Option<(u8, &str)> {
    let first = ends.first()?;
    let said = first.last_error.as_deref().filter(|said| said.starts_with("stopped by "))?;
    let How::Code(code) = first.how else { return None };
    let same = |end: &RankEnd| end.how == How::Code(code) && end.last_error.as_deref() == Some(said);
    let code = u8::try_from(code).ok()?;
    (is_stop(Some(code.into())) && ends.iter().all(same)).then_some((code, said))
}

/// `after iteration 17 of 320`
pub(crate) fn after(said: &str) -> &str {
    said.find("after ").map_or("", |at| &said[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(rank: usize, code: i32, said: &str) -> RankEnd {
        RankEnd { rank, how: How::Code(code), look: 1, stopped: false, last_error: Some(said.to_owned()) }
    }

    #[test]
    fn ranks_stop_together_or_not() {
        let said = "stopped by SIGTERM after iteration 17 of 320";
        assert_eq!(together(&[end(0, 143, said), end(1, 143, said)]), Some((143, said)));
        assert_eq!(after(said), "after iteration 17 of 320");
        let other = "stopped by SIGTERM after iteration 18 of 320";
        for ends in [
            vec![],
            vec![end(0, 143, said), end(1, 143, other)],
            vec![end(0, 143, said), end(1, 3, said)],
            vec![end(0, 143, said), end(1, 143, "ended at once by SIGTERM")],
            vec![end(0, 1, said), end(1, 1, said)],
            vec![RankEnd { how: How::Signal(15), ..end(0, 143, said) }],
        ] {
            assert_eq!(together(&ends), None, "{ends:?}");
        }
    }
}
