//! `cargo xtask cuda-build` on machines that lack something, and `cargo xtask gpu-check` with and without a GPU, played by a script.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cuda-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder of its own");
    folder
}

fn xtask(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments).env_remove("CUDA_HOME").env_remove("CUDA_PATH").env_remove("LD_LIBRARY_PATH");
    command
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A folder that as a PATH has nothing but two compilers.
fn compilers(folder: &Path) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for name in ["cc", "c++"] {
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
        symlink(found.expect("a compiler, without which Rust links nothing"), folder.join(name)).expect("linked");
    }
    folder.to_path_buf()
}

#[test]
fn cuda_build_says_in_one_line_that_there_is_no_compiler() {
    let target = folder("no-compiler");
    let output = xtask(&["cuda-build", "--dir"]).arg(&target).env("PATH", "").output().expect("it starts");
    let (code, _, stderr) = said(&output);
    assert_eq!((code, stderr.as_str()), (Some(1), "error: there is no cc on the PATH: it links the binaries\n"));
}

#[test]
fn cuda_build_says_in_one_line_that_there_is_neither_a_toolkit_nor_python() {
    let (target, path) = (folder("no-python"), compilers(&folder("compilers")));
    let output = xtask(&["cuda-build", "--dir"]).arg(&target).env("PATH", path).output().expect("it starts");
    let (code, _, stderr) = said(&output);
    assert_eq!((code, stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.starts_with("error: there is no CUDA toolkit of 13.x and no python3 on the PATH"), "{stderr}");
}

/// A `pp-gpu-check` that counts so many GPUs, and otherwise writes down what it was given and ends with that code.
fn played(folder: &Path, n_devices: u32, code: u8) -> PathBuf {
    let file = folder.join("pp-gpu-check");
    let count = format!("if [ \"$1\" = --count-devices ]; then echo {n_devices}; exit; fi");
    let script = format!("#!/bin/sh\n{count}\necho \"$@\" > '{}/given'\nexit {code}\n", folder.display());
    fs::write(&file, script).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("made a program");
    file
}

/// Files named like the libraries of a machine with a GPU. The script that is started loads none of them.
fn libraries(folder: &Path) {
    let names = ["libcuda.so.1", "libcublas.so.13", "libcublasLt.so.13", "libcudart.so.13", "libcurand.so.10"];
    for name in names.into_iter().chain(["libnvrtc.so.13", "libnccl.so.2"]) {
        fs::write(folder.join(name), "").expect("written");
    }
}

#[test]
fn gpu_check_without_a_gpu_runs_nothing_and_says_that_it_counts_as_nothing() {
    let folder = folder("no-gpu");
    let output = xtask(&["gpu-check", "--binary"]).arg(played(&folder, 0, 9)).output().expect("it starts");
    let (code, stdout, stderr) = said(&output);
    assert_eq!((code, stdout.lines().count()), (Some(0), 1), "{stdout}{stderr}");
    assert!(stdout.starts_with("no GPU: ") && stdout.contains("this counts as nothing"), "{stdout}");
    assert!(!folder.join("given").exists());
}

#[test]
fn gpu_check_with_a_gpu_runs_the_binary_and_passes_its_failure_on() {
    for code in [0, 1] {
        let folder = folder(&format!("gpu-{code}"));
        libraries(&folder);
        let mut command = xtask(&["gpu-check", "--json", "out.json", "--binary"]);
        command.arg(played(&folder, 1, code)).env("LD_LIBRARY_PATH", &folder);
        let (ended, stdout, stderr) = said(&command.output().expect("it starts"));
        assert_eq!((ended, stdout.as_str()), (Some(i32::from(code)), "1 GPU found\n"), "{stderr}");
        assert_eq!(stderr.contains("pp-gpu-check found failures"), code == 1, "{stderr}");
        assert_eq!(fs::read_to_string(folder.join("given")).expect("it ran"), "--device 0 --json out.json\n");
    }
}

#[test]
fn gpu_check_refuses_a_gpu_that_there_is_not() {
    let folder = folder("second-gpu");
    libraries(&folder);
    let mut command = xtask(&["gpu-check", "--device", "1", "--binary"]);
    command.arg(played(&folder, 1, 0)).env("LD_LIBRARY_PATH", &folder);
    let (code, _, stderr) = said(&command.output().expect("it starts"));
    assert_eq!((code, stderr.as_str()), (Some(2), "error: --device 1: the last GPU that this process may see is 0\n"));
}
