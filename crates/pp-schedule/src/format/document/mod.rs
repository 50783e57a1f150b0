//! A schedule as a file holds it: its cells, and what it is called.

mod fields;
mod head;

use super::grid::Grid;

pub use fields::FieldError;
pub(super) use fields::Fields;
pub(super) use head::Head;
pub use head::HeadError;

/// What every format but CSV holds whole; CSV has no place for the name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Document {
    /// What the schedule is called, such as `zb-h1`; any text, for people.
    pub name: Option<String>,
    /// What each rank does, in turn.
    pub grid: Grid,
}

impl From<Grid> for Document {
    /// Without a name.
    fn from(grid: Grid) -> Self {
        Self { name: None, grid }
    }
}
