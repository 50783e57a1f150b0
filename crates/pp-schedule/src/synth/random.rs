//! Numbers that look like chance and are the same on every machine: Marsaglia's xorshift, in whole numbers.

/// A sequence of numbers.
pub(super) struct Sequence(u64);

impl Sequence {
    /// The same seed gives the same sequence.
    pub(super) const fn new(seed: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ seed)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    /// Less than `n`, which is not 0.
    #[inline]
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    #[inline]
    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 0
    }
}
