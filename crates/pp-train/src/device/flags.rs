//! What was typed about devices, number types and what messages go through.

/// The flags of device, number type and transport. Of those that say the same thing the last one counts, as in launch scripts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DeviceArgs {
    /// What computes: cpu, or cuda in a build with that feature (`cargo xtask cuda-build`); a process has one GPU
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Machine")]
    pub device: String,

    /// Number of this rank's GPU among those that the process may see [default: its rank on the host]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub device_id: Option<u32>,

    /// Numbers of activations and layers: f32 or bf16 (whose weights, gradients and moments are f32 all the same) [default: f32]
    #[arg(long, value_name = "TYPE", help_heading = "Machine", overrides_with = "bf16")]
    pub dtype: Option<String>,

    /// As --dtype bf16
    #[arg(long, help_heading = "Machine", overrides_with = "dtype")]
    pub bf16: bool,

    /// What messages between ranks go through: auto, socket, shm (shared memory, within one host), or nccl in a build with
    /// that feature
    ///
    /// auto is nccl between GPUs. With nccl and --device cpu, messages take the way over a GPU though nothing is computed
    /// there.
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Machine")]
    pub transport: String,

    /// Communicators of NCCL: channel (one for each channel of the program) or one for all, which needs
    /// --policy megatron [default: channel]
    #[arg(long, value_name = "WHICH", help_heading = "Machine")]
    pub nccl_communicators: Option<String>,

    /// The most thread blocks that a communicator of NCCL takes of the GPU [default: NCCL's own choice]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub nccl_max_ctas: Option<u32>,
}
