//! Records written, read back, cut, mixed and described; and that keeping events stays bounded.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Role, Stage};

use super::*;
use crate::collective::Collective;
use crate::error::Operation;
use crate::message::{Envelope, Label};

/// A directory that goes with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("pp-flight-test-{}-{number}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn transfer(role: Role, step: u64) -> Subject {
    let channel =
        Channel { source: Rank(0), destination: Rank(1), carries: Carries::Only(Direction::Forward), queue: 0 };
    let message = Message { direction: Direction::Forward, stage: Stage(1), microbatch: Microbatch(2) };
    Subject::Transfer(Operation { role, channel, label: Envelope { step, message }.into() })
}

/// A record with an event of every kind.
fn record(rank: u32, run: u128) -> RankRecord {
    let recorder = Recorder::new(Rank(rank)).of_run(Some(run), 3);
    recorder.at_action(Some(0));
    recorder.note(Subject::Compute { step: 0, work: "0F0".parse().expect("a token") }, State::Begun, 0);
    recorder.note(transfer(Role::Send, 0), State::Posted, 64);
    let all = |group| Subject::Collective { collective: Collective::AllGather, group, round: 4 };
    recorder.note(all(None), State::Done, 8);
    recorder.note(all(Some(2)), State::Failed, 8);
    let piece = Label::Piece { collective: Collective::AllReduce, group: 2, round: 4, piece: 1 };
    let Subject::Transfer(operation) = transfer(Role::Receive, 0) else { panic!("a transfer") };
    recorder.note(Subject::Transfer(Operation { label: piece, ..operation }), State::Begun, 64);
    let heard = vec![Heard { rank: 1, text: "compute 1F0 of step 0".to_owned(), seconds_before: 0.5 }];
    let cause = Cause::Lost { rank: 1, reason: "it closed the connection".to_owned() };
    RankRecord::new(&recorder, Report { why: "rank 1 is lost".to_owned(), cause, heard })
}

#[test]
fn what_is_written_is_read_back_whole() {
    let scratch = Scratch::new();
    let written = record(0, 7);
    let path = written.write(&scratch.0).expect("a temporary directory");
    assert_eq!(path, scratch.0.join("rank-0.json"));
    assert_eq!(fs::read_dir(&scratch.0).expect("made").count(), 1, "no draft is left");
    let records = Records::read(&scratch.0).expect("readable");
    assert_eq!((records.world, records.missing().collect::<Vec<_>>()), (3, vec![1, 2]));
    assert_eq!(records.ranks[&0], written);
    let explanation = explain(&records);
    assert_eq!((explanation.verdict, explanation.rank), (Verdict::Killed, Some(1)), "{explanation}");
    assert!(explanation.evidence.iter().any(|line| line.contains("compute 1F0 of step 0")), "{explanation}");
}

#[test]
fn a_folder_that_cannot_be_written_leaves_nothing() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.0.join("rank-0.json")).expect("a temporary directory");
    assert!(record(0, 7).write(&scratch.0).is_err(), "a directory is in the way");
    assert_eq!(fs::read_dir(&scratch.0).expect("made").count(), 1, "no draft is left");
    assert!(record(0, 7).write(Path::new("/proc/no/such")).is_err());
}

#[test]
fn broken_files_are_passed_over_and_named() {
    let scratch = Scratch::new();
    record(0, 7).write(&scratch.0).expect("written");
    let text = fs::read_to_string(scratch.0.join("rank-0.json")).expect("written");
    let put = |name: &str, text: &str| fs::write(scratch.0.join(name), text).expect("written");
    put("rank-1.json", &text[..text.len() / 2]);
    put("rank-2.json", &text);
    put("rank-3.json", &text.replacen("\"format\": 1", "\"format\": 9", 1));
    put(
        "rank-4.json",
        &text.replacen("\"world\": 3", "\"world\": 4000000000", 1).replacen("\"rank\": 0", "\"rank\": 4", 1),
    );
    put("rank-5.json", &text.replacen("\"why\"", "\"whence\"", 1));
    put("rank-6.json", "\u{0}\u{1}");
    put("rank-x.json", "not looked at");
    put("ends.json", "[");
    let records = Records::read(&scratch.0).expect("one is readable");
    assert_eq!(records.ranks.keys().collect::<Vec<_>>(), [&0]);
    for (file, said) in [
        ("rank-1.json", "EOF"),
        ("rank-2.json", "rank 0's"),
        ("rank-3.json", "version 9"),
        ("rank-4.json", "cannot be"),
        ("rank-5.json", "whence"),
        ("rank-6.json", "expected"),
        ("ends.json", "EOF"),
    ] {
        let is_named = |problem: &String| problem.starts_with(file) && problem.contains(said);
        assert!(records.problems.iter().any(is_named), "{file}: {:?}", records.problems);
    }
    assert_eq!(records.problems.len(), 7, "{:?}", records.problems);
    assert!(explain(&records).to_string().contains("not used: rank-1.json"));
}

#[test]
fn records_of_two_runs_are_refused_with_both_named() {
    let scratch = Scratch::new();
    record(0, 0xab).write(&scratch.0).expect("written");
    record(2, 0xcd).write(&scratch.0).expect("written");
    let error = Records::read(&scratch.0).expect_err("two runs").to_string();
    for part in ["000ab (rank 0)", "000cd (rank 2)"] {
        assert!(error.contains(part), "{error}");
    }
    let nothing = Records::read(&scratch.0.join("none")).expect_err("no directory").to_string();
    assert!(nothing.contains("none") && nothing.contains("cannot read"), "{nothing}");
    let empty = Scratch::new();
    fs::create_dir(&empty.0).expect("a temporary directory");
    assert!(matches!(Records::read(&empty.0), Err(ReadError::Nothing { .. })));
}

#[test]
fn how_processes_ended_is_noted_beside_the_records() {
    let scratch = Scratch::new();
    record(0, 7).write(&scratch.0).expect("written");
    let ends = [RankEnd { rank: 2, killed_by: Some("signal 9 (SIGKILL)".to_owned()), code: None, stopped: false }];
    write_ends(&scratch.0, &ends).expect("written");
    let explanation = explain(&Records::read(&scratch.0).expect("readable"));
    assert_eq!((explanation.verdict, explanation.rank), (Verdict::Killed, Some(2)), "{explanation}");
    assert!(explanation.summary.contains("signal 9 (SIGKILL)"), "{explanation}");
}

#[test]
fn only_so_many_events_are_kept() {
    let recorder = Recorder::new(Rank(0));
    for step in 0..1500 {
        recorder.note(transfer(Role::Send, step), State::Posted, 1);
    }
    let cause = Cause::Own { reason: "a test".to_owned() };
    let record = RankRecord::new(&recorder, Report { why: "a test".to_owned(), cause, heard: Vec::new() });
    assert_eq!((record.events.len(), record.n_forgotten), (1024, 476));
    assert_eq!((record.events[0].step, record.events[1023].step), (Some(476), Some(1499)));
    assert!(record.events.is_sorted_by_key(|event| event.monotonic_us));
}

#[test]
fn a_wait_is_what_a_rank_is_within_until_it_is_over_and_after_it_failed() {
    let within = |states: &[State]| {
        let recorder = Recorder::new(Rank(1));
        let all = Subject::Collective { collective: Collective::Barrier, group: Some(0), round: 1 };
        for &state in states {
            let (outer, inner) = (all, transfer(Role::Receive, 3));
            let order = if state == State::Begun { [outer, inner] } else { [inner, outer] };
            order.into_iter().for_each(|subject| recorder.note(subject, state, 0));
        }
        let cause = Cause::Own { reason: "a test".to_owned() };
        let record = RankRecord::new(&recorder, Report { why: "a test".to_owned(), cause, heard: Vec::new() });
        record.within.iter().map(|event| event.text.clone()).collect::<Vec<_>>()
    };
    let both =
        ["barrier 1 of group 0", "the receive from rank 0 of the activation of microbatch 2 for stage 1 of step 3"];
    assert_eq!(within(&[State::Begun]), both);
    assert_eq!(within(&[State::Begun, State::Failed]), both);
    assert_eq!(within(&[State::Begun, State::Done]), [""; 0]);
}

/// docs/flight.schema.json is the schema of the types; `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn the_schema_is_that_of_what_is_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flight.schema.json");
    let schema = serde_json::to_value(schemars::schema_for!(RankRecord)).expect("a schema");
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).expect("docs is there");
    }
    // As values: in which order fields stand depends on what else is built along.
    let written: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("docs is there")).expect("JSON");
    assert!(written == schema, "run the test with UPDATE_GOLDEN=1");
    // Every field that is written is described.
    let written = serde_json::to_value(record(0, 7)).expect("JSON");
    let described = |value: &serde_json::Value, properties: &serde_json::Value| {
        let fields = value.as_object().expect("an object").keys();
        fields.filter(|field| properties.get(field.as_str()).is_none()).cloned().collect::<Vec<_>>()
    };
    assert_eq!(described(&written, &schema["properties"]), [""; 0]);
    assert_eq!(described(&written["events"][0], &schema["$defs"]["EventRecord"]["properties"]), [""; 0]);
}

/// Reading a pipe would wait for whoever writes into it, and nobody does.
#[test]
fn a_pipe_is_no_record_and_holds_nobody_up() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::mpsc;
    use std::time::Duration;

    let scratch = Scratch::new();
    fs::create_dir_all(&scratch.0).expect("a directory");
    for name in ["rank-0.json", "ends.json"] {
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, scratch.0.join(name), FileType::Fifo, mode, 0).expect("a pipe");
    }
    let (sender, read) = mpsc::channel();
    let read_all = |folder: &Path| {
        let (folder, sender) = (folder.to_owned(), sender.clone());
        std::thread::spawn(move || sender.send(Records::read(&folder)));
        read.recv_timeout(Duration::from_secs(20)).expect("it does not hang")
    };
    let error = read_all(&scratch.0).expect_err("nothing to read").to_string();
    assert!(error.contains("rank-0.json: it is no regular file"), "{error}");
    record(1, 7).write(&scratch.0).expect("written");
    let problems = read_all(&scratch.0).expect("rank 1's").problems;
    assert_eq!(problems, ["rank-0.json: it is no regular file", "ends.json: it is no regular file"]);
}

/// As after a panic that somebody caught in the middle of each.
#[test]
fn what_never_ends_takes_no_more_and_more_memory() {
    let recorder = Recorder::new(Rank(0));
    for step in 0..3 * recorder::CAPACITY as u64 {
        recorder.note(transfer(Role::Send, step), State::Begun, 0);
    }
    let open = recorder.snapshot().open;
    assert_eq!(open.len(), recorder::CAPACITY);
    assert_eq!(open.last().map(|event| event.subject), Some(transfer(Role::Send, 3 * recorder::CAPACITY as u64 - 1)));
    let last = RankRecord { rank: u32::MAX, ..record(1, 7) };
    assert_eq!(Records::new([last]).world, u32::MAX);
}
