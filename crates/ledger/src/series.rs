//! Time series in ring buffers of several resolutions (round-robin database).

use std::collections::VecDeque;

use block::Primitive;

use crate::limits::RESOLUTIONS;

/// A value that can be averaged.
pub trait Sample: Copy {
    /// The mean of one value or more.
    fn mean<'a>(values: impl ExactSizeIterator<Item = &'a Self>) -> Self
    where
        Self: 'a;
}

/// A series of one value per second, kept in every one of [`RESOLUTIONS`].
#[derive(Clone, Debug)]
pub struct Series<S> {
    rings: [VecDeque<S>; RESOLUTIONS.len()],
    /// The second that comes next, counted from an arbitrary start.
    next: u64,
}

/// A part of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns<S> {
    /// Seconds from the start of time to the first value.
    pub start: u64,
    /// Seconds that each value covers.
    pub step: u64,
    /// The values.
    pub values: Vec<S>,
}

impl<S: Sample> Series<S> {
    /// An empty series whose first value is for that second.
    pub fn starting_at(second: u64) -> Self {
        Self { rings: std::array::from_fn(|_| VecDeque::new()), next: second }
    }

    /// The second whose value comes next.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Adds the value of the next second.
    pub fn push(&mut self, value: S) {
        self.next += 1;
        self.keep(0, value);
        for level in 1..RESOLUTIONS.len() {
            let (step, fine) = (RESOLUTIONS[level].0, RESOLUTIONS[level - 1].0);
            if !self.next.is_multiple_of(step) {
                return;
            }
            let ring = &self.rings[level - 1];
            // A series that began in the middle of a step has fewer values of it.
            let count = ring.len().min((step / fine) as usize);
            let mean = S::mean(ring.range(ring.len() - count..));
            self.keep(level, mean);
        }
    }

    fn keep(&mut self, level: usize, value: S) {
        let ring = &mut self.rings[level];
        if ring.len() == RESOLUTIONS[level].1 {
            ring.pop_front();
        }
        ring.push_back(value);
    }

    /// The value of the last second.
    pub fn last(&self) -> Option<&S> {
        self.rings[0].back()
    }

    /// The last `seconds` in the finest resolution that covers them.
    pub fn last_seconds(&self, seconds: u64) -> Columns<S> {
        let covers = |&(step, length): &(u64, usize)| step * length as u64 >= seconds;
        let level = RESOLUTIONS.iter().position(covers).unwrap_or(RESOLUTIONS.len() - 1);
        let mut columns = self.at(level);
        let wanted = seconds.div_ceil(columns.step) as usize;
        let surplus = columns.values.len().saturating_sub(wanted);
        columns.values.drain(..surplus);
        columns.start += surplus as u64 * columns.step;
        columns
    }

    /// All that is kept in one of [`RESOLUTIONS`].
    ///
    /// # Panics
    /// If there is no such resolution.
    pub fn at(&self, level: usize) -> Columns<S> {
        let (step, ring) = (RESOLUTIONS[level].0, &self.rings[level]);
        let end = self.next / step * step;
        let start = end.saturating_sub(ring.len() as u64 * step);
        Columns { start, step, values: ring.iter().copied().collect() }
    }
}

/// Operations and bytes of one class of commands, in one second or per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Commands that ended.
    pub commands: f32,
    /// Bytes that they worked on.
    pub bytes: f32,
    /// Microseconds that they took together.
    pub micros: f32,
}

impl Flow {
    /// Microseconds that a command took on average.
    pub fn latency_us(&self) -> f32 {
        if self.commands > 0.0 { self.micros / self.commands } else { 0.0 }
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.bytes += other.bytes;
        self.micros += other.micros;
    }
}

/// Rates by class of commands.
pub type FlowSample = [Flow; Primitive::COUNT];

impl Sample for FlowSample {
    fn mean<'a>(values: impl ExactSizeIterator<Item = &'a Self>) -> Self {
        let share = 1.0 / values.len().max(1) as f32;
        let mut mean = Self::default();
        for value in values {
            mean.iter_mut().zip(value).for_each(|(sum, flow)| sum.add(flow));
        }
        mean.map(|sum| Flow {
            commands: sum.commands * share,
            bytes: sum.bytes * share,
            micros: sum.micros * share,
        })
    }
}

/// Where a pool's space is, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceSample {
    /// Held by volumes and the map.
    pub used: f64,
    /// Freed, and usable soon.
    pub pending: f64,
    /// Kept back.
    pub reserve: f64,
    /// Free for new data.
    pub free: f64,
    /// What volumes hold more than once but occupies the pool only once.
    pub shared: f64,
    /// All together, but for `shared`.
    pub total: f64,
}

impl Sample for SpaceSample {
    fn mean<'a>(values: impl ExactSizeIterator<Item = &'a Self>) -> Self {
        let share = 1.0 / values.len().max(1) as f64;
        let mut mean = Self::default();
        for value in values {
            mean.used += value.used * share;
            mean.pending += value.pending * share;
            mean.reserve += value.reserve * share;
            mean.free += value.free * share;
            mean.shared += value.shared * share;
            mean.total += value.total * share;
        }
        mean
    }
}

#[cfg(test)]
mod tests;
