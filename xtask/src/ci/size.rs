//! Files that ask for a reason to be this long.

use std::fs;

use anyhow::Context;

use super::Passed;
use crate::workspace::{root, rust_files};

const MAX_LINES: usize = 400;

pub(super) fn report() -> anyhow::Result<Passed> {
    let mut files = Vec::new();
    for folder in ["crates", "examples", "tests", "xtask"] {
        files.extend(rust_files(&root().join(folder)).with_context(|| format!("cannot list {folder}"))?);
    }
    let mut n_lines = 0;
    for file in &files {
        let lines = fs::read_to_string(file)?.lines().count();
        n_lines += lines;
        if lines > MAX_LINES {
            let name = file.strip_prefix(root()).unwrap_or(file);
            println!("warning: {} has {lines} lines; more than {MAX_LINES} ask for a reason", name.display());
        }
    }
    println!("{} files, {n_lines} lines", files.len());
    Ok(Passed::Plainly)
}
