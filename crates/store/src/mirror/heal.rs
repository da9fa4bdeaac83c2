//! Mending: a copy that is bad is written again from one that is right, unless somebody writes there.

use block::{BLOCK, DeviceError, DeviceOperation};

use super::Mirror;
use super::extent::Extent;
use super::port::{Heal, Healed, Port, Purpose};
use super::reads::Fault;

impl Mirror {
    /// Whether a copy of some of these blocks is being mended.
    pub(super) fn is_healing(&self, extent: Extent) -> bool {
        self.heals.iter().any(|(_, heal)| heal.extent.overlaps(extent))
    }

    /// Writes blocks of a member again that were bad; `content` is what is right from `extent` on.
    pub(super) fn heal(&mut self, port: &mut Port, extent: Extent, fault: &Fault, content: &[u8]) {
        let member = fault.member;
        if !port.writable || !self.members[member].is_readable() {
            return;
        }
        // What another read has found as well is being mended already.
        let is_mended = |block: &&u32| {
            let block = Extent { first: extent.first + u64::from(**block), blocks: 1 };
            let of_member = |heal: &Heal| heal.member == member && heal.extent.overlaps(block);
            self.heals.iter().any(|(_, heal)| of_member(heal))
        };
        let bad: Vec<u32> =
            fault.blocks.iter().filter(|block| !is_mended(block)).copied().collect();
        for (first, blocks) in adjacent(&bad) {
            let part = Extent { first: extent.first + u64::from(first), blocks };
            let from = (u64::from(first) * BLOCK) as usize;
            let bytes = &content[from..from + part.bytes() as usize];
            let data = block::Buffer::copy_of(bytes).freeze().into();
            self.heal_begins(part);
            let heal = self.heals.insert(Heal { member, extent: part, cause: fault.cause.clone() });
            let operation = DeviceOperation::Write { offset: part.first.offset(), data };
            self.submit(port, member, Purpose::Heal(heal), operation);
        }
    }

    /// A copy was written again, or could not be: then its member has failed.
    pub(super) fn healed(&mut self, port: &mut Port, heal: usize, result: Result<(), DeviceError>) {
        let Heal { member, extent, cause } = self.heals.remove(heal);
        self.heal_ends(extent);
        match result {
            Ok(()) => {
                self.members[member].healed_blocks += extent.blocks;
                port.tell_healed(Healed {
                    device: self.device.number(),
                    member: self.members[member].uuid,
                    offset: extent.first.offset(),
                    blocks: extent.blocks,
                    cause,
                });
            }
            Err(_) => {
                self.members[member].errors += 1;
                self.give_up(port, member);
            }
        }
        self.resume_writes(port);
    }

    /// The member was given up.
    pub(super) fn heal_lost(&mut self, heal: usize) {
        let Heal { extent, .. } = self.heals.remove(heal);
        self.heal_ends(extent);
    }

    fn heal_begins(&mut self, extent: Extent) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.resilver.write_began(extent);
        }
    }

    /// A member that is resilvered may have been given what was bad.
    fn heal_ends(&mut self, extent: Extent) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.resilver.write_ended(extent);
            rebuild.resilver.again(extent);
        }
    }
}

/// Numbers in order, as runs of adjacent ones.
fn adjacent(numbers: &[u32]) -> Vec<(u32, u64)> {
    let mut runs: Vec<(u32, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((first, count)) if u64::from(*first) + *count == u64::from(number) => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}
