//! What was validated about devices: what computes, in which numbers, and what messages go through.

use std::fmt;

use pp_comm::Transports;

use super::flags::DeviceArgs;
use crate::invalid::{Invalid, refuse};

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The processor.
    Cpu,
    /// One GPU per process.
    #[cfg(feature = "cuda")]
    Cuda,
}

impl DeviceKind {
    /// As it is typed after `--device`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            #[cfg(feature = "cuda")]
            Self::Cuda => "cuda",
        }
    }
}

/// The numbers of activations and layers. Sums, master weights, gradients and moments are `f32` with either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// Single precision.
    F32,
    /// Brain floats, of which each has a master in `f32`.
    Bf16,
}

impl NumberType {
    /// As it is typed after `--dtype`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of an activation.
    pub(crate) const fn n_bytes(self) -> usize {
        match self {
            Self::F32 => size_of::<f32>(),
            Self::Bf16 => size_of::<u16>(),
        }
    }
}

/// What computes, and in which numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    /// What.
    pub device: DeviceKind,
    /// In which numbers.
    pub dtype: NumberType,
}

impl Compute {
    /// What the flags say.
    ///
    /// # Errors
    /// [`Invalid`] for names that there are not, or not in this build.
    pub(crate) fn new(args: &DeviceArgs) -> Result<Self, Invalid> {
        Ok(Self { device: device(&args.device)?, dtype: dtype(args)? })
    }

    /// Whether tensors are in the memory of this machine, not of a GPU.
    pub(crate) const fn is_on_host(self) -> bool {
        matches!(self.device, DeviceKind::Cpu)
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.device.name(), self.dtype.name())?;
        if self.is_on_host() && self.dtype == NumberType::Bf16 {
            // The kernels are for f32; these go by candle's operations.
            write!(f, " (slow on a processor: to check numbers)")?;
        }
        Ok(())
    }
}

fn device(name: &str) -> Result<DeviceKind, Invalid> {
    match name.to_ascii_lowercase().as_str() {
        "cpu" => Ok(DeviceKind::Cpu),
        #[cfg(feature = "cuda")]
        "cuda" => Ok(DeviceKind::Cuda),
        #[cfg(not(feature = "cuda"))]
        "cuda" => refuse!(
            "--device cuda: this build has no CUDA; `cargo xtask cuda-build` makes one that has, or use --device cpu"
        ),
        _ => refuse!("unknown device `{name}` (--device); known: cpu, cuda"),
    }
}

fn dtype(args: &DeviceArgs) -> Result<NumberType, Invalid> {
    if args.bf16 {
        return Ok(NumberType::Bf16);
    }
    let Some(name) = &args.dtype else { return Ok(NumberType::F32) };
    match name.to_ascii_lowercase().as_str() {
        "f32" => Ok(NumberType::F32),
        "bf16" => Ok(NumberType::Bf16),
        _ => refuse!("unknown --dtype `{name}`; known: f32, bf16"),
    }
}

/// What messages between ranks go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// The host's memory and sockets.
    Host(Transports),
    /// NCCL.
    #[cfg(feature = "nccl")]
    Nccl(Nccl),
}

/// How communicators are made.
#[cfg(feature = "nccl")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nccl {
    /// One for all channels, instead of one for each.
    pub(crate) one_communicator: bool,
    /// The most thread blocks of each.
    pub(crate) max_ctas: Option<u32>,
}

/// The most thread blocks that NCCL gives a communicator (`MAXCHANNELS` of its sources).
#[cfg(feature = "nccl")]
const MOST_CTAS: u32 = 64;

impl Carrier {
    /// What the flags say, for so many ranks that compute so.
    ///
    /// # Errors
    /// [`Invalid`] for names that there are not, or not in this build, and for what contradicts each other.
    pub(crate) fn new(args: &DeviceArgs, compute: Compute, n_ranks: u32) -> Result<Self, Invalid> {
        let name = args.transport.to_ascii_lowercase();
        let carrier = match name.as_str() {
            // A rank alone has no messages, and needs no NCCL.
            "auto" if compute.is_on_host() || n_ranks == 1 => Self::Host(Transports::Auto),
            #[cfg(feature = "nccl")]
            "auto" | "nccl" => Self::Nccl(nccl(args)?),
            "socket" if compute.is_on_host() => Self::Host(Transports::Socket),
            "shm" if compute.is_on_host() => Self::Host(Transports::SharedMemory),
            "socket" | "shm" => {
                refuse!("--transport {name} does not go with --device cuda; use --transport nccl, or auto")
            }
            #[cfg(not(feature = "nccl"))]
            "nccl" => refuse!(
                "--transport nccl: this build has no NCCL; make one by `cargo build --release -p pp-train --features nccl`, or \
                 use --transport auto"
            ),
            _ => refuse!("unknown --transport `{}`; known: auto, socket, shm, nccl", args.transport),
        };
        if matches!(carrier, Self::Host(_)) {
            check_no_nccl(args)?;
        }
        if compute.is_on_host() && matches!(carrier, Self::Host(_)) {
            check_no_gpu(args)?;
        }
        Ok(carrier)
    }

    /// What carries messages of the host, beside NCCL where there is that.
    pub(crate) const fn transports(&self) -> Transports {
        match self {
            Self::Host(transports) => *transports,
            #[cfg(feature = "nccl")]
            Self::Nccl(_) => Transports::Auto,
        }
    }

    /// Whether all channels have one communicator together.
    #[cfg(feature = "nccl")]
    pub(crate) const fn has_one_communicator(&self) -> bool {
        matches!(self, Self::Nccl(Nccl { one_communicator: true, .. }))
    }

    /// As far as all ranks must have it alike.
    pub(crate) fn terms(&self) -> String {
        match self {
            // Ranks of one host may have it otherwise than those of another.
            Self::Host(_) => "host".to_owned(),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => format!("{nccl:?}"),
        }
    }
}

#[cfg(feature = "nccl")]
fn nccl(args: &DeviceArgs) -> Result<Nccl, Invalid> {
    let one_communicator = match args.nccl_communicators.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("channel") => false,
        Some("one") => true,
        Some(name) => refuse!("unknown --nccl-communicators `{name}`; known: channel, one"),
    };
    if let Some(n) = args.nccl_max_ctas.filter(|n| !(1..=MOST_CTAS).contains(n)) {
        refuse!("--nccl-max-ctas {n} is not within 1 and {MOST_CTAS}; nearest that works: {}", n.clamp(1, MOST_CTAS));
    }
    Ok(Nccl { one_communicator, max_ctas: args.nccl_max_ctas })
}

fn check_no_nccl(args: &DeviceArgs) -> Result<(), Invalid> {
    let communicators = args.nccl_communicators.as_ref().map(|which| format!("--nccl-communicators {which}"));
    let ctas = args.nccl_max_ctas.map(|n| format!("--nccl-max-ctas {n}"));
    match communicators.or(ctas) {
        Some(given) => refuse!("{given} is given, but no messages go over NCCL; add --transport nccl, or leave it out"),
        None => Ok(()),
    }
}

fn check_no_gpu(args: &DeviceArgs) -> Result<(), Invalid> {
    match args.device_id {
        Some(id) => refuse!("--device-id {id} is given, but no GPU is used; add --device cuda, or leave it out"),
        None => Ok(()),
    }
}
