//! Peers that die, errors that come later, versions that are too old.

use std::sync::Arc;

use nccl_rs::{
    Comm, CommConfig, CommStatus, DataType, Device, DeviceBytes, Group, NcclError, Shared, UniqueId, Version,
    require_version, runtime_version,
};

use crate::support::{Case, LIMIT, Rank, SHORT, processes, ranks};

const fn version(minor: u32, patch: u32) -> Version {
    Version { major: 2, minor, patch }
}

/// One exchange of the two ranks.
fn exchange(rank: &Rank) -> Result<(), NcclError> {
    let to: Shared = Arc::new(DeviceBytes::new(&rank.stream, 4).unwrap());
    let mut group = Group::new();
    group.send(&rank.comm, rank.bytes(&[5; 4]), DataType::F32, 1 - rank.rank)?;
    group.recv(&rank.comm, to, DataType::F32, 1 - rank.rank)?;
    group.launch(&rank.stream, LIMIT)?.wait(LIMIT)
}

#[test]
fn an_error_that_comes_later_is_told_with_all_that_nccl_says() {
    Case::new("faults::an_error_that_comes_later_is_told_with_all_that_nccl_says")
        .faults("async-error=2:rank=0:code=3")
        .run(|| {
            ranks(2, |rank| {
                if rank.rank == 1 {
                    assert!(exchange(&rank).is_err());
                    return;
                }
                let error = exchange(&rank).unwrap_err();
                let NcclError::Nccl { code: 3, ref text, ref last, .. } = error else { panic!("{error:?}") };
                assert!(!text.is_empty() && !last.is_empty(), "{error}");
                assert!(matches!(rank.comm.status(), CommStatus::Failed(NcclError::Nccl { code: 3, .. })));
                // Nothing more is launched.
                assert!(matches!(exchange(&rank), Err(NcclError::Nccl { code: 3, .. })));
                rank.comm.abort_handle().abort();
                rank.stream.settle(LIMIT).unwrap();
            });
        });
}

#[test]
fn a_peer_that_dies_is_an_error() {
    const NAME: &str = "faults::a_peer_that_dies_is_an_error";
    Case::new(NAME).faults("die=3:rank=1").run(|| {
        let have_passed = processes(NAME, 2, |rank| {
            exchange(&rank).unwrap();
            let error = exchange(&rank).unwrap_err();
            assert!(matches!(error, NcclError::Nccl { .. }), "{error:?}");
            assert!(matches!(rank.comm.status(), CommStatus::Failed(_)));
        });
        assert!(have_passed.iter().all(|passed| !passed));
    });
}

#[test]
fn a_peer_that_dies_in_silence_is_a_deadline() {
    const NAME: &str = "faults::a_peer_that_dies_in_silence_is_a_deadline";
    Case::new(NAME).faults("die=1:rank=1,silent-death").run(|| {
        let have_passed = processes(NAME, 2, |rank| {
            let to: Shared = Arc::new(DeviceBytes::new(&rank.stream, 4).unwrap());
            let mut group = Group::new();
            if rank.rank == 0 {
                group.recv(&rank.comm, to, DataType::F32, 1).unwrap();
            } else {
                group.send(&rank.comm, to, DataType::F32, 0).unwrap();
            }
            let mut in_flight = group.launch(&rank.stream, LIMIT).unwrap();
            let error = in_flight.wait(SHORT).unwrap_err();
            assert!(matches!(error, NcclError::Deadline { limit: SHORT, .. }), "{error:?}");
            rank.comm.abort_handle().abort();
            assert!(matches!(in_flight.wait(LIMIT), Err(NcclError::Aborted { .. })));
            rank.stream.settle(LIMIT).unwrap();
        });
        assert!(have_passed.iter().all(|passed| !passed));
    });
}

#[test]
fn a_communicator_that_never_gets_made_is_a_deadline() {
    Case::new("faults::a_communicator_that_never_gets_made_is_a_deadline").faults("init-never").run(|| {
        let device = Device::new(0).unwrap();
        let error = Comm::init(&device, UniqueId::new().unwrap(), 1, 0, &CommConfig::default(), SHORT).unwrap_err();
        assert!(matches!(error, NcclError::Deadline { .. }), "{error:?}");
    });
}

#[test]
fn a_minimum_is_held_against_what_is_found() {
    Case::new("faults::a_minimum_is_held_against_what_is_found").set("CUDA_EMULATOR_NCCL_VERSION", "22805").run(|| {
        let found = version(28, 5);
        assert_eq!(runtime_version(), Ok(found));
        assert_eq!(require_version(found), Ok(found));
        let minimum = version(28, 6);
        assert_eq!(require_version(minimum), Err(NcclError::TooOld { found, minimum }));
    });
}

/// Makes a communicator of one rank.
fn alone(config: &CommConfig) -> Result<Comm, NcclError> {
    Comm::init(&Device::new(0).unwrap(), UniqueId::new().unwrap(), 1, 0, config, LIMIT)
}

#[test]
fn an_nccl_without_calls_that_do_not_block_is_too_old() {
    Case::new("faults::an_nccl_without_calls_that_do_not_block_is_too_old").faults("version=21304").run(|| {
        let error = alone(&CommConfig::default()).unwrap_err();
        assert_eq!(error, NcclError::TooOld { found: version(13, 4), minimum: version(14, 0) });
    });
}

#[test]
fn an_older_nccl_does_what_it_can() {
    Case::new("faults::an_older_nccl_does_what_it_can").faults("version=21805").run(|| {
        let mut config = CommConfig::default();
        config.max_ctas = Some(2);
        config.split_share = Some(true);
        let comm = alone(&config).unwrap();
        comm.split(Some(0), 0, &config, LIMIT).unwrap().unwrap().finalize(LIMIT).unwrap();
        config.name = Some("pipeline".into());
        let too_old = NcclError::TooOld { found: version(18, 5), minimum: version(27, 0) };
        assert_eq!(comm.split(Some(0), 0, &config, LIMIT).unwrap_err(), too_old);
        // That was found out beforehand: it is as it was.
        assert_eq!(comm.status(), CommStatus::Ready);
        comm.finalize(LIMIT).unwrap();
        assert_eq!(alone(&config).unwrap_err(), too_old);
    });
}

#[test]
fn a_host_that_has_only_the_names_with_versions_works() {
    Case::new("faults::a_host_that_has_only_the_names_with_versions_works")
        .only_names(&["libcuda.so.1", "libnccl.so.2"])
        .run(|| {
            assert!(runtime_version().is_ok());
            alone(&CommConfig::default()).unwrap().finalize(LIMIT).unwrap();
        });
}

#[test]
fn an_nccl_that_cannot_divide_says_so() {
    Case::new("faults::an_nccl_that_cannot_divide_says_so").faults("version=21700").run(|| {
        let comm = alone(&CommConfig::default()).unwrap();
        let error = comm.split(Some(0), 0, &CommConfig::default(), LIMIT).unwrap_err();
        assert_eq!(error, NcclError::TooOld { found: version(17, 0), minimum: version(18, 0) });
        // That was found out beforehand: it is as it was.
        assert_eq!(comm.status(), CommStatus::Ready);
        comm.finalize(LIMIT).unwrap();
    });
}

#[test]
fn every_version_takes_its_configuration() {
    for minor in [14, 17, 18, 26, 27, 28, 29, 30, 32] {
        let version = format!("version={}", 20_000 + 100 * minor);
        Case::new("faults::every_version_takes_its_configuration").faults(&version).run(|| {
            alone(&CommConfig::default()).unwrap().finalize(LIMIT).unwrap();
        });
    }
}
