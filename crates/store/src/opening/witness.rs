//! Choice among the membership lists of a mirror, where they may rely on a witness device.
//!
//! Who has the witness knows by its list what took effect: a list that was proposed on an older one is overruled,
//! whatever its generation. Who lacks it needs every copy that the newest list names, each of them current by all lists
//! that are there: then nobody else can have opened the mirror, and nobody can who is not fenced by these copies.

use crate::error::OpenError;
use crate::mirror::{FoundWitness, List};

/// What makes sure that nobody else can have opened the mirror since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assurance {
    /// No list relies on a witness: what the caller was told of lists, or every current member.
    Caller,
    /// The witness, which is there.
    Witness,
    /// Every copy that the list names: its witness is not there.
    EveryCopy,
}

/// A member that is there, and its intact lists.
pub(super) struct Holder<'a> {
    pub(super) member: Option<[u8; 16]>,
    pub(super) lists: Vec<&'a List>,
}

/// The list that holds.
pub(super) struct Ruling {
    pub(super) list: List,
    pub(super) assurance: Assurance,
    pub(super) found: FoundWitness,
}

const NO_LIST: &str = "no membership list of a mirror is intact";

pub(super) const APART: &str = "the members of a mirror were changed apart from each other: take away those whose changes are to be given up";

impl Holder<'_> {
    fn newest(&self) -> Option<&List> {
        self.lists.iter().copied().max_by_key(|list| list.generation)
    }
}

impl Ruling {
    /// Chooses among the lists of the members that are there.
    pub(super) fn of(
        holders: &[Holder<'_>],
        index: usize,
        is_forced: bool,
    ) -> Result<Self, OpenError> {
        let lists: Vec<&List> = holders.iter().filter_map(Holder::newest).collect();
        let all = holders.iter().flat_map(|holder| holder.lists.iter().copied());
        let naming: Vec<&List> = all.filter(|list| list.witness().is_some()).collect();
        let latest = naming.iter().max_by_key(|list| (list.basis, list.generation));
        let Some(witness) = latest.and_then(|list| list.witness()) else {
            let list = newest_list(&lists)?.clone();
            let (basis, sent) = (list.basis, list.sent);
            let found = FoundWitness { basis, sent, ..FoundWitness::default() };
            return Ok(Self { list, assurance: Assurance::Caller, found });
        };
        let own = holders.iter().find(|holder| holder.member == Some(witness));
        let list = match own {
            Some(own) => newest_by_witness(&lists, own.newest()),
            None => lists.iter().copied().max_by_key(|list| (list.basis, list.generation)),
        };
        let list = list.ok_or(OpenError::Damaged(NO_LIST))?;
        let assurance = match (list.witness(), own) {
            (Some(named), Some(_)) if named == witness => Assurance::Witness,
            (Some(_), _) => Assurance::EveryCopy,
            (None, _) => Assurance::Caller,
        };
        let rivals = rivals(holders, &naming, list, own.map(Holder::newest));
        let is_current = |member: &[u8; 16]| list.current().any(|current| current == *member);
        if assurance == Assurance::EveryCopy && !is_forced && !rivals.iter().all(is_current) {
            return Err(OpenError::MembersMissing { index, missing: vec![witness] });
        }
        let basis = match assurance {
            // Nobody has given the witness a newer one, as it would be on a copy.
            Assurance::EveryCopy => list.generation,
            Assurance::Witness | Assurance::Caller => {
                own.and_then(|own| own.newest()).map_or(0, |list| list.generation)
            }
        };
        let known = naming.into_iter().cloned().collect();
        let (basis, sent) = (basis.max(list.basis), list.sent);
        let found = FoundWitness { rivals, basis, sent, known };
        // Nobody else's word counts where an administrator wants the mirror opened without it.
        let is_alone = is_forced && assurance != Assurance::Witness;
        let found = if is_alone { FoundWitness { rivals: Vec::new(), ..found } } else { found };
        Ok(Self { list: list.clone(), assurance, found })
    }
}

/// Members with which somebody who holds the witness could open the mirror.
///
/// With the witness at hand they are those that its list calls current, or one that was proposed on it. Where the
/// list that holds relies on no witness, they are those that do not have it yet.
fn rivals(
    holders: &[Holder<'_>],
    naming: &[&List],
    list: &List,
    of_witness: Option<Option<&List>>,
) -> Vec<[u8; 16]> {
    let of_witness = of_witness.flatten();
    let counts = |one: &&&List| of_witness.is_none_or(|of_witness| one.follows(of_witness));
    let current = naming.iter().filter(counts).flat_map(|one| one.current());
    let is_behind = |member: &[u8; 16]| {
        let mut others = holders.iter().filter(|holder| holder.newest() != Some(list));
        others.any(|holder| holder.member == Some(*member))
    };
    current.filter(|member| list.witness().is_some() || is_behind(member)).collect()
}

/// The list with the highest generation of all that are there.
fn newest_list<'a>(lists: &[&'a List]) -> Result<&'a List, OpenError> {
    let newest = lists.iter().max_by_key(|list| list.generation);
    let newest = *newest.ok_or(OpenError::Damaged(NO_LIST))?;
    let differs = |list: &&List| list.generation == newest.generation && *list != newest;
    if lists.iter().any(differs) { Err(OpenError::Damaged(APART)) } else { Ok(newest) }
}

/// The newest list that was proposed by somebody who knew of the one that the witness has, or that one.
fn newest_by_witness<'a>(lists: &[&'a List], of_witness: Option<&List>) -> Option<&'a List> {
    let holds = |list: &&&List| of_witness.is_none_or(|of_witness| list.follows(of_witness));
    lists.iter().filter(holds).max_by_key(|list| (list.basis, list.generation)).copied()
}
