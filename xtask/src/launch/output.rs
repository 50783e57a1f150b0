//! The ranks' lines, each passed on whole and with its rank in front.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::failure::as_error;
use super::progress::Iteration;
use super::voice::{Stream, Voice};

/// A longer line is passed on in parts.
const MAX_LINE: u64 = 64 << 10;

/// Where all ranks' lines meet; shared by one reading thread per stream of each rank.
pub(crate) struct Output {
    /// Digits of the highest rank, so that the lines stand in a column.
    width: usize,
    voice: Voice,
    /// By rank. Held for no longer than it takes to note a line: the supervisor asks for it too.
    last_words: Mutex<Vec<LastWords>>,
}

/// What a rank said last on its stderr.
#[derive(Clone, Default)]
struct LastWords {
    /// Without its `error:`.
    error: Option<String>,
    any: Option<String>,
}

impl Output {
    pub(crate) fn new(n_ranks: usize, voice: Voice) -> Self {
        let width = n_ranks.saturating_sub(1).to_string().len();
        Self { width, voice, last_words: Mutex::new(vec![LastWords::default(); n_ranks]) }
    }

    /// Passes on one stream of `rank` until it ends.
    pub(crate) fn forward(&self, rank: usize, stream: Stream, pipe: impl Read) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        // A read error is the end too: the rank is gone or going.
        while pipe.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|n_bytes| n_bytes > 0) {
            self.line(rank, stream, &String::from_utf8_lossy(&line));
            line.clear();
        }
    }

    fn line(&self, rank: usize, stream: Stream, line: &str) {
        let line = line.trim_end_matches(['\n', '\r']);
        if stream == Stream::Stderr {
            self.last_words()[rank].hear(line);
        }
        let text = prefixed(rank, self.width, line);
        if rank == 0 && stream == Stream::Stdout && Iteration::parse(line).is_some() {
            self.voice.iteration(line, text);
        } else {
            self.voice.say(stream, text);
        }
    }

    /// The reason that `rank` gave last.
    pub(crate) fn last_error(&self, rank: usize) -> Option<String> {
        self.last_words()[rank].last()
    }

    fn last_words(&self) -> MutexGuard<'_, Vec<LastWords>> {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LastWords {
    fn hear(&mut self, line: &str) {
        if let Some(reason) = as_error(line) {
            self.error = Some(reason.to_string());
        }
        if !line.trim().is_empty() && !line.starts_with("note:") {
            self.any = Some(line.trim().to_string());
        }
    }

    fn last(&self) -> Option<String> {
        self.error.clone().or_else(|| self.any.clone())
    }
}

fn prefixed(rank: usize, width: usize, line: &str) -> String {
    format!("[rank {rank:>width$}] {line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_stand_in_a_column() {
        assert_eq!(prefixed(1, 1, "x"), "[rank 1] x\n");
        assert_eq!(prefixed(1, 2, ""), "[rank  1] \n");
    }

    #[test]
    fn the_last_error_line_is_kept_and_any_line_when_there_is_none() {
        let words = |lines: &[&str]| {
            let mut words = LastWords::default();
            lines.iter().for_each(|line| words.hear(line));
            words.last()
        };
        assert_eq!(words(&[]), None);
        assert_eq!(words(&["error: one", "error: two", "bye"]).as_deref(), Some("two"));
        assert_eq!(
            words(&["thread panicked:", "index out of bounds", "note: hint", ""]).as_deref(),
            Some("index out of bounds")
        );
    }
}
