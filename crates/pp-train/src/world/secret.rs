//! The run's secret, as whoever started it gives it: never on a command line, where every user of the machine sees it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use pp_comm::Secret;

use super::environment::Environment;
use crate::args::Args;
use crate::invalid::{Invalid, refuse};

/// How to make one.
pub(super) const HOW: &str = "make one with `openssl rand -hex 32` and give it to every rank in PP_SECRET, or in a file by --secret-file (PP_SECRET_FILE)";

/// The secret that is given, if one is.
pub(super) fn given(args: &Args, env: &Environment) -> Result<Option<Secret>, Invalid> {
    match (env.text("PP_SECRET"), &args.secret_file) {
        (None, None) => Ok(None),
        (Some(hex), None) => {
            Secret::from_hex(hex).map(Some).map_err(|error| Invalid(format!("PP_SECRET: {error}; {HOW}")))
        }
        (None, Some(path)) => Secret::from_file(path).map(Some).map_err(|error| {
            let error = anyhow::Error::from(error);
            Invalid(format!("--secret-file {} (PP_SECRET_FILE): {error:#}; {HOW}", path.display()))
        }),
        (Some(_), Some(path)) => {
            refuse!(
                "PP_SECRET and --secret-file {} (PP_SECRET_FILE) are both given; leave one of them out",
                path.display()
            )
        }
    }
}

/// Writes a secret that nobody knows yet to a new file that nobody else may look at.
pub(super) fn write_new(path: &Path) -> anyhow::Result<()> {
    let secret = Secret::generate()?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(secret.to_hex().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_given_once_and_not_shown() {
        let path = std::env::temp_dir().join(format!("pp-train-secret-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        write_new(&path).unwrap();
        assert!(write_new(&path).is_err(), "it is there");
        let hex = std::fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let given = |env: &[(&str, &str)], flags: &[&str]| {
            let args = Args::from_words(flags.iter().copied()).unwrap();
            given(&args, &env.iter().copied().collect()).map_err(|error| error.to_string())
        };
        assert_eq!(given(&[], &[]), Ok(None));
        let secret = given(&[("PP_SECRET", &hex)], &[]).unwrap();
        assert!(secret.is_some() && given(&[], &["--secret-file", &name]) == Ok(secret));
        let both = given(&[("PP_SECRET", &hex)], &["--secret-file", &name]).unwrap_err();
        assert!(both.contains(&name) && both.contains("leave one of them out") && !both.contains(&hex), "{both}");
        let short = given(&[("PP_SECRET", &hex[1..])], &[]).unwrap_err();
        for part in ["PP_SECRET", "64 hexadecimal digits", "openssl rand -hex 32"] {
            assert!(short.contains(part) && !short.contains(&hex[1..]), "{short}");
        }
        std::fs::remove_file(&path).unwrap();
        let missing = given(&[], &["--secret-file", &name]).unwrap_err();
        assert!(missing.contains("--secret-file") && missing.contains("openssl rand"), "{missing}");
    }
}
