//! The end of a device that has left the pool: from the durable checkpoint without it until its labels
//! are cleared.

use crate::address::DeviceNumber;
use crate::operation_key::OperationKey;

/// A device that is no part of the pool any more.
pub(crate) struct Farewell {
    pub(crate) key: OperationKey,
    pub(crate) device: DeviceNumber,
    /// Operations that read, and so may know blocks of it.
    pub(crate) others: Vec<OperationKey>,
    pub(crate) step: Step,
    /// I/O of this step under way.
    pub(crate) outstanding: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// What was begun before is waited for.
    Draining,
    /// Its labels are cleared.
    Clearing,
    Flushing,
}
