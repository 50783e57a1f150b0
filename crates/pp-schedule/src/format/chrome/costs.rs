//! What computations cost, by a trace: medians over all that were recorded.

use super::error::ChromeError;
use super::recorded::Recorded;
use crate::ids::Stage;
use crate::simulate::{Costs, StageCosts};
use crate::work::WorkKind;

/// Costs that were measured, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredCosts {
    /// By stage, communication free.
    pub costs: Costs,
    /// What the trace does not tell and was assumed, a line for each.
    pub assumed: Vec<String>,
}

/// By kind: the median in nanoseconds, if there is one.
type Medians = [Option<u64>; 4];

impl Recorded {
    /// The median, over all steps and microbatches, of what each kind of computation took on each stage, in nanoseconds.
    /// What is missing is derived: `B = I + W`, or `W = B - I` and so on. If a stage has full backwards only, `I` and `W` are
    /// assumed to be half of it each, which [`MeasuredCosts::assumed`] says; a trace of forwards only has backwards that
    /// cost nothing.
    ///
    /// # Errors
    /// [`ChromeError::NoCost`] if a stage has no forward, or nothing that tells what a backward costs.
    pub fn costs(&self) -> Result<MeasuredCosts, ChromeError> {
        let n_stages = self.extent.placement.n_stages();
        let (mut stages, mut halved) = (Vec::new(), Vec::new());
        let mut spans: Vec<(Stage, WorkKind, u64)> = self
            .steps
            .iter()
            .flat_map(|step| &step.spans)
            .map(|span| (span.work.stage, span.work.kind, span.end - span.start))
            .collect();
        spans.sort_unstable();
        let mut rest = &spans[..];
        for stage in (0..n_stages).map(Stage) {
            let of_stage;
            (of_stage, rest) = rest.split_at(rest.partition_point(|(other, ..)| *other <= stage));
            let (costs, is_halved) = stage_costs(medians(of_stage), self.extent.forward_only)
                .map_err(|missing| ChromeError::NoCost { stage, missing })?;
            stages.push(costs);
            if is_halved {
                halved.push(stage.0);
            }
        }
        let assumed = match halved.as_slice() {
            [] => Vec::new(),
            all if all.len() == n_stages as usize => {
                vec!["input and weight gradient are taken to cost half of a full backward each".to_owned()]
            }
            [one] => {
                vec![format!("on stage {one} input and weight gradient are taken to cost half of a full backward each")]
            }
            [first, .., last] => vec![format!(
                "on {} stages ({first} to {last}) input and weight gradient are taken to cost half of a full backward each",
                halved.len()
            )],
        };
        Ok(MeasuredCosts { costs: Costs::per_stage(stages), assumed })
    }
}

/// Of spans that are sorted by kind and length.
fn medians(spans: &[(Stage, WorkKind, u64)]) -> Medians {
    WorkKind::ALL.map(|kind| {
        let start = spans.partition_point(|(_, other, _)| *other < kind);
        let end = spans.partition_point(|(_, other, _)| *other <= kind);
        // Of an even number, the lower of the two in the middle: a length that was measured.
        (start < end).then(|| spans[start + (end - start - 1) / 2].2)
    })
}

/// The costs of a stage, and whether a backward was cut in half; or what is missing.
fn stage_costs(
    [forward, backward, input, weight]: Medians,
    forward_only: bool,
) -> Result<(StageCosts, bool), &'static str> {
    let forward = forward.ok_or("no forward (F)")?;
    let (costs, halved) = match (backward, input, weight) {
        (None, None, None) if forward_only => ([0; 3], false),
        (Some(backward), None, None) => ([backward, backward / 2, backward - backward / 2], true),
        (Some(backward), Some(input), weight) => {
            ([backward, input, weight.unwrap_or(backward.saturating_sub(input))], false)
        }
        (Some(backward), None, Some(weight)) => ([backward, backward.saturating_sub(weight), weight], false),
        (None, Some(input), Some(weight)) => ([input + weight, input, weight], false),
        (None, Some(_), None) => return Err("no full backward (B) and no weight gradient (W)"),
        (None, None, Some(_)) => return Err("no full backward (B) and no input gradient (I)"),
        (None, None, None) => return Err("no backward (B, or I and W)"),
    };
    let [backward, backward_input, backward_weight] = costs;
    Ok((StageCosts { forward, backward, backward_input, backward_weight }, halved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_missing_are_derived() {
        let costs = |medians, forward_only| {
            let (costs, halved) = stage_costs(medians, forward_only)?;
            Ok::<_, &str>((WorkKind::ALL.map(|kind| costs.of(kind)), halved))
        };
        assert_eq!(costs([Some(5), Some(9), None, None], false), Ok(([5, 9, 4, 5], true)));
        assert_eq!(costs([Some(5), None, Some(4), Some(3)], false), Ok(([5, 7, 4, 3], false)));
        assert_eq!(costs([Some(5), Some(9), Some(4), None], false), Ok(([5, 9, 4, 5], false)));
        assert_eq!(costs([Some(5), Some(9), None, Some(3)], false), Ok(([5, 9, 6, 3], false)));
        assert_eq!(costs([Some(5), Some(9), Some(4), Some(6)], false), Ok(([5, 9, 4, 6], false)));
        assert_eq!(costs([Some(5), None, None, None], true), Ok(([5, 0, 0, 0], false)));
        for (medians, letter) in [
            ([None, Some(9), None, None], "F"),
            ([Some(5), None, None, None], "B"),
            ([Some(5), None, Some(4), None], "W"),
            ([Some(5), None, None, Some(3)], "I"),
        ] {
            assert!(costs(medians, false).is_err_and(|missing| missing.contains(letter)));
        }
    }
}
