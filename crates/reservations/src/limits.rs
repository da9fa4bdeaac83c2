//! Bounds of the state of one volume.

/// Registrations of one volume; one more is refused ([`crate::Refusal::OutOfResources`]).
pub const REGISTRATIONS_MAX: usize = 1024;
