//! What the environment changes, each in a process of its own.

use std::process::Command;

use super::*;

/// Says that this is the process for one of the tests below.
const CHILD_VAR: &str = "CUDA_EMULATOR_TEST_CHILD";

/// Runs a test of this binary in a process of its own.
fn run(test: &str, variables: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD_VAR, "1").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn is_child() -> bool {
    std::env::var_os(CHILD_VAR).is_some()
}

#[test]
fn threads_know_of_each_other_if_asked() {
    if !is_child() {
        return run("driver::tests::process::threads_know_of_each_other_if_asked", &[(HOST_VAR, "process")]);
    }
    let bench = Bench::new();
    let (a, b, buffer) = (bench.stream(), bench.stream(), bench.buffer(64));
    write(a, buffer, 64).unwrap();
    let (say, said) = channel();
    let (end, ended) = channel::<()>();
    let context = bench.context;
    let other = std::thread::spawn(move || {
        set_current(Some(context)).unwrap();
        synchronize_stream(a).unwrap();
        say.send(()).unwrap();
        ended.recv_timeout(LIMIT)
    });
    said.recv_timeout(LIMIT).unwrap();
    write(b, buffer, 64).unwrap();
    bench.assert_fine();
    end.send(()).unwrap();
    other.join().unwrap().unwrap();
}

#[test]
fn how_threads_know_of_each_other_must_be_understood() {
    if !is_child() {
        return run("driver::tests::process::how_threads_know_of_each_other_must_be_understood", &[(HOST_VAR, "all")]);
    }
    let error = init().unwrap_err();
    assert_eq!(
        (error.code, error.text.as_str()),
        (Code::InvalidValue, "CUDA_EMULATOR_HOST=all: must be thread or process")
    );
}

#[test]
fn reports_go_to_the_file_that_is_named() {
    let path = std::env::temp_dir().join(format!("cuda-emulator-report-{}", std::process::id()));
    if !is_child() {
        let name = path.to_str().unwrap();
        run("driver::tests::process::reports_go_to_the_file_that_is_named", &[(report::REPORT_VAR, name)]);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let blocks: Vec<_> = text.split_terminator("\n\n").collect();
        assert_eq!(blocks.len(), 1 + 4 * 50, "{text}");
        assert!(blocks.iter().all(|block| block.starts_with("violation: ")), "{text}");
        assert!(blocks[0].starts_with("violation: leak\n"), "{text}");
        for part in ["buffers 1, streams 1, events 1", "of 64 bytes on device 0", "process.rs:", "event made"] {
            assert!(blocks[0].contains(part), "no {part:?} in {text}");
        }
        return;
    }
    let bench = Bench::new();
    let (stream, _) = (bench.stream(), allocate(64).unwrap());
    event_after(stream);
    drop(bench);
    let threads: Vec<_> =
        (0..4).map(|_| std::thread::spawn(|| (0..50).for_each(|_| fail_context("kind\na\nb")))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn the_number_of_devices_is_as_asked() {
    if !is_child() {
        return run("driver::tests::process::the_number_of_devices_is_as_asked", &[(DEVICES_VAR, "3")]);
    }
    init().unwrap();
    assert_eq!((n_devices(), device(2)), (Ok(3), Ok(2)));
    assert_eq!(device(3).unwrap_err().code, Code::InvalidDevice);
}

#[test]
fn without_devices_the_driver_does_not_start() {
    for n in ["0", "many", "65"] {
        if !is_child() {
            run("driver::tests::process::without_devices_the_driver_does_not_start", &[(DEVICES_VAR, n)]);
            continue;
        }
        assert_eq!(init().unwrap_err().code, Code::NoDevice);
        assert_eq!(n_devices().unwrap_err().code, Code::NotInitialized);
    }
}

#[test]
fn work_that_hangs_does_not_keep_the_process() {
    if !is_child() {
        return run("driver::tests::process::work_that_hangs_does_not_keep_the_process", &[]);
    }
    let bench = Bench::new();
    let stream = bench.stream();
    launch_host(stream, Box::new(|| std::thread::sleep(Duration::from_secs(3600)))).unwrap();
    std::mem::forget(bench);
}
