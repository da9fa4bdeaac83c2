//! Pseudorandom numbers for tests: a linear congruential generator, the same numbers for each seed.

/// Numbers in no order that depend on the seed alone.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A place in something of so many parts.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }
}
