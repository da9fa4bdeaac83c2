//! Preallocates space in the devices' backing files, so that guaranteed writes cannot fail with
//! ENOSPC. A file system that is full cannot stop UNMAP, deleting, checkpoints, overwrites of what
//! a volume has, or writes to thick volumes.
//!
//! A group is *backed* when its space was set aside. Free blocks of backed groups are never fewer
//! than what is guaranteed: the reserve, and what is owed to thick volumes. Whatever would lower
//! them below that, or raise what is guaranteed, waits until another group is backed, and is
//! refused if none can be. What is backed is found out anew when a pool is opened: asking for space
//! that is there already costs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use block::DeviceError;

use crate::address::{DeviceNumber, Run};
use crate::budget::reserve_of;
use crate::error::OpenError;
use crate::io::Waiter;
use crate::layout::{DEVICE_START, GROUP_HEAD, GROUPS_PER_DESCRIPTOR_PAGE, Layout};
use crate::limits::UNAVAILABLE_RETRY;
use crate::metadata::metadata_reserve_of;
use crate::operation_key::OperationKey;
use crate::pool::Pool;
use crate::space::AllocationGroupId;

/// errno: no space left on the device.
pub(crate) const ENOSPC: i32 = 28;

/// Groups for which space is asked at once while a pool is opened.
const AT_ONCE: usize = 64;

/// Groups whose space is being set aside, and when those without space were tried again.
#[derive(Default)]
pub(crate) struct Preallocation {
    under_way: BTreeMap<AllocationGroupId, UnderWay>,
    last_retry: Duration,
}

/// A group whose space is being set aside.
struct UnderWay {
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
    /// The groups that are backed then.
    pub(crate) groups: Vec<AllocationGroupId>,
}

impl Preallocation {
    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether space of a group is being set aside.
    pub(crate) fn is_under_way(&self, group: AllocationGroupId) -> bool {
        self.under_way.contains_key(&group)
    }

    /// Whether space is being set aside on a device.
    pub(crate) fn concerns(&self, device: DeviceNumber) -> bool {
        self.under_way.keys().any(|group| group.device == device)
    }

    /// Sets a group's space aside on its device; `operation` goes on then, or when that is refused.
    /// `false` if there is nothing to wait for.
    pub(crate) fn begin(
        &mut self,
        pool: &mut Pool,
        group: AllocationGroupId,
        operation: Option<OperationKey>,
    ) -> bool {
        if let Some(under_way) = self.under_way.get_mut(&group) {
            under_way.waiting.extend(operation);
            return true;
        }
        let runs = pool.space.runs_to_back(group);
        if runs.is_empty() {
            return false;
        }
        let waiting = operation.into_iter().collect();
        let (blocks, pending) = (pool.space.group_blocks(group), runs.len());
        self.under_way.insert(group, UnderWay { blocks, pending, refused: false, waiting });
        for run in runs {
            pool.io.reserve(Waiter::Preallocation { group }, run);
        }
        true
    }

    /// Part of a group's space is set aside, or refused. Returns the operations that may go on.
    pub(crate) fn ended(
        &mut self,
        pool: &mut Pool,
        group: AllocationGroupId,
        result: Result<(), DeviceError>,
    ) -> Vec<OperationKey> {
        let Some(under_way) = self.under_way.get_mut(&group) else { return Vec::new() };
        under_way.pending -= 1;
        under_way.refused |= result.is_err();
        if under_way.pending > 0 {
            return Vec::new();
        }
        let Some(under_way) = self.under_way.remove(&group) else { return Vec::new() };
        if under_way.refused {
            pool.space.refused(group)
        } else {
            pool.space.given(group, under_way.blocks)
        }
        under_way.waiting
    }

    /// Backs what is guaranteed while a pool is made or opened; `false` if nothing more can be
    /// done.
    pub(crate) fn back_guaranteed(&mut self, pool: &mut Pool) -> bool {
        let pinned = pool.space.pinned_groups().into_iter();
        let mut groups: Vec<AllocationGroupId> =
            pinned.filter(|&group| pool.space.can_be_backed(group)).take(AT_ONCE).collect();
        if groups.is_empty() {
            groups = pool.space.groups_to_back(pool.guaranteed_blocks(), AT_ONCE);
        }
        for &group in &groups {
            self.begin(pool, group, None);
        }
        !groups.is_empty()
    }

    /// Groups without space are tried again from time to time.
    pub(crate) fn is_retry_due(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(self.last_retry) >= UNAVAILABLE_RETRY;
        if is_due {
            self.last_retry = now;
        }
        is_due
    }
}

impl Pool {
    /// Asks for the space of what lies before the groups; returns how many requests that takes.
    pub(crate) fn set_heads_aside(&mut self) -> usize {
        let with_layout = |device| (device, self.space.layout(device));
        let heads: Vec<Run> = self.space.devices().map(with_layout).map(head_of).collect();
        heads.iter().for_each(|&head| self.io.reserve(Waiter::Format, head));
        heads.len()
    }

    /// A new pool must have all that is guaranteed.
    pub(crate) fn check_backed(&self) -> Result<(), OpenError> {
        if self.space.backed_free() < self.guaranteed_blocks() {
            Err(OpenError::NoSpace)
        } else {
            Ok(())
        }
    }

    /// What must be set aside on a device so that the pool's reserve is backed when it has joined,
    /// or has become as `layout` says.
    pub(crate) fn to_set_aside(&self, device: DeviceNumber, layout: Layout) -> SetAside {
        let old = self.space.is_there(device).then(|| self.space.layout(device));
        let first = old.map_or(0, |old| old.groups());
        let name = |group: usize| AllocationGroupId { device, group: group as u32 };
        let mut set_aside = SetAside { runs: Vec::new(), groups: Vec::new() };
        if old.is_none() {
            set_aside.runs.push(head_of((device, layout)));
        }
        let mut more = 0;
        if let (Some(old), Some(last)) = (old, first.checked_sub(1))
            && self.space.is_backed(name(last))
        {
            let (start, had) = (layout.group_start(last), old.group_blocks(last));
            more = layout.group_blocks(last) - had;
            set_aside.runs.push(Run { start: (start + had).on(device), blocks: more });
            set_aside.groups.push(name(last));
        }
        let new = first..layout.groups();
        let added: u64 = new.clone().map(|group| u64::from(layout.group_capacity(group))).sum();
        let total = self.space.total() + more + added;
        let reserve = reserve_of(total) + metadata_reserve_of(total);
        let mut missing =
            (reserve + self.volumes.owed_blocks()).saturating_sub(self.space.backed_free() + more);
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
fn head_of((device, layout): (DeviceNumber, Layout)) -> Run {
    Run { start: DEVICE_START.on(device), blocks: layout.groups_start() - DEVICE_START }
}
