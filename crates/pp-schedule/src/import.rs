//! Schedules made elsewhere: from a grid to a program that is proved, or to why there is none, said in the file's own cells.

use std::fmt::Write as _;

use crate::format::grid::{Cell, Grid, GridError, GridProgram, ProgramError};
use crate::ids::{Microbatch, Rank, Stage};
use crate::lower::lanes::Options;
use crate::lower::written::Wires;
use crate::lower::{Unprovable, lower_proved};
use crate::order::{Extent, Order, OrderError};
use crate::program::Program;
use crate::verify::{VerifiedProgram, VerifyError, explain, places, verify};
use crate::work::Work;

/// Why a schedule made elsewhere cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It cannot be judged.
    #[error(transparent)]
    Unjudged(#[from] Unjudged),
    /// It was judged and found wrong; the text says where, in several lines.
    #[error("refuted: {0}")]
    Refuted(String),
}

/// Why a grid cannot be judged, and the cells that say so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}{}", in_lines(at))]
pub struct Unjudged {
    /// What is wrong.
    pub error: GridError,
    /// Where.
    pub at: Vec<Cell>,
}

impl From<GridError> for ImportError {
    fn from(error: GridError) -> Self {
        Self::Unjudged(Unjudged { error, at: Vec::new() })
    }
}

/// A schedule made elsewhere, proved as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    order: Order,
    program: VerifiedProgram,
    lanes: Option<Options>,
}

impl Imported {
    /// Proves the schedule of a grid. One that says where its transfers stand gets exactly those, on one FIFO from each rank
    /// to each other; to one that does not the `lanes` policy adds them, with as little prefetch as passes.
    ///
    /// ```
    /// use pp_schedule::format::csv::Grid;
    /// use pp_schedule::import::Imported;
    ///
    /// let imported = Imported::prove(&Grid::parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").unwrap()).unwrap();
    /// assert_eq!(imported.order().extent().microbatches, 2);
    /// let circle = Imported::prove(&Grid::parse("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n").unwrap()).unwrap_err();
    /// assert!(circle.to_string().contains("the circle: rank 0 -> rank 1 -> rank 0"));
    /// ```
    ///
    /// # Errors
    /// [`ImportError`], which says what `pp-schedule verify` says.
    pub fn prove(grid: &Grid) -> Result<Self, ImportError> {
        if !grid.has_transfers() {
            let order = grid.to_order().map_err(|error| no_order(grid, error))?;
            let (program, options) = lower_proved(&order).map_err(|error| unprovable(&error))?;
            return Ok(Self { order, program, lanes: Some(options) });
        }
        let written = written(grid, Wires::PerPair)?;
        let order = grid.compute_only().to_order()?;
        let program = verify(Program::clone(&written.program))
            .map_err(|error| ImportError::Refuted(refusal(&written, &error)))?;
        Ok(Self { order, program, lanes: None })
    }

    /// What is computed.
    pub const fn order(&self) -> &Order {
        &self.order
    }

    /// The program.
    pub const fn program(&self) -> &VerifiedProgram {
        &self.program
    }

    /// How far transfers run ahead, where the `lanes` policy added them; `None` where the grid says where they stand.
    pub const fn lanes(&self) -> Option<Options> {
        self.lanes
    }
}

/// An order of forwards only over the same stages and microbatches: as many microbatches as there are ranks go through the
/// first chunk of each rank, then through the next, and so on.
pub fn forwards(extent: Extent) -> Order {
    let (placement, m) = (extent.placement, extent.microbatches);
    let group = placement.n_ranks();
    let row = |rank: Rank| -> Vec<Work> {
        let groups = (0..m).step_by(group as usize).map(|first| first..m.min(first.saturating_add(group)));
        groups
            .flat_map(|group| {
                let stages = placement.stages_of(rank);
                stages.flat_map(move |stage| group.clone().map(move |index| Work::forward(stage, Microbatch(index))))
            })
            .collect()
    };
    let rows = (0..placement.n_ranks()).map(|rank| row(Rank(rank))).collect();
    let extent = Extent { forward_only: true, ..extent };
    Order::new(extent, rows)
        .unwrap_or_else(|error| unreachable!("every stage and microbatch stands there once: {error}"))
}

/// The program of a grid that says where transfers stand, not verified yet.
pub(crate) fn written(grid: &Grid, wires: Wires) -> Result<GridProgram, ImportError> {
    grid.to_program(wires).map_err(|error| match error {
        ProgramError::Grid(error) => no_order(grid, error),
        error => ImportError::Refuted(error.to_string()),
    })
}

/// Why such a program was refuted.
pub(crate) fn refusal(written: &GridProgram, error: &VerifyError) -> String {
    let mut text = explain(&written.program, error);
    let cells = places(&written.program, error).into_iter();
    let cells: Vec<Cell> = cells.filter_map(|(rank, step)| written.cell_of(rank, step)).collect();
    for (index, cell) in cells.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{cell}", if index == 0 { "\nin the text: " } else { "\n             " });
    }
    text
}

/// Why no prefetch helps an order.
pub(crate) fn unprovable(error: &Unprovable) -> ImportError {
    let tried = error.tried.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let why = explain(&error.program, &error.error);
    ImportError::Refuted(format!("with transfers added by the lanes policy, {tried} ahead per channel: {why}"))
}

/// Why a grid is no order: it cannot be judged, or it was judged and found wrong.
pub(crate) fn no_order(grid: &Grid, error: GridError) -> ImportError {
    let at = cells_of(grid, &error);
    match error {
        GridError::Empty | GridError::NoPlacement { .. } | GridError::StagesNotDivisible { .. } => {
            ImportError::Unjudged(Unjudged { error, at })
        }
        error => ImportError::Refuted(format!("{error}{}", in_lines(&at))),
    }
}

/// The cells that an error is about.
fn cells_of(grid: &Grid, error: &GridError) -> Vec<Cell> {
    match error {
        GridError::NoPlacement { stage, rank, .. } => first_of_stage(grid, *stage, *rank).into_iter().collect(),
        // A stage too many is often one cell's slip of the pen.
        GridError::OnNoRank { highest, .. } => first_of_highest(grid, *highest).into_iter().collect(),
        GridError::StagesNotDivisible { n_stages, .. } => {
            first_of_highest(grid, Stage((n_stages - 1) as u32)).into_iter().collect()
        }
        GridError::OnTwoRanks { stage, ranks } => {
            ranks.iter().filter_map(|rank| first_of_stage(grid, *stage, *rank)).collect()
        }
        GridError::Order(
            OrderError::Twice { rank, work }
            | OrderError::Unknown { rank, work, .. }
            | OrderError::WrongRank { rank, work, .. },
        ) => of_work(grid, *rank, |other| other == *work),
        GridError::Order(OrderError::Early { rank, work, needs }) => {
            of_work(grid, *rank, |other| [*work, *needs].contains(&other))
        }
        GridError::Order(OrderError::Incomplete { rank, stage, microbatch, .. }) => {
            of_work(grid, *rank, |other| (other.stage, other.microbatch.0) == (*stage, *microbatch))
        }
        _ => Vec::new(),
    }
}

/// The most cells that are shown.
const MOST_SHOWN: usize = 8;

/// A line for each cell, behind what is said of them; of very many, for the first.
fn in_lines(cells: &[Cell]) -> String {
    let mut text: String = cells.iter().take(MOST_SHOWN).map(|cell| format!("\n  {cell}")).collect();
    if let Some(more) = cells.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  and {more} more");
    }
    text
}

fn first_of_highest(grid: &Grid, highest: Stage) -> Option<Cell> {
    grid.cells().find(|cell| cell.token.works().any(|work| work.stage == highest))
}

fn first_of_stage(grid: &Grid, stage: Stage, rank: Rank) -> Option<Cell> {
    of_work(grid, rank, |work| work.stage == stage).first().copied()
}

/// The cells of a rank that compute what is asked for.
fn of_work(grid: &Grid, rank: Rank, asked: impl Fn(Work) -> bool) -> Vec<Cell> {
    grid.cells().filter(|cell| cell.row == rank.idx() && cell.token.works().any(&asked)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{Placement, Shape};

    #[test]
    fn forwards_of_every_placement_are_proved_with_little_prefetch() {
        for (shape, pp, vp) in [Shape::Loop, Shape::V]
            .into_iter()
            .flat_map(|shape| (1..=4).flat_map(move |pp| (1..=4).map(move |vp| (shape, pp, vp))))
        {
            for microbatches in 1..=9 {
                let placement = Placement::shaped(shape, pp, vp);
                let order = forwards(Extent { placement, microbatches, forward_only: false });
                let (_, options) = lower_proved(&order).unwrap();
                assert!(options.receives_ahead <= 2, "{placement:?}, {microbatches}: {options:?}");
            }
        }
    }
}
