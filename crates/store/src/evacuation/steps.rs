//! Steps of moving what is on a device that leaves: a page, a leaf, or the data of one.

use block::{BLOCK, DeviceResult, VolumeId};
use bytes::Bytes;

use super::{CopyBesideHosts, Pass, Reading, Sweep};
use crate::address::{Address, BlockRange, DeviceBlock, DeviceNumber, Run, VolumeBlock};
use crate::change::moved_from;
use crate::commit::CommitClass;
use crate::entry::{Entry, FANOUT, Kind};
use crate::io::Waiter;
use crate::limits::{EVACUATION_BAD_MAX, EVACUATION_PAGES_PER_STEP, EVACUATION_STEPS};
use crate::loading::PageWaiter;
use crate::log::Log;
use crate::map::{Found, Missing, Rewritten, Search};
use crate::mirror::Expected;
use crate::pool::Pool;
use crate::serving::Serving;

/// What a step came to.
enum Step {
    On,
    Waits,
}

impl Serving {
    /// Moves what is on a device that leaves, as far as it may go.
    pub(crate) fn advance_evacuation(&mut self) {
        self.evacuator.has_more = false;
        let Some((device, moved)) = self.engine.pool.volumes.moved() else {
            self.evacuator.be_over();
            return;
        };
        if moved.rests() || self.is_closing() {
            return;
        }
        for _ in 0..EVACUATION_STEPS {
            if !self.may_move(device) {
                return;
            }
            match self.move_on(device) {
                Ok(Step::On) => {}
                Ok(Step::Waits) => return,
                Err(missing) => {
                    self.evacuator.wait_for_page();
                    return self.load_page(missing, PageWaiter::Evacuation);
                }
            }
        }
        self.evacuator.has_more = true;
    }

    /// Whether anything may be moved now.
    fn may_move(&mut self, device: DeviceNumber) -> bool {
        let Self { engine, evacuator, .. } = self;
        let pool = &engine.pool;
        evacuator.lacks_space_for_pages = false;
        // A record that is applied in part refers to its block again.
        let is_between = engine.log.applier.is_between_commits();
        if !is_between || evacuator.is_waiting(pool.now) || pool.space.is_vacant(device) {
            return false;
        }
        if !is_checkpoint_needed(pool, &engine.log) {
            return true;
        }
        // An empty checkpoint changes nothing.
        let is_empty = pool.map.dirty.is_empty() && pool.space.quarantined() == 0;
        if is_empty && has_little_space(pool) {
            evacuator.lacks_space_for_pages = true;
        } else {
            engine.checkpointer.want();
        }
        false
    }

    /// One step: a page, a leaf, or the next volume.
    fn move_on(&mut self, device: DeviceNumber) -> Result<Step, Missing> {
        let Self { engine, evacuator, .. } = self;
        let pool = &mut engine.pool;
        if let Some(sweep) = evacuator.sweep_needed(pool, device) {
            return self.sweep_on(device, sweep);
        }
        let pass = evacuator.pass_through(pool, device);
        let Some(&id) = pass.volumes.front() else {
            self.end_pass(device);
            return Ok(Step::On);
        };
        let Some(root) = pool.volumes.get(id).map(|volume| volume.root) else {
            pass.skip_volume();
            return Ok(Step::On);
        };
        let seen = (!pass.is_exact).then_some(&mut pass.seen);
        let (from, pages_left) = (pass.next, EVACUATION_PAGES_PER_STEP);
        let mut search = Search { device, from, seen, pages_left };
        match pool.map.find_leaving(root, &mut search)? {
            Found::Nothing => pass.skip_volume(),
            Found::Paused(next) => pass.next = next,
            Found::Page { level: 0, first } => return self.move_leaf(device, id, first),
            Found::Page { level, first } => {
                self.rewrite(id, first, level)?;
            }
        }
        Ok(Step::On)
    }

    /// Rewrites a page; returns the dirty one, unless that is to be looked for again.
    fn rewrite(
        &mut self,
        id: VolumeId,
        first: VolumeBlock,
        level: u8,
    ) -> Result<Option<usize>, Missing> {
        let Pool { volumes, map, space, .. } = &mut self.engine.pool;
        let Some(root) = volumes.root_mut(id) else { return Ok(None) };
        let rewritten = map.rewrite(space, root, first, level)?;
        if let Some(pass) = &mut self.evacuator.pass {
            pass.rewritten += 1;
        }
        Ok(match rewritten {
            Rewritten::Dirty(page) => Some(page),
            Rewritten::Before => None,
        })
    }

    /// Copies what a leaf refers to on the device, or rewrites the leaf when that was done.
    fn move_leaf(
        &mut self,
        device: DeviceNumber,
        id: VolumeId,
        first: VolumeBlock,
    ) -> Result<Step, Missing> {
        let pool = &mut self.engine.pool;
        let Some(root) = pool.volumes.get(id).map(|volume| volume.root) else {
            return Ok(Step::On);
        };
        let leaf = pool.map.leaf_entry(root, first)?;
        let entries = pool.map.data_on(leaf, device)?;
        let places = moved_places(pool, device, &entries)?;
        let Some(pass) = &mut self.evacuator.pass else { return Ok(Step::Waits) };
        let is_bad = |entry: &Entry| pass.bad.contains(&entry.address());
        let to_copy = entries.iter().zip(&places).filter(|(_, place)| place.is_none());
        let to_copy: Vec<Entry> =
            to_copy.map(|((_, entry), _)| *entry).filter(|entry| !is_bad(entry)).collect();
        if !to_copy.is_empty() {
            return Ok(if self.copy(to_copy) { Step::On } else { Step::Waits });
        }
        let moved: Vec<(usize, Entry)> = entries
            .iter()
            .zip(&places)
            .filter_map(|(&(place, _), &entry)| Some((place, entry?)))
            .collect();
        if moved.len() < entries.len() {
            // What cannot be read stays.
            pass.next = first + FANOUT;
        }
        // A leaf that lies there itself is rewritten also if nothing of its data does.
        if moved.is_empty() && !(leaf.kind() == Kind::Page && leaf.address().device() == device) {
            return Ok(Step::On);
        }
        let Some(page) = self.rewrite(id, first, 0)? else { return Ok(Step::On) };
        let Pool { map, space, .. } = &mut self.engine.pool;
        map.redirect(space, page, &moved);
        let mut blocks: Vec<Address> = entries.iter().map(|(_, entry)| entry.address()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let over = blocks.iter().filter(|&&block| space.is_known_unused(block)).count();
        space.looked_at_vanished(over as u64);
        self.forget_moved(device, blocks.into_iter());
        Ok(Step::On)
    }

    /// Where blocks were moved needs no memory any more if nothing refers to them.
    fn forget_moved(&mut self, device: DeviceNumber, blocks: impl Iterator<Item = Address>) {
        let pool = &mut self.engine.pool;
        let id = moved_from(device);
        for block in blocks {
            let place = VolumeBlock::new(block.block().number());
            let range = BlockRange::of(place);
            let is_over = pool.space.is_known_unused(block);
            let root = pool.volumes[&id].root;
            if is_over && pool.map.data_entry(root, place).is_some() {
                pool.update(id, |volume, map, space| {
                    let changed = map.change_leaf(space, &mut volume.root, range, |_| Entry::HOLE);
                    volume.add_changed(changed);
                });
            }
        }
    }

    /// Forgets where blocks of a leaf of the hidden volume were moved that nothing refers to any more:
    /// their last reference went with a snapshot, or was overwritten, while they waited for it.
    fn sweep_on(&mut self, device: DeviceNumber, sweep: Sweep) -> Result<Step, Missing> {
        let pool = &mut self.engine.pool;
        let root = pool.volumes[&moved_from(device)].root;
        let Some(leaf) = pool.map.next_leaf(root, sweep.next)? else {
            pool.space.looked_at_vanished(sweep.vanished);
            self.evacuator.sweep = None;
            return Ok(Step::On);
        };
        let first = leaf.first;
        let entries = pool.map.leaf_entries(&leaf)?;
        let moved = first.onwards().zip(entries).filter(|(_, entry)| entry.kind() == Kind::Data);
        let at = |(place, _): (VolumeBlock, Entry)| DeviceBlock::new(place.number()).on(device);
        let blocks: Vec<Address> = moved.map(at).collect();
        if let Some(group) = blocks.iter().find_map(|&block| pool.space.group_to_tell(block)) {
            self.load_group(group, None, false);
            return Ok(Step::Waits);
        }
        self.forget_moved(device, blocks.into_iter());
        self.evacuator.sweep = Some(Sweep { next: first + FANOUT, ..sweep });
        Ok(Step::On)
    }

    /// Begins to copy data; `false` if it is to be done later, since hosts are busy.
    fn copy(&mut self, entries: Vec<Entry>) -> bool {
        let statistics = &self.engine.pool.statistics;
        let by_hosts = statistics.data_bytes_read + statistics.data_bytes_written;
        let readings = runs(entries);
        let bytes = readings.iter().map(|reading| reading.run.blocks * BLOCK).sum();
        let copy = CopyBesideHosts { bytes, by_hosts };
        let now = self.engine.pool.now;
        let are_busy = !self.requests.table.is_empty();
        if are_busy && !self.evacuator.may_copy(now, copy) {
            return false;
        }
        self.evacuator.begin_copy(now, copy);
        readings.into_iter().for_each(|reading| self.read_leaving(reading));
        true
    }

    fn read_leaving(&mut self, reading: Reading) {
        let (run, crcs) = (reading.run, reading.crcs.clone());
        let number = self.evacuator.note_read(reading);
        self.engine.pool.statistics.data_bytes_read += run.blocks * BLOCK;
        let waiter = Waiter::Evacuation { read: number };
        self.engine.pool.io.read(waiter, run, Expected::Blocks(&crcs));
    }

    /// A read of a device that leaves has ended.
    pub(crate) fn leaving_read(&mut self, number: u64, result: DeviceResult) {
        let again = self.evacuator.took_read(number, result);
        again.into_iter().for_each(|reading| self.read_leaving(reading));
        let Some(read) = self.evacuator.take_all_read() else { return };
        let Some((device, _)) = self.engine.pool.volumes.moved() else { return };
        if read.is_empty() || !self.is_writable() {
            return self.end_copy();
        }
        for (run, bytes) in read {
            let first = VolumeBlock::new(run.start.block().number());
            let data: Bytes = bytes.freeze();
            self.write_moved(moved_from(device), first, data);
        }
    }

    /// Data of a device that leaves was written to another one, or found no space.
    pub(crate) fn moved_written(&mut self, written_bytes: Option<u64>) {
        if self.evacuator.took_write(self.engine.pool.now, written_bytes) {
            self.end_copy();
        }
    }

    fn end_copy(&mut self) {
        self.requests.ready.extend(self.evacuator.end_copy());
        let is_enough = |pass: &Pass| pass.bad.len() >= EVACUATION_BAD_MAX;
        if self.evacuator.pass.as_ref().is_some_and(|pass| is_enough(pass)) {
            self.rest_after_pass(false);
        }
    }

    /// All maps were looked at. What is left comes in the next pass, after a checkpoint has counted.
    fn end_pass(&mut self, device: DeviceNumber) {
        let pool = &mut self.engine.pool;
        let Some(pass) = &self.evacuator.pass else { return };
        let found_nothing = pass.rewritten == 0 && pass.bad.is_empty() && pass.bad_pages == 0;
        let is_quiet = pass.shared_since == pool.shared_since && pool.map.dead_count() == 0;
        let wants_exact = found_nothing && pool.space.used_on(device) > 0;
        if wants_exact && pass.is_exact && is_quiet {
            pool.space.give_up_uncounted(device);
            if let Some(group) = pool.space.used_and_not_loaded(device) {
                self.load_group(group, None, false);
            }
        }
        self.rest_after_pass(wants_exact);
    }

    fn rest_after_pass(&mut self, wants_exact: bool) {
        self.evacuator.end_pass(self.engine.pool.now, wants_exact);
        self.engine.checkpointer.want();
    }
}

/// Where data of a device that leaves was moved, as far as it was.
fn moved_places(
    pool: &mut Pool,
    device: DeviceNumber,
    entries: &[(usize, Entry)],
) -> Result<Vec<Option<Entry>>, Missing> {
    let root = pool.volumes[&moved_from(device)].root;
    let mut places = Vec::with_capacity(entries.len());
    for (_, entry) in entries {
        let block = VolumeBlock::new(entry.address().block().number());
        let mut place = Entry::HOLE;
        let range = BlockRange::of(block);
        pool.map.walk(root, range, |_, found| place = found[0])?;
        places.push((place.kind() == Kind::Data).then_some(place));
    }
    Ok(places)
}

/// Whether pages that were rewritten are to reach a checkpoint before more are.
fn is_checkpoint_needed(pool: &Pool, log: &Log) -> bool {
    let dirty = pool.map.dirty.len();
    dirty >= pool.dirty_max() / 2
        || pool.space.has_too_many_deltas()
        || has_little_space(pool)
        || !log.has_room(CommitClass::Ordinary)
}

/// Whether the pages that are dirty, and those of another leaf, may find no space at the checkpoint.
fn has_little_space(pool: &Pool) -> bool {
    pool.space.free() < 4 * pool.map.dirty.len() as u64 + 4 * FANOUT
}

/// Entries of a leaf, in order, as runs of adjacent blocks.
fn runs(mut entries: Vec<Entry>) -> Vec<Reading> {
    entries.sort_unstable_by_key(|entry| entry.address());
    entries.dedup_by_key(|entry| entry.address());
    let mut runs: Vec<Reading> = Vec::new();
    for entry in entries {
        match runs.last_mut() {
            Some(last) if last.run.end() == entry.address() => {
                last.run.blocks += 1;
                last.crcs.push(entry.crc);
            }
            _ => runs.push(Reading {
                run: Run::of(entry.address()),
                crcs: vec![entry.crc],
                is_retried: false,
            }),
        }
    }
    runs
}
