//! A schedule in a file: read, checked against the flags beside it, and proved before anything starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pp_schedule::format::any;
use pp_schedule::import::{ImportError, Imported, forwards};
use pp_schedule::lower::lower_proved;
use pp_schedule::{Order, VerifiedProgram};
use xxhash_rust::xxh3::xxh3_128;

use crate::args::Args;
use crate::invalid::{Invalid, refuse};
use crate::nearest::{Refusal, Try};

/// A schedule from a file, its programs proved as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePlan {
    path: PathBuf,
    /// Of the file's text.
    hash: u128,
    training: Imported,
    validation: VerifiedProgram,
}

/// Reads and proves the schedule that arguments name a file for, if they do.
///
/// # Errors
/// [`Invalid`] when it cannot be read, is no schedule, does not train, or is refuted; then what was found is said in
/// several lines.
pub(crate) fn read_file(args: &Args) -> Result<Option<Arc<FilePlan>>, Invalid> {
    args.schedule_csv.as_deref().map(|path| FilePlan::read(path).map(Arc::new)).transpose()
}

impl FilePlan {
    fn read(path: &Path) -> Result<Self, Invalid> {
        let flag = format!("--schedule-csv {}", path.display());
        // Every rank reads it, and the launcher before them: of a pipe only the first would see anything.
        let is_file = std::fs::metadata(path).map(|found| found.is_file());
        if !is_file.map_err(|error| Invalid(format!("{flag} cannot be read: {error}")))? {
            refuse!("{flag} is no regular file, which every rank can read; write the schedule to one");
        }
        let bytes = std::fs::read(path).map_err(|error| Invalid(format!("{flag} cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|error| Invalid(format!("{flag} is not UTF-8 text: {error}")))?;
        let document = any::read(&text, None).map_err(|error| Invalid(format!("{flag} is no schedule: {error}")))?;
        let training = Imported::prove(&document.grid).map_err(|error| match error {
            ImportError::Unjudged(error) => Invalid(format!("{flag} is no schedule: {error}")),
            error => Invalid(format!("{flag} is {error}")),
        })?;
        if training.order().extent().forward_only {
            refuse!("{flag} has forwards only, which trains nothing; give one with a backward for each");
        }
        // A few microbatches in a row over every chunk; nothing about it depends on the file but its sizes.
        let validation = lower_proved(&forwards(training.order().extent()));
        let (validation, _) =
            validation.map_err(|error| Invalid(format!("{flag} has no forwards-only form: {error}")))?;
        Ok(Self { path: path.to_owned(), hash: xxh3_128(text.as_bytes()), training, validation })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is computed.
    pub fn order(&self) -> &Order {
        self.training.order()
    }

    pub(super) fn training(&self) -> &VerifiedProgram {
        self.training.program()
    }

    pub(super) const fn validation(&self) -> &VerifiedProgram {
        &self.validation
    }

    pub(super) const fn hash(&self) -> u128 {
        self.hash
    }

    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Where its transfers come from.
    pub(super) fn how(&self) -> String {
        match self.training.lanes() {
            Some(options) => format!("transfers added, {} ahead per channel", options.receives_ahead),
            None => "transfers as written".to_owned(),
        }
    }

    /// Checks flags that are given beside the file: they may say again what it says, and nothing else.
    pub(super) fn check_agreement(&self, args: &Args) -> Result<(), Refusal> {
        let name = self.path.display();
        for (flag, given) in [
            ("--schedule", args.schedule.is_some()),
            ("--group-size", args.group_size.is_some()),
            ("--allow-bubbles", args.allow_bubbles),
            ("--gpipe-backward", args.gpipe_backward.is_some()),
            (args.policy.given().unwrap_or_default(), args.policy.given().is_some()),
        ] {
            if given {
                refuse!(
                    "{flag} is for a schedule that is generated, but --schedule-csv {name} gives one; leave one out"
                );
            }
        }
        let extent = self.order().extent();
        let m = extent.microbatches;
        for (flag, given, own, what) in [
            ("--pp", args.pp, extent.placement.n_ranks(), "ranks"),
            ("--vp", args.vp, extent.placement.n_chunks(), "chunks per rank"),
            ("--microbatches", args.microbatches, m, "microbatches"),
        ] {
            if let Some(given) = given.filter(|&given| given != own) {
                let rule = format!("{flag} {given} disagrees with --schedule-csv {name}, which has {own} {what}");
                return Err(Refusal::new(rule, [Try::To(flag, own.into())]));
            }
        }
        let sequences = u64::from(m) * u64::from(args.micro_batch_size);
        if let Some(global) = args.global_batch_size.filter(|&global| u64::from(global) != sequences) {
            let rule = format!(
                "--global-batch-size {global} disagrees with --schedule-csv {name}, which has {m} microbatches, of \
                 --micro-batch-size {}",
                args.micro_batch_size
            );
            let tries = [
                Some(Try::To("--global-batch-size", sequences)),
                global.is_multiple_of(m).then(|| Try::To("--micro-batch-size", u64::from(global / m))),
            ];
            return Err(Refusal::new(rule, tries.into_iter().flatten()));
        }
        Ok(())
    }
}
