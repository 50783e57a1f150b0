//! The one way to say something: a queue and a writing thread per stream.
//!
//! Nobody may be reading. Then the threads here wait, and those that feed them, and the ranks; never the supervisor,
//! which asks with [`Voice::failed`] whether a write has failed and waits for the end with [`Writers`].

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::failure::Ended;
use super::progress::{Iteration, Progress};
use super::signals::{LOOK_EVERY, Signals};

/// Texts that may wait for their reader; more of them hold up who brings them.
const MAX_WAITING: usize = 1024;
/// How long a reader may take that is not to hold up the end.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Lets any thread say something; it waits when too much is unread.
#[derive(Clone)]
pub(crate) struct Voice {
    stdout: SyncSender<Said>,
    stderr: SyncSender<Said>,
    shared: Arc<Shared>,
}

/// The ends of the two writing threads.
pub(crate) struct Writers {
    voice: Voice,
    stdout: Receiver<Infallible>,
    stderr: Receiver<Infallible>,
}

enum Said {
    Text(String),
    /// An iteration line of rank 0, and the text to write once the bar is gone.
    Iteration {
        line: String,
        text: String,
    },
    End,
}

#[derive(Default)]
struct Shared {
    failed: AtomicBool,
    /// Threads that wait because too much is unread, or are about to go on.
    held_up: AtomicUsize,
    /// Held for no longer than it takes to put it there.
    fault: Mutex<Option<io::Error>>,
    progress: Progress,
}

/// Starts the writing threads on this process's standard output and error.
pub(crate) fn start() -> Writers {
    start_on(io::stdout(), io::stderr())
}

fn start_on(out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> Writers {
    let shared = Arc::new(Shared::default());
    let (stdout, out_ended) = writer(out, Arc::clone(&shared));
    let (stderr, err_ended) = writer(err, Arc::clone(&shared));
    Writers { voice: Voice { stdout, stderr, shared }, stdout: out_ended, stderr: err_ended }
}

fn writer(mut stream: impl Write + Send + 'static, shared: Arc<Shared>) -> (SyncSender<Said>, Receiver<Infallible>) {
    let (send, queue) = mpsc::sync_channel(MAX_WAITING);
    let (writing, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut failed = false;
        for said in queue {
            let text = match said {
                Said::Text(text) => text,
                Said::Iteration { line, text } => match Iteration::parse(&line) {
                    Some(iteration) if !shared.progress.advance(&iteration) => continue,
                    _ => text,
                },
                Said::End => break,
            };
            // After a failure the rest is dropped, so that nobody waits for its being written.
            if failed {
                continue;
            }
            let written = shared.progress.aside(|| stream.write_all(text.as_bytes()).and_then(|()| stream.flush()));
            if let Err(error) = written {
                failed = true;
                shared.fail(error);
            }
        }
        shared.progress.clear();
        drop(writing);
    });
    (send, ended)
}

impl Shared {
    fn fail(&self, error: io::Error) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }
}

impl Voice {
    /// Whole lines, line feed included.
    pub(crate) fn say(&self, stream: Stream, text: String) {
        let queue = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        self.send(queue, Said::Text(text));
    }

    /// An iteration of rank 0: on a terminal a step of the bar, else `text`.
    pub(crate) fn iteration(&self, line: &str, text: String) {
        // A redirected stdout is to hold the iteration lines.
        if io::stdout().is_terminal() && io::stderr().is_terminal() {
            self.send(&self.stdout, Said::Iteration { line: line.to_owned(), text });
        } else {
            self.say(Stream::Stdout, text);
        }
    }

    /// Something could not be written.
    pub(crate) fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    fn send(&self, queue: &SyncSender<Said>, said: Said) {
        self.shared.held_up.fetch_add(1, Ordering::AcqRel);
        // It can only fail when the writing thread has ended: so does everything.
        let _ = queue.send(said);
        self.shared.held_up.fetch_sub(1, Ordering::AcqRel);
    }

    /// Somebody waits for the reader.
    pub(crate) fn is_held_up(&self) -> bool {
        self.shared.held_up.load(Ordering::Acquire) > 0
    }

    fn fault(&self) -> Option<Ended> {
        let fault = self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = match fault.as_ref()? {
            error if error.kind() == io::ErrorKind::BrokenPipe => "the reader of the output is gone".to_owned(),
            error => format!("cannot write the output: {error}"),
        };
        Some(Ended { code: 1, reason })
    }
}

impl Writers {
    pub(crate) fn voice(&self) -> &Voice {
        &self.voice
    }

    /// Ends the standard output. What a good job has said is written in full, as long as that takes its reader and no
    /// signal comes; after any other job the reader gets a moment.
    pub(crate) fn end_stdout(&self, result: anyhow::Result<()>, signals: Option<&Signals>) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut interrupted = None;
        end(&self.voice.stdout, &self.stdout, || match signals.filter(|_| result.is_ok()) {
            Some(signals) => {
                interrupted = signals.within(Duration::ZERO);
                interrupted.is_none()
            }
            None => start.elapsed() < PATIENCE,
        });
        result?;
        match (interrupted, self.voice.fault()) {
            (Some(signal), _) => Err(Ended::interrupted(signal, " while its output was read").into()),
            (None, Some(fault)) => Err(fault.into()),
            (None, None) => Ok(()),
        }
    }

    /// Says the last word, if there is one, and gives its reader a moment. The exit code follows from `result`, or
    /// from what could not be written.
    pub(crate) fn end(self, result: &anyhow::Result<()>) -> u8 {
        let start = Instant::now();
        if let Err(error) = result {
            let mut said = Said::Text(format!("error: {}\n", super::failure::on_one_line(&format!("{error:#}"))));
            while let Err(TrySendError::Full(text)) = self.voice.stderr.try_send(said) {
                if start.elapsed() >= PATIENCE {
                    break;
                }
                said = text;
                thread::sleep(LOOK_EVERY);
            }
        }
        end(&self.voice.stderr, &self.stderr, || start.elapsed() < PATIENCE);
        match result {
            Err(error) => error.downcast_ref().map_or(1, |ended: &Ended| ended.code),
            Ok(()) => self.voice.fault().map_or(0, |fault| fault.code),
        }
    }
}

/// Asks a writing thread to end, and waits for that while `patient`.
fn end(queue: &SyncSender<Said>, ended: &Receiver<Infallible>, mut patient: impl FnMut() -> bool) {
    let mut asked = false;
    loop {
        asked = asked || !matches!(queue.try_send(Said::End), Err(TrySendError::Full(_)));
        match ended.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) if patient() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what the channel has room for, and then blocks for good.
    struct Stuck(SyncSender<Vec<u8>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_reads_nothing_holds_up_neither_the_other_stream_nor_the_end() {
        let (out, _unread) = mpsc::sync_channel(0);
        let (err, read) = mpsc::sync_channel(9);
        let writers = start_on(Stuck(out), Stuck(err));
        for line in 0..MAX_WAITING {
            writers.voice().say(Stream::Stdout, format!("{line}\n"));
        }
        assert!(!writers.voice().failed());
        let result = writers.end_stdout(Err(anyhow::anyhow!("rank 1\nfailed")), None);
        assert_eq!(writers.end(&result), 1);
        assert_eq!(read.recv().unwrap(), b"error: rank 1 failed\n");
    }

    #[test]
    fn a_good_job_is_written_in_full_and_said_to_fail_where_it_is_not() {
        let (out, read) = mpsc::sync_channel(9);
        let writers = start_on(Stuck(out), io::sink());
        writers.voice().say(Stream::Stdout, "one\n".into());
        let result = writers.end_stdout(Ok(()), None);
        assert_eq!((read.recv().unwrap(), writers.end(&result)), (b"one\n".to_vec(), 0));

        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let writers = start_on(full, io::sink());
        writers.voice().say(Stream::Stdout, "one\n".into());
        let result = writers.end_stdout(Ok(()), None);
        let reason = result.as_ref().unwrap_err().to_string();
        assert!(reason.starts_with("cannot write the output: No space"), "{reason}");
        assert!(writers.voice().failed());
        assert_eq!(writers.end(&result), 1);
    }
}
