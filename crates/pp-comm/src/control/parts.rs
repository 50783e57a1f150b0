//! What ranks give to an all-gather: values, and after them a byte that says of what type they are.

use pp_schedule::Rank;

use crate::collective::Elements;
use crate::error::CommError;

/// Values with their type.
pub(super) fn with_type(elements: Elements, part: &[u8]) -> Vec<u8> {
    let mut typed = Vec::with_capacity(part.len() + 1);
    typed.extend(part);
    typed.push(elements as u8);
    typed
}

/// The values of all ranks, if each gives whole values of that one type. Where types differ every rank finds the same ranks,
/// whatever it gives itself: rank 0, and the first that differs from it.
pub(super) fn of(round: u64, expected: Elements, mut parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError> {
    let mut first = None;
    for (rank, part) in (0..).map(Rank).zip(&mut parts) {
        let n_bytes = part.len();
        let elements = part.pop().and_then(Elements::from_code);
        let whole = elements.filter(|elements| part.len().is_multiple_of(elements.size()));
        let theirs = whole.ok_or(CommError::CollectivePart { round, rank, n_bytes, expected })?;
        let ours = *first.get_or_insert(theirs);
        if theirs != ours {
            return Err(CommError::CollectiveElements { round, rank, theirs, other: Rank(0), ours });
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_what_is_none_names_its_rank() {
        let typed = |elements, n_bytes| with_type(elements, &vec![7; n_bytes]);
        let whole = vec![typed(Elements::F64, 16), typed(Elements::F64, 0)];
        assert_eq!(of(3, Elements::F64, whole), Ok(vec![vec![7; 16], vec![]]));
        let mixed = vec![typed(Elements::F64, 8), typed(Elements::F64, 8), typed(Elements::F32, 8)];
        let error = of(3, Elements::F32, mixed).expect_err("two types");
        let text = "collective 3: rank 2 gives f32 values where rank 0 gives f64 values; all ranks must give values of one type";
        assert_eq!(error.to_string(), text);
        for wrong in [vec![], vec![0, 0, 9], typed(Elements::F32, 5)] {
            let n_bytes = wrong.len();
            let error = of(3, Elements::F32, vec![typed(Elements::F32, 4), wrong]).expect_err("no values");
            assert_eq!(error, CommError::CollectivePart { round: 3, rank: Rank(1), n_bytes, expected: Elements::F32 });
        }
    }
}
