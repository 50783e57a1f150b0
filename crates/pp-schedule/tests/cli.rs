//! The command line: torch's text form proved, refuted or not to be judged; policies by name.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Parser;
use pp_schedule::cli::{Cli, CommandError, run};
use pp_schedule::format::csv::Grid;
use pp_schedule::lower::written::Wires;
use pp_schedule::{Order, ScheduleConfig, ScheduleSpec, VerifyError, verify};

/// A file that is gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pp-schedule-{}-{name}.csv", std::process::id()));
        std::fs::write(&path, text).expect("writable");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The exit code, and what the command prints or how it fails.
fn verify_text(name: &str, text: &str, flags: &[&str]) -> (u8, String) {
    let scratch = Scratch::new(name, text);
    let file = scratch.0.to_str().expect("a plain path");
    let cli = Cli::try_parse_from(["pp-schedule", "verify", file].into_iter().chain(flags.iter().copied()));
    let mut out = Vec::new();
    match run(&cli.expect("valid flags").command, &mut out) {
        Ok(()) => (0, String::from_utf8(out).expect("text")),
        Err(error) => (error.exit_code(), error.to_string()),
    }
}

/// 1F1B over two ranks, as torch writes it with communication.
const WITH_TRANSFERS: &str = "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\r\n\
     1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD\r\n";

#[test]
fn what_torch_writes_is_proved_as_it_stands() {
    let (code, text) = verify_text("written", WITH_TRANSFERS, &[]);
    assert_eq!(code, 0, "{text}");
    for part in [
        "ranks 2, stages 2, microbatches 2, training",
        "4 marks (UNSHARD, RESHARD, REDUCE_GRAD) are left out",
        "each transfer is posted alone where its cell stands",
        "one FIFO from each rank to each other, for activations and gradients alike",
        "8 computations, each once",
        "4 messages on 2 channels",
        "no deadlock when nothing is buffered and each channel has a queue of its own",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (flags, end) in [
        (
            vec!["--queues", "one-per-direction"],
            "nothing is buffered and a rank's transfers stand in a queue per direction",
        ),
        (vec!["--queues", "four-lanes"], "a queue per direction and role"),
        (vec!["--queues", "one-per-channel", "--capacity", "3"], "each channel buffers 3"),
        (vec!["--queues", "one-per-rank", "--capacity", "1"], "each channel buffers 1"),
    ] {
        let (code, text) = verify_text("flags", WITH_TRANSFERS, &flags);
        assert!(code == 0 && text.contains(end), "{flags:?}: {text}");
    }
}

/// The two ranks send at once; on one queue each, neither receives.
#[test]
fn a_deadlock_is_drawn_and_found_in_the_text() {
    let (code, text) = verify_text("deadlock", WITH_TRANSFERS, &["--queues", "one-per-rank"]);
    assert_eq!(code, 1);
    // Two ranks: one per pair is the same.
    assert_eq!(verify_text("pair", WITH_TRANSFERS, &["--queues", "one-per-pair"]), (code, text.clone()));
    for part in [
        "refuted: deadlock with unbuffered channels, 2 ranks stuck:",
        "rank 0 is stuck at step 3 (post: send to rank 1 the activation of microbatch 1 for stage 1), waiting for rank 1",
        "rank 1 is stuck at step 4 (post: send to rank 0 the gradient of microbatch 0 for stage 0), waiting for rank 0",
        "the circle: rank 0 -> rank 1 -> rank 0",
        ">3 +0SEND_F1",
        ">4 +1SEND_B0",
        "row 1, column 5: `0SEND_F1`",
        "row 2, column 5: `1SEND_B0`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn computations_get_transfers_with_as_little_prefetch_as_passes() {
    let spec = ScheduleSpec { group_size: Some(8), ..ScheduleSpec::new(2, 2, 8) };
    let order = Order::generate(&ScheduleConfig::new(&spec).expect("valid"));
    let csv = Grid::from(&order).to_csv();
    let (code, text) = verify_text("order", &csv, &[]);
    assert!(code == 0 && text.contains("lanes policy, 4 ahead per channel"), "{text}");
    let (code, text) = verify_text("buffered", &csv, &["--capacity", "8"]);
    assert!(code == 0 && text.contains("lanes policy, 1 ahead per channel"), "{text}");
    let (code, text) = verify_text("one-queue", &csv, &["--queues", "one-per-rank"]);
    assert!(code == 1 && text.contains("1, 2, 4, 8, 16, 32 ahead per channel: deadlock"), "{text}");
    // A circle of computations: no prefetch helps.
    let (code, text) = verify_text("circle", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", &[]);
    assert!(code == 1 && text.contains("the circle: rank 0 -> rank 1 -> rank 0"), "{text}");
}

#[test]
fn what_is_wrong_is_named_by_row_column_and_token() {
    for (text, parts) in [
        // Coverage.
        ("0F0,0F0,0B0\n1F0,1B0\n", vec!["0F0 stands twice", "row 1, column 1: `0F0`", "row 1, column 2: `0F0`"]),
        ("0F0\n1F0,1B0\n", vec!["no backward", "row 1, column 1: `0F0`"]),
        ("0F0,0B0\n0F1,1F0,1B0\n", vec!["stage 0 stands on rank 0 and on rank 1", "row 2, column 1: `0F1`"]),
        ("0F0,0B0\n1F1,1B1\n", vec!["2 forwards stand here"]),
        ("0F0,0B0,2F0,2B0\n3F0,3B0\n", vec!["stage 1 stands on no rank", "row 2, column 1: `3F0`"]),
        // One rank's transfers.
        ("0F0,0B0\n1RECV_F0,1F0,1B0\n", vec!["row 1, column 2: `0B0`: it needs the gradient of microbatch 0"]),
        ("0F0,0RECV_B0,0B0\n1F0,1B0\n", vec!["row 1, column 1: `0F0`: it makes the activation", "never sent"]),
        ("0SEND_F0,0F0\n1RECV_F0,1F0\n", vec!["row 1, column 1: `0SEND_F0`: the computation that makes the message"]),
        ("0F0,0SEND_F0,0SEND_F0\n1RECV_F0,1F0\n", vec!["row 1, column 3: `0SEND_F0`: this message was transferred"]),
        ("0F0,0SEND_F0\n1RECV_F0,1F0,1RECV_F0\n", vec!["row 2, column 3: `1RECV_F0`: this message was transferred"]),
        ("0F0,0SEND_F0,1SEND_F0\n1RECV_F0,1F0\n", vec!["row 1, column 3: `1SEND_F0`: its stage lives on rank 1"]),
        ("0F0,0SEND_F0,7SEND_F0\n1RECV_F0,1F0\n", vec!["row 1, column 3: `7SEND_F0`: no rank computes its stage"]),
        ("0F0,0SEND_F0,0SEND_F9\n1RECV_F0,1F0\n", vec!["`0SEND_F9`: only microbatches 0..1 are computed"]),
        ("0RECV_F0,0F0,0SEND_F0\n1RECV_F0,1F0\n", vec!["row 1, column 1: `0RECV_F0`: no computation makes"]),
        ("0F0,0SEND_F0\n1RECV_F0,1F0,1SEND_B0\n", vec!["row 2, column 3: `1SEND_B0`: no computation makes"]),
        ("0F0,0SEND_F0,1F0\n", vec!["row 1, column 2: `0SEND_F0`: the stage at the other end is on this rank too"]),
        // The ranks together.
        (
            "0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1RECV_F0,1F0,1F1\n",
            vec![
                "the source sends the activation of microbatch 0",
                "row 1, column 2: `0SEND_F0`",
                "row 2, column 1: `1RECV_F1`",
            ],
        ),
        // A rank's own order.
        ("1F0,0F0,0SEND_F0\n", vec!["1F0 stands before 0F0, the forward of an earlier stage"]),
        ("0F0,1F0,0SEND_F0\n", vec!["the other end is on this rank"]),
        (
            "0RECV_B0,0B0,0F0,0SEND_F0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
            vec!["0B0 stands before its forward 0F0", "row 1, column 2: `0B0`", "row 1, column 3: `0F0`"],
        ),
    ] {
        let (code, message) = verify_text("wrong", text, &[]);
        assert_eq!(code, 1, "{text}: {message}");
        for part in parts {
            assert!(message.contains(part), "{text}: {part}: {message}");
        }
    }
}

/// Whatever reads a schedule to run it says what `verify` says of it.
#[test]
fn every_command_says_what_verify_says() {
    let turn = "0F0,,0W0,0I0\n";
    let circle = "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n";
    for (name, text, part) in [
        (
            "turn",
            turn,
            "0W0 stands before its backward for the input 0I0\n  row 1, column 3: `0W0`\n  row 1, column 4: `0I0`",
        ),
        ("round", circle, "the circle: rank 0 -> rank 1 -> rank 0"),
    ] {
        let scratch = Scratch::new(&format!("every-{name}"), text);
        let file = scratch.0.to_str().expect("a plain path");
        let (code, verdict) = command(&["verify", file]);
        assert!(code == 1 && verdict.contains(part), "{verdict}");
        let refuted = &verdict[verdict.find("refuted: ").expect("refuted")..];
        for word in ["simulate", "show"] {
            assert_eq!(command(&[word, file]), (1, refuted.to_owned()), "{word}");
        }
        let (code, said) = command(&["simulate", file, "--prefetch", "2"]);
        assert!(code == 1 && said.contains(part), "{said}");
    }
    let scratch = Scratch::new("every-convert", turn);
    let file = scratch.0.to_str().expect("a plain path");
    let (code, said) = command(&["convert", file, "--with-communication", "--to", "csv"]);
    assert!(code == 1 && said.contains("row 1, column 4: `0I0`"), "{said}");
}

fn command(words: &[&str]) -> (u8, String) {
    let parsed = Cli::try_parse_from(["pp-schedule"].iter().chain(words)).expect("valid flags");
    let mut out = Vec::new();
    let done = run(&parsed.command, &mut out);
    let text = String::from_utf8(out).expect("text");
    match done {
        Ok(()) => (0, text),
        Err(error) => (error.exit_code(), format!("{text}{error}")),
    }
}

#[test]
fn a_searched_order_keeps_to_its_limit_and_says_how_good_it_is() {
    let (code, text) = command(&["search", "--pp", "2", "--vp", "2", "-m", "4", "--memory", "v-min"]);
    assert!(code == 0 && text.contains("no order within the limit is shorter"), "{text}");
    let (code, csv) = command(&["search", "--pp", "3", "-m", "5", "--memory", "zb-h1", "--format", "csv"]);
    let order = Grid::parse(&csv).expect("torch's text").to_order().expect("an order");
    assert_eq!((code, order.extent().microbatches), (0, 5));
    for (words, part) in [
        (["--memory", "0.5"], "the smallest that works is 1"),
        (["--memory", "zb-v"], "--memory zb-v is for --vp 2, but --vp is 1; use --vp 2"),
        (["-F", "1,2,3"], "a search takes the same costs on every stage"),
        (["-m", "100000"], "at most 65536 are searched"),
    ] {
        let (code, text) = command(&[&["search", "--pp", "3"][..], &words].concat());
        assert!(code == 2 && text.contains(part), "{words:?}: {text}");
    }
}

#[test]
fn of_very_many_cells_the_first_are_shown() {
    let text = format!("{}0B0\n", "0F0,".repeat(30));
    let (code, message) = verify_text("many", &text, &[]);
    assert!(code == 1 && message.ends_with("and 22 more") && message.lines().count() < 12, "{message}");
}

#[test]
fn stages_may_be_dealt_as_a_v() {
    for text in ["0F0,3F0\n1F0,2F0\n", "0F0,0SEND_F0,3RECV_F0,3F0\n1RECV_F0,1F0,2F0,2SEND_F0\n"] {
        let (code, message) = verify_text("v", text, &[]);
        assert!(code == 0 && message.contains("2 messages"), "{text}: {message}");
    }
}

#[test]
fn what_cannot_be_judged_says_why() {
    for (text, part) in [
        ("0F0,2F0junk\n", "(line 1, column 2): `2F0junk`: expected the end of the cell"),
        ("", "no computations"),
        ("0F0,2F0\n1F0\n", "3 stages do not divide over 2 ranks"),
        ("0F0,0B0\n1F0,4B0,2F0,3F0\n", "each rank holds as many as every other\n  row 2, column 2: `4B0`"),
        ("0F0,1F0\n2F0,3F0\n", "a loop puts it on rank 1\n  row 1, column 2: `1F0`"),
        (
            "0F0,1F0\n2F0,3F0\n",
            "stage 1 stands on rank 0, but stages are dealt to ranks in a loop (0, 1, 2, 0, 1, 2) or in",
        ),
        ("0F0,1F0,1SEND_F0\n2RECV_F0,2F0,3F0\n", "here a loop puts it on rank 1"),
    ] {
        let (code, message) = verify_text("unreadable", text, &[]);
        assert!(code == 2 && message.contains(part), "{text}: {message}");
    }
    let missing = Cli::try_parse_from(["pp-schedule", "verify", "no/such/file.csv"]).expect("valid flags");
    let error = run(&missing.command, &mut Vec::new()).expect_err("no file");
    assert!(matches!(&error, CommandError::Input { file, .. } if file == "no/such/file.csv"), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(Cli::try_parse_from(["pp-schedule", "verify", "-", "--queues", "two"]).is_err());
}

/// Requests at the edge of what can be counted are refused, not reckoned wrongly, and fast.
#[test]
fn what_cannot_be_counted_is_refused() {
    for (line, part) in [
        ("simulate --pp 2 -m 4 --activation-bytes 1000TB,1PB", "`pb` is no unit"),
        ("simulate --pp 64 -m 100000 --activation-bytes 1000TB", "hold more than 2^62 bytes"),
        ("plan --pp 2 -m 4000000000 --num-layers 8 --layer-cost 1,2", "--microbatches 4000000000 is more than"),
        ("plan --pp 2 -m 4 --num-layers 4 --layer-cost 1,2 --latency 1 --bandwidth 1 --message-bytes 1TB", "2^62"),
        (
            "plan --gpus 2 -m 4 --num-layers 4 --hidden-size 64 --num-heads 1 --seq-length 1 --flops 1 --dp-bandwidth 1e-9",
            "all nanoseconds of a step add up to more than 2^62",
        ),
        (
            "plan --pp 2 -m 4 --num-layers 4096 --layer-cost 1,2 --activation-bytes 1024TiB --weight-bytes 1024TiB",
            "all bytes of a step add up to more than 2^62",
        ),
        ("search --pp 4294967295 --vp 2 -m 4294967295", "at most 65536 are searched"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let parsed = Cli::try_parse_from(["pp-schedule"].iter().chain(&words));
        let message = match parsed {
            Ok(parsed) => run(&parsed.command, &mut Vec::new()).expect_err(line).to_string(),
            Err(error) => error.to_string(),
        };
        assert!(message.contains(part), "{line}: {message}");
    }
    // The idle share of many ranks needs more than 64 bits.
    let (code, text) = command(&["simulate", "--pp", "4096", "-m", "64", "-F", "99999999999"]);
    assert!(code == 0 && text.contains("98.46 % in closed form"), "{text}");
}

/// Times with units are what the same plain numbers are; they do not mix.
#[test]
fn times_may_have_units() {
    let (code, plain) = command(&words("simulate --pp 3 -m 5 -F 18.5 -I 18 -W 9.25 --latency 0.5 --unit ms"));
    assert_eq!(code, 0, "{plain}");
    let with_units = words("simulate --pp 3 -m 5 -F 18.5ms -I 18ms -W 9250us --latency 0.0005s");
    assert_eq!(command(&with_units), (0, plain.clone()));
    let (_, in_us) = command(&[&with_units[..], &["--unit", "us"]].concat());
    assert!(in_us.contains("F 18500, B 27250, I 18000, W 9250 us; a message 500 on its way"), "{in_us}");
    let link = "--message-bytes 32MiB --bandwidth 16GiB/s";
    let (_, text) = command(&words(&format!("simulate --pp 3 -m 5 -F 18.5ms {link}")));
    assert!(text.contains("a message 1.95312 on its way, its channel taken 1.95312"), "{text}");
    for (flags, part) in [
        ("-F 18.5ms --latency 0.5", "--forward 18.5ms and --latency 0.5 do not go together; give all times a unit"),
        ("-F 18.5 -B 30ms", "--forward 18.5 and --backward 30ms do not go together"),
        ("--latency 2ms", "without --forward; give that too"),
        ("-F 0.0000001ms", "--forward 0.0000001ms is no whole number of nanoseconds"),
        ("-F 2e5s", "takes more than 86400"),
        ("-F 1 -B 2 -I 3", "stage 0: --backward-input is more than --backward"),
        ("-F 90000s", "--forward 90000s takes more than 86400"),
        ("-F 2ms --unit hours", "--unit hours is none of ns, us, ms, s"),
        ("-F 2 --message-bytes 1MB --bandwidth 1GB/s", "--bandwidth 1000000000B/s is per second"),
        ("-F 2ms --message-bytes 1MB --bandwidth 0", "no message arrives"),
    ] {
        let line = format!("simulate --pp 3 -m 5 {flags}");
        let message = match Cli::try_parse_from(["pp-schedule"].into_iter().chain(words(&line))) {
            Ok(parsed) => run(&parsed.command, &mut Vec::new()).expect_err(flags).to_string(),
            Err(error) => error.to_string(),
        };
        assert!(message.contains(part), "{flags}: {message}");
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// What is no file stays what it is.
#[test]
#[cfg(unix)]
fn pipes_are_written_to_and_links_followed() {
    use std::os::unix::fs::FileTypeExt;
    let pipe = Scratch(std::env::temp_dir().join(format!("pp-schedule-{}-pipe.csv", std::process::id())));
    let made = std::process::Command::new("mkfifo").arg(&pipe.0).status().expect("mkfifo runs");
    assert!(made.success());
    let reader = {
        let path = pipe.0.clone();
        std::thread::spawn(move || std::fs::read_to_string(path))
    };
    let name = pipe.0.to_str().expect("a plain path");
    assert_eq!(command(&["convert", "--pp", "1", "-m", "1", "--output", name]), (0, String::new()));
    assert_eq!(reader.join().expect("no panic").expect("readable"), "0F0,0B0\r\n");
    assert!(std::fs::metadata(&pipe.0).expect("a pipe").file_type().is_fifo());
    let target = Scratch::new("target", "");
    let link = Scratch(std::env::temp_dir().join(format!("pp-schedule-{}-link.csv", std::process::id())));
    std::os::unix::fs::symlink(&target.0, &link.0).expect("a link");
    let name = link.0.to_str().expect("a plain path");
    assert_eq!(command(&["convert", "--pp", "1", "-m", "1", "--output", name]), (0, String::new()));
    assert!(link.0.is_symlink());
    assert_eq!(std::fs::read_to_string(&target.0).expect("written"), "0F0,0B0\r\n");
    assert_eq!(command(&["convert", "--pp", "1", "-m", "1", "--to", "csv", "--output", "-"]).1, "0F0,0B0\r\n");
}

#[test]
fn standard_input_and_exit_codes() {
    for (text, code) in [(WITH_TRANSFERS, 0), ("0F0\n1F0,1B0\n", 1), ("0X0\n", 2)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pp-schedule"))
            .args(["verify", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("reads");
        assert_eq!(child.wait().expect("ends").code(), Some(code), "{text}");
    }
    // What is shown was read once.
    let mut child = Command::new(env!("CARGO_BIN_EXE_pp-schedule"))
        .args(["show", "-", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(WITH_TRANSFERS.as_bytes()).expect("reads");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8(output.stdout).expect("text"), WITH_TRANSFERS);
}

/// A pair that starts together waits for both of its inputs first: these two ranks need what the other makes in its pair.
#[test]
fn an_overlapped_pair_waits_for_both_inputs() {
    let apart = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n\
                 1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";
    assert_eq!(verify_text("apart", apart, &[]).0, 0);
    let together = apart.replace("0F1,0SEND_F1,0RECV_B0,0B0", "0RECV_B0,(0F1;0B0)OVERLAP_F_B,0SEND_F1");
    assert_eq!(verify_text("one-pair", &together, &[]).0, 0);
    let both = together.replace("1B0,1SEND_B0,1F1", "(1F1;1B0)OVERLAP_F_B,1SEND_B0");
    let program = Grid::parse(&both).expect("a grid").to_program(Wires::PerPair).expect("a program").program;
    assert!(matches!(verify::check(&program), Err(VerifyError::Deadlock(_))));
}

/// Every cell dropped, doubled, moved to every other place: a verdict, never a panic; and as it stood, it is proved.
#[test]
fn any_change_gets_a_verdict() {
    let rows: Vec<Vec<&str>> = WITH_TRANSFERS.lines().map(|row| row.split(',').collect()).collect();
    let verdict = |rows: &[Vec<&str>]| {
        let text: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
        let grid = Grid::parse(&text.join("\n")).expect("cells as they were");
        let Ok(written) = grid.to_program(Wires::PerPair) else { return false };
        match verify::check(&written.program) {
            Ok(()) => true,
            Err(error) => {
                let places = verify::places(&written.program, &error);
                assert!(places.iter().all(|&(rank, step)| written.cell_of(rank, step).is_some()), "{error}");
                assert!(!verify::explain(&written.program, &error).is_empty());
                false
            }
        }
    };
    assert!(verdict(&rows));
    let (mut n_proved, mut n_refuted) = (0, 0);
    let mut count = |rows: &[Vec<&str>]| *if verdict(rows) { &mut n_proved } else { &mut n_refuted } += 1;
    for (row, at) in (0..rows.len()).flat_map(|row| (0..rows[row].len()).map(move |at| (row, at))) {
        let mut without = rows.clone();
        let cell = without[row].remove(at);
        count(&without);
        for to in (0..rows.len()).flat_map(|to| (0..=without[to].len()).map(move |at| (to, at))) {
            let mut moved = without.clone();
            moved[to.0].insert(to.1, cell);
            count(&moved);
            let mut doubled = rows.clone();
            doubled[to.0].insert(to.1, cell);
            count(&doubled);
        }
    }
    assert!(n_proved > 50 && n_refuted > 400, "{n_proved} proved, {n_refuted} refuted");
}

/// Policies by name, and what each refuses.
#[test]
fn show_knows_the_policies() {
    let show = |line: &str| {
        let words = ["pp-schedule", "show"].into_iter().chain(line.split(' '));
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        run(&cli.command, &mut out).map_err(|error| error.to_string())?;
        Ok::<String, String>(String::from_utf8(out).expect("text"))
    };
    let overlap = show("--pp 4 --vp 2 --policy megatron-overlap --actions 1").expect("runs");
    assert!(overlap.contains("free: send slot") && overlap.contains("gradient synchronisation off"), "{overlap}");
    assert!(show("--pp 3 --policy stagger").expect("runs").contains("proved"));
    assert!(show("--pp 2 --vp 2 --policy megatron").expect_err("mispairs").contains("issue even-odd"));
    assert!(show("--pp 4 -m 2 --policy stagger").expect_err("m < p").contains("--schedule gpipe"));
    assert!(show("--pp 4 --policy zigzag").expect_err("unknown").contains("known: lanes, megatron"));
}
