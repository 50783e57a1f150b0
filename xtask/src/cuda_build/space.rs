//! Whether there is room on the disk.

use std::path::Path;

use anyhow::bail;

/// What the toolkit takes, while its wheels are unpacked too, and then the build, in bytes.
pub(super) const NEEDED: u64 = 4 << 30;

/// # Errors
/// That there is less than is needed.
pub(super) fn check(folder: &Path) -> anyhow::Result<()> {
    // Where the system does not tell, what fails says so itself.
    rustix::fs::statvfs(folder).map_or(Ok(()), |facts| enough(folder, facts.f_bavail.saturating_mul(facts.f_frsize)))
}

fn enough(folder: &Path, free: u64) -> anyhow::Result<()> {
    if free < NEEDED {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        bail!(
            "{} has {:.1} GB of free space, but a CUDA toolkit and the build need about {:.0} GB; make room, or name another \
             folder with --dir",
            folder.display(),
            gb(free),
            gb(NEEDED)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_said_in_one_line() {
        let error = enough(Path::new("/x"), 1_500_000_000).unwrap_err().to_string();
        assert!(error.starts_with("/x has 1.5 GB of free space, but") && error.contains("need about 4 GB"), "{error}");
        assert!(!error.contains('\n'));
        enough(Path::new("/x"), NEEDED).unwrap();
    }
}
