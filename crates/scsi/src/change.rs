//! State changes of a logical unit by a command, which take effect when they are durable as far as
//! they must be.

use crate::clock::Clock;
use crate::modes::Modes;
use crate::persistent::{PersistentReservations, Registrant, Transition, condition};
use crate::sense::SenseCode;
use crate::statistics::Statistics;

/// A change that was found right and is still to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// The registrations and the reservation after it.
    pub(crate) reservations: Option<PersistentReservations>,
    /// The mode parameters after it.
    pub(crate) modes: Option<Modes>,
    /// The statistics after it.
    pub(crate) statistics: Option<Statistics>,
    /// The device clock after it.
    pub(crate) clock: Option<Clock>,
    /// The saved mode parameters after it.
    pub(crate) saved_modes: Option<Modes>,
    /// Unit attention conditions, by registrant.
    pub(crate) told: Vec<(Registrant, SenseCode)>,
    /// A unit attention condition for every nexus but that of the command.
    pub(crate) told_to_others: Option<SenseCode>,
    /// Registrants whose tasks are aborted before the command is answered.
    pub(crate) aborted: Vec<Registrant>,
}

impl Change {
    pub(crate) fn of_reservations(transition: Transition) -> Self {
        let Transition { state, told, preempted } = transition;
        let told = told.into_iter().map(|(who, notice)| (who, condition(notice))).collect();
        Self { reservations: Some(state), told, aborted: preempted, ..Self::default() }
    }
}
