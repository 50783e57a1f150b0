//! The launcher's own flags, and which of the typed ones are the trainer's.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Command};

use super::build::Needs;
use super::rows::rows_of;
use super::words::{is_help, name, own_flag};

/// Train a GPT over several processes on this machine
///
/// Builds pp-train, starts a process per rank, and ends them all when one fails. Every flag that is not listed below
/// goes to pp-train as it was typed; `cargo run --release -p pp-train -- --help` lists those, for example
/// `--vp`, `--schedule`, `--microbatches`, `--num-layers`, `--train-iters`, `--metrics`.
///
/// Without --data and --mock-data the job trains on the Rust sources of a few of this workspace's dependencies.
///
/// Exit codes: 0 fine, 1 failed, 2 bad arguments or configuration, 3 a rank or peer was lost, 129, 130, 131 and 143 by
/// signal.
#[derive(Args, Debug)]
#[command(args_override_self = true)]
pub(crate) struct LaunchArgs {
    /// Pipeline ranks [default: 1, or as many as --schedule-csv has]
    #[arg(long, value_name = "N", alias = "pipeline-model-parallel-size")]
    pp: Option<usize>,
    /// A schedule made elsewhere, in torch's CSV or as JSON; a rank per row
    #[arg(long, value_name = "FILE")]
    schedule_csv: Option<PathBuf>,
    /// Data-parallel replicas; the trainer takes only 1 yet
    #[arg(long, value_name = "N", alias = "data-parallel-size")]
    dp: Option<usize>,
    /// Tensor-parallel ranks; the trainer takes only 1 yet
    #[arg(long, value_name = "N", alias = "tensor-model-parallel-size")]
    tp: Option<usize>,
    /// Compute threads of each rank [default: this machine's cores / ranks]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// What computes: cpu, or cuda with one GPU per rank
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// What messages between ranks go through: auto, socket, shm or nccl
    #[arg(long, value_name = "NAME")]
    transport: Option<String>,
    /// Text file to train on
    #[arg(long, value_name = "FILE", alias = "data-path")]
    data: Option<PathBuf>,
    /// Train on synthetic data
    #[arg(long)]
    mock_data: bool,
    /// The longest that a rank waits for another, and the launcher for ranks that were asked to stop [default: 60]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    timeout: Option<OsString>,
    /// Where ranks write what they did last when something goes wrong [default: a fresh directory among the temporary files]
    #[arg(long, value_name = "DIRECTORY", env = "PP_FLIGHT_DIR", hide_env_values = true)]
    flight_dir: Option<PathBuf>,
    /// Check the configuration, print it and stop
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Cargo profile that pp-train is built with
    #[arg(long, value_name = "NAME", default_value = "release")]
    pub(crate) profile: String,
    /// Run this trainer instead of building pp-train
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
    /// Flags for pp-train
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "TRAINER FLAGS")]
    rest: Vec<OsString>,
}

impl LaunchArgs {
    /// Pipeline ranks: those asked for, or those of the schedule's file.
    ///
    /// # Errors
    /// What is wrong with the file, or that it has others than are asked for.
    pub(crate) fn pp(&self) -> Result<usize, String> {
        let Some(file) = &self.schedule_csv else {
            return Ok(self.pp.unwrap_or(1));
        };
        let name = file.display();
        let rows = rows_of(file).map_err(|why| format!("--schedule-csv {name} {why}"))?;
        match self.pp {
            Some(pp) if pp != rows => Err(format!(
                "--pp {pp} disagrees with --schedule-csv {name}, which has {rows} ranks; leave --pp out, or use --pp {rows}"
            )),
            _ => Ok(rows),
        }
    }

    /// How long the step in progress may take when the launcher is asked to stop. What is no time the trainer refuses.
    pub(crate) fn patience(&self) -> Duration {
        let seconds = self.timeout.as_ref().and_then(|text| text.to_str()?.parse().ok());
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(TIMEOUT)
    }

    /// Where ranks write what they did last: as asked for, or where no other launch does.
    pub(crate) fn flight_dir(&self) -> PathBuf {
        let own = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            std::env::temp_dir().join(format!("pp-flight-{now}-{}", std::process::id()))
        };
        let path = self.flight_dir.clone().unwrap_or_else(own);
        // Wherever a rank may stand.
        std::path::absolute(&path).unwrap_or(path)
    }

    /// What the trainer has to have in it. Names that are not known the trainer refuses.
    pub(crate) fn needs(&self) -> Needs {
        let is =
            |given: &Option<String>, name: &str| given.as_ref().is_some_and(|given| given.eq_ignore_ascii_case(name));
        match (is(&self.device, "cuda"), is(&self.transport, "nccl")) {
            (true, _) => Needs::Cuda,
            (false, true) => Needs::Nccl,
            (false, false) => Needs::Nothing,
        }
    }

    /// Whether that was asked for.
    pub(crate) fn names_flight_dir(&self) -> bool {
        self.flight_dir.is_some()
    }

    /// None when the product overflows.
    pub(crate) fn n_ranks(&self, pp: usize) -> Option<usize> {
        pp.checked_mul(self.dp.unwrap_or(1))?.checked_mul(self.tp.unwrap_or(1))
    }

    pub(crate) fn needs_default_data(&self) -> bool {
        self.data.is_none() && !self.mock_data
    }

    /// Why the flags cannot be passed on, if so: those that only the launcher may give would start another world.
    pub(crate) fn misplaced(&self) -> Option<String> {
        if let Some((flag, _)) =
            [("--pp", self.pp), ("--dp", self.dp), ("--tp", self.tp)].into_iter().find(|&(_, size)| size == Some(0))
        {
            return Some(format!("{flag} 0: there must be at least 1"));
        }
        let launch = LaunchArgs::augment_args(Command::new("launch"));
        self.rest.iter().find_map(|word| {
            let name = name(word)?;
            if WORLD.contains(&name) {
                return Some(format!("--{name} cannot be given: the launcher tells each rank its place, by --pp"));
            }
            let own = own_flag(&launch, word).is_some() && !is_help(word);
            own.then(|| format!("--{name} is the launcher's; give it before `--`"))
        })
    }

    /// The trainer's flag that asks for words about the trainer, which needs no job.
    pub(crate) fn asks_about_trainer(&self) -> Option<&OsStr> {
        self.rest.iter().map(OsString::as_os_str).find(|&word| is_help(word) || word == "--version" || word == "-V")
    }

    /// What each rank is started with: the flags known here, then the others as they were typed.
    pub(crate) fn trainer_flags(&self, pp: usize, n_ranks: usize, default_data: Option<&Path>) -> Vec<OsString> {
        let mut flags: Vec<OsString> = Vec::new();
        let mut number = |flag: &str, value: usize| flags.extend([flag.into(), value.to_string().into()]);
        number("--pp", pp);
        if let Some(dp) = self.dp {
            number("--dp", dp);
        }
        if let Some(tp) = self.tp {
            number("--tp", tp);
        }
        number("--threads", self.threads.unwrap_or_else(|| threads_per_rank(n_ranks)));
        for (flag, name) in [("--device", &self.device), ("--transport", &self.transport)] {
            flags.extend(name.iter().flat_map(|name| [OsString::from(flag), name.into()]));
        }
        if let Some(timeout) = &self.timeout {
            flags.extend(["--timeout".into(), timeout.clone()]);
        }
        if let Some(file) = &self.schedule_csv {
            flags.extend(["--schedule-csv".into(), file.into()]);
        }
        if let Some(path) = self.data.as_deref().or(default_data) {
            flags.extend(["--data".into(), path.into()]);
        }
        if self.mock_data {
            flags.push("--mock-data".into());
        }
        flags.extend(self.rest.iter().cloned());
        flags
    }
}

/// A rank's place in the world, which the launcher gives it.
const WORLD: [&str; 9] = [
    "rank",
    "world-size",
    "local-rank",
    "launcher",
    "rendezvous-file",
    "rendezvous",
    "rendezvous-port",
    "bind",
    "secret-file",
];

/// The trainer's own, where nothing else is asked for.
const TIMEOUT: Duration = Duration::from_secs(60);

fn threads_per_rank(n_ranks: usize) -> usize {
    let n_cores = available_parallelism().map_or(1, |cores| cores.get());
    (n_cores / n_ranks.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::super::words::own_flags_first;
    use super::*;

    #[derive(Parser)]
    enum Cli {
        Launch(LaunchArgs),
    }

    fn parse(line: &str) -> LaunchArgs {
        let typed = ["xtask", "launch"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        let Cli::Launch(args) = Cli::parse_from(own_flags_first(typed, &Cli::command()));
        args
    }

    fn flags(line: &str) -> String {
        let args = parse(line);
        let pp = args.pp().expect("no file, or a schedule in it");
        let flags = args.trainer_flags(pp, args.n_ranks(pp).expect("small numbers"), None);
        flags.join(std::ffi::OsStr::new(" ")).into_string().expect("ASCII")
    }

    #[test]
    fn own_flags_are_found_behind_the_trainers() {
        let args = parse("--vp 2 --train-iters=5 --pp 4 --tied --dp=2 --binary /bin/x");
        assert_eq!((args.pp(), args.n_ranks(4)), (Ok(4), Some(8)));
        assert_eq!(args.binary.as_deref(), Some(Path::new("/bin/x")));
        assert_eq!(args.rest, ["--vp", "2", "--train-iters=5", "--tied"]);
    }

    #[test]
    fn the_trainer_gets_every_flag_but_the_launchers() {
        assert_eq!(
            flags("--vp 2 --pp 2 --mock-data --threads 1 --profile dev --binary /bin/x --lr 1e-3"),
            "--pp 2 --threads 1 --mock-data --vp 2 --lr 1e-3"
        );
        assert_eq!(flags("--threads 3 --data a.txt"), "--pp 1 --threads 3 --data a.txt");
    }

    #[test]
    fn megatrons_names_are_known() {
        let args = parse("--pipeline-model-parallel-size 3 --tensor-model-parallel-size=2");
        assert_eq!((args.pp(), args.n_ranks(3)), (Ok(3), Some(6)));
    }

    #[test]
    fn behind_two_dashes_everything_is_the_trainers() {
        let args = parse("--pp 2 -- --vp 5");
        assert_eq!((args.pp, args.rest), (Some(2), vec!["--vp".into(), "5".into()]));
    }

    #[test]
    fn what_is_the_launchers_is_not_passed_on() {
        let cases = [
            ("--pp 2 -- --pp 4", "--pp is the launcher's; give it before `--`"),
            ("-- --data-parallel-size=2", "--data-parallel-size is the launcher's"),
            ("-- --tensor-model-parallel-size 2", "--tensor-model-parallel-size is"),
            ("--pp 2 -- --dry-run", "--dry-run is the launcher's"),
            ("--rank 0", "--rank cannot be given"),
            ("--vp 2 --world-size=2", "--world-size cannot be given"),
            ("-- --rendezvous-file rf", "--rendezvous-file cannot be given"),
            ("--launcher slurm", "--launcher cannot be given"),
            ("--bind 0.0.0.0", "--bind cannot be given"),
            ("-- --timeout 5", "--timeout is the launcher's"),
            ("--pp 0", "--pp 0: there must be at least 1"),
            ("--tp 0", "--tp 0"),
        ];
        for (line, expected) in cases {
            let reason = parse(line).misplaced().unwrap_or_else(|| panic!("{line}"));
            assert!(reason.starts_with(expected), "{line}: {reason}");
        }
        for line in ["--pp 2 --vp 2", "-- --vp 2 --metrics x", "-- --help", "--ranks 3"] {
            assert_eq!(parse(line).misplaced(), None, "{line}");
        }
    }

    #[test]
    fn what_the_launcher_and_the_trainer_both_need_goes_to_both() {
        assert_eq!(flags("--mock-data --threads 1 --timeout 2.5"), "--pp 1 --threads 1 --timeout 2.5 --mock-data");
        for (line, seconds) in [("--timeout 2.5", 2.5), ("", 60.0), ("--timeout soon", 60.0), ("--timeout=-1", 60.0)] {
            assert_eq!(parse(line).patience().as_secs_f64(), seconds, "{line}");
        }
        assert_eq!(
            flags("--mock-data --threads 1 --vp 2 --device cuda --transport nccl"),
            "--pp 1 --threads 1 --device cuda --transport nccl --mock-data --vp 2"
        );
        assert!(parse("").flight_dir().is_absolute());
        assert_eq!(parse("--flight-dir /tmp/x").flight_dir(), Path::new("/tmp/x"));
    }

    #[test]
    fn what_is_asked_for_decides_what_is_built() {
        for (line, needs) in [
            ("", Needs::Nothing),
            ("--device cpu --transport shm", Needs::Nothing),
            ("--device tpu", Needs::Nothing),
            ("--vp 2 --transport NCCL", Needs::Nccl),
            ("--vp 2 --device=Cuda --bf16", Needs::Cuda),
            ("--device cuda --transport nccl", Needs::Cuda),
            ("--device cuda --device cpu", Needs::Nothing),
        ] {
            assert_eq!(parse(line).needs(), needs, "{line}");
        }
    }

    #[test]
    fn questions_about_the_trainer_are_seen() {
        for (line, expected) in [
            ("--version", Some("--version")),
            ("--pp 2 -V", Some("-V")),
            ("-- --help", Some("--help")),
            ("--vp 2", None),
        ] {
            assert_eq!(parse(line).asks_about_trainer(), expected.map(OsStr::new), "{line}");
        }
    }

    #[test]
    fn the_last_of_several_counts() {
        let args = parse(
            "--pp 2 --data a --pipeline-model-parallel-size 4 --mock-data --data b --mock-data --dry-run --dry-run",
        );
        assert_eq!(
            (args.pp, args.data.as_deref(), args.mock_data, args.dry_run),
            (Some(4), Some(Path::new("b")), true, true)
        );
    }

    #[test]
    fn a_value_need_not_be_text() {
        use std::os::unix::ffi::OsStrExt;
        let path = OsStr::from_bytes(b"--data=\xff");
        let typed = vec!["xtask".into(), "launch".into(), path.to_owned(), "--vp".into(), "2".into()];
        let Cli::Launch(args) = Cli::parse_from(own_flags_first(typed, &Cli::command()));
        assert!(!args.needs_default_data());
        assert_eq!(args.data.as_deref().map(|path| path.as_os_str().as_bytes()), Some(&b"\xff"[..]));
    }

    #[test]
    fn default_data_is_for_jobs_that_name_none() {
        assert!(parse("--pp 2").needs_default_data());
        assert!(!parse("--pp 2 --mock-data").needs_default_data());
        assert!(!parse("--pp 2 --data x").needs_default_data());
    }

    #[test]
    fn cores_are_shared_and_every_rank_has_one() {
        assert_eq!(threads_per_rank(usize::MAX), 1);
        assert_eq!(threads_per_rank(1), available_parallelism().map_or(1, |cores| cores.get()));
        assert_eq!(threads_per_rank(0), threads_per_rank(1));
    }

    #[test]
    fn too_many_ranks_to_count_is_none() {
        let args = parse("--pp 18446744073709551615 --dp 2");
        assert_eq!(args.n_ranks(args.pp().expect("a number")), None);
    }

    #[test]
    fn a_schedule_in_a_file_says_how_many_ranks_there_are() {
        let file = std::env::temp_dir().join(format!("pp-launch-args-{}.csv", std::process::id()));
        let line = |flags: &str| format!("--mock-data --threads 1 --schedule-csv {} {flags}", file.display());
        std::fs::write(&file, "0F0,0B0\n1F0,1B0\n2F0,2B0\n").expect("writable");
        for given in ["", "--pp 3"] {
            assert_eq!(
                flags(&line(given)),
                format!("--pp 3 --threads 1 --schedule-csv {} --mock-data", file.display())
            );
        }
        let disagrees = parse(&line("--pp 2")).pp().expect_err("two is not three");
        for part in ["--pp 2 disagrees", &file.display().to_string(), "has 3 ranks", "use --pp 3"] {
            assert!(disagrees.contains(part), "{disagrees}");
        }
        for (text, said) in [("0F0,0X0\n", "is no schedule: as CSV: rank 0, step 1"), ("", "is empty")] {
            std::fs::write(&file, text).expect("writable");
            let error = parse(&line("")).pp().expect_err(text);
            assert!(error.contains(said), "{error}");
        }
        std::fs::remove_file(&file).expect("it is there");
        let error = parse(&line("")).pp().expect_err("it is gone");
        assert!(error.contains("cannot be read"), "{error}");
    }
}
