//! The pages that show what commands print, against what they print.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use pp_schedule::cli::{Cli, run};

const COMMAND: &str = "$ cargo xtask schedule ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// `UPDATE_GOLDEN=1` writes the pages anew; the diff is then reviewed by hand.
#[test]
fn pages_show_what_the_commands_print() {
    // Commands name files as one does who stands at the top of the repository. This binary has no other test.
    std::env::set_current_dir(root()).expect("a folder");
    let pages = [
        ("docs/schedules.md", 16),
        ("docs/pytorch.md", 10),
        ("docs/formats.md", 3),
        ("docs/planning.md", 1),
        ("README.md", 1),
    ];
    for (name, n_shown) in pages {
        let text = std::fs::read_to_string(name).expect("a page");
        let (printed, count) = printed_anew(&text);
        assert_eq!(count, n_shown, "{name}: commands shown");
        holds(name, &text, &printed);
    }
    for (name, command) in PICTURES {
        holds(name, &std::fs::read_to_string(name).unwrap_or_default(), &output_of(command));
    }
}

/// Pictures on pages, and the commands that draw them.
const PICTURES: [(&str, &str); 1] =
    [("docs/pictures/zb-v.svg", "show --schedule zb-v --pp 4 --microbatches 8 --format svg")];

/// That a file holds what was printed; or writes it.
fn holds(name: &str, text: &str, printed: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(name, printed).expect("writable");
    } else {
        assert!(text == printed, "{name} is out of date: run with UPDATE_GOLDEN=1 and review the diff");
    }
}

/// The page with every block that starts with a command filled by what it prints.
fn printed_anew(text: &str) -> (String, usize) {
    let (mut page, mut count) = (String::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        page.push_str(line);
        page.push('\n');
        let Some(command) = line.strip_prefix(COMMAND) else { continue };
        count += 1;
        page.push_str(&output_of(command));
        let _shown_before = lines.by_ref().find(|line| *line == "```");
        page.push_str("```\n");
    }
    (page, count)
}

/// What a command prints, its last words on standard error too, with plain line ends.
fn output_of(command: &str) -> String {
    let words: Vec<&str> = ["pp-schedule"].into_iter().chain(command.split(' ')).collect();
    let known = Cli::command();
    let takes_width = known
        .find_subcommand(words[1])
        .is_some_and(|command| command.get_arguments().any(|argument| argument.get_long() == Some("width")));
    let width: &[&str] = if takes_width { &["--width", "100"] } else { &[] };
    let mut output = Vec::new();
    let cli = Cli::try_parse_from(words.iter().chain(width)).expect(command);
    if let Err(error) = run(&cli.command, &mut output) {
        output.extend(format!("error: {error}\n").bytes());
    }
    String::from_utf8(output).expect("text").replace("\r\n", "\n")
}
