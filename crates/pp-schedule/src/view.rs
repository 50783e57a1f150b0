//! Megatron's queues, as a view of one rank's program.
//!
//! Megatron-LM keeps three first-in-first-out lists per model chunk: inputs, outputs, and gradients of outputs. Messages
//! are put in at the back as they are received, each backward takes the front of all three, and a forward finds its input at
//! the index `microbatch - released`, where `released` counts the forwards of the chunk whose backward is done. At the
//! pipeline's ends nothing is received, and a placeholder stands for the tensor that is not there. Without backwards a
//! forward takes its own input away.
//!
//! The runtime of this project has slots, assigned when the program is built; this module shows that the lists are a
//! view of the same program. Which microbatch a place holds is kept beside it, which Megatron cannot do: that is how
//! tests tell that the index finds the right one.

use std::collections::VecDeque;
use std::fmt;

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::deps::{Message, input_of};
use crate::figures;
use crate::groups::Groups;
use crate::ids::{Chunk, Direction, Microbatch};
use crate::program::{RankProgram, Role, Step};
use crate::table::ScheduleTable;
use crate::work::{Work, WorkKind};

/// A place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Whose it is.
    pub microbatch: Microbatch,
    /// Whether a tensor is there, rather than a placeholder (Megatron's `None`).
    pub tensor: bool,
}

/// A placeholder in brackets.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tensor { self.microbatch.fmt(f) } else { write!(f, "({})", self.microbatch) }
    }
}

/// The queues of one chunk, front first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ChunkQueues {
    /// Inputs of forwards (Megatron: `input_tensors`).
    pub inputs: VecDeque<Place>,
    /// Outputs of forwards (`output_tensors`).
    pub outputs: VecDeque<Place>,
    /// Gradients of outputs (`output_tensor_grads`).
    pub gradients: VecDeque<Place>,
}

/// Something that happens to the queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A receive is issued, and its buffer put in: an input of a chunk, or the gradient of its output. With overlap the
    /// tensor itself comes later.
    Received {
        /// Which of the two.
        direction: Direction,
        /// The chunk.
        chunk: Chunk,
        /// Its microbatch.
        microbatch: Microbatch,
    },
    /// A forward has read its input, where it stays, and put its output in.
    Forward(Read),
    /// A backward has taken the front of all three queues.
    Backward {
        /// The step of the direction, from 0.
        vid: usize,
        /// The chunk.
        chunk: Chunk,
        /// The microbatch that runs.
        microbatch: Microbatch,
        /// Input, output and gradient as found; `None` from an empty queue.
        taken: [Option<Place>; 3],
    },
}

/// How a forward finds its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The step of the direction, from 0.
    pub vid: usize,
    /// The chunk.
    pub chunk: Chunk,
    /// The microbatch that runs.
    pub microbatch: Microbatch,
    /// Forwards of the chunk that are released.
    pub released: usize,
    /// What stands at `microbatch - released`; `None` when that is no place in the queue.
    pub found: Option<Place>,
}

/// An event, and the queues after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What happens.
    pub event: Event,
    /// The queues afterwards, by chunk.
    pub queues: Vec<ChunkQueues>,
}

/// A schedule that Megatron runs without such queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Megatron has queues for interleaved and 1f1b only, but the schedule is {kind}")]
pub struct NoQueues {
    /// The schedule.
    pub kind: ScheduleKind,
}

/// What happens to Megatron's queues while a rank's program of this configuration runs. A buffer is put in where its
/// receive is posted, which with [`crate::lower::megatron`]'s programs is where Megatron does it; other policies post
/// earlier, and the index still finds the right place.
///
/// # Errors
/// [`NoQueues`] for any schedule but 1F1B and interleaved.
///
/// ```
/// use pp_schedule::lower::megatron::{self, Options};
/// use pp_schedule::view::{Event, queues};
/// use pp_schedule::{Rank, ScheduleConfig, ScheduleSpec};
///
/// let config = ScheduleConfig::new(&ScheduleSpec::new(3, 2, 6))?;
/// let (program, _) = megatron::trace(&config, Options::default(), Rank(1))?;
/// for moment in queues(&config, &program)? {
///     if let Event::Forward(read) = moment.event {
///         assert_eq!(read.found.map(|place| place.microbatch), Some(read.microbatch));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn queues(config: &ScheduleConfig, program: &RankProgram) -> Result<Vec<Moment>, NoQueues> {
    let groups = match config.kind() {
        ScheduleKind::Interleaved => config.groups(),
        ScheduleKind::OneFOneB => Groups::Uniform { size: config.microbatches() },
        kind => return Err(NoQueues { kind }),
    };
    let table = ScheduleTable::new(config.microbatches(), config.vp(), groups);
    let warmup = (!config.forward_only()).then(|| figures::counts(config, program.rank).warmup as usize);
    let queues = vec![ChunkQueues::default(); config.vp() as usize];
    let mut run = Run { config, table, warmup, steps: [0, 0], queues, moments: Vec::new() };
    for step in program.steps() {
        match step {
            Step::Post(_, transfers) => {
                let receives = transfers.iter().filter(|transfer| transfer.role == Role::Receive);
                receives.for_each(|transfer| run.receive(transfer.message));
            }
            Step::Compute(compute) if compute.work.kind == WorkKind::Forward => run.forward(compute.work),
            Step::Compute(compute) => run.backward(compute.work),
            Step::Wait(..) | Step::Free(_) | Step::Mark(_) => {}
        }
    }
    Ok(run.moments)
}

struct Run<'a> {
    config: &'a ScheduleConfig,
    table: ScheduleTable,
    warmup: Option<usize>,
    /// Forwards, and backwards, so far.
    steps: [usize; 2],
    queues: Vec<ChunkQueues>,
    moments: Vec<Moment>,
}

impl Run<'_> {
    fn note(&mut self, event: Event) {
        self.moments.push(Moment { event, queues: self.queues.clone() });
    }

    fn receive(&mut self, message: Message) {
        let Message { direction, stage, microbatch } = message;
        let chunk = self.config.placement().chunk_of(stage);
        let queues = &mut self.queues[chunk.idx()];
        let queue = match direction {
            Direction::Forward => &mut queues.inputs,
            Direction::Backward => &mut queues.gradients,
        };
        queue.push_back(Place { microbatch, tensor: true });
        self.note(Event::Received { direction, chunk, microbatch });
    }

    fn forward(&mut self, work: Work) {
        let (placement, microbatch) = (self.config.placement(), work.microbatch);
        let (vid, chunk) = (self.step(Direction::Forward), placement.chunk_of(work.stage));
        let released = self.table.released(vid, chunk, self.warmup);
        let queues = &mut self.queues[chunk.idx()];
        // On the first stage a placeholder is put in when every input there is has its output already.
        if input_of(work, placement).is_none() && queues.inputs.len() == queues.outputs.len() {
            queues.inputs.push_back(Place { microbatch, tensor: false });
        }
        let index = microbatch.idx().checked_sub(released);
        let found = index.and_then(|index| queues.inputs.get(index).copied());
        queues.outputs.push_back(Place { microbatch, tensor: true });
        if self.config.forward_only() {
            queues.inputs.pop_front();
            queues.outputs.pop_back();
        }
        self.note(Event::Forward(Read { vid, chunk, microbatch, released, found }));
    }

    fn backward(&mut self, work: Work) {
        let (placement, microbatch) = (self.config.placement(), work.microbatch);
        let (vid, chunk) = (self.step(Direction::Backward), placement.chunk_of(work.stage));
        let queues = &mut self.queues[chunk.idx()];
        if input_of(work, placement).is_none() && queues.gradients.is_empty() {
            queues.gradients.push_back(Place { microbatch, tensor: false });
        }
        let taken = [queues.inputs.pop_front(), queues.outputs.pop_front(), queues.gradients.pop_front()];
        self.note(Event::Backward { vid, chunk, microbatch, taken });
    }

    /// The number of the next step of a direction.
    fn step(&mut self, direction: Direction) -> usize {
        let steps = &mut self.steps[direction as usize];
        *steps += 1;
        *steps - 1
    }
}
