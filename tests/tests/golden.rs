//! The product's answers against tables recorded from the peers (`tests/golden/README.md` says how).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pp_schedule::{Direction, Rank, ScheduleConfig, ScheduleSpec, ScheduleTable, figures, rank_order, receive_after};
use xtask::golden::{Stem, answer_line, check_file, check_lines, read_lines};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

#[test]
fn every_recorded_answer_is_ours() {
    let files = [
        ("dualpipe.jsonl.gz", 70),
        ("megatron_head_traces_variants.jsonl.gz", 519),
        ("megatron_layers.jsonl.gz", 2139),
        ("megatron_rejects.jsonl.gz", 576),
        ("megatron_tables.jsonl.gz", 1795),
        ("megatron_traces.jsonl.gz", 1648),
        ("megatron_traces_variants.jsonl.gz", 474),
        ("torch_orders.jsonl.gz", 387),
        ("torch_runtime.jsonl.gz", 34),
    ];
    for (name, lines) in files {
        let report = check_file(&golden(name)).expect("readable");
        assert_eq!(report.first_difference, None, "{name}");
        assert_eq!(report.compared, lines, "{name}");
    }
}

/// Each of these is a search, so a few of them here, and all, optimised, in `cargo xtask ci golden`.
#[test]
fn recorded_zero_bubble_orders_are_not_shorter_than_ours() {
    let text = read_lines(&golden("zb.jsonl.gz")).expect("readable");
    let some: Vec<&str> = text.lines().step_by(15).collect();
    let report = check_lines(Stem::Zb, &some.join("\n")).expect("readable");
    assert_eq!(report.first_difference, None);
    assert_eq!(report.compared, 13);
}

#[test]
fn a_changed_value_is_found() {
    let text = read_lines(&golden("megatron_tables.jsonl.gz")).expect("readable");
    let line = text.lines().find(|line| line.contains(r#""kind":"order","pp":2,"vp":2,"m":4"#)).expect("a line");
    let spoilt = line.replacen("[1,1,2,2", "[1,2,2,2", 1);
    assert_ne!(spoilt, line);
    let report = check_lines(Stem::MegatronTables, &spoilt).expect("a question");
    let difference = report.first_difference.expect("found");
    assert!(difference.contains("order[0][1]: recorded 2, ours 1 (after 1)"), "{difference}");

    let accepted = r#"{"kind":"sweep","pp":4,"vp":2,"m":3,"N":4,"reject":null}"#;
    let report = check_lines(Stem::MegatronRejects, accepted).expect("a question");
    assert!(report.first_difference.expect("found").contains("--microbatches 4"));
}

/// What is not judged is taken out of the recorded side, and nothing else: each spoilt value is found.
#[test]
fn a_changed_computation_is_found_among_communication() {
    let spoilt = |stem: Stem, line: &str, from: &str, to: &str| {
        assert_eq!(check_lines(stem, line).expect("a question").first_difference, None);
        let spoilt = line.replacen(from, to, 1);
        assert_ne!(spoilt, line);
        check_lines(stem, &spoilt).expect("a question").first_difference
    };
    let order = r#"{"schedule":"LoopedBFS","pp":2,"v":1,"m":1,"reject":null,"compute":["0UNSHARD,0F0,,,0B0","1F0,1B0,1REDUCE_GRAD"],"stage_to_rank":[0,1]}"#;
    for (from, to) in [("0F0", "0F1"), ("1F0,1B0", "1B0,1F0"), ("0B0", "0I0"), ("[0,1]", "[1,0]"), ("null", "[\"E\"]")]
    {
        assert!(spoilt(Stem::TorchOrders, order, from, to).is_some(), "{from} {to}");
    }
    let runtime = r#"{"schedule":"1F1B","pp":2,"m":2,"reject":null,"runtime":["0F0,P2P(0SEND_F0),WAIT(0SEND_F0),0F1,P2P(0SEND_F1;0RECV_B0),0B0,0B1,LAST_BACKWARD,0REDUCE_GRAD","1F0,1B0,1F1,1B1"]}"#;
    assert!(spoilt(Stem::TorchRuntime, runtime, "0B1", "0B2").is_some());
    let events = r#"{"schedule":"DualPipeV","pp":1,"n":2,"rank":0,"reject":null,"ev":[["F",0,0],["F",1,0],["F",0,1],["B",1,0],["FB{"],["F",1,1],["B",0,0],["}FB"],["P2P",[["S",0]]],["B",1,1],["I",0,1],["W",0,1]]}"#;
    assert!(spoilt(Stem::DualPipe, events, r#"["I",0,1]"#, r#"["I",0,0]"#).is_some());
}

#[test]
fn what_a_peer_refuses_is_refused_for_it_though_we_run_it() {
    for line in [
        r#"{"schedule":"1F1B","pp":4,"v":1,"m":3,"reject":["ValueError","..."]}"#,
        r#"{"schedule":"Interleaved1F1B","pp":2,"v":2,"m":5,"reject":["ValueError","..."]}"#,
        r#"{"schedule":"InterleavedZeroBubble","pp":2,"v":1,"m":5,"reject":["ValueError","..."]}"#,
        r#"{"schedule":"ZBVZeroBubble","pp":2,"v":1,"m":5,"reject":["ValueError","..."]}"#,
        r#"{"schedule":"DualPipeV","pp":4,"v":2,"m":7,"reject":["ValueError","..."]}"#,
    ] {
        assert_eq!(check_lines(Stem::TorchOrders, line).expect("a question").first_difference, None, "{line}");
    }
}

#[test]
fn a_file_that_asks_nothing_or_something_unknown_is_no_success() {
    let error = |text: &str| format!("{:#}", check_lines(Stem::MegatronTables, text).expect_err(text));
    assert!(error("").contains("no question"));
    assert!(error(r#"{"kind":"tabel","vp":2,"m":2,"N":2,"table":[[9,9]]}"#).contains("unknown kind `tabel`"));
    let trace = r#"{"pp":2,"rank":0,"vp":2,"m":2,"N":2,"ev":[]}"#;
    assert!(check_lines(Stem::MegatronTraces, trace).is_err());
    let nothing = r#"{"kind":"trace_grid","type":"ValueError"}"#;
    assert!(check_lines(Stem::MegatronRejects, nothing).is_err());
}

#[test]
fn answers_are_computed_and_not_copied() {
    let lying = r#"{"kind":"table","vp":2,"m":2,"N":2,"table":"nothing"}"#;
    let answer = answer_line(Stem::MegatronTables, lying).expect("a question");
    assert_eq!(serde_json::to_string(&answer["table"]).expect("json"), "[[0,0],[1,0],[0,1],[1,1]]");
}

#[test]
fn what_is_no_question_is_refused_with_the_field() {
    let error = |line: &str| format!("{:#}", answer_line(Stem::MegatronTables, line).expect_err(line));
    assert!(error("[]").contains("a question is a JSON object"));
    assert!(error("{").contains("not JSON"));
    assert!(error(r#"{"kind":"table","m":2}"#).contains("`N` is missing"));
    assert!(error(r#"{"kind":"table","m":0,"N":1}"#).contains("`m` is 0"));
    assert!(error(r#"{"kind":"table","m":4000000000,"vp":9,"N":1}"#).contains("at most"));
    assert!(error(r#"{"kind":"what","m":1,"N":1}"#).contains("unknown kind `what`"));
}

/// Tables to be read by people. `UPDATE_GOLDEN=1` writes them anew; the diff is then reviewed by hand.
#[test]
fn hand_readable_tables() {
    for (name, spec) in [("p2_v2_m4.txt", ScheduleSpec::new(2, 2, 4)), ("p4_v2_m8.txt", ScheduleSpec::new(4, 2, 8))] {
        let text = readable(&ScheduleConfig::new(&spec).expect("valid"));
        let path = golden(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).expect("writable");
        }
        let recorded = std::fs::read_to_string(&path).expect("a golden table");
        assert_eq!(text, recorded, "{name}: if the change is meant, run with UPDATE_GOLDEN=1 and review the diff");
    }
}

fn readable(config: &ScheduleConfig) -> String {
    let table = ScheduleTable::new(config.microbatches(), config.vp(), config.groups());
    let mut text = format!("interleaved 1F1B, p {} v {} m {}\n\n", config.pp(), config.vp(), config.microbatches());
    row(&mut text, "vid", 0..table.len());
    row(&mut text, "microbatch", table.entries().iter().map(|(microbatch, _)| microbatch));
    row(&mut text, "chunk forward", table.rows(Direction::Forward).map(|(_, chunk)| chunk));
    row(&mut text, "chunk backward", table.rows(Direction::Backward).map(|(_, chunk)| chunk));
    for rank in (0..config.pp()).map(Rank) {
        let counts = figures::counts(config, rank);
        let _ = writeln!(
            text,
            "\nrank {rank}: warmup {} steady {} cooldown {}",
            counts.warmup, counts.remaining, counts.warmup
        );
        for direction in [Direction::Forward, Direction::Backward] {
            let received = (0..table.len()).filter_map(|vid| {
                let (microbatch, chunk) = receive_after(&table, direction, config.pp(), rank, vid)?;
                Some(format!("{vid}->{microbatch}/{chunk}"))
            });
            row(&mut text, &format!("receives {direction}"), received);
        }
        let order: Vec<String> = rank_order(config, rank).iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{}", order.join(" "));
    }
    text.push_str("\nreceives: after step vid -> microbatch/chunk; tokens: stage, kind, microbatch\n");
    text
}

fn row<T: std::fmt::Display>(text: &mut String, name: &str, items: impl Iterator<Item = T>) {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    let _ = writeln!(text, "{name:<17} {}", items.join(" "));
}

/// The zero-bubble orders are judged by length and memory alone.
#[test]
fn a_recorded_order_that_holds_less_is_found() {
    let of = |schedule: &str, cost: &str, compute: &str| {
        let line = format!(r#"{{"schedule":"{schedule}","pp":1,"m":2,"cost":{cost},"compute":["{compute}"]}}"#);
        check_lines(Stem::Zb, &line)
    };
    let difference =
        |schedule: &str, compute: &str| of(schedule, "[1,2,3,0]", compute).expect("valid").first_difference;
    assert_eq!(difference("zb", "F0@1,BW0,F1,B1,W1"), None);
    assert_eq!(difference("zbv", "F0,F0.1,BW0.1,BW0,F1,F1.1,BW1.1,BW1"), None);
    // Over the V, one microbatch at a time holds less than what is shorter.
    let row = "F0,F0.1,BW0.1,BW0,F1,F1.1,BW1.1,BW1";
    let line = format!(r#"{{"schedule":"zbv","pp":2,"m":2,"cost":[1,1,1,0],"compute":["{row}","{row}"]}}"#);
    let smaller = check_lines(Stem::Zb, &line).expect("valid").first_difference.expect("found");
    assert!(smaller.contains("half-activations held at most: recorded 4, limit 8"), "{smaller}");
    assert!(of("zb", "[1,2,3,0]", "F0,BW0,F1,B1").is_err());
    assert!(of("zb", "[1,2,3]", "F0,BW0,F1,BW1").is_err());
    assert!(of("zb", "[1,2,3,0]", "F0,BW0,F1,X1").is_err());
}
