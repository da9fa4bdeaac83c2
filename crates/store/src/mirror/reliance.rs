//! Reliance of a mirror on its witness device: what its owner knows of it, and what was found when it was opened.

use super::list::{List, ListName};
use super::member::MemberSet;

/// What an owner knows of the witness, and of who could open the mirror with it.
#[derive(Default)]
pub(super) struct Reliance {
    /// Members with which somebody who holds the witness could open the mirror; none if no list relies on one.
    pub(super) rivals: MemberSet,
    /// Generation of the last list that took effect with the witness.
    pub(super) basis: u64,
    /// The list that was sent to the witness last, if it is not known to be there.
    pub(super) sent: Option<ListName>,
    /// Lists that the witness may hold, of which this owner knows.
    pub(super) known: Vec<List>,
}

/// What was found of a mirror's witness when it was opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundWitness {
    /// Members that a list which relies on a witness calls current.
    pub(crate) rivals: Vec<[u8; 16]>,
    /// Generation of the last list that took effect with it.
    pub(crate) basis: u64,
    /// A list that may come to the witness at any time.
    pub(crate) sent: Option<ListName>,
    /// Lists that rely on it.
    pub(crate) known: Vec<List>,
}
