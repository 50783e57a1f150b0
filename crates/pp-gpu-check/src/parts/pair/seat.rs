//! A rank's place: its GPU, and its meeting with the other.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use nccl_rs::{Comm, CommConfig, Device, Stream, UniqueId};
use pp_comm::{JoinSpec, Joined, Secret, Transports, join};
use pp_schedule::{Channel, Fingerprint, Rank};

use super::N_RANKS;
use crate::conduct::Plan;
use crate::report::Ground;

pub(super) const RANK: &str = "PP_GPU_CHECK_RANK";
pub(super) const HOST: &str = "PP_GPU_CHECK_HOST";
pub(super) const SECRET: &str = "PP_GPU_CHECK_SECRET";
pub(super) const SCENARIO: &str = "PP_GPU_CHECK_SCENARIO";

/// How long a rank may be silent before it counts as frozen.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);
/// For whatever works.
pub(super) const LIMIT: Duration = Duration::from_secs(15);

/// A rank's place.
pub(super) struct Seat {
    pub(super) rank: u32,
    pub(super) device: Device,
    pub(super) stream: Stream,
    pub(super) joined: Joined,
}

impl Seat {
    /// Takes the place that the environment names.
    ///
    /// # Errors
    /// There is none, no GPU, or the other rank does not come.
    pub(super) fn take(plan: Plan<'_>, channels: &[Channel], fingerprints: Vec<Fingerprint>) -> Result<Self> {
        let rank = own_rank()?;
        let host: SocketAddr = named(HOST)?.parse().context(HOST)?;
        let secret = Secret::from_hex(&named(SECRET)?).context(SECRET)?;
        // The emulated driver has a GPU for each.
        let ordinal = if plan.ground == Ground::Emulator { plan.device + rank } else { plan.device };
        let device = Device::new(ordinal as usize)?;
        let stream = Stream::new(&device)?;
        let spec = JoinSpec {
            host: host.into(),
            rank: Rank(rank),
            n_ranks: N_RANKS,
            fingerprints,
            channels: channels.to_vec(),
            deadline: LIMIT,
            heartbeat: HEARTBEAT,
            transports: Transports::Socket,
            rough: None,
            secret: Some(secret),
            run_name: String::new(),
            terms: 0,
        };
        let joined = join(&spec)?;
        Ok(Self { rank, device, stream, joined })
    }

    pub(super) const fn peer(&self) -> usize {
        1 - self.rank as usize
    }

    /// A communicator of both ranks, whose id rank 0 draws.
    ///
    /// # Errors
    /// NCCL's, as [`nccl_rs::NcclError`].
    pub(super) fn communicator(&mut self) -> Result<Comm> {
        let drawn = if self.rank == 0 { UniqueId::new()?.as_bytes().to_vec() } else { Vec::new() };
        let told = self.joined.member.control.all_gather(&drawn)?;
        let id = told.into_iter().next().and_then(|id| id.try_into().ok()).context("rank 0 told no id")?;
        let id = UniqueId::from_bytes(id);
        Ok(Comm::init(&self.device, id, N_RANKS as usize, self.rank as usize, &CommConfig::default(), LIMIT)?)
    }

    /// Leaves once the other is ready to.
    ///
    /// # Errors
    /// The other is gone.
    pub(super) fn leave(mut self) -> Result<()> {
        self.joined.member.control.barrier()?;
        self.joined.member.close();
        Ok(())
    }
}

/// The rank that the environment names.
///
/// # Errors
/// It names none.
pub(super) fn own_rank() -> Result<u32> {
    named(RANK)?.parse().context(RANK)
}

fn named(variable: &str) -> Result<String> {
    std::env::var(variable).with_context(|| format!("{variable} is not set"))
}
