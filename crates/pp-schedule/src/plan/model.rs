//! What is known of the model: what each of its parts costs, keeps and weighs, for one microbatch.

/// Whether a forward's results are kept for its backward or computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Recompute {
    /// All are kept.
    #[default]
    None,
    /// Attention's scores and what comes of them are computed again (Korthikanti et al. 2022).
    Selective,
    /// Of each layer only the input is kept, and the layer computed again before its backward.
    Full,
}

impl Recompute {
    /// Every way, cheapest in time first.
    pub const ALL: [Self; 3] = [Self::None, Self::Selective, Self::Full];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Selective => "selective",
            Self::Full => "full",
        }
    }
}

/// A name that is no way to recompute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown way to recompute `{name}` (--recompute); known: none, selective, full")]
pub struct UnknownRecompute {
    name: String,
}

impl std::str::FromStr for Recompute {
    type Err = UnknownRecompute;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|way| way.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| UnknownRecompute { name: name.to_owned() })
    }
}

/// What a part's parameters take, in bytes, on each rank that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Weights {
    /// Held whole by every data-parallel replica.
    pub replicated: u64,
    /// Dealt out among the replicas: a sharded optimizer's state.
    pub sharded: u64,
    /// Gradients that the replicas add up once per step; they are held too, as part of `replicated`.
    pub gradient: u64,
}

impl Weights {
    /// Bytes on one of so many replicas.
    pub const fn on_replica(self, n_replicas: u32) -> u64 {
        let n_replicas = if n_replicas == 0 { 1 } else { n_replicas as u64 };
        self.replicated + self.sharded.div_ceil(n_replicas)
    }
}

impl std::ops::AddAssign for Weights {
    fn add_assign(&mut self, other: Self) {
        self.replicated += other.replicated;
        self.sharded += other.sharded;
        self.gradient += other.gradient;
    }
}

/// A part of the model: what it costs and keeps per microbatch, in ticks and bytes, and what it weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Part {
    /// The forward.
    pub forward: u64,
    /// The backward for the input. The full backward costs this and `backward_weight`.
    pub backward_input: u64,
    /// The backward for the weights.
    pub backward_weight: u64,
    /// Bytes kept from the forward to the backward.
    pub activation: u64,
    /// Bytes kept from the backward for the input to that for the weights, where these are apart.
    pub deferred: u64,
    /// Its parameters.
    pub weights: Weights,
}

impl Part {
    /// The full backward.
    pub const fn backward(self) -> u64 {
        self.backward_input + self.backward_weight
    }

    /// Forward and backward.
    pub const fn microbatch(self) -> u64 {
        self.forward + self.backward()
    }
}

/// A part of a layer that is worth computing again: attention from its scores on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Core {
    /// What computing it costs, in ticks.
    pub forward: u64,
    /// The bytes that need not be kept then.
    pub bytes: u64,
}

/// A transformer layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Layer {
    /// Costs, bytes and weights if nothing is computed again.
    pub part: Part,
    /// Bytes of its input, all that is kept of it under [`Recompute::Full`].
    pub input: u64,
    /// What [`Recompute::Selective`] computes again, if that is known.
    pub core: Option<Core>,
}

/// A model: layers between an embedding and a head. Costs and bytes are those of one microbatch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Model {
    /// Transformer layers.
    pub layers: Vec<Layer>,
    /// In front of the first layer, on the first stage.
    pub embedding: Part,
    /// Behind the last layer, on the last stage; loss included.
    pub head: Part,
    /// Bytes of the activation between two stages, and of its gradient.
    pub message: u64,
}

impl Model {
    /// All parts.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        self.layers.iter().map(|layer| layer.part).chain([self.embedding, self.head])
    }

    /// Whether anything in it takes memory.
    pub fn has_bytes(&self) -> bool {
        let takes = |part: Part| part.activation > 0 || part.deferred > 0 || part.weights != Weights::default();
        self.message > 0 || self.parts().any(takes)
    }

    /// Whether it is known, for every layer, what a way to recompute does.
    pub fn knows(&self, recompute: Recompute) -> bool {
        recompute != Recompute::Selective || self.layers.iter().all(|layer| layer.core.is_some())
    }
}
