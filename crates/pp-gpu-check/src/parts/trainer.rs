//! The trainer as a process of this program, and what it wrote.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser as _;
use pp_comm::Secret;
use pp_train::args::{Args, one_line};
use pp_train::{Environment, Flight, Stop, TrainConfig};
use serde::Deserialize;

use super::way::Way;
use crate::child::Running;
use crate::conduct::{Plan, part_command};
use crate::report::Ground;

/// Trains in this process: what `pp-train` does with the same arguments.
///
/// # Errors
/// As the trainer's.
pub(super) fn run(words: &[OsString]) -> Result<()> {
    let typed = std::iter::once(OsString::from("pp-train")).chain(words.iter().cloned());
    let args = Args::try_parse_from(typed).map_err(|error| anyhow::anyhow!("{}", one_line(&error)))?;
    let config = TrainConfig::within(&args, &Environment::of_process())?;
    rayon::ThreadPoolBuilder::new().num_threads(config.threads()).build_global().context("cannot start threads")?;
    let stop = Stop::on_signals().context("cannot listen for signals")?;
    let flight = Flight::new(|reason| {
        eprintln!("error: {reason}");
        std::process::exit(3);
    });
    pp_train::run(&config, &stop, &flight)?;
    Ok(())
}

/// A run of the trainer.
#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    /// On the processor, whatever the ground.
    pub(super) on_cpu: bool,
    /// Pipeline ranks.
    pub(super) pp: u32,
    /// How they share the GPU; needed where there are several.
    pub(super) way: Option<Way>,
    /// The trainer's flags but those of device and world.
    pub(super) flags: &'a [&'a str],
    /// How long it may take.
    pub(super) limit: Duration,
}

/// A line of the metrics file.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Step {
    /// Mean loss, in nats.
    pub(super) loss: f64,
    /// Norm of the whole gradient.
    pub(super) grad_norm: f64,
    /// Tokens of the step.
    pub(super) tokens: f64,
    /// Wall time in milliseconds.
    pub(super) step_ms: f64,
}

impl Job<'_> {
    /// Runs it to its end; its training steps.
    ///
    /// # Errors
    /// A rank failed or did not end in time; the metrics are not as many as asked for is left to the caller.
    pub(super) fn steps(&self, plan: Plan<'_>) -> Result<Vec<Step>> {
        let scratch = Scratch::new()?;
        let metrics = scratch.0.join("metrics.jsonl");
        let secret = Secret::generate().context("cannot make a secret")?;
        let start = Instant::now();
        let ranks = (0..self.pp).map(|rank| {
            let mut command = self.command(plan, rank, &scratch.0, &secret)?;
            if rank == 0 {
                command.arg("--metrics").arg(&metrics);
            }
            Running::start(&mut command)
        });
        let ranks = ranks.collect::<Result<Vec<_>>>()?;
        for (rank, running) in ranks.into_iter().enumerate() {
            let ended = running.to_end(self.limit.saturating_sub(start.elapsed()), |_| Ok(()))?;
            ensure!(ended.is_well(), "the trainer's rank {rank} did not end well: {}", ended.why());
        }
        read(&metrics)
    }

    fn command(&self, plan: Plan<'_>, rank: u32, scratch: &Path, secret: &Secret) -> Result<Command> {
        let mut command = part_command(plan, super::TRAINER)?;
        command.arg("--").args(self.flags).args(["--pp", &self.pp.to_string()]);
        if !self.on_cpu && plan.ground == Ground::Cuda {
            command.args(["--device", "cuda", "--device-id", &plan.device.to_string()]);
            match self.way {
                Some(way) => way.tell(&mut command, rank),
                None if self.pp > 1 => bail!("it is not known how ranks can share this GPU"),
                None => {}
            }
        }
        command
            .env("PP_LAUNCHER", "flags")
            .env("PP_RANK", rank.to_string())
            .env("PP_WORLD_SIZE", self.pp.to_string())
            .env("PP_LOCAL_RANK", rank.to_string())
            .env("PP_RENDEZVOUS_FILE", scratch.join("rank0"))
            .env("PP_SECRET", secret.to_hex())
            .env("PP_FLIGHT_DIR", scratch.join("flight"))
            .env_remove("PP_RENDEZVOUS")
            .env_remove("PP_SECRET_FILE")
            .env_remove("PP_STDIN_GUARD");
        Ok(command)
    }
}

fn read(metrics: &Path) -> Result<Vec<Step>> {
    let text = std::fs::read_to_string(metrics).context("the trainer wrote no metrics")?;
    // Lines of validations, and the last one, have no gradient.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// A folder that is gone with this.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static N_MADE: AtomicU32 = AtomicU32::new(0);
        let n = N_MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pp-gpu-check-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_training_steps_are_read() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.0.join("metrics");
        let step =
            r#"{"iteration":1,"loss":5.5,"grad_norm":2.5,"lr":0.1,"tokens":64,"step_ms":2.0,"tokens_per_s":32000}"#;
        std::fs::write(&file, format!("{step}\n{{\"iteration\":1,\"validation_loss\":5.0}}\n{{\"final\":true}}\n"))
            .unwrap();
        assert_eq!(read(&file).unwrap(), [Step { loss: 5.5, grad_norm: 2.5, tokens: 64.0, step_ms: 2.0 }]);
    }
}
