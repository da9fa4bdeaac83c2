//! A logical unit: one volume as hosts see it.

use std::time::Duration;

use block::{BlockCount, ByteRange, Lba, LogicalBlockLength, SwitchesOff};
use reservations::Access;
use sam::AccessState;

use crate::access_state::UnitAccess;
use crate::change::Change;
use crate::clock::Clock;
use crate::designator::Designator;
use crate::device_server::NexusId;
use crate::durable::DurableState;
use crate::identity::{Identification, Identity};
use crate::modes::{Modes, Threshold};
use crate::persistent::{PersistentReservations, Registrant};
use crate::sense::{self, Sense, SenseCode};
use crate::space::{Reached, UnitSpace, threshold_sets};
use crate::statistics::Statistics;
use crate::task_set::{Class, Slot, TaskSet};

/// What the owner says of a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogicalUnitSpec {
    /// NAA type 6 designator (VPD page 83h).
    pub naa: [u8; 16],
    /// Size in bytes, a multiple of the logical block length; what exceeds it is not shown.
    pub size_bytes: u64,
    /// Length of a logical block.
    pub block_length: LogicalBlockLength,
    /// log2 of the logical blocks that are told to be one physical block: 3 for 512e, else 0.
    pub physical_block_exponent: u8,
    /// Thin provisioned (VPD page B2h type 2); false if all its space is reserved.
    pub thin: bool,
}

/// A logical unit and its task set.
pub(crate) struct LogicalUnit {
    pub(crate) spec: LogicalUnitSpec,
    /// Distinguishes this unit from one of the same volume that was removed before.
    pub(crate) epoch: u64,
    /// Vendor and product, if it does not say what all say.
    pub(crate) own_identification: Option<Identification>,
    pub(crate) write_protected: bool,
    /// SPC-2 5.5.1: the nexus that holds the SCSI-2 reservation.
    pub(crate) reservation: Option<NexusId>,
    pub(crate) persistent: PersistentReservations,
    /// Whether commands about reservations are answered as if there were none.
    pub(crate) reservations_hidden: bool,
    /// Primitives that are off for whoever asks.
    pub(crate) switches_off: SwitchesOff,
    pub(crate) modes: Modes,
    /// What the mode parameters are when nobody changed them.
    pub(crate) default_modes: Modes,
    /// SPC-4 5.10: what the mode parameters become at the next power on, if anyone saved them.
    pub(crate) saved_modes: Option<Modes>,
    /// Where the space stands, once the owner has said so.
    pub(crate) space: Option<UnitSpace>,
    pub(crate) reached: Reached,
    pub(crate) statistics: Statistics,
    /// The device clock, if SET TIMESTAMP set it.
    pub(crate) clock: Option<Clock>,
    /// What is stored for this unit; `None` while it is being replaced or not known.
    pub(crate) durable: Option<DurableState>,
    /// Whether a SANITIZE runs or has failed.
    pub(crate) sanitize: Sanitize,
    /// Whether the medium cannot be reached, since the pool of the volume is not open. The unit is
    /// there, its size is not known.
    pub(crate) is_absent: bool,
    /// How this controller serves it.
    pub(crate) access: UnitAccess,
    pub(crate) tasks: TaskSet,
}

/// SBC-4 4.11: what became of the last SANITIZE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sanitize {
    /// It succeeded, or there was none.
    #[default]
    None,
    /// It runs; so many 65,536ths are done.
    InProgress(u16),
    /// It failed; EXIT FAILURE MODE is allowed if AUSE was set.
    Failed { exit_allowed: bool },
}

impl LogicalUnit {
    pub(crate) fn new(spec: LogicalUnitSpec, epoch: u64, now: Duration) -> Self {
        Self {
            spec,
            epoch,
            own_identification: None,
            write_protected: false,
            reservation: None,
            persistent: PersistentReservations::default(),
            reservations_hidden: false,
            switches_off: SwitchesOff::NONE,
            modes: Modes::default(),
            default_modes: Modes::default(),
            saved_modes: None,
            space: None,
            reached: Reached::default(),
            statistics: Statistics::starting(now),
            clock: None,
            durable: Some(DurableState::default()),
            sanitize: Sanitize::None,
            is_absent: false,
            access: UnitAccess::default(),
            tasks: TaskSet::default(),
        }
    }

    /// Length of a logical block in bytes.
    pub(crate) const fn block_bytes(&self) -> u64 {
        self.spec.block_length.bytes()
    }

    /// ANC_SUP: all its space is reserved, so that whatever is unmapped is anchored (SBC-4 4.7.4.3).
    pub(crate) const fn anchors(&self) -> bool {
        !self.spec.thin
    }

    /// Number of logical blocks.
    pub(crate) const fn blocks(&self) -> u64 {
        self.spec.size_bytes / self.block_bytes()
    }

    /// The bytes of `count` blocks from `lba`.
    ///
    /// # Errors
    /// 05h/21h/00h if they reach beyond the end, or start there without being empty.
    pub(crate) fn range(&self, lba: Lba, count: BlockCount) -> Result<ByteRange, Sense> {
        let end = lba.0.checked_add(count.0);
        match end {
            Some(end) if end <= self.blocks() => {
                let bytes = self.block_bytes();
                Ok(ByteRange::new(lba.0 * bytes, count.0 * bytes))
            }
            _ => Err(sense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE.into()),
        }
    }

    /// Ends what tells of the medium, or works on it, while nobody knows what it is like.
    ///
    /// # Errors
    /// 02h/04h/01h: in process of becoming ready, so that hosts wait for it and do not give it up;
    /// 0Ah, 0Bh or 0Ch if this controller does not serve it, so that they go to another one.
    pub(crate) fn check_present(&self) -> Result<(), Sense> {
        let why = match self.access.state {
            _ if !self.is_absent => return Ok(()),
            AccessState::ActiveOptimized | AccessState::ActiveNonOptimized => {
                sense::LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY
            }
            AccessState::Standby => sense::TARGET_PORT_IN_STANDBY_STATE,
            AccessState::Unavailable => sense::TARGET_PORT_IN_UNAVAILABLE_STATE,
            AccessState::Transitioning => sense::ASYMMETRIC_ACCESS_STATE_TRANSITION,
        };
        Err(why.into())
    }

    /// As [`Self::check_present`], for what only tells the size: a standby path tells it as far as it
    /// is known.
    pub(crate) fn check_size_known(&self) -> Result<(), Sense> {
        let is_known = self.access.state == AccessState::Standby && self.spec.size_bytes > 0;
        if is_known { Ok(()) } else { self.check_present() }
    }

    /// This controller serves the unit no more: what it knew of reservations and mode parameters is
    /// out of date from now on.
    pub(crate) fn leave_to_others(&mut self) {
        self.is_absent = true;
        self.forget_state();
    }

    /// Nothing is known of reservations and mode parameters.
    pub(crate) fn forget_state(&mut self) {
        self.reservation = None;
        self.persistent = PersistentReservations::default();
        self.modes = self.default_modes.clone();
        self.saved_modes = None;
        self.durable = Some(DurableState::default());
    }

    /// Ends what needs the medium while it cannot be reached, a SANITIZE runs or has failed.
    ///
    /// # Errors
    /// As [`Self::check_present`]; 02h/04h/1Bh with the progress, 03h/31h/03h.
    pub(crate) fn check_ready(&self) -> Result<(), Sense> {
        self.check_present()?;
        match self.sanitize {
            Sanitize::None => Ok(()),
            Sanitize::InProgress(done) => Err(Sense::sanitize_in_progress(done)),
            Sanitize::Failed { .. } => Err(sense::SANITIZE_COMMAND_FAILED.into()),
        }
    }

    /// What it says of vendor and product.
    pub(crate) fn identification(&self, identity: &Identity) -> Identification {
        self.own_identification.unwrap_or(identity.identification)
    }

    /// Whether a designator, as a CSCD descriptor holds it, names this unit: by exact length and
    /// content.
    pub(crate) fn has_designator(
        &self,
        identity: &Identity,
        code_set: u8,
        kind: u8,
        value: &[u8],
    ) -> bool {
        let is_same =
            |own: Designator| own.code_set == code_set && own.kind == kind && own.value == value;
        Designator::all(&self.identification(identity), &self.spec.naa).into_iter().any(is_same)
    }

    /// Whether the SCSI-2 reservation keeps `nexus` out.
    pub(crate) fn is_reserved_against(&self, nexus: NexusId) -> bool {
        self.reservation.is_some_and(|holder| holder != nexus)
    }

    /// Whether a reservation of either kind keeps `nexus` from the medium.
    pub(crate) fn conflicts(&self, nexus: NexusId, who: &Registrant, access: Access) -> bool {
        self.is_reserved_against(nexus) || self.persistent.conflicts(who, access)
    }

    /// Why commands that change the medium are refused, if they are.
    pub(crate) fn write_protection(&self) -> Option<SenseCode> {
        match (self.write_protected, self.modes.software_write_protect) {
            (true, _) => Some(sense::WRITE_PROTECTED),
            (false, true) => Some(sense::LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED),
            (false, false) => None,
        }
    }

    /// Takes note of where the space stands; returns whether a threshold is newly reached.
    pub(crate) fn update_space(&mut self, space: UnitSpace) -> bool {
        self.space = Some(space);
        self.reached.update(&self.modes, space, self.spec.block_length)
    }

    /// Changes the default threshold for available space, and the current one if nobody set it.
    pub(crate) fn set_default_threshold(&mut self, available_bytes: Option<u64>) {
        let count = threshold_sets(available_bytes.unwrap_or(0), self.spec.block_length);
        let threshold = Threshold { enabled: available_bytes.is_some(), count };
        if !self.modes.is_available_threshold_set && self.saved_modes.is_none() {
            self.modes.available_threshold = threshold;
        }
        self.default_modes.available_threshold = threshold;
    }

    /// What is to be stored once a change is made.
    pub(crate) fn durable_after(&self, change: &Change) -> DurableState {
        let reservations = change.reservations.as_ref().unwrap_or(&self.persistent).durable();
        let modes = change.saved_modes.as_ref().or(self.saved_modes.as_ref()).cloned();
        DurableState { reservations, modes }
    }

    /// Takes a task out of the task set, whether it ran or waited.
    pub(crate) fn remove_task(&mut self, slot: Slot, class: Class, now: Duration) {
        if !self.tasks.withdraw(slot) {
            self.leave(class, now);
        } else if self.tasks.len() == 0 {
            self.statistics.work_ends(now);
        }
    }

    /// Takes a task that ran out of the task set.
    pub(crate) fn leave(&mut self, class: Class, now: Duration) {
        self.tasks.leave(class);
        if self.tasks.len() == 0 {
            self.statistics.work_ends(now);
        }
    }

    /// Makes a change that is stored as far as it must be.
    pub(crate) fn change(&mut self, change: &Change) {
        self.durable = Some(self.durable_after(change));
        if let Some(reservations) = &change.reservations {
            self.persistent = reservations.clone();
        }
        if let Some(modes) = &change.modes {
            self.modes = modes.clone();
        }
        self.clock = change.clock.or(self.clock);
        self.statistics = change.statistics.unwrap_or(self.statistics);
        if let Some(modes) = &change.saved_modes {
            self.saved_modes = Some(modes.clone());
        }
    }
}
