//! There and back, and what is refused.

use super::*;
use crate::format::samples::{self, Sample};
use crate::ids::{Microbatch, Stage};
use crate::lower::lanes;
use crate::order::Order;
use crate::simulate::{Costs, Link, Sends, Span, StageCosts};
use crate::verify::verify;
use crate::work::{Work, WorkKind};
use serde_json::Value;

fn text_of(sample: &Sample) -> String {
    to_string(&Trace::of(sample.name, &sample.timeline, &sample.scale)).expect("a trace")
}

fn events(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).expect("JSON");
    file["traceEvents"].as_array().expect("events").clone()
}

#[test]
fn what_is_written_is_read() {
    for sample in samples::all() {
        let recorded = read(&text_of(&sample)).expect(sample.name);
        assert_eq!((recorded.title.as_str(), recorded.extent), (sample.name, sample.timeline.extent()));
        let timeline = recorded.timeline(0).expect(sample.name);
        // The samples' unit is ms, of 1000 ticks.
        let scaled = |row: &Vec<Span>| -> Vec<Span> {
            row.iter().map(|span| Span { start: span.start * 1000, end: span.end * 1000, ..*span }).collect()
        };
        let rows: Vec<_> = sample.timeline.rows().iter().map(scaled).collect();
        assert_eq!(timeline.rows(), rows, "{}: spans, and what they waited for", sample.name);
        assert_eq!(recorded.order(0).expect("an order").rows(), sample.order.rows());
        assert_eq!(recorded.scale, Scale { ticks_per_unit: 1e6, unit: "ms".to_owned() });
    }
}

#[test]
fn a_scale_is_kept() {
    let sample = Sample::new("", samples::generated(2, 3, 4), &Costs::UNIT);
    for (scale, ns) in [
        (Scale::of_chunks(3), 333_333),
        (Scale { ticks_per_unit: 1e9, unit: "s".to_owned() }, 1),
        (Scale { ticks_per_unit: 1.0, unit: "µs".to_owned() }, 1000),
        (Scale { ticks_per_unit: 1e12, unit: "ms".to_owned() }, 1),
        (Scale { ticks_per_unit: f64::NAN, unit: "x".to_owned() }, 1),
    ] {
        assert_eq!(ns_per_tick(&scale), ns, "{scale:?}");
        if scale.ticks_per_unit.is_finite() {
            let recorded = read(&to_string(&Trace::of("", &sample.timeline, &scale)).unwrap()).unwrap();
            let (one, other) =
                (recorded.scale.of(sample.timeline.makespan() * ns), scale.of(sample.timeline.makespan()));
            assert!((one - other).abs() < 1e-9 * other && recorded.scale.unit == scale.unit);
        }
    }
}

#[test]
fn costs_are_medians_by_stage_and_kind() {
    let stages: Vec<StageCosts> = (1..=4)
        .map(|n| StageCosts { forward: 10 * n, backward: 19 * n, backward_input: 11 * n, backward_weight: 8 * n })
        .collect();
    let costs = Costs::per_stage(stages);
    let recorded = |order: Order| {
        let mut trace = Trace::measured("");
        let timeline = Timeline::of_order(&order, &costs).unwrap();
        let step = |number| Step { number, start: u64::from(number) * 10_000, timeline: &timeline };
        trace.steps = vec![step(0), step(1)];
        read(&to_string(&trace).unwrap()).unwrap()
    };
    let measured = recorded(samples::overlapped()).costs().unwrap();
    for stage in (0..4).map(Stage) {
        // Only the outer stages of the sample have parts; the others' are assumed.
        let (expected, got) = (costs.stage(stage), measured.costs.stage(stage));
        assert_eq!((got.forward, got.backward), (expected.forward, expected.backward));
    }
    assert_eq!(measured.costs.stage(Stage(3)).backward_input, 44);
    assert_eq!(measured.costs.stage(Stage(3)).backward_weight, 32);
    assert!(measured.assumed.len() == 1 && measured.assumed[0].starts_with("on 2 stages"), "{:?}", measured.assumed);
    assert_eq!(recorded(samples::generated(4, 1, 3)).costs().unwrap().assumed.len(), 1);
}

#[test]
fn one_slow_microbatch_does_not_make_a_cost() {
    let sample = Sample::new("", samples::generated(2, 1, 5), &Costs::UNIT);
    let mut rows = sample.timeline.rows().to_vec();
    let last = rows[0].len() - 1;
    rows[0][last].end += 5000;
    let slow = Timeline::measured(sample.timeline.extent(), rows);
    let mut trace = Trace::measured("");
    trace.steps.push(Step { number: 0, start: 0, timeline: &slow });
    let costs = read(&to_string(&trace).unwrap()).unwrap().costs().unwrap().costs;
    assert_eq!(costs.stage(Stage(0)).backward, 2);
}

#[test]
fn steps_and_what_else_took_time_are_kept() {
    let sample = Sample::new("", samples::split(), &samples::uneven());
    let mut trace = Trace::measured("two \"steps\"");
    trace.steps = vec![
        Step { number: 3, start: 1_000_000, timeline: &sample.timeline },
        Step { number: 7, start: 9_000_000, timeline: &sample.timeline },
    ];
    let extra = |lane: &str, name: &str, start, end| Extra {
        step: 3,
        rank: Rank(1),
        lane: lane.to_owned(),
        name: name.to_owned(),
        start,
        end,
    };
    trace.extra = vec![
        extra("receive", "wait for \"0F0\"", 1_000_001, 1_000_999),
        extra("receive", "wait for 0F1", 1_000_500, 1_002_000),
        extra("send\n", "<send>", 1_002_000, 1_002_000),
    ];
    let text = to_string(&trace).unwrap();
    let recorded = read(&text).unwrap();
    assert_eq!((recorded.numbers(), &recorded.extra), (vec![3, 7], &trace.extra));
    for step in [3, 7] {
        assert_eq!(recorded.timeline(step).unwrap().rows(), sample.timeline.rows());
    }
    // What overlaps is in lanes of its own, each with a name.
    let tids: Vec<u64> = events(&text)
        .iter()
        .filter(|event| event["cat"] == "extra")
        .map(|event| event["tid"].as_u64().unwrap())
        .collect();
    assert_eq!(tids, [1, 2, 3]);
    let names = events(&text).iter().filter(|event| event["pid"] == 1 && event["name"] == "thread_name").count();
    assert_eq!(names, 4);
    assert!(matches!(recorded.timeline(4), Err(ChromeError::NoSuchStep { step: 4, .. })));
    let only = recorded.only(|step| step > 3).unwrap();
    assert_eq!((only.numbers(), only.extra.len()), (vec![7], 0));
    assert!(matches!(only.only(|_| false), Err(ChromeError::Empty)));
}

#[test]
fn messages_go_from_the_maker_to_the_consumer() {
    let spec = crate::config::ScheduleSpec::new(3, 2, 6);
    let config = crate::config::ScheduleConfig::new(&spec).unwrap();
    let verified = verify(lanes::lower(&config)).unwrap();
    let costs = Costs::UNIT.with_link(Link { latency: 1, transfer: 1 });
    let timeline = Timeline::of_program(verified.program(), &costs, Sends::Eager).unwrap();
    let text = to_string(&Trace::of("", &timeline, &Scale::of_chunks(2))).unwrap();
    let all = events(&text);
    assert!(!timeline.flights().is_empty());
    let slices: Vec<&Value> = all.iter().filter(|event| event["ph"] == "X").collect();
    let number = |event: &Value, field: &str| event[field].as_f64().unwrap();
    let at = |flow: &Value| {
        slices.iter().find(|slice| {
            let (start, ts) = (number(slice, "ts"), number(flow, "ts"));
            slice["pid"] == flow["pid"]
                && slice["tid"] == flow["tid"]
                && start <= ts
                && ts < start + number(slice, "dur")
        })
    };
    for (phase, category) in [("s", "compute"), ("t", "message"), ("f", "compute")] {
        let flows: Vec<&Value> = all.iter().filter(|event| event["ph"] == phase).collect();
        assert_eq!(flows.len(), timeline.flights().len());
        for flow in flows {
            assert_eq!(at(flow).expect("a slice")["cat"], category, "{flow}");
        }
    }
    // No two slices of a lane overlap.
    let mut lanes: Vec<_> =
        slices.iter().map(|s| (s["pid"].as_u64(), s["tid"].as_u64(), number(s, "ts"), number(s, "dur"))).collect();
    lanes.sort_by(|one, other| one.partial_cmp(other).unwrap());
    for pair in lanes.windows(2) {
        let [(pid, tid, start, length), next] = [pair[0], pair[1]];
        assert!((pid, tid) != (next.0, next.1) || next.2 >= start + length, "{pair:?}");
    }
    let mut read = read(&text).unwrap().timeline(0).unwrap().rows().to_vec();
    for span in read.iter_mut().flatten() {
        (span.start, span.end) = (span.start / 500_000, span.end / 500_000);
    }
    let bare =
        |rows: &[Vec<Span>]| rows.iter().flatten().map(|span| (span.work, span.start, span.end)).collect::<Vec<_>>();
    assert_eq!(bare(&read), bare(timeline.rows()));
}

#[test]
fn counters_end_at_nothing() {
    let sample = Sample::new("", samples::split(), &samples::uneven());
    let all = events(&text_of(&sample));
    let counters: Vec<_> = all.iter().filter(|event| event["ph"] == "C" && event["pid"] == 0).collect();
    assert_eq!(counters.len(), sample.timeline.rows()[0].len());
    assert_eq!(counters[counters.len() - 1]["args"], serde_json::json!({"in flight": 0, "deferred": 0}));
    let mut trace = Trace::of("", &sample.timeline, &sample.scale);
    trace.counters = false;
    assert!(!to_string(&trace).unwrap().contains("\"ph\":\"C\""));
}

#[test]
fn steps_of_different_schedules_are_no_trace() {
    let (one, other) =
        (Sample::new("", samples::split(), &Costs::UNIT), Sample::new("", samples::overlapped(), &Costs::UNIT));
    let mut trace = Trace::measured("");
    assert!(to_string(&trace).unwrap_err().to_string().contains("at least one step"));
    trace.steps.push(Step { number: 0, start: 0, timeline: &one.timeline });
    trace.steps.push(Step { number: 1, start: 0, timeline: &other.timeline });
    assert!(to_string(&trace).unwrap_err().to_string().contains("steps 0 and 1"));
}

const HEADER: &str =
    r#""format":"pp-schedule trace","version":1,"pp":2,"vp":1,"placement":"loop","microbatches":1,"forward_only":true"#;

fn file(header: &str, events: &str) -> String {
    format!(r#"{{"traceEvents":[{events}],"otherData":{{{header}}},"more":[1,{{}}]}}"#)
}

const EVENTS: &str = r#"{"name":"0F0","cat":"compute","ph":"X","pid":0,"ts":0.5,"dur":1.25},
    {"name":"1F0","cat":"compute","ph":"X","pid":1,"ts":2,"dur":1}"#;

#[test]
fn what_is_not_ours_is_skipped() {
    let foreign = r#"{"ph":"X","name":7,"pid":"x","ts":"now","dur":null,"args":[1]},{},{"ph":{"a":[]},"cat":true,"args":3},
        {"name":"2F0junk","cat":"gpu","ph":"X","pid":-1,"ts":-5,"args":{"step":{"deep":[{}]},"other":"\u00e9"}},
        {"name":"0F0","cat":"compute","ph":"B","pid":0,"args":null},{"args":"text"},{"args":1.5},{"args":-1},{"args":true},"#;
    let recorded = read(&file(HEADER, &format!("{foreign}{EVENTS}"))).unwrap();
    assert_eq!(recorded.steps.len(), 1);
    let RecordedSpan { start, end, .. } = recorded.steps[0].spans[0];
    assert_eq!((start, end, recorded.steps[0].start), (500, 1750, 500));
    // A forward has no backward; it starts when the one before has arrived.
    let timeline = recorded.timeline(0).unwrap();
    assert_eq!(timeline.rows()[1][0].after, crate::simulate::After::Other { rank: Rank(0), index: 0 });
    assert_eq!(recorded.costs().unwrap().costs.stage(Stage(0)).forward, 1250);
}

#[test]
fn faults_are_named_with_their_place() {
    let event = |fields: &str| file(HEADER, &format!("{EVENTS},{{\"cat\":\"compute\",\"ph\":\"X\"{fields}}}"));
    for (text, place) in [
        ("".to_owned(), "line 1 column 0"),
        ("[]".to_owned(), "not a Chrome trace"),
        ("{\"traceEvents\":[{]}".to_owned(), "line 1 column 18"),
        ("{\"traceEvents\":{}}".to_owned(), "expected an array of events"),
        ("{\"otherData\":{}}".to_owned(), "missing field `traceEvents`"),
        ("{\"traceEvents\":[]}".to_owned(), "otherData.format is missing, expected `pp-schedule trace`"),
        (file(HEADER, ""), "no computations"),
        (file(&HEADER.replace("\"version\":1", "\"version\":2"), EVENTS), "otherData.version is `2`, expected 1"),
        (file(&HEADER.replace("\"pp\":2", "\"pp\":0"), EVENTS), "otherData.pp is `0`"),
        (file(&HEADER.replace("\"pp\":2", "\"pp\":4000000000"), EVENTS), "pp * vp * microbatches is at most"),
        (file(&HEADER.replace("\"vp\":1,", ""), EVENTS), "otherData.vp is missing"),
        (file(&HEADER.replace("loop", "ring"), EVENTS), "otherData.placement is `\"ring\"`, expected `loop` or `v`"),
        (file(&HEADER.replace("true", "1"), EVENTS), "otherData.forward_only is `1`"),
        (file(&format!("{HEADER},\"steps\":[{{}}]"), EVENTS), "otherData.steps is an object, expected an array of {"),
        (file(&format!("{HEADER},\"ns_per_unit\":-1"), EVENTS), "otherData.ns_per_unit is `-1`"),
        (event(""), "traceEvents[2]: it has no name"),
        (event(r#","name":"0F0""#), "traceEvents[2] (`0F0`): pid is missing, expected a rank"),
        (event(r#","name":"0F0","pid":0.5"#), "pid is 0.5"),
        (event(r#","name":"0F0","pid":0,"ts":-1"#), "ts is -1, expected microseconds from 0 on"),
        (event(r#","name":"0F0","pid":0,"ts":1e300,"dur":1"#), "expected microseconds from 0 on"),
        (event(r#","name":"0F0","pid":0,"ts":9"#), "traceEvents[2] (`0F0`): dur is missing"),
        (event(r#","name":"0F0","pid":0,"ts":8e15,"dur":1"#), "step 0 takes 8000000000000000500 ns"),
        (
            event(r#","name":"0F0","pid":0,"ts":9,"dur":1,"args":{"step":"x"}"#),
            "args.step is `x`, expected a step's number",
        ),
        (event(r#","name":"2F0junk","pid":0,"ts":9,"dur":1"#), "`2F0junk` is not a computation"),
        (event(r#","name":"2F0","pid":0,"ts":9,"dur":1"#), "traceEvents[2] (`2F0`): the trace is of stages 0..2"),
        (event(r#","name":"1F0","pid":0,"ts":9,"dur":1"#), "its pid is 0, but stage 1 lives on rank 1"),
        (
            event(r#","name":"0F0","pid":0,"ts":1,"dur":9"#),
            "step 0, rank 0: 0F0 starts at 1000 ns, before 0F0 ends at 1750 ns",
        ),
    ] {
        let error = read(&text).expect_err(place).to_string();
        assert!(error.contains(place), "{error}\nexpected {place}");
    }
}

#[test]
fn another_form_is_told_the_one_that_is_read() {
    for (text, part) in [
        (r#"[{"name":"0F0","ph":"X"}]"#, "an array of events; expected an object with `traceEvents` and `otherData`"),
        (" [ ]", "an array of events"),
        ("3", "expected an object with `traceEvents` and `otherData`"),
        ("{}", "missing field `traceEvents`"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn steps_that_are_not_whole_are_no_timelines() {
    let error = |header: &str, events: &str| read(&file(header, events)).unwrap().timeline(0).unwrap_err().to_string();
    let again = format!("{EVENTS},{{\"name\":\"0F0\",\"cat\":\"compute\",\"ph\":\"X\",\"pid\":0,\"ts\":9,\"dur\":1}}");
    assert!(error(HEADER, &again).contains("step 0: rank 0: 0F0 stands twice"));
    assert!(error(&HEADER.replace("true", "false"), EVENTS).contains("no backward"));
    let one = &EVENTS[..EVENTS.find(",\n").unwrap()];
    assert!(error(HEADER, one).contains("1 rows are given, but there are 2 ranks"));
    let early = r#"{"name":"0B0","cat":"compute","ph":"X","pid":0,"ts":0,"dur":1},{"name":"0F0","cat":"compute","ph":"X","pid":0,"ts":1,"dur":1},
        {"name":"1F0","cat":"compute","ph":"X","pid":1,"ts":2,"dur":1},{"name":"1B0","cat":"compute","ph":"X","pid":1,"ts":3,"dur":1}"#;
    let early = error(&HEADER.replace("true", "false"), early);
    assert!(early.contains("step 0: rank 0: 0B0 stands before its forward 0F0"), "{early}");
    let missing = read(&file(HEADER, one)).unwrap().costs().unwrap_err().to_string();
    assert!(missing.contains("stage 1") && missing.contains("no forward (F)"), "{missing}");
}

#[test]
fn computations_that_wait_in_a_circle_have_an_end() {
    // Each rank runs another microbatch first: no run can do that, a file can.
    let on = |pid, names: [&'static str; 4]| names.map(|name| (pid, name));
    let (rank0, rank1) = (on(0, ["0F0", "0B0", "0F1", "0B1"]), on(1, ["1F1", "1B1", "1F0", "1B0"]));
    let by_turns = [&rank1[..2], &rank0[..], &rank1[2..]].concat();
    let header = HEADER.replace("true", "false").replace("\"microbatches\":1", "\"microbatches\":2");
    for dur in [0, 1] {
        let spans: Vec<_> = (0..)
            .zip(&by_turns)
            .map(|(at, (pid, name))| {
                format!(r#"{{"name":"{name}","cat":"compute","ph":"X","pid":{pid},"ts":{},"dur":{dur}}}"#, at * dur)
            })
            .collect();
        let timeline = read(&file(&header, &spans.join(","))).unwrap().timeline(0).unwrap();
        assert!((1..=8).contains(&crate::simulate::critical_path(&timeline).steps.len()));
    }
}

#[test]
fn clocks_that_are_ahead_break_nothing() {
    let sample = Sample::new(
        "",
        samples::generated(3, 2, 6),
        &Costs::uniform(StageCosts { forward: 1000, backward: 2000, backward_input: 1000, backward_weight: 1000 }),
    );
    let mut rows = sample.timeline.rows().to_vec();
    for span in &mut rows[1] {
        (span.start, span.end) = (span.start + 1700, span.end + 1700);
    }
    let skewed = Timeline::measured(sample.timeline.extent(), rows);
    let mut trace = Trace::measured("");
    trace.steps.push(Step { number: 0, start: 0, timeline: &skewed });
    let timeline = read(&to_string(&trace).unwrap()).unwrap().timeline(0).unwrap();
    let report = crate::simulate::Report::new(&timeline, |_| crate::simulate::StageBytes::default());
    assert!(report.critical_path.compute <= report.makespan);
    assert_eq!(report.makespan, skewed.makespan());
}

#[test]
fn kinds_are_told_in_words() {
    let text = text_of(&Sample::new("", samples::split(), &Costs::UNIT));
    let work = Work { kind: WorkKind::BackwardWeight, stage: Stage(1), microbatch: Microbatch(0) };
    let all = events(&text);
    let event = all.iter().find(|event| event["name"] == work.to_string()).expect("1W0");
    assert_eq!(event["args"]["kind"], "weight gradient");
    let event = all.iter().find(|event| event["name"] == "1F0").expect("1F0");
    assert_eq!(event["args"]["waited_for"], "0F0 on rank 0");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..Default::default()
    })]

    #[test]
    fn any_text_is_a_trace_or_an_error(edits in proptest::collection::vec((0..100_000usize, 0..8usize, "[0-9FBIW\\\\,:{}\"eE.-]{0,3}"), 1..4)) {
        let sample = Sample::new("split", samples::split(), &samples::uneven());
        let mut text = text_of(&sample);
        for (at, length, new) in edits {
            let at = at % text.len();
            text.replace_range(at..(at + length).min(text.len()), &new);
        }
        if let Ok(recorded) = read(&text) {
            let _ = recorded.costs();
            for step in recorded.numbers() {
                if let Ok(timeline) = recorded.timeline(step) {
                    let report = crate::simulate::Report::new(&timeline, samples::bytes);
                    proptest::prop_assert!(report.critical_path.compute <= report.makespan);
                }
            }
        }
    }
}
