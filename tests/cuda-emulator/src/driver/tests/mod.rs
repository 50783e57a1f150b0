//! Programs on the emulated driver: which are reported, and as what, and that right ones are not.

mod memory;
mod order;
mod peers;
mod process;
mod random;
mod speed;
mod streams;

use std::ffi::c_void;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::*;
use crate::job::{Kind, Work};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);

/// A context of its own, current on this thread, so that tests do not see each other's failures.
struct Bench {
    context: ContextId,
}

impl Bench {
    fn new() -> Self {
        init().unwrap();
        let context = make(0).unwrap();
        set_current(Some(context)).unwrap();
        Self { context }
    }

    /// A stream that is not ordered with the default stream.
    fn stream(&self) -> usize {
        create_stream(false).unwrap()
    }

    /// A buffer that is all written.
    fn buffer(&self, n_bytes: usize) -> u64 {
        let address = allocate(n_bytes).unwrap();
        fill("first", address, &[1], n_bytes, 0).unwrap();
        synchronize_stream(0).unwrap();
        address
    }

    /// What the context failed with.
    fn failure(&self) -> Option<Error> {
        check(self.context).err()
    }

    #[track_caller]
    fn assert_fine(&self) {
        let done = synchronize_context();
        assert_eq!((done, self.failure()), (Ok(()), None));
    }

    /// The context has failed with a violation of that kind, which names all these.
    #[track_caller]
    fn assert_failed(&self, kind: &str, names: &[&str]) {
        let until = Instant::now() + LIMIT;
        while self.failure().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = self.failure().expect("a violation").text;
        assert!(text.starts_with(&format!("{kind}: ")), "{text}");
        for name in names {
            assert!(text.contains(name), "no {name:?} in: {text}");
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = destroy(self.context);
    }
}

/// An event that stands for what is on a stream by now.
fn event_after(stream: usize) -> usize {
    let event = create_event(false).unwrap();
    record_event(event, stream).unwrap();
    event
}

fn access(address: u64, n_bytes: usize, kind: Kind) -> Access {
    Access { address, n_bytes, kind }
}

/// Work that touches memory, as a kernel would, and learns nothing.
fn touch(stream: usize, what: &str, accesses: Vec<Access>) -> Result<(), Error> {
    queue::put(stream, Order { accesses, ..Order::nothing(what) }).map(drop)
}

fn read(stream: usize, address: u64, n_bytes: usize) -> Result<(), Error> {
    touch(stream, "a reader", vec![access(address, n_bytes, Kind::Read)])
}

fn write(stream: usize, address: u64, n_bytes: usize) -> Result<(), Error> {
    touch(stream, "a writer", vec![access(address, n_bytes, Kind::Write)])
}

/// Work on a stream that goes on until it is let go.
fn hold(stream: usize) -> Sender<()> {
    let (go, held) = channel();
    queue::put(stream, Order::new("held", Vec::new(), Box::new(move |work| until_let_go(&held, work)))).unwrap();
    go
}

fn until_let_go(held: &Receiver<()>, work: &dyn Work) -> Result<(), String> {
    while held.recv_timeout(Duration::from_millis(1)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        if work.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// A stream's handle as C has it.
fn as_c(stream: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(stream)
}
