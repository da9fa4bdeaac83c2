//! Workload generator: what the simulated hosts and the administrator ask for.

use block::{BLOCK, SECTOR, VolumeId};
use store::{Change, DeviceSpec, MemberSpec, VolumeSpec};

use crate::action::{Action, Fill, Span};
use crate::content::ANY;
use crate::oracle::{Model, Oracle, whole_blocks};
use crate::profile::{Profile, device_bytes};
use crate::random::Random;
use crate::world::device_uuid;

/// Numbers of devices that join begin here: those of the pool as it was made are smaller.
const NEW_DEVICES: u64 = 1000;

const SECTORS_PER_BLOCK: u64 = BLOCK / SECTOR;
const SECTORS_PER_MEBIBYTE: u64 = (1 << 20) / SECTOR;

/// Commands until the mix of commands changes.
const PHASE_COMMANDS: u64 = 200;

/// Sectors of a command from which on it may instead cover a large part of the volume.
const LARGE: u64 = 4096;

/// Phases in a hundred with machines' writes, where volumes are filled.
const MACHINES_PERCENT: u64 = 25;

/// Whether hosts lock on a volume in a pool that is filled.
fn has_locks(volume: VolumeId) -> bool {
    volume.0 % 2 == 1
}

/// What the commands of a while have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Some of everything.
    Mixed,
    /// Large writes one after the other.
    Filling,
    /// Mostly copies.
    Copying,
    /// Small writes and locks on few sectors.
    Locking,
    /// Mostly UNMAP and zeros.
    Clearing,
    /// Short writes as of virtual machines, most of them to volumes on which no host locks.
    Machines,
    /// Only what changes the map alone: whole blocks, cleared or copied by reference. The same
    /// command makes the same journal record every time.
    Mapping,
}

/// The source of commands.
pub(crate) struct Workload {
    random: Random,
    phase: Phase,
    phase_left: u64,
    concurrency: u64,
    next_volume: u64,
    next_number: u64,
    fill_at: u64,
    /// Whether commands may go beyond a volume's end: not while it may be growing.
    may_overreach: bool,
    /// Where the hot blocks begin, in parts of a million of a volume.
    hot: u64,
    /// Whether volumes get other names.
    pub(crate) renames: bool,
}

impl Workload {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            random,
            phase: Phase::Mixed,
            phase_left: 0,
            concurrency: 1,
            next_volume: 1,
            next_number: 1,
            fill_at: 0,
            may_overreach: false,
            hot: 0,
            renames: false,
        }
    }

    /// Commands that may be under way at once now.
    pub(crate) fn concurrency(&self) -> u64 {
        self.concurrency
    }

    /// Commands that come at once, at most.
    pub(crate) fn burst(&self) -> u64 {
        if self.phase == Phase::Mapping { 1 } else { u64::MAX }
    }

    /// The next command, given what the volumes and the pool's devices are now. `changing` says
    /// that a change of the pool is under way.
    pub(crate) fn next(
        &mut self,
        oracle: &Oracle,
        profile: &Profile,
        devices: &[u64],
        changing: bool,
    ) -> Action {
        if self.phase_left == 0 {
            self.begin_phase(profile);
        }
        self.phase_left -= 1;
        self.next_number += 1;
        self.may_overreach = !changing;
        let one_in = profile.change_one_in * if changing { 10 } else { 1 };
        if oracle.volumes.is_empty() || self.random.one_in(one_in) {
            return Action::Change(self.change(oracle, profile, devices, changing));
        }
        self.request(oracle, profile)
    }

    fn begin_phase(&mut self, profile: &Profile) {
        self.phase_left = self.random.between(1, PHASE_COMMANDS);
        self.concurrency = self.random.between(1, profile.concurrency_max);
        self.hot = self.random.below(1_000_000);
        self.phase = match self.random.below(100) {
            _ if self.random.percent(profile.mapping_percent) => Phase::Mapping,
            _ if profile.fills && self.random.percent(profile.filling_percent) => Phase::Filling,
            _ if profile.fills && self.random.percent(MACHINES_PERCENT) => Phase::Machines,
            0..50 => Phase::Mixed,
            50..70 => Phase::Copying,
            70..85 => Phase::Locking,
            _ => Phase::Clearing,
        };
        if profile.siege {
            let phases =
                [Phase::Filling, Phase::Machines, Phase::Machines, Phase::Machines, Phase::Locking];
            self.phase = self.random.pick(&phases);
        }
        if self.phase == Phase::Mapping {
            // Few at once, so that commits hold few commands.
            self.concurrency = self.random.between(2, 4).min(profile.concurrency_max);
        }
    }

    fn request(&mut self, oracle: &Oracle, profile: &Profile) -> Action {
        let (volume, model) = self.pick_target(oracle, profile);
        let weights: [u64; 8] = match self.phase {
            Phase::Mixed => [34, 18, 10, 10, 8, 14, 3, 3],
            Phase::Filling => [85, 5, 0, 5, 0, 5, 0, 0],
            Phase::Copying => [20, 10, 2, 3, 3, 60, 1, 1],
            Phase::Locking => [40, 15, 40, 2, 2, 0, 1, 0],
            Phase::Clearing => [20, 10, 2, 30, 35, 1, 1, 1],
            Phase::Machines => [94, 5, 1, 0, 0, 0, 0, 0],
            Phase::Mapping => [0, 0, 0, 0, 30, 70, 0, 0],
        };
        let mut roll = self.random.below(weights.iter().sum());
        let mut kind = 0;
        while roll >= weights[kind] {
            roll -= weights[kind];
            kind += 1;
        }
        let number = self.next_number;
        match kind {
            0 => Action::Write { volume, span: self.write_span(model, profile), number },
            1 => {
                let count_max = if self.random.one_in(100) { 2048 } else { 64 };
                Action::Read { volume, span: self.span(model, profile, count_max) }
            }
            // In a pool that is filled hosts lock on some volumes only.
            2 if profile.fills && !has_locks(volume) => {
                Action::Write { volume, span: self.write_span(model, profile), number }
            }
            2 => self.compare_and_write(volume, model, profile, number),
            3 => self.write_same(volume, model, profile, number),
            4 | 5 if self.phase == Phase::Mapping => self.mapping(oracle, volume, model, kind == 4),
            4 => self.unmap(volume, model, profile),
            5 => self.copy(oracle, volume, model),
            6 => Action::Flush { volume },
            _ => Action::MapStatus { volume, span: self.span(model, profile, 2048) },
        }
    }

    /// Rarely a snapshot, which refuses most commands.
    fn pick_target<'a>(&mut self, oracle: &'a Oracle, profile: &Profile) -> (VolumeId, &'a Model) {
        let mut target = self.pick_used(oracle, profile);
        for _ in 0..4 {
            if target.1.spec.snapshot && !self.random.one_in(20) {
                target = self.pick_used(oracle, profile);
            }
        }
        let machines =
            oracle.volumes.iter().find(|(id, model)| !has_locks(**id) && !model.spec.snapshot);
        if let (Phase::Machines, Some((id, model))) = (self.phase, machines) {
            return (*id, model);
        }
        target
    }

    /// A volume that hosts use.
    fn pick_used<'a>(&mut self, oracle: &'a Oracle, profile: &Profile) -> (VolumeId, &'a Model) {
        let all = oracle.volumes.len() as u64;
        if profile.volumes_in_use == 0 || all <= profile.volumes_in_use {
            return self.pick_volume(oracle);
        }
        let index = self.random.below(profile.volumes_in_use) as usize;
        let (id, model) = oracle.volumes.iter().nth(index).expect("there are more");
        (*id, model)
    }

    fn pick_volume<'a>(&mut self, oracle: &'a Oracle) -> (VolumeId, &'a Model) {
        let index = self.random.below(oracle.volumes.len() as u64) as usize;
        let (id, model) = oracle.volumes.iter().nth(index).expect("the index is below the number");
        (*id, model)
    }

    fn write_span(&mut self, model: &Model, profile: &Profile) -> Span {
        if self.phase != Phase::Filling {
            let large = self.random.one_in(400);
            return self.span(model, profile, if large { LARGE - 1 } else { 64 });
        }
        let count = 1024.min(model.sectors());
        self.fill_at += count;
        let first = (self.fill_at % model.sectors()).min(model.sectors() - count);
        Span { first, count }
    }

    /// Sectors somewhere: aligned or not, rarely at the very end or beyond.
    fn span(&mut self, model: &Model, profile: &Profile, count_max: u64) -> Span {
        let sectors = model.sectors();
        let mut count = self.count(count_max).min(sectors);
        if count_max >= LARGE && self.random.one_in(20) {
            count = self.random.between(1, sectors);
        }
        let mut first = self.place(profile, sectors);
        if self.random.percent(65) {
            first -= first % SECTORS_PER_BLOCK;
            count = count.next_multiple_of(SECTORS_PER_BLOCK).min(sectors);
        }
        if self.random.one_in(400) && self.may_overreach {
            return Span { first: sectors - count.min(sectors) + 1, count };
        }
        Span { first: first.min(sectors - count), count }
    }

    /// From 1 to so many, small numbers far more often than large ones.
    fn count(&mut self, most: u64) -> u64 {
        let bits = self.random.below(u64::from(most.ilog2()) + 2);
        self.random.between(1, most.min(1 << bits))
    }

    fn place(&mut self, profile: &Profile, sectors: u64) -> u64 {
        if self.random.percent(profile.hot_percent) {
            let start = (u128::from(sectors) * u128::from(self.hot) / 1_000_000) as u64;
            return (start + self.random.below(256)) % sectors;
        }
        self.random.below(sectors)
    }

    fn compare_and_write(
        &mut self,
        volume: VolumeId,
        model: &Model,
        profile: &Profile,
        number: u64,
    ) -> Action {
        let count = self.random.pick(&[1, 1, 1, 2, 8]).min(model.sectors());
        let first = self.place(profile, model.sectors()).min(model.sectors() - count);
        let span = Span { first, count };
        let mut expected = model.tags[first as usize..span.end() as usize].to_vec();
        for tag in &mut expected {
            if *tag == ANY {
                *tag = 0;
            }
        }
        if self.random.one_in(5) {
            let wrong = self.random.below(count) as usize;
            expected[wrong] = expected[wrong].wrapping_add(1 << 20) & !(1 << 63);
        }
        Action::CompareAndWrite { volume, span, expected, number }
    }

    fn write_same(
        &mut self,
        volume: VolumeId,
        model: &Model,
        profile: &Profile,
        number: u64,
    ) -> Action {
        let fill = self.random.pick(&[Fill::Zero, Fill::Zero, Fill::Sector, Fill::Block]);
        let count_max = self.random.pick(&[64, if fill == Fill::Zero { LARGE } else { LARGE - 1 }]);
        let mut span = self.span(model, profile, count_max);
        if fill == Fill::Block {
            span.first -= span.first % SECTORS_PER_BLOCK;
            span.count = span.count.next_multiple_of(SECTORS_PER_BLOCK);
            span.count = span.count.min(model.sectors() - span.first);
        }
        Action::WriteSame { volume, span, fill, number }
    }

    fn unmap(&mut self, volume: VolumeId, model: &Model, profile: &Profile) -> Action {
        let count_max = self.random.pick(&[16, 512, LARGE]);
        let spans = (0..self.random.between(1, 4))
            .map(|_| {
                if self.random.one_in(30) {
                    Span { first: self.random.below(model.sectors()), count: 0 }
                } else {
                    self.span(model, profile, count_max)
                }
            })
            .collect();
        Action::Unmap { volume, spans }
    }

    fn copy(&mut self, oracle: &Oracle, volume: VolumeId, model: &Model) -> Action {
        let (source, from_model) =
            if self.random.percent(40) { (volume, model) } else { self.pick_volume(oracle) };
        let smaller = model.sectors().min(from_model.sectors());
        let kind = self.random.below(4);
        let unit = [SECTORS_PER_MEBIBYTE, SECTORS_PER_BLOCK, 1, 1][kind as usize];
        // What is moved by reading and writing is small, mostly.
        let count_max = match kind {
            0 => 4 * SECTORS_PER_MEBIBYTE,
            _ if self.random.one_in(50) => 5000,
            1 | 2 => 2048,
            _ => 64,
        };
        let mut count = self.count(count_max).next_multiple_of(unit);
        count = count.min(smaller);
        let place = |random: &mut Random, sectors: u64| {
            let last = sectors - count;
            let at = random.below(last + 1);
            at - at % unit
        };
        let mut from = place(&mut self.random, from_model.sectors());
        let mut first = place(&mut self.random, model.sectors());
        if kind == 2 {
            // Alike within blocks, but not on their boundaries.
            first = first - first % SECTORS_PER_BLOCK + from % SECTORS_PER_BLOCK;
            first = if first + count > model.sectors() { from % SECTORS_PER_BLOCK } else { first };
        }
        if self.random.one_in(8) && source == volume {
            // Onto itself, a little aside.
            from = from.min(model.sectors() - count);
            first = (from + self.random.below(32)).min(model.sectors() - count);
        }
        count = count.min(model.sectors().saturating_sub(first)).max(1);
        Action::Copy { source, from, volume, span: Span { first, count } }
    }

    /// A few whole blocks, cleared or copied.
    fn mapping(&mut self, oracle: &Oracle, volume: VolumeId, model: &Model, clear: bool) -> Action {
        let (source, from_model) = self.pick_volume(oracle);
        let smaller = model.sectors().min(from_model.sectors());
        let count = (self.random.between(1, 8) * SECTORS_PER_BLOCK).min(smaller);
        let mut place = |sectors: u64| {
            let blocks = (sectors - count) / SECTORS_PER_BLOCK;
            self.random.below(blocks + 1) * SECTORS_PER_BLOCK
        };
        let (from, first) = (place(from_model.sectors()), place(model.sectors()));
        let span = Span { first, count };
        if clear {
            Action::Unmap { volume, spans: vec![span] }
        } else {
            Action::Copy { source, from, volume, span }
        }
    }

    fn change(
        &mut self,
        oracle: &Oracle,
        profile: &Profile,
        devices: &[u64],
        changing: bool,
    ) -> Change {
        let full = oracle.volumes.len() as u64 >= profile.volumes_max;
        if oracle.volumes.is_empty() {
            return Change::CreateVolume(self.spec(profile));
        }
        if profile.siege {
            return self.change_in_siege(oracle, profile);
        }
        let (id, model) = self.pick_volume(oracle);
        match self.random.below(100) {
            0..35 => Change::Checkpoint,
            35..50 if !full => self.clones(oracle, profile),
            50..55 => Change::RevertVolume { volume: id, source: self.pick_volume(oracle).0 },
            55..75 if !full => Change::CreateVolume(self.spec(profile)),
            35..75 => Change::DeleteVolume(id),
            75..80 => self.nonsense(id, model, profile),
            80..83 => self.extend(devices),
            86..92 if self.renames => self.rename(oracle, id),
            83..86
                if devices.iter().filter(|&&size| size > 0).count() < profile.devices_max
                    && !changing =>
            {
                // Names that none of the first devices has (72009172).
                let uuid = device_uuid(NEW_DEVICES + self.next_number);
                let size_bytes = device_bytes(&mut self.random);
                // The world says in which slot.
                Change::AddDevice(DeviceSpec::plain(MemberSpec { uuid, slot: 0, size_bytes }))
            }
            _ => Change::ResizeVolume { id, size_bytes: self.size(profile) },
        }
    }

    /// Two volumes that are written, on one of which hosts lock, and snapshots of them, for which
    /// there is rarely space.
    fn change_in_siege(&mut self, oracle: &Oracle, profile: &Profile) -> Change {
        let written = oracle.volumes.values().filter(|model| !model.spec.snapshot);
        let (written, all) = (written.count(), oracle.volumes.len() as u64);
        if written < 2 {
            let spec = self.spec(profile);
            return Change::CreateVolume(VolumeSpec {
                size_bytes: profile.volume_bytes_max,
                ..spec
            });
        }
        let snapshot = oracle.volumes.values().find(|model| model.spec.snapshot);
        match (self.random.below(20), snapshot) {
            (0..6, _) => Change::Checkpoint,
            (6, _) => Change::DeleteVolume(self.pick_volume(oracle).0),
            (7, Some(snapshot)) => Change::DeleteVolume(snapshot.spec.id),
            _ if all < profile.volumes_max => {
                let spec = VolumeSpec { snapshot: true, ..self.spec(profile) };
                Change::CloneVolumes(vec![(self.pick_target(oracle, profile).0, spec)])
            }
            _ => Change::Checkpoint,
        }
    }

    /// Another name, now and then one that a volume has already.
    fn rename(&mut self, oracle: &Oracle, id: VolumeId) -> Change {
        let name = if self.random.percent(20) {
            self.pick_volume(oracle).1.spec.name.clone()
        } else {
            format!("renamed-{}", self.random.below(20))
        };
        Change::RenameVolume { id, name }
    }

    /// A consistency group of up to three members: snapshots, or clones.
    fn clones(&mut self, oracle: &Oracle, profile: &Profile) -> Change {
        let count = self.random.between(1, 3);
        let snapshot = self.random.percent(60);
        let member = |_| {
            let spec = VolumeSpec { snapshot, ..self.spec(profile) };
            (self.pick_volume(oracle).0, spec)
        };
        Change::CloneVolumes((0..count).map(member).collect())
    }

    /// A device grows, or is said to have grown to what it is already.
    fn extend(&mut self, devices: &[u64]) -> Change {
        let device = self.random.below(devices.len() as u64) as u8;
        let now = devices[usize::from(device)];
        if now == 0 {
            return Change::Checkpoint;
        }
        let size_bytes = now + self.random.between(0, 4096) * BLOCK;
        let most = crate::limits::DEVICE_BYTES_MAX.max(now);
        Change::ExtendDevice { device, size_bytes: size_bytes.min(most) }
    }

    /// A change that must be refused.
    fn nonsense(&mut self, id: VolumeId, model: &Model, profile: &Profile) -> Change {
        match self.random.below(6) {
            3 => Change::CloneVolumes(Vec::new()),
            4 => {
                let spec = self.spec(profile);
                Change::CloneVolumes(vec![(id, spec.clone()), (id, spec)])
            }
            5 => Change::ExtendDevice { device: 99, size_bytes: 1 << 30 },
            0 => Change::DeleteVolume(VolumeId(id.0 + 1_000_000)),
            1 => Change::CreateVolume(VolumeSpec {
                name: model.spec.name.clone(),
                ..self.spec(profile)
            }),
            _ => Change::CloneVolumes(vec![(VolumeId(id.0 + 1_000_000), self.spec(profile))]),
        }
    }

    fn spec(&mut self, profile: &Profile) -> VolumeSpec {
        let id = self.next_volume;
        self.next_volume += 1;
        VolumeSpec {
            id: VolumeId(id),
            name: format!("volume-{id}"),
            size_bytes: self.size(profile),
            thick: self.random.percent(15),
            naa: [id as u8; 16],
            snapshot: false,
            created: id,
        }
    }

    fn size(&mut self, profile: &Profile) -> u64 {
        let most = profile.volume_bytes_max;
        match self.random.below(4) {
            0 => whole_blocks(self.random.between(1, most)),
            1 => whole_blocks(self.random.between(1, 1 << 20)),
            _ => most,
        }
    }
}
