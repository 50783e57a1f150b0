//! The cut does not show: loss, gradient norm and weights have the same bits however the model lies over ranks.

use crate::harness::{assert_close, bits, config, run, run_on};
use pp_train::Text;

/// Every cut, with each schedule whose backwards ascend.
const CUTS: [&str; 11] = [
    "--pp 1 --vp 2",
    "--pp 1 --schedule 1f1b",
    "--pp 1 --schedule gpipe --gpipe-backward ascending",
    "--pp 2",
    "--pp 2 --schedule gpipe --gpipe-backward ascending",
    "--pp 2 --vp 2",
    "--pp 4",
    "--pp 4 --schedule gpipe --gpipe-backward ascending",
    "--pp 4 --vp 2",
    "--pp 2 --vp 4",
    "--pp 2 --vp 2 --group-size 4",
];

fn equal_for_every_cut(options: &str) {
    let whole = bits(&run(options));
    for cut in CUTS {
        assert_eq!(bits(&run(&format!("{cut} {options}"))), whole, "{cut} {options}");
    }
}

#[test]
fn every_cut_of_a_tied_model_trains_to_the_same_bits() {
    equal_for_every_cut("--microbatches 8");
}

#[test]
fn every_cut_of_an_untied_model_trains_to_the_same_bits() {
    equal_for_every_cut("--microbatches 8 --untie");
}

/// Messages and activations are rounded the same wherever the model is cut, and what is added up is not rounded.
#[test]
fn brain_floats_train_to_the_same_bits_and_near_single_precision() {
    let options = "--bf16 --num-layers 4 --train-iters 4 --microbatches 4";
    let whole = run(options);
    for cut in ["--pp 2", "--pp 2 --vp 2", "--pp 2 --schedule zb-v", "--pp 4 --untie"] {
        let untied = if cut.contains("untie") { bits(&run(&format!("{options} --untie"))) } else { bits(&whole) };
        assert_eq!(bits(&run(&format!("{cut} {options}"))), untied, "{cut}");
    }
    let single = run(&options.replace("--bf16", ""));
    assert_close(&whole, &single, 0.05);
    assert_ne!(bits(&whole).losses, bits(&single).losses, "they are rounded");
    assert!(whole.iterations[3].loss < whole.iterations[0].loss);
}

#[test]
fn uneven_layers_train_to_the_same_bits() {
    let whole = bits(&run(""));
    for cut in [
        "--pp 2 --layer-split 3,5",
        "--pp 2 --vp 2 --layer-split 1,3,4,0",
        "--pp 4 --layer-split 0,4,4,0",
        "--pp 2 --layer-split auto",
        "--pp 2 --vp 2 --pipeline-layout Et|t*4||t*3L",
        "--pp 4 --decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 1",
        "--pp 2 --schedule zb-v --layer-split 1,3,4,0",
        "--pp 2 --schedule zb-v --decoder-first-pipeline-num-layers 2",
    ] {
        assert_eq!(bits(&run(cut)), whole, "{cut}");
    }
}

#[test]
fn a_run_repeats_and_a_seed_matters() {
    let first = bits(&run("--pp 2 --vp 2"));
    assert_eq!(bits(&run("--pp 2 --vp 2")), first);
    assert_ne!(bits(&run("--pp 2 --vp 2 --seed 7")).initial, first.initial);
}

#[test]
fn one_seed_gives_one_initialisation() {
    let initial = |line: &str| run(&format!("{line} --train-iters 1")).initial_fingerprint;
    let whole = initial("--pp 1");
    for cut in ["--pp 2", "--pp 4", "--pp 4 --vp 2"] {
        assert_eq!(initial(cut), whole, "{cut}");
    }
}

/// Large enough that the kernels do use their threads.
#[test]
fn threads_do_not_show() {
    let with = |line: &str, threads| {
        let config = config(&format!(
            "--hidden-size 64 --num-layers 4 --seq-length 64 --micro-batch-size 4 --microbatches 2 --train-iters 3 {line}"
        ));
        bits(&run_on(&config, &Text::load(&config).unwrap(), threads))
    };
    let one = with("--pp 1", 1);
    assert_eq!(with("--pp 1", 2), one);
    assert_eq!(with("--pp 1", 3), one);
    assert_eq!(with("--pp 2 --vp 2", 2), one);
}

#[test]
fn reverse_gpipe_is_close() {
    let whole = run("--microbatches 8");
    for cut in ["--pp 1 --schedule gpipe", "--pp 2 --schedule gpipe", "--pp 4 --schedule gpipe"] {
        let reverse = run(&format!("{cut} --microbatches 8"));
        assert_close(&reverse, &whole, 1e-5);
        assert_ne!(bits(&reverse), bits(&whole), "equality to the bit does see the order of additions");
    }
}

#[test]
fn few_microbatches_over_many_ranks() {
    for m in 1..=3 {
        let m = format!("--microbatches {m} --train-iters 4");
        let whole = run(&m);
        for cut in [
            "--pp 4 --schedule 1f1b",
            "--pp 4 --schedule gpipe --gpipe-backward ascending",
            "--pp 4 --vp 2 --allow-bubbles",
            "--pp 2 --vp 2 --allow-bubbles",
        ] {
            assert_eq!(bits(&run(&format!("{cut} {m}"))), bits(&whole), "{cut} {m}");
        }
        assert_close(&run(&format!("--pp 4 --schedule gpipe {m}")), &whole, 1e-5);
    }
}

#[test]
fn a_clipped_run_has_one_norm_everywhere() {
    let clipped = run("--clip-grad 0.1");
    assert!(clipped.iterations.iter().all(|record| record.grad_norm > 0.1), "the norm told is the one before clipping");
    assert_ne!(clipped.weights_fingerprint, run("--clip-grad 0").weights_fingerprint);
    assert_eq!(bits(&run("--pp 4 --clip-grad 0.1")), bits(&clipped));
}

#[test]
fn how_a_step_is_cut_into_microbatches_hardly_shows() {
    let two = run("--train-iters 4 --micro-batch-size 2 --microbatches 4");
    assert_close(&run("--train-iters 4 --micro-batch-size 4 --microbatches 2"), &two, 1e-5);
    assert_close(&run("--train-iters 4 --micro-batch-size 4 --microbatches 2 --pp 2"), &two, 1e-5);
}
