//! Devices, number types and what messages go through: what is refused in which build, and what is said of what is taken.

use pp_train::args::{Args, one_line};
use pp_train::{Compute, DeviceKind, Environment, NumberType, TrainConfig};

use crate::process::{TINY, run};

fn within(line: &str, variables: &[(&str, &str)]) -> Result<TrainConfig, String> {
    let words = ["--mock-data"].into_iter().chain(line.split_whitespace());
    let args = Args::from_words(words).map_err(|error| one_line(&error))?;
    let env: Environment = variables.iter().copied().collect();
    TrainConfig::within(&args, &env).map_err(|error| error.to_string())
}

fn refused(line: &str, parts: &[&str]) {
    let error = within(line, &[]).expect_err(line);
    for part in parts {
        assert!(error.contains(part), "{line}: {error}");
    }
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn names_that_are_not_known_are_refused() {
    refused("--device tpu", &["tpu", "--device", "cpu, cuda"]);
    refused("--dtype f16", &["--dtype `f16`", "f32, bf16"]);
    refused("--transport mpi", &["--transport `mpi`", "auto, socket, shm, nccl"]);
    refused("--device-id x", &["--device-id `x`", "whole number of at least 0"]);
    refused("--nccl-max-ctas 1.5", &["--nccl-max-ctas `1.5`", "whole number of at least 1"]);
}

#[test]
fn what_is_about_a_gpu_or_nccl_needs_one() {
    refused("--device-id 0", &["--device-id 0", "no GPU is used", "--device cuda"]);
    refused("--nccl-communicators one", &["--nccl-communicators one", "add --transport nccl"]);
    refused("--nccl-max-ctas 4 --transport shm", &["--nccl-max-ctas 4", "add --transport nccl"]);
}

#[test]
fn a_rank_on_its_host_is_told_with_its_rank_only() {
    refused("--local-rank 0", &["--local-rank 0 (PP_LOCAL_RANK)", "without --rank"]);
    let afar = "--pp 2 --rank 1 --world-size 2 --rendezvous 127.0.0.1:7";
    assert_eq!(within(afar, &[]).unwrap().place().local_rank(), None);
    assert_eq!(within(&format!("{afar} --local-rank 0"), &[]).unwrap().place().local_rank(), Some(0));
    refused(&format!("{afar} --local-rank 2"), &["local rank 2 of 2"]);
    let file = "--pp 2 --rank 1 --world-size 2 --rendezvous-file f";
    assert_eq!(within(file, &[]).unwrap().place().local_rank(), Some(1));
}

#[test]
fn of_number_types_the_last_counts() {
    for (line, dtype) in [
        ("", NumberType::F32),
        ("--dtype BF16", NumberType::Bf16),
        ("--bf16", NumberType::Bf16),
        ("--bf16 --dtype f32", NumberType::F32),
        ("--dtype f32 --bf16", NumberType::Bf16),
    ] {
        assert_eq!(within(line, &[]).unwrap().compute(), Compute { device: DeviceKind::Cpu, dtype }, "{line}");
    }
}

#[test]
fn device_and_number_type_are_told_before_anything_starts() {
    let told = run(&format!("{TINY} --dry-run")).stdout;
    assert!(told.contains("\n  machine        cpu in f32, 1 process, "), "{told}");
    let told = run(&format!("{TINY} --dry-run --bf16")).stdout;
    assert!(told.contains("  cpu in bf16 (slow on a processor: to check numbers), 1 process"), "{told}");
}

/// In a build without them, before anything starts, and with the way to a build that has them.
#[cfg(not(feature = "nccl"))]
#[test]
fn what_this_build_lacks_is_refused() {
    use crate::process::{start, trainer};

    run(&format!("{TINY} --device cuda"))
        .failed(2, &["--device cuda", "no CUDA", "`cargo xtask cuda-build`", "--device cpu"]);
    run(&format!("{TINY} --transport nccl")).failed(2, &["--transport nccl", "no NCCL", "--features nccl"]);
    let mut ranked = trainer(&format!("{TINY} --pp 2 --device cuda --timeout 30"));
    ranked.env("PP_WORLD_SIZE", "2").env("PP_RANK", "1").env("PP_RENDEZVOUS_FILE", "no-such-file");
    start(&mut ranked).wait().failed(2, &["--device cuda", "no CUDA"]);
}

#[cfg(feature = "nccl")]
#[test]
fn ways_of_nccl_are_checked() {
    refused("--transport nccl --nccl-communicators two", &["--nccl-communicators `two`", "channel, one"]);
    refused("--transport nccl --nccl-max-ctas 0", &["--nccl-max-ctas 0", "works: 1"]);
    refused("--transport nccl --nccl-max-ctas 65", &["--nccl-max-ctas 65", "works: 64"]);
    let afar = "--pp 2 --rank 1 --world-size 2 --rendezvous 127.0.0.1:7 --transport nccl";
    refused(afar, &["flags does not say", "rank 1", "--device-id N", "--local-rank N"]);
    assert!(within(&format!("{afar} --local-rank 0"), &[]).is_ok());
    assert!(within("--transport nccl --device-id 1 --nccl-max-ctas 4 --nccl-communicators one", &[]).is_ok());
}

#[cfg(feature = "cuda")]
#[test]
fn tensors_on_gpus_travel_between_them() {
    refused("--device cuda --transport shm", &["--transport shm does not go with --device cuda"]);
    assert!(within("--device cuda --bf16 --device-id 1", &[]).is_ok());
}
