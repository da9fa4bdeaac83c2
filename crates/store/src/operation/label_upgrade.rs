//! Rewrites the labels of all devices with more features, for a change that needs them: one copy, flush,
//! the other, flush; a copy that was damaged comes first. A power cut leaves one intact copy at every
//! step, so the pool opens with the features of before or with the new ones, of which nothing makes
//! use yet.

use block::DeviceError;

use super::{OperationKey, Stage};
use crate::error::ChangeError;
use crate::io::Waiter;
use crate::layout::LABELS;
use crate::serving::Serving;
use crate::superblock::{Features, Label};

/// An upgrade of the labels that is under way.
pub(super) struct LabelUpgrade {
    /// What the labels have then.
    features: Features,
    /// Which copy is written first.
    leading: usize,
    /// What is written, or flushed.
    step: Step,
    /// I/O of this step under way.
    outstanding: usize,
    failure: Option<DeviceError>,
}

/// One after the other, each on all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Write { copy: usize },
    Flush { copy: usize },
}

impl Step {
    /// What comes after a step has ended on all devices, where copy `leading` came first.
    const fn next(self, leading: usize) -> Option<Self> {
        match self {
            Self::Write { copy } => Some(Self::Flush { copy }),
            Self::Flush { copy } if copy == leading => Some(Self::Write { copy: 1 - leading }),
            Self::Flush { .. } => None,
        }
    }
}

impl Serving {
    /// Begins to give the labels what a change needs; `false` if all copies have it. The change is run
    /// again when they do.
    pub(super) fn begin_upgrade(&mut self, key: OperationKey, needed: Features) -> bool {
        let members = &self.engine.pool.members;
        if members.labelled.contain(needed) && members.unsound_labels.is_empty() {
            return false;
        }
        let leading = members.unsound_labels.first().map_or(0, |&(_, copy)| copy);
        let upgrade = LabelUpgrade {
            features: members.features.union(needed),
            leading,
            step: Step::Write { copy: leading },
            outstanding: 0,
            failure: None,
        };
        let operation = &mut self.requests.table[key];
        operation.stage = Stage::Upgrading;
        operation.upgrade = Some(Box::new(upgrade));
        self.submit_upgrade(key);
        true
    }

    /// Writes copies of labels again that were found unsound as the pool was opened: one copy only, since
    /// the other one is what the device is known by. If the power fails before they are durable that is
    /// done again.
    pub(crate) fn heal_labels(&mut self) {
        let pool = &mut self.engine.pool;
        // Those that differ in their features a change writes that needs these.
        if pool.members.labelled != pool.members.features {
            return;
        }
        let first = pool.members.unsound_labels.first().map(|&(_, copy)| copy);
        let unsound = pool.members.unsound_labels.clone().into_iter();
        for (device, copy) in unsound.filter(|&(_, copy)| Some(copy) == first) {
            let label = pool.label(device).emit().freeze();
            pool.io.write(Waiter::HealedLabel, LABELS[copy].on(device), label.into());
        }
    }

    /// A write or flush of an upgrade has ended. An error is told only when nothing of it is under way
    /// any more: whoever tries again must not meet writes of this attempt.
    pub(crate) fn features_written(&mut self, key: OperationKey, result: Result<(), DeviceError>) {
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        let Some(upgrade) = &mut operation.upgrade else { return };
        upgrade.failure = upgrade.failure.take().or(result.err());
        upgrade.outstanding -= 1;
        if upgrade.outstanding > 0 {
            return;
        }
        if let Some(error) = upgrade.failure.take() {
            return self.finish(key, Err(ChangeError::Device(error).into()));
        }
        if let Some(step) = upgrade.step.next(upgrade.leading) {
            upgrade.step = step;
            return self.submit_upgrade(key);
        }
        let members = &mut self.engine.pool.members;
        members.features = upgrade.features;
        members.labelled = upgrade.features;
        members.unsound_labels.clear();
        operation.upgrade = None;
        operation.stage = Stage::Begun;
        self.requests.ready.push_back(key);
    }

    /// Submits the I/O of a step, to all devices.
    fn submit_upgrade(&mut self, key: OperationKey) {
        let pool = &mut self.engine.pool;
        let devices = pool.space.devices();
        let Some(upgrade) = &mut self.requests.table[key].upgrade else { return };
        upgrade.outstanding = devices.len();
        for device in devices {
            let waiter = Waiter::Features { operation: key };
            match upgrade.step {
                Step::Write { copy } => {
                    let label = Label { features: upgrade.features, ..pool.label(device) };
                    pool.io.write(waiter, LABELS[copy].on(device), label.emit().freeze().into());
                }
                Step::Flush { .. } => pool.io.flush(waiter, device),
            }
        }
    }
}
