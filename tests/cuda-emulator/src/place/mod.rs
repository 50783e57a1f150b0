//! Places in the program under test: where it made a call.
//!
//! A place is taken at every call, so taking one must be cheap: the frames are only walked then, and their names, files and
//! lines are found out when a report is written. That shows the frames of the program under test; those of the emulator, of
//! the bindings above it (cudarc, nccl-rs) and of Rust's runtime are left out, unless there are no others.

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;

/// How many frames a report shows.
const SHOWN: usize = 4;

/// Where a call was made.
#[derive(Clone)]
pub struct Place(Arc<Backtrace>);

impl Place {
    /// Here.
    pub fn here() -> Self {
        Self(Arc::new(Backtrace::force_capture()))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}

impl fmt::Display for Place {
    /// A line per frame, as `at FILE:LINE:COLUMN in FUNCTION`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = frames(&self.0.to_string());
        let own: Vec<_> = frames.iter().filter(|frame| !frame.is_below() && !frame.is_runtime()).collect();
        let shown = if own.is_empty() { frames.iter().filter(|frame| !frame.is_runtime()).collect() } else { own };
        if shown.is_empty() {
            return f.write_str("at an unknown place");
        }
        for (i, frame) in shown.into_iter().take(SHOWN).enumerate() {
            let line_end = if i == 0 { "" } else { "\n" };
            let Frame { function, file } = frame;
            match file {
                Some(file) => write!(f, "{line_end}at {file} in {function}")?,
                None => write!(f, "{line_end}in {function}")?,
            }
        }
        Ok(())
    }
}

/// One frame of a stack, as the standard library prints it.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    function: String,
    file: Option<String>,
}

impl Frame {
    /// Whether it is one of what the program under test calls: the emulator and the bindings.
    fn is_below(&self) -> bool {
        let name = self.function.trim_start_matches('<');
        let is_c = |prefix: &str| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase) && !rest.contains("::"))
        };
        let is_crate = ["cuda_emulator::", "cudarc::", "nccl_rs::"].iter().any(|prefix| name.starts_with(prefix));
        // What was inlined has no more than its last name.
        let in_folder = ["cuda-emulator/src/", "/cudarc-", "nccl-rs/src/"].iter().any(|folder| self.is_in(folder));
        is_c("cu") || is_c("nccl") || ((is_crate || in_folder) && !self.is_test())
    }

    /// Whether it is one of their own unit tests.
    fn is_test(&self) -> bool {
        let in_folder = self.file.as_ref().and_then(|file| file.rsplit_once("src/"));
        self.function.contains("::tests::") || in_folder.is_some_and(|(_, rest)| rest.contains("tests"))
    }

    fn is_in(&self, folder: &str) -> bool {
        let Some(file) = &self.file else { return false };
        // Files beneath the current folder are printed from there on.
        let whole = || std::env::current_dir().map(|here| here.join(file.trim_start_matches("./")));
        file.contains(folder)
            || (file.starts_with("./") && whole().is_ok_and(|file| file.to_string_lossy().contains(folder)))
    }

    /// Whether it is one of Rust's or C's runtime.
    fn is_runtime(&self) -> bool {
        let name = self.function.trim_start_matches('<');
        let crates =
            ["std::", "core::", "alloc::", "test::", "__rust", "_Unwind", "rust_begin", "_start", "__libc", "std["];
        let whole = ["main", "clone", "clone3", "start_thread", "<unknown>", "__clone3"];
        self.is_in("/rustc/")
            || crates.iter().any(|prefix| name.starts_with(prefix))
            || whole.contains(&self.function.as_str())
    }
}

/// Reads what the standard library prints of a stack: per frame a line `N: FUNCTION`, then mostly one `at FILE:LINE:COLUMN`.
fn frames(printed: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in printed.lines().map(str::trim) {
        if let Some(file) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                frame.file = Some(file.to_owned());
            }
        } else if let Some((number, function)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            frames.push(Frame { function: function.to_owned(), file: None });
        }
    }
    frames
}

#[cfg(test)]
mod tests;
