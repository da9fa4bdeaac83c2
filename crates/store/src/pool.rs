//! Context that the parts of the engine are lent: the pool's space, map and volumes in memory, the
//! queue to its devices, counters, options and the time.

use std::time::Duration;

use block::{BLOCK, VolumeId};

use crate::address::{Address, DeviceNumber};
use crate::budget::Budget;
use crate::entry::Entry;
use crate::incident::{Cause, Incident, Incidents, Place};
use crate::io::IoQueue;
use crate::map::Map;
use crate::mirror::{At, Found, FoundWitness, Healed, List, MirrorStatus};
use crate::options::{DeviceSpec, MemberSpec, Options};
use crate::space::{AllocationGroupId, Space};
use crate::status::Statistics;
use crate::superblock::{FORMAT_VERSION, Features, Label};
use crate::volume::Volume;
use crate::volumes::Volumes;

/// What all parts work on.
pub(crate) struct Pool {
    pub(crate) options: Options,
    /// The time, since an arbitrary start.
    pub(crate) now: Duration,
    pub(crate) members: Members,
    pub(crate) space: Space,
    pub(crate) map: Map,
    pub(crate) volumes: Volumes,
    pub(crate) budget: Budget,
    pub(crate) io: IoQueue,
    pub(crate) incidents: Incidents,
    pub(crate) statistics: Statistics,
    /// How often parts of the map came to be shared since the pool was opened.
    pub(crate) shared_since: u64,
}

/// In place of a device's name: no device has that number.
pub(crate) const NO_DEVICE: [u8; 16] = [0; 16];

/// Names of the pool and of its devices.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) pool_uuid: [u8; 16],
    /// The devices by their numbers; [`NO_DEVICE`] where there is none.
    pub(crate) device_uuids: Vec<[u8; 16]>,
    /// Features of the pool, by its first device's label.
    pub(crate) features: Features,
    /// Those that all intact copies of the labels of all devices have.
    pub(crate) labelled: Features,
    /// Copies of labels that were damaged when the pool was opened, or said still that a mirror was a
    /// plain device. They are written again when it serves. A change that needs a feature writes the first
    /// one's copy before the intact one all the same, since nobody waits for that.
    pub(crate) unsound_labels: Vec<(DeviceNumber, usize)>,
    /// Groups that are backed when the change under way of the devices is made.
    pub(crate) set_aside: Vec<AllocationGroupId>,
}

impl Pool {
    /// What the label of a device is to say.
    pub(crate) fn label(&self, device: DeviceNumber) -> Label {
        Label {
            pool_uuid: self.members.pool_uuid,
            device_uuid: self.members.device_uuids[device.index()],
            features: self.members.features,
            version: FORMAT_VERSION,
            index: device.number().into(),
            is_mirror: self.io.mirror(device).is_some(),
        }
    }

    /// A pool without devices.
    pub(crate) fn new(options: Options, pool_uuid: [u8; 16]) -> Self {
        Self {
            now: Duration::ZERO,
            members: Members { pool_uuid, ..Members::default() },
            space: Space::new(&[], options.groups()),
            map: Map::new(options.clean_pages()),
            volumes: Volumes::default(),
            budget: Budget::default(),
            io: IoQueue::new(options.hang_limit, options.resilver_rate),
            incidents: Incidents::default(),
            statistics: Statistics::default(),
            shared_since: 0,
            options,
        }
    }

    /// Changes a volume, its map and the space of the pool.
    pub(crate) fn update<R>(
        &mut self,
        id: VolumeId,
        change: impl FnOnce(&mut Volume, &mut Map, &mut Space) -> R,
    ) -> R {
        let (map, space) = (&mut self.map, &mut self.space);
        self.volumes.update(id, |volume| change(volume, map, space))
    }

    /// Finds out who holds the blocks that volumes gave up and others keep.
    pub(crate) fn settle_reclaimed(&mut self) {
        self.volumes.settle_reclaimed(&mut self.map.released);
    }

    /// Whether an entry points to a place that can hold data or pages.
    pub(crate) fn is_sound(&self, entry: Entry) -> bool {
        entry.is_hole()
            || (self.space.holds(entry.address())
                && entry.twin().is_none_or(|twin| self.space.holds(twin)))
    }

    /// The I/O queue learns where a new device lies.
    pub(crate) fn add_new_device(&mut self, device: &DeviceSpec) {
        let number = self.io.next_device();
        if device.members.is_empty() {
            return self.io.add_plain(device.slot);
        }
        let list = List::first(self.members.pool_uuid, device);
        let slots = device.members.iter().map(|member| Some(member.slot)).collect();
        self.io.add_mirror(Found {
            device: number,
            list,
            slots,
            is_spread: true,
            witness: FoundWitness::default(),
        });
        self.io.with_mirrors(|mirrors| mirrors.tell(device.uuid));
    }

    /// The I/O queue learns where a device was found.
    pub(crate) fn add_found_device(&mut self, device: DeviceNumber, at: At) {
        let mirror = match &at {
            At::Plain(_) => None,
            At::Mirror(found) => Some(found.list.mirror_uuid),
        };
        self.io.add_found(device, at);
        if let Some(uuid) = mirror {
            self.io.with_mirrors(|mirrors| mirrors.tell(uuid));
        }
    }

    /// The logical devices and their members.
    pub(crate) fn mirrors(&self) -> impl Iterator<Item = MirrorStatus> {
        self.space.devices().map(|device| {
            let uuid = self.members.device_uuids[device.index()];
            let size_bytes = self.space.layout(device).device_blocks * BLOCK;
            match self.io.mirror(device) {
                Some(mirror) => mirror.status(size_bytes),
                None => {
                    let slot = self.io.plain_slot(device).unwrap_or(device.number());
                    MirrorStatus::plain(device, MemberSpec { uuid, slot, size_bytes })
                }
            }
        })
    }

    /// Queues an incident for each member whose blocks were written again from another one.
    pub(crate) fn report_healed(&mut self) {
        for healed in self.io.with_mirrors(|mirrors| mirrors.take_healed()) {
            let Healed { device, member, offset, blocks, cause } = healed;
            self.incidents.keep(Incident {
                device: Some(device),
                offset,
                cause,
                place: Place::Copy { member, blocks },
                is_lost: false,
            });
        }
    }

    /// Queues an incident at a block, and counts it.
    pub(crate) fn report_incident(
        &mut self,
        address: Address,
        cause: Cause,
        place: Place,
        is_lost: bool,
    ) {
        match cause {
            Cause::Device(_) => self.statistics.read_errors += 1,
            Cause::Checksum => self.statistics.checksum_errors += 1,
        }
        let (device, offset) = (Some(address.device().number()), address.block().offset());
        self.incidents.keep(Incident { device, offset, cause, place, is_lost });
    }
}
