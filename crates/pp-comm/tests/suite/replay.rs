//! Megatron's own sequences of calls, replayed over the point-to-point methods, against a serial reference.

use std::collections::BTreeMap;

use pp_comm::mesh::{Axis, Mesh};
use pp_comm::p2p::{Contents, Item, Outgoing, Part, RecvHandle, RingComm, RingSpec, SendHandle, Tag};
use pp_comm::{Boundary, Buffer, DType, Endpoint};
use pp_schedule::lower::megatron::{self, Event, Issue, Method, Op, OpKind, Options, Overlap};
use pp_schedule::{Channel, Chunk, Microbatch, Rank, ScheduleConfig, ScheduleSpec, Stage};

use crate::common::{EVERY, Kind, run};

const LENGTHS: [usize; 4] = [5, 7, 3, 9];

/// As many elements as a microbatch's sequence is long.
fn data(microbatch: u32) -> Vec<i64> {
    let len = LENGTHS[microbatch as usize % LENGTHS.len()];
    (0..len as i64).map(|index| 100 * i64::from(microbatch) + index).collect()
}

fn forward(stage: u32, x: &[i64]) -> Vec<i64> {
    x.iter().map(|x| x.wrapping_mul(2 * i64::from(stage) + 3)).collect()
}

fn loss_gradient(y: &[i64]) -> Vec<i64> {
    y.iter().map(|y| y.wrapping_mul(5).wrapping_add(1)).collect()
}

/// The gradient of a stage's input, and what goes into that of its weight.
fn backward(stage: u32, x: &[i64], gradient: &[i64]) -> (Vec<i64>, i64) {
    let weight = x.iter().zip(gradient).fold(0_i64, |sum, (x, g)| sum.wrapping_add(x.wrapping_mul(*g)));
    (forward(stage, gradient), weight)
}

/// By stage: the gradients of the weights.
fn serial(n_stages: u32, microbatches: u32) -> BTreeMap<u32, i64> {
    let mut weights = BTreeMap::new();
    for microbatch in 0..microbatches {
        let mut inputs = vec![data(microbatch)];
        for stage in 0..n_stages {
            inputs.push(forward(stage, &inputs[stage as usize]));
        }
        let mut gradient = loss_gradient(&inputs[n_stages as usize]);
        for stage in (0..n_stages).rev() {
            let (next, weight) = backward(stage, &inputs[stage as usize], &gradient);
            let sum = weights.entry(stage).or_insert(0_i64);
            *sum = sum.wrapping_add(weight);
            gradient = next;
        }
    }
    weights
}

type Key = (Chunk, Microbatch);

/// A rank that does what a trace says.
struct Replay<'a> {
    ring: RingComm,
    endpoint: &'a mut Endpoint,
    config: &'a ScheduleConfig,
    /// The place in the pipeline.
    place: Rank,
    made: [BTreeMap<Key, Vec<i64>>; 2],
    arrived: [BTreeMap<Key, Vec<i64>>; 2],
    inputs: BTreeMap<Key, Vec<i64>>,
    weights: BTreeMap<u32, i64>,
    sends: Vec<(Op, SendHandle)>,
    receives: Vec<(Op, RecvHandle)>,
}

impl Replay<'_> {
    fn stage(&self, chunk: Chunk) -> Stage {
        self.config.placement().stage_of(self.place, chunk)
    }

    fn tag(&self, op: Op) -> Tag {
        Tag { step: 9, stage: self.stage(op.chunk), microbatch: op.microbatch }
    }

    /// Two items: the tensor, and an integer that says whose it is.
    fn items(&self, op: Op, values: Vec<i64>) -> Vec<Item> {
        let whose = i64::from(self.stage(op.chunk).0) * 1000 + i64::from(op.microbatch.0);
        vec![Item::Tensor(Buffer::i64(&[values.len()], values).expect("as long as it is")), Item::Integer(whose)]
    }

    fn keep(&mut self, op: Op, items: Vec<Item>) {
        let [Item::Tensor(tensor), Item::Integer(whose)] = <[Item; 2]>::try_from(items).expect("two items") else {
            panic!("a tensor and an integer were sent");
        };
        let stage = self.stage(op.chunk).0;
        let from = if op.kind == OpKind::ReceivePrevious { stage - 1 } else { stage + 1 };
        assert_eq!(whose, i64::from(from) * 1000 + i64::from(op.microbatch.0));
        let index = usize::from(op.kind == OpKind::ReceiveNext);
        self.arrived[index].insert((op.chunk, op.microbatch), tensor.into_i64().expect("agreed"));
    }

    fn outgoing(&mut self, op: Option<Op>) -> Option<Outgoing> {
        let op = op?;
        let index = usize::from(op.kind == OpKind::SendPrevious);
        let values = self.made[index].remove(&(op.chunk, op.microbatch)).expect("it was made");
        Some(Outgoing { tag: self.tag(op), items: self.items(op, values) })
    }

    fn call(&mut self, method: Method, ops: &[Op], early: bool) {
        let of = |kind| ops.iter().copied().find(|op| op.kind == kind);
        let receives = [of(OpKind::ReceivePrevious), of(OpKind::ReceiveNext)];
        let tags = receives.map(|op| op.map(|op| self.tag(op)));
        let (output, gradient) = (self.outgoing(of(OpKind::SendNext)), self.outgoing(of(OpKind::SendPrevious)));
        if early {
            return self.call_early(method, ops, (output, gradient), tags);
        }
        let (ring, endpoint, [forward, backward]) = (&mut self.ring, &mut *self.endpoint, tags);
        // A call that Megatron makes for nothing at an end of the pipeline has no operand here.
        let arrived = match (method, output, gradient) {
            (Method::RecvForward, ..) => {
                [forward.and_then(|tag| ring.recv_forward(endpoint, tag).expect("received")), None]
            }
            (Method::RecvBackward, ..) => {
                [None, backward.and_then(|tag| ring.recv_backward(endpoint, tag).expect("received"))]
            }
            (Method::SendForward, output, _) => {
                output.into_iter().for_each(|output| ring.send_forward(endpoint, output).expect("sent"));
                [None, None]
            }
            (Method::SendBackward, _, gradient) => {
                gradient.into_iter().for_each(|gradient| ring.send_backward(endpoint, gradient).expect("sent"));
                [None, None]
            }
            (Method::SendForwardRecvBackward, Some(output), _) => {
                let tag = backward.expect("whoever sends an output gets its gradient");
                [None, ring.send_forward_recv_backward(endpoint, output, tag).expect("exchanged")]
            }
            (Method::SendBackwardRecvForward, _, Some(gradient)) => {
                let tag = forward.expect("whoever sends a gradient gets another input");
                [ring.send_backward_recv_forward(endpoint, gradient, tag).expect("exchanged"), None]
            }
            (Method::SendForwardRecvForward, output, _) => {
                [ring.send_forward_recv_forward(endpoint, output, forward).expect("exchanged"), None]
            }
            (Method::SendBackwardRecvBackward, _, gradient) => {
                [None, ring.send_backward_recv_backward(endpoint, gradient, backward).expect("exchanged")]
            }
            (Method::SendBothRecvBoth, output, gradient) => {
                let (sends, receives) = ((output, gradient), (forward, backward));
                let exchanged = ring.send_forward_backward_recv_forward_backward(endpoint, sends, receives);
                exchanged.expect("exchanged")
            }
            (Method::SendForwardRecvBackward | Method::SendBackwardRecvForward, ..) => [None, None],
        };
        for (op, items) in receives.into_iter().zip(arrived) {
            assert_eq!(op.is_some(), items.is_some());
            op.zip(items).into_iter().for_each(|(op, items)| self.keep(op, items));
        }
    }

    fn call_early(
        &mut self,
        method: Method,
        ops: &[Op],
        (output, gradient): (Option<Outgoing>, Option<Outgoing>),
        [forward, backward]: [Option<Tag>; 2],
    ) {
        let started = match method {
            Method::SendForwardRecvForward => self.ring.start_send_forward_recv_forward(self.endpoint, output, forward),
            Method::SendBackwardRecvBackward => {
                self.ring.start_send_backward_recv_backward(self.endpoint, gradient, backward)
            }
            _ => panic!("{method:?} never returns early"),
        };
        let started = started.expect("started");
        let is_send = |op: &&Op| matches!(op.kind, OpKind::SendNext | OpKind::SendPrevious);
        self.sends.extend(ops.iter().copied().find(|op| is_send(&op)).zip(started.send));
        self.receives.extend(ops.iter().copied().find(|op| !is_send(&op)).zip(started.receive));
    }

    fn wait(&mut self, op: Op) {
        if let Some(at) = self.sends.iter().position(|(of, _)| *of == op) {
            self.ring.wait_send(self.endpoint, self.sends.remove(at).1).expect("sent");
        } else {
            let at = self.receives.iter().position(|(of, _)| *of == op).expect("it was started");
            let items = self.ring.wait_receive(self.endpoint, self.receives.remove(at).1).expect("received");
            self.keep(op, items);
        }
    }

    fn forward(&mut self, key: Key) {
        let stage = self.stage(key.0).0;
        let x = if stage == 0 { data(key.1.0) } else { self.arrived[0].remove(&key).expect("it arrived") };
        let y = forward(stage, &x);
        self.inputs.insert(key, x);
        let last = stage + 1 == self.config.placement().n_stages();
        // The loss is its own gradient's origin.
        let (place, key) = if last { (&mut self.arrived[1], key) } else { (&mut self.made[0], key) };
        place.insert(key, if last { loss_gradient(&y) } else { y });
    }

    fn backward(&mut self, key: Key) {
        let stage = self.stage(key.0).0;
        let (x, gradient) = (self.inputs.remove(&key), self.arrived[1].remove(&key));
        let (next, weight) = backward(stage, &x.expect("a forward"), &gradient.expect("it arrived"));
        let sum = self.weights.entry(stage).or_insert(0);
        *sum = sum.wrapping_add(weight);
        if stage > 0 {
            self.made[1].insert(key, next);
        }
    }

    fn run(mut self, events: &[Event]) -> BTreeMap<u32, i64> {
        for event in events {
            match event {
                Event::Forward(chunk, microbatch, _) => self.forward((*chunk, *microbatch)),
                Event::Backward(chunk, microbatch) => self.backward((*chunk, *microbatch)),
                Event::Call(method, ops, early) => self.call(*method, ops, *early),
                Event::Wait(op) => self.wait(*op),
                Event::Free(_) | Event::Phase(_) | Event::Mark(_) => {}
            }
        }
        for (_, send) in std::mem::take(&mut self.sends) {
            self.ring.wait_send(self.endpoint, send).expect("sent");
        }
        assert!(self.receives.is_empty() && self.inputs.is_empty() && self.made.iter().all(BTreeMap::is_empty));
        self.weights
    }
}

/// Both pipelines of a mesh with two, or the only one; shapes agreed where all are alike, else sent ahead.
fn check(kind: Kind, config: &ScheduleConfig, options: Options, n_pipelines: u32) {
    let (pp, placement) = (config.pp(), config.placement());
    let mesh = Mesh::new(1, n_pipelines, pp).expect("a small mesh");
    let group = |rank| mesh.group(Axis::Pipeline, rank).expect("every rank is in one");
    let channels: Vec<Channel> = (0..n_pipelines).flat_map(|first| group(Rank(first)).ring_channels()).collect();
    let bound = Boundary::new(DType::I64, &[9]).expect("a small shape");
    let contents = Contents::up_to(vec![Part::Tensor(bound), Part::Integer]);
    let outcomes = run(kind, mesh.n_ranks(), &channels, |mut member| {
        let group = group(member.endpoint.rank());
        let place = Rank(group.place() as u32);
        let (issue, overlap) = (options.issue, options.overlap);
        let (forward, backward) = (contents.clone(), contents.clone());
        let ring = RingComm::new(RingSpec { group, placement, issue, overlap, forward, backward }).expect("a ring");
        let (program, view) = megatron::trace(config, options, place).expect("Megatron runs it");
        let replay = Replay {
            ring,
            endpoint: &mut member.endpoint,
            config,
            place,
            made: Default::default(),
            arrived: Default::default(),
            inputs: BTreeMap::new(),
            weights: BTreeMap::new(),
            sends: Vec::new(),
            receives: Vec::new(),
        };
        let weights = replay.run(&view.events(&program));
        member.control.barrier().expect("all are done");
        member.close();
        weights
    });
    let expected = serial(placement.n_stages(), config.microbatches());
    let mut found = BTreeMap::new();
    for weights in outcomes {
        for (stage, weight) in weights {
            let first = found.entry(stage).or_insert(weight);
            assert_eq!(*first, weight, "{kind:?}, {config:?}, {options:?}: pipelines differ at stage {stage}");
        }
    }
    assert_eq!(found, expected, "{kind:?}, {config:?}, {options:?}");
}

fn ways() -> Vec<Options> {
    let ways = [
        (Issue::Batched, Overlap::Off),
        (Issue::EvenOdd, Overlap::Off),
        (Issue::Ring, Overlap::Off),
        (Issue::EvenOdd, Overlap::Steady),
        (Issue::EvenOdd, Overlap::WarmupFlush),
    ];
    ways.map(|(issue, overlap)| Options { issue, overlap, ..Options::default() }).to_vec()
}

/// Two ranks are each other's next and previous: sequences of 5, 7, 3 and 9, both directions at once. Issued in
/// batches, this is where one channel per pair of ranks mispairs activations and gradients.
#[test]
fn two_ranks_with_two_chunks_and_other_lengths_each_time_pair_every_message() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(2, 2, 4)).expect("a valid schedule");
    for (kind, options) in EVERY.into_iter().flat_map(|kind| ways().into_iter().map(move |options| (kind, options))) {
        check(kind, &config, options, 1);
    }
}

/// Every shape of Megatron's schedules, every way to issue and to wait, one pipeline and two side by side.
#[test]
fn megatrons_calls_compute_what_a_serial_run_does() {
    let mut n_checked = 0;
    for (pp, vp) in (2..=4).flat_map(|pp| (1..=3).map(move |vp| (pp, vp))) {
        for microbatches in [pp, 2 * pp, 2 * pp + 1] {
            let spec = ScheduleSpec {
                group_size: (vp > 1 && microbatches > 2 * pp).then_some(microbatches),
                ..ScheduleSpec::new(pp, vp, microbatches)
            };
            let config = ScheduleConfig::new(&spec).expect("a valid schedule");
            for options in ways() {
                // What Megatron refuses is not tried; a batch over two ranks it would run, and so do these.
                if (0..pp).any(|rank| megatron::trace(&config, options, Rank(rank)).is_err()) {
                    continue;
                }
                // Connections take their time to be made.
                let kinds = if microbatches == 2 * pp {
                    &[Kind::Memory(0), Kind::Memory(1), Kind::Socket][..]
                } else {
                    &[Kind::Memory(0)]
                };
                for &kind in kinds {
                    check(kind, &config, options, if kind == Kind::Socket { 1 } else { 2 });
                    n_checked += 1;
                }
            }
        }
    }
    assert!(n_checked > 150, "{n_checked}");
}
