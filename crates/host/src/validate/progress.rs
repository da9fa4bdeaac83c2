//! Progress of a validation, and how long it will still take.

use std::collections::BTreeMap;
use std::time::Instant;

/// Progress, told on standard error.
pub(crate) struct Progress {
    all: usize,
    done: usize,
    current: Option<Instant>,
    /// Seconds and steps of each kind of work that was done.
    spent: BTreeMap<String, (f64, u32)>,
}

impl Progress {
    /// Of so many steps.
    pub(crate) fn new(all: usize) -> Self {
        Self { all, done: 0, current: None, spent: BTreeMap::new() }
    }

    /// A step begins that has to be measured.
    pub(crate) fn begin(&mut self, what: &str, kind: &str) {
        let left = self.left(kind);
        let left = left.map_or_else(String::new, |left| format!(", about {} left", clock(left)));
        terminal::complain!("[{}/{}] {what}{left}", self.done + 1, self.all);
        self.current = Some(Instant::now());
    }

    /// A step ended, measured or not.
    pub(crate) fn done(&mut self, kind: &str) {
        self.done += 1;
        if let Some(started) = self.current.take() {
            let spent = self.spent.entry(kind.to_owned()).or_default();
            *spent = (spent.0 + started.elapsed().as_secs_f64(), spent.1 + 1);
        }
    }

    /// Seconds that are left, if the next steps are like those before.
    fn left(&self, kind: &str) -> Option<f64> {
        let (seconds, steps) =
            self.spent.values().fold((0.0, 0), |sum, spent| (sum.0 + spent.0, sum.1 + spent.1));
        if steps == 0 {
            return None;
        }
        let mean = seconds / f64::from(steps);
        let own = self.spent.get(kind).map_or(mean, |(seconds, steps)| seconds / f64::from(*steps));
        Some(own + mean * (self.all - self.done).saturating_sub(1) as f64)
    }
}

/// Minutes and seconds.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if whole < 60 { format!("{whole} s") } else { format!("{} min {} s", whole / 60, whole % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_what_was_spent() {
        let mut progress = Progress::new(10);
        assert_eq!(progress.left("Q1"), None);
        progress.spent.insert("Q1".to_owned(), (8.0, 4));
        progress.done = 4;
        assert_eq!(progress.left("Q1"), Some(12.0));
        assert_eq!(progress.left("Q2"), Some(12.0));
        assert_eq!((clock(59.4), clock(61.0)), ("59 s".to_owned(), "1 min 1 s".to_owned()));
    }
}
