//! Violations, written where tests look for them.
//!
//! A block begins `violation: KIND`, goes on with indented lines, and ends with an empty line. It is appended to the file
//! that `CUDA_EMULATOR_REPORT` names, in one write, so that the blocks of several processes do not mix; and it goes to
//! stderr.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file.
pub const REPORT_VAR: &str = "CUDA_EMULATOR_REPORT";

/// Writes a violation of that kind. Only reports it: see [`fail_context`](crate::driver::fail_context) for what makes calls
/// fail too.
pub fn violation(kind: &str, text: &str) {
    let mut block = format!("violation: {kind}\n");
    let process = std::process::id();
    let thread = std::thread::current();
    block.push_str(&format!("  process {process}, thread {}\n", thread.name().unwrap_or("without a name")));
    for line in text.lines() {
        block.push_str("  ");
        block.push_str(line);
        block.push('\n');
    }
    block.push('\n');
    // Nothing can be done where stderr is closed.
    let _ = std::io::stderr().lock().write_all(block.as_bytes());
    let Some(path) = std::env::var_os(REPORT_VAR).filter(|path| !path.is_empty()) else { return };
    let written =
        OpenOptions::new().append(true).create(true).open(&path).and_then(|mut f| f.write_all(block.as_bytes()));
    if let Err(error) = written {
        let _ = writeln!(std::io::stderr().lock(), "{REPORT_VAR}={}: {error}", path.display());
    }
}
