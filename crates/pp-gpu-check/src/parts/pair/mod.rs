//! Two ranks on one GPU, each a process: which way works, transfers, whole pipelines, a rank that dies.
//!
//! | room | what is in it |
//! |---|---|
//! | `seat` | a rank's place: its GPU, and its meeting with the other |
//! | `memory` | where a stage's values are: on the host, or on the device |
//! | `toy` | stages of which every value is known beforehand |
//! | `attempt` | whether NCCL takes two ranks on one GPU at all |
//! | `crossing` | transfers in both directions at once |
//! | `program` | a pipeline's program over the endpoint |
//! | `lost` | what a rank learns when the other is gone |

mod attempt;
mod crossing;
mod lost;
mod memory;
mod program;
mod seat;
mod toy;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nccl_rs::{Version, runtime_version};
use pp_comm::{Host, HostSpec, Secret};
use pp_schedule::Certificate;

use super::way::Way;
use crate::child::{Ended, Running};
use crate::conduct::{Plan, part_command};
use crate::report::Ground;
use crate::tell::{self, Line, Verdict, check};
use program::Manner;
use seat::Seat;

const N_RANKS: u32 = 2;
/// The first NCCL with [`Way::MultiRank`].
const MULTI_RANK: Version = Version { major: 2, minor: 30, patch: 0 };

/// What two ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Attempt,
    Crossing,
    Program(Manner),
    Lost,
}

impl Scenario {
    const ALL: [Self; 6] = [
        Self::Attempt,
        Self::Crossing,
        Self::Program(program::HOST),
        Self::Program(program::DEVICE),
        Self::Program(program::STREAM),
        Self::Lost,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::Crossing => "crossing",
            Self::Program(manner) => manner.tag,
            Self::Lost => "lost",
        }
    }

    /// How long both processes may take.
    const fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Attempt => 20,
            Self::Crossing => 20,
            Self::Program(_) => 25,
            Self::Lost => 15,
        })
    }

    /// What is proved beforehand, in the order of the ranks' fingerprints.
    fn certificates(self) -> Result<Vec<Certificate>> {
        match self {
            Self::Program(_) => Ok(vec![program::verified()?.certificate()]),
            Self::Attempt | Self::Crossing | Self::Lost => Ok(Vec::new()),
        }
    }
}

/// The part: finds a way, and has the ranks do everything by it.
pub(super) fn run(plan: Plan<'_>) -> Result<()> {
    let ways: &[Way] = if plan.ground == Ground::Emulator { &[Way::GpuEach] } else { &Way::ON_ONE_GPU };
    let mut found = None;
    for &way in ways {
        let name = format!("two ranks, {}", way.name());
        check(&name, || match found {
            Some(other) => Ok(Verdict::Skipped(format!("not needed: {} works", Way::name(other)))),
            None => attempt(plan, way, &mut found),
        })?;
    }
    let Some(way) = found else { return Ok(()) };
    tell::way(way.name())?;
    let all = Scenario::ALL.into_iter().filter(|scenario| !matches!(scenario, Scenario::Attempt | Scenario::Lost));
    for scenario in all {
        let ended = together(plan, way, scenario, |line| tell::again(&line))?;
        if let Some(why) = why_not(&ended, scenario) {
            check(&format!("{}, both processes", scenario.name()), || bail!("{why}"))?;
        }
    }
    check("the other rank is gone", || lost(plan, way))?;
    Ok(())
}

/// One rank's part.
pub(super) fn rank(plan: Plan<'_>) -> Result<()> {
    let scenario = std::env::var(seat::SCENARIO).unwrap_or_default();
    match Scenario::ALL.into_iter().find(|known| known.name() == scenario) {
        Some(Scenario::Attempt) => attempt::run(Seat::take(plan, &[], Vec::new())?),
        Some(Scenario::Crossing) => crossing::run(plan, Seat::take(plan, &[], Vec::new())?),
        Some(Scenario::Program(manner)) => program::run(plan, manner),
        Some(Scenario::Lost) => lost::run(Seat::take(plan, &[], Vec::new())?),
        None => bail!("{}: `{scenario}` is no scenario", seat::SCENARIO),
    }
}

/// Tries a way. That NCCL refuses it is no failure of ours, and is said to be so.
fn attempt(plan: Plan<'_>, way: Way, found: &mut Option<Way>) -> Result<Verdict> {
    if way == Way::MultiRank {
        let version = runtime_version()?;
        if version < MULTI_RANK {
            return Ok(Verdict::Skipped(format!("NCCL {version} has no such way; it came with {MULTI_RANK}")));
        }
    }
    let mut refusal = None;
    let ended = together(plan, way, Scenario::Attempt, |line| {
        if let Line::Refused(why) = line {
            refusal = Some(why);
        }
        Ok(())
    })?;
    if let Some(why) = refusal {
        return Ok(Verdict::Skipped(format!("refused: {why}")));
    }
    if let Some(why) = why_not(&ended, Scenario::Attempt) {
        bail!("{why}");
    }
    *found = Some(way);
    Ok(Verdict::Passed("a sum of both ranks came out right".to_owned()))
}

/// Rank 1 dies; rank 0 must say so in time.
fn lost(plan: Plan<'_>, way: Way) -> Result<Verdict> {
    let mut said = None;
    let ended = together(plan, way, Scenario::Lost, |line| {
        if let Line::Refused(why) = line {
            said = Some(why);
        }
        Ok(())
    })?;
    match (said, ended.first()) {
        (Some(said), Some(rank)) if rank.is_well() => Ok(Verdict::Passed(said)),
        (_, Some(rank)) => bail!("rank 0 does not tell in order that rank 1 is gone: {}", rank.why()),
        (_, None) => bail!("rank 0 was not started"),
    }
}

/// Starts both ranks, and listens to both until they end.
fn together(
    plan: Plan<'_>,
    way: Way,
    scenario: Scenario,
    mut hear: impl FnMut(Line) -> Result<()>,
) -> Result<Vec<Ended>> {
    let limit = scenario.limit();
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on the loopback")?;
    let secret = Secret::generate().context("cannot make a secret")?;
    let spec = HostSpec {
        n_ranks: N_RANKS,
        certificates: scenario.certificates()?,
        deadline: limit,
        heartbeat: seat::HEARTBEAT,
        secret: Some(secret.clone()),
        run_name: String::new(),
    };
    let host = Host::spawn(listener, spec)?;
    let start = Instant::now();
    let ranks = (0..N_RANKS).map(|rank| {
        let mut command = part_command(plan, super::PAIR_RANK)?;
        command.env(seat::RANK, rank.to_string()).env(seat::HOST, host.address().to_string());
        command.env(seat::SECRET, secret.to_hex()).env(seat::SCENARIO, scenario.name());
        way.tell(&mut command, rank);
        Running::start(&mut command)
    });
    let ranks = ranks.collect::<Result<Vec<_>>>()?;
    let mut ended = Vec::new();
    for running in ranks {
        let left = limit.saturating_sub(start.elapsed());
        ended.push(running.to_end(left, |text| Line::parse(text).map_or(Ok(()), &mut hear))?);
    }
    Ok(ended)
}

/// Why the processes did not do all of it, if so.
fn why_not(ended: &[Ended], scenario: Scenario) -> Option<String> {
    let bad = ended.iter().enumerate().find(|(_, ended)| !ended.is_well());
    bad.map(|(rank, ended)| format!("rank {rank} of the {}: {}", scenario.name(), ended.why()))
}
