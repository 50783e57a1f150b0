//! Every test in a process of its own; ranks as its threads, or as further processes.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use std::{env, thread};

use nccl_rs::cudarc::driver::CudaStream;
use nccl_rs::cudarc::driver::result::stream::launch_host_function;
use nccl_rs::{Comm, CommConfig, Device, DeviceBytes, DeviceMemory, Stream, UniqueId};

/// For what must come about: far longer than it takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// For what must not come about.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// Names the case that a process is to run.
const CASE_VAR: &str = "NCCL_RS_EMULATED_CASE";
/// The rank and the id of a process of [`processes`].
const RANK_VAR: &str = "NCCL_RS_EMULATED_RANK";
/// How long a test's process may take.
const PROCESS_LIMIT: Duration = Duration::from_secs(60);

/// A test.
pub(crate) struct Case {
    /// As the test harness calls it.
    name: &'static str,
    settings: Vec<(&'static str, String)>,
    violation: Option<&'static str>,
    /// The names by which the libraries are found; all, if none.
    library_names: &'static [&'static str],
}

impl Case {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, settings: Vec::new(), violation: None, library_names: &[] }
    }

    /// With the libraries under these names alone.
    pub(crate) fn only_names(mut self, names: &'static [&'static str]) -> Self {
        self.library_names = names;
        self
    }

    /// With faults, as the emulator's README lists them.
    pub(crate) fn faults(self, faults: &str) -> Self {
        self.set("CUDA_EMULATOR_FAULTS", faults)
    }

    pub(crate) fn set(mut self, name: &'static str, value: &str) -> Self {
        self.settings.push((name, value.to_string()));
        self
    }

    /// The emulator must report a violation of that kind, rather than none.
    pub(crate) fn reports(mut self, kind: &'static str) -> Self {
        self.violation = Some(kind);
        self
    }

    /// Runs it, in a process of its own.
    pub(crate) fn run(self, body: impl FnOnce()) {
        if env::var(CASE_VAR).as_deref() == Ok(self.name) {
            return body();
        }
        let library = emulator();
        let folder = env::temp_dir().join(format!("nccl-rs-{}-{}", std::process::id(), self.name.replace("::", "-")));
        fs::create_dir_all(&folder).unwrap();
        let (report, output) = (folder.join("report"), folder.join("output"));
        let mut command = this_test(self.name, &output);
        command.env("CUDA_EMULATOR_REPORT", &report).envs(self.settings.iter().map(|(name, value)| (name, value)));
        for name in self.library_names {
            symlink(&library, folder.join(name)).unwrap();
            command.env("LD_LIBRARY_PATH", &folder);
        }
        let has_passed = wait(command.spawn().unwrap());
        let (report, output) = (read(&report), read(&output));
        fs::remove_dir_all(&folder).unwrap();
        assert!(has_passed, "{}:\n{output}", self.name);
        // With a name that the harness does not know it would run nothing, and pass.
        assert!(output.contains("1 passed"), "{}:\n{output}", self.name);
        match self.violation {
            None => assert_eq!(report, "", "{}", self.name),
            Some(kind) => assert!(report.contains(&format!("violation: {kind}\n")), "{}: {report:?}", self.name),
        }
    }
}

/// This binary, to run one test of it.
fn this_test(name: &str, output: &Path) -> Command {
    let file = File::create(output).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(CASE_VAR, name)
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file);
    command
}

/// Whether it passed. Ends it if it takes too long.
fn wait(mut child: Child) -> bool {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        if begun.elapsed() > PROCESS_LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn read(path: &PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The emulator, which must be the library that is found first.
fn emulator() -> PathBuf {
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let found = env::split_paths(&folders).find_map(|folder| folder.join("libnccl.so.2").canonicalize().ok());
    let is_emulator = |path: &PathBuf| path.file_name().is_some_and(|name| name == "libcuda_emulator.so");
    found
        .filter(is_emulator)
        .expect("these tests run on the emulated driver: start them with `cargo xtask ci emulator`")
}

/// One rank of a communicator over all ranks, each with a device and a thread of its own.
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) comm: Comm,
    pub(crate) stream: Stream,
}

impl Rank {
    pub(crate) fn new(id: UniqueId, n_ranks: usize, rank: usize) -> Self {
        let device = Device::new(rank).unwrap();
        let comm = Comm::init(&device, id, n_ranks, rank, &CommConfig::default(), LIMIT).unwrap();
        let stream = Stream::new(&device).unwrap();
        Self { rank, comm, stream }
    }

    /// Device memory that holds these.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Arc<dyn DeviceMemory> {
        Arc::new(DeviceBytes::from_host(&self.stream, bytes).unwrap())
    }

    /// Device memory that holds these.
    pub(crate) fn floats(&self, values: &[f32]) -> Arc<dyn DeviceMemory> {
        self.bytes(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    /// What device memory holds, after what is on the stream now.
    pub(crate) fn read(&self, memory: &Arc<dyn DeviceMemory>) -> Vec<u8> {
        memory.to_host(&self.stream, LIMIT).unwrap()
    }

    /// What device memory holds, after what is on the stream now.
    pub(crate) fn read_floats(&self, memory: &Arc<dyn DeviceMemory>) -> Vec<f32> {
        self.read(memory).chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    /// Leaves in good order.
    pub(crate) fn leave(self) {
        self.comm.finalize(LIMIT).unwrap();
    }
}

/// Runs ranks as threads, once all have a communicator: one that leaves at once may fail what the others are still making.
pub(crate) fn ranks(n_ranks: usize, body: impl Fn(Rank) + Sync) {
    let id = UniqueId::new().unwrap();
    let all_have_one = Barrier::new(n_ranks);
    thread::scope(|scope| {
        for rank in 0..n_ranks {
            let (body, all_have_one) = (&body, &all_have_one);
            scope.spawn(move || {
                let rank = Rank::new(id, n_ranks, rank);
                all_have_one.wait();
                body(rank);
            });
        }
    });
}

/// Runs ranks as processes: rank 0 in this one, others as the same test started again. Gives whether each of these passed.
pub(crate) fn processes(name: &str, n_ranks: usize, body: impl Fn(Rank)) -> Vec<bool> {
    if let Ok(text) = env::var(RANK_VAR) {
        let (rank, id) = text.split_once(':').unwrap();
        body(Rank::new(from_hex(id), n_ranks, rank.parse().unwrap()));
        return Vec::new();
    }
    let id = UniqueId::new().unwrap();
    let hex: String = id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let started = Started(
        (1..n_ranks)
            .map(|rank| {
                let output = env::temp_dir().join(format!("nccl-rs-{}-rank-{rank}", std::process::id()));
                let child = this_test(name, &output).env(RANK_VAR, format!("{rank}:{hex}")).spawn().unwrap();
                (child, output)
            })
            .collect(),
    );
    body(Rank::new(id, n_ranks, 0));
    started.wait()
}

/// Processes that end with this one.
struct Started(Vec<(Child, PathBuf)>);

impl Started {
    fn wait(mut self) -> Vec<bool> {
        let mut have_passed = Vec::new();
        for (child, output) in self.0.drain(..) {
            have_passed.push(wait(child));
            print!("{}", read(&output));
            fs::remove_file(output).unwrap();
        }
        have_passed
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for (child, output) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
            let _ = fs::remove_file(output);
        }
    }
}

fn from_hex(text: &str) -> UniqueId {
    let bytes: Vec<u8> =
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect();
    UniqueId::from_bytes(bytes.try_into().unwrap())
}

/// Holds a stream up until it is dropped.
pub(crate) struct Gate(#[expect(dead_code, reason = "its drop is what matters")] Sender<()>);

/// Holds up what is put on the stream from now on.
pub(crate) fn hold_up(stream: &Arc<CudaStream>) -> Gate {
    unsafe extern "C" fn wait_for_drop(argument: *mut std::ffi::c_void) {
        // SAFETY: it is the receiver that was boxed for this call alone.
        let receiver = unsafe { Box::from_raw(argument.cast::<mpsc::Receiver<()>>()) };
        let _ = receiver.recv_timeout(LIMIT);
    }
    let (sender, receiver) = mpsc::channel();
    stream.context().bind_to_thread().unwrap();
    // SAFETY: the stream exists; the function takes the box and is called once.
    unsafe {
        launch_host_function(stream.cu_stream(), wait_for_drop, Box::into_raw(Box::new(receiver)).cast()).unwrap();
    }
    Gate(sender)
}

/// A stream of the device that can be held up.
pub(crate) fn cudarc_stream(device: &Device) -> (Arc<CudaStream>, Stream) {
    let stream = device.context().new_stream().unwrap();
    (stream.clone(), Stream::of(stream).unwrap())
}

/// Looks until it is so.
pub(crate) fn comes_about(mut look: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !look() {
        if begun.elapsed() > LIMIT {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}
