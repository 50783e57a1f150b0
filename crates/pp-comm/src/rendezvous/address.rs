//! Passing on the host's address through a file, for ranks that are started before it is known.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::RendezvousError;
use crate::deadline::Deadline;

/// Pause between two looks for the file.
const POLL: Duration = Duration::from_millis(5);

/// Writes an address where [`await_address`] looks for it: at once or not at all, so that nobody reads half of it.
///
/// # Errors
/// [`RendezvousError::System`].
pub fn publish_address(path: &Path, address: SocketAddr) -> Result<(), RendezvousError> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let written = fs::write(&draft, address.to_string()).and_then(|()| fs::rename(&draft, path));
    written.map_err(RendezvousError::system(format!("write the host's address to {}", path.display())))
}

/// Waits for an address that [`publish_address`] writes.
///
/// # Errors
/// [`RendezvousError::NoAddress`] when there is none in time, [`RendezvousError::System`] when the file cannot be read
/// or holds something else.
pub fn await_address(path: &Path, limit: Duration) -> Result<SocketAddr, RendezvousError> {
    let deadline = Deadline::after(limit);
    loop {
        match fs::read_to_string(path) {
            Ok(text) => {
                let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, format!("`{text}`: {error}"));
                let what = format!("read the host's address from {}", path.display());
                return text.trim().parse().map_err(invalid).map_err(RendezvousError::system(what));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let what = format!("read the host's address from {}", path.display());
                return Err(RendezvousError::system(what)(error));
            }
        }
        let path = || path.display().to_string();
        let left = deadline.remaining().ok_or_else(|| RendezvousError::NoAddress { path: path(), limit })?;
        thread::sleep(POLL.min(left));
    }
}
