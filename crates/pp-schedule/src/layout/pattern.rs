//! Megatron's layouts: which kinds of layers stand on each stage, as a string or as lists of names.

use std::fmt;
use std::str::FromStr;

use super::layer_type::LayerType;
use super::limits::MAX_PATTERN_LEN;
use super::pattern_error::PatternError;
use super::unroll::{Mark, unroll};

/// The kinds of layers on each stage, in stage order. A stage may have none.
///
/// As a string, letters stand for layers (`E`, `t`, `m`, `L`), `|` separates stages, `x*3` repeats the letter or
/// separator before it, `(tt|)*3` repeats a group; commas mean nothing. Groups do not nest. The text is unrolled as
/// Megatron does: groups first, then single characters, each once.
///
/// ```
/// use pp_schedule::layout::LayoutPattern;
/// let pattern: LayoutPattern = "Et*3|(tt|)*2,L".parse().unwrap();
/// assert_eq!(pattern.to_string(), "Ettt|tt|tt|L");
/// assert_eq!(pattern.n_stages(), 4);
/// let error = "Et|t*|L".parse::<LayoutPattern>().unwrap_err();
/// assert_eq!(error.to_string(), "layout: `*` at character 4 has no count after it; write `t*3`, or leave it out");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutPattern {
    rows: Vec<Vec<LayerType>>,
}

impl LayoutPattern {
    /// The layers of each stage, by name, in stage order; case and surrounding blanks do not matter.
    ///
    /// # Errors
    /// [`PatternError`] for a name that is no layer's, for encoder layers, and for more than [`MAX_PATTERN_LEN`] layers
    /// and separators.
    pub fn from_names<S: AsRef<str>>(stages: &[Vec<S>]) -> Result<Self, PatternError> {
        // As in a string: the layers, and a separator between stages.
        let len = stages.iter().map(|stage| stage.len() + 1).sum::<usize>().saturating_sub(1);
        if len > MAX_PATTERN_LEN {
            return Err(PatternError::TooLong { len });
        }
        let row = |(stage, names): (usize, &Vec<S>)| names.iter().map(|name| layer(stage, name.as_ref())).collect();
        Ok(Self { rows: stages.iter().enumerate().map(row).collect::<Result<_, _>>()? })
    }

    /// The layers of each stage, in stage order.
    pub fn rows(&self) -> &[Vec<LayerType>] {
        &self.rows
    }

    /// Number of stages.
    pub fn n_stages(&self) -> usize {
        self.rows.len()
    }

    /// How many layers of a kind there are.
    pub fn count(&self, kind: LayerType) -> usize {
        self.layers().filter(|(_, layer)| *layer == kind).count()
    }

    /// Every layer with its stage, in turn.
    pub(super) fn layers(&self) -> impl DoubleEndedIterator<Item = (usize, LayerType)> {
        self.rows.iter().enumerate().flat_map(|(stage, row)| row.iter().map(move |layer| (stage, *layer)))
    }

    /// Megatron's rules for a layout: the embedding first, the loss last, each once, every layer there, and the MTP
    /// layers together on the last chunk of a rank, after all others.
    pub(super) fn check(&self, n_layers: u32, mtp_layers: Option<u32>, pp: u32) -> Result<(), PatternError> {
        let (first, last) = (self.layers().next(), self.layers().next_back());
        let (Some((_, first)), Some((_, last))) = (first, last) else { return Err(PatternError::NoLayers) };
        if first != LayerType::Embedding {
            return Err(PatternError::FirstNotEmbedding { found: first });
        }
        if last != LayerType::Loss {
            return Err(PatternError::LastNotLoss { found: last });
        }
        for kind in [LayerType::Embedding, LayerType::Loss] {
            let count = self.count(kind);
            if count != 1 {
                return Err(PatternError::NotOnce { kind, count });
            }
        }
        let decoders = self.count(LayerType::Decoder);
        if decoders != n_layers as usize {
            return Err(PatternError::Decoders { decoders, n_layers });
        }
        self.check_mtp(mtp_layers.unwrap_or(0), pp)
    }

    fn check_mtp(&self, mtp_layers: u32, pp: u32) -> Result<(), PatternError> {
        let count = self.count(LayerType::Mtp);
        if count != mtp_layers as usize {
            return Err(PatternError::MtpCount { count, mtp_layers });
        }
        let mut stages = self.layers().filter(|(_, kind)| *kind == LayerType::Mtp).map(|(stage, _)| stage);
        let Some(stage) = stages.next() else { return Ok(()) };
        if stages.any(|other| other != stage) {
            return Err(PatternError::MtpSpread);
        }
        if stage + (pp as usize) < self.n_stages() {
            return Err(PatternError::MtpNotInLastChunk { stage });
        }
        let mut after = self.layers().skip_while(|(_, kind)| *kind != LayerType::Mtp);
        match after.any(|(_, kind)| kind == LayerType::Decoder) {
            true => Err(PatternError::DecoderAfterMtp),
            false => Ok(()),
        }
    }
}

fn layer(stage: usize, name: &str) -> Result<LayerType, PatternError> {
    let trimmed = name.trim();
    if trimmed.eq_ignore_ascii_case("encoder") {
        return Err(PatternError::Encoder { stage });
    }
    LayerType::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(trimmed)).ok_or_else(|| {
        // A long name is cut.
        PatternError::UnknownName { name: name.chars().take(40).collect(), stage }
    })
}

impl fmt::Display for LayoutPattern {
    /// Unrolled, without commas: parsing it gives the same layout.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stage, row) in self.rows.iter().enumerate() {
            if stage > 0 {
                f.write_str("|")?;
            }
            for layer in row {
                write!(f, "{}", layer.letter())?;
            }
        }
        Ok(())
    }
}

impl FromStr for LayoutPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let marks = unroll(text)?;
        let rows = marks.split(|mark| mark.char == '|').map(|stage| {
            let layer = |mark: &Mark| LayerType::from_letter(mark.char).ok_or(mark.unknown());
            stage.iter().map(layer).collect()
        });
        Ok(Self { rows: rows.collect::<Result<_, _>>()? })
    }
}
