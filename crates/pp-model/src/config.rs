//! The shape of the model: [`GptOptions`] is what was asked for, [`GptConfig`] what can be built.

use crate::error::ConfigError;

/// What a user asks for. [`GptConfig::new`] checks it.
#[derive(Clone, Debug, PartialEq)]
pub struct GptOptions {
    /// Number of tokens.
    pub vocab: usize,
    /// Positions: the most tokens that a sequence may have.
    pub seq_len: usize,
    /// Elements of an activation at one position.
    pub hidden: usize,
    /// Transformer blocks.
    pub n_layers: usize,
    /// Attention heads per block.
    pub n_heads: usize,
    /// Whether the head uses the token embedding's weight.
    pub tied: bool,
    /// Standard deviation of the initial weights.
    pub init_std: f64,
}

impl Default for GptOptions {
    /// A model small enough for a laptop: 256 tokens (bytes), 64 positions, hidden 64, 4 layers, 4 heads, tied.
    fn default() -> Self {
        Self { vocab: 256, seq_len: 64, hidden: 64, n_layers: 4, n_heads: 4, tied: true, init_std: 0.02 }
    }
}

/// A GPT-2 shape that can be built: no size is zero, and heads divide the hidden size.
///
/// ```
/// use pp_model::{GptConfig, GptOptions};
///
/// let config = GptConfig::new(GptOptions { hidden: 96, n_heads: 3, ..GptOptions::default() })?;
/// assert_eq!(config.head_dim(), 32);
///
/// let refused = GptConfig::new(GptOptions { hidden: 97, n_heads: 3, ..GptOptions::default() });
/// assert!(refused.unwrap_err().to_string().contains("nearest hidden size is 96"));
/// # Ok::<(), pp_model::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GptConfig(GptOptions);

impl GptConfig {
    /// Checks the options.
    pub fn new(options: GptOptions) -> Result<Self, ConfigError> {
        let sizes = [
            ("vocab", options.vocab),
            ("seq_len (--seq-length)", options.seq_len),
            ("hidden (--hidden-size)", options.hidden),
            ("n_layers (--num-layers)", options.n_layers),
            ("n_heads (--num-heads)", options.n_heads),
        ];
        if let Some((name, _)) = sizes.into_iter().find(|&(_, size)| size == 0) {
            return Err(ConfigError::Zero { name });
        }
        let (vocab, hidden, n_heads) = (options.vocab, options.hidden, options.n_heads);
        if u32::try_from(vocab).is_err() {
            return Err(ConfigError::VocabTooLarge { vocab });
        }
        if !hidden.is_multiple_of(n_heads) {
            return Err(ConfigError::HeadsDoNotDivide {
                hidden,
                n_heads,
                nearest_hidden: nearest_multiple(hidden, n_heads),
                nearest_heads: nearest_divisor(hidden, n_heads),
            });
        }
        if !(options.init_std.is_finite() && options.init_std > 0.0) {
            return Err(ConfigError::InitStd { init_std: options.init_std });
        }
        Ok(Self(options))
    }

    /// Number of tokens.
    pub fn vocab(&self) -> usize {
        self.0.vocab
    }

    /// Positions: the most tokens that a sequence may have.
    pub fn seq_len(&self) -> usize {
        self.0.seq_len
    }

    /// Elements of an activation at one position.
    pub fn hidden(&self) -> usize {
        self.0.hidden
    }

    /// Transformer blocks.
    pub fn n_layers(&self) -> usize {
        self.0.n_layers
    }

    /// Attention heads per block.
    pub fn n_heads(&self) -> usize {
        self.0.n_heads
    }

    /// Elements of one head: hidden size over heads.
    pub fn head_dim(&self) -> usize {
        self.0.hidden / self.0.n_heads
    }

    /// Elements inside an MLP: four times the hidden size.
    pub fn mlp_hidden(&self) -> usize {
        4 * self.0.hidden
    }

    /// Whether the head uses the token embedding's weight.
    pub fn tied(&self) -> bool {
        self.0.tied
    }

    /// Standard deviation of the initial weights.
    pub fn init_std(&self) -> f64 {
        self.0.init_std
    }
}

/// The multiple of `of` nearest to `value`, at least `of`; the smaller of two equally near.
fn nearest_multiple(value: usize, of: usize) -> usize {
    let below = value / of * of;
    let above = below.saturating_add(of);
    if below > 0 && value - below <= above - value { below } else { above }
}

/// The divisor of `value` nearest to `wanted`; the smaller of two equally near.
fn nearest_divisor(value: usize, wanted: usize) -> usize {
    (1..=value).filter(|&d| value.is_multiple_of(d)).min_by_key(|&d| (d.abs_diff(wanted), d)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut GptOptions)) -> String {
        let mut options = GptOptions::default();
        change(&mut options);
        GptConfig::new(options).unwrap_err().to_string()
    }

    #[test]
    fn every_size_must_be_positive() {
        for (name, change) in [
            ("vocab", (|o| o.vocab = 0) as fn(&mut GptOptions)),
            ("--seq-length", |o| o.seq_len = 0),
            ("--hidden-size", |o| o.hidden = 0),
            ("--num-layers", |o| o.n_layers = 0),
            ("--num-heads", |o| o.n_heads = 0),
        ] {
            let message = refusal(change);
            assert!(message.contains(name) && message.contains("at least 1"), "{message}");
        }
    }

    #[test]
    fn heads_divide_the_hidden_size() {
        let message = refusal(|o| (o.hidden, o.n_heads) = (100, 8));
        for part in ["--hidden-size) 100", "--num-heads) 8", "hidden size is 96", "heads 10"] {
            assert!(message.contains(part), "{message} lacks {part}");
        }
        // Fewer elements than heads: the nearest multiple is not zero.
        assert!(refusal(|o| (o.hidden, o.n_heads) = (3, 8)).contains("hidden size is 8"));
    }

    #[test]
    fn the_spread_of_weights_is_a_positive_number() {
        for init_std in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(|o| o.init_std = init_std).contains("0.02"));
        }
    }
}
