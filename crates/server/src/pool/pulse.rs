//! Heartbeat of a pool's owner in the pool's devices: written beside the engine's I/O, one at a time on each
//! device, without a flush. A device that does not answer lets it stand still.
//!
//! Where other controllers may take the pool by themselves, the owner serves only for a time after its last
//! heartbeat (its lease): one that stood still, and was fenced meanwhile, answers no host with what it knew
//! before.

use std::thread;
use std::time::Duration;

use block::{BLOCK, Buffer, DeviceError, DeviceKind, DeviceOperation, DeviceResult, Rope};
use control::take_over::{OwnerBeat, Pulse, is_in_doubt};
use device::{Completion, Fence, OWNER_BEAT_OFFSET};
use store::Health;

use super::{OpenDevice, Pool};
use crate::limits::CLUSTER_LEASE;

/// The identifier of heartbeats at devices: the engine counts its own from 0.
const BEAT_ID: u64 = u64::MAX;

/// The pause between two looks whether a device has answered, where a thread waits for it.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// Takes the result of a heartbeat out of what a device answered, from `first` on; returns whether the device
/// refuses this owner.
pub(super) fn take_result(
    pulse: &mut Pulse,
    completions: &mut Vec<Completion>,
    first: usize,
) -> bool {
    if !pulse.is_under_way() {
        return false;
    }
    let Some(at) = completions[first..].iter().position(|(id, _)| *id == BEAT_ID) else {
        return false;
    };
    let (_, result) = completions.swap_remove(first + at);
    pulse.end(result.is_ok());
    matches!(result, Err(DeviceError::Fenced))
}

impl OpenDevice {
    fn read_beat(&mut self) -> Option<OwnerBeat> {
        let buffer = Buffer::zeroed(BLOCK as usize);
        let read = DeviceOperation::Read { offset: OWNER_BEAT_OFFSET, buffer };
        OwnerBeat::parse(&self.wait_for(read).ok()??)
    }

    /// Waits for the only operation of a device.
    fn wait_for(&mut self, operation: DeviceOperation) -> DeviceResult {
        self.device.submit(BEAT_ID, operation);
        let mut completions = Vec::new();
        loop {
            self.device.kick();
            self.device.reap(&mut completions);
            match completions.pop() {
                Some((_, result)) => return result,
                None => thread::sleep(LOOK_PAUSE),
            }
        }
    }

    /// The write of a heartbeat, with the name of who holds the device.
    fn beat(&self, beat: &OwnerBeat) -> DeviceOperation {
        let holder = self.device.identity().unwrap_or_default();
        let mut block = Buffer::zeroed(BLOCK as usize);
        OwnerBeat { holder, ..beat.clone() }.emit(&mut block);
        DeviceOperation::Write { offset: OWNER_BEAT_OFFSET, data: Rope::from(block.freeze()) }
    }
}

impl Pool {
    /// Writes the heartbeat where one is due: on the devices that are the pool's, as the engine knows once
    /// it has read what they say of themselves. `beat` lacks the holder.
    pub(crate) fn beat(&mut self, beat: &OwnerBeat, now: Duration) {
        let is_due = |open: &OpenDevice| !open.is_lost && open.pulse.is_due(beat.lease, now);
        let has_some = self.devices.iter().any(|(_, open)| is_due(open));
        if !has_some || self.fenced.is_some() || self.store.health() == Health::Closed {
            return;
        }
        let members: Vec<_> = self.store.mirrors().flat_map(|mirror| mirror.members).collect();
        for slot in members.iter().filter_map(|member| member.slot) {
            let open = self.devices.get_mut(slot.into()).filter(|open| is_due(open));
            let Some(open) = open.filter(|open| open.name.kind() != DeviceKind::Memory) else {
                continue;
            };
            let write = open.beat(beat);
            open.pulse.begin(beat.lease, now);
            open.device.submit(BEAT_ID, write);
        }
    }

    /// The heartbeats in its devices, of which the engine has asked nothing yet. Waits for them.
    pub(crate) fn read_beats(&mut self) -> Vec<OwnerBeat> {
        self.devices.iter_mut().filter_map(|(_, open)| open.read_beat()).collect()
    }

    /// Writes the first heartbeat into its devices, of which the engine has asked nothing yet, where one of the
    /// pool is already: so the device is the pool's. A controller that dies while it takes a pool, or opens it,
    /// is known as its owner then, and the pool is taken from it. Waits for them.
    pub(crate) fn announce(&mut self, beat: &OwnerBeat) {
        for (_, open) in self.devices.iter_mut() {
            if open.read_beat().is_some_and(|found| found.pool_uuid == beat.pool_uuid) {
                let write = open.beat(beat);
                // One that is refused is found out by the engine.
                drop(open.wait_for(write));
            }
        }
    }

    /// Looks whether another controller may have taken the pool, as the last heartbeat is older than the
    /// lease (zero: nobody takes pools by itself); returns whether that is so since this look. Until the engine
    /// knows the pool's devices a beat in one of them is enough, as whoever takes the pool looks at all of them.
    pub(crate) fn doubt(&mut self, lease: Duration, now: Duration) -> bool {
        let there = || self.devices.iter().filter(|(_, open)| !open.is_lost);
        let pulse = |slot: &u8| {
            let open = self.devices.get(usize::from(*slot)).filter(|open| !open.is_lost);
            open.map_or_else(Pulse::default, |open| open.pulse)
        };
        let mut mirrors = self.store.mirrors().peekable();
        let together: Vec<Vec<Pulse>> = if mirrors.peek().is_some() {
            let known = mirrors.flat_map(|mirror| mirror.proofs());
            known.map(|slots| slots.iter().map(pulse).collect()).collect()
        } else {
            there().map(|(_, open)| vec![open.pulse]).collect()
        };
        let has_beaten = there().any(|(_, open)| open.pulse.written().is_some());
        let is_late = |lease| is_in_doubt(&together, lease, now);
        let is_in_doubt = time_without_beat(&self.fences(), lease).is_some_and(is_late);
        let was_in_doubt = std::mem::replace(&mut self.is_in_doubt, is_in_doubt);
        is_in_doubt && !was_in_doubt && has_beaten
    }

    fn fences(&self) -> Vec<Fence> {
        let devices = self.devices.iter().filter(|(_, open)| !open.is_lost);
        devices.map(|(_, open)| open.device.fence()).collect()
    }
}

/// How long a pool on such devices may be served without a heartbeat; `None` if for ever, since a lock
/// cannot be taken, or nobody takes it. Of an image the cluster lets others break the lock of a client
/// that it has not heard for a time, whatever controllers were told.
fn time_without_beat(fences: &[Fence], lease: Duration) -> Option<Duration> {
    if fences.is_empty() || fences.contains(&Fence::ThisMachine) {
        return None;
    }
    let of_cluster = fences.contains(&Fence::Cluster).then_some(CLUSTER_LEASE);
    let of_peers = Some(lease).filter(|lease| !lease.is_zero());
    of_cluster.into_iter().chain(of_peers).min()
}

#[cfg(test)]
mod tests {
    use control::limits::OWNER_BEAT;

    use super::*;

    fn answer(pulse: &mut Pulse, result: DeviceResult) -> (bool, usize) {
        let mut completions = vec![(3, Ok(None)), (4, Ok(None)), (BEAT_ID, result), (5, Ok(None))];
        let refused = take_result(pulse, &mut completions, 1);
        assert!(completions.iter().all(|(id, _)| *id != BEAT_ID), "the engine does not know it");
        (refused, completions.len())
    }

    #[test]
    fn only_what_can_be_taken_has_a_lease_and_an_image_never_a_longer_one_than_its_cluster_bears() {
        let (none, short, long) =
            (Duration::ZERO, Duration::from_secs(4), Duration::from_secs(599));
        let (file, disk, image) = (Fence::ThisMachine, Fence::Reservation, Fence::Cluster);
        let cases: [(&[Fence], Duration, Option<Duration>); 9] = [
            (&[], short, None),
            (&[file], short, None),
            (&[disk, file], short, None),
            (&[disk], none, None),
            (&[disk, disk], short, Some(short)),
            (&[disk], long, Some(long)),
            (&[image], none, Some(CLUSTER_LEASE)),
            (&[image], short, Some(short)),
            (&[disk, image], long, Some(CLUSTER_LEASE)),
        ];
        for (fences, lease, expected) in cases {
            assert_eq!(time_without_beat(fences, lease), expected, "{fences:?} {lease:?}");
        }
    }

    #[test]
    fn a_beats_result_is_taken_from_among_the_engines_and_only_a_fence_fences() {
        let (mut pulse, start) = (Pulse::default(), OWNER_BEAT);
        for (result, is_refused) in
            [(Ok(None), false), (Err(DeviceError::Os(5)), false), (Err(DeviceError::Fenced), true)]
        {
            pulse.begin(Duration::ZERO, start);
            assert_eq!(answer(&mut pulse, result), (is_refused, 3));
            assert_eq!(pulse.written(), Some(start), "the first one was written");
        }
        let mut others = vec![(1, Ok(None))];
        assert!(!take_result(&mut pulse, &mut others, 0));
        assert_eq!(others.len(), 1);
    }
}
