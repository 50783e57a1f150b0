//! The commands that write files for others: `convert`, `completions`, `man`; and the examples that help shows.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::{CommandFactory, Parser};
use pp_schedule::cli::{Cli, run};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pp-schedule-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("writable");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).expect("writable");
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("readable");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("plain")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command prints, or its exit code and how it fails.
fn call(words: &[&str]) -> Result<String, (u8, String)> {
    let cli = Cli::try_parse_from(["pp-schedule"].iter().chain(words)).map_err(|error| (2, error.to_string()))?;
    let mut out = Vec::new();
    run(&cli.command, &mut out).map_err(|error| (error.exit_code(), error.to_string()))?;
    Ok(String::from_utf8(out).expect("text"))
}

const TORCHS: &str = "0UNSHARD,0F0,0SEND_F0,,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0,,\r\n";

#[test]
fn any_format_to_any_other_by_files() {
    let folder = Folder::new("any");
    let csv = folder.file("torch.csv", TORCHS);
    let json = call(&["convert", &csv, "--to", "json"]).expect("json");
    assert!(json.contains("\"0UNSHARD\", \"0F0\", \"0SEND_F0\", null"), "{json}");
    for name in ["a.json", "a.jsonl", "a.csv"] {
        assert_eq!(call(&["convert", &csv, "--output", &folder.path(name)]), Ok(String::new()));
        assert_eq!(call(&["convert", &folder.path(name), "--to", "csv", "-o", "-"]).as_deref(), Ok(TORCHS));
        assert_eq!(call(&["convert", &folder.path(name), "--to", "json"]).as_ref(), Ok(&json));
        // The other commands read all of them too.
        let proved = call(&["verify", &folder.path(name)]).expect(name);
        assert!(proved.contains("2 messages on 2 channels"), "{proved}");
        assert_eq!(proved, call(&["verify", &csv]).expect("csv"));
    }
    let computations = "0F0,0B0\r\n1F0,1B0\r\n";
    assert_eq!(call(&["convert", &csv, "--to", "csv", "--compute-only"]).as_deref(), Ok(computations));
    let mut names = folder.names();
    names.sort_unstable();
    assert_eq!(names, ["a.csv", "a.json", "a.jsonl", "torch.csv"], "nothing is left lying");
}

#[test]
fn a_schedule_by_flags() {
    let csv = call(&["convert", "--pp", "2", "-m", "2", "--to", "csv"]);
    assert_eq!(csv.as_deref(), Ok("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n"));
    let json = call(&["convert", "--pp", "2", "-m", "2", "--schedule", "gpipe", "--to", "json"]).expect("json");
    assert!(json.contains("\"name\": \"gpipe\"") && json.contains("\"placement\": \"loop\""), "{json}");
}

/// What is added is proved, also where all that goes between two ranks stands in one queue.
#[test]
fn transfers_are_added_as_torch_does() {
    let folder = Folder::new("lowered");
    let file = folder.path("a.csv");
    for words in [
        "--pp 2 -m 3",
        "--pp 4 --vp 2 -m 8",
        "--pp 3 --schedule gpipe -m 4",
        "--pp 1 --vp 2 -m 2",
        "--pp 2 --forward-only",
    ] {
        let convert = ["convert", "--with-communication", "-o", &file].into_iter().chain(words.split(' '));
        assert_eq!(call(&convert.collect::<Vec<_>>()), Ok(String::new()));
        for queues in ["as-stated", "one-per-pair"] {
            let proved = call(&["verify", &file, "--queues", queues]).expect(words);
            assert!(proved.contains("marks (UNSHARD, RESHARD, REDUCE_GRAD) are left out"), "{words}: {proved}");
        }
        // Adding them anew changes nothing.
        let text = std::fs::read_to_string(&file).expect("there");
        assert_eq!(call(&["convert", &file, "--with-communication", "--to", "csv"]), Ok(text));
    }
    let circle = folder.file("circle.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
    let (code, message) = call(&["convert", &circle, "--with-communication", "--to", "csv"]).expect_err("a circle");
    assert!(code == 1 && message.contains("rank 0 never gets what 0B0 needs"), "{message}");
    let (code, message) = call(&["convert", "--pp", "2", "--with-communication", "--compute-only"]).expect_err("both");
    assert!(code == 2 && message.contains("cannot be used with"), "{message}");
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let folder = Folder::new("whole");
    let target = folder.file("kept.json", "as it was");
    let broken = folder.file("broken.csv", "0F0,0X0\n");
    let (code, message) = call(&["convert", &broken, "-o", &target]).expect_err("no schedule");
    assert_eq!(code, 2);
    assert!(message.contains("broken.csv: as CSV: rank 0, step 1 (line 1, column 2): `0X0`"), "{message}");
    assert_eq!(std::fs::read_to_string(&target).expect("there"), "as it was");
    let (code, message) =
        call(&["convert", "--pp", "2", "-o", &folder.path("no/such/folder.csv")]).expect_err("no folder");
    assert!(code == 1 && message.contains("cannot write") && message.contains("no/such/folder.csv"), "{message}");
    assert_eq!(call(&["convert", "--pp", "2", "-o", &target]), Ok(String::new()));
    assert!(std::fs::read_to_string(&target).expect("there").starts_with("{\n  \"format\": \"pp-schedule\""));
}

#[test]
fn what_does_not_go_together_says_what_would() {
    let folder = Folder::new("request");
    let json = folder.file("a.txt", "{\"format\": \"pp-schedule\", \"version\": 3}");
    for (words, parts) in [
        (vec!["convert", "--pp", "2"], vec!["--to is missing: say csv, json or events"]),
        (
            vec!["convert", "--pp", "2", "-o", "a.txt"],
            vec!["--output a.txt says no format", "say --to csv, json or events"],
        ),
        (vec!["convert", "--pp", "2", "--from", "csv", "--to", "csv"], vec!["--from is for a file"]),
        (vec!["convert", "a.csv", "--pp", "2", "--to", "csv"], vec!["cannot be used with"]),
        (vec!["convert", "--pp", "2", "--to", "yaml"], vec!["yaml", "csv, json, events"]),
        (vec!["convert", "no/such/file.csv", "--to", "json"], vec!["no/such/file.csv: "]),
        (vec!["convert", &json, "--to", "csv"], vec!["a.txt: as JSON: `version` is 3, but this reads version 1 only"]),
        (
            vec!["convert", &json, "--from", "events", "--to", "csv"],
            vec!["as events: line 1: `format` is \"pp-schedule\""],
        ),
        (vec!["convert", &json, "--from", "csv", "--to", "csv"], vec!["as CSV: rank 0, step 0"]),
        (vec!["man", "prove"], vec!["there is no command `prove`; there are show, simulate"]),
        (vec!["completions", "tcsh"], vec!["tcsh", "bash, elvish, fish"]),
    ] {
        let (code, message) = call(&words).expect_err(words[1]);
        assert_eq!(code, 2, "{words:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "{words:?}: {message}");
        }
    }
}

#[test]
fn from_standard_input_to_standard_output() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pp-schedule"))
        .args(["convert", "-", "--to", "events"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(TORCHS.as_bytes()).expect("reads");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), 1 + 12, "{text}");
    assert!(text.contains(r#"{"rank":0,"step":3,"kind":"IDLE"}"#), "{text}");
}

/// Every command and flag is in them.
#[test]
fn completions_and_pages_know_every_command() {
    let command = Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    assert!(names.len() >= 6, "{names:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = call(&["completions", shell]).expect(shell);
        for name in names.iter().copied().chain(["allow-bubbles", "queues", "compute-only"]) {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    let page = call(&["man"]).expect("a page");
    assert!(page.contains(".TH pp-schedule 1"), "{page}");
    for name in names {
        assert!(page.contains(&format!("pp\\-schedule\\-{name}(1)")), "{name}: {page}");
        let own = call(&["man", name]).expect(name);
        assert!(own.contains(&format!(".TH pp-schedule-{name} 1")), "{name}: {own}");
    }
}

/// Help shows at least one example for each command, and each of them is understood.
#[test]
fn every_example_is_understood() {
    let mut command = Cli::command();
    command.build();
    for command in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
        let name = command.get_name().to_owned();
        let help = command.render_long_help().to_string();
        let lines = help.lines().map(|line| line.trim().trim_start_matches("Example: "));
        let examples: Vec<&str> = lines.filter(|line| line.starts_with("pp-schedule ")).collect();
        assert!(!examples.is_empty(), "{name}: {help}");
        for example in examples {
            let own = example.split(['>', '|']).next().unwrap_or_default();
            let parsed = Cli::try_parse_from(own.split_whitespace());
            assert!(parsed.is_ok(), "{example}: {:?}", parsed.map(|_| ()));
            assert!(example.starts_with(&format!("pp-schedule {name}")), "{example}");
        }
    }
}
