//! The command `plan`: what it prints, and how it fails.

use clap::Parser;
use pp_schedule::cli::{Cli, run};
use serde_json::Value;

/// The exit code, what the command prints, and how it fails.
fn plan(flags: &str) -> (u8, String, String) {
    let words = ["pp-schedule", "plan"].into_iter().chain(flags.split_whitespace());
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return (2, String::new(), error.to_string()),
    };
    let mut out = Vec::new();
    let done = run(&cli.command, &mut out);
    let text = String::from_utf8(out).expect("text");
    match done {
        Ok(()) => (0, text, String::new()),
        Err(error) => (error.exit_code(), text, error.to_string()),
    }
}

const LAYERS: &str = "--pp 4 -m 8 --num-layers 16 --layer-cost 2.1ms,4.2ms --activation-bytes 500MB --weight-bytes 2GB \
                      --schedules 1f1b,gpipe,interleaved,none";

#[test]
fn a_plan_ranks_explains_and_draws() {
    let (code, text, _) = plan(&format!("{LAYERS} --memory 20GB --width 100"));
    assert_eq!(code, 0, "{text}");
    for part in [
        "16 layers over 4 pipeline ranks, memory per rank: 18.63 GiB",
        "#  schedule     pp  vp  group  recompute      step  bubble              memory  why not",
        "1  interleaved   4   4      4  none       220.5 ms   8.6 %  16.30 GiB (rank 0)  the winner",
        "2  interleaved   4   2      4  none       239.4 ms  15.8 %  17.70 GiB (rank 0)  8.6 % slower: +8.6 % waiting",
        "+30.5 % computing, some of it again",
        "22.35 GiB  rank 0: 3.725 GiB over (weights 7.451 GiB, activations 14.90 GiB)",
        "--schedule none runs on one rank, but --pp is 4",
        "cargo xtask launch --schedule interleaved --pp 4 --vp 4 --microbatches 8 --group-size 4 --num-layers 16",
        "pp-schedule show --schedule interleaved --pp 4 --vp 4 --microbatches 8 --group-size 4",
        "rank 3 ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let drawing = text.lines().skip_while(|line| !line.starts_with("time"));
    assert!(drawing.clone().count() > 4 && drawing.clone().all(|line| line.chars().count() <= 100), "{text}");
    let (_, svg, _) = plan(&format!("{LAYERS} --memory 20GB --format svg"));
    assert!(svg.starts_with("<svg") && svg.contains("interleaved over 4 ranks with 4 chunks each"), "{svg}");
    let (_, played, _) = plan(&format!("{LAYERS} --play 3"));
    assert!(played.contains("the first 3 played out as programs"), "{played}");
}

/// The flags that are printed make the schedule that was ranked.
#[test]
fn the_winners_flags_are_understood() {
    let (_, text, _) = plan(&format!("{LAYERS} --format json"));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let show = value["winner"]["show"].as_str().expect("flags");
    let words = ["pp-schedule", "show"].into_iter().chain(show.split_whitespace());
    let cli = Cli::try_parse_from(words).expect("flags of show");
    let mut out = Vec::new();
    run(&cli.command, &mut out).expect("shown");
    assert!(String::from_utf8(out).expect("text").starts_with("interleaved over 4 ranks with 4 chunks each"));
}

#[test]
fn json_has_the_same_plan() {
    let (code, text, _) = plan(&format!("{LAYERS} --memory 20GB --format json"));
    assert_eq!(code, 0);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((value["format"].as_str(), value["version"].as_u64()), (Some("pp-schedule plan"), Some(1)));
    assert_eq!(value["unit"], "ns");
    assert_eq!(value["memory_limit"], 20_000_000_000_u64);
    let best = &value["ranked"][0];
    assert_eq!((best["schedule"].as_str(), best["vp"].as_u64()), (Some("interleaved"), Some(4)));
    assert_eq!(best["step"], 220_500_000);
    assert_eq!(best["memory"]["total"], 8_000_000_000_u64 + 19 * 500_000_000);
    assert!(value["misfits"].as_array().is_some_and(|misfits| misfits.iter().any(|one| one["schedule"] == "gpipe")));
    assert!(value["refused"].as_array().is_some_and(|refused| !refused.is_empty()));
}

#[test]
fn a_limit_without_bytes_is_said_to_bound_nothing() {
    let times = "--pp 2 -m 4 --num-layers 4 --layer-cost 1,2 --schedules 1f1b";
    for (flags, said) in [
        ("--memory 10GB", true),
        ("", false),
        ("--memory 10GB --activation-bytes 1MB", false),
        ("--memory 10GB --weight-bytes 1MB", false),
    ] {
        let (code, text, _) = plan(&format!("{times} {flags}"));
        assert_eq!(code, 0, "{text}");
        assert_eq!(text.contains("--memory bounds nothing"), said, "{flags}: {text}");
    }
    let (_, text, _) = plan(&format!("{times} --memory 10GB --format json"));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert!(value["assumed"][0].as_str().is_some_and(|line| line.contains("--memory bounds nothing")), "{text}");
}

#[test]
fn nothing_fits_is_a_failure_that_says_what_would() {
    let (code, text, error) = plan(&format!("{LAYERS} --memory 1GB"));
    assert_eq!(code, 1);
    assert!(text.contains("more than 953.7 MiB on a rank"), "{text}");
    assert!(error.contains("nothing fits into --memory 953.7 MiB; the least that works is "), "{error}");
    let bytes = error.split("works is ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    assert_eq!(plan(&format!("{LAYERS} --memory {bytes}")).0, 0);
    let less: u64 = bytes.parse::<u64>().expect("bytes") - 1;
    assert_eq!(plan(&format!("{LAYERS} --memory {less}")).0, 1);
}

#[test]
fn bad_requests_name_the_rule() {
    for (flags, parts) in [
        ("--pp 8 -m 8 --num-layers 6 --layer-cost 1,2", vec!["--num-layers 6 cannot give each of 8 stages"]),
        ("--pp 2 -m 8 --num-layers 6", vec!["nothing says what a layer costs", "--layer-cost", "--flops"]),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 1,2,3,4", vec!["`1,2,3,4` has 4 times", "F,B or F,I,W"]),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 1min,2", vec!["`min` is no unit", "ns, us, ms, s"]),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 0,0", vec!["no layer takes any time"]),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 1,2 --memory 80G", vec!["`g` is no unit", "GiB"]),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 1,2 --bandwidth 0", vec!["bandwidth 0"]),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 1,2 --recompute some", vec!["none, selective, full"]),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 1,2 --recompute selective", vec!["no way to recompute is left"]),
        (
            "--pp 2 -m 8 --num-layers 6 --layer-cost 1,2 --group-sizes 1",
            vec!["neither `all` nor a number of at least 2"],
        ),
        ("--pp 2 -m 8 --num-layers 6 --layer-cost 1,2 --schedules best", vec!["unknown schedule `best`", "1f1b"]),
        ("--pp 0 -m 8 --num-layers 6 --layer-cost 1,2", vec!["--pp 0 is not within 1..=65536"]),
        ("--pp 2 -m 0 --num-layers 6 --layer-cost 1,2", vec!["--microbatches is 0"]),
        ("--pp 2 --num-layers 6 --layer-cost 1,2", vec!["--microbatches", "--global-batch-size"]),
        ("-m 8 --num-layers 6 --layer-cost 1,2", vec!["--pp", "--gpus"]),
        ("--pp 2 --gpus 4 -m 8 --num-layers 6 --layer-cost 1,2", vec!["cannot be used with"]),
        (
            "--gpus 4 --global-batch-size 3 --micro-batch-size 2 --num-layers 6 --layer-cost 1,2",
            vec![
                "--global-batch-size 3 does not divide over 4 data-parallel replicas x --micro-batch-size 2",
                "--global-batch-size 8",
            ],
        ),
        (
            "--pp 2 -m 8 --num-layers 6 --hidden-size 100 --num-heads 8 --seq-length 16 --flops 10",
            vec![
                "--hidden-size 100 does not divide over --num-heads 8",
                "nearest that works: --hidden-size 96, or --num-heads 10",
            ],
        ),
    ] {
        let (code, _, error) = plan(flags);
        assert_eq!(code, 2, "{flags}: {error}");
        for part in parts {
            assert!(error.contains(part), "{flags}: {part}\n{error}");
        }
    }
}

/// A file that is gone when the test is over.
struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A step of known costs, drawn as a trace, gives those costs back.
#[test]
fn a_trace_gives_its_costs() {
    let words =
        "pp-schedule simulate --schedule 1f1b --pp 4 -m 6 -F 4,3,3,5 -I 4,3,3,6 -W 3,3,3,4 --unit ms --format chrome";
    let cli = Cli::try_parse_from(words.split_whitespace()).expect("flags of simulate");
    let mut out = Vec::new();
    run(&cli.command, &mut out).expect("simulated");
    let scratch = Scratch(std::env::temp_dir().join(format!("pp-schedule-plan-{}.json", std::process::id())));
    std::fs::write(&scratch.0, &out).expect("writable");
    let file = scratch.0.to_str().expect("a plain path");
    let (code, text, error) = plan(&format!("--pp 2 -m 8 --num-layers 12 --costs-from {file} --schedules 1f1b"));
    assert_eq!(code, 0, "{error}");
    for part in [
        "input and weight gradient are taken to cost half of a full backward each",
        "layer           1.000 ms  1.000 ms  1.000 ms",
        "embedding       1.000 ms",
        "head            2.000 ms",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let (code, _, error) = plan(&format!("--pp 2 -m 8 --num-layers 10 --costs-from {file}"));
    assert!(code == 2 && error.contains("give --measured-split"), "{error}");
    let split = format!("--pp 2 -m 8 --num-layers 10 --costs-from {file} --measured-split 2,3,3,2");
    assert_eq!(plan(&split).0, 0);
    let (code, _, error) = plan(&split.replace("2,3,3,2", "5,5"));
    assert!(code == 2 && error.contains("its 4 stages") && error.contains("2 counts"), "{error}");
    let (code, _, error) = plan("--pp 2 -m 8 --num-layers 12 --costs-from /nowhere.json");
    assert!(code == 2 && error.contains("/nowhere.json"), "{error}");
}

/// A shape estimates everything; what is typed stands in for the estimate.
#[test]
fn a_shape_estimates_and_flags_override() {
    let shape =
        "--pp 4 -m 16 --num-layers 24 --hidden-size 2048 --num-heads 16 --seq-length 2048 --flops 150 --schedules 1f1b";
    let (code, text, _) = plan(&format!("{shape} --memory 40GiB"));
    assert_eq!(code, 0, "{text}");
    for part in [
        "1.32 billion parameters at 150 TFLOP/s",
        "layer           1.603 ms  1.833 ms  1.374 ms  456.0 MiB          128.0 MiB  864.5 MiB",
        "--hidden-size 2048 --num-heads 16 --seq-length 2048 --micro-batch-size 1",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let (_, text, _) = plan(&format!("{shape} --layer-cost 5,10 --weight-bytes 1GiB --activation-bytes 2GiB"));
    assert!(
        text.contains("layer           5.000 ms  5.000 ms  5.000 ms  2.000 GiB          128.0 MiB  1.000 GiB"),
        "{text}"
    );
}
