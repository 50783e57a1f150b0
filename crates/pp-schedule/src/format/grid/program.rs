//! Grids with communication to programs.

use std::fmt;

use super::{Grid, GridError, Token, TransferKind};
use crate::ids::{Direction, Rank};
use crate::lower::written::{self, Fault, Item, Wires, WrittenError};
use crate::program::{Program, Role};

/// A cell of a grid, to be shown: where it stands and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The row, from 0: the rank.
    pub row: usize,
    /// The column, from 0: the step.
    pub column: usize,
    /// What it says.
    pub token: Token,
}

impl fmt::Display for Cell {
    /// Row and column counted from 1, as an editor does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}, column {}: `{}`", self.row + 1, self.column + 1, self.token)
    }
}

/// The program that a grid with communication states, and the cells its actions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridProgram {
    /// The program.
    pub program: Program,
    /// The cells of each rank that say something to the program.
    cells: Vec<Vec<Cell>>,
    items: Vec<Vec<u32>>,
}

impl GridProgram {
    /// The cell that a rank's action comes from; a wait comes from the cell whose computation needs it, or at the end of
    /// the program from its send.
    pub fn cell_of(&self, rank: Rank, step: usize) -> Option<Cell> {
        let item = *self.items.get(rank.idx())?.get(step)?;
        self.cells[rank.idx()].get(item as usize).copied()
    }
}

/// Why a grid with communication is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// Its computations are no order.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// A transfer is missing, doubled or out of place.
    #[error("{cell}: {fault}")]
    Cell {
        /// The cell.
        cell: Cell,
        /// What is wrong with it.
        fault: Fault,
    },
}

impl Grid {
    /// Whether it says anything about communication.
    pub fn has_transfers(&self) -> bool {
        self.rows.iter().flatten().any(|cell| matches!(cell, Some(Token::Transfer { .. })))
    }

    /// The cells that say something, row by row.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        let rows = self.rows.iter().enumerate();
        let cells =
            rows.flat_map(|(row, cells)| cells.iter().enumerate().map(move |(column, cell)| (row, column, cell)));
        cells.filter_map(|(row, column, cell)| cell.map(|token| Cell { row, column, token }))
    }

    /// The program of a grid that says where every transfer stands: each is posted alone, in its turn, on the given
    /// wires; see [`crate::lower::written`]. Marks are left out.
    ///
    /// # Errors
    /// [`ProgramError`]: the computations are no order, or a transfer is missing, doubled or out of place on its rank.
    /// Whether the ranks go together is for [`crate::verify()`] to say.
    pub fn to_program(&self, wires: Wires) -> Result<GridProgram, ProgramError> {
        let extent = self.compute_only().to_order()?.extent();
        let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); self.rows.len()];
        let mut rows: Vec<Vec<Item>> = vec![Vec::new(); self.rows.len()];
        for cell in self.cells() {
            if let Some(item) = item_of(cell.token) {
                cells[cell.row].push(cell);
                rows[cell.row].push(item);
            }
        }
        match written::lower(extent, &rows, wires) {
            Ok(written) => Ok(GridProgram { program: written.program, cells, items: written.items }),
            Err(WrittenError::Order(error)) => Err(GridError::Order(error).into()),
            Err(WrittenError::Item { rank, item, fault }) => {
                Err(ProgramError::Cell { cell: cells[rank.idx()][item], fault })
            }
        }
    }
}

fn item_of(token: Token) -> Option<Item> {
    Some(match token {
        Token::Mark { .. } => return None,
        Token::Work(work) => Item::Compute(work, None),
        Token::Overlap { .. } => {
            let mut works = token.works();
            Item::Compute(works.next()?, works.next())
        }
        Token::Transfer { kind, stage, microbatch } => {
            let (role, direction) = match kind {
                TransferKind::SendForward => (Role::Send, Direction::Forward),
                TransferKind::ReceiveForward => (Role::Receive, Direction::Forward),
                TransferKind::SendBackward => (Role::Send, Direction::Backward),
                TransferKind::ReceiveBackward => (Role::Receive, Direction::Backward),
            };
            Item::Transfer { role, direction, stage, microbatch }
        }
    })
}
