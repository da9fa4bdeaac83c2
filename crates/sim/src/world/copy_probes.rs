//! Probes of mirrors on copies of the disks as a power failure left them: openings that must be
//! refused, because what is there may be stale, and copies that rot and must be mended.

use store::{Failure, MemberState, MemberStatus, OpenContext, OpenError, Store, Tag};

use super::presence::slots_of;
use super::probes::{Copy, run};
use super::slots::State;
use super::{OWN_TAG, POOL_UUID, World};
use crate::audit::{Audit, Copies};
use crate::disk::{Crash, Rot, SimDisk};
use crate::oracle::{Violation, violation};
use crate::trace::Event;

/// Scrubs of a copy of the pool at most.
const SCRUBS_MAX: usize = 4;

impl World {
    /// After a power failure of a pool with mirrors, before recovery.
    pub(super) fn probe_copies(&mut self) -> Result<(), Violation> {
        let Some(mirrors) = &self.profile.mirrors else { return Ok(()) };
        if !self.chance.one_in(mirrors.probe_one_in.max(1)) {
            return Ok(());
        }
        match self.chance.below(4) {
            0 | 1 => self.open_stale_copies_alone(),
            2 => self.open_without_witness(),
            _ => self.rot_some_of_each_copy(),
        }
    }

    /// Devices of the pool for sure. Of one that is joining, or was refused, nothing may be missed (239),
    /// also if it was to get the number of one that has left (52000423).
    fn joined_devices(&self) -> Vec<usize> {
        let count = Audit::device_count(&self.slots.view(&self.disks));
        let has =
            |device: &usize| self.audit.as_ref().is_some_and(|audit| audit.has_device(*device));
        (0..count.min(self.slots.devices.len())).filter(has).collect()
    }

    /// Only stale copies of a mirror are there, and the array knows of a newer list.
    fn open_stale_copies_alone(&mut self) -> Result<(), Violation> {
        for device in self.joined_devices() {
            let Some(newest) = self.newest_list(device) else { continue };
            let saved = self.witness.saved.get(&newest.mirror).copied().unwrap_or(0);
            let members = self.slots.devices[device].iter();
            let stale = members.filter(|m| !newest.is_current(m.uuid) && self.is_labelled(m));
            let stale: Vec<usize> = stale.map(|member| member.slot).collect();
            if stale.is_empty() || saved < newest.generation {
                continue;
            }
            let mut opened = self.all_plugged();
            self.slots.of(device).for_each(|slot| opened[slot] = stale.contains(&slot));
            self.trace.add(self.now, Event::Note("a copy of the pool has stale copies only"));
            return self.must_be_refused(&opened, &self.open_context());
        }
        Ok(())
    }

    /// A current copy is missing and the array does not know how new the lists are.
    fn open_without_witness(&mut self) -> Result<(), Violation> {
        for device in self.joined_devices() {
            let sufficient = self.sufficient_copies(device);
            let Some(newest) = self.newest_list(device) else { continue };
            let members = self.slots.devices[device].iter();
            let current = members.filter(|member| newest.is_current(member.uuid));
            let current: Vec<usize> = current.map(|member| member.slot).collect();
            let missing = current.iter().find(|slot| sufficient.iter().any(|other| other != *slot));
            let Some(&missing) = missing else { continue };
            let mut opened = self.all_plugged();
            opened[missing] = false;
            let mut context = OpenContext::expecting(Some(POOL_UUID));
            self.trace.add(self.now, Event::Note("a copy of the pool is opened without a witness"));
            self.must_be_refused(&opened, &context)?;
            context.allow_degraded = true;
            let disks = self.copy_of_disks();
            return match Copy::open_with(disks, &opened, &context, &self.profile) {
                Ok(_) => Ok(()),
                Err(error) => violation(format!("a degraded opening was allowed: {error}")),
            };
        }
        Ok(())
    }

    fn must_be_refused(&mut self, opened: &[bool], context: &OpenContext) -> Result<(), Violation> {
        let mut disks = self.copy_of_disks();
        self.figures.probes += 1;
        let slots = slots_of(&disks, opened);
        let options = self.profile.options();
        let mut store = Store::open(&slots, context.clone(), options, Tag(OWN_TAG));
        let answer = run(&mut store, &mut disks);
        let writes: u64 = disks.iter().map(|disk| disk.statistics().writes).sum();
        match answer {
            // The list of a stale copy may be damaged, too, and one that was about to join has no label.
            Some(Err(Failure::Open(
                OpenError::MembersMissing { .. }
                | OpenError::Missing { .. }
                | OpenError::Damaged(_)
                | OpenError::Foreign,
            ))) if writes == 0 => Ok(()),
            other => {
                let result = other.map(|answer| answer.map(drop));
                violation(format!(
                    "opening what may be stale was answered {result:?}, after {writes} writes"
                ))
            }
        }
    }

    /// One block in a hundred rots in one copy of each mirror: everything is mended by one scrub.
    fn rot_some_of_each_copy(&mut self) -> Result<(), Violation> {
        let Some(audit) = self.audit.as_ref().filter(|audit| !audit.is_reaping()) else {
            return Ok(());
        };
        let mut places = Vec::new();
        for device in 0..audit.device_sizes().len() {
            let Some(newest) = self.newest_list(device) else { continue };
            let members = self.slots.devices[device].iter();
            let current = members.clone().filter(|member| newest.is_current(member.uuid));
            let current: Vec<usize> = current.map(|member| member.slot).collect();
            if current.len() >= 2 && members.clone().all(|m| m.state == State::Sound) {
                places.push((audit.found_on(device), current));
            }
        }
        let mut disks = self.copy_of_disks();
        for (blocks, slots) in &places {
            for &block in blocks {
                if self.chance.percent(1) {
                    let slot = slots[self.chance.below(slots.len() as u64) as usize];
                    disks[slot].rot(block, self.chance.pick(&Rot::ALL));
                }
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        self.rot_a_journal(&mut disks);
        self.figures.probes += 1;
        self.trace.add(self.now, Event::Note("blocks rot in one copy of a copy of the pool"));
        let opened = self.all_plugged();
        match Copy::open_with(disks, &opened, &self.open_context(), &self.profile) {
            Ok(copy) => self.mend_rotten(copy),
            Err(error) => violation(format!("with blocks rotten in one copy: {error}")),
        }
    }

    /// Units rot in one copy of the journal: whole units are taken from another one.
    fn rot_a_journal(&mut self, disks: &mut [SimDisk]) {
        let Some(newest) = self.newest_list(0) else { return };
        let members = self.slots.devices[0].iter();
        let current = members.clone().filter(|member| newest.is_current(member.uuid));
        let current: Vec<usize> = current.map(|member| member.slot).collect();
        let all_sound = members.clone().all(|member| member.state == State::Sound);
        let Some(audit) = self.audit.as_ref().filter(|_| all_sound && current.len() >= 2) else {
            return;
        };
        let units = audit.witnessed_units(&self.slots.view(&self.disks));
        let slot = current[self.chance.below(current.len() as u64) as usize];
        for unit in units {
            if self.chance.percent(10) {
                let block = unit.block + self.chance.below(unit.blocks);
                disks[slot].rot(block, self.chance.pick(&Rot::ALL));
            }
        }
    }

    fn mend_rotten(&self, mut copy: Copy) -> Result<(), Violation> {
        // What is being taken apart is no volume's, and no scrub reads its data.
        if copy.store.statistics().reap_queue > 0 {
            return Ok(());
        }
        let mut is_mended = false;
        for number in 1..=SCRUBS_MAX {
            let (before, was_whole) = (healed(&copy), is_whole(&copy));
            let status = copy.scrub();
            let sound = status.as_ref().is_some_and(|s| s.bad_blocks == 0 && s.bad_pages == 0);
            if !sound {
                return violation(format!("scrub {number} of a rotten copy found {status:?}"));
            }
            if is_mended && healed(&copy) > before {
                return violation("a second scrub found something to mend in a rotten copy");
            }
            if is_mended {
                break;
            }
            // One that is filled meanwhile may be so with what had rotted: resilvering knows no checksums, and
            // the scrub after it mends that (85001614).
            is_mended = was_whole;
        }
        // What was written again need not be flushed.
        copy.disks.iter_mut().for_each(|disk| disk.crash(Crash::KeepAll));
        let mirrors: Vec<_> = copy.store.mirrors().collect();
        for turn in 0..3 {
            // By the numbers of the devices, of which some may have left (721022).
            let last = mirrors.last().map_or(0, |mirror| mirror.device.into());
            let mut slots = vec![0; last + 1];
            for mirror in &mirrors {
                let is_current = |member: &&MemberStatus| member.state == MemberState::Current;
                let current = mirror.members.iter().filter(is_current);
                let current: Vec<u8> = current.filter_map(|member| member.slot).collect();
                let slot = current.get(turn % current.len().max(1));
                slots[usize::from(mirror.device)] = slot.map_or(0, |slot| usize::from(*slot));
            }
            Audit::of(&Copies { disks: &copy.disks, slots: &slots })?;
        }
        Ok(())
    }

    /// Every slot with a copy that joined.
    pub(super) fn all_plugged(&self) -> Vec<bool> {
        let mut opened = vec![self.profile.mirrors.is_none(); self.disks.len()];
        for member in self.slots.devices.iter().flatten() {
            opened[member.slot] = member.state != State::Joining || self.is_labelled(member);
        }
        opened
    }
}

fn is_whole(copy: &Copy) -> bool {
    let mut members = copy.store.mirrors().flat_map(|mirror| mirror.members);
    members.all(|member| member.state == MemberState::Current)
}

fn healed(copy: &Copy) -> u64 {
    let members = copy.store.mirrors().flat_map(|mirror| mirror.members);
    members.map(|member| member.healed_blocks).sum()
}
