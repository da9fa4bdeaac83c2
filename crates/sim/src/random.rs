//! Deterministic random number generator: the one source of chance, seeded.

/// A SplitMix64 generator. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, all 64 bits of it.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of the values.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// A place among weights, each as likely as its weight says; not all of them are 0.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (place, weight) in weights.iter().enumerate() {
            match rest.checked_sub(*weight) {
                None => return place,
                Some(less) => rest = less,
            }
        }
        weights.len()
    }

    /// A generator of its own for a part of the world, so that one part's use of chance does not
    /// shift another's.
    pub fn fork(&mut self) -> Self {
        Self::new(self.number())
    }
}

/// Scatters the bits of a number; different numbers stay different.
pub(crate) fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| -> Vec<u64> {
            let mut random = Random::new(seed);
            (0..9).map(|_| random.number()).collect()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::new(7);
        let numbers: Vec<u64> = (0..1000).map(|_| random.between(3, 5)).collect();
        assert!((3..=5).all(|number| numbers.contains(&number)));
        assert!(numbers.iter().all(|number| (3..=5).contains(number)));
        assert!((0..100).all(|_| !random.percent(0) && random.percent(100)));
    }
}
