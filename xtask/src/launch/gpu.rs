//! Whether this machine has a GPU, as far as can be told without asking the driver: before ten minutes go into a build for it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the driver's library is called.
const DRIVER: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// Where devices are.
const DEVICES: &str = "/dev";

/// Why nothing can be computed on a GPU here, if that is certain: there is neither a device nor a driver.
pub(crate) fn why_none() -> Option<String> {
    let loader = Command::new("ldconfig").arg("-p").output().map(|output| output.stdout).unwrap_or_default();
    let loader = String::from_utf8_lossy(&loader).into_owned();
    let folders = env::var_os("LD_LIBRARY_PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let is_there = has_device(Path::new(DEVICES)) || has_driver(&loader, &folders.unwrap_or_default());
    (!is_there).then(|| {
        "--device cuda: this machine has no GPU (no /dev/nvidia*) and no CUDA driver (no libcuda.so.1); use --device cpu, or \
         `cargo xtask cuda-build` to build for another machine"
            .to_owned()
    })
}

/// A GPU as Linux names it: `nvidia0`, `nvhost-gpu` on boards, `dxg` under WSL.
fn has_device(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    names.any(|name| {
        name.to_str().is_some_and(|name| name.starts_with("nvidia") || name.starts_with("nvhost") || name == "dxg")
    })
}

/// The driver's library among those that the loader lists, or in folders that it looks into.
fn has_driver(loader: &str, folders: &[PathBuf]) -> bool {
    let is_listed =
        loader.lines().any(|line| line.split_whitespace().next().is_some_and(|name| DRIVER.contains(&name)));
    is_listed || folders.iter().any(|folder| DRIVER.iter().any(|name| folder.join(name).exists()))
}

#[cfg(test)]
mod tests {
    use super::super::scratch::ScratchDir;
    use super::*;

    #[test]
    fn a_device_is_known_by_its_name() {
        let scratch = ScratchDir::new().unwrap();
        assert!(!has_device(scratch.path()));
        fs::write(scratch.path().join("null"), "").unwrap();
        assert!(!has_device(scratch.path()));
        for name in ["nvidia0", "nvidiactl", "nvhost-gpu", "dxg"] {
            let path = scratch.path().join(name);
            fs::write(&path, "").unwrap();
            assert!(has_device(scratch.path()), "{name}");
            fs::remove_file(path).unwrap();
        }
        assert!(!has_device(Path::new("/no/such/folder")));
    }

    #[test]
    fn a_driver_is_where_the_loader_looks() {
        let listed = "1 libs found in cache\n\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1\n";
        assert!(has_driver(listed, &[]));
        assert!(!has_driver("\tlibcudart.so.13 (libc6,x86-64) => /usr/lib/libcudart.so.13\n", &[]));
        let scratch = ScratchDir::new().unwrap();
        let folders = [scratch.path().to_path_buf()];
        assert!(!has_driver("", &folders));
        fs::write(scratch.path().join("libcuda.so.1"), "").unwrap();
        assert!(has_driver("", &folders));
    }
}
