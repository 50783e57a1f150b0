//! The trainer as a process: arguments in, exit code and output back, never for longer than a test may take.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Trains in no time.
pub(crate) const TINY: &str = "--mock-data --hidden-size 16 --num-heads 2 --num-layers 2 --seq-length 16 \
                               --micro-batch-size 2 --microbatches 2 --train-iters 2 --eval-iters 1 --threads 1";

/// [`TINY`] but for the text.
pub(crate) fn tiny_on(text: &Path) -> String {
    format!("{} --data {}", TINY.replace("--mock-data ", ""), text.display())
}

/// A directory that goes with all it holds.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pp-train-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file with something in it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.file(name), text).unwrap();
        self.file(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// It failed with this code and says why in one line, which has all these parts.
    pub(crate) fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("error: ") && self.stderr.lines().count() == 1, "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{self:?} lacks {part}");
        }
    }
}

/// A trainer that is ended with its owner.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn wait(mut self) -> Ended {
        let end = Instant::now() + PATIENCE;
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "still running after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        let read = |pipe: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            if let Some(pipe) = pipe {
                pipe.read_to_string(&mut text).unwrap();
            }
            text
        };
        Ended {
            code: self.0.wait().unwrap().code(),
            stdout: read(self.0.stdout.as_mut().map(|pipe| pipe as _)),
            stderr: read(self.0.stderr.as_mut().map(|pipe| pipe as _)),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The trainer in a world of its own, with pipes.
pub(crate) fn trainer(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pp-train"));
    // Whoever runs the tests may have a place in a world itself.
    for (name, _) in std::env::vars_os() {
        let places = ["PP_", "SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_"];
        let is_place = |name: &str| {
            ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"].contains(&name)
                || places.iter().any(|place| name.starts_with(place))
        };
        if name.to_str().is_some_and(is_place) {
            command.env_remove(name);
        }
    }
    command.args(line.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn start(command: &mut Command) -> Running {
    Running(command.spawn().unwrap())
}

pub(crate) fn run(line: &str) -> Ended {
    start(&mut trainer(line)).wait()
}
