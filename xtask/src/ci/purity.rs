//! The schedule core asks nothing of the machine: no files, sockets, processes, threads, clocks or environment.
//!
//! `cargo check --target wasm32-unknown-unknown` would not show it, for std is there too and fails at run time. So the
//! sources are read: what stands outside the command line may not name those parts of std.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::Passed;
use crate::workspace::{root, rust_files};

const IMPURE: [&str; 7] = ["fs", "net", "process", "thread", "env", "time", "os"];

/// What asks for the process's own streams. The traits of `std::io` alone do not: whoever calls hands a writer in.
const STREAMS: [&str; 8] = ["stdin()", "stdout()", "stderr()", "println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// Where the command line lives.
const COMMAND_LINE: [&str; 2] = ["cli", "bin"];

pub(super) fn check() -> anyhow::Result<Passed> {
    let sources = root().join("crates/pp-schedule/src");
    let mut broken = Vec::new();
    for file in rust_files(&sources).context("cannot list the sources of pp-schedule")? {
        let name = file.strip_prefix(&sources).unwrap_or(&file);
        if COMMAND_LINE.iter().any(|folder| name.starts_with(Path::new(folder))) {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        for (index, line) in text.lines().enumerate() {
            if let Some(part) = impure(line) {
                broken.push(format!("pp-schedule/src/{}:{}: uses {part}", name.display(), index + 1));
            }
        }
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(Passed::Plainly)
}

/// The impure part of std, or the output macro, that a line of code names.
fn impure(line: &str) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default();
    for (at, _) in code.match_indices("std::") {
        let rest = &code[at + "std::".len()..];
        let names = rest.strip_prefix('{').map_or_else(|| vec![rest], |list| list.split(',').collect());
        for name in names {
            let name = name.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if IMPURE.contains(&name) {
                return Some(format!("std::{name}"));
            }
        }
    }
    STREAMS.into_iter().find(|name| code.contains(name)).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::impure;

    #[test]
    fn impure_parts_are_found_in_code_only() {
        for line in [
            "use std::fs;",
            "use std::{fmt, env};",
            "    std::time::Instant::now()",
            "println!(\"x\")",
            "io::stdout().lock()",
        ] {
            assert!(impure(line).is_some(), "{line}");
        }
        for line in [
            "use std::fmt;",
            "use std::{collections::HashMap, fmt};",
            "use std::io::{self, Write};",
            "//! no std::fs here",
            "x // std::env",
        ] {
            assert_eq!(impure(line), None, "{line}");
        }
    }
}
