//! How many ranks a schedule in a file is for.

use std::path::Path;

use pp_schedule::format::any;

/// How many ranks a schedule is for. What else is wrong with it the trainer says.
pub(super) fn rows_of(file: &Path) -> Result<usize, String> {
    // A pipe would be empty for the ranks, and may keep whoever opens it waiting.
    if !std::fs::metadata(file).map_err(|error| format!("cannot be read: {error}"))?.is_file() {
        return Err("is no regular file, which every rank can read; write the schedule to one".to_owned());
    }
    let text = std::fs::read(file).map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(text).map_err(|error| format!("is not UTF-8 text: {error}"))?;
    let grid = any::read(&text, None).map_err(|error| format!("is no schedule: {error}"))?.grid;
    if grid.rows.is_empty() {
        return Err("is empty, but a schedule has a row per rank".to_owned());
    }
    Ok(grid.rows.len())
}
