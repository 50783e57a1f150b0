//! How two ranks come to share a GPU. NCCL takes two ranks on one GPU for a mistake unless it is told otherwise.

use std::process::Command;

use crate::conduct::WAY;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// NCCL's own, since 2.30. Kernels of both ranks must be resident together, so each takes few thread blocks.
    MultiRank,
    /// Each rank says it is on a host of its own. NCCL then goes over its network, here sockets of the same host.
    HostIds,
    /// The emulated driver's ranks have a GPU each.
    GpuEach,
}

/// The most thread blocks that a kernel of NCCL takes.
const MAX_CTAS: &str = "4";

impl Way {
    #[cfg_attr(not(feature = "nccl"), allow(dead_code, reason = "only tried with NCCL"))]
    pub(super) const ON_ONE_GPU: [Self; 2] = [Self::MultiRank, Self::HostIds];

    /// As it is told.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MultiRank => "multi-rank",
            Self::HostIds => "host-ids",
            Self::GpuEach => "gpu-each",
        }
    }

    /// The way that an earlier part told.
    pub(super) fn told() -> Option<Self> {
        let name = std::env::var(WAY).ok()?;
        [Self::MultiRank, Self::HostIds, Self::GpuEach].into_iter().find(|way| way.name() == name)
    }

    /// Tells a rank's process. What is in the environment already stays: whoever set it knows the machine.
    pub(super) fn tell(self, command: &mut Command, rank: u32) {
        for (name, value) in self.variables(rank) {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
    }

    fn variables(self, rank: u32) -> Vec<(&'static str, String)> {
        let own = match self {
            // Multicast between GPUs has no meaning on one.
            Self::MultiRank => {
                vec![("NCCL_MULTI_RANK_GPU_ENABLE", "1".to_owned()), ("NCCL_NVLS_ENABLE", "0".to_owned())]
            }
            Self::HostIds => {
                vec![("NCCL_HOSTID", format!("pp-gpu-check-{rank}")), ("NCCL_IB_DISABLE", "1".to_owned())]
            }
            Self::GpuEach => return Vec::new(),
        };
        let both = [("NCCL_MAX_CTAS", MAX_CTAS.to_owned()), ("NCCL_SOCKET_IFNAME", "lo".to_owned())];
        own.into_iter().chain(both).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ids_differ_by_rank_and_the_multi_rank_way_is_the_same_for_all() {
        assert_ne!(Way::HostIds.variables(0), Way::HostIds.variables(1));
        assert_eq!(Way::MultiRank.variables(0), Way::MultiRank.variables(1));
    }
}
