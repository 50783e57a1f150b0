//! Reading the ranks' records of a run back from their directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::record::{FORMAT, RankEnd, RankRecord};

/// Far more than 1,024 events take; whatever is longer is no record.
const MAX_BYTES: u64 = 64 << 20;

/// More ranks than any run has.
const MAX_WORLD: u32 = 1 << 20;

/// Where whoever started the ranks writes how they ended.
const ENDS: &str = "ends.json";

/// What is known of a failed run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// How many ranks it had.
    pub world: u32,
    /// By rank; one that was killed or frozen has written none.
    pub ranks: BTreeMap<u32, RankRecord>,
    /// How the processes ended, if whoever started them said so.
    pub ends: Vec<RankEnd>,
    /// Ranks that have left a record which cannot be used.
    pub unreadable: BTreeSet<u32>,
    /// Files that could not be used, and why.
    pub problems: Vec<String>,
}

/// Why a directory says nothing about a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be listed.
    #[error("cannot read {}: {source}; give the directory that the failed run named", folder.display())]
    Folder {
        /// The directory.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It has no record that can be read.
    #[error("{} has no flight record (rank-N.json) that can be read{}", folder.display(), list(problems))]
    Nothing {
        /// The directory.
        folder: PathBuf,
        /// What is there instead.
        problems: Vec<String>,
    },
    /// It has records of several runs.
    #[error(
        "{} has records of different runs: {}; move those of one run to a directory of their own",
        folder.display(),
        runs.join(", ")
    )]
    Mixed {
        /// The directory.
        folder: PathBuf,
        /// The runs, each with its ranks.
        runs: Vec<String>,
    },
}

fn list(problems: &[String]) -> String {
    if problems.is_empty() { String::new() } else { format!(": {}", problems.join("; ")) }
}

/// What can be told of a record of any version.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Records {
    /// What is known by these records.
    pub fn new(records: impl IntoIterator<Item = RankRecord>) -> Self {
        let ranks: BTreeMap<u32, RankRecord> = records.into_iter().map(|record| (record.rank, record)).collect();
        let world =
            ranks.values().map(|record| record.world.max(record.rank.saturating_add(1))).max().unwrap_or_default();
        Self { world, ranks, ..Self::default() }
    }

    /// Reads a directory. A file that cannot be used is passed over and noted among the problems.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        let unreadable = |source| ReadError::Folder { folder: folder.to_owned(), source };
        let mut records = Vec::new();
        let (mut problems, mut unusable) = (Vec::new(), BTreeSet::new());
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(rank) = name.to_str().and_then(rank_of) else { continue };
            match read_record(&folder.join(&name), rank) {
                Ok(record) => records.push(record),
                Err(problem) => {
                    unusable.insert(rank);
                    problems.push(format!("{}: {problem}", name.display()));
                }
            }
        }
        problems.sort();
        if records.is_empty() {
            return Err(ReadError::Nothing { folder: folder.to_owned(), problems });
        }
        let runs: BTreeSet<&Option<String>> = records.iter().map(|record| &record.run).collect();
        if runs.len() > 1 {
            let runs = runs.into_iter().map(|run| of_run(run, &records)).collect();
            return Err(ReadError::Mixed { folder: folder.to_owned(), runs });
        }
        let ends = read_ends(folder).unwrap_or_else(|problem| {
            problems.push(format!("{ENDS}: {problem}"));
            Vec::new()
        });
        let known = Self::new(records);
        unusable.retain(|rank| *rank < known.world && !known.ranks.contains_key(rank));
        Ok(Self { ends, unreadable: unusable, problems, ..known })
    }

    /// Ranks that have left no record.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        (0..self.world).filter(|rank| !self.ranks.contains_key(rank))
    }
}

/// Notes beside the records how the ranks' processes ended, for whoever reads them later.
///
/// # Errors
/// What the system says; the directory must be there.
pub fn write_ends(folder: &Path, ends: &[RankEnd]) -> io::Result<()> {
    let draft = folder.join(format!(".{ENDS}.{}", std::process::id()));
    let text = serde_json::to_vec_pretty(ends)?;
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, folder.join(ENDS))).inspect_err(|_| {
        // It may never have been made.
        let _ = fs::remove_file(&draft);
    })
}

fn read_ends(folder: &Path) -> Result<Vec<RankEnd>, String> {
    match read_text(&folder.join(ENDS)) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// The rank in `rank-N.json`.
fn rank_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("rank-")?.strip_suffix(".json")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn read_text(path: &Path) -> io::Result<String> {
    // Opening a pipe would wait for whoever writes into it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn read_record(path: &Path, rank: u32) -> Result<RankRecord, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    let Head { format } = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if format != FORMAT {
        return Err(format!("its format is version {format}, but this reads version {FORMAT} only"));
    }
    let record: RankRecord = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if record.rank != rank {
        return Err(format!("it says that it is rank {}'s", record.rank));
    }
    if record.world > MAX_WORLD || record.rank >= record.world {
        return Err(format!("it says that it is rank {} of {}, which cannot be", record.rank, record.world));
    }
    Ok(record)
}

fn of_run(run: &Option<String>, records: &[RankRecord]) -> String {
    let ranks: Vec<String> =
        records.iter().filter(|record| record.run == *run).map(|record| record.rank.to_string()).collect();
    let name = run.as_deref().unwrap_or("one without a number");
    format!("{name} (rank {})", ranks.join(", "))
}
