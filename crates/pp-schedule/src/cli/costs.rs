//! The flags that say what computations and messages cost, and what they make of them.

use std::path::{Path, PathBuf};

use clap::Args;

use super::CommandError;
use super::amount::{Amount, Rate};
use super::source::read_text;
use super::ticks::Ticks;
use crate::format::chrome::{self, ChromeError, MeasuredCosts};
use crate::ids::Stage;
use crate::order::Extent;
use crate::placement::Placement;
use crate::quantity::{Bytes, KNOWN_TIMES, nanoseconds_in};
use crate::simulate::{Costs, Link, Scale, StageBytes, StageCosts};

/// The most that everything in a step may take, in ticks, or hold, in bytes, together.
const MAX_SUM: u128 = 1 << 62;
/// Digits after the point that are kept where times are shares of what was given.
const PLACES_OF_SHARES: u32 = 6;

/// Costs and sizes. A list has one value for all stages, or one per stage. Times are plain numbers of any unit, or all have one.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct CostArgs {
    /// Time of a forward of one stage, such as 18.5, or 18.5ms if all times have units; without it a rank's forward takes one
    /// unit, a stage's 1 / vp
    #[arg(long = "forward", short = 'F', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    forward: Vec<Amount>,
    /// Time of a full backward [default: backward for the input plus for the weights]
    #[arg(long = "backward", short = 'B', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    backward: Vec<Amount>,
    /// Time of a backward for the input [default: half the backward, or the forward]
    #[arg(long, short = 'I', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    backward_input: Vec<Amount>,
    /// Time of a backward for the weights [default: the rest of the backward, or the forward]
    #[arg(long, short = 'W', value_name = "TIME,..", value_delimiter = ',', help_heading = "Costs")]
    backward_weight: Vec<Amount>,
    /// Time of an overlapped pair of forward and backward [default: the sum of the two]
    #[arg(long, value_name = "TIME", help_heading = "Costs")]
    pair: Option<Amount>,
    /// Time from when a message has left until it is there
    #[arg(long, short = 'c', value_name = "TIME", help_heading = "Costs")]
    latency: Option<Amount>,
    /// Bytes of a message, such as 32MiB: one value, or one per boundary between stages
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', requires = "bandwidth", help_heading = "Costs")]
    message_bytes: Vec<Bytes>,
    /// Bytes that a channel carries per unit of time; or per second, such as 50GB/s, if times have units
    #[arg(long, value_name = "BANDWIDTH", requires = "message_bytes", help_heading = "Costs")]
    bandwidth: Option<Rate>,
    /// Take the costs of computations from a trace, as the trainer's --trace or --format chrome writes it
    #[arg(long, value_name = "TRACE.json", help_heading = "Costs")]
    #[arg(conflicts_with_all = ["forward", "backward", "backward_input", "backward_weight", "unit"])]
    costs_from: Option<PathBuf>,
    /// The unit of all times, for the report; ns, us, ms or s where they have units [default: units, or ms]
    #[arg(long, value_name = "NAME", help_heading = "Costs")]
    unit: Option<String>,
    /// Bytes a stage keeps of a microbatch from its forward to its backward
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', help_heading = "Memory")]
    activation_bytes: Vec<Bytes>,
    /// Bytes a stage keeps of a microbatch from its backward for the input to that for the weights [default: as many]
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',', help_heading = "Memory")]
    deferred_bytes: Vec<Bytes>,
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
    /// The costs of a step.
    pub(super) fn price(&self, extent: Extent) -> Result<Priced, CommandError> {
        let priced = self.price_stages(extent.placement)?;
        if priced.costs.longest(extent) > MAX_SUM {
            let text = "all computations and messages of a step take more than 2^62 ticks together; give a larger unit";
            return Err(CommandError::Costs(text.to_owned()));
        }
        let bytes = |bytes: &StageBytes| u128::from(bytes.activation) + u128::from(bytes.deferred);
        if priced.bytes.iter().map(bytes).sum::<u128>() * u128::from(extent.microbatches) > MAX_SUM {
            let text = "all microbatches together hold more than 2^62 bytes; give less of --activation-bytes and --deferred-bytes";
            return Err(CommandError::Costs(text.to_owned()));
        }
        Ok(priced)
    }

    fn price_stages(&self, placement: Placement) -> Result<Priced, CommandError> {
        let (n_stages, vp) = (placement.n_stages() as usize, placement.n_chunks());
        let bytes = self.bytes(n_stages)?;
        if let Some(path) = &self.costs_from {
            return self.measured(path, placement, bytes);
        }
        let (ticks, scale) = match (self.have_units()?, self.forward.is_empty()) {
            (true, true) => {
                let text = "times are given with units, but without --forward; give that too, or plain times";
                return Err(CommandError::Costs(text.to_owned()));
            }
            (false, true) => return self.unit_costs(n_stages, vp, bytes),
            (true, false) => (Ticks::Nanoseconds, self.scale_of_time()?),
            (false, false) => {
                let ticks = Ticks::Plain { places: self.places(), per_place: 1 };
                (ticks, self.scale_of(ticks))
            }
        };
        let costs = Costs::per_stage(self.stage_costs(n_stages, ticks)?);
        Ok(Priced { costs: self.linked(costs, n_stages, ticks, &scale)?, scale, bytes, assumed: Vec::new() })
    }

    /// Whether times have units: all, or none.
    fn have_units(&self) -> Result<bool, CommandError> {
        let lists = [
            ("--forward", &self.forward[..]),
            ("--backward", &self.backward),
            ("--backward-input", &self.backward_input),
            ("--backward-weight", &self.backward_weight),
            ("--pair", self.pair.as_slice()),
            ("--latency", self.latency.as_slice()),
        ];
        let mut all = lists.into_iter().flat_map(|(flag, amounts)| amounts.iter().map(move |amount| (flag, amount)));
        let Some((first, one)) = all.next() else { return Ok(false) };
        let has_unit = one.nanoseconds.is_some();
        match all.find(|(_, other)| other.nanoseconds.is_some() != has_unit) {
            None => Ok(has_unit),
            Some((flag, other)) => Err(CommandError::Costs(format!(
                "{first} {one} and {flag} {other} do not go together; give all times a unit (such as {one}{}), or none",
                if has_unit { "" } else { "ms" }
            ))),
        }
    }

    /// How nanoseconds are shown.
    fn scale_of_time(&self) -> Result<Scale, CommandError> {
        let Some(unit) = &self.unit else { return Ok(Scale::nanoseconds()) };
        match nanoseconds_in(unit) {
            Some(power) => Ok(Scale { ticks_per_unit: 10_f64.powi(power as i32), unit: unit.clone() }),
            None => Err(CommandError::Costs(format!(
                "--unit {unit} is none of {KNOWN_TIMES}, but the times have such units; give one of these, or plain times"
            ))),
        }
    }

    /// How plain times are shown.
    fn scale_of(&self, ticks: Ticks) -> Scale {
        let unit = self.unit.clone().unwrap_or_else(|| "units".to_owned());
        Scale { ticks_per_unit: ticks.per_unit(), unit }
    }

    /// The medians of a trace; plain times given beside it are in milliseconds.
    fn measured(&self, path: &Path, placement: Placement, bytes: Vec<StageBytes>) -> Result<Priced, CommandError> {
        let bad = |why: String| CommandError::Input { file: path.display().to_string(), why };
        let Measured { placement: theirs, costs, assumed } = read_measured(path)?;
        let (theirs, n_stages) = (theirs.n_stages(), placement.n_stages());
        if theirs != n_stages {
            return Err(bad(format!(
                "it has costs of {theirs} stages, but the schedule has {n_stages}; they must be as many"
            )));
        }
        let scale = Scale::nanoseconds();
        let costs = self.linked(costs, n_stages as usize, Ticks::Nanoseconds, &scale)?;
        Ok(Priced { costs, scale, bytes, assumed })
    }

    /// A rank's forward takes one unit, as do the two halves of its backward.
    fn unit_costs(&self, n_stages: usize, vp: u32, bytes: Vec<StageBytes>) -> Result<Priced, CommandError> {
        let others = [("--backward", &self.backward), ("--backward-input", &self.backward_input)];
        let others = others.into_iter().chain([("--backward-weight", &self.backward_weight)]);
        if let Some((flag, _)) = others.into_iter().find(|(_, values)| !values.is_empty()) {
            return Err(CommandError::Costs(format!("{flag} is given without --forward; give that too")));
        }
        // 1 / vp of a unit is a whole number of ticks.
        let ticks = Ticks::Plain { places: self.places(), per_place: u64::from(vp) };
        let one = 10_u64.pow(self.places());
        let stage = StageCosts { forward: one, backward: 2 * one, backward_input: one, backward_weight: one };
        let scale = self.scale_of(ticks);
        let costs = self.linked(Costs::uniform(stage), n_stages, ticks, &scale)?;
        Ok(Priced { costs, scale, bytes, assumed: Vec::new() })
    }

    fn stage_costs(&self, n_stages: usize, ticks: Ticks) -> Result<Vec<StageCosts>, CommandError> {
        let list = |flag, values: &[Amount]| {
            let values = values.iter().map(|value| ticks.of(flag, *value)).collect::<Result<Vec<_>, _>>()?;
            spread(flag, "stage", &values, n_stages)
        };
        let forward = list("--forward", &self.forward)?;
        let backward = list("--backward", &self.backward)?;
        let input = list("--backward-input", &self.backward_input)?;
        let weight = list("--backward-weight", &self.backward_weight)?;
        let stages = (0..n_stages).map(|stage| {
            let of = |values: &[u64]| values.get(stage).copied();
            let forward = forward[stage];
            // What is left of a backward whose other part is given.
            let rest = |flag: &str, backward: u64, part: u64| {
                backward.checked_sub(part).ok_or_else(|| {
                    CommandError::Costs(format!(
                        "stage {stage}: {flag} is more than --backward, of which it is a part; give less, or all three of \
                         --backward, --backward-input and --backward-weight"
                    ))
                })
            };
            let (input, weight) = match (of(&backward), of(&input), of(&weight)) {
                (_, Some(input), Some(weight)) => (input, weight),
                (Some(backward), None, Some(weight)) => (rest("--backward-weight", backward, weight)?, weight),
                (Some(backward), Some(input), None) => (input, rest("--backward-input", backward, input)?),
                (Some(backward), None, None) => (backward - backward / 2, backward / 2),
                (None, input, weight) => (input.unwrap_or(forward), weight.unwrap_or(forward)),
            };
            let backward = of(&backward).unwrap_or(input + weight);
            Ok(StageCosts { forward, backward, backward_input: input, backward_weight: weight })
        });
        stages.collect()
    }

    fn linked(&self, costs: Costs, n_stages: usize, ticks: Ticks, scale: &Scale) -> Result<Costs, CommandError> {
        let costs = match self.pair {
            Some(pair) => costs.with_pair(ticks.of("--pair", pair)?),
            None => costs,
        };
        let latency = self.latency.map_or(Ok(0), |latency| ticks.of("--latency", latency))?;
        let Some(bandwidth) = self.bandwidth else { return Ok(costs.with_link(Link { latency, transfer: 0 })) };
        let links = self.message_bytes.iter().map(|bytes| {
            let transfer = ticks.transfer(*bytes, bandwidth, scale)?;
            Ok(Link { latency, transfer })
        });
        let links = links.collect::<Result<Vec<_>, CommandError>>()?;
        match links[..] {
            [link] => Ok(costs.with_link(link)),
            _ => Ok(costs.with_links(spread("--message-bytes", "boundary", &links, n_stages - 1)?)),
        }
    }

    /// Digits after the point that all costs need.
    fn places(&self) -> u32 {
        let lists = [&self.forward, &self.backward, &self.backward_input, &self.backward_weight];
        let all = lists.into_iter().flatten().chain(&self.pair).chain(&self.latency);
        // Bytes over bandwidth, and the parts of a pair, are seldom whole.
        let least = if self.bandwidth.is_some() || self.pair.is_some() { PLACES_OF_SHARES } else { 0 };
        all.map(|value| value.number.places()).max().unwrap_or(0).max(least)
    }

    fn bytes(&self, n_stages: usize) -> Result<Vec<StageBytes>, CommandError> {
        let activation = spread("--activation-bytes", "stage", &self.activation_bytes, n_stages)?;
        let deferred = spread("--deferred-bytes", "stage", &self.deferred_bytes, n_stages)?;
        if activation.is_empty() && deferred.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = (0..n_stages).map(|stage| {
            let activation = activation.get(stage).map_or(0, |bytes| bytes.0);
            StageBytes { activation, deferred: deferred.get(stage).map_or(activation, |bytes| bytes.0) }
        });
        Ok(bytes.collect())
    }
}

/// What a trace tells of the stages that ran.
pub(super) struct Measured {
    pub(super) placement: Placement,
    /// In nanoseconds.
    pub(super) costs: Costs,
    /// What it does not tell and was assumed, a line each.
    pub(super) assumed: Vec<String>,
}

/// Reads the costs of a trace.
pub(super) fn read_measured(path: &Path) -> Result<Measured, CommandError> {
    let bad = |error: ChromeError| CommandError::Input { file: path.display().to_string(), why: error.to_string() };
    let recorded = chrome::read(&read_text(path)?).map_err(bad)?;
    let MeasuredCosts { costs, assumed } = recorded.costs().map_err(bad)?;
    Ok(Measured { placement: recorded.extent.placement, costs, assumed })
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
