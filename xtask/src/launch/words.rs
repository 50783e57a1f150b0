//! Whose the typed words are: the launcher's own, or the trainer's.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};

/// Puts the launcher's own flags first and all others behind a `--`, so that they may be typed in any order.
///
/// clap takes everything from the first unknown flag on as the trainer's: of `--vp 2 --pp 2` it would not see `--pp`.
/// Which flags are the launcher's is asked of `cli`, so `LaunchArgs` stays the only list of them.
pub(crate) fn own_flags_first(typed: Vec<OsString>, cli: &Command) -> Vec<OsString> {
    let (Some(launch), true) = (cli.find_subcommand("launch"), typed.get(1).is_some_and(|word| word == "launch"))
    else {
        return typed;
    };
    let mut typed = VecDeque::from(typed);
    let mut own: Vec<OsString> = typed.drain(..2).collect();
    let mut trainers = Vec::new();
    while let Some(word) = typed.pop_front() {
        if word == "--" {
            trainers.extend(typed.drain(..));
            break;
        }
        match own_flag(launch, &word) {
            None => trainers.push(word),
            Some(OwnFlag::Complete) => own.push(word),
            Some(OwnFlag::ValueFollows) => {
                own.push(word);
                own.extend(typed.pop_front());
            }
        }
    }
    own.push("--".into());
    own.extend(trainers);
    own
}

pub(super) enum OwnFlag {
    Complete,
    ValueFollows,
}

pub(super) fn own_flag(launch: &Command, word: &OsStr) -> Option<OwnFlag> {
    if is_help(word) {
        return Some(OwnFlag::Complete);
    }
    let name = name(word)?;
    let has_value = word.as_encoded_bytes().contains(&b'=');
    let flag = launch.get_arguments().find(|arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })?;
    let takes_value = matches!(flag.get_action(), ArgAction::Set | ArgAction::Append);
    Some(if takes_value && !has_value { OwnFlag::ValueFollows } else { OwnFlag::Complete })
}

pub(super) fn is_help(word: &OsStr) -> bool {
    word == "-h" || word == "--help"
}

/// The name in `--name` and `--name=value`; the value need not be text.
pub(super) fn name(word: &OsStr) -> Option<&str> {
    let word = word.as_encoded_bytes().strip_prefix(b"--")?;
    let name = word.split(|&byte| byte == b'=').next()?;
    std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
}
