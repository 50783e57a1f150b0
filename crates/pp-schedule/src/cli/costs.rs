//! The flags that say what computations and messages cost, and what they make of them.

use std::path::{Path, PathBuf};

use clap::Args;

use super::CommandError;
use super::decimal::Decimal;
use super::source::read_text;
use crate::format::chrome::{self, MeasuredCosts};
use crate::ids::Stage;
use crate::placement::Placement;
use crate::simulate::{Costs, Link, Scale, StageBytes, StageCosts};

/// The largest cost, in ticks: sums over the largest program stay within 64 bits.
const MAX_TICKS: u64 = 100_000_000_000;
/// Digits after the point when a bandwidth is given, since bytes over bandwidth are seldom whole.
const PLACES_WITH_BANDWIDTH: u32 = 6;

/// Costs and sizes. A list has one value for all stages, or one per stage.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct CostArgs {
    /// Time of a forward of one stage; without it a rank's forward takes one unit, a stage's 1 / vp
    #[arg(long = "forward", short = 'F', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    forward: Vec<Decimal>,
    /// Time of a full backward [default: backward for the input plus for the weights]
    #[arg(long = "backward", short = 'B', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    backward: Vec<Decimal>,
    /// Time of a backward for the input [default: half the backward, or the forward]
    #[arg(long, short = 'I', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    backward_input: Vec<Decimal>,
    /// Time of a backward for the weights [default: the rest of the backward, or the forward]
    #[arg(long, short = 'W', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    backward_weight: Vec<Decimal>,
    /// Time of an overlapped pair of forward and backward [default: the sum of the two]
    #[arg(long, value_name = "TIME", help_heading = "Costs")]
    pair: Option<Decimal>,
    /// Time from when a message has left until it is there
    #[arg(long, short = 'c', value_name = "TIME", help_heading = "Costs")]
    latency: Option<Decimal>,
    /// Bytes of a message: one value, or one per boundary between stages
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', requires = "bandwidth", help_heading = "Costs")]
    message_bytes: Vec<u64>,
    /// Bytes that a channel carries per unit of time
    #[arg(long, value_name = "BYTES", requires = "message_bytes", help_heading = "Costs")]
    bandwidth: Option<Decimal>,
    /// Take the costs of computations from a trace, as the trainer's --trace or --format chrome writes it
    #[arg(long, value_name = "TRACE.json", help_heading = "Costs")]
    #[arg(conflicts_with_all = ["forward", "backward", "backward_input", "backward_weight", "unit"])]
    costs_from: Option<PathBuf>,
    /// The unit of all times, for the report [default: units, or ms with --costs-from]
    #[arg(long, value_name = "NAME", help_heading = "Costs")]
    unit: Option<String>,
    /// Bytes a stage keeps of a microbatch from its forward to its backward
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', help_heading = "Memory")]
    activation_bytes: Vec<u64>,
    /// Bytes a stage keeps of a microbatch from its backward for the input to that for the weights [default: as many]
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', help_heading = "Memory")]
    deferred_bytes: Vec<u64>,
}

/// What the flags make.
pub(super) struct Priced {
    pub(super) costs: Costs,
    pub(super) scale: Scale,
    /// By stage; empty when no bytes were given.
    pub(super) bytes: Vec<StageBytes>,
    /// What was not said and is assumed, a line each.
    pub(super) assumed: Vec<String>,
}

impl Priced {
    /// What a stage holds.
    pub(super) fn bytes_of(&self, stage: Stage) -> StageBytes {
        self.bytes.get(stage.idx()).copied().unwrap_or_default()
    }
}

impl CostArgs {
    /// The costs for stages so placed.
    pub(super) fn price(&self, placement: Placement) -> Result<Priced, CommandError> {
        let (n_stages, vp) = (placement.n_stages() as usize, placement.n_chunks());
        let bytes = self.bytes(n_stages)?;
        if let Some(path) = &self.costs_from {
            return self.measured(path, placement, bytes);
        }
        if self.forward.is_empty() {
            return self.unit_costs(n_stages, vp, bytes);
        }
        let places = self.places();
        let ticks = Ticks { places, per_place: 1 };
        let costs = Costs::per_stage(self.stage_costs(n_stages, ticks)?);
        let unit = self.unit.clone().unwrap_or_else(|| "units".to_owned());
        let scale = Scale { ticks_per_unit: ticks.per_unit(), unit };
        Ok(Priced { costs: self.linked(costs, n_stages, ticks)?, scale, bytes, assumed: Vec::new() })
    }

    /// The medians of a trace; times given beside it are in milliseconds.
    fn measured(&self, path: &Path, placement: Placement, bytes: Vec<StageBytes>) -> Result<Priced, CommandError> {
        let bad = |why: String| CommandError::Input { file: path.display().to_string(), why };
        let recorded = chrome::read(&read_text(path)?).map_err(|error| bad(error.to_string()))?;
        let (theirs, ours) = (recorded.extent.placement, placement);
        if theirs.n_stages() != ours.n_stages() {
            let (theirs, ours) = (theirs.n_stages(), ours.n_stages());
            return Err(bad(format!(
                "it has costs of {theirs} stages, but the schedule has {ours}; they must be as many"
            )));
        }
        let MeasuredCosts { costs, assumed } = recorded.costs().map_err(|error| bad(error.to_string()))?;
        // Ticks of a trace are nanoseconds.
        let costs = self.linked(costs, ours.n_stages() as usize, Ticks { places: 6, per_place: 1 })?;
        let scale = Scale { ticks_per_unit: 1e6, unit: "ms".to_owned() };
        Ok(Priced { costs, scale, bytes, assumed })
    }

    /// A rank's forward takes one unit, as do the two halves of its backward.
    fn unit_costs(&self, n_stages: usize, vp: u32, bytes: Vec<StageBytes>) -> Result<Priced, CommandError> {
        let others = [("--backward", &self.backward), ("--backward-input", &self.backward_input)];
        let others = others.into_iter().chain([("--backward-weight", &self.backward_weight)]);
        if let Some((flag, _)) = others.into_iter().find(|(_, values)| !values.is_empty()) {
            return Err(CommandError::Costs(format!("{flag} is given without --forward; give that too")));
        }
        let ticks = Ticks { places: self.places(), per_place: u64::from(vp) };
        // 1 / vp of a unit is a whole number of ticks.
        let one = 10_u64.pow(ticks.places);
        let stage = StageCosts { forward: one, backward: 2 * one, backward_input: one, backward_weight: one };
        let unit = self.unit.clone().unwrap_or_else(|| "units".to_owned());
        let scale = Scale { ticks_per_unit: ticks.per_unit(), unit };
        let costs = self.linked(Costs::uniform(stage), n_stages, ticks)?;
        Ok(Priced { costs, scale, bytes, assumed: Vec::new() })
    }

    fn stage_costs(&self, n_stages: usize, ticks: Ticks) -> Result<Vec<StageCosts>, CommandError> {
        let list = |flag, values: &[Decimal]| {
            let values = values.iter().map(|value| ticks.of(flag, *value)).collect::<Result<Vec<_>, _>>()?;
            spread(flag, "stage", &values, n_stages)
        };
        let forward = list("--forward", &self.forward)?;
        let backward = list("--backward", &self.backward)?;
        let input = list("--backward-input", &self.backward_input)?;
        let weight = list("--backward-weight", &self.backward_weight)?;
        let dearer = |(backward, part): (&u64, &u64)| part > backward;
        for (flag, part) in [("--backward-input", &input), ("--backward-weight", &weight)] {
            if backward.iter().zip(part).any(dearer) {
                return Err(CommandError::Costs(format!("{flag} is more than --backward, of which it is a part")));
            }
        }
        let stages = (0..n_stages).map(|stage| {
            let of = |values: &[u64]| values.get(stage).copied();
            let forward = forward[stage];
            let (input, weight) = match (of(&backward), of(&input), of(&weight)) {
                (_, Some(input), Some(weight)) => (input, weight),
                (Some(backward), None, Some(weight)) => (backward.saturating_sub(weight), weight),
                (Some(backward), input, None) => {
                    let input = input.unwrap_or(backward - backward / 2);
                    (input, backward.saturating_sub(input))
                }
                (None, input, weight) => (input.unwrap_or(forward), weight.unwrap_or(forward)),
            };
            let backward = of(&backward).unwrap_or(input + weight);
            StageCosts { forward, backward, backward_input: input, backward_weight: weight }
        });
        Ok(stages.collect())
    }

    fn linked(&self, costs: Costs, n_stages: usize, ticks: Ticks) -> Result<Costs, CommandError> {
        let costs = match self.pair {
            Some(pair) => costs.with_pair(ticks.of("--pair", pair)?),
            None => costs,
        };
        let latency = self.latency.map_or(Ok(0), |latency| ticks.of("--latency", latency))?;
        let Some(bandwidth) = self.bandwidth else { return Ok(costs.with_link(Link { latency, transfer: 0 })) };
        if bandwidth.as_f64() == 0.0 {
            return Err(CommandError::Costs("--bandwidth is 0, but must be more: bytes per unit of time".to_owned()));
        }
        let links = self.message_bytes.iter().map(|bytes| {
            let time = *bytes as f64 / bandwidth.as_f64() * ticks.per_unit();
            match time <= MAX_TICKS as f64 {
                true => Ok(Link { latency, transfer: time.round() as u64 }),
                false => Err(too_large("--message-bytes", &format!("{bytes} at --bandwidth {bandwidth}"))),
            }
        });
        let links = links.collect::<Result<Vec<_>, _>>()?;
        match links[..] {
            [link] => Ok(costs.with_link(link)),
            _ => Ok(costs.with_links(spread("--message-bytes", "boundary", &links, n_stages - 1)?)),
        }
    }

    /// Digits after the point that all costs need.
    fn places(&self) -> u32 {
        let lists = [&self.forward, &self.backward, &self.backward_input, &self.backward_weight];
        let all = lists.into_iter().flatten().chain(&self.pair).chain(&self.latency);
        let least = if self.bandwidth.is_some() { PLACES_WITH_BANDWIDTH } else { 0 };
        all.map(|value| value.places()).max().unwrap_or(0).max(least)
    }

    fn bytes(&self, n_stages: usize) -> Result<Vec<StageBytes>, CommandError> {
        let activation = spread("--activation-bytes", "stage", &self.activation_bytes, n_stages)?;
        let deferred = spread("--deferred-bytes", "stage", &self.deferred_bytes, n_stages)?;
        if activation.is_empty() && deferred.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = (0..n_stages).map(|stage| {
            let activation = activation.get(stage).copied().unwrap_or(0);
            StageBytes { activation, deferred: deferred.get(stage).copied().unwrap_or(activation) }
        });
        Ok(bytes.collect())
    }
}

/// How times become ticks.
#[derive(Clone, Copy)]
struct Ticks {
    /// Digits after the point that are kept.
    places: u32,
    /// Ticks for one unit in the last of them.
    per_place: u64,
}

impl Ticks {
    fn per_unit(self) -> f64 {
        10_f64.powi(self.places as i32) * self.per_place as f64
    }

    fn of(self, flag: &str, value: Decimal) -> Result<u64, CommandError> {
        let ticks = value.scaled(self.places).and_then(|scaled| scaled.checked_mul(self.per_place));
        ticks.filter(|ticks| *ticks <= MAX_TICKS).ok_or_else(|| too_large(flag, &value.to_string()))
    }
}

fn too_large(flag: &str, value: &str) -> CommandError {
    CommandError::Costs(format!(
        "{flag} {value} is too much: at most {MAX_TICKS} of the smallest steps that all times are written in; give fewer \
         digits or a larger unit"
    ))
}

/// A value for each of `n`: none, one for all, or one each.
fn spread<T: Copy>(flag: &str, what: &str, values: &[T], n: usize) -> Result<Vec<T>, CommandError> {
    match values {
        [] => Ok(Vec::new()),
        [one] => Ok(vec![*one; n]),
        many if many.len() == n => Ok(many.to_vec()),
        many => Err(CommandError::Costs(format!(
            "{flag} has {} values, but there are {n} of what it is for; give one for all, or one per {what}",
            many.len()
        ))),
    }
}
