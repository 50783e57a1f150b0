//! The trainer as a program: where it is, and where the libraries are that it is linked against.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the system's loader looks first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// A trainer that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) binary: PathBuf,
    /// For what the system's loader does not find by itself.
    pub(crate) library_folders: Vec<PathBuf>,
}

impl Program {
    /// One that needs no libraries but the system's.
    pub(crate) fn plain(binary: PathBuf) -> Self {
        Self { binary, library_folders: Vec::new() }
    }

    /// A command that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        if let Some(path) = extended(env::var_os(LIBRARY_PATH), &self.library_folders) {
            command.env(LIBRARY_PATH, path);
        }
        command
    }

    pub(crate) fn name(&self) -> &Path {
        &self.binary
    }
}

/// A search path with folders behind those that it has: what somebody has put there counts first. None where nothing is added.
fn extended(given: Option<OsString>, folders: &[PathBuf]) -> Option<OsString> {
    if folders.is_empty() {
        return None;
    }
    let given = given.filter(|path| !path.is_empty());
    let folders = given.iter().flat_map(env::split_paths).chain(folders.iter().cloned());
    env::join_paths(folders).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_added_behind_those_that_are_there() {
        let folders = [PathBuf::from("/cuda/lib"), PathBuf::from("/nccl")];
        assert_eq!(extended(Some("/own".into()), &folders), Some("/own:/cuda/lib:/nccl".into()));
        assert_eq!(extended(None, &folders), Some("/cuda/lib:/nccl".into()));
        assert_eq!(extended(Some("".into()), &folders[1..]), Some("/nccl".into()), "empty is here, which nobody meant");
        assert_eq!(extended(Some("/own".into()), &[]), None);
    }
}
