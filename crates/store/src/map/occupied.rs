//! Counts blocks of a range that hold data, those that nobody shares apart.

use super::{Map, Root};
use crate::address::BlockRange;
use crate::entry::Kind;
use crate::space::{AllocationGroupId, Space};

/// Blocks that hold data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupied {
    /// Those that nobody shares.
    pub(crate) own: u64,
    /// The others.
    pub(crate) shared: u64,
}

impl std::iter::Sum for Occupied {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, more| Self {
            own: sum.own + more.own,
            shared: sum.shared + more.shared,
        })
    }
}

impl Map {
    /// Of the blocks `first .. first + count`, those that hold data. Their pages are in memory. Fails
    /// with a group whose maps are not, but are needed to tell.
    pub(crate) fn occupied(
        &mut self,
        space: &Space,
        root: Root,
        range: BlockRange,
    ) -> Result<Occupied, AllocationGroupId> {
        let mut occupied = Occupied::default();
        for part in range.by_leaf() {
            let place = part.first.place_in_leaf();
            let leaf = self.next_leaf(root, part.first).ok().flatten();
            if let Some(leaf) = leaf.filter(|leaf| leaf.first + place == part.first) {
                let shared = leaf.path.iter().any(|&(_, entry)| self.is_shared(space, entry));
                let entries = self.leaf_entries(&leaf).unwrap_or_default();
                let entries = entries.iter().skip(place as usize).take(part.count as usize);
                for entry in entries.filter(|entry| entry.kind() == Kind::Data) {
                    let group = space.group_of(entry.address());
                    if !shared && !space.is_loaded(group) {
                        return Err(group);
                    }
                    if shared || space.references(entry.address()) != 1 {
                        occupied.shared += 1
                    } else {
                        occupied.own += 1
                    }
                }
            }
        }
        Ok(occupied)
    }
}
