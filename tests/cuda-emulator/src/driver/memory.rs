//! Memory: allocations at made-up addresses, with all that is known of them.
//!
//! Device addresses lie where no host pointer can, are never used twice, and lie so far apart that an access which leaves its
//! allocation meets no other. Each allocation is filled with ones (no number in any floating-point type) until it is written.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::bytes::Bytes;
use super::context::Context;
use crate::place::Place;

/// Device addresses begin here: above what a pointer of a process can be.
const FIRST_ADDRESS: u64 = 0x0d00_0000_0000_0000;
/// From one device's addresses to the next's.
const DEVICE_STEP: u64 = 1 << 46;
/// As CUDA aligns.
const ALIGNMENT: u64 = 512;
/// The least distance between allocations. It is at least an allocation's own size also.
const GAP: u64 = 1 << 20;
/// What each device holds.
pub(super) const DEVICE_BYTES: usize = 16 << 30;
/// Of how many freed allocations it is remembered where they were made and freed.
const REMEMBERED: usize = 4096;

/// A call, for reports.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) what: String,
    pub(super) place: Place,
}

/// An allocation, live or freed.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    pub(super) address: u64,
    pub(super) n_bytes: usize,
    pub(super) context: Arc<Context>,
    pub(super) made: Call,
    pub(super) freed: Option<Call>,
    pub(super) bytes: Arc<Bytes>,
    /// Whether it is pinned memory of the host.
    pub(super) is_host: bool,
}

impl Allocation {
    /// For reports. Slow: finds out the names of places.
    pub(super) fn describe(&self) -> String {
        let Self { address, n_bytes, context, made, freed, is_host, .. } = self;
        let of = if *is_host { "pinned on the host for" } else { "on" };
        let mut text = format!(
            "buffer {address:#x} of {n_bytes} bytes {of} device {}\n  allocated by {}\n{}",
            context.device,
            made.what,
            indent(&made.place.to_string())
        );
        if let Some(freed) = freed {
            text.push_str(&format!("\n  freed by {}\n{}", freed.what, indent(&freed.place.to_string())));
        }
        text
    }
}

/// Two steps to the right.
pub(super) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// Why an access cannot be.
#[derive(Debug)]
pub(super) struct Bad {
    pub(super) kind: &'static str,
    text: String,
    allocation: Option<Box<Allocation>>,
}

impl Bad {
    const fn new(kind: &'static str, text: String) -> Self {
        Self { kind, text, allocation: None }
    }

    fn of(kind: &'static str, text: String, allocation: &Allocation) -> Self {
        Self { kind, text, allocation: Some(Box::new(allocation.clone())) }
    }

    /// What is wrong. Slow, as [`Allocation::describe`].
    pub(super) fn describe(&self) -> String {
        let buffer = self.allocation.as_ref().map(|allocation| allocation.describe());
        format!("{}{}", self.text, buffer.unwrap_or_default())
    }
}

/// All memory of the process.
#[derive(Debug, Default)]
pub(super) struct Memory {
    allocations: BTreeMap<u64, Allocation>,
    /// By device: where the next begins.
    next: BTreeMap<usize, u64>,
    /// By device: bytes in use.
    used: BTreeMap<usize, usize>,
    /// Freed ones, the oldest first.
    remembered: VecDeque<u64>,
}

impl Memory {
    /// Bytes in use on a device.
    pub(super) fn used(&self, device: usize) -> usize {
        self.used.get(&device).copied().unwrap_or_default()
    }

    /// Makes an allocation of a device's memory. `None` where that is used up.
    pub(super) fn allocate(&mut self, context: &Arc<Context>, n_bytes: usize, made: Call) -> Option<u64> {
        let used = self.used.entry(context.device).or_default();
        *used = used.checked_add(n_bytes).filter(|&sum| sum <= DEVICE_BYTES)?;
        let first = FIRST_ADDRESS + DEVICE_STEP * context.device as u64;
        let next = self.next.entry(context.device).or_insert(first);
        let address = *next;
        let size = n_bytes as u64;
        *next = (address + size + size.max(GAP)).next_multiple_of(ALIGNMENT);
        self.insert(address, n_bytes, context, made, Bytes::of_device(n_bytes), false);
        Some(address)
    }

    /// Pinned memory of the host.
    pub(super) fn insert_host(&mut self, address: u64, context: &Arc<Context>, made: Call, bytes: Bytes) {
        self.insert(address, bytes.len(), context, made, bytes, true);
    }

    fn insert(
        &mut self,
        address: u64,
        n_bytes: usize,
        context: &Arc<Context>,
        made: Call,
        bytes: Bytes,
        is_host: bool,
    ) {
        let (context, bytes) = (Arc::clone(context), Arc::new(bytes));
        let allocation = Allocation { address, n_bytes, context, made, freed: None, bytes, is_host };
        self.allocations.insert(address, allocation);
    }

    /// The live allocation that holds a whole range, and which of its bytes that is, for use on a context.
    ///
    /// # Errors
    /// There is none: what is wrong.
    pub(super) fn find(
        &self,
        address: u64,
        n_bytes: usize,
        context: &Arc<Context>,
    ) -> Result<(&Allocation, Range<usize>), Bad> {
        let last = address.saturating_add(n_bytes as u64);
        let bytes = format!("bytes {address:#x}..{last:#x} ({n_bytes})");
        let Some(allocation) = self.allocations.range(..=address).next_back().map(|(_, found)| found) else {
            return Err(Bad::new("out of bounds", format!("{bytes} {}", nowhere(address))));
        };
        let Allocation { address: first, n_bytes: size, is_host, .. } = *allocation;
        let (offset, size) = (address - first, size as u64);
        if offset >= size {
            let is_near = is_host != is_device(address) && offset < size + size.max(GAP);
            return Err(match is_near {
                true => Bad::of(
                    "out of bounds",
                    format!("{bytes} begin {} bytes after the end of ", offset - size),
                    allocation,
                ),
                false => Bad::new("out of bounds", format!("{bytes} {}", nowhere(address))),
            });
        }
        if allocation.freed.is_some() {
            return Err(Bad::of("use after free", format!("{bytes} are in the freed "), allocation));
        }
        if last > first + size {
            let by = last - first - size;
            return Err(Bad::of("out of bounds", format!("{bytes} end {by} bytes after the end of "), allocation));
        }
        if !is_host && !Arc::ptr_eq(&allocation.context, context) {
            let text = format!("{bytes} are used on device {}, where they are not: they are in ", context.device);
            return Err(Bad::of("wrong device", text, allocation));
        }
        let offset = offset as usize;
        Ok((allocation, offset..offset + n_bytes))
    }

    /// The live allocation that begins at an address, about to be freed.
    ///
    /// # Errors
    /// There is none: what is wrong.
    pub(super) fn find_whole(&self, address: u64, is_host: bool) -> Result<&Allocation, Bad> {
        match self.allocations.get(&address) {
            Some(allocation) if allocation.freed.is_some() => Err(Bad::of("double free", String::new(), allocation)),
            Some(allocation) if allocation.is_host == is_host => Ok(allocation),
            _ => Err(Bad::new("bad free", format!("{address:#x}: no such buffer begins there"))),
        }
    }

    /// Whether a whole range of host addresses is pinned memory.
    pub(super) fn is_pinned(&self, address: u64, n_bytes: usize) -> bool {
        let Some((_, found)) = self.allocations.range(..=address).next_back() else { return false };
        let end = found.address + found.n_bytes as u64;
        found.is_host && found.freed.is_none() && address.saturating_add(n_bytes as u64) <= end
    }

    /// The allocation that begins at an address.
    pub(super) fn at(&self, address: u64) -> Option<&Allocation> {
        self.allocations.get(&address)
    }

    /// Marks an allocation as freed. Its bytes go once the free happens, by [`Memory::release`]. Gives what is forgotten
    /// instead.
    pub(super) fn mark_freed(&mut self, address: u64, freed: Call) -> Option<u64> {
        let allocation = self.allocations.get_mut(&address)?;
        allocation.freed = Some(freed);
        self.remembered.push_back(address);
        let oldest = if self.remembered.len() > REMEMBERED { self.remembered.pop_front() } else { None };
        // Addresses of the host are used again: then it is another, maybe live.
        let is_freed = |address: &u64| self.allocations.get(address).is_some_and(|found| found.freed.is_some());
        let oldest = oldest.filter(is_freed)?;
        self.allocations.remove(&oldest);
        Some(oldest)
    }

    /// The free of so many bytes has happened.
    pub(super) fn release(&mut self, device: usize, n_bytes: usize) {
        if let Some(used) = self.used.get_mut(&device) {
            *used = used.saturating_sub(n_bytes);
        }
    }

    /// Takes out all of a context; gives those that were live.
    pub(super) fn remove_context(&mut self, context: &Arc<Context>) -> Vec<Allocation> {
        let of_it = |_: &u64, found: &mut Allocation| Arc::ptr_eq(&found.context, context);
        let mut removed: Vec<_> = self.allocations.extract_if(.., of_it).map(|(_, found)| found).collect();
        removed.retain(|allocation| allocation.freed.is_none());
        for Allocation { n_bytes, .. } in removed.iter().filter(|allocation| !allocation.is_host) {
            self.release(context.device, *n_bytes);
        }
        removed
    }
}

/// Whether an address is one of a device.
pub(super) const fn is_device(address: u64) -> bool {
    address >= FIRST_ADDRESS
}

fn nowhere(address: u64) -> &'static str {
    match address {
        0 => "lie at the null address",
        _ if is_device(address) => "lie in no buffer: one that was freed long ago, or never was",
        _ => "lie at an address of the host, not of a device",
    }
}
