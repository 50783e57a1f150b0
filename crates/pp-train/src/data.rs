//! The text: bytes as tokens, its first nine tenths for training, the rest for validation.
//!
//! A batch follows from (seed, iteration) and the place of a sequence within the step alone, never from how the step
//! is cut into microbatches or the model into stages. Where microbatches have lengths of their own, each sequence is the
//! beginning of what it would be at full length.

use std::fs;
use std::io;
use std::path::Path;

use pp_kernels::loss::IGNORE;
use pp_model::MicroBatch;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::config::{TextSource, TrainConfig};
use crate::invalid::{Invalid, refuse};

/// Bytes of the synthetic text.
const MOCK_LEN: usize = 1 << 19;

/// What a stream of random numbers is for; no two uses share one.
#[derive(Clone, Copy)]
enum Purpose {
    Windows = 1,
    MockText = 2,
}

fn rng(seed: u64, purpose: Purpose, stream: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(stream);
    rng
}

/// A number below `n`, off from uniform by at most `n / 2^64`.
fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// A text cut into what is trained on and what is validated on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    bytes: Vec<u8>,
    /// Where validation starts.
    cut: usize,
}

impl Text {
    /// The text that a configuration asks for.
    ///
    /// # Errors
    /// [`Invalid`] when it cannot be read or a split of it is shorter than one sequence and its next token.
    pub fn load(config: &TrainConfig) -> Result<Self, Invalid> {
        match &config.source {
            TextSource::File(path) => {
                Self::of(read(path)?, config.model.seq_len(), &format!("--data {}", path.display()))
            }
            TextSource::Mock => Self::of(mock(config.seed, MOCK_LEN), config.model.seq_len(), "--mock-data"),
        }
    }

    /// Cuts a text. `name` is for the message, when it is too short.
    ///
    /// # Errors
    /// [`Invalid`] when a split is shorter than one sequence and its next token.
    pub fn of(bytes: Vec<u8>, seq_len: usize, name: &str) -> Result<Self, Invalid> {
        let len = bytes.len();
        let cut = len / 10 * 9 + len % 10 * 9 / 10;
        let need = seq_len + 1;
        // The last tenth is rounded up.
        let (enough, longest) = (10 * seq_len + 1, len.div_ceil(10).saturating_sub(1));
        let shorter = if longest > 0 { format!(", or use --seq-length {longest}") } else { String::new() };
        for (split, size) in [("training, its first 90%", cut), ("validation, its last 10%", len - cut)] {
            if size < need {
                refuse!(
                    "{name} has {len} bytes, of which {size} are for {split}; each needs {need} bytes, a sequence of \
                     --seq-length {seq_len} and its next token; give a text of at least {enough} bytes{shorter}"
                );
            }
        }
        Ok(Self { bytes, cut })
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is trained on.
    pub fn training(&self) -> &[u8] {
        &self.bytes[..self.cut]
    }

    /// What is validated on.
    pub fn validation(&self) -> &[u8] {
        &self.bytes[self.cut..]
    }

    /// The entropy of its bytes taken one by one, in nats per byte: the loss of the best guess that knows no context.
    pub fn unigram_entropy(&self) -> f64 {
        let mut counts = [0_u64; 256];
        for &byte in &self.bytes {
            counts[usize::from(byte)] += 1;
        }
        let len = self.bytes.len() as f64;
        counts
            .iter()
            .filter(|&&count| count > 0)
            .map(|&count| count as f64 / len)
            .map(|share| -share * share.ln())
            .sum()
    }

    /// The microbatches of a training step.
    pub fn training_batch(&self, config: &TrainConfig, iteration: u32) -> Vec<MicroBatch> {
        let seq_len = config.model.seq_len();
        let text = self.training();
        let windows: Vec<&[u8]> = (0..config.global_batch_size() as u64)
            .map(|sample| {
                let mut rng = rng(config.seed, Purpose::Windows, (u64::from(iteration) << 32) | sample);
                let start = below(&mut rng, text.len() - seq_len);
                &text[start..start + seq_len + 1]
            })
            .collect();
        microbatches(&windows, config.micro_batch_size, |microbatch| config.seq_lengths.of(microbatch))
    }

    /// Steps of a validation: as many as it takes for every token once, at most what the configuration allows.
    pub fn n_validation_steps(&self, config: &TrainConfig) -> u32 {
        let n_windows = (self.validation().len() - 1).div_ceil(config.model.seq_len());
        let needed = n_windows.div_ceil(config.global_batch_size());
        u32::try_from(needed).unwrap_or(u32::MAX).min(config.eval_iters)
    }

    /// The microbatches of a validation step: windows one after the other; what lies past the text's end is ignored.
    pub fn validation_batch(&self, config: &TrainConfig, step: u32) -> Vec<MicroBatch> {
        let seq_len = config.model.seq_len();
        let text = self.validation();
        let first = step as usize * config.global_batch_size();
        let windows: Vec<&[u8]> = (first..first + config.global_batch_size())
            .map(|window| {
                let start = (window * seq_len).min(text.len());
                &text[start..(start + seq_len + 1).min(text.len())]
            })
            .collect();
        microbatches(&windows, config.micro_batch_size, |_| seq_len)
    }
}

/// Sequences of their microbatch's number of tokens, the label of each being the next; a window shorter than that leaves labels
/// to ignore.
fn microbatches(windows: &[&[u8]], micro_batch_size: usize, seq_len: impl Fn(usize) -> usize) -> Vec<MicroBatch> {
    windows
        .chunks(micro_batch_size)
        .enumerate()
        .map(|(microbatch, windows)| {
            let seq_len = seq_len(microbatch);
            let padded = |bytes: &[u8]| {
                bytes.iter().map(|&byte| Some(byte)).chain(std::iter::repeat(None)).take(seq_len).collect()
            };
            let tokens = windows.iter().flat_map(|window| -> Vec<Option<u8>> { padded(window) });
            let labels =
                windows.iter().flat_map(|window| -> Vec<Option<u8>> { padded(window.get(1..).unwrap_or_default()) });
            MicroBatch {
                tokens: tokens.map(|token| u32::from(token.unwrap_or(0))).collect(),
                labels: labels.map(|label| label.map_or(IGNORE, i64::from)).collect(),
            }
        })
        .collect()
}

fn read(path: &Path) -> Result<Vec<u8>, Invalid> {
    let name = path.display();
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if metadata.is_dir() {
        refuse!("--data {name} is a directory; give a file of text");
    }
    if !metadata.is_file() {
        refuse!("--data {name} is no regular file, which every rank could read; give a file of text");
    }
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    if bytes.is_empty() {
        refuse!("--data {name} is empty; give a file of text");
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> Invalid {
    let name = path.display();
    Invalid(match error.kind() {
        io::ErrorKind::NotFound => format!("--data {name} does not exist; give a file of text"),
        _ => format!("--data {name} cannot be read: {error}"),
    })
}

/// A text with something to learn: words of a small made-up language, each followed by one of a few others.
fn mock(seed: u64, len: usize) -> Vec<u8> {
    const N_WORDS: usize = 200;
    const N_FOLLOWERS: usize = 4;
    let mut rng = rng(seed, Purpose::MockText, 0);
    let syllables: Vec<[u8; 2]> = b"bdfgklmnprstvz".iter().flat_map(|&c| b"aeiou".map(|v| [c, v])).collect();
    let words: Vec<Vec<u8>> = (0..N_WORDS)
        .map(|_| (0..1 + below(&mut rng, 3)).flat_map(|_| syllables[below(&mut rng, syllables.len())]).collect())
        .collect();
    let followers: Vec<[usize; N_FOLLOWERS]> =
        (0..N_WORDS).map(|_| std::array::from_fn(|_| below(&mut rng, N_WORDS))).collect();
    let mut text = Vec::with_capacity(len + 16);
    let mut word = 0;
    while text.len() < len {
        text.extend_from_slice(&words[word]);
        text.extend_from_slice(if below(&mut rng, 12) == 0 { b".\n" } else { b" " });
        word = followers[word][below(&mut rng, N_FOLLOWERS)];
    }
    text.truncate(len);
    text
}
