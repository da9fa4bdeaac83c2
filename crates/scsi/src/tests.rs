//! The whole target, driven as the daemon drives it, on volumes in memory.

mod absent;
mod access_state;
mod bad_input;
mod block_lengths;
mod compare_and_write;
mod decode;
mod discovery;
mod extended_copy;
mod identification;
mod log;
mod management;
mod mode;
mod persistent;
mod records;
mod reservations;
mod sanitize;
mod space;
mod supported_opcodes;
mod switches;
mod third_party;
mod timestamp;
mod token;
mod transfer;
mod unit_attention;
mod unmap;
mod write_atomic;
mod write_same;

use std::collections::BTreeMap;

use block::{
    BlockError, ByteRange, LogicalBlockLength, MapExtent, MapState, Pattern, Request, Response,
    Rope, SwitchesOff, VolumeId,
};
use bytes::Bytes;

use crate::*;

pub(crate) const BLOCK: usize = 512;
pub(crate) const ONE: VolumeId = VolumeId(0x11);
pub(crate) const TWO: VolumeId = VolumeId(0x22);
/// In another pool than the others.
pub(crate) const FAR: VolumeId = VolumeId(0x33);
/// Where the data of tokens of ONE and TWO rests.
pub(crate) const RESTING: VolumeId = VolumeId(0x55);
/// Mapped to nobody.
pub(crate) const HIDDEN: VolumeId = VolumeId(0x44);

pub(crate) const ALICE: NexusId = NexusId(1);
pub(crate) const BOB: NexusId = NexusId(2);

pub(crate) const BLOCKS: u64 = 96 << 11;

/// Sense key, ASC and ASCQ.
pub(crate) type Code = (u8, u8, u8);
pub(crate) const INVALID_CDB: Code = (5, 0x24, 0);
pub(crate) const INVALID_LIST: Code = (5, 0x26, 0);
pub(crate) const LIST_LENGTH: Code = (5, 0x1a, 0);
pub(crate) const OUT_OF_RANGE: Code = (5, 0x21, 0);
pub(crate) const NO_LUN: Code = (5, 0x25, 0);

/// A target with units ONE (LUN 0), TWO (LUN 1) and FAR (LUN 300) that ALICE and BOB see.
pub(crate) struct World {
    pub(crate) target: DeviceServer,
    pub(crate) volumes: BTreeMap<VolumeId, Vec<u8>>,
    /// Requests carried out so far.
    pub(crate) requests: Vec<(VolumeId, String)>,
    /// What the target wanted stored.
    pub(crate) stored: BTreeMap<VolumeId, DurableState>,
    /// What the next request fails with.
    pub(crate) fault: Option<BlockError>,
    next_task: u64,
    now: std::time::Duration,
}

pub(crate) fn naa(volume: VolumeId) -> [u8; 16] {
    let mut naa = [0x60; 16];
    naa[8..].copy_from_slice(&volume.0.to_be_bytes());
    naa
}

pub(crate) fn spec(volume: VolumeId) -> LogicalUnitSpec {
    LogicalUnitSpec {
        naa: naa(volume),
        size_bytes: BLOCKS * BLOCK as u64,
        block_length: LogicalBlockLength::B512,
        physical_block_exponent: 0,
        thin: true,
    }
}

pub(crate) fn nexus_spec(name: &str) -> NexusSpec {
    NexusSpec {
        initiator_name: format!("iqn.2026-01.example:{name}"),
        isid: [0; 6],
        relative_target_port: 1,
        target_portal_group: 1,
        luns: BTreeMap::from([(0, ONE), (1, TWO), (300, FAR)]),
        switches_off: SwitchesOff::NONE,
    }
}

impl World {
    /// With all unit attention conditions told.
    pub(crate) fn new() -> Self {
        let mut world = Self::fresh();
        for nexus in [ALICE, BOB] {
            for lun in [0, 1, 300] {
                assert_eq!(world.sense(nexus, lun, &[0; 6], &[]), (6, 0x29, 0));
            }
        }
        world
    }

    pub(crate) fn fresh() -> Self {
        let identity =
            Identity { long_cdbs: true, ..Identity::gantry("iqn.2026-01.example:target") };
        let mut target = DeviceServer::new(identity);
        let mut volumes = BTreeMap::new();
        for volume in [ONE, TWO, FAR, HIDDEN] {
            target.add_unit(volume, spec(volume));
            volumes.insert(volume, vec![0; BLOCKS as usize * BLOCK]);
        }
        volumes.insert(RESTING, vec![0; BLOCKS as usize * BLOCK]);
        target.set_token_key([0x5a; 32]);
        let size_bytes = BLOCKS * BLOCK as u64;
        for volume in [ONE, TWO] {
            target.set_rod_token_space(volume, RodTokenSpace { volume: RESTING, size_bytes });
        }
        target.open_nexus(ALICE, nexus_spec("alice"));
        target.open_nexus(BOB, nexus_spec("bob"));
        Self {
            target,
            volumes,
            requests: Vec::new(),
            stored: BTreeMap::new(),
            fault: None,
            next_task: 0,
            now: std::time::Duration::ZERO,
        }
    }

    /// Gives a command to the target; its requests are not carried out yet.
    pub(crate) fn begin(&mut self, nexus: NexusId, lun: u16, cdb: &[u8], data: &[u8]) -> TaskId {
        self.begin_as(TaskAttribute::Simple, nexus, lun, cdb, data)
    }

    pub(crate) fn begin_as(
        &mut self,
        attribute: TaskAttribute,
        nexus: NexusId,
        lun: u16,
        cdb: &[u8],
        data: &[u8],
    ) -> TaskId {
        self.next_task += 1;
        let id = TaskId(self.next_task);
        let lun = emit_lun(lun);
        let mut command = self.command(nexus, lun, cdb, data);
        command.attribute = attribute;
        self.target.execute(id, command);
        id
    }

    /// A SIMPLE command whose initiator offers these data and takes whatever comes.
    pub(crate) fn command(&self, nexus: NexusId, lun: u64, cdb: &[u8], data: &[u8]) -> Command {
        let decoded = self.target.decode(nexus, lun, cdb);
        let wanted = decoded.data_out_length() as usize;
        let data_out = Bytes::copy_from_slice(&data[..wanted.min(data.len())]);
        let expected = Expected { data_out: data.len() as u64, data_in: u64::MAX };
        let since = self.target.now();
        Command { decoded, attribute: TaskAttribute::Simple, expected, data_out, since }
    }

    /// Carries out the next request; returns whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        if let Some((id, volume, state)) = self.target.next_save() {
            self.stored.insert(volume, state);
            self.target.saved(id, true);
            return true;
        }
        let Some((id, volume, request)) = self.target.next_request() else { return false };
        let text = format!("{request:?}");
        self.requests.push((volume, text.split([' ', '{']).next().unwrap().to_owned()));
        let result = match self.fault.take() {
            Some(error) => Err(error),
            None => self.apply(volume, request),
        };
        self.target.completed(id, result);
        true
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, nexus: NexusId, lun: u16, cdb: &[u8], data: &[u8]) -> Completion {
        let id = self.begin(nexus, lun, cdb, data);
        while self.step() {}
        let (done, completion) = self.target.next_done().expect("the command ends");
        assert_eq!(done, id);
        assert_eq!(completion.sense.is_some(), completion.status == Status::CheckCondition);
        completion
    }

    /// Runs a command that must succeed; returns its data.
    pub(crate) fn good(&mut self, lun: u16, cdb: &[u8], data: &[u8]) -> Vec<u8> {
        let completion = self.run(ALICE, lun, cdb, data);
        assert_eq!(completion.status, Status::Good, "{:?}", completion.sense);
        completion.data_in.to_vec()
    }

    /// Runs a command that must fail; returns its sense code.
    pub(crate) fn sense(&mut self, nexus: NexusId, lun: u16, cdb: &[u8], data: &[u8]) -> Code {
        let completion = self.run(nexus, lun, cdb, data);
        let code = completion.sense.unwrap_or_else(|| panic!("{:?}", completion.status)).code;
        (code.key as u8, code.asc, code.ascq)
    }

    pub(crate) fn fails(&mut self, lun: u16, cdb: &[u8], data: &[u8]) -> Code {
        self.sense(ALICE, lun, cdb, data)
    }

    /// The sense code of TEST UNIT READY of ALICE, while requests under way are not carried out.
    pub(crate) fn fails_without_steps(&mut self, lun: u16) -> Code {
        let id = self.begin(ALICE, lun, &[0; 6], &[]);
        let (done, completion) = self.target.next_done().expect("it runs at once");
        assert_eq!(done, id);
        let code = completion.sense.expect("it fails").code;
        (code.key as u8, code.asc, code.ascq)
    }

    /// Sets all space of a volume aside.
    pub(crate) fn reserve(&mut self, volume: VolumeId) {
        self.target.add_unit(volume, LogicalUnitSpec { thin: false, ..spec(volume) });
    }

    /// Lets time pass until nothing moves any more.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100 {
            self.now += std::time::Duration::from_millis(100);
            self.target.tick(self.now);
            while self.step() {}
        }
    }

    pub(crate) fn bytes(&self, volume: VolumeId, lba: u64, count: u64) -> &[u8] {
        &self.volumes[&volume][lba as usize * BLOCK..(lba + count) as usize * BLOCK]
    }

    /// Fills blocks with their number, so that each differs.
    pub(crate) fn number(&mut self, volume: VolumeId, lba: u64, count: u64) {
        let medium = self.volumes.get_mut(&volume).unwrap();
        for block in lba..lba + count {
            let start = block as usize * BLOCK;
            medium[start..start + BLOCK].fill(1 + (block % 251) as u8);
            medium[start..start + 8].copy_from_slice(&(block + 1).to_be_bytes());
        }
    }

    fn apply(&mut self, volume: VolumeId, request: Request) -> Result<Response, BlockError> {
        if let Request::Copy { source, .. } = request
            && (source == FAR) != (volume == FAR)
        {
            return Err(BlockError::DifferentPool);
        }
        let copied = match request {
            Request::Copy { source, source_offset, length, .. } => {
                self.volumes[&source][span(ByteRange::new(source_offset, length))].to_vec()
            }
            _ => Vec::new(),
        };
        let medium = self.volumes.get_mut(&volume).ok_or(BlockError::NoSuchVolume)?;
        match request {
            Request::Read { range } => {
                let data = Bytes::copy_from_slice(&medium[span(range)]);
                return Ok(Response::Data(Rope::from(data)));
            }
            Request::Write { range, data } => medium[span(range)].copy_from_slice(&data),
            Request::CompareAndWrite { range, compare, write } => {
                let differs = |(is, wanted)| is != wanted;
                let found = medium[span(range)].iter().zip(&compare[..]).position(differs);
                if let Some(offset) = found {
                    return Err(BlockError::Miscompare { offset: offset as u64 });
                }
                medium[span(range)].copy_from_slice(&write);
            }
            Request::WriteSame { range, pattern: Pattern::Zero } => medium[span(range)].fill(0),
            Request::WriteSame { range, pattern: Pattern::Block(block) } => {
                for part in medium[span(range)].chunks_mut(block.len()) {
                    part.copy_from_slice(&block);
                }
            }
            Request::Unmap { ranges } => ranges.iter().for_each(|r| medium[span(*r)].fill(0)),
            Request::Copy { destination, length, .. } => {
                medium[span(ByteRange::new(destination, length))].copy_from_slice(&copied);
            }
            Request::Flush => {}
            Request::MapStatus { range, extents_max } => {
                return Ok(Response::Map(map(medium, range, extents_max)));
            }
        }
        Ok(Response::Done)
    }
}

fn span(range: ByteRange) -> std::ops::Range<usize> {
    range.offset as usize..range.end() as usize
}

/// Runs of zero and other blocks.
fn map(medium: &[u8], range: ByteRange, extents_max: usize) -> Vec<MapExtent> {
    let mut extents: Vec<MapExtent> = Vec::new();
    for offset in (range.offset..range.end()).step_by(BLOCK) {
        let block = &medium[span(ByteRange::new(offset, BLOCK as u64))];
        let zero = block.iter().all(|&byte| byte == 0);
        let state = if zero { MapState::Deallocated } else { MapState::Mapped };
        let is_full = extents.len() == extents_max;
        match extents.last_mut() {
            Some(last) if last.state == state => last.range.length += BLOCK as u64,
            _ if is_full => break,
            _ => extents.push(MapExtent { range: ByteRange::new(offset, BLOCK as u64), state }),
        }
    }
    extents
}

/// READ (16), WRITE (16) and others of their shape.
pub(crate) fn cdb16(opcode: u8, flags: u8, lba: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// READ (10), WRITE (10) and others of their shape.
pub(crate) fn cdb10(opcode: u8, flags: u8, lba: u32, count: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}

pub(crate) fn compare_and_write_cdb(lba: u64, count: u8) -> [u8; 16] {
    let mut cdb = cdb16(0x89, 0, lba, 0);
    cdb[13] = count;
    cdb
}

/// A pattern that differs from block to block.
pub(crate) fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK).map(|at| seed ^ (at / BLOCK) as u8 ^ (at % 253) as u8).collect()
}
