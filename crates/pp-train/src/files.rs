//! The files that arguments name for writing: that they can be written, and that no other named file is lost by it. Looking
//! leaves everything as it was.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::config::{TextSource, TrainConfig};
use crate::invalid::{Invalid, refuse};
use crate::plan::Plan;

/// Links that are followed from one to the next, as many as Linux does.
const MAX_LINKS: usize = 40;

/// Checks the files of this rank.
///
/// # Errors
/// [`Invalid`] when one cannot be used as what it is given for.
pub(crate) fn check(config: &TrainConfig) -> Result<(), Invalid> {
    if let Some(rendezvous_file) = config.place.rendezvous_file() {
        check_rendezvous(rendezvous_file)?;
    }
    if let Some(folder) = &config.flight_dir {
        check_folder("--flight-dir", folder, config.place.rank() == 0)?;
    }
    // Rank 0 writes for all.
    if config.place.rank() != 0 {
        return Ok(());
    }
    let trace = config.trace.as_ref().map(|trace| trace.path.as_path());
    let outputs = [("--metrics", config.metrics.as_deref()), ("--trace", trace)];
    let mut others = inputs(config);
    for (flag, path) in outputs {
        let Some(path) = path else { continue };
        check_no_loss(flag, path, &others)?;
        check_writable(flag, path)?;
        others.push((flag, path));
    }
    match trace {
        Some(path) => check_replaceable(path),
        None => Ok(()),
    }
}

/// What is read, or written by somebody else.
fn inputs(config: &TrainConfig) -> Vec<(&'static str, &Path)> {
    let mut inputs = Vec::new();
    if let TextSource::File(data) = &config.source {
        inputs.push(("--data", data.as_path()));
    }
    if let Some(rendezvous_file) = config.place.rendezvous_file() {
        inputs.push(("--rendezvous-file", rendezvous_file));
    }
    if let Plan::File(file) = &config.plan {
        inputs.push(("--schedule-csv", file.path()));
    }
    inputs
}

/// Whether nothing that is given besides a path would be lost when it is written to.
fn check_no_loss(flag: &str, path: &Path, others: &[(&'static str, &Path)]) -> Result<(), Invalid> {
    for (other, at) in others {
        // What is thrown away twice is no loss.
        if is_same(path, at) && !fs::metadata(path).is_ok_and(|found| is_null(&found)) {
            refuse!(
                "{flag} {} is the same file as {other} {}, which it would overwrite; give another file",
                path.display(),
                at.display()
            );
        }
    }
    Ok(())
}

/// Whether a path can be written to, as far as can be told without writing.
pub(crate) fn check_writable(flag: &str, path: &Path) -> Result<(), Invalid> {
    let name = path.display();
    let unwritable = |error: &io::Error| {
        Invalid(format!("{flag} {name} cannot be written: {error}; give a file in a directory that can"))
    };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => refuse!("{flag} {name} is a directory; give a file"),
        Ok(found) if found.is_file() || is_null(&found) => {
            OpenOptions::new().append(true).open(path).map(drop).map_err(|error| unwritable(&error))
        }
        Ok(_) => refuse!("{flag} {name} is no regular file; give a file, or /dev/null"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_be_made(path).map_err(|error| unwritable(&error)),
        Err(error) => Err(unwritable(&error)),
    }
}

/// Whether files can be written into a directory, which may have to be made. Permissions do not tell everything: one rank of
/// all tries, and leaves nothing.
fn check_folder(flag: &str, folder: &Path, tries: bool) -> Result<(), Invalid> {
    let looked = can_hold_files(folder).and_then(|()| if tries { try_file(folder) } else { Ok(()) });
    looked.map_err(|error| {
        Invalid(format!(
            "{flag} {} cannot be written to: {error}; give a directory that can, or one that can be made",
            folder.display()
        ))
    })
}

/// Whether the directory, or the nearest one above it that is there, can be written to.
fn can_hold_files(folder: &Path) -> io::Result<()> {
    let mut at = std::path::absolute(folder)?;
    while let Err(error) = fs::symlink_metadata(&at) {
        if error.kind() != io::ErrorKind::NotFound || !at.pop() {
            return Err(error);
        }
    }
    if !fs::metadata(&at)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(&at, Access::WRITE_OK | Access::EXEC_OK)?)
}

fn try_file(folder: &Path) -> io::Result<()> {
    let folder = std::path::absolute(folder)?;
    let made: Vec<&Path> = folder.ancestors().take_while(|at| !at.exists()).collect();
    let draft = folder.join(format!(".pp-flight.{}", std::process::id()));
    let tried = fs::create_dir_all(&folder).and_then(|()| File::create_new(&draft).map(drop));
    // What was not made is not there to remove, and what others use meanwhile is not empty.
    if tried.is_ok() {
        let _ = fs::remove_file(&draft);
    }
    for at in made {
        let _ = fs::remove_dir(at);
    }
    tried
}

/// Whether a file can be put in a path's place, as a trace is once it is whole.
fn check_replaceable(path: &Path) -> Result<(), Invalid> {
    if fs::metadata(path).is_ok_and(|found| is_null(&found)) {
        return Ok(());
    }
    can_be_made(path).map_err(|error| {
        Invalid(format!(
            "--trace {} is written beside its place and moved there, but its directory cannot be written to: {error}; give a \
             file in a directory that can",
            path.display()
        ))
    })
}

/// Writes a file so that it is there whole or not at all. What was at the path before is kept until then.
///
/// # Errors
/// Those of the system and of `write`.
pub(crate) fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let fill = |file: File| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    };
    if fs::metadata(path).is_ok_and(|found| is_null(&found)) {
        return fill(File::create(path)?);
    }
    let target = target_of(path)?;
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let unfinished = directory_of(&target).join(format!(".{name}.{}.unfinished", std::process::id()));
    let done = File::create(&unfinished).and_then(fill).and_then(|()| fs::rename(&unfinished, &target));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&unfinished);
    }
    done
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_tried_and_left_as_they_were() {
        let scratch = std::env::temp_dir().join(format!("pp-train-files-{}", std::process::id()));
        let check = |path: &Path| check_folder("--flight-dir", path, true);
        assert_eq!(check(&scratch.join("a/b")), Ok(()));
        assert!(!scratch.exists(), "nothing is left");
        fs::create_dir(&scratch).unwrap();
        assert_eq!(check(&scratch), Ok(()));
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left");
        let file = scratch.join("file");
        fs::write(&file, "x").unwrap();
        for path in [&file, &file.join("below"), Path::new("/proc/no"), Path::new("/dev/null")] {
            let refused = check(path).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("--flight-dir {} cannot", path.display())), "{refused}");
            assert!(refused.contains("give a directory"), "{refused}");
        }
        fs::remove_dir_all(&scratch).unwrap();
    }
}
