//! What a step holds: as many bytes of messages as its program says, and what is sent until its send is complete.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use pp_comm::{Buffer, Group, Member, StageCompute, StepSpec, Task, execute};
use pp_schedule::{
    Microbatch, Rank, RankProgram, Role, ScheduleConfig, ScheduleKind, ScheduleSpec, Slot, SlotClass, Step,
    VerifiedProgram, lower::lanes, verify,
};

use crate::common::{Kind, run};
use crate::toy::{Outcome, Toy, serial};

/// The most bytes that the buffers of a rank's program take at once, by its slots alone.
pub(crate) fn predicted(program: &RankProgram, n_bytes: impl Fn(Microbatch) -> u64) -> u64 {
    let (mut live, mut peak) = (BTreeMap::<Slot, u64>::new(), 0);
    for step in program.steps() {
        let mut taken = Vec::new();
        let mut given_up = None;
        match step {
            Step::Compute(compute) => {
                taken.extend(compute.output.map(|slot| (slot, n_bytes(compute.work.microbatch))));
                given_up = compute.input;
            }
            Step::Post(_, transfers) => {
                let receives = transfers.iter().filter(|transfer| transfer.role == Role::Receive);
                taken.extend(receives.map(|transfer| (transfer.slot, n_bytes(transfer.message.microbatch))));
            }
            Step::Wait(_, transfer) if transfer.role == Role::Send => {
                given_up = transfer.releases.then_some(transfer.slot);
            }
            Step::Wait(..) => {}
            Step::Free(slot) => given_up = Some(slot),
            Step::Mark(_) => {}
        }
        live.extend(taken);
        peak = peak.max(live.values().sum());
        if let Some(slot) = given_up {
            live.remove(&slot);
        }
    }
    peak
}

/// More memory than a connection buffers.
const LARGE: usize = 1 << 20;

/// The first of two stages, and the second one's late start.
struct Sender<'a> {
    toy: Toy,
    n_slots: usize,
    /// Passed once the sender has filled every slot that it has.
    full: &'a Barrier,
    receives: &'a AtomicBool,
}

impl StageCompute for Sender<'_> {
    type Error = Infallible;

    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        let microbatch = task.work.microbatch.idx();
        let receives = self.receives.load(Ordering::SeqCst);
        assert!(microbatch < self.n_slots || receives, "a buffer was given up before its send was complete");
        let made = self.toy.forward(task, input);
        if microbatch + 1 == self.n_slots {
            assert!(!receives, "so far nobody was there to send to");
            self.full.wait();
        }
        made
    }

    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.toy.backward(task, gradient)
    }

    fn backward_input(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        self.toy.backward_input(task, gradient)
    }

    fn backward_weight(&mut self, task: Task) -> Result<(), Infallible> {
        self.toy.backward_weight(task)
    }
}

fn run_to_a_late_receiver(kind: Kind, verified: &VerifiedProgram) {
    let n_slots = verified.program().ranks[0].n_slots(SlotClass::Send);
    let extent = verified.program().extent;
    assert!(n_slots > 0 && (n_slots as u32) < extent.microbatches, "there are buffers to be used again");
    let (full, receives) = (Barrier::new(2), AtomicBool::new(false));
    let step = |mut member: Member| {
        let rank = member.endpoint.rank();
        let group = Group::all(2, rank).expect("one of the two");
        let boundaries = Toy::boundaries(&[LARGE], extent.microbatches);
        let spec = StepSpec { step: 0, group: &group, boundaries: &boundaries };
        let (certified, toy) = (verified.certified(rank), Toy::with_lens(2, &[LARGE]));
        let outcome = if rank == Rank(0) {
            let mut sender = Sender { toy, n_slots, full: &full, receives: &receives };
            execute(&certified, spec, &mut member.endpoint, &mut sender).expect("it runs");
            sender.toy.outcome
        } else {
            full.wait();
            receives.store(true, Ordering::SeqCst);
            let mut toy = toy;
            execute(&certified, spec, &mut member.endpoint, &mut toy).expect("it runs");
            toy.outcome
        };
        member.close();
        outcome
    };
    let outcomes = run(kind, 2, &verified.program().channels, step);
    assert_eq!(Outcome::merged(outcomes), serial(2, extent.microbatches, false), "{kind:?}");
}

/// The receiver starts only once the sender has made all that it has room for. Nothing may be made into a buffer before, and
/// nothing that arrives may have been overwritten, not even where connections could hold it.
#[test]
fn a_buffer_is_used_again_only_once_its_send_is_complete() {
    let spec = ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(2, 1, 6) };
    let config = ScheduleConfig::new(&spec).expect("a valid schedule");
    let verified = verify(lanes::lower(&config)).expect("it is sound");
    for kind in [Kind::Memory(0), Kind::Socket, Kind::Shm] {
        run_to_a_late_receiver(kind, &verified);
    }
}
