//! The run's secret, as whoever started it gives it: never on a command line, where every user of the machine sees it.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use pp_comm::Secret;

use super::environment::Environment;
use crate::args::Args;
use crate::invalid::{Invalid, refuse};

/// Bytes of a secret.
const LEN: usize = 32;
/// Bits that let others than the owner at a file.
const OTHERS: u32 = 0o077;
/// How to make one.
pub(super) const HOW: &str = "make one with `openssl rand -hex 32` and give it to every rank in PP_SECRET, or in a file by --secret-file (PP_SECRET_FILE)";

/// The secret that is given, if one is.
pub(super) fn given(args: &Args, env: &Environment) -> Result<Option<Secret>, Invalid> {
    match (env.text("PP_SECRET"), &args.secret_file) {
        (None, None) => Ok(None),
        (Some(hex), None) => match parse(hex) {
            Some(secret) => Ok(Some(secret)),
            // It is not shown: most of it may be right.
            None => refuse!(
                "PP_SECRET is not {} hexadecimal digits, but has {} characters; {HOW}",
                2 * LEN,
                hex.chars().count()
            ),
        },
        (None, Some(path)) => read(path)
            .map(Some)
            .map_err(|why| Invalid(format!("--secret-file {} (PP_SECRET_FILE) {why}; {HOW}", path.display()))),
        (Some(_), Some(path)) => {
            refuse!(
                "PP_SECRET and --secret-file {} (PP_SECRET_FILE) are both given; leave one of them out",
                path.display()
            )
        }
    }
}

/// Reads a secret from a file that nobody else may look at.
pub(super) fn read(path: &Path) -> Result<Secret, String> {
    // Opening a pipe would wait for whoever writes to it.
    if !fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.is_file() {
        return Err("is no regular file".to_owned());
    }
    let file = OpenOptions::new().read(true).open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let found = file.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    if found.mode() & OTHERS != 0 {
        return Err(format!(
            "can be used by others (mode {:o}); take that from them with `chmod 600`",
            found.mode() & 0o777
        ));
    }
    let mut text = String::new();
    let read = file.take(2 * LEN as u64 + 2).read_to_string(&mut text);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    parse(text.trim_end()).ok_or_else(|| format!("does not hold {} hexadecimal digits", 2 * LEN))
}

/// Writes a secret that nobody knows yet to a new file that nobody else may look at.
pub(super) fn write_new(path: &Path) -> std::io::Result<()> {
    use std::io::Write;
    let mut bytes = [0; LEN];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(hex.as_bytes())
}

fn parse(hex: &str) -> Option<Secret> {
    let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect();
    (digits.len() == 2 * LEN).then(|| bytes.try_into().ok().map(Secret::new)).flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_64_digits_and_is_not_shown() {
        let hex = "00ff".repeat(16);
        let expected: Vec<u8> = [0, 255].repeat(16);
        assert_eq!(parse(&hex), Some(Secret::new(expected.try_into().unwrap())));
        assert_eq!(parse(&hex.to_uppercase()), parse(&hex));
        for wrong in ["", "00ff", &"0".repeat(63), &"0".repeat(65), &"0x".repeat(32), &"é".repeat(32)] {
            assert_eq!(parse(wrong), None, "{wrong}");
            let env: Environment = [("PP_SECRET", wrong)].into_iter().collect();
            let error = given(&Args::from_words([]).unwrap(), &env);
            match error {
                Ok(secret) => assert!(wrong.is_empty() && secret.is_none()),
                Err(error) => {
                    let error = error.to_string();
                    assert!(
                        error.contains("64 hexadecimal digits") && error.contains("openssl rand -hex 32"),
                        "{error}"
                    );
                    assert!(!error.contains(wrong), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_file_with_a_secret_is_for_its_owner_alone() {
        let path = std::env::temp_dir().join(format!("pp-train-secret-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        write_new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let first = read(&path).unwrap();
        assert!(write_new(&path).is_err(), "it is there");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&path).unwrap_err().contains("mode 640"));
        fs::remove_file(&path).unwrap();
        write_new(&path).unwrap();
        assert_ne!(read(&path).unwrap(), first);
        fs::write(&path, "00").unwrap();
        assert!(read(&path).unwrap_err().contains("64 hexadecimal digits"));
        fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap_err().contains("cannot be read"));
        assert!(read(Path::new("/dev/null")).unwrap_err().contains("no regular file"));
    }
}
