//! Which layers each stage gets: evenly, by counts, by cost, by Megatron's counts or by a layout string.

use pp_model::GptConfig;
use pp_schedule::layout::{LayoutPattern, LayoutSpec};
use pp_schedule::{LayerPartition, Placement, Stage};

use crate::args::Args;
use crate::invalid::{Invalid, refuse};

/// The partition that the arguments ask for.
pub(crate) fn partition(args: &Args, model: &GptConfig, placement: Placement) -> Result<LayerPartition, Invalid> {
    let by_megatron = args.decoder_first_pipeline_num_layers.is_some()
        || args.decoder_last_pipeline_num_layers.is_some()
        || args.account_for_embedding_in_pipeline_split
        || args.account_for_loss_in_pipeline_split
        || args.pipeline_layout.is_some();
    match &args.layer_split {
        Some(_) if by_megatron => refuse!(
            "--layer-split is given together with another way to split layers (--pipeline-layout, \
             --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers, --account-for-..); leave one out"
        ),
        Some(split) if split == "auto" => balanced(model, placement),
        Some(split) => by_counts(split, args.num_layers, placement),
        None if by_megatron => by_spec(args, placement),
        None => Ok(LayerPartition::even(args.num_layers, placement)?),
    }
}

fn by_counts(split: &str, n_layers: u32, placement: Placement) -> Result<LayerPartition, Invalid> {
    let counts = split.split(',').map(|count| {
        count.trim().parse::<u32>().map_err(|_| {
            Invalid(format!(
                "--layer-split `{split}`: `{count}` is no number of layers; write a count per stage such as 2,2,3,1, or auto"
            ))
        })
    });
    Ok(LayerPartition::from_counts(&counts.collect::<Result<Vec<_>, _>>()?, n_layers, placement)?)
}

/// Layers and head weighed by their multiplications per token: `12 h^2 + 2 s h` for a layer (its matrices, and attention
/// over a sequence of `s`), `V h` for the head; the embedding looks its rows up.
fn balanced(model: &GptConfig, placement: Placement) -> Result<LayerPartition, Invalid> {
    let (hidden, seq_len, vocab) = (model.hidden() as u64, model.seq_len() as u64, model.vocab() as u64);
    let layer = 12 * hidden * hidden + 2 * seq_len * hidden;
    Ok(LayerPartition::balanced(&vec![layer; model.n_layers()], hidden, vocab * hidden, placement)?)
}

/// Layouts list stages in turn and embedding and loss belong to stages, so both mean the same in a V. Counts of the first and
/// the last rank are those of ranks.
fn by_spec(args: &Args, placement: Placement) -> Result<LayerPartition, Invalid> {
    let layout = args.pipeline_layout.as_deref().map(str::parse::<LayoutPattern>).transpose();
    let spec = LayoutSpec {
        vp: Some(placement.n_chunks()),
        first: args.decoder_first_pipeline_num_layers,
        last: args.decoder_last_pipeline_num_layers,
        account_for_embedding: args.account_for_embedding_in_pipeline_split,
        account_for_loss: args.account_for_loss_in_pipeline_split,
        layout: layout.map_err(|error| Invalid(format!("--pipeline-layout: {error}")))?,
        ..LayoutSpec::new(args.num_layers, placement.n_ranks())
    };
    let assignment = spec.resolve()?;
    assignment.check_trainable()?;
    let in_turn = assignment.partition()?;
    if spec.layout.is_some() || (spec.first.is_none() && spec.last.is_none()) {
        return Ok(in_turn);
    }
    let on_rank = assignment.placement();
    let stages = (0..placement.n_stages()).map(Stage);
    let counts = stages.map(|stage| {
        let same_place = on_rank.stage_of(placement.rank_of(stage), placement.chunk_of(stage));
        in_turn.range(same_place).len() as u32
    });
    Ok(LayerPartition::from_counts(&counts.collect::<Vec<_>>(), args.num_layers, placement)?)
}

#[cfg(test)]
mod tests {
    use crate::args::Args;
    use crate::config::TrainConfig;

    fn counts(line: &str) -> Vec<u32> {
        let words = "--mock-data --dry-run --pp 2".split_whitespace().chain(line.split_whitespace());
        let config =
            TrainConfig::new(&Args::from_words(words).unwrap()).unwrap_or_else(|error| panic!("{line}: {error}"));
        config.layers.counts().collect()
    }

    /// In a V the first and the last stage are on the first rank, the two between on the last.
    #[test]
    fn counts_of_ranks_are_those_of_ranks_in_a_v_too() {
        let first = "--decoder-first-pipeline-num-layers 2";
        assert_eq!(counts(&format!("--vp 2 {first}")), [1, 3, 1, 3]);
        assert_eq!(counts(&format!("--schedule zb-v {first}")), [1, 3, 3, 1]);
        // Layouts and what embedding and loss count as go by stages.
        let layout = "--pipeline-layout Et|t*2|t*2|t*3L";
        assert_eq!(counts(&format!("--schedule zb-v {layout}")), [1, 2, 2, 3]);
        let ends = "--num-layers 10 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split";
        assert_eq!(counts(&format!("--vp 2 {ends}")), [2, 3, 3, 2]);
        assert_eq!(counts(&format!("--schedule zb-v {ends}")), [2, 3, 3, 2]);
    }
}
