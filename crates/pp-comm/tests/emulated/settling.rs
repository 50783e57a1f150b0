//! What holds once an endpoint is settled.

use std::sync::Arc;

use nccl_rs::{DeviceBytes, Stream};
use pp_comm::{Boundary, Buffer, DType};
use pp_schedule::Rank;

use crate::common::{FORTH, Kind, PATIENCE, envelope};
use crate::gpu::Way;
use crate::harness::{Run, Seat};

/// A wait was left to the compute stream; after the endpoint is settled the rank knows itself that the message is there, and may
/// read it on any stream. Were it not so, the emulator would report a race, whatever the timing.
#[test]
fn what_was_left_to_the_stream_is_there_for_every_stream_once_settled() {
    let words = [7_i64, -3, 1 << 40];
    let bytes: Vec<u8> = words.into_iter().flat_map(i64::to_ne_bytes).collect();
    let found = Run::new(Kind::Nccl(Way::DEFAULT), 2, &[FORTH]).all(|Seat { mut member, gpu }| {
        let (endpoint, gpu) = (&mut member.endpoint, gpu.expect("it has a device"));
        let boundary = Boundary::new(DType::I64, &[words.len()]).expect("a small shape");
        let message = envelope(FORTH, 0, 0);
        let found = if endpoint.rank() == Rank(0) {
            let memory = Arc::new(DeviceBytes::from_host(&gpu.compute, &bytes).expect("memory"));
            let buffer = Buffer::on_device(boundary, memory).expect("as long as its shape");
            let ticket = endpoint.post_send(FORTH, message, buffer).expect("posted");
            endpoint.wait_send(ticket).expect("put on the stream");
            endpoint.settle().expect("it arrives");
            Vec::new()
        } else {
            let ticket = endpoint.post_recv(FORTH, message, boundary).expect("posted");
            let received = endpoint.wait_recv(ticket).expect("put on the stream");
            endpoint.settle().expect("it comes");
            let other = Stream::new(&gpu.device).expect("a stream");
            received.as_device().expect("on the device").to_host(&other, PATIENCE).expect("copied")
        };
        member.control.barrier().expect("both are done");
        member.close();
        found
    });
    assert_eq!(found, [Vec::new(), bytes]);
}
