//! Memory on the device with contents that can be told from others.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use nccl_rs::{DeviceBytes, DeviceMemory, Stream};

/// The sizes of messages, in bytes: within a packet, within a buffer, and more than any buffer on the way holds.
pub(super) const SIZES: [usize; 3] = [64, 1 << 20, 64 << 20];

/// Bytes that say who made them: neighbours and seeds differ.
pub(super) fn bytes(n_bytes: usize, seed: u8) -> Vec<u8> {
    // 251 is prime: no power of two repeats it.
    (0..n_bytes).map(|index| (index % 251) as u8 ^ seed.wrapping_mul(37)).collect()
}

/// The same on the device.
pub(super) fn on_device(stream: &Stream, n_bytes: usize, seed: u8) -> Result<Arc<dyn DeviceMemory>> {
    Ok(Arc::new(DeviceBytes::from_host(stream, &bytes(n_bytes, seed))?))
}

/// Memory with other contents.
pub(super) fn blank(stream: &Stream, n_bytes: usize) -> Result<Arc<dyn DeviceMemory>> {
    Ok(Arc::new(DeviceBytes::from_host(stream, &vec![0xA5; n_bytes])?))
}

/// Whether memory holds that, after what is on the stream.
///
/// # Errors
/// Where the first byte is that is not as it should be.
pub(super) fn expect(memory: &Arc<dyn DeviceMemory>, stream: &Stream, limit: Duration, wanted: &[u8]) -> Result<()> {
    let found = memory.to_host(stream, limit)?;
    ensure!(found.len() == wanted.len(), "{} bytes instead of {}", found.len(), wanted.len());
    let off = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
    ensure!(off.is_none(), "of {} bytes, that at {} is not as sent", wanted.len(), off.unwrap_or_default());
    Ok(())
}

/// Numbers as bytes.
pub(super) fn of_floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// How a size is said.
pub(super) fn size_name(n_bytes: usize) -> String {
    match n_bytes {
        0..1024 => format!("{n_bytes} B"),
        1024..1_048_576 => format!("{} KiB", n_bytes >> 10),
        _ => format!("{} MiB", n_bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_differ_by_seed_and_place() {
        let (one, two) = (bytes(1000, 1), bytes(1000, 2));
        assert_ne!(one, two);
        assert_ne!(one[..256], one[256..512]);
    }

    #[test]
    fn sizes_are_said_shortly() {
        assert_eq!(SIZES.map(size_name), ["64 B", "1 MiB", "64 MiB"]);
        assert_eq!(size_name(2048), "2 KiB");
    }
}
