//! Programs that are called: where they are, and what they say.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The first program of that name in the folders of a `PATH`.
pub(super) fn find(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?).map(|folder| folder.join(name)).find(|file| is_program(file))
}

/// The same in this process's `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    find(name, std::env::var_os("PATH").as_deref())
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// What a program says on standard output. When it fails, the error ends with the line of standard error that says most.
pub(crate) fn said(command: &mut Command, what: &str) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {what}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = if words.trim().is_empty() { String::from_utf8_lossy(&output.stdout) } else { words };
        bail!("{what} failed ({}): {}", output.status, telling(&words));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The line that says why, of all that a failing program says: the first that calls itself an error, else the last.
pub(super) fn telling(words: &str) -> &str {
    let lines = || words.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .find(|line| line.to_ascii_lowercase().contains("error"))
        .or_else(|| lines().next_back())
        .unwrap_or("it said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_the_path_says() {
        assert_eq!(find("sh", Some(OsStr::new("/nowhere:/bin"))), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("sh", Some(OsStr::new(""))), None);
        assert_eq!(find("sh", None), None);
        // A folder is no program.
        assert_eq!(find("bin", Some(OsStr::new("/usr"))), None);
    }

    #[test]
    fn the_line_that_says_most_is_the_first_error_else_the_last() {
        assert_eq!(telling("warming up\nERROR: no such thing\nbye\n"), "ERROR: no such thing");
        assert_eq!(telling("one\ntwo\n\n"), "two");
        assert_eq!(telling(" \n"), "it said nothing");
    }

    #[test]
    fn a_program_that_fails_is_quoted_in_one_line() {
        let error = said(Command::new("sh").args(["-c", "echo a; echo b >&2; exit 4"]), "the script").unwrap_err();
        assert_eq!(error.to_string(), "the script failed (exit status: 4): b");
        assert_eq!(said(Command::new("sh").args(["-c", "echo a"]), "the script").unwrap(), "a\n");
    }
}
