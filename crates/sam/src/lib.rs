//! The words of the SCSI architecture model (SAM-5) that a transport and the device server share:
//! task attributes and task management functions; and asymmetric access states of paths (ALUA, SPC-4
//! 5.15), which the configuration has, too.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// SPC-4 table 314: ASYMMETRIC ACCESS STATE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessState {
    /// 0h: everything works, as fast as it can.
    #[default]
    ActiveOptimized,
    /// 1h: everything works.
    ActiveNonOptimized,
    /// 2h: only what does not need the medium works (02h/04h/0Bh).
    Standby,
    /// 3h: the same (02h/04h/0Ch).
    Unavailable,
    /// Fh: the state changes; only what tells of the logical unit works (02h/04h/0Ah).
    Transitioning,
}

/// SAM-5 8.9: how a command stands to others of its logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAttribute {
    /// SIMPLE, also for untagged tasks.
    Simple,
    /// ORDERED.
    Ordered,
    /// HEAD OF QUEUE.
    HeadOfQueue,
    /// ACA: refused, since no such condition ever exists here.
    Aca,
}

/// SAM-5 7; RFC 7143 11.5.1 (but for TASK REASSIGN, which is the transport's own) and RFC 7144 6.1.
/// `Task` names a command: the transport and the device server have names of their own for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagementFunction<Task> {
    /// Ends one task of this nexus. A task that is not known has ended: that is success.
    AbortTask(Task),
    /// Ends all tasks of this nexus on the logical unit.
    AbortTaskSet,
    /// Not supported: no auto contingent allegiance condition ever exists here.
    ClearAca,
    /// Ends all tasks of all nexuses on the logical unit.
    ClearTaskSet,
    /// Ends all tasks and the reservation of the logical unit, and tells every nexus.
    LogicalUnitReset,
    /// LOGICAL UNIT RESET on every logical unit.
    TargetWarmReset,
    /// The same here; the owner ends the sessions.
    TargetColdReset,
    /// Ends all tasks of this nexus and its SCSI-2 reservations, and tells it.
    ItNexusReset,
    /// Whether a task is under way.
    QueryTask(Task),
    /// Whether any task of this nexus is under way on the logical unit.
    QueryTaskSet,
    /// Whether a unit attention condition waits for this nexus on the logical unit.
    QueryAsynchronousEvent,
}

impl<Task> TaskManagementFunction<Task> {
    /// The same function, its task by another name.
    pub fn map<Other>(self, name: impl FnOnce(Task) -> Other) -> TaskManagementFunction<Other> {
        match self {
            Self::AbortTask(task) => TaskManagementFunction::AbortTask(name(task)),
            Self::AbortTaskSet => TaskManagementFunction::AbortTaskSet,
            Self::ClearAca => TaskManagementFunction::ClearAca,
            Self::ClearTaskSet => TaskManagementFunction::ClearTaskSet,
            Self::LogicalUnitReset => TaskManagementFunction::LogicalUnitReset,
            Self::TargetWarmReset => TaskManagementFunction::TargetWarmReset,
            Self::TargetColdReset => TaskManagementFunction::TargetColdReset,
            Self::ItNexusReset => TaskManagementFunction::ItNexusReset,
            Self::QueryTask(task) => TaskManagementFunction::QueryTask(name(task)),
            Self::QueryTaskSet => TaskManagementFunction::QueryTaskSet,
            Self::QueryAsynchronousEvent => TaskManagementFunction::QueryAsynchronousEvent,
        }
    }

    /// Whether it may end tasks of other nexuses.
    pub const fn reaches_others(&self) -> bool {
        match self {
            Self::ClearTaskSet
            | Self::LogicalUnitReset
            | Self::TargetWarmReset
            | Self::TargetColdReset => true,
            Self::AbortTask(_)
            | Self::AbortTaskSet
            | Self::ClearAca
            | Self::ItNexusReset
            | Self::QueryTask(_)
            | Self::QueryTaskSet
            | Self::QueryAsynchronousEvent => false,
        }
    }
}
