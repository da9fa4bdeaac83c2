//! A small array on which changes are tried, without a daemon.

use core::net::SocketAddr;
use std::cell::RefCell;

use api::ProblemKind;
use array::FreeLuns;

use super::*;
use crate::problems::not_found;
use crate::volumes::Found;

/// Seconds since 1970 at which changes are made.
pub(crate) const NOW: u64 = 1_800_000_000;

/// What a change finds besides the configuration: a pool 'p' with volumes 'a' and 'b', whose
/// identifiers are 1 and 2.
pub(crate) struct World {
    /// Seconds since the daemon began.
    pub(crate) uptime: u64,
    /// Numbers that sessions hold.
    pub(crate) held: Vec<HeldLun>,
    /// How often somebody asked for those.
    pub(crate) asked_for_held: RefCell<u32>,
    /// Addresses at which somebody else listens.
    pub(crate) occupied: Vec<SocketAddr>,
    /// Addresses that were opened.
    pub(crate) opened: RefCell<Vec<SocketAddr>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            uptime: 1000,
            held: Vec::new(),
            asked_for_held: RefCell::new(0),
            occupied: Vec::new(),
            opened: RefCell::default(),
        }
    }
}

impl View for World {
    fn rest(&self) -> Rest<'static> {
        Rest { now: self.uptime, seconds: 60, held: &[], free: FreeLuns::Known }
    }

    fn held(&self) -> Vec<HeldLun> {
        *self.asked_for_held.borrow_mut() += 1;
        self.held.clone()
    }

    fn volume(&self, pool: &str, name: &str) -> Result<VolumeId, Problem> {
        match (pool, name) {
            ("p", "a") => Ok(VolumeId(1)),
            ("p", "b") => Ok(VolumeId(2)),
            (_, _) => Err(not_found(&format!("there is no volume '{pool}/{name}'"))),
        }
    }

    fn name_of(&self, volume: VolumeId) -> String {
        format!("volume p/{}", volume.0)
    }

    fn fixed_portals(&self) -> Portals {
        let fixed = "192.0.2.1:3260".parse().unwrap();
        Portals::from([(fixed, array::Portal { group: 1, redirect: None })])
    }

    fn listen(&self, address: SocketAddr) -> Result<(), String> {
        if self.occupied.contains(&address) {
            return Err("Address already in use".to_owned());
        }
        self.opened.borrow_mut().push(address);
        Ok(())
    }
}

/// An array without anything.
pub(crate) fn empty() -> Draft {
    let array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
    Draft { array, secrets: Secrets::default() }
}

/// The same with pool 'p'.
pub(crate) fn with_pool() -> Draft {
    let mut draft = empty();
    let pool = array::Pool {
        uuid: [7; 16],
        devices: Vec::new(),
        thresholds: array::Thresholds::default(),
        delete_scheduled_snapshots: false,
        read_only: false,
        mirroring: array::Mirroring::default(),
        departure: None,
        fail_back: array::FailBack::default(),
    };
    draft.array.pools.insert("p".to_owned(), pool);
    draft
}

/// Volume 'p/a', as a request finds it.
pub(crate) fn volume() -> Found {
    let name = "a".to_owned();
    Found { pool: "p".to_owned(), name, id: VolumeId(1), is_snapshot: false, is_going: false }
}

/// Snapshot 'p/s', whose identifier is 3.
pub(crate) fn snapshot() -> Found {
    Found { name: "s".to_owned(), id: VolumeId(3), is_snapshot: true, ..volume() }
}

/// Makes a change; what is refused leaves the draft as it was, as the server does.
pub(crate) fn make(
    draft: &mut Draft,
    world: &World,
    change: &impl ConfigurationChange,
) -> Result<Applied, Problem> {
    let mut next = draft.clone();
    let applied = change.apply(&mut next, NOW, world)?;
    *draft = next;
    Ok(applied)
}

/// The kind of problem with which a change is refused that leaves the draft alone.
pub(crate) fn refusal(
    draft: &mut Draft,
    world: &World,
    change: &impl ConfigurationChange,
) -> ProblemKind {
    let before = draft.clone();
    let problem = make(draft, world, change).unwrap_err();
    assert_eq!(*draft, before);
    *ProblemKind::ALL.iter().find(|kind| kind.urn() == problem.kind).unwrap()
}

/// What is answered, as JSON.
pub(crate) fn written(applied: &Applied) -> &serde_json::Value {
    match &applied.answer {
        Answer::Written(value) => value,
        Answer::Pool(_) | Answer::Volume(_) | Answer::Snapshot(_) => panic!("{applied:?}"),
    }
}

pub(crate) fn names(names: &[&str]) -> Touched {
    Touched::Names(names.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn several_changes_touch_whom_one_of_them_touches() {
    let names =
        |names: &[&str]| Touched::Names(names.iter().map(|&name| name.to_owned()).collect());
    for (one, other, both) in [
        (Touched::Nobody, Touched::Nobody, Touched::Nobody),
        (names(&["a"]), Touched::Nobody, names(&["a"])),
        (names(&["a"]), names(&["b"]), names(&["a", "b"])),
        (names(&["a"]), Touched::All, Touched::All),
    ] {
        assert_eq!(one.clone().and(other.clone()), both);
        assert_eq!(other.and(one), both);
    }
}

/// A generator of numbers that seem random and are the same in every run (Knuth, MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn name(&mut self, kind: &str, count: u64) -> String {
        format!("{kind}{}", self.below(count))
    }

    fn names(&mut self, kind: &str, count: u64) -> BTreeSet<String> {
        (0..self.below(3)).map(|_| self.name(kind, count)).collect()
    }

    /// One of the changes that decide who sees what.
    fn change(&mut self, draft: &mut Draft, world: &World) -> Result<Applied, Problem> {
        use crate::hosts::{Account, Change};
        use crate::lun_maps::{map, unmap};
        let host = ["any".to_owned(), self.name("h", 4), self.name("g", 2)][self.below(3) as usize]
            .clone();
        let name = ["a", "b"][self.below(2) as usize];
        let found = Found { name: name.to_owned(), id: VolumeId(self.below(3)), ..volume() };
        match self.below(8) {
            0 => {
                let (name, initiators) = (self.name("h", 4), self.names("iqn.x:", 6));
                make(draft, world, &Change::CreateHost { name, initiators, chap: None })
            }
            1 => {
                let initiators = Some(self.names("iqn.x:", 6));
                let (name, account) = (self.name("h", 4), Account::Kept);
                make(draft, world, &Change::ChangeHost { name, initiators, account })
            }
            2 => make(draft, world, &Change::DeleteHost(self.name("h", 4))),
            3 => {
                let (name, hosts) = (self.name("g", 2), self.names("h", 4));
                make(draft, world, &Change::SetGroup { name, hosts })
            }
            4 => make(draft, world, &Change::DeleteGroup(self.name("g", 2))),
            5 => make(draft, world, &unmap(&found, &host)),
            _ => {
                let read_only = self.below(2) == 0;
                let request = api::MapVolume { lun: None, read_only };
                make(draft, world, &map(&request, found, &host)?)
            }
        }
    }
}

/// Twenty thousand changes: who sees something else looks again, or has to log in again.
#[test]
fn whoever_sees_other_luns_is_touched_or_its_session_ends() {
    let (mut draft, mut world, mut numbers) = (empty(), World::new(), Numbers(1));
    let (mut made, mut differed, mut spared) = (0, 0, 0);
    for _ in 0..20_000 {
        world.uptime += numbers.below(40);
        let before = draft.clone();
        let Ok(applied) = numbers.change(&mut draft, &world) else {
            assert_eq!(draft, before);
            continue;
        };
        made += 1;
        let ends = crate::session_ends::ended_by(
            (&before.array, &before.secrets),
            (&draft.array, &draft.secrets),
        );
        let touched = applied.touched.initiators(&draft.array);
        for initiator in (0..6).map(|number| format!("iqn.x:{number}")) {
            let is_told = touched.as_ref().is_none_or(|touched| touched.contains(&*initiator));
            let seen = |draft: &Draft| draft.array.visible_luns(&initiator);
            if seen(&before) == seen(&draft) {
                spared += u32::from(!is_told);
                continue;
            }
            differed += 1;
            assert!(is_told || ends.initiators.contains(&initiator), "{initiator}: {applied:?}");
        }
    }
    assert!(made > 3000 && differed > 2000 && spared > 2000, "{made} {differed} {spared}");
}
