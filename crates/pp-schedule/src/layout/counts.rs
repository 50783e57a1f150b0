//! How many layers each rank gets from the counts of the first and last rank, or with embedding and loss accounted for.

use super::error::LayoutError;
use super::limits::{FIRST, LAST};
use super::spec::LayoutSpec;

/// Layers of `counts[rank][chunk]`; negative ones as Megatron's arithmetic gives them.
pub(super) fn counts(spec: &LayoutSpec) -> Result<Vec<Vec<i64>>, LayoutError> {
    let vp = spec.vp.unwrap_or(1);
    let per_rank = if spec.first.is_some() || spec.last.is_some() { uneven(spec)? } else { even(spec)? };
    let mut counts: Vec<Vec<i64>> =
        per_rank.into_iter().map(|layers| vec![layers / i64::from(vp); vp as usize]).collect();
    // Embedding and loss took the place of a layer each.
    if let Some(count) = counts.first_mut().and_then(|rank| rank.first_mut()) {
        *count -= i64::from(spec.account_for_embedding);
    }
    if let Some(count) = counts.last_mut().and_then(|rank| rank.last_mut()) {
        *count -= i64::from(spec.account_for_loss);
    }
    Ok(counts)
}

/// The same number of layers, embedding and loss among them if they count, for each rank and chunk.
fn even(spec: &LayoutSpec) -> Result<Vec<i64>, LayoutError> {
    let (n_layers, pp, vp) = (spec.n_layers, spec.pp, spec.vp.unwrap_or(1));
    let extra = u32::from(spec.account_for_embedding) + u32::from(spec.account_for_loss);
    let slots = u64::from(n_layers) + u64::from(extra);
    if !slots.is_multiple_of(u64::from(pp) * u64::from(vp)) {
        return Err(match extra {
            0 => LayoutError::NotDivisible { n_layers, pp, vp },
            _ => LayoutError::AccountedNotDivisible { n_layers, extra, pp, vp },
        });
    }
    Ok(vec![(slots / u64::from(pp)) as i64; pp as usize])
}

/// What the first and last rank were given, and equal shares of the rest for those between.
fn uneven(spec: &LayoutSpec) -> Result<Vec<i64>, LayoutError> {
    let &LayoutSpec { n_layers, pp, vp, first, last, .. } = spec;
    if let (1, Some(first), Some(last)) = (pp, first, last) {
        return Err(LayoutError::FirstAndLastOnOneRank { first, last });
    }
    for (flag, count) in [(FIRST, first), (LAST, last)] {
        let Some(count) = count else { continue };
        if count == 0 {
            return Err(LayoutError::Zero { flag });
        }
        if let Some(vp) = vp.filter(|vp| !count.is_multiple_of(*vp)) {
            return Err(LayoutError::EndNotDivisible { flag, count, vp });
        }
    }
    let left = i64::from(n_layers) - i64::from(first.unwrap_or(0)) - i64::from(last.unwrap_or(0));
    let ranks = pp - u32::from(first.is_some()) - u32::from(last.is_some());
    match (ranks, left) {
        (0, 0) if pp > 1 && vp.is_some() => return Err(no_middle_ranks(spec)),
        (0, 0) => {}
        (0, _) => return Err(LayoutError::LeftOver { left, n_layers, fits: i64::from(n_layers) - left }),
        (_, 0) => return Err(LayoutError::NothingLeft { ranks, vp: vp.unwrap_or(1), n_layers }),
        _ => {
            let chunks = u64::from(ranks) * u64::from(vp.unwrap_or(1));
            if left % chunks as i64 != 0 {
                let ends = i64::from(n_layers) - left;
                return Err(LayoutError::MiddleNotDivisible { left, ranks, vp: vp.unwrap_or(1), n_layers, ends });
            }
        }
    }
    let middle = if ranks == 0 { 0 } else { left / i64::from(ranks) };
    let mut per_rank = vec![middle; pp as usize];
    if let (Some(count), Some(first)) = (per_rank.first_mut(), first) {
        *count = first.into();
    }
    if let (Some(count), Some(last)) = (per_rank.last_mut(), last) {
        *count = last.into();
    }
    Ok(per_rank)
}

fn no_middle_ranks(spec: &LayoutSpec) -> LayoutError {
    let (vp, first, last) = (spec.vp.unwrap_or(1), spec.first.unwrap_or(0), spec.last.unwrap_or(0));
    LayoutError::NoMiddleRanks { vp, first, last }
}
