//! Which processes a job has, found by a word in their environment. Linux only.

use std::fs;

/// The variable that every process of a job inherits; its value is the job's own.
pub const JOB: &str = "PP_TEST_JOB";

/// A living process of a job.
#[derive(Debug)]
pub struct Process {
    /// Its process id.
    pub pid: i32,
    /// Its `PP_RANK`; the launcher has none.
    pub rank: Option<u32>,
}

/// The job's processes that have not ended. One that has ended but was not waited for has no environment any more.
pub fn of_job(token: &str) -> Vec<Process> {
    let mark = format!("{JOB}={token}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let variables: Vec<&str> = environment.split(|&byte| byte == 0).flat_map(std::str::from_utf8).collect();
        let rank = variables.iter().find_map(|variable| variable.strip_prefix("PP_RANK=")?.parse().ok());
        variables.contains(&mark.as_str()).then_some(Process { pid, rank })
    })
    .collect()
}

/// Whether this process, and so what it starts, is to ignore SIGHUP.
pub fn hangup_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}
