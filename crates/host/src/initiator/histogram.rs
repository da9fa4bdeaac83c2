//! Latencies, in buckets that are never wider than an eighth of their value.

/// Counts of latencies.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; 64 * 8], count: 0, max: 0 }
    }
}

fn bucket(value: u64) -> usize {
    if value < 8 {
        return value as usize;
    }
    let power = value.ilog2();
    (power as usize - 2) * 8 + (value >> (power - 3) & 7) as usize
}

fn upper(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let power = bucket / 8 + 2;
    ((8 + bucket as u64 % 8 + 1) << (power - 3)) - 1
}

impl Histogram {
    /// Counts one latency, in any unit.
    pub fn record(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// The latency that a fraction of all does not exceed; 0 if there is none.
    pub fn quantile(&self, fraction: f64) -> u64 {
        let wanted = (self.count as f64 * fraction).ceil() as u64;
        let mut seen = 0;
        for (number, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return upper(number).min(self.max);
            }
        }
        self.max
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The classes that are not empty: their largest value, and how many are in them.
    pub fn classes(&self) -> Vec<(u64, u64)> {
        let all = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(number, count)| (upper(number), *count)).collect()
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_a_bucket_that_ends_close_above_it() {
        for value in (0..5000).chain([1 << 30, (1 << 40) + 12345]) {
            let end = upper(bucket(value));
            assert!(end >= value && end - value <= value / 8, "{value} {end}");
        }
    }

    #[test]
    fn quantiles_are_where_they_should_be() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value));
        assert!((500..=563).contains(&histogram.quantile(0.5)));
        assert!((990..=1000).contains(&histogram.quantile(0.99)));
        assert_eq!(histogram.max(), 1000);
    }
}
