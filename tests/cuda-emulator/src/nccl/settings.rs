//! What the environment sets for NCCL's half.

use std::sync::OnceLock;
use std::time::Duration;

use super::kinds::Refusal;
use crate::fault;

/// Sets the version that NCCL says, as its code.
pub const VERSION_VAR: &str = "CUDA_EMULATOR_NCCL_VERSION";

/// Sets after how many seconds an operation that does not come about is reported; never, if not set.
pub const STUCK_VAR: &str = "CUDA_EMULATOR_STUCK_S";

/// As NCCL itself has it: set to 1, several ranks of a communicator may share a device.
pub const SHARED_DEVICE_VAR: &str = "NCCL_MULTI_RANK_GPU_ENABLE";

/// Where [`VERSION_VAR`] is not set.
const VERSION: i32 = 23_004;

/// How long a call that blocks waits for other ranks: longer than any test, but not for ever.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// What the environment said at the first use.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) version: i32,
    pub(crate) stuck: Option<Duration>,
    pub(crate) shared_device: bool,
}

/// What the environment says.
///
/// # Errors
/// A value that is not understood, also among the faults.
pub(crate) fn settings() -> Result<&'static Settings, Refusal> {
    static SETTINGS: OnceLock<Result<Settings, String>> = OnceLock::new();
    SETTINGS.get_or_init(|| read(|name| std::env::var(name).ok())).as_ref().map_err(|text| Refusal::usage(text.clone()))
}

fn read(var: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
    let version = match (fault::asked()?.version(), var(VERSION_VAR)) {
        (Some(version), _) => version,
        (None, None) => VERSION,
        (None, Some(text)) => match text.parse() {
            Ok(version) if version > 0 => version,
            _ => return Err(format!("{VERSION_VAR}={text:?} is no version code, such as {VERSION}")),
        },
    };
    let stuck = match var(STUCK_VAR) {
        None => None,
        Some(text) => match text.parse().map(Duration::try_from_secs_f64) {
            Ok(Ok(limit)) if !limit.is_zero() => Some(limit),
            _ => return Err(format!("{STUCK_VAR}={text:?} is no number of seconds, such as 2 or 0.5")),
        },
    };
    Ok(Settings { version, stuck, shared_device: var(SHARED_DEVICE_VAR).as_deref() == Some("1") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_strictly() {
        let of =
            |name: &'static str, value: &'static str| read(move |asked| (asked == name).then(|| value.to_string()));
        assert_eq!(of(VERSION_VAR, "22907").unwrap().version, 22_907);
        assert_eq!(of(STUCK_VAR, "0.5").unwrap().stuck, Some(Duration::from_millis(500)));
        assert_eq!(of("", "").unwrap().version, VERSION);
        assert!(
            of(SHARED_DEVICE_VAR, "1").unwrap().shared_device && !of(SHARED_DEVICE_VAR, "0").unwrap().shared_device
        );
        for (name, value) in
            [(VERSION_VAR, "2.30"), (VERSION_VAR, "-1"), (STUCK_VAR, "soon"), (STUCK_VAR, "0"), (STUCK_VAR, "inf")]
        {
            assert!(of(name, value).unwrap_err().starts_with(&format!("{name}={value:?}")));
        }
    }
}
