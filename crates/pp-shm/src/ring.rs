//! The two ends of a ring.
//!
//! Positions count bytes since the beginning and never wrap; a byte lies at its position modulo the capacity. Each side keeps
//! its own position to itself and only publishes it, so that the other cannot turn it; what it reads of the other's is
//! checked: not beyond what the ring holds, and not backwards.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bell::{Bell, Side, call};
use crate::copy;
use crate::error::ShmError;
use crate::mapping::Mapping;

/// Bytes after which a long copy is published, so that the other side works on them meanwhile.
const PIECE: usize = 32 * 1024;

/// The end that writes.
#[derive(Debug)]
pub struct Producer {
    mapping: Arc<Mapping>,
    written: u64,
    /// What the consumer was last seen to have read.
    read: u64,
}

/// The end that reads.
#[derive(Debug)]
pub struct Consumer {
    mapping: Arc<Mapping>,
    read: u64,
    /// What the producer was last seen to have written.
    written: u64,
}

/// Whether positions can be: all that was read was written, and what was not fits.
fn check(mapping: &Mapping, written: u64, read: u64, backwards: bool) -> Result<u64, ShmError> {
    let capacity = mapping.capacity() as u64;
    match written.checked_sub(read) {
        Some(held) if held <= capacity && !backwards => Ok(held),
        _ => Err(ShmError::Corrupt { written, read, capacity }),
    }
}

/// Where the byte at a position lies, and how many follow it before the end of the memory.
fn place(mapping: &Mapping, position: u64) -> (*mut u8, usize) {
    let offset = position as usize & (mapping.capacity() - 1);
    // SAFETY: the offset is below the capacity.
    (unsafe { mapping.bytes().add(offset) }, mapping.capacity() - offset)
}

impl Producer {
    /// A new ring of `capacity` bytes, a power of two, and the descriptor by which [`Consumer::open`] gets its other end.
    ///
    /// # Errors
    /// [`ShmError::Capacity`], [`ShmError::System`].
    pub fn new(capacity: usize) -> Result<(Self, OwnedFd), ShmError> {
        let (mapping, fd) = Mapping::create(capacity)?;
        Ok((Self { mapping: Arc::new(mapping), written: 0, read: 0 }, fd))
    }

    /// Bytes that the ring holds.
    pub fn capacity(&self) -> usize {
        self.mapping.capacity()
    }

    /// Writes as many of the bytes as there is room for; says how many.
    ///
    /// # Errors
    /// [`ShmError::Corrupt`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, ShmError> {
        let mut left = bytes;
        while !left.is_empty() {
            let held = check(&self.mapping, self.written, self.read, false)?;
            let mut free = self.mapping.capacity() - held as usize;
            if free < left.len() {
                free = self.look()?;
            }
            let (place, until_end) = place(&self.mapping, self.written);
            let n = free.min(left.len()).min(until_end).min(PIECE);
            if n == 0 {
                break;
            }
            let (now, later) = left.split_at(n);
            // SAFETY: `n` bytes lie before the end of the memory; that they are free, and so untouched by an honest consumer,
            // was checked, and a dishonest one is why the copy is atomic.
            unsafe { copy::into(place, now.as_ptr(), n) };
            left = later;
            self.written += n as u64;
            self.mapping.header().written.0.store(self.written, Ordering::Release);
            call(&self.mapping, Side::Consumer);
        }
        Ok(bytes.len() - left.len())
    }

    /// Looks how far the consumer is; gives the free bytes.
    fn look(&mut self) -> Result<usize, ShmError> {
        let read = self.mapping.header().read.0.bytes.load(Ordering::Acquire);
        let held = check(&self.mapping, self.written, read, read < self.read)?;
        self.read = read;
        Ok(self.mapping.capacity() - held as usize)
    }

    /// How many messages the consumer has asked for, by its own account.
    pub fn grants(&self) -> u64 {
        self.mapping.header().read.0.grants.load(Ordering::Acquire)
    }

    /// Where the producer waits: for room, or for grants.
    pub fn bell(&self) -> Bell {
        Bell::new(Arc::clone(&self.mapping), Side::Producer)
    }
}

impl Drop for Producer {
    /// The consumer looks up; what it sees elsewhere tells it that nothing more will come.
    fn drop(&mut self) {
        call(&self.mapping, Side::Consumer);
    }
}

impl Consumer {
    /// The reading end of a ring whose descriptor was handed over.
    ///
    /// # Errors
    /// [`ShmError::NotARing`], [`ShmError::System`].
    pub fn open(memory: &OwnedFd) -> Result<Self, ShmError> {
        let mapping = Arc::new(Mapping::open(memory)?);
        Ok(Self { mapping, read: 0, written: 0 })
    }

    /// Bytes that the ring holds.
    pub fn capacity(&self) -> usize {
        self.mapping.capacity()
    }

    /// Reads as many bytes as there are and as there is room for; gives them.
    ///
    /// # Errors
    /// [`ShmError::Corrupt`].
    pub fn read<'a>(&mut self, room: &'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], ShmError> {
        let mut done = 0;
        while done < room.len() {
            let mut held = check(&self.mapping, self.written, self.read, false)? as usize;
            if held < room.len() - done {
                held = self.look()?;
            }
            let (place, until_end) = place(&self.mapping, self.read);
            let n = held.min(room.len() - done).min(until_end).min(PIECE);
            if n == 0 {
                break;
            }
            // SAFETY: `n` bytes lie before the end of the memory, and `room` has as many from `done` on, all of it ours.
            unsafe { copy::out_of(place, room[done..].as_mut_ptr().cast(), n) };
            done += n;
            self.read += n as u64;
            self.mapping.header().read.0.bytes.store(self.read, Ordering::Release);
            // A producer that sleeps is woken for a good stretch of room, not for every piece.
            if held - n <= self.mapping.capacity() / 2 {
                call(&self.mapping, Side::Producer);
            }
        }
        if done > 0 {
            call(&self.mapping, Side::Producer);
        }
        // SAFETY: the first `done` bytes were written above.
        Ok(unsafe { room[..done].assume_init_mut() })
    }

    /// Looks how far the producer is; gives the bytes that can be read.
    fn look(&mut self) -> Result<usize, ShmError> {
        let written = self.mapping.header().written.0.load(Ordering::Acquire);
        let held = check(&self.mapping, written, self.read, written < self.written)?;
        self.written = written;
        Ok(held as usize)
    }

    /// Tells the producer how many messages were asked for since the beginning.
    pub fn grant(&self, n_messages: u64) {
        self.mapping.header().read.0.grants.store(n_messages, Ordering::Release);
        call(&self.mapping, Side::Producer);
    }

    /// Where the consumer waits for bytes.
    pub fn bell(&self) -> Bell {
        Bell::new(Arc::clone(&self.mapping), Side::Consumer)
    }
}

impl Drop for Consumer {
    /// The producer looks up; what it sees elsewhere tells it that nobody reads any more.
    fn drop(&mut self) {
        call(&self.mapping, Side::Producer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(capacity: usize) -> (Producer, Consumer) {
        let (producer, memory) = Producer::new(capacity).expect("a small ring");
        let consumer = Consumer::open(&memory).expect("the ring just made");
        (producer, consumer)
    }

    #[test]
    fn positions_that_cannot_be_are_an_error_on_either_side() {
        for position in [4097, 1 << 40, u64::MAX] {
            let (producer, mut consumer) = ends(4096);
            producer.mapping.header().written.0.store(position, Ordering::Release);
            let read = consumer.read(&mut [MaybeUninit::uninit(); 8]).map(|bytes| bytes.len());
            assert!(matches!(read, Err(ShmError::Corrupt { written, .. }) if written == position));

            let (mut producer, consumer) = ends(4096);
            assert_eq!(producer.write(&[7; 5000]).expect("sound"), 4096);
            consumer.mapping.header().read.0.bytes.store(position, Ordering::Release);
            assert!(matches!(producer.write(&[7; 8]), Err(ShmError::Corrupt { read, .. }) if read == position));
        }
    }

    #[test]
    fn positions_that_go_back_are_an_error() {
        let (mut producer, mut consumer) = ends(4096);
        assert_eq!(producer.write(&[7; 100]).expect("sound"), 100);
        assert_eq!(consumer.read(&mut [MaybeUninit::uninit(); 60]).expect("sound"), [7; 60]);
        producer.mapping.header().written.0.store(80, Ordering::Release);
        assert!(consumer.read(&mut [MaybeUninit::uninit(); 60]).is_err());
        consumer.mapping.header().read.0.bytes.store(60, Ordering::Release);
        assert_eq!(producer.write(&[7; 4096]).expect("sound"), 4056);
        consumer.mapping.header().read.0.bytes.store(10, Ordering::Release);
        assert!(producer.write(&[7; 4096]).is_err());
    }
}
