//! What is checked of one rank by itself: references, coverage and slots.

use super::VerifyError;
use super::lanes::Lanes;
use super::slots::{self, Run, check_mark, transfer_fits};
use crate::ids::Rank;
use crate::order::{Coverage, check_row};
use crate::program::{Action, Program, RankProgram, Step};

/// Whether nothing is wrong with a rank, in one pass. What it posts and waits for is told to `lanes` on the way.
pub(super) fn fits(program: &Program, rank: Rank, lanes: &mut Lanes) -> bool {
    let ranked = &program.ranks[rank.idx()];
    let mut coverage = Coverage::new(program.extent, rank);
    let mut run = Run::new(program, ranked);
    lanes.start(rank, ranked);
    let fits = ranked.rank == rank
        && ranked.actions.iter().all(|&action| match action {
            Action::Compute(index) => match ranked.computes.get(index as usize) {
                Some(compute) => coverage.mark(compute.work).is_ok() && run.compute(compute).is_ok(),
                None => false,
            },
            Action::Post(first) => post(program, ranked, first, &mut run, lanes),
            Action::Wait(index) => match ranked.transfers.get(index as usize) {
                Some(transfer) => {
                    lanes.wait(index, transfer);
                    run.wait(index, transfer).is_ok()
                }
                None => false,
            },
            Action::Free(slot) => run.free(slot).is_ok(),
            Action::Mark(mark) => check_mark(program, mark).is_ok(),
        });
    lanes.end(rank);
    fits && coverage.complete().is_ok() && run.at_end().is_ok()
}

#[inline]
fn post(program: &Program, ranked: &RankProgram, first: u32, run: &mut Run<'_>, lanes: &mut Lanes) -> bool {
    match ranked.posted(first) {
        Some([transfer]) => {
            lanes.post(first, transfer);
            transfer_fits(program, ranked.rank, transfer) && run.post(first, transfer).is_ok()
        }
        Some(transfers) => {
            lanes.give_up();
            transfers.iter().all(|transfer| transfer_fits(program, ranked.rank, transfer))
                && run.post_all(first).is_ok()
        }
        None => false,
    }
}

/// The first thing wrong with a rank: references before coverage before slots.
pub(super) fn explain(program: &Program, rank: Rank) -> Result<(), VerifyError> {
    slots::check_references(program, rank)?;
    let run = program.ranks[rank.idx()].steps().filter_map(|step| match step {
        Step::Compute(compute) => Some(compute.work),
        _ => None,
    });
    check_row(program.extent, rank, run)?;
    slots::check(program, rank)?;
    Ok(())
}
