//! What a collective of tensors on devices is in calls of NCCL, and where its results will be.
//!
//! NCCL divides tensors among ranks only where each gets as much. Where shares are uneven, an all-gather of them goes by sends
//! and receives, and a reduce-scatter is an all-reduce whose own share each rank keeps.

use std::ops::Range;
use std::sync::Arc;

use nccl_rs::{DevicePart, NcclError, Shared};

use super::error::GroupError;
use super::shares;
use crate::error::CommError;
use crate::message::{Boundary, Buffer, BufferError, DType};

/// What a collective is to do.
#[derive(Debug)]
pub(super) enum Task {
    /// By the sum of something that every rank has a value for.
    Barrier {
        given: Buffer,
    },
    AllGather {
        given: Buffer,
    },
    /// Of a share of `whole` from each.
    Join {
        given: Buffer,
        whole: Boundary,
    },
    ReduceScatter {
        given: Buffer,
    },
    AllReduce {
        given: Buffer,
    },
    Broadcast {
        root: usize,
        boundary: Boundary,
        given: Option<Buffer>,
    },
}

/// A call of NCCL, on all of the memory that it is given.
#[derive(Clone, Debug)]
pub(super) enum Call {
    AllReduce { send: Shared, recv: Shared },
    AllGather { send: Shared, recv: Shared },
    ReduceScatter { send: Shared, recv: Shared },
    Broadcast { buffer: Shared, root: usize },
    Send { buffer: Shared, to: usize },
    Recv { buffer: Shared, from: usize },
}

/// What is to be launched on one rank.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) dtype: DType,
    /// Those of a group are launched together, and the groups one after the other.
    pub(super) groups: Vec<Vec<Call>>,
    /// The results, which are there once all is done.
    pub(super) made: Vec<Buffer>,
}

/// Gives memory for a result.
type Allocate<'a> = &'a mut dyn FnMut(&Boundary) -> Result<Buffer, GroupError>;

impl Calls {
    /// What `task` is for the only rank of a group: it has all there is.
    pub(super) fn of_one(task: Task) -> Result<Self, GroupError> {
        let made = match task {
            Task::Barrier { given } | Task::AllGather { given } | Task::AllReduce { given } => vec![given],
            Task::Join { given, whole } => vec![Buffer::on_device(whole, given.into_device()?)?],
            Task::ReduceScatter { given } => {
                let share = shares::boundary(given.boundary(), 1, 0)?;
                vec![Buffer::on_device(share, given.into_device()?)?]
            }
            Task::Broadcast { given, .. } => given.into_iter().collect(),
        };
        Ok(Self::new(Vec::new(), made))
    }

    /// What `task` is on the rank at `place` of `n_ranks`.
    pub(super) fn of(task: Task, place: usize, n_ranks: usize, allocate: Allocate<'_>) -> Result<Self, GroupError> {
        match task {
            _ if n_ranks == 1 => Self::of_one(task),
            Task::AllGather { given } => Self::gather(&given, place, n_ranks, allocate),
            Task::Join { given, whole } => Self::join(&given, &whole, n_ranks, allocate),
            Task::ReduceScatter { given } => Self::scatter(&given, place, n_ranks, allocate),
            Task::AllReduce { given } | Task::Barrier { given } => {
                let sum = allocate(given.boundary())?;
                let call = Call::AllReduce { send: memory(&given)?, recv: memory(&sum)? };
                Ok(Self::new(vec![vec![call]], vec![sum]))
            }
            Task::Broadcast { root, boundary, given } => {
                let made = given.map_or_else(|| allocate(&boundary), Ok)?;
                let call = Call::Broadcast { buffer: memory(&made)?, root };
                Ok(Self::new(vec![vec![call]], vec![made]))
            }
        }
    }

    /// Without the calls that would move nothing, which some libraries and drivers do not take.
    fn new(mut groups: Vec<Vec<Call>>, made: Vec<Buffer>) -> Self {
        groups.iter_mut().for_each(|calls| calls.retain(|call| call.n_bytes() > 0));
        groups.retain(|calls| !calls.is_empty());
        let dtype = made.first().map_or(DType::I64, |buffer| buffer.boundary().dtype());
        Self { dtype, groups, made }
    }

    /// Every rank's tensor into memory of its own, so that each is a tensor by itself.
    fn gather(given: &Buffer, place: usize, n_ranks: usize, allocate: Allocate<'_>) -> Result<Self, GroupError> {
        let (mut calls, mut made) = (Vec::new(), Vec::new());
        for other in 0..n_ranks {
            if other == place {
                made.push(given.clone());
                continue;
            }
            let theirs = allocate(given.boundary())?;
            calls.push(Call::Send { buffer: memory(given)?, to: other });
            calls.push(Call::Recv { buffer: memory(&theirs)?, from: other });
            made.push(theirs);
        }
        Ok(Self::new(vec![calls], made))
    }

    fn join(given: &Buffer, whole: &Boundary, n_ranks: usize, allocate: Allocate<'_>) -> Result<Self, GroupError> {
        let made = allocate(whole)?;
        let (send, recv) = (memory(given)?, memory(&made)?);
        let calls = if whole.n_elements().is_multiple_of(n_ranks) {
            vec![Call::AllGather { send, recv }]
        } else {
            let mut calls = Vec::new();
            for other in 0..n_ranks {
                let theirs = bytes_of(whole, n_ranks, other);
                calls.push(Call::Send { buffer: Arc::clone(&send), to: other });
                calls.push(Call::Recv { buffer: part(&recv, theirs)?, from: other });
            }
            calls
        };
        Ok(Self::new(vec![calls], vec![made]))
    }

    fn scatter(given: &Buffer, place: usize, n_ranks: usize, allocate: Allocate<'_>) -> Result<Self, GroupError> {
        let whole = given.boundary().clone();
        let ours = shares::boundary(&whole, n_ranks, place)?;
        let made = allocate(&ours)?;
        let (send, recv) = (memory(given)?, memory(&made)?);
        let groups = if whole.n_elements().is_multiple_of(n_ranks) {
            vec![vec![Call::ReduceScatter { send, recv }]]
        } else {
            let sum = memory(&allocate(&whole)?)?;
            let share = part(&sum, bytes_of(&whole, n_ranks, place))?;
            let keep = vec![Call::Send { buffer: share, to: place }, Call::Recv { buffer: recv, from: place }];
            vec![vec![Call::AllReduce { send, recv: sum }], keep]
        };
        Ok(Self::new(groups, vec![made]))
    }
}

impl Call {
    /// Of what goes through it.
    fn n_bytes(&self) -> usize {
        match self {
            Self::AllReduce { send, .. } | Self::AllGather { send, .. } | Self::ReduceScatter { send, .. } => {
                send.n_bytes()
            }
            Self::Broadcast { buffer, .. } | Self::Send { buffer, .. } | Self::Recv { buffer, .. } => buffer.n_bytes(),
        }
    }
}

fn memory(buffer: &Buffer) -> Result<Shared, BufferError> {
    buffer.as_device().map(Arc::clone)
}

fn part(whole: &Shared, bytes: Range<usize>) -> Result<Shared, GroupError> {
    let no_part =
        |error: NcclError| CommError::System { what: "divide a tensor".to_owned(), reason: error.to_string() };
    Ok(Arc::new(DevicePart::new(Arc::clone(whole), bytes).map_err(no_part)?))
}

/// Where a place's share lies in the bytes of a tensor.
fn bytes_of(whole: &Boundary, n_ranks: usize, place: usize) -> Range<usize> {
    let (elements, size) = (shares::range(whole.n_elements(), n_ranks, place), whole.dtype().n_bytes());
    elements.start * size..elements.end * size
}
