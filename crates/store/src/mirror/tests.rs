//! Mirrors alone, on members in memory: every step fails once, writes meet mending, orders are random.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::checksum::crc32c;
use crate::options::MemberSpec;

mod chaos;
mod drops;
mod lacking;
mod reading;
mod rejoining;

const EIO_ERROR: DeviceError = DeviceError::Os(5);
const POOL: [u8; 16] = [1; 16];
const UUID: [u8; 16] = [7; 16];
const MIRROR: MirrorNumber = MirrorNumber::new(0);
const LIMIT: Duration = Duration::from_secs(10);

/// A member's medium: what it holds, and what a power failure leaves of it.
#[derive(Clone, Default)]
struct Disk {
    now: BTreeMap<u64, Vec<u8>>,
    stable: BTreeMap<u64, Vec<u8>>,
    /// Blocks that bring something else, until they are written.
    rotten: BTreeSet<u64>,
}

/// Mirrors, their members' media, and I/O under way.
struct Room {
    mirrors: Mirrors,
    disks: Vec<Disk>,
    under_way: Vec<Wish>,
    ended: Vec<(Token, DeviceResult)>,
    now: Duration,
}

fn spec(members: usize) -> DeviceSpec {
    let member = |slot| MemberSpec { uuid: [100 + slot; 16], slot, size_bytes: 1 << 30 };
    DeviceSpec::mirror(UUID, (0..members as u8).map(member).collect())
}

fn at(first: u64, blocks: u64) -> Extent {
    Extent { first: DeviceBlock::new(first), blocks }
}

/// Blocks that are full of a number each.
fn content(numbers: &[u8]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| [number; BLOCK as usize]).collect()
}

fn rope(numbers: &[u8]) -> Rope {
    Buffer::copy_of(&content(numbers)).freeze().into()
}

fn crcs(numbers: &[u8]) -> Vec<u32> {
    content(numbers).chunks(BLOCK as usize).map(crc32c).collect()
}

impl Room {
    fn new(members: usize) -> Self {
        let list = List::first(POOL, &spec(members));
        let slots = (0..members as u8).map(Some).collect();
        Self::with(
            Found {
                device: DeviceNumber::FIRST,
                list,
                slots,
                is_spread: true,
                witness: FoundWitness::default(),
            },
            members,
        )
    }

    fn with(found: Found, disks: usize) -> Self {
        let mut mirrors = Mirrors::new(LIMIT);
        mirrors.add(found);
        mirrors.begin_writing();
        let disks = vec![Disk::default(); disks];
        let (under_way, ended, now) = (Vec::new(), Vec::new(), Duration::ZERO);
        let mut room = Self { mirrors, disks, under_way, ended, now };
        room.pull();
        room
    }

    fn pull(&mut self) {
        self.under_way.extend(std::iter::from_fn(|| self.mirrors.next_wish()));
        self.ended.extend(std::iter::from_fn(|| self.mirrors.next_ended()));
    }

    fn write(&mut self, token: Token, first: u64, numbers: &[u8]) {
        self.mirrors.write(MIRROR, token, at(first, numbers.len() as u64), rope(numbers));
        self.pull();
    }

    fn flush(&mut self, token: Token) {
        self.mirrors.flush(MIRROR, token);
        self.pull();
    }

    fn read(&mut self, token: Token, first: u64, numbers: &[u8]) {
        self.read_as(token, first, numbers, Breadth::One);
    }

    fn read_as(&mut self, token: Token, first: u64, numbers: &[u8], breadth: Breadth) {
        let (extent, crcs) = (at(first, numbers.len() as u64), crcs(numbers));
        self.mirrors.read(MIRROR, token, extent, Expected::Blocks(&crcs), breadth);
        self.pull();
    }

    /// Carries out the I/O in this place of those under way.
    fn serve(&mut self, place: usize) {
        let Wish { key, slot, operation } = self.under_way.remove(place);
        let disk = &mut self.disks[usize::from(slot)];
        let result = match operation {
            DeviceOperation::Read { offset, mut buffer } => {
                for (number, place) in (offset / BLOCK..).zip(buffer.chunks_mut(BLOCK as usize)) {
                    match disk.now.get(&number) {
                        Some(bytes) if !disk.rotten.contains(&number) => {
                            place.copy_from_slice(bytes);
                        }
                        Some(_) | None => place.fill(0),
                    }
                }
                Some(buffer)
            }
            DeviceOperation::Write { offset, data } => {
                let bytes = data.to_vec();
                let blocks = (offset / BLOCK..).zip(bytes.chunks(BLOCK as usize));
                for (number, bytes) in blocks {
                    disk.rotten.remove(&number);
                    disk.now.insert(number, bytes.to_vec());
                }
                None
            }
            DeviceOperation::Flush => {
                disk.stable = disk.now.clone();
                None
            }
            DeviceOperation::Reserve { .. } => None,
        };
        self.mirrors.completed(key, Ok(result));
        self.pull();
    }

    fn fail(&mut self, place: usize, error: DeviceError) {
        let Wish { key, .. } = self.under_way.remove(place);
        self.mirrors.completed(key, Err(error));
        self.pull();
    }

    /// The first I/O under way in a slot.
    fn of(&self, slot: u8) -> usize {
        self.under_way.iter().position(|wish| wish.slot == slot).expect("it has some")
    }

    fn has(&self, slot: u8) -> bool {
        self.under_way.iter().any(|wish| wish.slot == slot)
    }

    /// Carries out everything, but what is under way in one slot.
    fn serve_all_but(&mut self, slot: Option<u8>) {
        while let Some(place) = self.under_way.iter().position(|wish| Some(wish.slot) != slot) {
            self.serve(place);
        }
    }

    fn serve_all(&mut self) {
        self.serve_all_but(None);
    }

    /// Carries out everything; of what is under way at once the newest comes to rest first.
    fn serve_newest_first(&mut self) {
        while let Some(last) = self.under_way.len().checked_sub(1) {
            self.serve(last);
        }
    }

    /// The caller keeps the generations that it is told.
    fn witness(&mut self) -> Vec<u64> {
        let mut kept = Vec::new();
        while let Some(Membership { mirror, generation }) = self.mirrors.next_membership() {
            self.mirrors.witnessed(mirror, generation);
            kept.push(generation);
        }
        self.pull();
        kept
    }

    /// Time passes, in which the caller looks for answers.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now = until.min(self.now + Duration::from_millis(500));
            self.mirrors.tick(self.now);
        }
        self.pull();
    }

    fn takes(&mut self, token: Token) -> Option<Result<Option<Vec<u8>>, DeviceError>> {
        let place = self.ended.iter().position(|(ended, _)| *ended == token)?;
        let (_, result) = self.ended.remove(place);
        Some(result.map(|buffer| buffer.map(|buffer| buffer.to_vec())))
    }

    fn state(&self, member: usize) -> MemberState {
        self.mirrors.get(MIRROR).status(0).members[member].state
    }

    fn errors(&self, member: usize) -> u64 {
        self.mirrors.get(MIRROR).status(0).members[member].errors
    }

    fn healed(&self, member: usize) -> u64 {
        self.mirrors.get(MIRROR).status(0).members[member].healed_blocks
    }

    /// The newest list that a power failure leaves on a member.
    fn stable_list(&self, slot: usize) -> Option<List> {
        let lists = LISTS.map(|place| List::parse(self.disks[slot].stable.get(&place.number())?));
        lists.into_iter().flatten().max_by_key(|list| list.generation)
    }

    fn put(&mut self, slot: usize, first: u64, numbers: &[u8]) {
        let bytes = content(numbers);
        let blocks = (first..).zip(bytes.chunks(BLOCK as usize));
        self.disks[slot].now.extend(blocks.map(|(number, bytes)| (number, bytes.to_vec())));
    }

    fn block(&self, slot: usize, number: u64) -> u8 {
        self.disks[slot].now.get(&number).map_or(0, |bytes| bytes[0])
    }
}

#[test]
fn labels_and_lists_read_back_and_any_flipped_bit_is_noticed() {
    let label = MemberLabel { pool_uuid: [1; 16], mirror_uuid: [2; 16], member_uuid: [3; 16] };
    let mut list = List::first(POOL, &spec(3));
    list.generation = 0x1_0000_0005;
    list.paused = true;
    list.entries[1].state = MemberState::Absent;
    list.entries[1].since = 4;
    list.entries[2].state = MemberState::Resilvering;
    let (label_bytes, list_bytes) = (label.emit().to_vec(), list.emit().to_vec());
    assert_eq!(MemberLabel::parse(&label_bytes), Some(label));
    assert_eq!(List::parse(&list_bytes), Some(list));
    for byte in (0..400).chain(4088..4096) {
        let flipped = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[byte] ^= 16;
            bytes
        };
        assert_eq!(MemberLabel::parse(&flipped(&label_bytes)), None);
        assert_eq!(List::parse(&flipped(&list_bytes)), None);
    }
    assert_eq!(List::parse(&label_bytes), None);
    assert_eq!(List::parse(&[0; 4096]), None);
    assert_eq!(List::parse(&[]), None);
}

#[test]
fn a_write_and_a_flush_are_done_when_every_member_has_done_its_part() {
    for members in [2, 3] {
        let mut room = Room::new(members);
        room.write(1, 1000, &[5, 6]);
        for member in (0..members as u8).rev() {
            assert_eq!(room.takes(1), None);
            room.serve(room.of(member));
        }
        assert_eq!(room.takes(1), Some(Ok(None)));
        room.flush(2);
        for member in 0..members as u8 {
            assert_eq!(room.takes(2), None);
            room.serve(room.of(member));
        }
        assert_eq!(room.takes(2), Some(Ok(None)));
        for disk in &room.disks {
            assert_eq!(disk.stable[&1001], content(&[6]));
        }
    }
}

#[test]
fn a_member_without_space_refuses_a_reservation_and_stays() {
    let mut room = Room::new(2);
    room.mirrors.reserve(MIRROR, 1, at(1000, 8));
    room.pull();
    room.fail(0, DeviceError::Os(28));
    assert_eq!(room.takes(1), None);
    room.serve_all();
    assert_eq!(room.takes(1), Some(Err(DeviceError::Os(28))));
    assert_eq!([room.state(0), room.state(1)], [MemberState::Current; 2]);
    // One that fails otherwise is given up, and the space is there.
    room.mirrors.reserve(MIRROR, 2, at(1000, 8));
    room.pull();
    room.fail(0, EIO_ERROR);
    room.serve_all();
    assert_eq!(room.takes(2), Some(Ok(None)));
    assert_eq!(room.state(0), MemberState::Absent);
}
