//! Files that are written, and output that nobody can take.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::process::{Scratch, TINY, run, start, tiny_on, trainer};

/// Enough to train on.
fn text() -> String {
    "to be or not to be, that is the question. ".repeat(20)
}

#[test]
fn metrics_never_overwrite_the_text() {
    let scratch = Scratch::new("same");
    let data = scratch.write("text", &text());
    let (link, hard) = (scratch.file("link"), scratch.file("hard"));
    symlink(&data, &link).unwrap();
    fs::hard_link(&data, &hard).unwrap();
    for metrics in [&data, &link, &hard] {
        for dry in ["", "--dry-run"] {
            run(&format!("{} --metrics {} {dry}", tiny_on(&data), metrics.display()))
                .failed(2, &["--metrics", "--data", "same file", &metrics.display().to_string()]);
        }
    }
    assert_eq!(fs::read_to_string(&data).unwrap(), text());
    // And another name for a file that is not there yet.
    let (new, other) = (scratch.file("new"), scratch.file("other"));
    symlink("new", &other).unwrap();
    run(&format!(
        "{TINY} --pp 2 --rank 0 --world-size 2 --rendezvous-file {} --metrics {}",
        new.display(),
        other.display()
    ))
    .failed(2, &["--metrics", "--rendezvous-file", "same file"]);
}

#[test]
fn metrics_need_a_file_that_can_be_written() {
    let scratch = Scratch::new("unwritable");
    let pipe = scratch.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (folder, nowhere) = (scratch.file(""), scratch.file("no/such/file"));
    for (path, said) in [
        (pipe.to_str().unwrap(), "no regular file"),
        ("/dev/full", "no regular file"),
        (folder.to_str().unwrap(), "directory"),
        (nowhere.to_str().unwrap(), "cannot be written"),
    ] {
        for dry in ["", "--dry-run"] {
            run(&format!("{TINY} --metrics {path} {dry}")).failed(2, &["--metrics", path, said]);
        }
    }
    assert_eq!(run(&format!("{TINY} --metrics /dev/null")).code, Some(0));
}

#[test]
fn a_dry_run_leaves_every_file_as_it_was() {
    let scratch = Scratch::new("dry");
    let (old, dangling) = (scratch.write("old", "a line\n"), scratch.file("dangling"));
    symlink(scratch.file("target"), &dangling).unwrap();
    for path in [&old, &dangling, &scratch.file("new")] {
        assert_eq!(run(&format!("{TINY} --dry-run --metrics {}", path.display())).code, Some(0));
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "a line\n");
    assert_eq!(fs::read_link(&dangling).unwrap(), scratch.file("target"));
    assert!(!scratch.file("target").exists() && !scratch.file("new").exists());
    // A run writes where the link leads.
    assert_eq!(run(&format!("{TINY} --metrics {}", dangling.display())).code, Some(0));
    assert_eq!(fs::read_to_string(scratch.file("target")).unwrap().lines().count(), 4);
}

#[test]
fn a_run_that_does_not_start_leaves_earlier_metrics() {
    let scratch = Scratch::new("unstarted");
    let metrics = scratch.write("metrics", "an earlier run\n");
    let meeting = scratch.file("rank0");
    let ended = run(&format!(
        "{TINY} --pp 2 --rank 0 --world-size 2 --timeout 0.3 --rendezvous-file {} --metrics {}",
        meeting.display(),
        metrics.display()
    ));
    ended.failed(3, &["rank 1"]);
    assert_eq!(fs::read_to_string(&metrics).unwrap(), "an earlier run\n");
    assert!(!meeting.exists(), "an address at which nobody is any more");
}

#[test]
fn output_that_cannot_be_written_ends_the_run() {
    for line in [TINY, &format!("{TINY} --dry-run"), "--help", "--version"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        start(trainer(line).stdout(full)).wait().failed(1, &["cannot write to standard output", "No space"]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        start(trainer(line).stdout(writer)).wait().failed(1, &["cannot write to standard output", "Broken pipe"]);
    }
}

/// A last line that nobody reads is no reason for another exit code.
#[test]
fn exit_codes_do_not_need_a_reader() {
    let unread = |line: &str, guarded: bool| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = trainer(line);
        command.stderr(writer).stdout(Stdio::null());
        if guarded {
            command.env("PP_STDIN_GUARD", "1");
        }
        start(&mut command).wait().code
    };
    assert_eq!(unread("--mock-data --pp 0", false), Some(2));
    assert_eq!(unread(&TINY.replace("--train-iters 2", "--train-iters 1000000"), true), Some(3));
}

#[test]
fn no_buffer_is_as_large_as_a_flag_says() {
    let line = TINY.replace("--train-iters 2", "--train-iters 4294967295");
    let mut running = start(&mut trainer(&line));
    let lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let first = lines.map_while(Result::ok).find(|line| line.starts_with("iteration "));
    assert!(first.is_some_and(|line| line.starts_with("iteration 1/4294967295")));
}

#[test]
fn the_mesh_is_told_before_anything_starts() {
    let sizes = TINY.replace("--num-layers 2", "--num-layers 4");
    let told = run(&format!("{sizes} --pp 4 --dry-run")).stdout;
    let mesh = told.split("\n\n").find(|section| section.starts_with("mesh\n")).expect("it is told");
    for part in
        ["4 ranks: tp 1 x dp 1 x pp 4", "\n  pp 3 |", "\n  pipeline  (1 group of 4): 0 1 2 3", "(1 group of 2): 0 3"]
    {
        assert!(mesh.contains(part), "{mesh} lacks {part}");
    }
}
