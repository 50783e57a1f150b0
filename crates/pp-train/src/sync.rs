//! What ranks tell each other after a step's backwards: the tied weight's gradient, loss and norm, weights, figures.
//!
//! Nothing is reduced on the way. Every rank that needs a sum gets every part and adds them in canonical order, so that the
//! sums have the same bits for every cut of the model. The tied weight's gradient, which is large, goes between the two ranks
//! that need it; what else there is is small, and goes through the host.

use anyhow::{Context, Result, ensure};
use pp_comm::collectives::GroupComm;
use pp_comm::{Control, Endpoint};
use pp_model::catalog::WTE;
use pp_model::{GptConfig, GptStage, Param};
use xxhash_rust::xxh3::Xxh3Default;

use crate::stop::{Stop, StopSignal};

/// A step's sums over all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals {
    pub(crate) loss_sum: f64,
    pub(crate) count: u64,
    /// The sum of squares of the gradient of the *sum* of losses.
    pub(crate) sum_squares: f64,
    /// What all ranks are to stop for after this step.
    pub(crate) stop: Option<StopSignal>,
}

impl Totals {
    pub(crate) fn mean_loss(self) -> f64 {
        self.loss_sum / self.count as f64
    }

    /// The norm of the gradient of the mean loss.
    pub(crate) fn grad_norm(self) -> f64 {
        self.sum_squares.sqrt() / self.count as f64
    }
}

/// Makes head + embedding the gradient of both copies of a tied weight, on whichever ranks they are: in a V both on the
/// first. `embedding` is the group of two ranks with one copy each; all others need not be told anything.
pub(crate) fn tied_grad(
    endpoint: &mut Endpoint,
    embedding: Option<&mut GroupComm>,
    stage: &mut GptStage,
) -> Result<()> {
    if !stage.config().tied() {
        return Ok(());
    }
    let other = match embedding {
        None => None,
        Some(group) => {
            let mine = stage.tied_grad()?.context("a rank of the embedding's group has no copy of the tied weight")?;
            let parts = group.all_gather(endpoint, mine)?;
            parts.into_iter().enumerate().find_map(|(place, part)| (place != group.group().place()).then_some(part))
        }
    };
    Ok(stage.sum_tied_grad(other)?)
}

/// Loss, count and the gradient's squares over all ranks, and whether one of them was asked to stop. A tied weight counts
/// once. Waits for a GPU: once, for all of it.
pub(crate) fn totals(control: &mut Control, stage: &mut GptStage, stop: &Stop) -> Result<Totals> {
    let (loss, squares) = stage.take_sums()?;
    let mut part = vec![loss.sum, loss.count as f64, stop.part()];
    part.extend(squares.into_iter().flat_map(|(index, squares)| [index as f64, squares]));
    let mut totals = Totals { loss_sum: 0.0, count: 0, sum_squares: 0.0, stop: None };
    let (mut squares, mut stops) = (Vec::new(), Vec::new());
    for part in control.all_gather_f64(&part)? {
        let (loss, pairs) = part.split_at_checked(3).context("a rank's part of the step's sums is too short")?;
        // Only the rank of the last stage has a loss; the others add zero.
        totals.loss_sum += loss[0];
        totals.count += loss[1] as u64;
        stops.push(loss[2]);
        squares.extend(pairs.as_chunks::<2>().0.iter().map(|&[index, squares]| (index as usize, squares)));
    }
    squares.sort_unstable_by_key(|&(index, _)| index);
    check_complete(squares.iter().map(|&(index, _)| index), stage.config())?;
    totals.stop = Stop::agreed(stops);
    totals.sum_squares = squares.iter().map(|&(_, squares)| squares).sum();
    Ok(totals)
}

/// Sum and count of a loss over all ranks, and whether one of them was asked to stop.
pub(crate) fn loss(control: &mut Control, sum: f64, count: u64, stop: &Stop) -> Result<(f64, u64, Option<StopSignal>)> {
    let parts = control.all_gather_f64(&[sum, count as f64, stop.part()])?;
    let add = |index: usize| parts.iter().filter_map(|part| part.get(index)).sum::<f64>();
    let stop = Stop::agreed(parts.iter().filter_map(|part| part.get(2).copied()));
    Ok((add(0), add(1) as u64, stop))
}

/// A hash of every weight of the model in canonical order, the same for every cut: of the weights as the optimizer has them, in
/// `f32`. Copies them from a GPU.
///
/// # Errors
/// Among others, when the two copies of a tied weight differ.
pub(crate) fn weights_fingerprint(control: &mut Control, stage: &GptStage) -> Result<u128> {
    const ENTRY: usize = 8 + 16;
    let mut part = Vec::new();
    for param in stage.params() {
        part.extend((param.index() as u64).to_le_bytes());
        part.extend(hash_of(param)?.to_le_bytes());
    }
    let mut entries: Vec<(usize, u128)> = Vec::new();
    for part in control.all_gather(&part)? {
        entries.extend(part.as_chunks::<ENTRY>().0.iter().map(|entry| {
            let (mut index, mut hash) = ([0; 8], [0; 16]);
            index.copy_from_slice(&entry[..8]);
            hash.copy_from_slice(&entry[8..]);
            (u64::from_le_bytes(index) as usize, u128::from_le_bytes(hash))
        }));
    }
    entries.sort_unstable_by_key(|&(index, _)| index);
    if stage.config().tied() {
        // The head's copy is the last in canonical order and stands for what it copies.
        let (_, head) = entries.pop().context("no rank has any weights")?;
        let (_, embedding) = *entries.get(WTE).context("no rank has the embedding")?;
        ensure!(
            head == embedding,
            "the copies of the tied weight differ: embedding {embedding:032x}, head {head:032x}"
        );
    }
    check_complete(entries.iter().map(|&(index, _)| index), stage.config())?;
    let mut whole = Xxh3Default::new();
    for (_, hash) in &entries {
        whole.update(&hash.to_le_bytes());
    }
    Ok(whole.digest128())
}

fn hash_of(param: &Param) -> Result<u128> {
    let values = param.master().flatten_all()?.to_vec1::<f32>()?;
    let mut hash = Xxh3Default::new();
    hash.update(bytemuck::cast_slice(&values));
    Ok(hash.digest128())
}

/// Every parameter stands once, the head's copy of a tied weight left out.
fn check_complete(indices: impl ExactSizeIterator<Item = usize>, config: &GptConfig) -> Result<()> {
    let n_params = pp_model::catalog::catalog(config).len() - usize::from(config.tied());
    let (found, in_order) = (indices.len(), indices.enumerate().all(|(place, index)| place == index));
    ensure!(
        found == n_params && in_order,
        "the ranks have {found} parameters between them, but the model has {n_params}"
    );
    Ok(())
}
