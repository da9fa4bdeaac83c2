//! Routes of scrubs: start, rate, stop; and the event at their end.

use api::{BadRange, Problem, Scrub, Severity, StartScrub};
use control::owed_scrubs::is_owed;
use store::{Health, MemberState, MemberStatus, MirrorStatus};

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
            let mirrors: Vec<MirrorStatus> = pool.mirrors().collect();
            pool.store.start_scrub();
            self.owed_scrubs.begins(name, &mirrors);
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

    /// A member that joined or came back was filled from others without knowing what their blocks should
    /// hold: a scrub heals what was spoilt on one that was read, as long as another copy is sound. One
    /// that is under way begins anew.
    pub(super) fn scrub_what_is_owed(&mut self, plane: &mut DataPlane, id: PoolId) {
        let Some(pool) = plane.pools.get(id) else { return };
        if self.closing || pool.health() != Health::Ready {
            return;
        }
        let mirrors: Vec<MirrorStatus> = pool.mirrors().collect();
        let scrubbed = |mirror| plane.witness.scrubbed(mirror);
        if !self.owed_scrubs.is_due(&pool.name, &mirrors, scrubbed) {
            return;
        }
        let Some(mut pool) = plane.pools.get_mut(id) else { return };
        let name = pool.name.clone();
        let mut request = StartScrub::default();
        if pool.store.scrub_status().running {
            request.rate_bytes = Some(pool.store.scrub_rate());
            pool.store.stop_scrub();
        }
        drop(pool);
        // A pool that is not ready any more is scrubbed by whoever opens it.
        let _ = self.start_scrub(plane, &name, &request);
    }

    pub(super) fn stop_scrub(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
    ) -> Result<Progress, Problem> {
        let slot = self.ready_pool(plane, name)?;
        let mut pool = plane.pools.get_mut(slot).ok_or_else(gone)?;
        if pool.store.scrub_status().running {
            let mirrors: Vec<MirrorStatus> = pool.mirrors().collect();
            self.owed_scrubs.stopped(name, &mirrors);
            pool.store.stop_scrub();
        }
        drop(pool);
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
    pub(super) fn check_scrub(&mut self, plane: &mut DataPlane, slot: PoolId) {
        let Some(pool) = plane.pools.get(slot) else { return };
        let status = pool.store.scrub_status();
        if status.running || !self.told.scrubbing.remove(&pool.name) {
            return;
        }
        let covered = self.owed_scrubs.ended(&pool.name, status.complete);
        plane.witness.note_scrubbed(&covered);
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

    /// Whether a member that is replaced is current itself while a scrub is owed of its mirror: it has
    /// what its successor may have got wrong from another one.
    pub(super) fn is_sound_source(&self, plane: &DataPlane, id: PoolId, member: [u8; 16]) -> bool {
        let Some(pool) = plane.pools.get(id) else { return false };
        let is_it =
            |found: &MemberStatus| found.uuid == member && found.state == MemberState::Current;
        let of_member = |mirror: &MirrorStatus| mirror.members.iter().any(is_it);
        let owed = pool.mirrors().filter(of_member).filter(|mirror| {
            is_owed(mirror, plane.witness.scrubbed(mirror.uuid))
                && !self.owed_scrubs.is_declined(&pool.name, mirror)
        });
        owed.count() > 0
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

    /// A bad place as hosts count it. The name of a volume that is gone since is empty, and so is
    /// that of the array's records.
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
