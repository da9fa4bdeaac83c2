//! Invariant checks, and when each is made.

use std::time::Duration;

use block::{BLOCK, ByteRange, Request, Response, SECTOR, VolumeId};
use store::{Change, Depth, EvacuationChange, Outcome, Tag};

use super::presence::slots_of;
use super::{Answer, OWN_TAG, World};
use crate::action::{Action, Span};
use crate::content::{self, NOBODY, tags_of};
use crate::disk::Faults;
use crate::limits::CHECK_BYTES;
use crate::oracle::{Oracle, Violation, violation};

/// Sectors that are compared after a recovery, those that were touched last; the others wait for a
/// later one, or for the end of the run.
const COMPARED_SECTORS: u64 = 4096;

/// Bytes that a page of the map takes in memory.
const PAGE_MEMORY: u64 = BLOCK + 96;

/// Pages that a checkpoint may be writing, and that must stay in memory meanwhile.
const PAGES_OF_A_CHECKPOINT: u64 = 600;

/// Checkpoints after which a pool without volumes must be empty, a virtual second apart: the
/// slowest reaper takes 100 subtrees apart in a second.
const CHECKPOINTS_UNTIL_EMPTY: u64 = 200;

/// An allocation group (docs/format.md).
const GROUP_BYTES: u64 = 128 << 20;

/// Virtual time between looks at the reaper, in nanoseconds.
const REAP_STEP: u64 = 10_000_000;

impl World {
    /// I10: the accounts add up.
    pub(super) fn check_accounts(&mut self) -> Result<(), Violation> {
        let space = self.store.space();
        if self.store.evacuation().is_some() {
            self.reserve.resized();
        }
        let unused = space.pending + space.reserve + space.free + space.unbacked;
        if space.used + unused != space.total {
            return violation(format!("the space does not add up: {space:?}"));
        }
        if space.promised > space.free {
            return violation(format!("more is promised than free: {space:?}"));
        }
        if self.profile.faults.is_some() {
            return Ok(());
        }
        let under_way = self.in_flight.values().map(|flight| &flight.action);
        self.reserve.check(&space, under_way)
    }

    /// I16: pages of the map in memory keep to their budget.
    pub(super) fn check_memory(&self) -> Result<(), Violation> {
        let pages = self.store.statistics().pages_clean;
        let budget = (self.profile.memory_bytes / 2 / PAGE_MEMORY).max(64);
        if pages <= 2 * budget + PAGES_OF_A_CHECKPOINT {
            Ok(())
        } else {
            violation(format!("{pages} pages are in memory, the budget is {budget}"))
        }
    }

    /// Where nothing is damaged and all can be read, no group is given up.
    pub(super) fn check_groups(&self) -> Result<(), Violation> {
        let fenced = self.store.statistics().groups_fenced;
        let excused = self.profile.faults.as_ref().is_some_and(Faults::disturb_reads);
        if fenced == 0 || excused {
            Ok(())
        } else {
            violation(format!("{fenced} groups are given up as damaged"))
        }
    }

    /// A scrub finds nothing bad on a sound medium.
    pub(super) fn check_scrub(&self) -> Result<(), Violation> {
        let status = self.store.scrub_status();
        let sound = status.bad_blocks == 0 && status.bad_pages == 0 && status.bad.is_empty();
        if sound || self.profile.faults.is_some() {
            Ok(())
        } else {
            violation(format!("the scrub finds damage where there is none: {status:?}"))
        }
    }

    /// I2 to I9: after a recovery every sector is explained.
    pub(super) fn compare_all(&mut self) -> Result<(), Violation> {
        self.settle_table()?;
        let mut oracle = std::mem::take(&mut self.oracle);
        let result = self.compare_with(&mut oracle);
        self.oracle = oracle;
        self.lost.clear();
        result?;
        self.check_accounts()?;
        if self.random.percent(3) {
            self.audit_engine(Depth::Map)?;
        }
        Ok(())
    }

    fn compare_with(&mut self, oracle: &mut Oracle) -> Result<(), Violation> {
        let lost = std::mem::take(&mut self.lost);
        let effects: Vec<_> = lost.iter().flat_map(|action| oracle.effects(action)).collect();
        // What is nobody's content is found below, where it can be told where it is.
        let happened = oracle.explain(&effects, |volume, span| self.read(volume, span))?;
        self.figures.unannounced += happened;
        for effect in &effects {
            self.compare_span(oracle, effect.volume, effect.span())?;
        }
        let everything = self.random.percent(3);
        let volumes: Vec<VolumeId> = oracle.volumes.keys().copied().collect();
        let mut left = if everything { u64::MAX } else { COMPARED_SECTORS };
        for volume in volumes {
            let Some(model) = oracle.volumes.get_mut(&volume) else { continue };
            let whole = Span { first: 0, count: model.sectors() };
            if everything {
                model.touched = vec![whole];
            }
            for span in joined(model.take_touched(&mut left)) {
                self.compare_span(oracle, volume, span)?;
            }
        }
        Ok(())
    }

    fn compare_span(
        &mut self,
        oracle: &mut Oracle,
        volume: VolumeId,
        span: Span,
    ) -> Result<(), Violation> {
        let Some(model) = oracle.volumes.get(&volume) else { return Ok(()) };
        let end = span.end().min(model.sectors());
        let mut first = span.first;
        while first < end {
            let part = Span { first, count: (end - first).min(CHECK_BYTES / SECTOR) };
            let found = self.read(volume, part)?;
            oracle.check_content(volume, part, &found)?;
            first += part.count;
        }
        Ok(())
    }

    fn read(&mut self, volume: VolumeId, span: Span) -> Result<Vec<content::Tag>, Violation> {
        match self.ask_to_read(volume, span.range())? {
            Ok(Outcome::Response(Response::Data(rope))) => Ok(tags_of(&rope)),
            other => violation(format!("a read of {span} of {} was answered {other:?}", volume.0)),
        }
    }

    fn ask_to_read(&mut self, volume: VolumeId, range: ByteRange) -> Result<Answer, Violation> {
        self.store.submit(Tag(OWN_TAG), volume, Request::Read { range });
        match self.run_until_answered()? {
            Some(answer) => Ok(answer),
            None => violation("the power failed during a check"),
        }
    }

    /// I3 and I5, with the engine's own check.
    pub(super) fn audit_engine(&mut self, depth: Depth) -> Result<(), Violation> {
        self.figures.audits += 1;
        let disks = &self.disks;
        let report = self.store.audit(depth, |slot, offset, into| {
            disks[usize::from(slot)].read_current(offset, into);
            Ok(())
        });
        match report.faults.first() {
            Some(fault) => violation(format!("the engine's check finds: {fault}")),
            None => Ok(()),
        }
    }

    /// What the power failure left must be sound for the offline check, which replays the journal
    /// in memory.
    pub(super) fn verify_offline(&mut self) -> Result<(), Violation> {
        // It tells of each copy that is damaged, and of what a power failure left on one copy only.
        if self.profile.mirrors.is_some() {
            return Ok(());
        }
        self.figures.audits += 1;
        let disks = &self.disks;
        let slots = slots_of(disks, &self.all_plugged());
        let report = store::verify(&slots, Depth::Data, |slot, offset, into| {
            disks[usize::from(slot)].read_current(offset, into);
            Ok(())
        });
        match report {
            Err(error) => violation(format!("the offline check cannot open the pool: {error}")),
            Ok(report) => match report.faults.first() {
                Some(fault) => violation(format!("the offline check finds: {fault}")),
                None => Ok(()),
            },
        }
    }

    /// After the medium lied only this is certain: no sector holds what nobody wrote.
    pub(super) fn look_for_nonsense(&mut self) -> Result<(), Violation> {
        let volumes: Vec<_> =
            self.store.volumes().map(|volume| (volume.spec.id, volume.spec.size_bytes)).collect();
        for (volume, size_bytes) in volumes {
            for offset in (0..size_bytes).step_by(CHECK_BYTES as usize) {
                let range = ByteRange::new(offset, CHECK_BYTES.min(size_bytes - offset));
                let Ok(Outcome::Response(Response::Data(rope))) =
                    self.ask_to_read(volume, range)?
                else {
                    continue;
                };
                if tags_of(&rope).contains(&NOBODY) {
                    return violation(format!("{range:?} of {} holds nobody's bytes", volume.0));
                }
            }
        }
        Ok(())
    }

    /// The end of a run: everything is compared, the pool is closed and opened again, and sometimes
    /// emptied.
    pub(super) fn finish_run(&mut self) -> Result<(), Violation> {
        self.crash_in = u64::MAX;
        // What is under way may still meet what the faults left.
        self.quiesce()?;
        self.set_faulty(false);
        if !self.read_only && !self.profile.medium_is_unsound() {
            self.mend_everything()?;
            self.end_departure()?;
        }
        if self.read_only || self.profile.medium_is_unsound() {
            return self.power_failure_and_recovery();
        }
        let mut oracle = std::mem::take(&mut self.oracle);
        let volumes: Vec<_> =
            oracle.volumes.iter().map(|(id, model)| (*id, model.sectors())).collect();
        for (volume, count) in volumes {
            self.compare_span(&mut oracle, volume, Span { first: 0, count })?;
        }
        self.oracle = oracle;
        self.audit_engine(Depth::Data)?;
        self.audit_anew()?;
        if self.random.percent(30) {
            self.empty_the_pool()?;
        }
        self.change(Change::Close)?;
        self.profile.crash_interval = 0;
        self.power_failure_and_recovery()
    }

    /// I15: without volumes nothing is used, but in groups that are given up because their maps
    /// could not be read.
    fn empty_the_pool(&mut self) -> Result<(), Violation> {
        let volumes: Vec<VolumeId> = self.oracle.volumes.keys().copied().collect();
        if self.store.evacuation().is_some() {
            self.change(Change::Evacuation(EvacuationChange::Cancel))?;
        }
        for volume in volumes {
            self.change(Change::DeleteVolume(volume))?;
        }
        for _ in 0..CHECKPOINTS_UNTIL_EMPTY {
            self.change(Change::Checkpoint)?;
            let given_up = self.store.statistics().groups_fenced * GROUP_BYTES;
            if self.store.space().used <= given_up {
                return Ok(());
            }
            self.let_reap()?;
        }
        violation(format!("without volumes the pool holds {:?}", self.store.space()))
    }

    /// A second in which the reaper goes on.
    fn let_reap(&mut self) -> Result<(), Violation> {
        for _ in 0..1_000_000_000 / REAP_STEP {
            self.now += REAP_STEP;
            self.store.tick(Duration::from_nanos(self.now));
            self.quiesce()?;
        }
        Ok(())
    }

    pub(super) fn change(&mut self, change: Change) -> Result<(), Violation> {
        self.submit(Action::Change(change.clone()));
        self.quiesce()?;
        if self.read_only {
            violation(format!("{} found a read-only pool", Action::Change(change)))
        } else {
            Ok(())
        }
    }
}

/// Spans in order, those that touch or overlap made one.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| span.first);
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.first <= last.end() => {
                last.count = last.end().max(span.end()) - last.first;
            }
            _ => joined.push(span),
        }
    }
    joined
}
