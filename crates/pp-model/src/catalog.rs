//! Every parameter of the model, in canonical order: what reductions, norms and checkpoints go by.
//!
//! | index | name |
//! |---|---|
//! | 0, 1 | `wte.weight`, `wpe.weight` |
//! | 12 i + 2, + 3 | `h.{i}.ln_1.{weight,bias}` |
//! | 12 i + 4, .. + 7 | `h.{i}.attn.c_attn.{weight,bias}`, `h.{i}.attn.c_proj.{weight,bias}` |
//! | 12 i + 8, + 9 | `h.{i}.ln_2.{weight,bias}` |
//! | 12 i + 10, .. + 13 | `h.{i}.mlp.c_fc.{weight,bias}`, `h.{i}.mlp.c_proj.{weight,bias}` |
//! | 12 L + 2, + 3 | `ln_f.{weight,bias}` |
//! | 12 L + 4 | `lm_head.weight`; of a tied model the head's copy, called `wte.weight` as what it copies |
//!
//! The names are GPT-2's. Matrices are `[out, in]`, where GPT-2's published files hold `[in, out]`.

use crate::config::GptConfig;
use crate::init::Init;

/// Parameters of one block.
pub const N_BLOCK_PARAMS: usize = 12;
const N_EMBEDDING_PARAMS: usize = 2;
const N_HEAD_PARAMS: usize = 3;

/// The index of the token embedding, `wte.weight`.
pub const WTE: usize = 0;

/// A parameter before it has values.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Canonical name.
    pub name: String,
    /// Place in canonical order, the same however the model is cut.
    pub index: usize,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// First values.
    pub init: Init,
    /// The parameter that this one is a copy of: the head's weight of a tied model copies [`WTE`].
    pub copy_of: Option<usize>,
}

impl ParamSpec {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements; never so in a model that [`GptConfig`] admits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether weight decay applies: to matrices, embeddings among them, not to biases and norms.
    pub fn decays(&self) -> bool {
        self.shape.len() >= 2
    }
}

/// Token and position embedding.
pub(crate) fn embedding(config: &GptConfig) -> [ParamSpec; N_EMBEDDING_PARAMS] {
    let normal = Init::Normal { std: config.init_std() };
    [
        spec("wte.weight", WTE, &[config.vocab(), config.hidden()], normal),
        spec("wpe.weight", 1, &[config.seq_len(), config.hidden()], normal),
    ]
}

/// The parameters of block `layer`.
///
/// Projections into the residual stream begin smaller by `sqrt(2 * n_layers)`, as there are that many of them.
pub(crate) fn block(config: &GptConfig, layer: usize) -> [ParamSpec; N_BLOCK_PARAMS] {
    let (hidden, wide) = (config.hidden(), config.mlp_hidden());
    let normal = Init::Normal { std: config.init_std() };
    let residual = Init::Normal { std: config.init_std() / (2.0 * config.n_layers() as f64).sqrt() };
    let (zero, one) = (Init::Constant(0.0), Init::Constant(1.0));
    let first = N_EMBEDDING_PARAMS + N_BLOCK_PARAMS * layer;
    let at = |k: usize, name: &str, shape: &[usize], init| spec(&format!("h.{layer}.{name}"), first + k, shape, init);
    [
        at(0, "ln_1.weight", &[hidden], one),
        at(1, "ln_1.bias", &[hidden], zero),
        at(2, "attn.c_attn.weight", &[3 * hidden, hidden], normal),
        at(3, "attn.c_attn.bias", &[3 * hidden], zero),
        at(4, "attn.c_proj.weight", &[hidden, hidden], residual),
        at(5, "attn.c_proj.bias", &[hidden], zero),
        at(6, "ln_2.weight", &[hidden], one),
        at(7, "ln_2.bias", &[hidden], zero),
        at(8, "mlp.c_fc.weight", &[wide, hidden], normal),
        at(9, "mlp.c_fc.bias", &[wide], zero),
        at(10, "mlp.c_proj.weight", &[hidden, wide], residual),
        at(11, "mlp.c_proj.bias", &[hidden], zero),
    ]
}

/// Final norm and the head's weight.
pub(crate) fn head(config: &GptConfig) -> [ParamSpec; N_HEAD_PARAMS] {
    let hidden = config.hidden();
    let normal = Init::Normal { std: config.init_std() };
    let first = N_EMBEDDING_PARAMS + N_BLOCK_PARAMS * config.n_layers();
    let (name, copy_of) = if config.tied() { ("wte.weight", Some(WTE)) } else { ("lm_head.weight", None) };
    let weight = spec(name, first + 2, &[config.vocab(), hidden], normal);
    [
        spec("ln_f.weight", first, &[hidden], Init::Constant(1.0)),
        spec("ln_f.bias", first + 1, &[hidden], Init::Constant(0.0)),
        ParamSpec { copy_of, ..weight },
    ]
}

/// All parameters in canonical order, the head's copy of a tied weight included.
pub fn catalog(config: &GptConfig) -> Vec<ParamSpec> {
    let blocks = (0..config.n_layers()).flat_map(|layer| block(config, layer));
    embedding(config).into_iter().chain(blocks).chain(head(config)).collect()
}

/// Parameters that are trained, by the number of their elements; a tied weight counts once.
pub fn n_parameters(config: &GptConfig) -> usize {
    catalog(config).iter().filter(|spec| spec.copy_of.is_none()).map(ParamSpec::len).sum()
}

fn spec(name: &str, index: usize, shape: &[usize], init: Init) -> ParamSpec {
    ParamSpec { name: name.to_owned(), index, shape: shape.to_vec(), init, copy_of: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GptOptions;

    #[test]
    fn indices_are_places_and_names_are_unique() {
        for tied in [false, true] {
            let config = GptConfig::new(GptOptions { tied, ..GptOptions::default() }).unwrap();
            let specs = catalog(&config);
            assert!(specs.iter().enumerate().all(|(place, spec)| spec.index == place));
            let mut names: Vec<_> = specs.iter().filter(|s| s.copy_of.is_none()).map(|s| &s.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), specs.len() - usize::from(tied));
        }
    }

    #[test]
    fn gpt_2_small_has_124_million_parameters() {
        let options =
            GptOptions { vocab: 50257, seq_len: 1024, hidden: 768, n_layers: 12, n_heads: 12, ..GptOptions::default() };
        assert_eq!(n_parameters(&GptConfig::new(options).unwrap()), 124_439_808);
    }
}
