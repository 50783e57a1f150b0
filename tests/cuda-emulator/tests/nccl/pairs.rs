//! Sends and receives.

use std::time::Duration;

use cuda_emulator::driver;
use cuda_emulator::nccl::kinds::DataType;

use crate::rank::{Barrier, f32s, ranks};

#[test]
fn what_is_sent_is_received_whatever_its_size() {
    for n_bytes in [0, 1, 4, 4096, 3_000_001] {
        let content: Vec<u8> = (0..n_bytes).map(|i| (i % 251) as u8).collect();
        let received = ranks(2, |rank| {
            if rank.rank == 0 {
                let from = rank.memory(&content);
                rank.send(from, n_bytes, DataType::U8, 1).unwrap();
                return Vec::new();
            }
            let to = rank.memory(&vec![9; n_bytes]);
            rank.recv(to, n_bytes, DataType::U8, 0).unwrap();
            rank.bytes(to, n_bytes)
        });
        assert!(received[1] == content, "{n_bytes} bytes");
    }
}

#[test]
fn a_small_send_too_is_complete_only_once_its_receive_runs() {
    let looked = Barrier::new(2);
    ranks(2, |rank| {
        let memory = rank.memory(&f32s(&[rank.rank as f32]));
        if rank.rank == 0 {
            rank.send(memory, 1, DataType::F32, 1).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            assert!(!driver::query_stream(rank.stream).unwrap(), "nobody receives yet");
            looked.wait();
        } else {
            looked.wait();
            rank.recv(memory, 1, DataType::F32, 0).unwrap();
            assert_eq!(rank.bytes(memory, 4), f32s(&[0.0]));
        }
    });
}

#[test]
fn messages_of_a_pair_keep_their_order_also_on_several_streams() {
    let received = ranks(2, |rank| {
        let other = rank.on(driver::create_stream(false).unwrap());
        let messages: Vec<u64> = (0..6).map(|i| rank.memory(&[if rank.rank == 0 { 10 + i } else { 0 }])).collect();
        // What is on the first stream so far is before what comes on the second.
        let event = driver::create_event(false).unwrap();
        driver::record_event(event, rank.stream).unwrap();
        driver::wait_event(other.stream, event).unwrap();
        for (i, &message) in messages.iter().enumerate() {
            let on = if i % 2 == 0 { rank } else { other };
            match rank.rank {
                0 => on.send(message, 1, DataType::U8, 1).unwrap(),
                _ => on.recv(message, 1, DataType::U8, 0).unwrap(),
            }
        }
        other.settle();
        rank.settle();
        let event = driver::create_event(false).unwrap();
        driver::record_event(event, other.stream).unwrap();
        driver::wait_event(rank.stream, event).unwrap();
        messages.iter().flat_map(|&message| rank.bytes(message, 1)).collect::<Vec<u8>>()
    });
    assert_eq!(received[1], [10, 11, 12, 13, 14, 15]);
}
