//! What a command is about: a schedule that flags ask for, or one in a file.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{CommandError, ScheduleArgs};
use crate::config::ScheduleConfig;
use crate::format::any::{self, Format};
use crate::format::document::Document;
use crate::format::grid::{Grid, GridProgram};
use crate::import;
use crate::lower::lanes::{self, Options};
use crate::lower::lower_proved;
use crate::lower::written::Wires;
use crate::order::Order;
use crate::program::Program;
use crate::simulate::{Costs, Timeline};
use crate::verify::{VerifiedProgram, explain, verify};

/// A schedule by flags, or in a file.
#[derive(Clone, Debug, Args)]
pub(super) struct SourceArgs {
    /// A schedule in a file instead of by flags: torch's CSV, JSON or events; `-` for standard input
    #[arg(value_name = "FILE")]
    #[arg(conflicts_with_all = [
        "schedule", "pp", "vp", "microbatches", "group_size", "allow_bubbles", "gpipe_backward", "forward_only",
    ])]
    file: Option<PathBuf>,
    #[command(flatten)]
    schedule: ScheduleArgs,
}

/// A schedule, wherever it comes from.
pub(super) enum Source {
    /// By flags.
    Generated(ScheduleConfig, Order),
    /// From a file, or from a search.
    Given {
        /// How it is called in titles.
        name: String,
        /// Its cells as they are written.
        document: Document,
        /// What is computed.
        order: Order,
        /// The program, where it is said what is sent and received.
        program: Option<Box<GridProgram>>,
    },
}

impl SourceArgs {
    /// Reads the file, or generates what the flags ask for.
    pub(super) fn load(&self) -> Result<Source, CommandError> {
        let Some(path) = &self.file else {
            let config = self.schedule.config()?;
            return Ok(Source::Generated(config, Order::generate(&config)));
        };
        let (name, document) = (name_of(path), read_document(path, None)?);
        let grid = &document.grid;
        let (order, program) = if grid.has_transfers() {
            let written = import::written(grid, Wires::PerPair)?;
            (grid.compute_only().to_order()?, Some(Box::new(written)))
        } else {
            (grid.to_order().map_err(|error| import::no_order(grid, error))?, None)
        };
        Ok(Source::Given { name, document, order, program })
    }

    /// The cells as they are written, of whatever use, or those of the schedule that the flags ask for.
    pub(super) fn document(&self, format: Option<Format>) -> Result<Document, CommandError> {
        if let Some(path) = &self.file {
            return read_document(path, format);
        }
        let config = self.schedule.config()?;
        Ok(generated(&config, &Order::generate(&config)))
    }

    /// Whether the schedule comes from a file.
    pub(super) const fn is_file(&self) -> bool {
        self.file.is_some()
    }
}

/// Reads a file, or standard input for `-`, in the format given or in the one that it is in.
pub(super) fn read_document(path: &Path, format: Option<Format>) -> Result<Document, CommandError> {
    let error = |source| CommandError::Read { file: name_of(path), source };
    any::read(&read_text(path)?, format).map_err(error)
}

/// How a file is called in titles.
fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// The text of a file, or of standard input for `-`.
pub(super) fn read_text(path: &Path) -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    let done = match path == Path::new("-") {
        true => std::io::stdin().lock().read_to_end(&mut bytes).map(|_| ()),
        false => std::fs::read(path).map(|read| bytes = read),
    };
    let bad = |why: String| CommandError::Input { file: path.display().to_string(), why };
    done.map_err(|error| bad(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| bad(format!("not UTF-8 text: {error}")))
}

impl Source {
    /// What is computed.
    pub(super) const fn order(&self) -> &Order {
        match self {
            Self::Generated(_, order) | Self::Given { order, .. } => order,
        }
    }

    /// The configuration, where there is one.
    pub(super) const fn config(&self) -> Option<&ScheduleConfig> {
        match self {
            Self::Generated(config, _) => Some(config),
            Self::Given { .. } => None,
        }
    }

    /// Its cells: as they are written, of whatever use, or those that are computed.
    pub(super) fn document(&self) -> Cow<'_, Document> {
        match self {
            Self::Generated(config, order) => Cow::Owned(generated(config, order)),
            Self::Given { document, .. } => Cow::Borrowed(document),
        }
    }

    /// The program that the file states, where it says what is sent and received.
    pub(super) fn written(&self) -> Option<&GridProgram> {
        match self {
            Self::Given { program, .. } => program.as_deref(),
            Self::Generated(..) => None,
        }
    }

    /// The verified program: as the file has it, or of the lanes policy, with so many receives and sends ahead per
    /// channel or else as few as pass.
    pub(super) fn program(&self, prefetch: Option<u32>) -> Result<VerifiedProgram, CommandError> {
        let ahead = |ahead| Options { receives_ahead: ahead, ring_receives_ahead: ahead, sends_in_flight: ahead };
        let program = match (self.written(), self.config(), prefetch) {
            (Some(written), ..) => {
                let refuted = |error| CommandError::Refuted(import::refusal(written, &error));
                return verify(Program::clone(&written.program)).map_err(refuted);
            }
            (None, _, Some(prefetch)) => lanes::lower_order(self.order(), ahead(prefetch)),
            (None, Some(config), None) => lanes::lower(config),
            (None, None, None) => {
                return Ok(lower_proved(self.order()).map_err(|error| import::unprovable(&error))?.0);
            }
        };
        verify(program.clone()).map_err(|error| CommandError::Refuted(explain(&program, &error)))
    }

    /// The order played out by its dependencies alone. Where it gets stuck, why is for the proof to say.
    pub(super) fn timeline(&self, costs: &Costs) -> Result<Timeline, CommandError> {
        match Timeline::of_order(self.order(), costs) {
            Ok(timeline) => Ok(timeline),
            Err(stuck) => self.program(None).and(Err(stuck.into())),
        }
    }
}

fn generated(config: &ScheduleConfig, order: &Order) -> Document {
    Document { name: Some(config.kind().to_string()), grid: Grid::from(order) }
}
