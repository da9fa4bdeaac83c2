//! Preallocates space in the devices' backing files, so that guaranteed writes cannot fail with
//! ENOSPC. A file system that is full cannot stop UNMAP, deleting, checkpoints, overwrites of what
//! a volume has, or writes to reserved volumes.
//!
//! A group is *housed* when its space was set aside. Free blocks of housed groups are never fewer
//! than what is guaranteed: the reserve, and what is owed to reserved volumes. Whatever would lower
//! them below that, or raise what is guaranteed, waits until another group is housed, and is
//! refused if none can be. What is housed is found out anew when a pool is opened: asking for space
//! that is there already costs nothing.

use block::DeviceError;

use crate::address::Run;
use crate::budget::reserve_of;
use crate::bugs::planted;
use crate::error::OpenError;
use crate::io::Waiter;
use crate::layout::{DEVICE_START, GROUP_HEAD, GROUPS_PER_DESCRIPTOR_PAGE, Layout};
use crate::metadata::metadata_reserve_of;
use crate::operation::OperationKey;
use crate::space::GroupId;
use crate::store::Store;

/// Groups for which space is asked at once while a pool is opened.
const AT_ONCE: usize = 64;

/// A group whose space is being set aside.
pub(crate) struct Housing {
    /// The group's length when it was asked for, in blocks.
    blocks: u64,
    pending: usize,
    refused: bool,
    /// Operations that wait for it.
    waiting: Vec<OperationKey>,
}

/// Runs to preallocate before a device joins or grows.
pub(crate) struct SetAside {
    /// Where it lies.
    pub(crate) runs: Vec<Run>,
    /// The groups that are housed then.
    pub(crate) groups: Vec<GroupId>,
}

impl Store {
    /// Sets a group's space aside on its device; `operation` goes on then, or when that is refused.
    pub(crate) fn house_group(&mut self, group: GroupId, operation: Option<OperationKey>) {
        if let Some(housing) = self.housing.get_mut(&group) {
            return housing.waiting.extend(operation);
        }
        let runs = self.pool.space.group_reservations(group);
        if runs.is_empty() {
            return self.ready.extend(operation);
        }
        let waiting = operation.into_iter().collect();
        let (blocks, pending) = (self.pool.space.group_blocks(group), runs.len());
        self.housing.insert(group, Housing { blocks, pending, refused: false, waiting });
        for run in runs {
            self.pool.io.reserve(Waiter::Housing { group }, run);
        }
    }

    pub(crate) fn group_housed(&mut self, group: GroupId, result: Result<(), DeviceError>) {
        let Some(housing) = self.housing.get_mut(&group) else { return };
        housing.pending -= 1;
        housing.refused |= result.is_err();
        if housing.pending > 0 {
            return;
        }
        let Some(housing) = self.housing.remove(&group) else { return };
        match housing.refused && !planted!(self.pool.bugs, RefusalIgnored) {
            true => self.space_refused(group),
            false => self.pool.space_given(group, housing.blocks),
        }
        self.ready.extend(housing.waiting);
    }

    /// Records that the file system below a device has no space for a group: no other group is
    /// preallocated either, unless it may be one whose space was set aside before the pool was
    /// opened.
    pub(crate) fn space_refused(&mut self, group: GroupId) {
        match self.recovery {
            Some(_) => self.pool.space.group_unavailable(group),
            None => self.pool.space.device_is_full(group.device),
        }
    }

    /// Asks for the space of what lies before the groups.
    pub(crate) fn set_heads_aside(&mut self) -> usize {
        let heads: Vec<Run> = self.pool.space.layouts().enumerate().map(head_of).collect();
        heads.iter().for_each(|&head| self.pool.io.reserve(Waiter::Format, head));
        heads.len()
    }

    /// Houses what is guaranteed while a pool is made or opened; `false` if nothing more can be
    /// done.
    pub(crate) fn house_guaranteed(&mut self) -> bool {
        let pinned = self.pool.space.pinned_groups().into_iter();
        let mut groups: Vec<GroupId> =
            pinned.filter(|&group| self.pool.space.can_be_housed(group)).take(AT_ONCE).collect();
        if groups.is_empty() {
            groups = self.pool.space.groups_to_house(self.pool.guaranteed_blocks(), AT_ONCE);
        }
        groups.iter().for_each(|&group| self.house_group(group, None));
        !groups.is_empty()
    }

    /// A new pool must have all that is guaranteed.
    pub(crate) fn check_housed(&self) -> Result<(), OpenError> {
        match self.pool.space.housed_free() < self.pool.guaranteed_blocks() {
            true => Err(OpenError::NoSpace),
            false => Ok(()),
        }
    }

    /// What must be set aside on a device so that the pool's reserve is housed when it has joined,
    /// or has become as `layout` says.
    pub(crate) fn to_set_aside(&self, device: usize, layout: Layout) -> SetAside {
        let old = (device < self.pool.space.devices()).then(|| self.pool.space.layout(device));
        let first = old.map_or(0, |old| old.groups());
        let name = |group: usize| GroupId { device: device as u8, group: group as u32 };
        let mut set_aside = SetAside { runs: Vec::new(), groups: Vec::new() };
        if old.is_none() {
            set_aside.runs.push(head_of((device, layout)));
        }
        let mut more = 0;
        if let (Some(old), Some(last)) = (old, first.checked_sub(1))
            && self.pool.space.is_housed(name(last))
        {
            let (start, had) = (layout.group_start(last), old.group_blocks(last));
            more = layout.group_blocks(last) - had;
            set_aside.runs.push(Run { start: (start + had).on(device), blocks: more });
            set_aside.groups.push(name(last));
        }
        let new = first..layout.groups();
        let added: u64 = new.clone().map(|group| u64::from(layout.group_capacity(group))).sum();
        let total = self.pool.space.total() + more + added;
        let reserve = reserve_of(total) + metadata_reserve_of(total);
        let mut missing = (reserve + self.pool.volumes.owed_blocks())
            .saturating_sub(self.pool.space.housed_free() + more);
        for group in new {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(layout.group_capacity(group).into());
            let home = group / GROUPS_PER_DESCRIPTOR_PAGE * GROUPS_PER_DESCRIPTOR_PAGE;
            let start = layout.group_start(home).on(device);
            set_aside.runs.push(Run { start, blocks: GROUP_HEAD });
            let start = layout.group_start(group).on(device);
            set_aside.runs.push(Run { start, blocks: layout.group_blocks(group) });
            set_aside.groups.push(name(group));
        }
        set_aside.runs = joined(set_aside.runs);
        set_aside
    }
}

/// Runs in order, those that touch or overlap made one, without empty ones: so that the file system
/// can refuse all of them before anything is taken.
fn joined(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs.into_iter().filter(|run| run.blocks > 0) {
        match joined.last_mut() {
            Some(last) if run.start <= last.end() => {
                last.blocks = last.blocks.max(run.end() - last.start);
            }
            _ => joined.push(run),
        }
    }
    joined
}

/// What lies before the groups of a device.
fn head_of((device, layout): (usize, Layout)) -> Run {
    Run { start: DEVICE_START.on(device), blocks: layout.groups_start() - DEVICE_START }
}
