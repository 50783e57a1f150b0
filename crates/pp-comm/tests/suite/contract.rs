//! HyperParallel's step contract, against the same model on the whole batch at once.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;

use pp_comm::contract::{Batch, ContractError, ContractSpec, PipelineStep, Schedule, StageModule, StepOutcome};
use pp_comm::mesh::{Axis, Mesh};
use pp_comm::p2p::Item;
use pp_comm::{Boundary, Buffer, DType, Endpoint, Group, Member};
use pp_schedule::{Channel, Microbatch, Rank, SlotClass, Stage};

use crate::common::{ALL, Kind, PATIENCE, run};

const COLUMNS: usize = 2;

/// Stage `s` multiplies by a weight; the last one compares with targets: `mean over rows of |y - t|^2 / 2`, times an integer. All
/// numbers are such that nothing is rounded, so that results are equal to the bit however they are cut.
struct Toy {
    stage: u32,
    weight: f64,
    gradient: f64,
    /// How many of what forwards left are alive, now and at most.
    live: Rc<Cell<[usize; 2]>>,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    Loss,
    Gradient,
    Average,
}

#[derive(Debug, thiserror::Error)]
#[error("out of luck")]
struct OutOfLuck;

/// What a forward leaves: its input and, on the last stage, the gradient of the loss by its output.
struct Saved {
    x: Vec<f64>,
    loss_gradient: Option<Vec<f64>>,
    live: Rc<Cell<[usize; 2]>>,
}

impl Drop for Saved {
    fn drop(&mut self) {
        let [live, peak] = self.live.get();
        self.live.set([live - 1, peak]);
    }
}

impl Toy {
    fn new(stage: u32) -> Self {
        let weight = [1.5, 2.0, -0.5, 3.0][stage as usize % 4];
        Self { stage, weight, gradient: 0.0, live: Rc::default(), fault: Fault::None }
    }
}

fn matrix(values: Vec<f64>) -> Buffer {
    Buffer::f64(&[values.len() / COLUMNS, COLUMNS], values).expect("whole rows")
}

fn values(item: &Item) -> &[f64] {
    let Item::Tensor(tensor) = item else { panic!("a tensor was given") };
    tensor.as_f64().expect("f64")
}

impl StageModule for Toy {
    type Error = OutOfLuck;
    type Saved = Saved;

    fn forward(&mut self, inputs: Vec<Item>, activation: Option<Buffer>) -> Result<(Buffer, Saved), OutOfLuck> {
        let x = match activation {
            Some(activation) => activation.into_f64().expect("agreed"),
            None => values(&inputs[0]).to_vec(),
        };
        let y: Vec<f64> = x.iter().map(|x| x * self.weight).collect();
        // The last stage owns the last two inputs.
        let (made, loss_gradient) = match &inputs[..] {
            [.., targets, Item::Integer(scale)] => {
                let (targets, scale) = (values(targets), *scale as f64);
                let rows = (y.len() / COLUMNS) as f64;
                let error: Vec<f64> = y.iter().zip(targets).map(|(y, t)| y - t).collect();
                let loss = scale * error.iter().map(|e| e * e).sum::<f64>() / 2.0 / rows;
                let loss = Buffer::f64(&[], vec![loss]).expect("a scalar");
                (loss, Some(error.iter().map(|e| scale * e / rows).collect()))
            }
            _ => (matrix(y.clone()), None),
        };
        let made = if self.fault == Fault::Loss { matrix(y) } else { made };
        let [live, peak] = self.live.get();
        self.live.set([live + 1, peak.max(live + 1)]);
        Ok((made, Saved { x, loss_gradient, live: Rc::clone(&self.live) }))
    }

    fn backward(&mut self, saved: Saved, gradient: Buffer) -> Result<Option<Buffer>, OutOfLuck> {
        let seed = gradient.into_f64().expect("agreed");
        let of_output = match &saved.loss_gradient {
            Some(of_loss) => of_loss.iter().map(|g| g * seed[0]).collect(),
            None => seed,
        };
        self.gradient += saved.x.iter().zip(&of_output).map(|(x, g)| x * g).sum::<f64>();
        let of_input = of_output.iter().map(|g| g * self.weight).collect();
        let gives = (self.stage > 0) != (self.fault == Fault::Gradient);
        Ok(gives.then(|| matrix(of_input)))
    }

    fn average_gradients(&mut self, microbatches: u32) -> Result<(), OutOfLuck> {
        if self.fault == Fault::Average {
            return Err(OutOfLuck);
        }
        self.gradient /= f64::from(microbatches);
        Ok(())
    }
}

/// Samples for stage 0, one tensor that nobody looks at, targets and a scale for the last stage.
fn inputs(rows: usize) -> Vec<Item> {
    let column =
        |seed: usize| matrix((0..rows * COLUMNS).map(|index| ((index * 7 + seed * 3) % 11) as f64 / 4.0).collect());
    vec![Item::Tensor(column(0)), Item::Tensor(column(1)), Item::Tensor(column(2)), Item::Integer(4)]
}

fn owners(n_stages: u32) -> Vec<Stage> {
    let last = n_stages - 1;
    vec![Stage(0), Stage(last / 2), Stage(last), Stage(last)]
}

fn spec(schedule: Schedule, group: Group, microbatch_size: usize) -> ContractSpec {
    let owners = owners(group.n_ranks() as u32);
    let boundary = Boundary::new(DType::F64, &[microbatch_size, COLUMNS]).expect("a small shape");
    ContractSpec { schedule, group, microbatch_size, owners, boundary }
}

/// The loss and the gradient by stage, of all rows at once on one rank.
fn whole(n_stages: u32, rows: usize) -> (f64, Vec<f64>) {
    let inputs = inputs(rows);
    let mut stages: Vec<Toy> = (0..n_stages).map(Toy::new).collect();
    let mut saved = Vec::new();
    let mut activation = None;
    for (stage, toy) in stages.iter_mut().enumerate() {
        let owned = inputs.iter().zip(owners(n_stages)).filter(|(_, owner)| owner.idx() == stage);
        let (made, kept) = toy.forward(owned.map(|(item, _)| item.clone()).collect(), activation).expect("no fault");
        saved.push(kept);
        activation = Some(made);
    }
    let loss = activation.expect("of the last stage").into_f64().expect("f64")[0];
    let mut gradient = Buffer::f64(&[], vec![1.0]).expect("a scalar");
    for (toy, saved) in stages.iter_mut().zip(saved).rev() {
        match toy.backward(saved, gradient).expect("no fault") {
            Some(next) => gradient = next,
            None => break,
        }
    }
    (loss, stages.iter().map(|toy| toy.gradient).collect())
}

fn step(pipeline: &mut PipelineStep, endpoint: &mut Endpoint, number: u64, rows: usize, toy: &mut Toy) -> StepOutcome {
    pipeline.run(endpoint, number, &inputs(rows), toy).unwrap_or_else(|error| panic!("{error}: {:?}", error.source()))
}

#[test]
fn loss_and_gradients_are_those_of_the_whole_batch() {
    let schedules = Schedule::ALL.map(|schedule| (schedule, schedule == Schedule::OneFOneB));
    for (kind, pp) in ALL.into_iter().flat_map(|kind| (1..=4_u32).map(move |pp| (kind, pp))) {
        for (schedule, needs_full_warmup) in schedules {
            let group = |me| Group::all(pp, me).expect("one of them");
            let pipeline = |me| PipelineStep::new(spec(schedule, group(me), 2)).expect("a pipeline");
            let channels = pipeline(Rank(0)).channels().expect("a small group");
            // The number of microbatches follows each batch, of powers of two so that nothing is rounded.
            let batches: Vec<usize> =
                [8, 16, 2, 8, 4].into_iter().filter(|rows| !needs_full_warmup || rows / 2 >= pp as usize).collect();
            run(kind, pp, &channels, |mut member| {
                let me = member.endpoint.rank();
                let mut pipeline = pipeline(me);
                for (number, &rows) in (0..).zip(&batches) {
                    let mut toy = Toy::new(me.0);
                    let outcome = step(&mut pipeline, &mut member.endpoint, number, rows, &mut toy);
                    let (loss, gradients) = whole(pp, rows);
                    let m = rows as u32 / 2;
                    assert_eq!(
                        (outcome.microbatches, toy.gradient),
                        (m, gradients[me.idx()]),
                        "{kind:?}, {schedule:?}"
                    );
                    let is_last = me.0 + 1 == pp;
                    assert_eq!(outcome.loss.to_bits(), if is_last { loss.to_bits() } else { 0 }, "{kind:?}");
                    assert_eq!(outcome.losses.len(), if is_last { m as usize } else { 0 });
                    // What forwards left went to their backwards.
                    let peak = if needs_full_warmup { m.min(pp - me.0) } else { m } as usize;
                    assert_eq!(toy.live.get(), [0, peak], "{schedule:?}, rank {me} of {pp}");
                    assert_eq!(outcome.report.peak(SlotClass::Saved), peak);
                }
                member.close();
            });
        }
    }
}

/// Two pipelines in one run, each over ranks that are not the places they have in it.
#[test]
fn pipelines_side_by_side_each_run_their_own_batch() {
    let mesh = Mesh::new(1, 2, 2).expect("a small mesh");
    for (kind, schedule) in ALL.into_iter().flat_map(|kind| Schedule::ALL.map(|schedule| (kind, schedule))) {
        let pipeline = |me| {
            let group = mesh.group(Axis::Pipeline, me).expect("every rank is in one");
            PipelineStep::new(spec(schedule, group, 1)).expect("a pipeline")
        };
        let channels: Vec<Channel> =
            (0..2).flat_map(|rank| pipeline(Rank(rank)).channels().expect("a small group")).collect();
        run(kind, 4, &channels, |mut member| {
            let me = member.endpoint.rank();
            let at = mesh.coordinates(me).expect("a rank");
            let (mut toy, rows) = (Toy::new(at.pp), 4 << at.dp);
            let outcome = step(&mut pipeline(me), &mut member.endpoint, 0, rows, &mut toy);
            let (loss, gradients) = whole(2, rows);
            assert_eq!(toy.gradient, gradients[at.pp as usize], "{kind:?}");
            assert_eq!(outcome.loss, if at.pp == 1 { loss } else { 0.0 });
            member.close();
        });
    }
}

#[test]
fn schedules_are_known_by_name() {
    for (name, schedule) in [("gpipe", Schedule::GPipe), ("GPipe", Schedule::GPipe), ("1F1B", Schedule::OneFOneB)] {
        assert_eq!(name.parse::<Schedule>().expect("known"), schedule);
    }
    for name in ["", "1f1b ", "interleaved"] {
        let error = name.parse::<Schedule>().expect_err("unknown").to_string();
        assert_eq!(error, format!("there is no schedule `{name}`; known are 1f1b, gpipe"));
    }
    let mut names = Schedule::ALL.map(Schedule::name);
    names.sort_unstable();
    assert_eq!(names, Schedule::ALL.map(Schedule::name));
}

/// Batch 8 in 3 has a remainder: an error before the step, on every rank, that says what would work.
#[test]
fn inputs_that_make_no_microbatches_are_errors_that_name_both_numbers() {
    let owners = owners(2);
    let error = |inputs: &[Item], size| Batch::new(inputs, &owners, size).expect_err("no microbatches").to_string();
    let remainder = error(&inputs(8), 3);
    assert_eq!(remainder, "a batch of 8 rows cannot be cut into microbatches of 3; nearest that work: 2 or 4");
    assert!(error(&inputs(8), 9).ends_with("nearest that work: 8"));
    assert!(error(&inputs(7), 2).ends_with("nearest that work: 1 or 7"));
    let endless = Item::Tensor(Buffer::f32(&[1 << 33, 0], vec![]).expect("rows of nothing"));
    let too_many = error(&vec![endless; owners.len()], 2);
    assert!(too_many.contains("more than 4294967295 microbatches of 2"), "{too_many}");
    assert!(error(&inputs(0), 2).contains("a batch of 0 rows"));
    assert!(error(&inputs(8), 0).contains("0 rows are asked for"));
    assert_eq!(error(&inputs(8)[..3], 2), "3 inputs are given, but 4 have an owner; give each step the same inputs");
    let integers = vec![Item::Integer(3); 4];
    assert!(error(&integers, 2).contains("none of the 4 inputs is a tensor"));
    let mut uneven = inputs(8);
    uneven[2] = inputs(6)[2].clone();
    assert!(error(&uneven, 2).contains("input 2 has 6 rows, but the tensors before it have 8"));
    uneven[2] = Item::Tensor(Buffer::f64(&[], vec![1.0]).expect("a scalar"));
    assert!(error(&uneven, 2).contains("input 2 has no dimensions"));
}

#[test]
fn a_stage_gets_its_own_rows_and_nobody_elses() {
    let (inputs, owners) = (inputs(6), owners(3));
    let batch = Batch::new(&inputs, &owners, 2).expect("three microbatches");
    assert_eq!(batch.microbatches(), 3);
    for microbatch in 0..3 {
        let of = |stage| batch.of(Stage(stage), Microbatch(microbatch)).expect("within it");
        let rows = |input: usize| &values(&inputs[input])[4 * microbatch as usize..][..4];
        assert_eq!((of(0).len(), of(1).len(), of(2).len(), of(3).len()), (1, 1, 2, 0));
        assert_eq!((values(&of(0)[0]), values(&of(1)[0]), values(&of(2)[0])), (rows(0), rows(1), rows(2)));
        assert_eq!(of(2)[1], Item::Integer(4));
    }
}

#[test]
fn too_few_microbatches_for_1f1b_suggest_smaller_ones_or_gpipe() {
    let mut alone = Member::alone(PATIENCE);
    let group = Group::all(4, Rank(0)).expect("rank 0");
    let mut pipeline = PipelineStep::new(spec(Schedule::OneFOneB, group.clone(), 2)).expect("a pipeline");
    let error = pipeline.run(&mut alone.endpoint, 0, &inputs(6), &mut Toy::new(0)).expect_err("three for four ranks");
    assert!(matches!(error, ContractError::TooFewMicrobatches { .. }), "{error}");
    assert!(error.to_string().contains("the batch gives") && !error.to_string().contains("--"), "{error}");
    let text = error.to_string();
    assert!(text.contains("smaller microbatches") && text.contains("gpipe") && text.contains('3'), "{text}");
    let owners = vec![Stage(0), Stage(4)];
    let error = PipelineStep::new(ContractSpec { owners, ..spec(Schedule::GPipe, group.clone(), 2) });
    let error = error.expect_err("no stage 4").to_string();
    assert_eq!(error, "input 1 is for stage 4, but the stages are 0 to 3");
    let error = PipelineStep::new(ContractSpec { microbatch_size: 0, ..spec(Schedule::GPipe, group, 2) });
    assert!(matches!(error, Err(ContractError::EmptyMicrobatch)));
    alone.close();
}

#[test]
fn a_stage_that_breaks_the_contract_is_told_so() {
    let faults = [
        (Fault::Loss, 1, "makes a loss of one f32 or f64, but it made f64 [2, 2]"),
        (Fault::Gradient, 1, "stage 1 gave no gradient of its activation"),
        (Fault::Gradient, 0, "stage 0 takes no activation, but gave a gradient for one"),
        (Fault::Average, 0, "out of luck"),
    ];
    for (fault, culprit, expected) in faults {
        let group = |me| Group::all(2, me).expect("one of the two");
        let pipeline = |me| PipelineStep::new(spec(Schedule::OneFOneB, group(me), 2)).expect("a pipeline");
        let channels = pipeline(Rank(0)).channels().expect("a small group");
        run(Kind::Memory(1), 2, &channels, |mut member| {
            let me = member.endpoint.rank();
            let guilty = me == Rank(culprit);
            let mut toy = Toy { fault: if guilty { fault } else { Fault::None }, ..Toy::new(me.0) };
            let done = pipeline(me).run(&mut member.endpoint, 0, &inputs(8), &mut toy);
            if guilty {
                let error = done.expect_err("it broke it");
                let mut texts = error.to_string();
                let mut source = error.source();
                while let Some(error) = source {
                    texts = format!("{texts}: {error}");
                    source = error.source();
                }
                assert!(texts.contains(expected), "{texts}");
            }
        });
    }
}
