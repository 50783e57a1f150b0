//! What a microbatch is made of, and the checks before anything is computed from it.

use pp_kernels::loss::IGNORE;
use pp_schedule::Microbatch;

use crate::config::GptConfig;
use crate::error::{ModelError, Result};

/// The inputs of one microbatch: `batch` sequences of one length `seq_len`, row-major. Microbatches of a step may differ in it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MicroBatch {
    /// Tokens `[batch * seq_len]`, each below the vocabulary's size.
    pub tokens: Vec<u32>,
    /// What should come next at each position, `[batch * seq_len]`: a token, or [`IGNORE`] where the loss does not
    /// count.
    pub labels: Vec<i64>,
}

impl MicroBatch {
    /// Checks lengths and ranges; `microbatch` is for the message. Gives the length of the sequences.
    pub(crate) fn check(&self, microbatch: Microbatch, config: &GptConfig, batch: usize) -> Result<usize> {
        // The length nearest to what is there: where that is none, the check below names what it would take.
        let seq_len = self.tokens.len().div_ceil(batch).clamp(1, config.seq_len());
        let vocab = config.vocab();
        for (what, found) in [("tokens", self.tokens.len()), ("labels", self.labels.len())] {
            if found != batch * seq_len {
                return Err(ModelError::InputLength { microbatch, what, found, batch, seq_len });
            }
        }
        let beyond = |&token: &u32| token as usize >= vocab;
        if let Some(position) = self.tokens.iter().position(beyond) {
            return Err(ModelError::TokenBeyondVocab { microbatch, position, token: self.tokens[position], vocab });
        }
        let beyond = |&label: &i64| label != IGNORE && !usize::try_from(label).is_ok_and(|label| label < vocab);
        if let Some(position) = self.labels.iter().position(beyond) {
            return Err(ModelError::LabelBeyondVocab { microbatch, position, label: self.labels[position], vocab });
        }
        Ok(seq_len)
    }
}
