//! The bytes on the disk as docs/format.md describes them.

use block::BLOCK;

/// Blocks that hold a superblock.
pub(super) const SUPERBLOCKS: [u64; 2] = [16, 17];

/// How far behind each of them its copy lies.
pub(super) const SUPERBLOCK_COPY: u64 = 16;

/// The journal's first block.
pub(super) const JOURNAL_START: u64 = 256;

/// Blocks of an allocation group, and of its head.
pub(super) const GROUP_BLOCKS: u64 = 32_768;
pub(super) const GROUP_HEAD: u64 = 42;

/// How far behind a descriptor page or a first-level page its copy lies.
pub(super) const UPPER_COPY: u64 = 4;

pub(super) const GROUPS_PER_DESCRIPTOR_PAGE: u64 = 32;
pub(super) const DESCRIPTOR_PAGES_PER_FIRST_LEVEL: u64 = 512;
pub(super) const DESCRIPTOR_BYTES: usize = 128;

/// Pages of a group's space maps: the bitmap, and 16 of counts.
pub(super) const PAGES: u64 = 17;
pub(super) const COUNTS_PER_PAGE: u64 = 2048;

/// A count that says only *too often to count*.
pub(super) const STUCK: u32 = u16::MAX as u32;

pub(super) const VOLUME_BYTES: usize = 256;
pub(super) const REAP_BYTES: usize = 32;

const SUPERBLOCK_MAGIC: &[u8] = b"GANTRYSB";
const UNIT_MAGIC: u32 = 0x474a_4e4c;
const DEVICES_AT: usize = 256;
const DEVICE_BYTES: usize = 32;
const FIRST_LEVEL_AT: usize = 1536;

/// Places in a descriptor.
pub(super) const USED_AT: usize = 76;
pub(super) const FLAGS_AT: usize = 80;

/// The group is not used any more, because its maps are damaged.
pub(super) const FENCED: u32 = 2;

/// Bits of an address that count blocks; those above name the device.
const BLOCK_BITS: u32 = 40;

/// The address of a block of a device.
pub(super) fn address(device: usize, block: u64) -> u64 {
    (device as u64) << BLOCK_BITS | block
}

/// Device and block of an address.
pub(super) fn split(address: u64) -> (usize, u64) {
    ((address >> BLOCK_BITS) as usize, address & ((1 << BLOCK_BITS) - 1))
}

/// A map entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) word: u64,
    pub(super) crc: u32,
}

impl Entry {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self { word: u64_at(bytes, 0), crc: u32_at(bytes, 8) }
    }

    pub(super) fn is_hole(self) -> bool {
        self.word == 0
    }

    /// 0 hole, 1 data, 2 page.
    pub(super) fn kind(self) -> u64 {
        self.word >> 48 & 0xf
    }

    /// Where the copy of a page is.
    pub(super) fn twin(self) -> Option<u64> {
        let distance = self.word >> 52;
        (distance > 0).then(|| self.address() + distance)
    }

    pub(super) fn address(self) -> u64 {
        self.word & ((1 << 48) - 1)
    }
}

/// One device of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) blocks: u64,
    pub(super) groups_start: u64,
}

impl Device {
    pub(super) fn groups(&self) -> u64 {
        let blocks = self.blocks.saturating_sub(self.groups_start);
        blocks / GROUP_BLOCKS + u64::from(blocks % GROUP_BLOCKS > GROUP_HEAD)
    }

    pub(super) fn group_start(&self, group: u64) -> u64 {
        self.groups_start + group * GROUP_BLOCKS
    }

    pub(super) fn descriptor_pages(&self) -> u64 {
        self.groups().div_ceil(GROUPS_PER_DESCRIPTOR_PAGE)
    }

    pub(super) fn first_level_pages(&self) -> u64 {
        self.descriptor_pages().div_ceil(DESCRIPTOR_PAGES_PER_FIRST_LEVEL)
    }
}

/// A superblock.
#[derive(Clone, Debug)]
pub(super) struct Superblock {
    /// Where it lies on the first device.
    pub(super) block: u64,
    pub(super) epoch: u64,
    pub(super) generation: u64,
    pub(super) devices: Vec<Device>,
    pub(super) journal_blocks: u64,
    /// Where the journal goes on: block of the ring, sequence number, checksum of the unit before.
    pub(super) head: (u64, u64, u32),
    /// The volume table: its root, its leaves, and those of them that hold volumes.
    pub(super) table: Entry,
    pub(super) leaves: u64,
    pub(super) volume_leaves: u64,
    pub(super) reap_entries: u64,
    first_level: Vec<Reference>,
}

impl Superblock {
    /// Reads one; `None` if it is not whole.
    pub(super) fn parse(block: u64, bytes: &[u8]) -> Option<Self> {
        let end = BLOCK as usize - 4;
        let sealed = crc32c::crc32c(&bytes[..end]) == u32_at(bytes, end);
        if !sealed || !bytes.starts_with(SUPERBLOCK_MAGIC) {
            return None;
        }
        let number = |index: usize| u64_at(bytes, 32 + 8 * index);
        let journal_blocks = number(3);
        let records = bytes[DEVICES_AT..].chunks(DEVICE_BYTES).take(number(2) as usize);
        let device = |(index, record): (usize, &[u8])| {
            let journal_blocks = if index == 0 { journal_blocks } else { 0 };
            let groups_start = (JOURNAL_START + journal_blocks).next_multiple_of(256);
            Device { blocks: u64_at(record, 16), groups_start }
        };
        let devices: Vec<_> = records.enumerate().map(device).collect();
        let first_level = devices.iter().map(Device::first_level_pages).sum::<u64>();
        let references = bytes[FIRST_LEVEL_AT..end].chunks(8).take(first_level as usize);
        Some(Self {
            block,
            epoch: number(0),
            generation: number(1),
            journal_blocks,
            head: (number(4), number(5), number(6) as u32),
            table: Entry::parse(&bytes[128..144]),
            leaves: number(7),
            volume_leaves: number(8),
            reap_entries: number(9),
            first_level: references.map(Reference::parse).collect(),
            devices,
        })
    }

    /// The references to first-level space pages of one device.
    pub(super) fn first_level(&self, device: usize) -> &[Reference] {
        let before = self.devices[..device].iter().map(Device::first_level_pages).sum::<u64>();
        let own = self.devices[device].first_level_pages();
        &self.first_level[before as usize..][..own as usize]
    }

    /// Levels of pages above the leaves of the volume table.
    pub(super) fn table_levels(&self) -> u8 {
        let (mut levels, mut width) = (0, self.leaves);
        while width > 1 {
            width = width.div_ceil(256);
            levels += 1;
        }
        levels
    }
}

/// A reference to a page with two slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) crc: u32,
    pub(super) slot: u64,
}

impl Reference {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self { crc: u32_at(bytes, 0), slot: bytes[4].into() }
    }

    pub(super) fn exists(self) -> bool {
        self.slot <= 1
    }
}

/// What the head of a journal unit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) blocks: u64,
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    pub(super) durable: u64,
    pub(super) previous_crc: u32,
    pub(super) crc: u32,
}

impl Unit {
    /// Reads the head of a unit; `None` if there is none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        (u32_at(bytes, 0) == UNIT_MAGIC).then(|| Self {
            blocks: u32_at(bytes, 4).into(),
            epoch: u64_at(bytes, 8),
            sequence: u64_at(bytes, 16),
            durable: u64_at(bytes, 24),
            previous_crc: u32_at(bytes, 40),
            crc: u32_at(bytes, 44),
        })
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
