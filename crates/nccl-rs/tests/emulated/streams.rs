//! Devices, streams, events, memory.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nccl_rs::{Device, DeviceBytes, DeviceMemory, NcclError, Stream};

use crate::support::{Case, LIMIT, SHORT, cudarc_stream, hold_up};

#[test]
fn a_device_that_is_not_there_is_refused() {
    Case::new("streams::a_device_that_is_not_there_is_refused").set("CUDA_EMULATOR_DEVICES", "3").run(|| {
        assert_eq!(Device::count().unwrap(), 3);
        assert_eq!(Device::new(2).unwrap().context().ordinal(), 2);
        let error = Device::new(3).unwrap_err();
        let NcclError::Cuda { code: 101, ref text, .. } = error else { panic!("{error:?}") };
        assert!(text.contains("CUDA_ERROR_INVALID_DEVICE"), "{text}");
        assert!(Device::new(usize::MAX).is_err());
    });
}

#[test]
fn bytes_come_back_from_the_device() {
    Case::new("streams::bytes_come_back_from_the_device").run(|| {
        let stream = Stream::new(&Device::new(0).unwrap()).unwrap();
        for n_bytes in [0, 1, 4095, 4096, 4097, 100_000] {
            let bytes: Vec<u8> = (0..n_bytes).map(|at| (at % 251) as u8).collect();
            let memory: Arc<dyn DeviceMemory> = Arc::new(DeviceBytes::from_host(&stream, &bytes).unwrap());
            assert_eq!(memory.n_bytes(), n_bytes);
            assert_eq!(memory.to_host(&stream, LIMIT).unwrap(), bytes);
        }
        assert_eq!(DeviceBytes::new(&stream, 0).unwrap().n_bytes(), 0);
        assert!(matches!(
            DeviceBytes::new(&stream, usize::MAX),
            Err(NcclError::Cuda { .. } | NcclError::Misuse { .. })
        ));
    });
}

#[test]
fn slices_of_cudarc_are_memory() {
    Case::new("streams::slices_of_cudarc_are_memory").run(|| {
        let device = Device::new(0).unwrap();
        let (slices, stream) = cudarc_stream(&device);
        let slice: Arc<dyn DeviceMemory> = Arc::new(slices.clone_htod(&[1.0_f32, -2.0]).unwrap());
        assert_eq!(slice.n_bytes(), 8);
        let bytes: Vec<u8> = [1.0_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(slice.to_host(&stream, LIMIT).unwrap(), bytes);
    });
}

#[test]
fn what_cudarc_keeps_for_its_own_safe_calls_is_left_on() {
    Case::new("streams::what_cudarc_keeps_for_its_own_safe_calls_is_left_on").run(|| {
        let (raw, stream) = cudarc_stream(&Device::new(0).unwrap());
        let slice = raw.clone_htod(&[7_u8; 64]).unwrap();
        // SAFETY: it is written to as a whole before it is read.
        let mut pinned = unsafe { raw.context().alloc_pinned::<u8>(64) }.unwrap();
        let gate = hold_up(&raw);
        raw.memcpy_dtoh(&slice, &mut pinned).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(SHORT);
                drop(gate);
            });
            // Without tracking this does not wait, and the copy writes what is being read.
            assert_eq!(pinned.as_slice().unwrap(), [7; 64]);
        });
        stream.settle(LIMIT).unwrap();
    });
}

#[test]
fn a_slice_is_not_freed_under_a_reader_that_cudarc_knows_of() {
    Case::new("streams::a_slice_is_not_freed_under_a_reader_that_cudarc_knows_of").run(|| {
        let device = Device::new(0).unwrap();
        let (owner, _) = cudarc_stream(&device);
        let (raw, reader) = cudarc_stream(&device);
        let slice = owner.clone_htod(&[7_u8; 64]).unwrap();
        let mut copy = raw.alloc_zeros::<u8>(64).unwrap();
        let gate = hold_up(&raw);
        raw.memcpy_dtod(&slice, &mut copy).unwrap();
        let shared: Arc<dyn DeviceMemory> = Arc::new(slice);
        // As an operation does that is to use it.
        assert_ne!(shared.address(), 0);
        drop(shared);
        drop(gate);
        reader.settle(LIMIT).unwrap();
        assert_eq!(raw.clone_dtoh(&copy).unwrap(), [7; 64]);
    });
}

#[test]
fn a_stream_that_differs_by_thread_is_refused() {
    Case::new("streams::a_stream_that_differs_by_thread_is_refused").run(|| {
        let device = Device::new(0).unwrap();
        let per_thread = device.context().per_thread_stream();
        let slice = per_thread.clone_htod(&[7_u8; 64]).unwrap();
        assert!(DeviceMemory::freed_on(&slice).is_none());
        let error = Stream::of(per_thread).unwrap_err();
        assert!(matches!(error, NcclError::Misuse { call: "Stream::of", .. }), "{error}");
        // The old default stream is one queue.
        Stream::of(device.context().default_stream()).unwrap().settle(LIMIT).unwrap();
    });
}

#[test]
fn an_event_is_complete_once_the_work_before_it_is() {
    Case::new("streams::an_event_is_complete_once_the_work_before_it_is").run(|| {
        let (raw, stream) = cudarc_stream(&Device::new(0).unwrap());
        let before = stream.record().unwrap();
        before.wait(LIMIT).unwrap();
        let gate = hold_up(&raw);
        let event = stream.record().unwrap();
        assert!(before.is_complete().unwrap() && !event.is_complete().unwrap());
        let late = |result: Result<(), NcclError>| matches!(result, Err(NcclError::Deadline { limit: SHORT, .. }));
        assert!(late(event.wait(SHORT)));
        assert!(late(stream.settle(SHORT)));
        assert!(matches!(event.wait(Duration::ZERO), Err(NcclError::Deadline { .. })));
        drop(gate);
        event.wait(LIMIT).unwrap();
        stream.settle(LIMIT).unwrap();
    });
}

#[test]
fn a_stream_waits_for_an_event_of_another() {
    Case::new("streams::a_stream_waits_for_an_event_of_another").run(|| {
        let device = Device::new(0).unwrap();
        let (raw, first) = cudarc_stream(&device);
        let second = Stream::new(&device).unwrap();
        let gate = hold_up(&raw);
        let memory: Arc<dyn DeviceMemory> = Arc::new(DeviceBytes::from_host(&first, &[7; 64]).unwrap());
        second.wait(&first.record().unwrap()).unwrap();
        let after = second.record().unwrap();
        assert!(!after.is_complete().unwrap());
        drop(gate);
        assert_eq!(memory.to_host(&second, LIMIT).unwrap(), [7; 64]);
        // The first frees it: after the second's copy.
        first.wait(&second.record().unwrap()).unwrap();
    });
}

#[test]
fn streams_that_are_not_ordered_are_found_out() {
    Case::new("streams::streams_that_are_not_ordered_are_found_out").reports("race").run(|| {
        let device = Device::new(0).unwrap();
        let (raw, first) = cudarc_stream(&device);
        let second = Stream::new(&device).unwrap();
        let _gate = hold_up(&raw);
        let memory: Arc<dyn DeviceMemory> = Arc::new(DeviceBytes::from_host(&first, &[7; 64]).unwrap());
        let error = memory.to_host(&second, LIMIT).unwrap_err();
        assert!(matches!(error, NcclError::Cuda { .. }), "{error}");
    });
}

#[test]
fn a_copy_that_is_late_keeps_its_memory() {
    Case::new("streams::a_copy_that_is_late_keeps_its_memory").run(|| {
        let device = Device::new(0).unwrap();
        let (raw, second) = cudarc_stream(&device);
        let first = Stream::new(&device).unwrap();
        let memory: Arc<dyn DeviceMemory> = Arc::new(DeviceBytes::from_host(&first, &[7; 64]).unwrap());
        first.settle(LIMIT).unwrap();
        let gate = hold_up(&raw);
        assert!(matches!(memory.to_host(&second, SHORT), Err(NcclError::Deadline { .. })));
        // Freed now it would be freed before the copy, which is of another stream: a violation.
        drop(memory);
        drop(gate);
        second.settle(LIMIT).unwrap();
        // Lets go of it.
        drop(DeviceBytes::from_host(&second, &[1]).unwrap());
        second.settle(LIMIT).unwrap();
    });
}

#[test]
fn any_thread_may_use_them() {
    Case::new("streams::any_thread_may_use_them").run(|| {
        // Each thread begins without a context, or with that of the other device.
        let streams = [0, 1].map(|ordinal| Stream::new(&Device::new(ordinal).unwrap()).unwrap());
        thread::scope(|scope| {
            for thread in 0..2_u8 {
                let streams = &streams;
                scope.spawn(move || {
                    for turn in 0..4_u8 {
                        let stream = &streams[usize::from((thread + turn) % 2)];
                        let bytes = [thread, turn];
                        let memory: Arc<dyn DeviceMemory> = Arc::new(DeviceBytes::from_host(stream, &bytes).unwrap());
                        assert_eq!(memory.to_host(stream, LIMIT).unwrap(), bytes);
                        stream.record().unwrap().wait(LIMIT).unwrap();
                    }
                });
            }
        });
    });
}
