//! A collective of tensors on devices that a test asks for, and what a loop over the ranks gives.

use std::sync::Arc;

use nccl_rs::{DeviceBytes, Shared};
use pp_comm::collectives::{GroupComm, GroupError, Pending};
use pp_comm::{Boundary, Buffer, Collective, DType, Endpoint, Group};
use pp_schedule::{Channel, Rank};

use crate::common::PATIENCE;
use crate::gpu::{Gpu, Way};
use crate::harness::Seat;
use crate::random::Random;

pub(crate) const COLLECTIVES: [Collective; 5] = [
    Collective::Barrier,
    Collective::AllGather,
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::Broadcast,
];

pub(crate) const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::I64, DType::Bf16];

/// Both ways to wait.
pub(crate) const WAYS: [Way; 2] = [Way::DEFAULT, Way { waits: pp_comm::Waits::OnHost, ..Way::DEFAULT }];

/// Small whole numbers: their sums are exact in every type, in whatever order they are taken.
pub(crate) fn numbers(len: usize, seed: u64) -> Vec<i64> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.below(17) as i64 - 8).collect()
}

/// Numbers as the elements of a tensor. Those up to 256 are exact as brain floats.
pub(crate) fn elements(dtype: DType, values: &[i64]) -> Vec<u8> {
    let bytes = |value: i64| -> Vec<u8> {
        match dtype {
            DType::F32 => (value as f32).to_ne_bytes().to_vec(),
            DType::F64 => (value as f64).to_ne_bytes().to_vec(),
            DType::I64 => value.to_ne_bytes().to_vec(),
            DType::Bf16 => (((value as f32).to_bits() >> 16) as u16).to_ne_bytes().to_vec(),
        }
    };
    values.iter().flat_map(|&value| bytes(value)).collect()
}

/// A tensor on a device.
pub(crate) fn on_device(gpu: &Gpu, dtype: DType, shape: &[usize], bytes: &[u8]) -> Buffer {
    let boundary = Boundary::new(dtype, shape).expect("a small shape");
    let memory: Shared = Arc::new(DeviceBytes::from_host(&gpu.compute, bytes).expect("memory"));
    Buffer::on_device(boundary, memory).expect("as long as its shape")
}

/// Its bytes. Where waits are the compute stream's, they mean something only once all that it waits for has come.
pub(crate) fn bytes_of(endpoint: &mut Endpoint, gpu: &Gpu, buffer: &Buffer) -> Vec<u8> {
    let memory = buffer.as_device().expect("on the device");
    let bytes = memory.to_host(&gpu.compute, PATIENCE).expect("nothing went wrong on the device");
    endpoint.settle().expect("nothing went wrong between ranks");
    bytes
}

pub(crate) fn channels_of(groups: &[(u32, Vec<u32>)]) -> Vec<Channel> {
    let channels = |(id, ranks): &(u32, Vec<u32>)| {
        let ranks: Vec<Rank> = ranks.iter().copied().map(Rank).collect();
        let first = ranks[0];
        Group::new(*id, ranks, first).expect("the first of them").collective_channels()
    };
    groups.iter().flat_map(channels).collect()
}

/// A collective that a test asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) collective: Collective,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) root: usize,
    pub(crate) n_ranks: usize,
    pub(crate) seed: u64,
}

/// One that was started.
pub(crate) enum Started {
    Nothing(Pending<()>),
    One(Pending<Buffer>),
    Many(Pending<Vec<Buffer>>),
}

impl Asked {
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn boundary(&self) -> Boundary {
        Boundary::new(self.dtype, &self.shape).expect("a small shape")
    }

    pub(crate) fn given(&self, place: usize) -> Vec<i64> {
        numbers(self.len(), 100 * self.seed + place as u64)
    }

    pub(crate) fn sum(&self) -> Vec<i64> {
        let mut sum = vec![0; self.len()];
        for place in 0..self.n_ranks {
            sum.iter_mut().zip(self.given(place)).for_each(|(sum, value)| *sum += value);
        }
        sum
    }

    pub(crate) fn start(&self, comm: &mut GroupComm, seat: &mut Seat) -> Result<Started, GroupError> {
        let (place, endpoint) = (comm.group().place(), &mut seat.member.endpoint);
        let gpu = seat.gpu.as_ref().expect("it has a device");
        let mine = on_device(gpu, self.dtype, &self.shape, &elements(self.dtype, &self.given(place)));
        Ok(match self.collective {
            Collective::Barrier => Started::Nothing(comm.start_device_barrier(endpoint)?),
            Collective::AllGather => Started::Many(comm.start_all_gather(endpoint, mine)?),
            Collective::AllReduce => Started::One(comm.start_all_reduce(endpoint, mine)?),
            Collective::ReduceScatter => Started::One(comm.start_reduce_scatter(endpoint, mine)?),
            Collective::Broadcast => {
                let mine = (place == self.root).then_some(mine);
                Started::One(comm.start_device_broadcast(endpoint, self.root, &self.boundary(), mine)?)
            }
        })
    }

    /// Waits, and compares with what a loop over the ranks gives.
    pub(crate) fn check(&self, started: Started, comm: &GroupComm, seat: &mut Seat) {
        let endpoint = &mut seat.member.endpoint;
        let found = match started {
            Started::Nothing(pending) => pending.wait(endpoint).map(|()| Vec::new()),
            Started::One(pending) => pending.wait(endpoint).map(|buffer| vec![buffer]),
            Started::Many(pending) => pending.wait(endpoint),
        };
        let found = found.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let whole = |values: Vec<i64>| (self.boundary(), values);
        let expected = match self.collective {
            Collective::Barrier => vec![],
            Collective::AllGather => (0..self.n_ranks).map(|place| whole(self.given(place))).collect(),
            Collective::AllReduce => vec![whole(self.sum())],
            Collective::ReduceScatter => {
                let share = self.sum()[comm.share(self.len())].to_vec();
                vec![(Boundary::new(self.dtype, &[share.len()]).expect("a small shape"), share)]
            }
            Collective::Broadcast => vec![whole(self.given(self.root))],
        };
        assert_eq!(found.len(), expected.len(), "{self:?}");
        let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
        for (found, (boundary, values)) in found.iter().zip(expected) {
            assert_eq!(found.boundary(), &boundary, "{self:?}");
            assert_eq!(bytes_of(endpoint, gpu, found), elements(self.dtype, &values), "{self:?}");
        }
    }
}
