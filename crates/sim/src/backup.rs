//! Simulated backup program: asks what changed between two snapshots, one answer after the other.

use block::{BLOCK, VolumeId};
use store::{Comparison, Failure, Outcome};

use crate::action::Action;
use crate::oracle::Oracle;
use crate::random::Random;

/// The program.
pub(crate) struct Backup {
    random: Random,
    /// Where the next answer is to begin.
    question: Option<Comparison>,
    /// The last question.
    pub(crate) tag: u64,
}

impl Backup {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, question: None, tag: 0 }
    }

    /// The next question, if there are snapshots; now and then one that must be refused.
    pub(crate) fn next(&mut self, oracle: &Oracle) -> Option<Action> {
        let question = self.question.take().or_else(|| self.begin(oracle))?;
        Some(Action::Compare(question))
    }

    fn begin(&mut self, oracle: &Oracle) -> Option<Comparison> {
        let snapshots = oracle.volumes.values().filter(|model| model.spec.snapshot);
        let snapshots: Vec<_> = snapshots.collect();
        // In between hosts have the pool for themselves.
        if snapshots.is_empty() || !self.random.one_in(20) {
            return None;
        }
        let target = snapshots[self.random.below(snapshots.len() as u64) as usize];
        let base = match self.random.below(10) {
            0 | 1 => None,
            2 => Some(self.anything(oracle)),
            _ => {
                let base = snapshots[self.random.below(snapshots.len() as u64) as usize];
                Some(base.spec.id)
            }
        };
        let from = match self.random.below(4) {
            0 => self.random.below(target.spec.size_bytes / BLOCK) * BLOCK,
            _ => 0,
        };
        let extents_max = self.random.pick(&[1, 4, 64, 1024]);
        Some(Comparison { base, target: target.spec.id, from, extents_max })
    }

    /// Some volume or snapshot, or one that is not there.
    fn anything(&mut self, oracle: &Oracle) -> VolumeId {
        let index = self.random.below(oracle.volumes.len() as u64 + 1) as usize;
        oracle.volumes.keys().nth(index).copied().unwrap_or(VolumeId(1_000_000_000))
    }

    /// The answer: if there is more, that is asked for next.
    pub(crate) fn hear(&mut self, question: Comparison, answer: &Result<Outcome, Failure>) {
        if let Ok(Outcome::Difference(difference)) = answer {
            self.question = difference.next.map(|from| Comparison { from, ..question });
        }
    }
}
