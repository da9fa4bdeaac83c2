//! A device leaves the pool: when that may begin, and its end, when nothing is on it any more.
//!
//! What remains of a device at the end is its place in the superblock's list. The checkpoint without it
//! has no volume of what was moved either, so a crash finds both or neither. Its labels are cleared when
//! that checkpoint is durable, and nobody reads it any more.

use block::{BLOCK, Buffer};

use super::{OperationKey, Stage};
use crate::address::DeviceNumber;
use crate::budget::Departure;
use crate::change::{EvacuationChange, Outcome, moved_from};
use crate::commit::CommitClass;
use crate::error::{ChangeError, Failure};
use crate::farewell::{Farewell, Step};
use crate::io::Waiter;
use crate::layout::LABELS;
use crate::pool::NO_DEVICE;
use crate::record::Record;
use crate::serving::Serving;
use crate::superblock::{FEATURE_DEPARTURE, Features};
use crate::volume::Volume;

impl Serving {
    /// A device begins to leave: from the commit on nothing new is put on it.
    pub(super) fn begin_evacuation(
        &mut self,
        key: OperationKey,
        device: DeviceNumber,
    ) -> Result<(), Failure> {
        self.check_departure(device)?;
        let Departure { owed, promised } = self.engine.pool.plan_departure(device)?;
        if self.begin_upgrade(key, Features::incompatible(FEATURE_DEPARTURE)) {
            return Ok(());
        }
        let pool = &mut self.engine.pool;
        let wanted = pool.kept_blocks() + owed;
        if let Some(group) = pool.space.group_to_back_beside(device, wanted) {
            self.preallocate(group, key);
            return Ok(());
        }
        if self.engine.log.must_wait_for_checkpoint(pool, CommitClass::Ordinary)
            && !self.engine.checkpointer.is_starved()
        {
            self.stall(key);
            return Ok(());
        }
        // Until the record is applied others must take none of what is left then.
        pool.budget.promise(promised);
        self.requests.table[key].promised = promised;
        let blocks = self.engine.pool.space.layout(device).device_blocks;
        let volume = Box::new(Volume::moved(device, blocks));
        self.commit_change(key, vec![Record::CreateVolume { volume, source: None }]);
        Ok(())
    }

    fn check_departure(&self, device: DeviceNumber) -> Result<(), ChangeError> {
        let pool = &self.engine.pool;
        if !pool.space.is_there(device) {
            return Err(ChangeError::NoSuchDevice);
        }
        if pool.volumes.moved().is_some() {
            return Err(ChangeError::LeavingAlready);
        }
        if device == DeviceNumber::FIRST {
            return Err(ChangeError::FirstDevice);
        }
        if pool.space.has_fenced(device) {
            return Err(ChangeError::SpaceMapsDamaged);
        }
        let lacks_a_copy =
            pool.mirrors().find(|mirror| mirror.device != device.number() && mirror.is_degraded());
        match lacks_a_copy {
            Some(mirror) => Err(ChangeError::Degraded { device: mirror.device }),
            None => Ok(()),
        }
    }

    /// Lets moving rest or go on, or gives it up.
    pub(super) fn control_evacuation(
        &mut self,
        key: OperationKey,
        control: EvacuationChange,
    ) -> Result<(), Failure> {
        let moved = self.engine.pool.volumes.moved();
        let (device, _) = moved.ok_or(ChangeError::NothingLeaves)?;
        match control {
            EvacuationChange::Pause | EvacuationChange::Resume => {
                let rests = control == EvacuationChange::Pause;
                self.engine.pool.volumes.set_moving_rests(rests);
                self.wait_for_checkpoint(key);
            }
            EvacuationChange::Cancel if !self.evacuator.is_idle() => self.evacuator.hold(key),
            EvacuationChange::Cancel if !self.have_readers_ended() => {
                self.awaiting_lists.push(key);
            }
            EvacuationChange::Cancel if !self.engine.log.has_room(CommitClass::Ordinary) => {
                self.stall(key);
            }
            EvacuationChange::Cancel => {
                self.evacuator.end();
                let volume = moved_from(device);
                self.commit_change(key, vec![Record::DeleteVolume { volume }]);
            }
        }
        Ok(())
    }

    /// Whether nobody reads blocks of a device that is to stay which were moved since: they may be handed
    /// out again as soon as it does.
    fn have_readers_ended(&mut self) -> bool {
        let Self { requests, evacuator, .. } = self;
        let reading = || requests.all(|operation| operation.stage == Stage::Reading);
        evacuator.await_readers(reading, |key| requests.table.contains(key))
    }

    /// A device on which nothing is leaves the list of devices with the next checkpoint.
    pub(super) fn remove_device(
        &mut self,
        key: OperationKey,
        device: DeviceNumber,
    ) -> Result<(), Failure> {
        let pool = &self.engine.pool;
        let leaving = pool.volumes.moved().map(|(leaving, _)| leaving);
        if leaving != Some(device) {
            return Err(ChangeError::NothingLeaves.into());
        }
        if !pool.space.is_vacant(device) {
            return Err(ChangeError::NotEmpty.into());
        }
        if !self.evacuator.is_idle() {
            self.evacuator.hold(key);
            return Ok(());
        }
        // What was asked of the device before it left tells of its groups when it ends (700067).
        let engine = &self.engine;
        if engine.loader.loads_from(device) || engine.preallocation.concerns(device) {
            self.awaiting_lists.push(key);
            return Ok(());
        }
        if self.engine.checkpointer.is_writing() {
            self.stall(key);
            return Ok(());
        }
        self.evacuator.end();
        self.scrubber.forget_device(device);
        let pool = &mut self.engine.pool;
        pool.apply(&Record::DeleteVolume { volume: moved_from(device) });
        pool.space.remove_device(device);
        pool.map.moved.clear();
        pool.members.device_uuids[device.index()] = NO_DEVICE;
        self.wait_for_checkpoint(key);
        Ok(())
    }

    /// The checkpoint without the device is durable. Who began before that may know blocks of it.
    pub(crate) fn begin_farewell(&mut self, key: OperationKey, device: DeviceNumber) {
        let others = self.requests.all(|operation| operation.stage == Stage::Reading);
        let step = Step::Draining;
        self.farewell = Some(Farewell { key, device, others, step, outstanding: 0 });
    }

    /// Clears the labels of a device that has left, when nobody reads it any more.
    pub(crate) fn advance_farewell(&mut self) {
        let Some(Farewell { device, step: Step::Draining, others, .. }) = &mut self.farewell else {
            return;
        };
        let (device, table) = (*device, &self.requests.table);
        others.retain(|other| table.contains(*other));
        let is_quiet = others.is_empty()
            && self.engine.pool.io.is_device_idle(device)
            && !self.engine.loader.loads_from(device)
            && !self.engine.preallocation.concerns(device)
            && !self.scrubber.reads_from(device);
        if is_quiet {
            self.clear_labels();
        }
    }

    fn clear_labels(&mut self) {
        let Some(farewell) = &mut self.farewell else { return };
        (farewell.step, farewell.outstanding) = (Step::Clearing, LABELS.len());
        let (waiter, device) = (Waiter::Farewell { operation: farewell.key }, farewell.device);
        let zeros = Buffer::zeroed(BLOCK as usize).freeze();
        for block in LABELS {
            let io = &mut self.engine.pool.io;
            io.write(waiter.clone(), block.on(device), zeros.clone().into());
        }
    }

    /// A write or flush of a device that has left has ended. It is no part of the pool, also if that
    /// failed.
    pub(crate) fn farewell_ended(&mut self, key: OperationKey) {
        let Some(farewell) = self.farewell.as_mut().filter(|farewell| farewell.key == key) else {
            return;
        };
        farewell.outstanding -= 1;
        if farewell.outstanding > 0 {
            return;
        }
        let device = farewell.device;
        if farewell.step == Step::Clearing {
            (farewell.step, farewell.outstanding) = (Step::Flushing, 1);
            return self.engine.pool.io.flush(Waiter::Farewell { operation: key }, device);
        }
        self.farewell = None;
        self.engine.pool.io.remove(device);
        self.finish(key, Ok(Outcome::Changed));
    }
}
