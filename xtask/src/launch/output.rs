//! The ranks' lines, each written whole and with its rank in front.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;

use super::failure::as_error;
use super::progress::{self, Iteration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Where all ranks' lines meet; shared by one reading thread per stream of each rank.
pub(crate) struct Output {
    /// Digits of the highest rank, so that the lines stand in a column.
    width: usize,
    /// A bar in place of rank 0's iteration lines.
    draws_bar: bool,
    shared: Mutex<Shared>,
}

struct Shared {
    bar: Option<ProgressBar>,
    /// Nobody reads our output any more.
    closed: bool,
    last_words: Vec<LastWords>,
}

/// What a rank said last on its stderr.
#[derive(Clone, Default)]
struct LastWords {
    /// Without its `error:`.
    error: Option<String>,
    any: Option<String>,
}

impl Output {
    pub(crate) fn new(n_ranks: usize) -> Self {
        Self {
            width: n_ranks.saturating_sub(1).to_string().len(),
            // A redirected stdout is to hold the iteration lines.
            draws_bar: io::stdout().is_terminal() && io::stderr().is_terminal(),
            shared: Mutex::new(Shared { bar: None, closed: false, last_words: vec![LastWords::default(); n_ranks] }),
        }
    }

    /// Passes on one stream of `rank` until it ends.
    pub(crate) fn forward(&self, rank: usize, stream: Stream, pipe: impl Read) {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        // A read error is the end too: the rank is gone or going.
        while pipe.read_until(b'\n', &mut line).is_ok_and(|n_bytes| n_bytes > 0) {
            self.line(rank, stream, &String::from_utf8_lossy(&line));
            line.clear();
        }
    }

    fn line(&self, rank: usize, stream: Stream, line: &str) {
        let line = line.trim_end_matches(['\n', '\r']);
        let mut shared = self.lock();
        if stream == Stream::Stderr {
            shared.last_words[rank].hear(line);
        }
        let may_advance = rank == 0 && stream == Stream::Stdout && self.draws_bar;
        if let Some(iteration) = Iteration::parse(line).filter(|_| may_advance) {
            return shared.advance(&iteration);
        }
        let prefixed = prefixed(rank, self.width, line);
        let write = || match stream {
            Stream::Stdout => io::stdout().lock().write_all(prefixed.as_bytes()),
            Stream::Stderr => io::stderr().lock().write_all(prefixed.as_bytes()),
        };
        let written = match &shared.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        };
        shared.closed |= written.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The reason that `rank` gave last.
    pub(crate) fn last_error(&self, rank: usize) -> Option<String> {
        self.lock().last_words[rank].last()
    }

    /// Leaves the bar as it stands, so that what is written next does not run into it.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.lock().bar.take() {
            bar.abandon();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn advance(&mut self, iteration: &Iteration<'_>) {
        let bar = self.bar.get_or_insert_with(|| progress::bar(iteration.total));
        bar.set_length(iteration.total);
        bar.set_position(iteration.done);
        bar.set_message(iteration.figures.to_string());
        if iteration.done == iteration.total {
            bar.abandon();
        }
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
