//! The files that arguments name for writing: that they can be written, and that no other named file is lost by it. Looking
//! changes nothing.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::config::{TextSource, TrainConfig};
use crate::invalid::{Invalid, refuse};
use crate::world::Place;

/// Links that are followed from one to the next, as many as Linux does.
const MAX_LINKS: usize = 40;

/// Checks the files of this rank.
///
/// # Errors
/// [`Invalid`] when one cannot be used as what it is given for.
pub(crate) fn check(config: &TrainConfig) -> Result<(), Invalid> {
    if let Place::Ranked { rendezvous_file, .. } = &config.place {
        check_rendezvous(rendezvous_file)?;
    }
    match &config.metrics {
        Some(path) if config.place.rank() == 0 => check_metrics(path, config),
        _ => Ok(()),
    }
}

/// Whether metrics can be written to a path, and nothing that is given besides it would be lost.
fn check_metrics(path: &Path, config: &TrainConfig) -> Result<(), Invalid> {
    let name = path.display();
    if let TextSource::File(data) = &config.source
        && is_same(path, data)
    {
        refuse!(
            "--metrics {name} is the same file as --data {}, which it would overwrite; give another file",
            data.display()
        );
    }
    if let Place::Ranked { rendezvous_file, .. } = &config.place
        && is_same(path, rendezvous_file)
    {
        refuse!("--metrics {name} is the same file as --rendezvous-file; give another file");
    }
    check_writable(path)
}

/// Whether metrics can be written to a path, as far as can be told without writing.
pub(crate) fn check_writable(path: &Path) -> Result<(), Invalid> {
    let name = path.display();
    let unwritable = |error: &io::Error| {
        Invalid(format!("--metrics {name} cannot be written: {error}; give a file in a directory that can"))
    };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse!("--metrics {name} is a directory; give a file"),
        Ok(found) if found.is_file() || is_null(&found) => {
            OpenOptions::new().append(true).open(path).map(drop).map_err(|error| unwritable(&error))
        }
        Ok(_) => refuse!("--metrics {name} is no regular file; give a file, or /dev/null"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_be_made(path).map_err(|error| unwritable(&error)),
        Err(error) => Err(unwritable(&error)),
    }
}

/// Whether ranks can meet through a path.
fn check_rendezvous(path: &Path) -> Result<(), Invalid> {
    let fault = match pp_comm::peek_address(path) {
        Ok(_) => can_be_made(path).err().map(anyhow::Error::from),
        Err(error) => Some(error.into()),
    };
    match fault {
        None => Ok(()),
        Some(fault) => refuse!(
            "--rendezvous-file {} (PP_RENDEZVOUS_FILE) cannot be used: {fault:#}; give a path in a directory that can be \
             written to, where no file is",
            path.display()
        ),
    }
}

/// Whether there is a directory for a file of this path, and it can be written to.
fn can_be_made(path: &Path) -> io::Result<()> {
    let directory = directory_of(&target_of(path)?);
    if !fs::metadata(&directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(&directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

fn is_null(found: &Metadata) -> bool {
    let null = fs::metadata("/dev/null");
    found.file_type().is_char_device() && null.is_ok_and(|null| null.rdev() == found.rdev())
}

/// Whether two paths lead to one file: there already, by whatever names or links, or not there yet.
fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|found: Metadata| (found.dev(), found.ino()));
    match (identity(a), identity(b)) {
        (Ok(a), Ok(b)) => a == b,
        (Err(_), Err(_)) => matches!((place_of(a), place_of(b)), (Ok(a), Ok(b)) if a == b),
        _ => false,
    }
}

/// Where a file that is not there yet would be.
fn place_of(path: &Path) -> io::Result<PathBuf> {
    let target = target_of(path)?;
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(fs::canonicalize(directory_of(&target))?.join(name))
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The path at the end of links, which may lead to nothing.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_symlink() => target = directory_of(&target).join(fs::read_link(&target)?),
            _ => return Ok(target),
        }
    }
    Err(io::Error::other("too many links lead from one to the next"))
}
