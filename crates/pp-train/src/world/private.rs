//! A directory of this user and no other in the temporary directory, through which the ranks of one host meet.
//!
//! Rank 0 makes it, leaves the run's secret and then its address in it, and removes it once all have joined. If a killed run
//! has left one of the same name, its secret is kept: another rank may have read it already.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use xxhash_rust::xxh3::xxh3_64;

use super::secret;

/// Bits that let others than the owner at a directory.
const OTHERS: u32 = 0o077;

/// The directory of a run; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Private(PathBuf);

impl Private {
    /// Beneath `temp`, under a name made of these words.
    pub(super) fn of(temp: &Path, words: &[String]) -> Self {
        let name = format!("pp-train-{}-{:016x}", geteuid().as_raw(), xxh3_64(words.join("\0").as_bytes()));
        Self(temp.join(name))
    }

    /// Where rank 0 writes its address.
    pub(super) fn address(&self) -> PathBuf {
        self.0.join("address")
    }

    /// Where the secret lies.
    pub(super) fn secret(&self) -> PathBuf {
        self.0.join("secret")
    }

    /// Makes the directory, unless it is there.
    pub(super) fn make(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => self.check().and_then(|there| if there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }),
        }
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// When it is there but somebody else's, or others can get into it.
    pub(super) fn check(&self) -> io::Result<bool> {
        let found = match fs::symlink_metadata(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        let (user, mode) = (found.uid(), found.mode() & 0o777);
        let fault = match () {
            () if !found.is_dir() => "it is no directory".to_owned(),
            () if user != geteuid().as_raw() => format!("it belongs to user {user}"),
            () if mode & OTHERS != 0 => format!("others can get into it (mode {mode:o})"),
            () => return Ok(true),
        };
        let path = self.0.display();
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{path}: {fault}; remove it, or set TMPDIR to a directory of your own"),
        ))
    }

    /// Leaves a secret there, whole or not at all, unless there is one.
    pub(super) fn leave_secret(&self) -> anyhow::Result<()> {
        if self.secret().exists() {
            return Ok(());
        }
        let draft = self.0.join(format!("secret.{}", std::process::id()));
        let _ = fs::remove_file(&draft);
        secret::write_new(&draft)?;
        Ok(fs::rename(&draft, self.secret())?)
    }

    /// Takes everything back.
    pub(super) fn remove(&self) {
        // What stays does no harm: nobody else can read it, and the next run of that name makes use of it.
        let _ = fs::remove_file(self.address());
        let _ = fs::remove_file(self.secret());
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use pp_comm::Secret;

    use super::*;

    #[test]
    fn it_is_made_once_kept_private_and_gone_in_the_end() {
        let temp = std::env::temp_dir();
        let words = |last: &str| ["torchrun".to_owned(), std::process::id().to_string(), last.to_owned()];
        let private = Private::of(&temp, &words("0"));
        assert_ne!(private, Private::of(&temp, &words("1")));
        assert!(!private.check().unwrap());
        private.make().unwrap();
        private.make().unwrap();
        private.leave_secret().unwrap();
        let read = || Secret::from_file(&private.secret()).unwrap();
        let first = read();
        private.leave_secret().unwrap();
        assert_eq!(read(), first, "another rank may have read it");

        fs::set_permissions(&private.0, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(private.make().unwrap_err().to_string().contains("mode 755"));
        fs::set_permissions(&private.0, fs::Permissions::from_mode(0o700)).unwrap();
        private.remove();
        assert!(!private.0.exists());

        symlink(&temp, &private.0).unwrap();
        assert!(private.make().unwrap_err().to_string().contains("no directory"));
        fs::remove_file(&private.0).unwrap();
    }
}
