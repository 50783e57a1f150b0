//! A rank under test: its context, a stream, a communicator, and calls with their results checked.

use std::ffi::{c_int, c_void};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use cuda_emulator::abi::nccl::{self, CommHandle, Config, UniqueId};
use cuda_emulator::driver;
use cuda_emulator::nccl::kinds::{Code, DataType, ReduceOp};

/// For whatever must come about.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) type Answer = Result<(), Code>;

/// A call's result: in progress counts as success.
pub(crate) fn result(number: c_int) -> Answer {
    match Code::of(number) {
        Some(Code::Success | Code::InProgress) => Ok(()),
        Some(code) => Err(code),
        None => panic!("no such code: {number}"),
    }
}

/// The last error, as C's callers get it.
pub(crate) fn last_error(comm: CommHandle) -> String {
    // SAFETY: the text is copied before this thread's next call.
    unsafe { std::ffi::CStr::from_ptr(nccl::ncclGetLastError(comm)) }.to_string_lossy().into_owned()
}

pub(crate) fn draw() -> UniqueId {
    let mut id = UniqueId { internal: [0; 128] };
    // SAFETY: `id` may be written.
    result(unsafe { nccl::ncclGetUniqueId(&mut id) }).unwrap();
    id
}

/// A communicator's status.
pub(crate) fn status(comm: CommHandle) -> Code {
    let mut code = -1;
    // SAFETY: `code` may be written.
    result(unsafe { nccl::ncclCommGetAsyncError(comm, &mut code) }).unwrap();
    Code::of(code).unwrap()
}

/// What a communicator comes to.
pub(crate) fn settled(comm: CommHandle) -> Code {
    let end = Instant::now() + LIMIT;
    loop {
        match status(comm) {
            Code::InProgress if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            code => return code,
        }
    }
}

/// A rank: its own context, current on its thread; a stream; a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) comm: usize,
    pub(crate) stream: usize,
}

pub(crate) fn context(device: usize) {
    driver::init().unwrap();
    driver::set_current(Some(driver::make(device).unwrap())).unwrap();
}

impl Rank {
    /// Begins to join, in a context of its own on the device of the rank's number.
    pub(crate) fn begin(id: UniqueId, n_ranks: usize, rank: usize, config: Config) -> Self {
        context(rank);
        let stream = driver::create_stream(false).unwrap();
        let comm = begin(id, n_ranks, rank, config).unwrap();
        Self { rank, comm, stream }
    }

    /// Joins; calls do not block.
    pub(crate) fn join(id: UniqueId, n_ranks: usize, rank: usize) -> Self {
        let joined = Self::begin(id, n_ranks, rank, Config { blocking: 0, ..Config::unset() });
        assert_eq!(settled(joined.handle()), Code::Success, "{}", last_error(joined.handle()));
        joined
    }

    pub(crate) fn handle(&self) -> CommHandle {
        self.comm as CommHandle
    }

    pub(crate) fn on(&self, stream: usize) -> Self {
        Self { stream, ..*self }
    }

    fn stream(&self) -> *mut c_void {
        self.stream as *mut c_void
    }

    pub(crate) fn send(&self, from: u64, count: usize, dtype: DataType, peer: usize) -> Answer {
        let from = from as *const c_void;
        result(nccl::ncclSend(from, count, dtype as c_int, peer as c_int, self.handle(), self.stream()))?;
        self.launched()
    }

    pub(crate) fn recv(&self, to: u64, count: usize, dtype: DataType, peer: usize) -> Answer {
        let to = to as *mut c_void;
        result(nccl::ncclRecv(to, count, dtype as c_int, peer as c_int, self.handle(), self.stream()))?;
        self.launched()
    }

    pub(crate) fn all_reduce(&self, from: u64, to: u64, count: usize, dtype: DataType, op: ReduceOp) -> Answer {
        let (from, to) = (from as *const c_void, to as *mut c_void);
        let (comm, stream) = (self.handle(), self.stream());
        result(nccl::ncclAllReduce(from, to, count, dtype as c_int, op as c_int, comm, stream))?;
        self.launched()
    }

    /// Makes a launch that was left to be made, as a caller that does not block must.
    pub(crate) fn launched(&self) -> Answer {
        match status(self.handle()) {
            // In a group nothing is launched yet.
            Code::Success | Code::InProgress => Ok(()),
            code => Err(code),
        }
    }

    pub(crate) fn group<T>(&self, calls: impl FnOnce() -> T) -> Result<T, Code> {
        result(nccl::ncclGroupStart()).unwrap();
        let called = calls();
        result(nccl::ncclGroupEnd())?;
        self.launched()?;
        Ok(called)
    }

    /// Waits for the stream.
    pub(crate) fn settle(&self) {
        let end = Instant::now() + LIMIT;
        while !driver::query_stream(self.stream).unwrap() {
            assert!(Instant::now() < end, "rank {}: the stream is not done: {}", self.rank, last_error(self.handle()));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Memory with that in it.
    pub(crate) fn memory(&self, bytes: &[u8]) -> u64 {
        let address = driver::allocate(bytes.len().max(1)).unwrap();
        if !bytes.is_empty() {
            driver::copy_in_async("copy in", address, bytes.to_vec(), self.stream).unwrap();
        }
        address
    }

    /// What is in memory, after what is on the stream.
    pub(crate) fn bytes(&self, address: u64, n_bytes: usize) -> Vec<u8> {
        if n_bytes == 0 {
            return Vec::new();
        }
        driver::copy_out("copy out", address, n_bytes, self.stream).unwrap()
    }

    pub(crate) fn abort(&self) {
        result(nccl::ncclCommAbort(self.handle())).unwrap();
    }

    /// Leaves in good order.
    pub(crate) fn leave(&self) {
        result(nccl::ncclCommFinalize(self.handle())).unwrap();
        assert_eq!(settled(self.handle()), Code::Success, "{}", last_error(self.handle()));
        result(nccl::ncclCommDestroy(self.handle())).unwrap();
    }
}

pub(crate) fn begin(id: UniqueId, n_ranks: usize, rank: usize, mut config: Config) -> Result<usize, Code> {
    let mut comm: CommHandle = std::ptr::null_mut();
    let config = (&raw mut config).cast();
    // SAFETY: `comm` may be written, and the configuration is as long as it says.
    result(unsafe { nccl::ncclCommInitRankConfig(&mut comm, n_ranks as c_int, id, rank as c_int, config) })?;
    Ok(comm as usize)
}

/// Runs ranks as threads, each with a communicator that it leaves in good order, and gives what they give.
pub(crate) fn ranks<T: Send>(n_ranks: usize, body: impl Fn(Rank) -> T + Sync) -> Vec<T> {
    threads(n_ranks, draw(), |id, rank| {
        let joined = Rank::join(id, n_ranks, rank);
        let result = body(joined);
        joined.settle();
        joined.leave();
        result
    })
}

/// Runs threads with numbers.
pub(crate) fn threads<T: Send>(n: usize, id: UniqueId, body: impl Fn(UniqueId, usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = (0..n).map(|rank| scope.spawn(move || body(id, rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Where threads wait for each other; a thread that panicked does not hold the others up for ever.
pub(crate) struct Barrier {
    n: usize,
    n_come: Mutex<usize>,
    changed: Condvar,
}

impl Barrier {
    pub(crate) fn new(n: usize) -> Self {
        Self { n, n_come: Mutex::new(0), changed: Condvar::new() }
    }

    pub(crate) fn wait(&self) {
        let mut n_come = self.n_come.lock().unwrap();
        *n_come += 1;
        let full = *n_come / self.n * self.n + if n_come.is_multiple_of(self.n) { 0 } else { self.n };
        self.changed.notify_all();
        let (_come, waited) = self.changed.wait_timeout_while(n_come, LIMIT, |n_come| *n_come < full).unwrap();
        assert!(!waited.timed_out(), "the other threads do not come");
    }
}
