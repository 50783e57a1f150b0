//! Members between GPUs, those of the emulated driver.

use std::env;
use std::path::Path;

use pp_comm::nccl_rs::{Device, Stream};
use pp_comm::{Communicators, HandOver, Member, NcclSpec};

use super::Kind;

/// The kind that all bodies run on, where the emulator is what the loader finds for NCCL. On real hardware there is none: two
/// ranks of a process would need two GPUs each time.
pub(crate) fn kinds() -> Option<Kind> {
    has_emulator().then_some(Kind::Nccl(Communicators::PerChannel))
}

/// That one, and one communicator for all channels.
pub(crate) fn all_kinds() -> Vec<Kind> {
    kinds().into_iter().flat_map(|kind| [kind, Kind::Nccl(Communicators::One)]).collect()
}

fn has_emulator() -> bool {
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let found = env::split_paths(&folders).find_map(|folder| folder.join("libnccl.so.2").canonicalize().ok());
    found.as_deref().and_then(Path::file_name).is_some_and(|name| name == "libcuda_emulator.so")
}

/// A member whose messages are on the host and travel between GPUs, one per rank.
pub(crate) fn over_nccl(member: Member, communicators: Communicators) -> Member {
    let n_devices = Device::count().expect("the emulated driver");
    let device = Device::new(member.endpoint.rank().idx() % n_devices).expect("one of its devices");
    let compute = Stream::new(&device).expect("a stream");
    let spec = NcclSpec { communicators, hand_over: HandOver::Host, ..NcclSpec::new(device, compute) };
    member.over_nccl(spec).expect("every rank has the emulator's NCCL")
}
