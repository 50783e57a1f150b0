//! Which crates may depend on which, asked of `cargo tree`.

use std::collections::BTreeSet;

use anyhow::{Context, bail};

use super::Passed;
use crate::workspace::cargo;

/// A crate with some of its features, and what must not be found beneath it.
struct Ban {
    package: &'static str,
    features: &'static str,
    banned: &'static [&'static str],
    why: &'static str,
}

const BANS: [Ban; 6] = [
    Ban { package: "pp-schedule", features: "", banned: &["candle"], why: "the schedule core knows no tensors" },
    Ban { package: "nccl-rs", features: "", banned: &["candle"], why: "NCCL is usable without a tensor library" },
    Ban { package: "nccl-rs", features: "nccl", banned: &["candle"], why: "NCCL is usable without a tensor library" },
    Ban { package: "pp-comm", features: "", banned: &["candle"], why: "messages are bytes" },
    Ban { package: "pp-comm", features: "nccl", banned: &["candle"], why: "messages are bytes, on GPUs too" },
    Ban { package: "xtask", features: "", banned: &["candle", "pp-model", "pp-train"], why: "xtask builds in seconds" },
];

/// All that may stand beneath pp-schedule with its default features; the last five belong to thiserror's macro.
const BENEATH_SCHEDULE: [&str; 8] =
    ["pp-schedule", "thiserror", "xxhash-rust", "thiserror-impl", "proc-macro2", "quote", "syn", "unicode-ident"];

/// What a fresh machine with only a Rust toolchain does not have: CUDA, MPI, libclang, Python.
const NOT_BY_DEFAULT: [&str; 6] = ["cudarc", "mpi", "bindgen", "clang-sys", "pyo3", "nccl"];

pub(super) fn check() -> anyhow::Result<Passed> {
    let mut broken = Vec::new();
    for Ban { package, features, banned, why } in BANS {
        let beneath = tree(&["--package", package, "--features", features, "--edges", "normal"])?;
        for name in beneath.iter().filter(|name| banned.iter().any(|family| is_of(name, family))) {
            broken.push(format!("{package} depends on {name}, but {why}; see `cargo tree -i {name} -p {package}`"));
        }
    }
    for name in tree(&["--package", "pp-schedule", "--edges", "normal"])? {
        if !BENEATH_SCHEDULE.contains(&name.as_str()) {
            broken.push(format!("pp-schedule depends on {name}, which is not on its list of allowed packages"));
        }
    }
    for name in tree(&["--workspace", "--edges", "normal,build"])? {
        if NOT_BY_DEFAULT.iter().any(|family| name != "nccl-rs" && is_of(&name, family)) {
            broken.push(format!("the default build contains {name}, which a plain Rust machine cannot build or run"));
        }
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(Passed::Plainly)
}

/// The package itself or one of its parts: `candle` has `candle-core`, `mpi` has `mpi-sys`.
fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

/// The names in a dependency tree.
fn tree(selection: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let mut command = cargo();
    command.args(["tree", "--locked", "--prefix", "none", "--format", "{p}"]).args(selection);
    let output = command.output().context("cannot start cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout).context("cargo tree prints UTF-8")?;
    Ok(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_a_name_and_its_parts() {
        assert!(is_of("candle-core", "candle") && is_of("mpi", "mpi") && is_of("pyo3_ffi", "pyo3"));
        assert!(!is_of("candlelight", "candle") && !is_of("my-mpi", "mpi"));
    }

    #[test]
    fn a_tree_names_the_package_and_what_is_beneath_it() {
        let names = tree(&["--package", "pp-schedule", "--edges", "normal"]).unwrap();
        assert!(names.contains("pp-schedule") && names.contains("thiserror"), "{names:?}");
    }
}
