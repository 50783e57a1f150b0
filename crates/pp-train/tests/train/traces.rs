//! A step written down, and what is said of measured steps.

use std::fs;
use std::path::Path;

use crate::harness::{config, run_on};
use crate::process::{self, Scratch, TINY, start, trainer};
use pp_schedule::format::chrome;
use pp_schedule::simulate::Timeline;
use pp_train::{Outcome, Text};

fn read(path: &Path) -> chrome::Recorded {
    chrome::read(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Trains in this process, writing a step.
fn traced(name: &str, line: &str) -> (Outcome, chrome::Recorded, pp_train::TrainConfig) {
    let scratch = Scratch::new(name);
    let path = scratch.file("trace.json");
    let config = config(&format!("--train-iters 4 --trace {} {line}", path.display()));
    let outcome = run_on(&config, &Text::load(&config).unwrap(), 1);
    let left: Vec<_> = fs::read_dir(scratch.file("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["trace.json"], "nothing unfinished is left");
    (outcome, read(&path), config)
}

/// What each rank waits for is made before it starts, by one clock.
fn check_clocks(timeline: &Timeline) {
    let placement = timeline.extent().placement;
    let spans = || timeline.rows().iter().flatten();
    let mut n_checked = 0;
    for span in spans() {
        let Some(input) = pp_schedule::deps::input_of(span.work, placement) else { continue };
        let makes =
            |other: &&pp_schedule::simulate::Span| pp_schedule::deps::output_of(other.work, placement) == Some(input);
        let maker = spans().find(makes).unwrap();
        assert!(
            maker.end <= span.start,
            "{} starts at {} ns, {} ends at {} ns",
            span.work,
            span.start,
            maker.work,
            maker.end
        );
        n_checked += 1;
    }
    assert!(n_checked > 0);
}

#[test]
fn a_traced_step_is_the_schedules_order_by_one_clock() {
    for (line, step) in [
        ("--pp 2 --vp 2 --trace-iteration 2", 2),
        ("--pp 2 --schedule zb-v", 4),
        ("--pp 4 --schedule zb-h1 --trace-iteration 1", 1),
        ("--pp 1", 4),
    ] {
        let (_, recorded, config) = traced("traced", line);
        assert_eq!(recorded.numbers(), [step], "{line}");
        assert!(recorded.title.ends_with(&format!("iteration {step}")), "{}", recorded.title);
        assert_eq!(recorded.order(step).unwrap().rows(), config.plan().order().rows(), "{line}");
        let timeline = recorded.timeline(step).unwrap();
        assert!(timeline.busy() > 0 && timeline.bubble() < 1.0);
        if config.plan().n_ranks() > 1 {
            check_clocks(&timeline);
        }
        let lanes = |name: &str| recorded.extra.iter().filter(|extra| extra.lane == name).count();
        assert_eq!(lanes("rest of the step"), 2 * config.plan().n_ranks() as usize, "{line}");
        // Somebody waits for something at the start, where there is somebody else.
        assert_eq!(lanes("wait for messages") > 0, config.plan().n_ranks() > 1, "{line}");
        let costs = recorded.costs().unwrap().costs;
        assert!(costs.covers(config.plan().placement()));
    }
}

#[test]
fn measured_steps_stand_beside_what_is_foretold() {
    for line in ["--pp 2 --schedule zb-v", "--pp 2 --vp 2", "--pp 1"] {
        let config = config(&format!("--train-iters 6 {line}"));
        let outcome = run_on(&config, &Text::load(&config).unwrap(), 1);
        let (measured, predicted) = (&outcome.steps.measured, outcome.steps.predicted.unwrap());
        assert_eq!(measured.n_steps, 5, "all but the first");
        assert_eq!(measured.stages.len(), config.plan().placement().n_stages() as usize);
        let splits = line.contains("zb-v");
        for stage in &measured.stages {
            assert!(stage.forward_ms.is_some() && stage.busy_ms > 0.0, "{stage:?}");
            assert_eq!(
                (stage.backward_ms.is_some(), stage.backward_input_ms.is_some(), stage.backward_weight_ms.is_some()),
                (!splits, splits, splits),
                "{stage:?}"
            );
        }
        // A step takes at least what its computations take, and messages take time.
        assert!(measured.program_ms > 0.0 && (0.0..1.0).contains(&measured.bubble), "{measured:?}");
        assert!((0.0..1.0).contains(&predicted.bubble) && predicted.program_ms > 0.0, "{predicted:?}");
        assert!(measured.longest_stage_bubble <= measured.bubble + 1e-9, "{measured:?}");
    }
}

#[test]
fn processes_write_one_trace_and_say_what_was_measured() {
    let scratch = Scratch::new("trace");
    let (meeting, trace, metrics) = (scratch.file("meeting"), scratch.file("trace.json"), scratch.file("metrics"));
    scratch.write("trace.json", "what was there before");
    let ranks = [0, 1].map(|rank| {
        start(&mut trainer(&format!(
            "{TINY} --pp 2 --world-size 2 --rank {rank} --timeout 30 --rendezvous-file {} --trace {} --metrics {}",
            meeting.display(),
            trace.display(),
            metrics.display()
        )))
    });
    let [first, _] = ranks.map(|rank| {
        let ended = rank.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
    });
    let timeline = read(&trace).timeline(2).unwrap();
    check_clocks(&timeline);
    for part in
        ["stage 0 on rank 0: forward ", "bubble, idle share of the step: measured ", "%, predicted ", "the only step"]
    {
        assert!(first.stdout.contains(part), "{part}: {}", first.stdout);
    }
    let text = fs::read_to_string(&metrics).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    for field in ["program_ms", "bubble", "longest_stage_bubble", "predicted_program_ms", "predicted_bubble"] {
        assert!(last[field].is_number(), "{field}: {last}");
    }
    assert_eq!(last["stages"].as_array().map(Vec::len), Some(2));
    assert_eq!((last["stages"][1]["stage"].as_u64(), last["stages"][1]["rank"].as_u64()), (Some(1), Some(1)));
    assert_eq!(last["peak_saved"], serde_json::json!([2, 1]));
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_start() {
    let scratch = Scratch::new("untraced");
    let data = scratch.write("text", &"to be or not to be, that is the question. ".repeat(20));
    let schedule = scratch.write("schedule", "0F0,0B0\n");
    let both = scratch.file("both");
    for (line, parts) in [
        (format!("{TINY} --trace {}", scratch.file("").display()), vec!["--trace", "is a directory"]),
        (format!("{TINY} --trace {}", scratch.file("no/such/file").display()), vec!["--trace", "cannot be written"]),
        (format!("{TINY} --trace /dev/full"), vec!["--trace /dev/full", "no regular file"]),
        (
            format!("{} --trace {}", process::tiny_on(&data), data.display()),
            vec!["--trace", "is the same file as --data"],
        ),
        (format!("{TINY} --metrics {0} --trace {0}", both.display()), vec!["--trace", "is the same file as --metrics"]),
        (
            format!("{} --schedule-csv {1} --trace {1}", TINY.replace("--microbatches 2 ", ""), schedule.display()),
            vec!["--trace", "is the same file as --schedule-csv"],
        ),
        (format!("{TINY} --trace t --trace-iteration 3"), vec!["--trace-iteration 3", "--train-iters 2", "works: 2"]),
        (format!("{TINY} --trace t --trace-iteration 0"), vec!["--trace-iteration 0 is not within 1", "works: 1"]),
        (format!("{TINY} --trace-iteration 1"), vec!["--trace-iteration 1", "without --trace"]),
    ] {
        for dry in ["", "--dry-run"] {
            process::run(&format!("{line} {dry}")).failed(2, &parts);
        }
    }
    assert!(fs::read_to_string(&data).unwrap().starts_with("to be") && !both.exists());
    assert_eq!(process::run(&format!("{TINY} --trace /dev/null --metrics /dev/null")).code, Some(0));
}
