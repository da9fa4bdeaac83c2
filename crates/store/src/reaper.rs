//! Reaper: frees deleted subtrees of the map in the background, at a limited rate.

use std::time::Duration;

use crate::limits::REAP_BATCH;
use crate::loading::{Loader, PageWaiter};
use crate::map::Missing;
use crate::pool::Pool;
use crate::rate_limiter::RateLimiter;

/// Pages that the reaper asks for at once.
const REAP_READS: usize = 32;

/// Progress of the reaper; what it has to do is with the map.
pub(crate) struct Reaper {
    /// Pages that it waits for.
    waits: usize,
    /// Subtrees that it may take apart.
    rate: RateLimiter,
}

impl Reaper {
    pub(crate) fn new(rate: u64) -> Self {
        Self { waits: 0, rate: RateLimiter::new(rate) }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.rate.pass(time);
    }

    /// A page that it waited for is there, or cannot be read.
    pub(crate) fn took_page(&mut self) {
        self.waits -= 1;
    }

    /// Takes subtrees apart that nobody refers to, as many as time pays for, or as one batch holds
    /// if it is `boosted`, because space is short.
    pub(crate) fn run(&mut self, pool: &mut Pool, loader: &mut Loader, boosted: bool) {
        if self.waits > 0 {
            return;
        }
        for _ in 0..REAP_BATCH {
            if !boosted && self.rate.is_used_up() {
                return;
            }
            let Some(dead) = pool.map.reap.pop() else { return };
            if let Err(missing) = pool.map.reap_one(&mut pool.space, dead) {
                pool.map.reap.push(dead);
                return self.load(pool, loader, missing);
            }
            self.rate.spend(u64::from(!boosted));
            pool.settle_reclaimed();
        }
    }

    /// Asks for the page that is needed, and for those that are needed next.
    fn load(&mut self, pool: &mut Pool, loader: &mut Loader, first: Missing) {
        let others: Vec<_> = pool.map.not_in_memory(REAP_READS);
        for missing in std::iter::once(first).chain(others) {
            if !loader.is_loading(missing.entry.address()) {
                self.waits += 1;
                loader.load_page(pool, missing, PageWaiter::Reaper);
            }
        }
        if self.waits == 0 {
            self.waits = 1;
            loader.load_page(pool, first, PageWaiter::Reaper);
        }
    }
}
