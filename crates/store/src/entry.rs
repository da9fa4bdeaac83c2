//! Format of the block map's pages: 256 entries of 16 bytes, the same at every level.
//!
//! On disk an entry is little-endian: bits 0–47 the address (device and block), bits 48–51 the
//! kind, bits 52–63 how many blocks behind a page its copy lies; then the CRC32C of the block;
//! then, for a page, the number of mapped blocks below it.

use block::BLOCK;

use crate::address::Address;

/// Entries in a page.
pub(crate) const FANOUT: u64 = 256;

/// Blocks below a page of each level; level 0 is a leaf.
pub(crate) const fn blocks_below(level: u8) -> u64 {
    1 << (8 * (level as u32 + 1))
}

/// The number of levels that a volume of `blocks` blocks needs, at least one.
pub(crate) fn levels_for(blocks: u64) -> u8 {
    (0..).find(|&level| blocks_below(level) >= blocks).expect("a u64 fits below level 7") + 1
}

const NUMBER_MASK: u64 = (1 << 48) - 1;
const TWIN_SHIFT: u32 = 52;
const TWIN_MASK: u64 = 0xfff << TWIN_SHIFT;

/// Kind of block that an entry points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: reads as zeros.
    Hole,
    /// A block of data.
    Data,
    /// A page of the next lower level, on disk.
    Page,
    /// A page of the next lower level that is only in memory; never on disk.
    Dirty,
}

/// Names a page of the map, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PageKey {
    /// A page with a place on disk.
    OnDisk(Address),
    /// The identifier of a page that is only in memory.
    Dirty(usize),
}

/// A pointer to a block or page.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    word: u64,
    /// CRC32C of the block or page; unspecified for holes and dirty pages.
    pub(crate) crc: u32,
    /// Mapped blocks below a page; 0 in leaves.
    pub(crate) mapped: u32,
}

impl Entry {
    pub(crate) const HOLE: Self = Self { word: 0, crc: 0, mapped: 0 };

    pub(crate) fn data(address: Address, crc: u32) -> Self {
        Self { word: address.bits() | 1 << 48, crc, mapped: 0 }
    }

    /// A page on disk, with no mapped block below it: see [`Self::with_mapped`].
    pub(crate) fn page(address: Address, crc: u32) -> Self {
        Self { word: address.bits() | 2 << 48, crc, mapped: 0 }
    }

    /// The same page, with so many mapped blocks below it.
    pub(crate) fn with_mapped(self, mapped: u32) -> Self {
        Self { mapped, ..self }
    }

    /// The same page, with a copy so many blocks behind it; 0 for none.
    pub(crate) fn with_twin(self, distance: u64) -> Self {
        Self { word: self.word & !TWIN_MASK | distance << TWIN_SHIFT, ..self }
    }

    /// How many blocks behind a page its copy lies; 0 if it has none.
    pub(crate) fn twin_distance(self) -> u64 {
        self.word >> TWIN_SHIFT
    }

    /// Where the copy of a page is.
    pub(crate) fn twin(self) -> Option<Address> {
        (self.twin_distance() > 0).then(|| self.address() + self.twin_distance())
    }

    /// A dirty page, with no mapped block below it: see [`Self::with_mapped`].
    pub(crate) fn dirty(id: usize) -> Self {
        Self { word: id as u64 | 3 << 48, crc: 0, mapped: 0 }
    }

    pub(crate) fn kind(self) -> Kind {
        match self.word >> 48 & 0xf {
            1 => Kind::Data,
            2 => Kind::Page,
            3 => Kind::Dirty,
            _ => Kind::Hole,
        }
    }

    /// Where its block or page on disk is.
    pub(crate) fn address(self) -> Address {
        debug_assert!(matches!(self.kind(), Kind::Data | Kind::Page));
        Address::from_bits(self.number())
    }

    /// The identifier of a dirty page.
    pub(crate) fn dirty_id(self) -> usize {
        debug_assert!(self.kind() == Kind::Dirty);
        self.number() as usize
    }

    /// The name of the page that it points to.
    pub(crate) fn page_key(self) -> PageKey {
        match self.kind() {
            Kind::Dirty => PageKey::Dirty(self.dirty_id()),
            Kind::Hole | Kind::Data | Kind::Page => {
                PageKey::OnDisk(Address::from_bits(self.number()))
            }
        }
    }

    /// Whether both point to the same block or page, wherever it is.
    pub(crate) fn is_same_place(self, other: Self) -> bool {
        self.kind() == other.kind() && self.number() == other.number()
    }

    /// Address in the pool, or identifier of a dirty page.
    fn number(self) -> u64 {
        self.word & NUMBER_MASK
    }

    pub(crate) fn is_hole(self) -> bool {
        self.word == 0
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} ({} mapped)", self.kind(), self.number(), self.mapped)
    }
}

/// One page of the map in memory.
#[derive(Clone)]
pub(crate) struct Page(pub(crate) Box<[Entry; FANOUT as usize]>);

impl Page {
    pub(crate) fn empty() -> Self {
        Self(Box::new([Entry::HOLE; FANOUT as usize]))
    }

    /// Reads a page; `None` if an entry is of no kind that a page of `level` may hold.
    pub(crate) fn parse(bytes: &[u8], level: u8) -> Option<Self> {
        let mut page = Self::empty();
        for (entry, bytes) in page.0.iter_mut().zip(bytes.as_chunks::<16>().0) {
            *entry = parse_entry(bytes);
            let fits = match entry.kind() {
                Kind::Hole => entry.word == 0,
                Kind::Data => level == 0 && entry.twin_distance() == 0,
                Kind::Page => level > 0,
                Kind::Dirty => false,
            };
            if !fits {
                return None;
            }
        }
        Some(page)
    }

    /// Writes the page; it must hold no dirty entry.
    pub(crate) fn emit(&self, bytes: &mut [u8]) {
        debug_assert_eq!(bytes.len() as u64, BLOCK);
        for (entry, bytes) in self.0.iter().zip(bytes.as_chunks_mut::<16>().0) {
            assert!(entry.kind() != Kind::Dirty, "a dirty entry never reaches the disk");
            *bytes = emit_entry(*entry);
        }
    }
}

pub(crate) fn parse_entry(bytes: &[u8; 16]) -> Entry {
    let (word, rest) = bytes.split_at(8);
    let (crc, mapped) = rest.split_at(4);
    Entry {
        word: u64::from_le_bytes(word.try_into().expect("8 bytes")),
        crc: u32::from_le_bytes(crc.try_into().expect("4 bytes")),
        mapped: u32::from_le_bytes(mapped.try_into().expect("4 bytes")),
    }
}

pub(crate) fn emit_entry(entry: Entry) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&entry.word.to_le_bytes());
    bytes[8..12].copy_from_slice(&entry.crc.to_le_bytes());
    bytes[12..].copy_from_slice(&entry.mapped.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_back_as_written() {
        let mut page = Page::empty();
        page.0[0] = Entry::data(Address::from_bits(77), 1);
        page.0[255] = Entry::data(Address::from_bits(NUMBER_MASK), u32::MAX);
        let mut bytes = [0xff; BLOCK as usize];
        page.emit(&mut bytes);
        let back = Page::parse(&bytes, 0).unwrap();
        assert!(back.0 == page.0);
    }

    #[test]
    fn a_page_with_entries_that_do_not_belong_there_is_refused() {
        let mut bytes = [0; BLOCK as usize];
        bytes[..16]
            .copy_from_slice(&emit_entry(Entry::page(Address::from_bits(5), 0).with_mapped(1)));
        assert!(Page::parse(&bytes, 0).is_none());
        assert!(Page::parse(&bytes, 1).is_some());
        bytes[..16].copy_from_slice(&emit_entry(Entry::dirty(5).with_mapped(1)));
        assert!(Page::parse(&bytes, 1).is_none());
        bytes[..16].copy_from_slice(&[0xff; 16]);
        assert!(Page::parse(&bytes, 0).is_none());
    }

    #[test]
    fn a_volume_has_as_many_levels_as_it_needs() {
        for (blocks, levels) in [(1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 3), (1 << 34, 5)]
        {
            assert_eq!(levels_for(blocks), levels, "{blocks}");
        }
    }
}
