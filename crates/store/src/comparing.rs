//! Comparisons of snapshots in a pool that serves: takes questions, loads pages of the map, answers.

use crate::change::{Outcome, Tag};
use crate::comparison::Advance;
use crate::difference::Comparison;
use crate::error::{CompareError, Failure};
use crate::loading::PageWaiter;
use crate::map::Missing;
use crate::serving::Serving;

impl Serving {
    /// Begins a comparison.
    pub(crate) fn compare(&mut self, tag: Tag, comparison: Comparison) {
        let is_over = self.is_closing() || self.is_closed();
        let asked = if is_over {
            Err(CompareError::Closed)
        } else {
            self.comparer.ask(tag, comparison, &self.engine.pool.volumes)
        };
        if let Err(error) = asked {
            self.engine.answer(tag, Err(error.into()));
        }
    }

    /// Goes on with comparisons, as far as pages in memory and the turn allow.
    pub(crate) fn advance_comparisons(&mut self) {
        while !self.comparer.is_empty() {
            let pool = &mut self.engine.pool;
            match self.comparer.advance(&mut pool.map, &pool.volumes) {
                Ok(Advance::Turn) => return,
                Ok(Advance::Pages(missing)) => return self.load_for_comparison(missing),
                Ok(Advance::Done) => self.end_comparison(Ok(())),
                Err(error) => self.end_comparison(Err(error)),
            }
        }
    }

    fn load_for_comparison(&mut self, missing: Vec<Missing>) {
        self.comparer.wait_for(&missing);
        for missing in missing {
            self.load_page(missing, PageWaiter::Comparison);
        }
    }

    /// A page of the map for a comparison is there, or cannot be read.
    pub(crate) fn compared_page_arrived(&mut self, page: Missing, found: bool) {
        if self.comparer.took_page(page, found) {
            let result = self.comparer.stop_first();
            self.end_comparison(result);
        }
    }

    /// Answers the first comparison.
    fn end_comparison(&mut self, result: Result<(), CompareError>) {
        let Some((tag, difference)) = self.comparer.take_first() else { return };
        let outcome = result.map(|()| Outcome::Difference(difference));
        self.engine.answer(tag, outcome.map_err(Failure::from));
    }

    /// Answers all comparisons: the pool is being closed.
    pub(crate) fn end_comparisons(&mut self) {
        while !self.comparer.is_empty() {
            self.end_comparison(Err(CompareError::Closed));
        }
    }
}
