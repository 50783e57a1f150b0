//! The pages that show what commands print, against what they print.

use std::path::{Path, PathBuf};

use clap::Parser;
use pp_schedule::cli::{Cli, run};

const COMMAND: &str = "$ cargo xtask schedule ";

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// `UPDATE_GOLDEN=1` writes the pages anew; the diff is then reviewed by hand.
#[test]
fn pages_show_what_the_commands_print() {
    for (name, n_shown) in [("docs/schedules.md", 6), ("README.md", 1)] {
        let text = std::fs::read_to_string(page(name)).expect("a page");
        let (printed, count) = printed_anew(&text);
        assert_eq!(count, n_shown, "{name}: commands shown");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(page(name), &printed).expect("writable");
        } else {
            assert_eq!(text, printed, "{name} is out of date: run with UPDATE_GOLDEN=1 and review the diff");
        }
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

fn output_of(command: &str) -> String {
    let words = ["pp-schedule"].into_iter().chain(command.split(' ')).chain(["--width", "100"]);
    let mut output = Vec::new();
    run(&Cli::try_parse_from(words).expect(command).command, &mut output).expect(command);
    String::from_utf8(output).expect("text")
}
