//! How a communicator is made.

/// Settings of one communicator. What is `None` is NCCL's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommConfig {
    /// The least thread blocks per kernel.
    pub min_ctas: Option<u32>,
    /// The most thread blocks per kernel. Small where many communicators' kernels must be resident together.
    pub max_ctas: Option<u32>,
    /// Blocks per cluster.
    pub cga_cluster_size: Option<u32>,
    /// The network plugin to use.
    pub net_name: Option<String>,
    /// Whether a communicator split off this one shares its resources.
    pub split_share: Option<bool>,
    /// What NCCL's own messages call it.
    pub name: Option<String>,
}
