//! What all ranks of a run know and nobody else.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use zeroize::Zeroize;

/// Bytes of a secret.
const LEN: usize = 32;

/// What others than the owner must not have of a secret's file.
const OTHERS: u32 = 0o077;

/// A key of 256 bits. It shows itself to nobody: neither in messages nor in `{:?}`; dropped, it is wiped from memory.
#[derive(Clone)]
pub struct Secret([u8; LEN]);

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// A text that is no secret; it is not shown, for it may nearly be one.
    #[error("a secret is {} hexadecimal digits, but this text has {n_chars} characters, {n_digits} of them such digits", 2 * LEN)]
    Text {
        /// How many characters it has.
        n_chars: usize,
        /// How many of them are hexadecimal digits.
        n_digits: usize,
    },
    /// A file that others may read.
    #[error(
        "{path} has the permissions {mode:03o}, so others may know the secret in it; `chmod 600 {path}` makes it safe"
    )]
    Exposed {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
    /// A file of another user.
    #[error(
        "{path} belongs to user {owner}, but this process to user {user}; only the user's own file holds a secret: copy \
         it and `chmod 600` the copy"
    )]
    Foreign {
        /// The file.
        path: String,
        /// Whose it is.
        owner: u32,
        /// Whose this process is.
        user: u32,
    },
    /// The system refused something.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl SecretError {
    fn system(what: String) -> impl FnOnce(io::Error) -> Self {
        |source| Self::System { what, source }
    }
}

impl Secret {
    /// From its bytes.
    pub const fn new(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// A new one, from the system's randomness.
    ///
    /// # Errors
    /// [`SecretError::System`] where the system has none.
    pub fn generate() -> Result<Self, SecretError> {
        let mut secret = Self([0; LEN]);
        let filled = getrandom::fill(&mut secret.0).map_err(io::Error::other);
        filled.map_err(SecretError::system("make a secret".to_owned()))?;
        Ok(secret)
    }

    /// From 64 hexadecimal digits, as [`Secret::to_hex`] gives them; space around them does not count.
    ///
    /// # Errors
    /// [`SecretError::Text`].
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        let mut secret = Self([0; LEN]);
        let mut n_digits = 0;
        for (index, digit) in text.chars().map(|char| char.to_digit(16)).enumerate() {
            let (Some(digit), true) = (digit, index < 2 * LEN) else { continue };
            n_digits += 1;
            secret.0[index / 2] |= (digit as u8) << if index % 2 == 0 { 4 } else { 0 };
        }
        let n_chars = text.chars().count();
        if (n_chars, n_digits) == (2 * LEN, 2 * LEN) {
            Ok(secret)
        } else {
            Err(SecretError::Text { n_chars, n_digits })
        }
    }

    /// From a file that holds it as hexadecimal digits, that belongs to the user of this process, and that nobody else
    /// may read or write (mode 0600 or stricter).
    ///
    /// # Errors
    /// [`SecretError`], with what makes the file fit.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let shown = || path.display().to_string();
        let cannot = || SecretError::system(format!("read the secret in {}", path.display()));
        // Opening a pipe would wait for whoever writes into it.
        if !fs::metadata(path).map_err(cannot())?.is_file() {
            return Err(cannot()(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file")));
        }
        let file = File::open(path).map_err(cannot())?;
        // Of the file that is open: the name may mean another by now.
        let metadata = file.metadata().map_err(cannot())?;
        let (mode, owner, user) = (metadata.mode() & 0o777, metadata.uid(), rustix::process::geteuid().as_raw());
        if owner != user {
            return Err(SecretError::Foreign { path: shown(), owner, user });
        }
        if mode & OTHERS != 0 {
            return Err(SecretError::Exposed { path: shown(), mode });
        }
        let mut text = String::new();
        file.take(4 * LEN as u64).read_to_string(&mut text).map_err(cannot())?;
        let secret = Self::from_hex(&text);
        text.zeroize();
        secret
    }

    /// As 64 hexadecimal digits, for whoever hands it to the ranks.
    pub fn to_hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(2 * LEN), |text, byte| text + &format!("{byte:02x}"))
    }

    pub(super) const fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for Secret {
    /// Takes as long wherever they differ.
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differences, (ours, theirs)| differences | (ours ^ theirs)) == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_survives_as_text_and_shows_itself_nowhere_else() {
        let secret = Secret::generate().expect("the system has randomness");
        assert_ne!(secret, Secret::generate().expect("the system has randomness"));
        let text = secret.to_hex();
        assert_eq!((text.len(), Secret::from_hex(&format!(" {text}\n")).ok()), (64, Some(secret.clone())));
        assert_eq!(Secret::from_hex(&text.to_uppercase()).ok(), Some(secret.clone()));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        let mut bytes = [0; LEN];
        bytes[0] = 0x1f;
        bytes[LEN - 1] = 0x0a;
        assert!(Secret::new(bytes).to_hex().starts_with("1f00") && Secret::new(bytes).to_hex().ends_with("000a"));
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replacen(|_: char| true, "g", 1), "äöü"] {
            let error = Secret::from_hex(wrong).expect_err("no secret").to_string();
            assert!(error.contains("64 hexadecimal digits") && (wrong.is_empty() || !error.contains(wrong)), "{error}");
        }
    }
}
