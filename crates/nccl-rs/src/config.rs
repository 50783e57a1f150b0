//! How a communicator is made.

use std::ffi::{CString, c_char, c_int};
use std::mem::{offset_of, size_of};
use std::ptr;

use cudarc::nccl::sys::ncclConfig_t;

use crate::error::NcclError;
use crate::version::Version;

/// Settings of one communicator. What is `None` is NCCL's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommConfig {
    /// The least thread blocks per kernel. Since NCCL 2.17.
    pub min_ctas: Option<u32>,
    /// The most thread blocks per kernel. Small where many communicators' kernels must be resident together. Since NCCL 2.17.
    pub max_ctas: Option<u32>,
    /// Blocks per cluster. Since NCCL 2.17.
    pub cga_cluster_size: Option<u32>,
    /// The network plugin to use. Since NCCL 2.17.
    pub net_name: Option<String>,
    /// Whether a communicator split off this one shares its resources. Since NCCL 2.18.
    pub split_share: Option<bool>,
    /// What NCCL's own messages call it. Since NCCL 2.27.
    pub name: Option<String>,
}

/// `NCCL_CONFIG_UNDEF_INT`.
const UNDEFINED: c_int = c_int::MIN;
/// `NCCL_API_MAGIC`.
const MAGIC: u32 = 0xcafe_beef;

const fn since(minor: u32) -> Version {
    Version { major: 2, minor, patch: 0 }
}

/// The version whose structure cudarc's is.
const NEWEST: Version = since(30);

/// How long the structure is in each version that made it longer, without what pads it: fields were only ever added at its end.
const LENGTHS: [(Version, usize); 8] = [
    (since(14), offset_of!(ncclConfig_t, cgaClusterSize)),
    (since(17), offset_of!(ncclConfig_t, splitShare)),
    (since(18), offset_of!(ncclConfig_t, trafficClass)),
    (since(26), offset_of!(ncclConfig_t, commName)),
    (since(27), offset_of!(ncclConfig_t, nChannelsPerNetPeer)),
    (since(28), offset_of!(ncclConfig_t, graphUsageMode)),
    (since(29), offset_of!(ncclConfig_t, maxP2pPeers)),
    (since(30), size_of::<ncclConfig_t>()),
];

/// A configuration as NCCL takes it, with the strings that it points to.
#[derive(Debug)]
pub(crate) struct RawConfig {
    raw: ncclConfig_t,
    names: Vec<CString>,
}

impl RawConfig {
    /// Of a communicator whose calls do not block, for the NCCL of that version.
    pub(crate) fn new(call: &'static str, config: &CommConfig, found: Version) -> Result<Self, NcclError> {
        check_versions(config, found)?;
        let mut names = Vec::new();
        let mut text = |name: &str, value: &Option<String>| -> Result<*const c_char, NcclError> {
            let Some(value) = value else { return Ok(ptr::null()) };
            let value = CString::new(value.as_str())
                .map_err(|_| NcclError::Misuse { call, reason: format!("{name} {value:?} holds a NUL") })?;
            // What it points to does not move with the vector.
            let pointer = value.as_ptr();
            names.push(value);
            Ok(pointer)
        };
        let net_name = text("net_name", &config.net_name)?;
        let name = text("name", &config.name)?;
        let mut raw = undefined(found);
        raw.blocking = 0;
        raw.cgaClusterSize = number(call, "cga_cluster_size", config.cga_cluster_size)?;
        raw.minCTAs = number(call, "min_ctas", config.min_ctas)?;
        raw.maxCTAs = number(call, "max_ctas", config.max_ctas)?;
        raw.netName = net_name;
        raw.splitShare = config.split_share.map_or(UNDEFINED, c_int::from);
        raw.commName = name;
        Ok(Self { raw, names })
    }

    /// Where it is. Good for as long as `self` is not moved.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut ncclConfig_t {
        &raw mut self.raw
    }

    /// The strings, for as long as the communicator may look at them.
    pub(crate) fn into_names(self) -> Vec<CString> {
        self.names
    }
}

/// As `NCCL_CONFIG_INITIALIZER` of that version has it; of the newest known where it is newer.
fn undefined(found: Version) -> ncclConfig_t {
    let version = found.min(NEWEST);
    let length = LENGTHS.iter().rev().find(|(since, _)| *since <= version).map_or(LENGTHS[0].1, |(_, length)| *length);
    ncclConfig_t {
        size: length.next_multiple_of(align_of::<ncclConfig_t>()),
        magic: MAGIC,
        version: version.code(),
        blocking: UNDEFINED,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: ptr::null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: ptr::null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
        graphUsageMode: UNDEFINED,
        numRmaCtx: UNDEFINED,
        maxP2pPeers: UNDEFINED,
    }
}

/// A setting that the NCCL that was found would not see is refused: it would be silently without effect.
fn check_versions(config: &CommConfig, found: Version) -> Result<(), NcclError> {
    let asked_for = [
        (config.min_ctas.is_some(), 17),
        (config.max_ctas.is_some(), 17),
        (config.cga_cluster_size.is_some(), 17),
        (config.net_name.is_some(), 17),
        (config.split_share.is_some(), 18),
        (config.name.is_some(), 27),
    ];
    let needed = asked_for.iter().filter(|(is_set, _)| *is_set).map(|(_, minor)| since(*minor)).max();
    match needed {
        Some(minimum) if found < minimum => Err(NcclError::TooOld { found, minimum }),
        _ => Ok(()),
    }
}

fn number(call: &'static str, name: &str, value: Option<u32>) -> Result<c_int, NcclError> {
    let Some(value) = value else { return Ok(UNDEFINED) };
    c_int::try_from(value).map_err(|_| NcclError::Misuse {
        call,
        reason: format!("{name} is {value}, but at most {} can be", c_int::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "ncclCommInitRankConfig";

    fn raw(config: &CommConfig, minor: u32) -> Result<RawConfig, NcclError> {
        RawConfig::new(CALL, config, since(minor))
    }

    /// The sizes are those of the structures in the headers of these versions.
    #[test]
    fn each_version_gets_the_structure_it_knows() {
        let sizes =
            [(14, 24), (16, 24), (17, 40), (18, 48), (25, 48), (26, 48), (27, 72), (28, 80), (29, 88), (30, 96)];
        for (minor, size) in sizes {
            let config = raw(&CommConfig::default(), minor).unwrap().raw;
            assert_eq!((config.size, config.version), (size, since(minor).code()), "2.{minor}");
            assert_eq!((config.magic, config.blocking, config.maxCTAs), (MAGIC, 0, i32::MIN));
            assert!(config.netName.is_null() && config.commName.is_null());
        }
    }

    #[test]
    fn a_newer_version_gets_the_newest_structure_known() {
        let config = RawConfig::new(CALL, &CommConfig::default(), since(99)).unwrap().raw;
        assert_eq!((config.size, config.version), (size_of::<ncclConfig_t>(), NEWEST.code()));
    }

    #[test]
    fn settings_are_passed_on() {
        let config = CommConfig {
            min_ctas: Some(1),
            max_ctas: Some(4),
            cga_cluster_size: Some(2),
            net_name: Some("Socket".into()),
            split_share: Some(true),
            name: Some("pp".into()),
        };
        let made = raw(&config, 30).unwrap();
        let given = made.raw;
        assert_eq!((given.minCTAs, given.maxCTAs, given.cgaClusterSize, given.splitShare), (1, 4, 2, 1));
        assert_eq!((given.netName, given.commName), (made.names[0].as_ptr(), made.names[1].as_ptr()));
        assert_eq!(made.names, [c"Socket".to_owned(), c"pp".to_owned()]);
    }

    #[test]
    fn a_setting_the_version_would_not_see_is_refused() {
        let config = CommConfig { name: Some("pp".into()), max_ctas: Some(2), ..CommConfig::default() };
        let error = raw(&config, 26).unwrap_err();
        assert_eq!(error, NcclError::TooOld { found: since(26), minimum: since(27) });
        assert!(raw(&config, 27).is_ok());
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let large = CommConfig { max_ctas: Some(u32::MAX), ..CommConfig::default() };
        let text = raw(&large, 30).unwrap_err().to_string();
        assert_eq!(text, "ncclCommInitRankConfig: max_ctas is 4294967295, but at most 2147483647 can be");
        let cut = CommConfig { name: Some("a\0b".into()), ..CommConfig::default() };
        assert!(matches!(raw(&cut, 30), Err(NcclError::Misuse { call: CALL, .. })));
    }
}
