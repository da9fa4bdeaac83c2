//! Power failures, and the checks after each recovery.

use store::{Failure, Health, OpenError, Store, Tag};

use super::{Answer, Flight, OWN_TAG, World, pool_spec};
use crate::action::Action;
use crate::audit::Audit;
use crate::disk::Crash;
use crate::limits::{RECOVERY_CRASHES_MAX, RECOVERY_OPERATIONS_MAX};
use crate::oracle::{Violation, violation};
use crate::trace::Event;

/// Openings of a hundred after which sound copies are compared.
const SOUND_COPIES_PERCENT: u64 = 25;

impl World {
    /// Makes the pool, sometimes with a power failure on the way.
    pub(super) fn format(&mut self) -> Result<(), Violation> {
        if self.random.percent(15) {
            self.crash_in = self.random.between(1, 40);
        }
        loop {
            if let Some(answer) = self.run_until_answered()? {
                self.crash_in = u64::MAX;
                self.making = false;
                self.look_at_superblock()?;
                return match answer {
                    Ok(_) => Ok(()),
                    Err(error) => violation(format!("the pool cannot be made: {error}")),
                };
            }
            self.figures.format_crashes += 1;
            self.power_failure();
            self.open_half_made()?;
            self.trace.add(self.now, Event::Note("making the pool anew"));
            let spec = pool_spec(&self.slots, &self.disks);
            self.store = Store::format(&spec, self.profile.options(), Tag(OWN_TAG));
        }
    }

    /// A pool whose making was interrupted opens empty or not at all.
    fn open_half_made(&mut self) -> Result<(), Violation> {
        self.crash_in = u64::MAX;
        self.open_store(0);
        match self.run_until_answered()? {
            Some(Ok(_)) if self.store.volumes().next().is_none() => Ok(()),
            Some(Err(Failure::Open(_))) => Ok(()),
            other => violation(format!("a half-made pool opened: {other:?}")),
        }
    }

    /// Chooses when the power fails next.
    pub(super) fn plan_crash(&mut self) {
        self.crash_in = match self.profile.crash_interval {
            0 => u64::MAX,
            interval => self.random.between(1, 2 * interval),
        };
    }

    pub(super) fn power_failure_and_recovery(&mut self) -> Result<(), Violation> {
        // Nothing is promised then: what is left has lied, or lacks what it was not asked for (50000787).
        if self.has_lost_all_sound_copies() {
            self.ended = true;
            return Ok(());
        }
        self.power_failure();
        let lost: Vec<Action> =
            self.lost.iter().filter(|action| action.volume().is_some()).cloned().collect();
        self.repeating = false;
        self.recover()?;
        if self.ended {
            return Ok(());
        }
        self.plan_crash();
        if !lost.is_empty() && self.random.percent(60) {
            self.repeat_lost(lost);
        }
        Ok(())
    }

    /// Hosts ask again for the first commands that they got no answer to. The journal must not
    /// mistake what an earlier life left behind them for what follows them now.
    fn repeat_lost(&mut self, lost: Vec<Action>) {
        let count = self.random.between(1, (lost.len() as u64).min(4)) as usize;
        self.trace.add(self.now, Event::Note("hosts repeat what they got no answer to"));
        for action in lost.into_iter().take(count) {
            self.submit(action);
        }
        self.repeating = true;
        if self.profile.crash_interval > 0 && self.random.percent(50) {
            self.crash_in = self.random.between(1, 12);
        }
    }

    pub(super) fn end_repeating(&mut self) -> Result<(), Violation> {
        self.repeating = false;
        if self.profile.crash_interval > 0 && self.random.percent(60) {
            return self.power_failure_and_recovery();
        }
        Ok(())
    }

    fn power_failure(&mut self) {
        let how = match self.random.below(10) {
            0 => Crash::KeepAll,
            1 => Crash::LoseAll,
            _ => Crash::Mixed,
        };
        let lost = self.in_flight.len() as u64;
        self.trace.add(self.now, Event::Crashed { how, lost });
        self.figures.crashes += 1;
        self.figures.checkpoint_crashes += u64::from(self.superblock_written);
        self.figures.healed += self.healed_blocks();
        self.disks.iter_mut().for_each(|disk| disk.crash(how));
        self.repair_after_power_failure();
        self.remember_lists();
        self.plug_in();
        let flights = std::mem::take(&mut self.in_flight).into_values();
        self.lost.extend(flights.map(|Flight { action, .. }| action));
        self.answer = None;
        self.to_move = None;
        self.read_only = false;
        self.superblock_written = true;
        self.now += 1_000_000;
    }

    /// Opens the pool, with more power failures on the way, and compares it with the model.
    fn recover(&mut self) -> Result<(), Violation> {
        if self.profile.medium_is_unsound() {
            return self.recover_unsound();
        }
        let faulty = self.faulty && self.random.percent(30);
        self.set_faulty(faulty);
        for attempt in 0.. {
            self.look_at_superblock()?;
            self.probe()?;
            if self.random.percent(1) {
                self.verify_offline()?;
                self.audit_anew()?;
            }
            self.plan_crash_in_recovery(attempt);
            self.open_store(attempt);
            match self.run_until_answered()? {
                None => {
                    self.figures.recovery_crashes += 1;
                    self.power_failure();
                }
                Some(Ok(_)) if !self.is_read_only() => break,
                Some(_) if self.faulty => {
                    self.figures.refusals += 1;
                    self.set_faulty(false);
                    self.power_failure();
                }
                Some(Err(error)) => {
                    return violation(format!("the pool cannot be opened: {error}"));
                }
                Some(Ok(_)) => {
                    return violation("the pool is read-only from the start, on a sound device");
                }
            }
        }
        self.crash_in = u64::MAX;
        self.set_faulty(false);
        // Faults while it was opened may have left out the last sound copy (87001273).
        if self.has_lost_all_sound_copies() {
            self.ended = true;
            return Ok(());
        }
        self.reconcile_copies()?;
        if self.replaces.percent(SOUND_COPIES_PERCENT) {
            self.check_sound_copies()?;
        }
        self.compare_all()?;
        let faulty = self.random.percent(70);
        self.set_faulty(faulty);
        Ok(())
    }

    pub(super) fn is_read_only(&self) -> bool {
        matches!(self.store.health(), Health::ReadOnly { .. })
    }

    fn plan_crash_in_recovery(&mut self, attempt: u64) {
        let spared = attempt >= RECOVERY_CRASHES_MAX || !self.random.percent(40);
        self.crash_in = if spared {
            u64::MAX
        } else {
            let most = self.random.pick(&[10, 60, 300]);
            self.random.between(1, most)
        };
    }

    /// The medium itself lost or changed something: old data and refusals are excused, wrong data
    /// is not. The run ends here.
    fn recover_unsound(&mut self) -> Result<(), Violation> {
        self.ended = true;
        self.faulty = true;
        self.crash_in = u64::MAX;
        for disk in &mut self.disks {
            disk.set_faults(crate::disk::Faults::default());
        }
        self.audit = None;
        self.superblock_written = false;
        self.open_store(0);
        match self.run_until_answered()? {
            Some(Ok(_)) => self.look_for_nonsense(),
            Some(Err(Failure::Open(error))) if !matches!(error, OpenError::OtherPool) => {
                self.figures.refusals += 1;
                Ok(())
            }
            other => violation(format!("opening after a fault was answered {other:?}")),
        }
    }

    pub(super) fn open_store(&mut self, attempt: u64) {
        self.trace.add(self.now, Event::Opening { attempt });
        self.store = Store::open(
            &self.open_slots(),
            self.open_context(),
            self.profile.options(),
            Tag(OWN_TAG),
        );
        self.reserve.reopened();
        self.forget_who_leaves();
        self.extending = false;
    }

    /// Runs the device until the world's own request is answered; `None` if the power fails first.
    pub(super) fn run_until_answered(&mut self) -> Result<Option<Answer>, Violation> {
        for _ in 0..RECOVERY_OPERATIONS_MAX {
            self.pump()?;
            if let Some(answer) = self.answer.take() {
                return Ok(Some(answer));
            }
            if self.crash_in == 0 {
                return Ok(None);
            }
            let Some((time, _)) = self.next_completion() else {
                return violation("lost wake-up: nobody works on the pool's opening or a read");
            };
            self.advance(time)?;
        }
        violation("opening the pool does not come to an end")
    }

    /// Walks what the durable superblock reaches, if there is a new one.
    pub(super) fn look_at_superblock(&mut self) -> Result<(), Violation> {
        if self.medium_is_suspect() || self.making {
            return Ok(());
        }
        // Faults of all copies may have left one out that nobody else did. If it was the last sound one
        // (seed 300634), what is current cannot be audited, and what is audited is not current.
        if self.profile.mirrors.is_some() {
            (0..self.slots.devices.len()).for_each(|device| self.choose_reference(device));
            if !self.audits_current_copies() {
                // What checkpoints reach meanwhile is not known when it is current again (8000581).
                self.audit = None;
                return Ok(());
            }
        }
        let known = self.audit.as_ref().map_or(0, Audit::generation);
        let copies = self.slots.view(&self.disks);
        // A copy that was away has missed checkpoints: what these gave away and used again is unknown. One
        // that has not got the newest superblock yet may be of a time when groups were not used (720004).
        let newest = Audit::newest_generation(&copies);
        let is_apart = |newest: u64| newest > known + 1 || newest < known;
        if self.profile.mirrors.is_some() && newest.is_some_and(is_apart) {
            self.audit = None;
        }
        let newer = match &mut self.audit {
            Some(audit) => audit.update(&copies)?,
            none => {
                *none = Audit::of(&copies)?;
                none.is_some()
            }
        };
        if newer {
            // The copy that is audited now may get later what another one had; and where nothing was
            // audited, a newer superblock may be on its way (9000391).
            let is_behind = self.audit.as_ref().is_some_and(|audit| audit.generation() < known);
            self.superblock_written = is_behind || known == 0 && self.superblock_written;
            self.figures.audits += 1;
            self.figures.checkpoints += 1;
        }
        Ok(())
    }

    /// Walks everything on the disk anew: that must come to the same as following the changes.
    pub(super) fn audit_anew(&mut self) -> Result<(), Violation> {
        let Some(audit) = &self.audit else { return Ok(()) };
        self.figures.audits += 1;
        match Audit::of(&self.slots.view(&self.disks))? {
            Some(anew) if anew.agrees_with(audit) => Ok(()),
            _ => violation("a walk from the start finds something else than the walks so far"),
        }
    }

    /// Whether the bytes on the medium may differ from what the engine wrote.
    fn medium_is_suspect(&self) -> bool {
        self.profile.medium_is_unsound()
    }

    /// What a change left open by a power failure may have done to the volume table: nothing, or
    /// one of the changes that were under way.
    pub(super) fn settle_table(&mut self) -> Result<(), Violation> {
        if self.oracle.table_matches(self.store.volumes()) {
            return Ok(());
        }
        let changes = self.lost.iter().filter_map(|action| match action {
            Action::Change(change) => Some(change),
            _ => None,
        });
        for change in changes {
            let mut oracle = self.oracle.clone();
            oracle.apply_change(change);
            if oracle.table_matches(self.store.volumes()) {
                self.figures.unannounced += 1;
                self.oracle = oracle;
                return Ok(());
            }
        }
        let found: Vec<_> =
            self.store.volumes().map(|volume| (volume.spec.id.0, volume.spec.size_bytes)).collect();
        let expected: Vec<_> = self
            .oracle
            .volumes
            .values()
            .map(|model| (model.spec.id.0, model.spec.size_bytes))
            .collect();
        violation(format!("the volumes are {found:?}, expected were {expected:?}"))
    }
}
