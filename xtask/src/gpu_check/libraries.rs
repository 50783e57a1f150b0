//! Where the CUDA libraries are that a binary needs: the system's, a toolkit's, or those of PyTorch's wheels.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use crate::cuda_build::{lazy, tools};
use crate::workspace::root;

/// Where the loader looks first.
pub(super) const VARIABLE: &str = "LD_LIBRARY_PATH";
/// Opened beside CUDA's own.
const NCCL: &str = "libnccl.so.2";
/// Prints the folders of libraries of NVIDIA's wheels, which PyTorch's CUDA wheels bring along.
const OF_WHEELS: &str = "
import glob, os
try:
    import nvidia
    for place in nvidia.__path__:
        for folder in sorted(glob.glob(os.path.join(place, '*', 'lib'))):
            print(folder)
except ImportError:
    pass
";

/// Folders that may have the libraries, most telling first.
pub(super) fn known_folders() -> Vec<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let toolkits = toolkits.chain(["/usr/local/cuda-13", "/usr/local/cuda"].map(PathBuf::from));
    let mut folders: Vec<PathBuf> = toolkits.map(|home| home.join("lib64")).collect();
    folders.extend(["/usr/lib/x86_64-linux-gnu", "/usr/lib64"].map(PathBuf::from));
    let own = root().join("target").join("cuda").join("venv").join("bin").join("python");
    let pythons = [Some(own).filter(|python| python.is_file()), tools::on_path("python3")];
    for python in pythons.into_iter().flatten() {
        // A Python that does not work has no wheels.
        let said = tools::said(Command::new(python).args(["-c", OF_WHEELS]), "python3").unwrap_or_default();
        folders.extend(said.lines().map(PathBuf::from));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// What `LD_LIBRARY_PATH` is to be for the binary; nothing where it is right as it is.
///
/// # Errors
/// In one line: which libraries are nowhere.
pub(super) fn search_path(folders: &[PathBuf]) -> anyhow::Result<Option<OsString>> {
    // The driver, the first, was opened already, and must never be taken from elsewhere.
    let names: Vec<String> = lazy::OPENED[1..].iter().chain([&NCCL]).map(|&name| name.to_owned()).collect();
    let given: Vec<PathBuf> =
        std::env::var_os(VARIABLE).map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let added = to_add(&names, &cached(), &given, folders)?;
    if added.is_empty() {
        return Ok(None);
    }
    Ok(std::env::join_paths(given.into_iter().chain(added)).ok())
}

/// The folders that must be searched too, where the loader's cache has some names and folders that are searched already have some.
fn to_add(names: &[String], cached: &[String], given: &[PathBuf], folders: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut added: Vec<PathBuf> = Vec::new();
    let mut missing = Vec::new();
    for name in names {
        let has = |folder: &&PathBuf| folder.join(name).exists();
        if cached.contains(name) || given.iter().chain(&added).any(|folder| has(&folder)) {
            continue;
        }
        match folders.iter().find(has) {
            Some(folder) => added.push(folder.clone()),
            None => missing.push(name.as_str()),
        }
    }
    if !missing.is_empty() {
        let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        bail!(
            "{} not found; looked in {}{}; CUDA 13's toolkit with NCCL or PyTorch's wheels for CUDA 13 have them, and {VARIABLE} \
             may name their folder",
            missing.join(", "),
            "the loader's cache",
            looked.iter().map(|folder| format!(", {folder}")).collect::<String>()
        );
    }
    Ok(added)
}

/// The names in the loader's cache.
pub(super) fn cached() -> Vec<String> {
    let ldconfig = ["/sbin/ldconfig", "/usr/sbin/ldconfig"].iter().map(PathBuf::from).find(|file| file.is_file());
    let Some(ldconfig) = ldconfig.or_else(|| tools::on_path("ldconfig")) else { return Vec::new() };
    let said = tools::said(Command::new(ldconfig).arg("-p"), "ldconfig").unwrap_or_default();
    names_in_cache(&said)
}

/// An entry: `libcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1`, after a tab.
fn names_in_cache(said: &str) -> Vec<String> {
    let entries = said.lines().filter_map(|line| line.trim().split_once(" ("));
    // Those of another architecture are of no use: `(libc6)` alone is of 32 bits.
    let of_64_bits = |rest: &str| rest.split(')').next().is_some_and(|flags| flags.contains("64"));
    entries.filter(|(_, rest)| of_64_bits(rest)).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda_build::scratch::Scratch;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn the_loaders_cache_is_read() {
        let said = "2 libs found in cache `/etc/ld.so.cache'\n\tlibz.so.1 (libc6,x86-64) => /lib/libz.so.1\n\
                    \tlibm.so.6 (libc6) => /lib32/libm.so.6\n";
        assert_eq!(names_in_cache(said), ["libz.so.1"]);
    }

    #[test]
    fn only_folders_that_are_needed_are_added_each_once() {
        let scratch = Scratch::new();
        let folder = |name: &str, libraries: &[&str]| {
            let folder = scratch.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            for library in libraries {
                std::fs::write(folder.join(library), "").unwrap();
            }
            folder
        };
        let given = folder("given", &["liba.so.1"]);
        let (one, two) = (folder("one", &["liba.so.1", "libb.so.1", "libc.so.1"]), folder("two", &["libd.so.1"]));
        let folders = [one.clone(), two.clone()];
        let add =
            |names: &[&str]| to_add(&owned(names), &owned(&["libz.so.1"]), std::slice::from_ref(&given), &folders);
        assert_eq!(add(&["liba.so.1", "libz.so.1"]).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(add(&["libb.so.1", "libc.so.1", "libd.so.1"]).unwrap(), [one, two]);
        let error = add(&["libb.so.1", "libx.so.1", "liby.so.1"]).unwrap_err().to_string();
        assert!(error.starts_with("libx.so.1, liby.so.1 not found; looked in the loader's cache, "), "{error}");
    }
}
