//! A pipeline's program over the endpoint: pp 2, vp 2, interleaved, against a serial run, with messages of each size, on the host and
//! on the device, waited for here and by the stream.

use anyhow::{Context, Result};
use pp_comm::{Boundaries, Boundary, DType, Group, HandOver, Member, NcclSpec, StepReport, StepSpec, Waits, execute};
use pp_schedule::lower::lanes;
use pp_schedule::{CertifiedProgram, Rank, ScheduleConfig, ScheduleSpec, VerifiedProgram, verify};

use super::N_RANKS;
use super::memory::{Memory, OnDevice, OnHost};
use super::seat::{self, Seat};
use super::toy::Toy;
use crate::conduct::Plan;
use crate::parts::patterns::{SIZES, size_name};
use crate::report::{Ground, Outcome};
use crate::tell::{Verdict, check, figure};

const VP: u32 = 2;
const MICROBATCHES: u32 = 4;

/// What both ranks run.
pub(super) fn verified() -> Result<VerifiedProgram> {
    let config = ScheduleConfig::new(&ScheduleSpec::new(N_RANKS, VP, MICROBATCHES))?;
    Ok(verify(lanes::lower(&config))?)
}

/// A way to hand messages over and to wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// As it is told to a process.
    pub(super) tag: &'static str,
    name: &'static str,
    hand_over: HandOver,
    waits: Waits,
}

/// Messages on the host.
pub(super) const HOST: Manner =
    Manner { tag: "program-host", name: "on the host", hand_over: HandOver::Host, waits: Waits::OnHost };
/// Messages on the device, and the rank waits for each.
pub(super) const DEVICE: Manner = Manner {
    tag: "program-device",
    name: "on the device, waited for here",
    hand_over: HandOver::Device,
    waits: Waits::OnHost,
};
/// Messages on the device, and only the compute stream waits.
pub(super) const STREAM: Manner = Manner {
    tag: "program-stream",
    name: "on the device, waited for by the stream",
    hand_over: HandOver::Device,
    waits: Waits::OnStream,
};

pub(super) fn run(plan: Plan<'_>, manner: Manner) -> Result<()> {
    let verified = verified()?;
    let rank = Rank(seat::own_rank()?);
    let fingerprint = verified.certificate().fingerprints().get(rank.idx()).copied();
    let seat = Seat::take(plan, &verified.program().channels, fingerprint.into_iter().collect())?;
    let (memory, stream) = OnDevice::new(&seat.device)?;
    let spec = NcclSpec {
        allocator: memory.allocator(),
        hand_over: manner.hand_over,
        waits: manner.waits,
        ..NcclSpec::new(seat.device, stream)
    };
    let mut member = None;
    check(&format!("communicators of every channel, messages {}, rank {rank}", manner.name), || {
        member = Some(seat.joined.member.over_nccl(spec)?);
        Ok(Verdict::Passed(format!("{} channels", verified.program().channels.len())))
    })?;
    let Some(mut member) = member else { return Ok(()) };
    let program = verified.certified(rank);
    for (step, n_bytes) in (0..).zip(sizes(plan)) {
        let name = format!("pp {N_RANKS} vp {VP}, {}, messages {}, rank {rank}", size_name(n_bytes), manner.name);
        let outcome = check(&name, || {
            let pass = Pass { program: &program, step, n_bytes };
            match manner.hand_over {
                HandOver::Host => pass.run(&mut member, OnHost, manner),
                HandOver::Device => pass.run(&mut member, memory.clone(), manner),
            }
        })?;
        if outcome != Outcome::Passed {
            // The endpoint cannot be used any more.
            return Ok(());
        }
    }
    member.control.barrier()?;
    member.close();
    Ok(())
}

fn sizes(plan: Plan<'_>) -> impl Iterator<Item = usize> {
    let most = if plan.ground == Ground::Emulator { 1 << 20 } else { usize::MAX };
    SIZES.into_iter().filter(move |&n_bytes| n_bytes <= most)
}

/// A step.
struct Pass<'a> {
    program: &'a CertifiedProgram,
    step: u64,
    n_bytes: usize,
}

impl Pass<'_> {
    fn run<M: Memory>(&self, member: &mut Member, memory: M, manner: Manner) -> Result<Verdict> {
        let n_elements = self.n_bytes / size_of::<i64>();
        let rank = member.endpoint.rank();
        let group = Group::all(N_RANKS, rank).context("it is one of the ranks")?;
        let boundaries = Boundaries::same(Boundary::new(DType::I64, &[n_elements])?);
        let mut toy = Toy::new(memory, N_RANKS * VP, n_elements);
        let spec = StepSpec { step: self.step, group: &group, boundaries: &boundaries };
        let report = execute(self.program, spec, &mut member.endpoint, &mut toy).map_err(|error| {
            let fault = error.fault.to_string();
            anyhow::Error::from(error).context(fault)
        })?;
        let n_compared = toy.compare(MICROBATCHES)?;
        if rank.0 == 0 {
            self.tell(&report, manner)?;
        }
        Ok(Verdict::Passed(format!(
            "{n_compared} values as in a serial run, {:.1} ms",
            1e3 * report.total.as_secs_f64()
        )))
    }

    /// What a step of stages that hardly compute takes, and how much of it is waiting.
    fn tell(&self, report: &StepReport, manner: Manner) -> Result<()> {
        let name = |what: &str| format!("{what}, {}, messages {}", size_name(self.n_bytes), manner.name);
        let how = format!(
            "rank 0's report of one step, pp {N_RANKS} vp {VP}, {MICROBATCHES} microbatches, toy stages, one GPU"
        );
        let total = report.total.as_secs_f64();
        figure(&name("step of toy stages"), 1e3 * total, "ms", &how)?;
        if manner.waits == Waits::OnHost {
            let exposed = (report.wait_send + report.wait_receive + report.post).as_secs_f64() / total;
            figure(&name("communication exposed"), exposed, "1", &how)?;
        }
        Ok(())
    }
}
