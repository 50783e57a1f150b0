//! Programs in groups of a run's ranks: pipelines side by side, and pipelines whose messages differ in length.

use std::time::Duration;

use pp_comm::{CommError, ExecFault, Group, Member, StepSpec, agree, execute};
use pp_schedule::lower::Policy;
use pp_schedule::lower::megatron::{Issue, Overlap};
use pp_schedule::{Channel, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, VerifiedProgram, verify};

use crate::common::{Kind, meeting, run};
use crate::memory::predicted;
use crate::toy::{Outcome, Toy, serial};

const KINDS: [Kind; 4] = [Kind::Memory(0), Kind::Memory(1), Kind::Socket, Kind::Shm];

/// A program, the ranks of the run that execute it, and how long its messages are.
struct Pipeline {
    verified: VerifiedProgram,
    ranks: Vec<Rank>,
    lens: Vec<usize>,
}

impl Pipeline {
    fn new(spec: &ScheduleSpec, policy: Policy, ranks: &[u32], lens: &[usize]) -> Self {
        let config = ScheduleConfig::new(spec).expect("a valid schedule");
        let verified = verify(policy.lower(&config).expect("the policy takes it")).expect("it is sound");
        Self { verified, ranks: ranks.iter().copied().map(Rank).collect(), lens: lens.to_vec() }
    }

    fn group(&self, me: Rank) -> Option<Group> {
        Group::new(7, self.ranks.clone(), me)
    }

    /// Its channels in the run.
    fn channels(&self) -> impl Iterator<Item = Channel> {
        let group = self.group(self.ranks[0]).expect("the first of them");
        let channels = self.verified.program().channels.iter();
        channels.map(move |&channel| group.channel(channel).expect("as many ranks as the program has"))
    }

    fn n_stages(&self) -> u32 {
        self.verified.program().extent.placement.n_stages()
    }

    fn microbatches(&self) -> u32 {
        self.verified.program().extent.microbatches
    }

    fn serial(&self) -> Outcome {
        serial(self.n_stages(), self.microbatches(), false)
    }

    /// Two steps, the boundaries of each told by the first rank.
    fn work(&self, member: &mut Member) -> Outcome {
        let group = self.group(member.endpoint.rank()).expect("one of its ranks");
        let program = self.verified.certified(Rank(group.place() as u32));
        // What the others would have is not what counts.
        let lens = if group.place() == 0 { self.lens.as_slice() } else { &[1] };
        let boundaries = Toy::boundaries(lens, self.microbatches());
        let mut outcomes = [5, 6].map(|step| {
            let spec = StepSpec { step, group: &group, boundaries: &boundaries };
            let agreed = agree(&program, spec, &mut member.endpoint).expect("all agree");
            assert_eq!(agreed, Toy::boundaries(&self.lens, self.microbatches()));
            let mut toy = Toy::with_lens(self.n_stages(), &self.lens);
            let spec = StepSpec { boundaries: &agreed, ..spec };
            let report = execute(&program, spec, &mut member.endpoint, &mut toy).expect("it runs");
            let n_bytes = |microbatch| agreed.of(microbatch).expect("it has one").n_bytes() as u64;
            assert_eq!(report.peak_bytes(), predicted(program.program(), n_bytes));
            toy.outcome
        });
        assert_eq!(outcomes[0], outcomes[1]);
        std::mem::take(&mut outcomes[0])
    }
}

/// Each pipeline computes what it would alone.
fn side_by_side(kind: Kind, n_ranks: u32, pipelines: &[Pipeline]) {
    let channels: Vec<Channel> = pipelines.iter().flat_map(Pipeline::channels).collect();
    let outcomes = run(kind, n_ranks, &channels, |mut member| {
        let rank = member.endpoint.rank();
        let mine = pipelines.iter().position(|pipeline| pipeline.ranks.contains(&rank)).expect("every rank is in one");
        let outcome = pipelines[mine].work(&mut member);
        member.control.barrier().expect("all are done");
        member.close();
        (mine, outcome)
    });
    for (index, pipeline) in pipelines.iter().enumerate() {
        let parts = outcomes.iter().filter(|(of, _)| *of == index).map(|(_, outcome)| outcome.clone());
        assert_eq!(Outcome::merged(parts), pipeline.serial(), "pipeline {index} of {kind:?}");
    }
}

/// As a mesh with two data-parallel replicas lays them out: rank 0 and 2, rank 1 and 3. Different programs over channels that
/// are alike, messages of other lengths: whatever went to the wrong pipeline would be refused or compute something else.
#[test]
fn two_pipelines_in_one_run_do_not_mix() {
    let gpipe = ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(2, 1, 6) };
    for (one, other) in [
        ((gpipe.clone(), Policy::Lanes), (ScheduleSpec::new(2, 1, 5), Policy::Stagger)),
        ((ScheduleSpec::new(2, 1, 4), Policy::Megatron(Issue::Batched, Overlap::Off)), (gpipe, Policy::Lanes)),
        (
            (ScheduleSpec::new(2, 2, 4), Policy::Megatron(Issue::EvenOdd, Overlap::Steady)),
            (ScheduleSpec::new(2, 3, 4), Policy::Lanes),
        ),
    ] {
        for kind in KINDS {
            let pipelines =
                [Pipeline::new(&one.0, one.1, &[0, 2], &[3]), Pipeline::new(&other.0, other.1, &[3, 1], &[4, 2])];
            side_by_side(kind, 4, &pipelines);
        }
    }
}

/// Forward and backward together over two ranks that are each other's next and previous, no two microbatches alike.
#[test]
fn microbatches_of_different_lengths_agree_beforehand() {
    let lens = [5, 7, 3, 9];
    for (pp, vp) in [(1, 2), (2, 2), (3, 1), (4, 3)] {
        let spec = ScheduleSpec::new(pp, vp, 4 * pp);
        let config = ScheduleConfig::new(&spec).expect("a valid schedule");
        let ranks: Vec<u32> = (0..pp).collect();
        let policies = Policy::ALL.into_iter().map(|(_, policy)| policy);
        let taken: Vec<Policy> = policies.filter(|policy| policy.check(&config).is_ok()).collect();
        assert!(taken.len() >= 4, "pp {pp}, vp {vp}: {taken:?}");
        for (policy, kind) in taken.into_iter().flat_map(|policy| KINDS.map(|kind| (policy, kind))) {
            side_by_side(kind, pp, &[Pipeline::new(&spec, policy, &ranks, &lens)]);
        }
    }
}

#[test]
fn a_microbatch_without_a_boundary_is_refused_and_the_others_are_told() {
    let pipeline = Pipeline::new(&ScheduleSpec::new(3, 1, 4), Policy::Lanes, &[0, 1, 2], &[1]);
    let channels: Vec<Channel> = pipeline.channels().collect();
    run(Kind::Memory(0), 3, &channels, |mut member| {
        let group = pipeline.group(member.endpoint.rank()).expect("one of its ranks");
        let program = pipeline.verified.certified(group.me());
        let boundaries = Toy::boundaries(&[1], 3);
        let spec = StepSpec { step: 0, group: &group, boundaries: &boundaries };
        let error = agree(&program, spec, &mut member.endpoint).expect_err("one is missing");
        match group.place() {
            0 => assert!(error.to_string().contains("no boundary was given for microbatch 3"), "{error}"),
            _ => assert!(matches!(error, CommError::PeerLost { rank: Rank(0), .. }), "{error}"),
        }
    });
}

/// In messages, ranks are those of the run.
#[test]
fn what_goes_wrong_in_a_pipeline_names_ranks_of_the_run() {
    let pipeline = Pipeline::new(&ScheduleSpec::new(2, 1, 2), Policy::Lanes, &[3, 1], &[1]);
    let channels: Vec<Channel> = pipeline.channels().collect();
    let over = meeting(4);
    run(Kind::Memory(0), 4, &channels, |mut member| {
        if member.endpoint.rank() == Rank(1) {
            member.endpoint.set_deadline(Duration::from_millis(100));
            let group = pipeline.group(Rank(1)).expect("one of its ranks");
            let boundaries = Toy::boundaries(&[1], 2);
            let spec = StepSpec { step: 0, group: &group, boundaries: &boundaries };
            let mut toy = Toy::new(2);
            let error = execute(&pipeline.verified.certified(Rank(1)), spec, &mut member.endpoint, &mut toy);
            let error = error.expect_err("nobody sends");
            assert_eq!((error.rank, error.peer), (Rank(1), Some(Rank(3))));
            assert_eq!(error.action, "wait: receive from rank 3 the activation of microbatch 0 for stage 1");
            assert!(error.last_done.as_ref().is_some_and(|done| done.contains("from rank 3")), "{error}");
            let ExecFault::Comm(CommError::Deadline { operation, .. }) = *error.fault else { panic!("{error}") };
            assert_eq!(operation.channel.source, Rank(3));
        }
        over.wait();
    });
}
