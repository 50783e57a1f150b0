//! Which GPU is a rank's: by what was typed, by its place on its host, and by how many the process may see.

use super::Place;
use super::claim::Local;
use super::environment::Environment;
use crate::invalid::{Invalid, refuse};

/// Variables by which NCCL itself lets ranks share a GPU (since 2.30), or takes them for ranks of several hosts.
const SHARING: [&str; 2] = ["NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_HOSTID"];
/// Variables of Slurm that say that each task is shown GPUs of its own.
const BINDING: [&str; 3] = ["SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_GPU_BIND"];
/// What the driver shows of the machine's GPUs, and under which numbers.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// What decides which GPU a rank takes, but for how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuChoice {
    /// The number that was typed.
    asked: Option<u32>,
    /// This rank among those of its host.
    local: Local,
    /// The variable by which ranks may share one, with its value.
    shared: Option<String>,
    /// The variable by which each rank is shown one of its own, with its value.
    bound: Option<String>,
    /// What the process was told it may see.
    visible: Option<String>,
}

/// Why a rank has no GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GpuError {
    #[error("the CUDA driver shows this process no GPU{0}")]
    None(String),
    #[error("--device-id {asked} is no GPU that this process may see: {shown}, numbered from 0")]
    NoSuch { asked: u32, shown: String },
    #[error(
        "local rank {rank}{of} has no GPU of its own: {shown}; start at most {n} rank{s} on this host, or give each --device-id \
         (ranks that share a GPU need NCCL_MULTI_RANK_GPU_ENABLE=1 and NCCL 2.30)"
    )]
    TooFew { rank: u32, of: String, shown: String, n: usize, s: &'static str },
}

impl GpuChoice {
    /// What flags, environment and place say.
    ///
    /// # Errors
    /// [`Invalid`] where nothing tells the ranks of a host apart.
    pub(crate) fn new(asked: Option<u32>, env: &Environment, place: &Place) -> Result<Self, Invalid> {
        let alone = (place.world_size() == 1).then_some(Local { rank: 0, size: Some(1) });
        let local = match (alone.or(place.local), asked) {
            (Some(local), _) => local,
            (None, Some(_)) => Local { rank: 0, size: None },
            (None, None) => refuse!(
                "{} does not say which of its host's ranks rank {} is, and so not which GPU is its own; give --device-id N, or \
                 --local-rank N (PP_LOCAL_RANK) with the flags source",
                place.source().name(),
                place.rank()
            ),
        };
        let set = |names: &[&'static str]| env.first(names).map(|(name, value)| format!("{name}={value}"));
        let off = |said: &String| said.ends_with("=0") || said.ends_with("=none");
        Ok(Self {
            asked,
            local,
            shared: SHARING.iter().find_map(|name| set(&[*name]).filter(|said| !off(said))),
            bound: BINDING.iter().find_map(|name| set(&[*name]).filter(|said| binds_gpus(said))),
            visible: env.set(VISIBLE).map(|value| format!("{VISIBLE}={value}")),
        })
    }

    /// The number of this rank's GPU among the `n` that the driver shows the process.
    ///
    /// # Errors
    /// [`GpuError`] where there is none for it.
    pub(crate) fn among(&self, n: usize) -> Result<usize, GpuError> {
        let Local { rank, size } = self.local;
        if n == 0 {
            return Err(GpuError::None(self.because()));
        }
        if let Some(asked) = self.asked {
            let there = usize::try_from(asked).ok().filter(|&asked| asked < n);
            return there.ok_or_else(|| GpuError::NoSuch { asked, shown: self.shown(n) });
        }
        // All ranks of the host that know how many they are say the same, also those that would have one.
        let needed = size.unwrap_or(0).max(rank.saturating_add(1)) as usize;
        match rank as usize {
            own if needed <= n => Ok(own),
            _ if self.bound.is_some() && n == 1 => Ok(0),
            own if self.shared.is_some() => Ok(own % n),
            _ => Err(GpuError::TooFew {
                rank,
                of: size.map_or_else(String::new, |size| format!(" of {size}")),
                shown: self.shown(n),
                n,
                s: if n == 1 { "" } else { "s" },
            }),
        }
    }

    fn shown(&self, n: usize) -> String {
        format!("the driver shows {n} GPU{}{}", if n == 1 { "" } else { "s" }, self.because())
    }

    fn because(&self) -> String {
        self.visible.as_ref().map_or_else(String::new, |visible| format!(" ({visible})"))
    }
}

/// Whether a variable of Slurm has each task see its own GPUs only: `gres/gpu:1` of a task's resources, or a way to bind.
fn binds_gpus(said: &str) -> bool {
    let (name, value) = said.split_once('=').unwrap_or((said, ""));
    match name {
        "SLURM_TRES_PER_TASK" => value.contains("gpu"),
        "SLURM_GPU_BIND" => value.contains("single") || value.contains("per_task"),
        _ => value != "0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use crate::plan::Plan;

    /// The choice of a process with these flags and variables, in a pipeline of four.
    fn choice(flags: &str, variables: &[(&str, &str)]) -> Result<GpuChoice, String> {
        let words = "--mock-data --pp 4".split_whitespace().chain(flags.split_whitespace());
        let args = Args::from_words(words).expect("flags");
        let env: Environment = variables.iter().copied().collect();
        let plan = Plan::new(&args, None).expect("a plan");
        let place = Place::new(&args, &env, &plan).map_err(|error| error.to_string())?;
        GpuChoice::new(args.device.device_id, &env, &place).map_err(|error| error.to_string())
    }

    fn among(flags: &str, variables: &[(&str, &str)], n: usize) -> Result<usize, String> {
        choice(flags, variables)?.among(n).map_err(|error| error.to_string())
    }

    const FILE: &str = "--rank 2 --world-size 4 --rendezvous-file f";
    const TORCHRUN: [(&str, &str); 6] = [
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "localhost"),
        ("MASTER_PORT", "29500"),
    ];
    const SRUN: [(&str, &str); 6] = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_LOCALID", "3"),
        ("SLURM_STEP_NODELIST", "n1"),
    ];
    const MPIRUN: [(&str, &str); 6] = [
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ("PMIX_RANK", "3"),
        ("PMIX_NAMESPACE", "5"),
    ];

    #[test]
    fn every_launcher_tells_the_rank_on_its_host() {
        assert_eq!(among(FILE, &[], 4), Ok(2));
        assert_eq!(among("", &TORCHRUN, 2), Ok(1));
        assert_eq!(among("", &SRUN, 4), Ok(3));
        assert_eq!(among("", &MPIRUN, 8), Ok(3));
        assert_eq!(among("--pp 1", &[], 1), Ok(0));
        assert_eq!(among("--pp 1 --device-id 1", &[], 2), Ok(1));
    }

    #[test]
    fn a_rank_on_its_host_can_be_told_by_hand() {
        let afar = "--rank 2 --world-size 4 --rendezvous localhost:29400";
        let error = among(afar, &[], 4).unwrap_err();
        assert!(error.contains("rank 2") && error.contains("--device-id N"), "{error}");
        assert_eq!(among(&format!("{afar} --local-rank 1"), &[], 2), Ok(1));
        assert_eq!(among(&format!("{afar} --device-id 3"), &[], 4), Ok(3));
        assert_eq!(among(&format!("{FILE} --local-rank 0"), &[], 4), Ok(0));
    }

    #[test]
    fn more_ranks_than_gpus_are_refused_by_all_that_know() {
        let error = among(FILE, &[("CUDA_VISIBLE_DEVICES", "0,1")], 2).unwrap_err();
        for part in ["local rank 2 of 4", "shows 2 GPUs (CUDA_VISIBLE_DEVICES=0,1)", "at most 2 ranks", "--device-id"] {
            assert!(error.contains(part), "{error}");
        }
        // The first would have one, but the others would not.
        assert!(
            among("--rank 0 --world-size 4 --rendezvous-file f", &[], 3).unwrap_err().contains("local rank 0 of 4")
        );
        assert!(among(FILE, &[], 1).unwrap_err().contains("shows 1 GPU; start at most 1 rank on"));
        assert!(among("", &MPIRUN, 3).is_err());
    }

    #[test]
    fn ranks_share_a_gpu_where_nccl_is_told_so() {
        for name in SHARING {
            assert_eq!(among(FILE, &[(name, "1")], 2), Ok(0), "{name}");
        }
        assert_eq!(among("", &[&MPIRUN[..], &[("NCCL_HOSTID", "b")]].concat(), 2), Ok(1));
        assert!(among(FILE, &[("NCCL_MULTI_RANK_GPU_ENABLE", "0")], 2).is_err());
        assert!(among(FILE, &[("NCCL_HOSTID", "")], 2).is_err());
        assert_eq!(among(&format!("{FILE} --device-id 0"), &[], 1), Ok(0));
    }

    #[test]
    fn tasks_that_slurm_binds_have_one_gpu_each() {
        for (name, value) in
            [("SLURM_GPUS_PER_TASK", "1"), ("SLURM_TRES_PER_TASK", "cpu=4,gres/gpu:1"), ("SLURM_GPU_BIND", "single:1")]
        {
            let bound = [&SRUN[..], &[(name, value)]].concat();
            assert_eq!(among("", &bound, 1), Ok(0), "{name}");
            assert!(among("", &bound, 2).is_err(), "{name}: two are not one for each");
        }
        for (name, value) in
            [("SLURM_TRES_PER_TASK", "cpu=4"), ("SLURM_GPU_BIND", "none"), ("SLURM_GPUS_PER_TASK", "0")]
        {
            assert!(among("", &[&SRUN[..], &[(name, value)]].concat(), 1).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn what_is_not_shown_is_named() {
        let none = among("--pp 1", &[("CUDA_VISIBLE_DEVICES", "")], 0).unwrap_err();
        assert!(none.contains("no GPU (CUDA_VISIBLE_DEVICES=)"), "{none}");
        assert_eq!(among("--pp 1", &[], 0).unwrap_err(), "the CUDA driver shows this process no GPU");
        let other = among("--pp 1 --device-id 2", &[], 2).unwrap_err();
        assert!(other.contains("--device-id 2") && other.contains("shows 2 GPUs, numbered from 0"), "{other}");
    }
}
