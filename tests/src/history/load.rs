//! Clients that do everything in the background, and are checked, until they are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, ensure};

use super::Values;
use super::client::Arena;
use super::run::{Report, Scale, run_until};
use crate::waiting::wait_until;

/// Six clients at work.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Report>>,
}

impl Load {
    /// Starts them on blocks with these values. Each start on the same blocks has a seed with another lowest byte.
    pub fn start(arena: &Arena, seed: u64, before: Values) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let scale = Scale { clients: 6, rounds: u64::MAX, commands: 120, seed };
        let (arena, until) = (arena.clone(), Arc::clone(&stop));
        let thread = thread::spawn(move || run_until(&arena, scale, before, &until));
        Self { stop, thread }
    }

    /// Whether they have stopped by themselves: something was wrong.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Whether all was right so far on the blocks on which they were started.
    ///
    /// # Errors
    /// When they have stopped by themselves, or answers do not fit together.
    pub fn is_sound(&self, arena: &Arena) -> Result<()> {
        ensure!(!self.has_ended(), "the load ended");
        ensure!(arena.watch.checked().1 == 0, "answers do not fit together");
        Ok(())
    }

    /// Waits until all that was read in a whole round of theirs is checked.
    ///
    /// # Errors
    /// The same, or when it takes too long.
    pub fn wait_until_checked(&self, arena: &Arena) -> Result<()> {
        let (rounds, _) = arena.watch.checked();
        wait_until("answers are checked", || {
            self.is_sound(arena)?;
            Ok(arena.watch.checked().0 >= rounds + 2)
        })
    }

    /// Lets them stop, and tells what came of it.
    ///
    /// # Errors
    /// When one of them saw an error, or answers did not fit together.
    pub fn stop(self) -> Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let report = self.thread.join().map_err(|_| anyhow!("a client panicked"))?;
        let report = report.context("a host saw an error")?;
        ensure!(report.findings.is_empty(), "{:#?}", report.findings[0]);
        Ok(report)
    }
}
