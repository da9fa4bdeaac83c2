//! Routes of scrubs: start, rate, stop; and the event at their end.

use api::{BadRange, Problem, Scrub, Severity, StartScrub};

use super::problems::{bad_request, conflict, gone, refused};
use super::{Management, Progress};
use crate::data_plane::DataPlane;
use crate::limits::{SCRUB_RATE_DEFAULT, SCRUB_RATE_MIN};
use crate::pool::Pool;
use crate::pools::PoolId;

impl Management {
    /// Begins a scrub; one that is under way goes on at the new rate.
    pub(super) fn start_scrub(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        request: &StartScrub,
    ) -> Result<Progress, Problem> {
        let slot = self.ready_pool(plane, name)?;
        let rate = request.rate_bytes.unwrap_or(SCRUB_RATE_DEFAULT);
        if rate < SCRUB_RATE_MIN {
            return Err(bad_request(&"a scrub reads at least 1 MiB per second: choose more"));
        }
        let mut pool = plane.pools.get_mut(slot).ok_or_else(gone)?;
        pool.store.set_scrub_rate(rate);
        let begins = !pool.store.scrub_status().running;
        if begins {
            pool.store.start_scrub();
        }
        drop(pool);
        if begins {
            self.told.scrubbing.insert(name.to_owned());
            self.inform(name, "is being scrubbed".to_owned());
        }
        self.check_tasks(plane);
        let pool = plane.pools.get(slot).ok_or_else(gone)?;
        Ok(Progress::answer(&self.describe_scrub(pool)))
    }

    pub(super) fn stop_scrub(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
    ) -> Result<Progress, Problem> {
        let slot = self.ready_pool(plane, name)?;
        plane.pools.get_mut(slot).ok_or_else(gone)?.store.stop_scrub();
        self.check_scrub(plane, slot);
        Ok(Progress::answer(&()))
    }

    pub(super) fn show_scrub(&self, plane: &DataPlane, name: &str) -> Result<Progress, Problem> {
        self.configuration.pool(name).map_err(|error| refused(&error))?;
        let pool = plane.pool_named(name).map(|(_, pool)| pool);
        let pool = pool.ok_or_else(|| conflict(&format!("pool '{name}' is not served")))?;
        Ok(Progress::answer(&self.describe_scrub(pool)))
    }

    /// Tells of a scrub that has ended since the last call.
    pub(super) fn check_scrub(&mut self, plane: &DataPlane, slot: PoolId) {
        let Some(pool) = plane.pools.get(slot) else { return };
        let status = pool.store.scrub_status();
        if status.running || !self.told.scrubbing.remove(&pool.name) {
            return;
        }
        let (blocks, pages) = (status.bad_blocks, status.bad_pages);
        let end = if status.complete { "was scrubbed" } else { "was scrubbed in part" };
        let found = match (blocks, pages, status.repaired_pages) {
            (0, 0, 0) => "nothing is bad".to_owned(),
            (0, 0, repaired) => format!("{repaired} page(s) of the map were repaired"),
            _ => format!(
                "{blocks} block(s) of data and {pages} page(s) of the map are bad: \
                 'gantry scrub show {}' tells where",
                pool.name
            ),
        };
        let severity = match (blocks + pages, status.repaired_pages) {
            (0, 0) => Severity::Information,
            (0, _) => Severity::Warning,
            _ => Severity::Error,
        };
        self.events.note(severity, format!("pool {}", pool.name), format!("{end}: {found}"));
    }

    fn describe_scrub(&self, pool: &Pool) -> Scrub {
        let status = pool.store.scrub_status();
        Scrub {
            pool: pool.name.clone(),
            running: status.running,
            complete: status.complete,
            rate_bytes: pool.store.scrub_rate(),
            scanned_bytes: status.scanned_bytes,
            total_bytes: status.total_bytes,
            bad_blocks: status.bad_blocks,
            bad_pages: status.bad_pages,
            repaired_pages: status.repaired_pages,
            bad: status.bad.iter().map(|bad| self.bad_range(pool, bad)).collect(),
        }
    }

    /// A bad place as hosts count it. The name of a volume that is gone since is empty.
    fn bad_range(&self, pool: &Pool, bad: &store::BadRange) -> BadRange {
        let volume = pool.store.volume(bad.volume);
        let blocks = self.configuration.presentation(bad.volume).blocks;
        let block_bytes = blocks.logical_block_length().bytes();
        BadRange {
            volume: volume.map_or_else(String::new, |volume| volume.spec.name.clone()),
            lba: bad.range.offset / block_bytes,
            blocks: bad.range.length / block_bytes,
        }
    }
}
