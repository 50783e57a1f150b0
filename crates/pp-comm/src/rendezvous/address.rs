//! Passing on the host's address through a file, for ranks that are started before it is known.
//!
//! A file may be left over from a run that was killed: a host takes its own address back when everybody has it
//! ([`withdraw_address`]) and removes what an earlier run left before it listens ([`clear_address`]), and ranks look again
//! for as long as nobody answers. A file that holds anything but an address is somebody else's and stays as it is.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::RendezvousError;
use crate::deadline::Deadline;

/// Pause between two looks for the file.
const POLL: Duration = Duration::from_millis(5);
/// More bytes than any address has.
const MAX_BYTES: usize = 128;
/// How much of what is no address a message shows.
const SHOWN: usize = 32;

/// Writes an address where [`await_address`] looks for it: at once or not at all, so that nobody reads half of it.
///
/// # Errors
/// [`RendezvousError::System`].
pub fn publish_address(path: &Path, address: SocketAddr) -> Result<(), RendezvousError> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let written = fs::write(&draft, address.to_string()).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // What matters is why the address could not be written.
        let _ = fs::remove_file(&draft);
    }
    written.map_err(RendezvousError::system(format!("write the host's address to {}", path.display())))
}

/// The address in a file; `None` where there is no file or nothing in it yet.
///
/// # Errors
/// [`RendezvousError::System`] when it cannot be read or holds something else.
pub fn peek_address(path: &Path) -> Result<Option<SocketAddr>, RendezvousError> {
    let found = read_start(path).and_then(|start| start.as_deref().map_or(Ok(None), parse));
    found.map_err(RendezvousError::system(format!("read the host's address from {}", path.display())))
}

/// Removes the address that an earlier run left.
///
/// # Errors
/// [`RendezvousError::System`] when the file cannot be removed, or holds something else than an address.
pub fn clear_address(path: &Path) -> Result<(), RendezvousError> {
    if peek_address(path)?.is_none() {
        return Ok(());
    }
    let removed = missing_is_none(fs::remove_file(path)).map(drop);
    removed.map_err(RendezvousError::system(format!("remove the old address in {}", path.display())))
}

/// Takes back an address that was published; another one, of a later run, stays.
///
/// # Errors
/// As [`clear_address`].
pub fn withdraw_address(path: &Path, address: SocketAddr) -> Result<(), RendezvousError> {
    if peek_address(path)? == Some(address) { clear_address(path) } else { Ok(()) }
}

/// Waits for an address that [`publish_address`] writes.
///
/// # Errors
/// [`RendezvousError::NoAddress`] when there is none in time, [`RendezvousError::System`] when the file cannot be read
/// or holds something else.
pub fn await_address(path: &Path, limit: Duration) -> Result<SocketAddr, RendezvousError> {
    let deadline = Deadline::after(limit);
    loop {
        if let Some(address) = peek_address(path)? {
            return Ok(address);
        }
        let path = || path.display().to_string();
        let left = deadline.remaining().ok_or_else(|| RendezvousError::NoAddress { path: path(), limit })?;
        thread::sleep(POLL.min(left));
    }
}

/// The first bytes of a file, one more than an address may have; `None` where there is no file.
fn read_start(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(metadata) = missing_is_none(fs::metadata(path))? else { return Ok(None) };
    if !metadata.is_file() {
        // Reading a pipe would wait for whoever writes into it.
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
    }
    let Some(file) = missing_is_none(File::open(path))? else { return Ok(None) };
    let mut start = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut start)?;
    Ok(Some(start))
}

fn parse(start: &[u8]) -> io::Result<Option<SocketAddr>> {
    let text = String::from_utf8_lossy(start);
    if text.trim().is_empty() && start.len() <= MAX_BYTES {
        return Ok(None);
    }
    text.trim().parse().map(Some).map_err(|_| {
        let shown: String = text.chars().take(SHOWN).collect();
        let more = if text.chars().nth(SHOWN).is_some() { ".." } else { "" };
        io::Error::new(io::ErrorKind::InvalidData, format!("`{}{more}` is no address", shown.escape_debug()))
    })
}

fn missing_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
