//! LUN maps (LUN masking): the number by which a host, a group of hosts or any host addresses a
//! volume.
//!
//! A number belongs to the host or group that sees it: two hosts may have different volumes under
//! one number. All that one initiator sees, as a host, through its groups and as [`ANY_HOST`], is
//! its view. In a view each number stands for one volume, and each volume has one number.
//!
//! A number that was taken from a volume is retired. It goes to another volume when it has rested
//! for a while, and no session holds it that knew the volume of before (docs/decisions/0089).

use std::collections::{BTreeMap, BTreeSet};

use block::VolumeId;
use imbl::ordmap::DiffItem;
use serde::{Deserialize, Serialize};

use super::{Access, Configuration, VisibleLun};
use crate::limits::LUN_NUMBERS;
use crate::{ANY_HOST, ArrayError, Table};

#[cfg(test)]
mod tests;

/// Every map, and every number that was taken from a volume and not given to another one yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub(super) struct LunMaps {
    /// By host, group or [`ANY_HOST`], and number.
    maps: Table<String, Table<u16, Map>>,
    /// By host, group or [`ANY_HOST`], and number.
    retired: Table<String, Table<u16, Retired>>,
    /// The same as `maps`, by volume.
    by_volume: Table<u64, BTreeMap<String, u16>>,
}

/// Part of the LUN maps that is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    maps: Table<String, Table<u16, Map>>,
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    retired: Table<String, Table<u16, Retired>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Map {
    volume: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Retired {
    /// The last volume under this number. If this volume comes back it may have the number at once.
    volume: u64,
    /// When it was unmapped: seconds since the daemon began. Not saved: after a restart every number rests anew.
    #[serde(skip)]
    since: u64,
}

/// A LUN map in the form of version 1, where a number was one volume's for the whole array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FormerLunMap {
    volume: u64,
    hosts: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    read_only: BTreeSet<String>,
}

/// Conditions under which a retired number may go to another volume.
#[derive(Clone, Copy, Debug)]
pub struct Rest<'a> {
    /// Seconds since the daemon began.
    pub now: u64,
    /// For how many seconds a number rests after its volume was unmapped.
    pub seconds: u64,
    /// Numbers that sessions hold, or held until less than `seconds` ago.
    pub held: &'a [HeldLun],
    /// Whether the history of the unused numbers is known.
    pub free: FreeLuns,
}

/// Whether the history of the unused numbers is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeLuns {
    /// No unused number ever stood for a volume, except for those that are retired.
    Known,
    /// The newest configuration is lost, in which any of them may have been given out: all rest.
    Unknown {
        /// Since when, in seconds since the daemon began.
        since: u64,
    },
}

impl Rest<'_> {
    /// For how many seconds more every number rests that stands for no volume, if they do.
    fn of_unknown(&self) -> Option<u64> {
        match self.free {
            FreeLuns::Known => None,
            FreeLuns::Unknown { since } => {
                Some((since + self.seconds).saturating_sub(self.now)).filter(|&s| s > 0)
            }
        }
    }
}

/// A number by which a session knew a volume that it sees there no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLun {
    /// iSCSI name of the session's initiator.
    pub initiator: String,
    /// The number.
    pub lun: u16,
    /// Volume that the number stood for.
    pub volume: VolumeId,
}

/// One of those who see a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeMap<'a> {
    /// A host, a group, or [`ANY_HOST`].
    pub host: &'a str,
    /// The number by which it addresses the volume.
    pub lun: u16,
    /// Access to the volume.
    pub access: Access,
}

/// All that a host, a group or [`ANY_HOST`] shares numbers with.
struct View<'a> {
    /// Every name that is in a view with this one, itself too.
    neighbours: BTreeSet<&'a str>,
    /// Numbers that sessions of its initiators hold.
    held: BTreeMap<u16, Vec<&'a HeldLun>>,
    /// As in [`Rest`].
    now: u64,
    /// As in [`Rest`].
    seconds: u64,
}

/// Why a number cannot be given to a volume.
#[derive(Clone, Copy)]
enum Obstacle<'a> {
    Taken { name: &'a str },
    Resting { name: &'a str, seconds: u64 },
    Held { initiator: &'a str },
}

impl Configuration {
    /// Lets a host, a group of hosts or [`ANY_HOST`] see a volume; returns the LUN number. Without
    /// a wish it is the one by which others see the volume or by which it was seen here before, if
    /// that is free, else the smallest free one. Mapping what is mapped already changes the access
    /// at most.
    pub fn map_volume(
        &mut self,
        volume: VolumeId,
        host: &str,
        (lun, access): (Option<u16>, Access),
        rest: &Rest<'_>,
    ) -> Result<u16, ArrayError> {
        if host != ANY_HOST && !self.host_groups.contains_key(host) {
            self.check_host(host)?;
        }
        let lun = self.choose_lun(volume, host, lun, rest)?;
        self.lun_maps.insert(host, lun, Map::new(volume, access));
        Ok(lun)
    }

    /// Takes a volume away from a host, or from all when `host` is `None`. `now` is the time as in
    /// [`Rest`].
    pub fn unmap_volume(
        &mut self,
        volume: VolumeId,
        host: Option<&str>,
        now: u64,
    ) -> Result<(), ArrayError> {
        let names: Vec<String> = match host {
            Some(host) => vec![host.to_owned()],
            None => self.hosts_of(volume).map(str::to_owned).collect(),
        };
        let not_mapped = || ArrayError::NotMapped(host.unwrap_or("any host").to_owned());
        let unmapped = names.iter().filter(|name| self.lun_maps.retire(volume, name, now));
        if unmapped.count() == 0 { Err(not_mapped()) } else { Ok(()) }
    }

    /// Whether a volume may be deleted: no host sees it.
    pub fn check_unmapped(&self, volume: VolumeId) -> Result<(), ArrayError> {
        let hosts: Vec<&str> = self.hosts_of(volume).collect();
        if hosts.is_empty() { Ok(()) } else { Err(ArrayError::StillMapped(hosts.join(", "))) }
    }

    /// Every volume that some host sees, in no order.
    pub fn mapped_volumes(&self) -> impl Iterator<Item = VolumeId> {
        let mapped = self.lun_maps.by_volume.iter().filter(|(_, hosts)| !hosts.is_empty());
        mapped.map(|(&volume, _)| VolumeId(volume))
    }

    /// Hosts and groups that see a volume, with their numbers.
    pub fn maps_of(&self, volume: VolumeId) -> impl Iterator<Item = VolumeMap<'_>> {
        let names = self.lun_maps.by_volume.get(&volume.0).into_iter().flatten();
        names.filter_map(|(host, &lun)| {
            let access = self.lun_maps.maps.get(host)?.get(&lun)?.access();
            Some(VolumeMap { host, lun, access })
        })
    }

    /// The LUN number of a volume, if it is mapped; the smallest if hosts see it by several.
    pub fn lun_of(&self, volume: VolumeId) -> Option<u16> {
        self.maps_of(volume).map(|map| map.lun).min()
    }

    /// The number by which a host sees a volume, if it does; an initiator that belongs to no host
    /// counts by its own name.
    pub fn lun_seen_by(&self, host: &str, volume: VolumeId) -> Option<u16> {
        let names = if self.hosts.contains_key(host) {
            self.names_of_host(host)
        } else {
            self.names_of(host)
        };
        self.maps_of(volume).find(|map| names.contains(map.host)).map(|map| map.lun)
    }

    /// The hosts that see a volume, [`ANY_HOST`] among them.
    pub fn hosts_of(&self, volume: VolumeId) -> impl Iterator<Item = &str> {
        self.maps_of(volume).map(|map| map.host)
    }

    /// Those of [`Self::hosts_of`] that may only read.
    pub fn read_only_hosts_of(&self, volume: VolumeId) -> impl Iterator<Item = &str> {
        let maps = self.maps_of(volume).filter(|map| map.access == Access::ReadOnly);
        maps.map(|map| map.host)
    }

    /// The LUNs that an initiator may see. Who sees a volume in several ways, as a host, through
    /// groups and as [`ANY_HOST`], may write if one of them allows it.
    pub fn visible_luns(&self, initiator: &str) -> BTreeMap<u16, VisibleLun> {
        let mut luns: BTreeMap<u16, VisibleLun> = BTreeMap::new();
        for name in self.names_of(initiator) {
            for (&lun, map) in self.lun_maps.maps.get(name).into_iter().flatten() {
                let seen = VisibleLun { volume: VolumeId(map.volume), access: map.access() };
                let before = luns.entry(lun).or_insert(seen);
                if *before != seen && before.volume == seen.volume {
                    before.access = Access::ReadWrite;
                }
            }
        }
        luns
    }

    /// Numbers of volumes that the initiator does not see any more, though somebody with its names
    /// did: what a session that begins now may know from before.
    pub fn retired_luns(&self, initiator: &str) -> BTreeMap<u16, VolumeId> {
        let names = self.names_of(initiator).into_iter();
        let retired = names.filter_map(|name| self.lun_maps.retired.get(name)).flatten();
        retired.map(|(&lun, retired)| (lun, VolumeId(retired.volume))).collect()
    }

    /// Takes over what version 1 of the file said: every volume keeps its number, and the numbers
    /// of volumes that nobody sees are retired.
    pub(super) fn take_former_luns(&mut self, former: BTreeMap<u16, FormerLunMap>) {
        for (lun, map) in former {
            for host in &map.hosts {
                let read_only = map.read_only.contains(host);
                self.lun_maps.insert(host, lun, Map { volume: map.volume, read_only });
            }
            if map.hosts.is_empty() {
                let numbers = self.lun_maps.retired.entry(ANY_HOST.to_owned()).or_default();
                numbers.insert(lun, Retired { volume: map.volume, since: 0 });
            }
        }
    }

    /// Whether a volume is mapped to a host or group by its own name.
    pub(super) fn has_maps(&self, name: &str) -> bool {
        self.lun_maps.maps.contains_key(name)
    }

    /// Whether hosts that join a group may see what the group sees, by the same numbers.
    pub(super) fn check_joining(
        &self,
        group: &str,
        hosts: &BTreeSet<String>,
        rest: &Rest<'_>,
    ) -> Result<(), ArrayError> {
        let members = self.host_groups.get(group);
        let joining = hosts.iter().filter(|host| !members.is_some_and(|m| m.contains(*host)));
        let maps = self.lun_maps.maps.get(group).into_iter().flatten();
        let maps: Vec<_> = maps.map(|(&lun, map)| (lun, VolumeId(map.volume))).collect();
        for host in joining {
            let view = self.view(host, rest);
            for &(lun, volume) in &maps {
                self.check_same_lun(volume, lun, &view.neighbours)?;
                self.check_lun(lun, volume, &view)?;
            }
        }
        // Two that join at once may bring nothing that clashes but through the group, which each
        // of them was compared with.
        Ok(())
    }

    /// Keeps the retired numbers of a group for hosts that leave it.
    pub(super) fn leave_group(&mut self, group: &str, hosts: &BTreeSet<String>, now: u64) {
        let members = self.host_groups.get(group).into_iter().flatten();
        let leaving: Vec<String> =
            members.filter(|member| !hosts.contains(*member)).cloned().collect();
        for host in leaving {
            self.lun_maps.remember(group, &host, now);
        }
    }

    /// Sets a host or group aside that is deleted: what its numbers stood for rests for everybody,
    /// because its initiators may come back under another name.
    pub(super) fn forget_name(&mut self, name: &str, now: u64) {
        self.lun_maps.remember(name, ANY_HOST, now);
        self.lun_maps.retired.remove(name);
    }

    /// Every name under which an initiator may have LUNs.
    fn names_of(&self, initiator: &str) -> BTreeSet<&str> {
        let host = self.host_of(initiator);
        host.map_or_else(|| BTreeSet::from([ANY_HOST]), |host| self.names_of_host(host))
    }

    fn names_of_host<'a>(&'a self, host: &'a str) -> BTreeSet<&'a str> {
        let groups = self.host_groups.iter().filter(|(_, hosts)| hosts.contains(host));
        groups.map(|(name, _)| name.as_str()).chain([host, ANY_HOST]).collect()
    }

    /// Every name that is in a view with this one.
    fn neighbours<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        if name == ANY_HOST {
            let names = self.lun_maps.maps.keys().chain(self.lun_maps.retired.keys());
            return names.map(String::as_str).chain([ANY_HOST]).collect();
        }
        match self.host_groups.get(name) {
            Some(hosts) => {
                let views = hosts.iter().flat_map(|host| self.names_of_host(host));
                views.chain([name, ANY_HOST]).collect()
            }
            None => self.names_of_host(name),
        }
    }

    /// The initiators that have a name; `None` for all.
    fn initiators_of(&self, name: &str) -> Option<BTreeSet<&str>> {
        if name == ANY_HOST {
            return None;
        }
        let group = self.host_groups.get(name);
        let hosts: Vec<&str> =
            group.map_or_else(|| vec![name], |hosts| hosts.iter().map(String::as_str).collect());
        let hosts = hosts.into_iter().filter_map(|host| self.hosts.get(host));
        Some(hosts.flat_map(|host| host.initiators.iter().map(String::as_str)).collect())
    }

    fn choose_lun(
        &self,
        volume: VolumeId,
        name: &str,
        wanted: Option<u16>,
        rest: &Rest<'_>,
    ) -> Result<u16, ArrayError> {
        if let Some(lun) = wanted.filter(|lun| *lun >= LUN_NUMBERS) {
            return Err(ArrayError::LunTooLarge(lun));
        }
        let view = self.view(name, rest);
        let neighbours = &view.neighbours;
        let seen = self.maps_of(volume).find(|map| neighbours.contains(map.host));
        let lun = wanted.or(seen.map(|map| map.lun));
        if let Some(lun) = lun {
            self.check_same_lun(volume, lun, neighbours)?;
        }
        if self.maps_of(volume).any(|map| map.host == name && Some(map.lun) == lun) {
            return lun.ok_or(ArrayError::LunsExhausted);
        }
        if let Some(seconds) = rest.of_unknown() {
            return Err(ArrayError::LunsUnknown { seconds });
        }
        if let Some(lun) = lun {
            return self.check_lun(lun, volume, &view).map(|()| lun);
        }
        let elsewhere = self.maps_of(volume).map(|map| map.lun);
        let before = self.lun_maps.retired_from(volume, neighbours);
        let is_free = |lun: &u16| self.obstacle(*lun, volume, &view).is_none();
        let known = elsewhere.chain(before).find(is_free);
        known.or_else(|| self.smallest_free(volume, &view)).ok_or(ArrayError::LunsExhausted)
    }

    /// The smallest number that a volume may have in a view in which it has none yet.
    fn smallest_free(&self, volume: VolumeId, view: &View<'_>) -> Option<u16> {
        let mut free = vec![true; usize::from(LUN_NUMBERS)];
        let held = view.held.iter().filter(|(_, held)| held.iter().any(|h| h.volume != volume));
        held.for_each(|(&lun, _)| free[usize::from(lun)] = false);
        for name in &view.neighbours {
            for &lun in self.lun_maps.maps.get(*name).into_iter().flat_map(Table::keys) {
                free[usize::from(lun)] = false;
            }
            for (&lun, retired) in self.lun_maps.retired.get(*name).into_iter().flatten() {
                if retired.volume != volume.0 && view.rests_for(retired) > 0 {
                    free[usize::from(lun)] = false;
                }
            }
        }
        (0..LUN_NUMBERS).find(|&lun| free[usize::from(lun)])
    }

    /// Whether all in a view address a volume by this number, so far as they do.
    fn check_same_lun(
        &self,
        volume: VolumeId,
        lun: u16,
        neighbours: &BTreeSet<&str>,
    ) -> Result<(), ArrayError> {
        let mut maps = self.maps_of(volume).filter(|map| neighbours.contains(map.host));
        match maps.find(|map| map.lun != lun) {
            Some(map) => Err(ArrayError::LunFixed { current: map.lun, host: map.host.to_owned() }),
            None => Ok(()),
        }
    }

    fn check_lun(&self, lun: u16, volume: VolumeId, view: &View<'_>) -> Result<(), ArrayError> {
        match self.obstacle(lun, volume, view) {
            None => Ok(()),
            Some(Obstacle::Taken { name }) => {
                Err(ArrayError::LunTaken { lun, host: name.to_owned() })
            }
            Some(Obstacle::Resting { name, seconds }) => {
                Err(ArrayError::LunResting { lun, host: name.to_owned(), seconds })
            }
            Some(Obstacle::Held { initiator }) => {
                Err(ArrayError::LunHeld { lun, initiator: initiator.to_owned() })
            }
        }
    }

    /// What has to do with the numbers of a host, a group or [`ANY_HOST`].
    fn view<'a>(&'a self, name: &'a str, rest: &Rest<'a>) -> View<'a> {
        let initiators = self.initiators_of(name);
        let concerns = |held: &&HeldLun| {
            initiators.as_ref().is_none_or(|names| names.contains(held.initiator.as_str()))
        };
        let mut held: BTreeMap<u16, Vec<&HeldLun>> = BTreeMap::new();
        for one in rest.held.iter().filter(concerns) {
            held.entry(one.lun).or_default().push(one);
        }
        View { neighbours: self.neighbours(name), held, now: rest.now, seconds: rest.seconds }
    }

    /// Why a volume cannot have a number in a view.
    fn obstacle<'a>(&'a self, lun: u16, volume: VolumeId, view: &View<'a>) -> Option<Obstacle<'a>> {
        let names = || view.neighbours.iter().copied();
        let taken = names().find_map(|name| {
            let map = self.lun_maps.maps.get(name)?.get(&lun)?;
            (map.volume != volume.0).then_some(Obstacle::Taken { name })
        });
        let resting = || {
            names().find_map(|name| {
                let retired = self.lun_maps.retired.get(name)?.get(&lun)?;
                let seconds = view.rests_for(retired);
                let is_other = retired.volume != volume.0 && seconds > 0;
                is_other.then_some(Obstacle::Resting { name, seconds })
            })
        };
        let held = || {
            let mut held = view.held.get(&lun).into_iter().flatten();
            let other = held.find(|held| held.volume != volume)?;
            Some(Obstacle::Held { initiator: &other.initiator })
        };
        taken.or_else(resting).or_else(held)
    }
}

impl View<'_> {
    /// For how many seconds more a retired number rests.
    const fn rests_for(&self, retired: &Retired) -> u64 {
        (retired.since + self.seconds).saturating_sub(self.now)
    }
}

impl LunMaps {
    /// Volumes of which some map is another one than before.
    pub(super) fn volumes_changed_since(&self, before: &Self) -> BTreeSet<u64> {
        let mut changed = BTreeSet::new();
        for item in before.maps.diff(&self.maps) {
            match item {
                DiffItem::Add(_, maps) | DiffItem::Remove(_, maps) => {
                    changed.extend(maps.values().map(|map| map.volume));
                }
                DiffItem::Update { old: (_, old), new: (_, new) } => {
                    changed.extend(old.diff(new).flat_map(|item| match item {
                        DiffItem::Add(_, map) | DiffItem::Remove(_, map) => {
                            [map.volume, map.volume]
                        }
                        DiffItem::Update { old: (_, old), new: (_, new) } => {
                            [old.volume, new.volume]
                        }
                    }));
                }
            }
        }
        changed
    }

    fn insert(&mut self, name: &str, lun: u16, map: Map) {
        self.by_volume.entry(map.volume).or_default().insert(name.to_owned(), lun);
        self.maps.entry(name.to_owned()).or_default().insert(lun, map);
        take(&mut self.retired, name, lun);
    }

    /// Takes a volume from a name; whether it had it.
    fn retire(&mut self, volume: VolumeId, name: &str, now: u64) -> bool {
        let Some(names) = self.by_volume.get_mut(&volume.0) else { return false };
        let Some(lun) = names.remove(name) else { return false };
        if names.is_empty() {
            self.by_volume.remove(&volume.0);
        }
        take(&mut self.maps, name, lun);
        let retired = Retired { volume: volume.0, since: now };
        self.retired.entry(name.to_owned()).or_default().insert(lun, retired);
        true
    }

    /// Retires all of one name's numbers for another one.
    fn remember(&mut self, of: &str, by: &str, now: u64) {
        let maps = self.maps.get(of).into_iter().flatten();
        let known = maps.map(|(&lun, map)| (lun, Retired { volume: map.volume, since: now }));
        let retired = self.retired.get(of).into_iter().flatten();
        let known: Vec<_> =
            retired.map(|(&lun, retired)| (lun, retired.clone())).chain(known).collect();
        if !known.is_empty() {
            self.retired.entry(by.to_owned()).or_default().extend(known);
        }
    }

    /// The numbers by which a volume was seen last.
    fn retired_from<'a>(
        &'a self,
        volume: VolumeId,
        names: &'a BTreeSet<&str>,
    ) -> impl Iterator<Item = u16> + 'a {
        let retired = names.iter().filter_map(|name| self.retired.get(*name)).flatten();
        retired.filter(move |(_, retired)| retired.volume == volume.0).map(|(&lun, _)| lun)
    }
}

/// Takes a number from a name, which is forgotten with its last one.
fn take<T: Clone>(numbers: &mut Table<String, Table<u16, T>>, name: &str, lun: u16) {
    let Some(of_name) = numbers.get_mut(name) else { return };
    of_name.remove(&lun);
    if of_name.is_empty() {
        numbers.remove(name);
    }
}

impl From<Saved> for LunMaps {
    fn from(saved: Saved) -> Self {
        let mut maps = Self { retired: saved.retired, ..Self::default() };
        for (name, numbers) in saved.maps {
            for (lun, map) in numbers {
                maps.by_volume.entry(map.volume).or_default().insert(name.clone(), lun);
                maps.maps.entry(name.clone()).or_default().insert(lun, map);
            }
        }
        maps
    }
}

impl From<LunMaps> for Saved {
    fn from(maps: LunMaps) -> Self {
        Self { maps: maps.maps, retired: maps.retired }
    }
}

impl Map {
    fn new(volume: VolumeId, access: Access) -> Self {
        Self { volume: volume.0, read_only: access == Access::ReadOnly }
    }

    const fn access(&self) -> Access {
        if self.read_only { Access::ReadOnly } else { Access::ReadWrite }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}
