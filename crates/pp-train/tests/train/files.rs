//! Schedules made elsewhere: they run as they are written, or are refused before anything starts.

use crate::harness::{TINY, bits, run};
use crate::process::{self, Scratch, start, trainer};
use pp_schedule::format::any;
use pp_schedule::format::document::Document;
use pp_schedule::format::grid::Grid;
use pp_schedule::{Extent, Microbatch, Order, Placement, Rank, Stage, Work, WorkKind};
use pp_train::TrainConfig;
use pp_train::args::Args;

/// Each microbatch through all stages and back before the next, weights last on each stage: slow, and right everywhere.
fn one_by_one(placement: Placement, microbatches: u32) -> String {
    let rows = (0..placement.n_ranks()).map(Rank).map(|rank| {
        let mut stages: Vec<Stage> = placement.stages_of(rank).collect();
        let work = |stage: &Stage, kind, index| Work { kind, stage: *stage, microbatch: Microbatch(index) };
        let mut row = Vec::new();
        for index in 0..microbatches {
            stages.sort_unstable();
            row.extend(stages.iter().map(|stage| work(stage, WorkKind::Forward, index)));
            stages.reverse();
            for kind in [WorkKind::BackwardInput, WorkKind::BackwardWeight] {
                row.extend(stages.iter().map(|stage| work(stage, kind, index)));
            }
        }
        row
    });
    let order = Order::new(Extent { placement, microbatches, forward_only: false }, rows.collect());
    Grid::from(&order.expect("every computation stands there once")).to_csv()
}

/// 1F1B over two ranks as torch writes it, with its transfers.
const WRITTEN: &str = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0F2,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2\n\
     1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2\n";

#[test]
fn schedules_from_files_train_to_the_same_bits() {
    let scratch = Scratch::new("schedules");
    let v = Grid::parse(&one_by_one(Placement::v(2), 2)).unwrap();
    let json = any::write(&Document { name: None, grid: v }, any::Format::Json);
    for (name, csv, m) in [
        ("json", json, 2),
        ("v1", one_by_one(Placement::v(1), 2), 2),
        ("v2", one_by_one(Placement::v(2), 3), 3),
        ("v4", one_by_one(Placement::v(4), 5), 5),
        ("loop", one_by_one(Placement::looped(2, 4), 2), 2),
        ("written", WRITTEN.to_owned(), 3),
    ] {
        let file = scratch.write(name, &csv);
        for tied in ["--tied", "--untie"] {
            let whole = run(&format!("--microbatches {m} --train-iters 4 {tied}"));
            let cut = run(&format!("--schedule-csv {} --train-iters 4 {tied}", file.display()));
            assert_eq!(bits(&cut), bits(&whole), "{name} {tied}");
        }
    }
}

#[test]
fn what_a_file_says_need_not_be_said_again() {
    let scratch = Scratch::new("said");
    let file = scratch.write("v", &one_by_one(Placement::v(2), 4));
    let refused = |flags: &str, parts: &[&str]| {
        let line = format!("--schedule-csv {} {flags}", file.display());
        let args = Args::from_words(TINY.split_whitespace().chain(line.split_whitespace())).unwrap();
        let message = TrainConfig::new(&args).expect_err(flags).to_string();
        for part in parts {
            assert!(message.contains(part), "{flags}: {message}");
        }
    };
    crate::harness::config(&format!("--schedule-csv {} --pp 2 --vp 2 --microbatches 4", file.display()));
    crate::harness::config(&format!("--schedule-csv {} --global-batch-size 8", file.display()));
    let name = file.display().to_string();
    refused("--pp 4", &["--pp 4 disagrees", &name, "has 2 ranks", "works: --pp 2"]);
    refused("--vp 1", &["--vp 1 disagrees", &name, "2 chunks per rank", "works: --vp 2"]);
    refused("--microbatches 8", &["--microbatches 8 disagrees", &name, "works: --microbatches 4"]);
    refused(
        "--global-batch-size 12",
        &["--global-batch-size 12 disagrees", "works: --global-batch-size 8, or --micro-batch-size 3"],
    );
    refused("--schedule 1f1b", &["--schedule is for a schedule that is generated", &name, "leave one out"]);
    refused("--group-size 2", &["--group-size is for"]);
    refused("--allow-bubbles", &["--allow-bubbles is for"]);
    refused("--num-layers 6", &["--num-layers 6", "4 or 8"]);
}

#[test]
fn a_file_that_cannot_run_is_refused_before_anything_starts() {
    let scratch = Scratch::new("refuted");
    let run = |csv: &str| {
        let file = scratch.write("file.csv", csv);
        process::run(&format!("{} --dry-run --schedule-csv {}", tiny(), file.display()))
    };
    run("0F0,0B0\n1F0,1B0\n").code.filter(|code| *code == 0).expect("it is fine");
    run("0F0,0X0\n").failed(2, &["--schedule-csv", "is no schedule", "rank 0, step 1", "`0X0`"]);
    run("0F0\n1F0\n").failed(2, &["has forwards only"]);
    process::run(&format!("{} --schedule-csv /no/such/file", tiny())).failed(2, &["/no/such/file", "cannot be read"]);
    // Two ranks that wait for each other: shown as `pp-schedule verify` shows it, then said in one line.
    let ended = run("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
    assert_eq!(ended.code, Some(2));
    for part in
        ["refuted: with transfers added by the lanes policy, 1, 2, 4 ahead per channel: deadlock", "the circle:"]
    {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: --schedule-csv") && last.ends_with("it is shown above"), "{last}");
    // Rank 0 sends its second activation only after the first gradient, which rank 1 makes only after that activation.
    let crossed = "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n\
         1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n";
    let ended = run(crossed);
    assert!(ended.code == Some(2) && ended.stderr.contains("in the text: row "), "{ended:?}");
    let ended = run("0F0,0F0,0B0\n1F0,1B0\n");
    assert!(ended.code == Some(2) && ended.stderr.contains("row 1, column 2: `0F0`"), "{ended:?}");
}

/// [`process::TINY`] without a number of microbatches, which the file says.
fn tiny() -> String {
    process::TINY.replace("--microbatches 2 ", "")
}

#[test]
fn ranks_with_different_files_do_not_start() {
    let scratch = Scratch::new("different");
    let meeting = scratch.file("meeting");
    let files = ["0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n"];
    let ranks = files.iter().enumerate().map(|(rank, text)| {
        let file = scratch.write(&format!("{rank}.csv"), text);
        start(&mut trainer(&format!(
            "{} --schedule-csv {} --world-size 2 --rank {rank} --timeout 30 --rendezvous-file {}",
            tiny(),
            file.display(),
            meeting.display()
        )))
    });
    let ranks: Vec<_> = ranks.collect();
    for ended in ranks.into_iter().map(process::Running::wait) {
        ended.failed(2, &["another program", "rank 1"]);
    }
}
