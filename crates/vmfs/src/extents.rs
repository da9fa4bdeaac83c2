//! The disks of a mounted volume: translation of its bytes to places on them, and disks that are
//! missing. All metadata lies on the first one, the head, so that a volume without another one can
//! be mounted: what lies there is then out of reach, and nothing new is put there.

use crate::bytes::Uuid;
use crate::disk::{DiskError, Guard};
use crate::limits::FILE_BLOCK;
use crate::lvm::{self, Part, Place};
use crate::partition;
use crate::volume::Volume;
use crate::{Disk, Error, Result};

/// A disk of a volume beside the head.
#[derive(Debug)]
pub(crate) struct Other<D> {
    name: String,
    /// The disk and its part, unless it is missing.
    found: Option<(D, Part)>,
    /// The volume's generation when the disk was looked at.
    generation: u64,
}

/// A disk of a volume, as the volume's head names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOfVolume {
    /// Its name.
    pub name: String,
    /// Bytes of the volume on it; `None` when it is missing.
    pub bytes: Option<u64>,
}

/// Whether a disk holds a part of a volume beside its head.
pub fn is_extent(disk: &mut impl Disk) -> bool {
    let found = partition::find(disk).and_then(|partition| lvm::read(disk, partition));
    found.is_ok_and(|header| header.part.first > 0)
}

/// Looks whether a disk holds a part of a volume beside its head.
fn part_on(disk: &mut impl Disk, volume: Uuid) -> Result<Part> {
    let partition = partition::find(disk)?;
    let header = lvm::read(disk, partition)?;
    let part = header.part;
    if header.uuid != volume || part.first == 0 || part.base() + part.length > disk.size_bytes() {
        return Err(Error::Format("the LUN holds nothing of this datastore".into()));
    }
    Ok(part)
}

impl<D: Disk> Volume<D> {
    /// Connects the disks that the head names and that are not there yet, and looks what lies on
    /// each.
    pub(crate) fn open_disks(&mut self) -> Result<()> {
        let names = lvm::names(&mut self.disk, &self.head)?;
        self.others.truncate(names.len() - 1);
        for (number, name) in names.into_iter().enumerate().skip(1) {
            let known = self.others.get_mut(number - 1).filter(|other| other.name == name);
            let generation = known.as_ref().map(|other| other.generation);
            let found = match known.and_then(|other| other.found.take()) {
                // A disk that does not answer now is not another one.
                Some(found) if generation == Some(self.head.generation) => Some(found),
                Some((disk, old)) => self.look_at(disk, Some(old)),
                // Whatever is wrong with it, the volume goes on without it.
                None => self.disk.another(&name).ok().and_then(|disk| self.look_at(disk, None)),
            };
            let other = Other { name, found, generation: self.head.generation };
            match self.others.get_mut(number - 1) {
                Some(place) => *place = other,
                None => self.others.push(other),
            }
        }
        self.guard_others();
        Ok(())
    }

    /// A disk with the part of the volume that it holds, if it holds one.
    fn look_at(&self, mut disk: D, old: Option<Part>) -> Option<(D, Part)> {
        let part = match part_on(&mut disk, self.head.uuid) {
            Ok(part) => part,
            Err(Error::Disk(_)) => old?,
            Err(_) => return None,
        };
        (part.first < self.head.size).then_some((disk, part))
    }

    /// The part of a disk that is there.
    fn part(&self, disk: usize) -> Option<Part> {
        match disk.checked_sub(1) {
            None => Some(self.head.part),
            Some(other) => self.others.get(other)?.found.as_ref().map(|(_, part)| *part),
        }
    }

    /// The disk that holds a byte of the volume, unless it is missing.
    fn disk_of(&self, address: u64) -> Option<(usize, Part)> {
        let parts = (0..=self.others.len()).filter_map(|disk| Some((disk, self.part(disk)?)));
        parts.into_iter().find(|(_, part)| (part.first..part.end()).contains(&address))
    }

    /// The place of a byte of the volume.
    pub(crate) fn on_disk(&self, address: u64) -> Result<Place> {
        let Some((disk, part)) = self.disk_of(address) else { return Err(self.missing_disk()) };
        Ok(Place { disk, at: part.base() + address - part.first })
    }

    /// The place of a byte of metadata, all of which lies on the head.
    pub(crate) fn on_head(&self, address: u64) -> Result<u64> {
        let part = self.head.part;
        if address < part.length {
            return Ok(part.base() + address);
        }
        Err(Error::Format(format!("metadata at {address:x}, which is not on the head extent")))
    }

    fn missing_disk(&self) -> Error {
        let missing = self.missing().join(", ");
        if missing.is_empty() {
            return Error::Format("an address behind the end of the volume".into());
        }
        DiskError::Missing(missing).into()
    }

    /// Names of the volume's disks that this host does not see, or that hold something else.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.others.iter().filter(|other| other.found.is_none());
        missing.map(|other| other.name.clone()).collect()
    }

    /// Whether a file block lies on a disk that is there.
    pub(crate) fn has_block(&self, number: u64) -> bool {
        self.disk_of(number * FILE_BLOCK).is_some()
    }

    /// Whether a file block lies on the head.
    pub(crate) fn is_on_head(&self, number: u64) -> bool {
        number * FILE_BLOCK < self.head.part.length
    }

    /// The disks of the volume, the head first, and what of the volume is on each.
    pub fn layout(&self) -> Vec<DiskOfVolume> {
        let of_head = DiskOfVolume { name: self.disk.name(), bytes: Some(self.head.part.length) };
        let others = self.others.iter().map(|other| DiskOfVolume {
            name: other.name.clone(),
            bytes: other.found.as_ref().map(|(_, part)| part.length),
        });
        std::iter::once(of_head).chain(others).collect()
    }

    /// The disk of a place.
    ///
    /// # Errors
    /// [`DiskError::Missing`] when it was lost since the place was looked up.
    pub fn disk_at(&mut self, place: Place) -> Result<&mut D> {
        self.numbered(place.disk)
    }

    pub(crate) fn numbered(&mut self, disk: usize) -> Result<&mut D> {
        let missing = self.missing_disk();
        match disk.checked_sub(1) {
            None => Ok(&mut self.disk),
            Some(other) => {
                let found = self.others.get_mut(other).and_then(|other| other.found.as_mut());
                found.map(|(disk, _)| disk).ok_or(missing)
            }
        }
    }

    /// The disks that are there, the head first.
    pub fn disks(&mut self) -> impl Iterator<Item = &mut D> {
        let others = self.others.iter_mut().filter_map(|other| other.found.as_mut());
        std::iter::once(&mut self.disk).chain(others.map(|(disk, _)| disk))
    }

    /// All of the disks that are there, the head first.
    pub(crate) fn into_disks(self) -> Vec<D> {
        let others = self.others.into_iter().filter_map(|other| other.found);
        std::iter::once(self.disk).chain(others.map(|(disk, _)| disk)).collect()
    }

    /// Lets every disk look at the heartbeat after a time without paths: on the head it lies itself,
    /// the others are told where.
    pub(crate) fn guard_all(&mut self, guard: Option<Guard>) {
        self.guard = guard;
        self.disk.guard(self.guard.clone());
        self.guard_others();
    }

    fn guard_others(&mut self) {
        let name = self.disk.name();
        let guard = self.guard.clone().map(|guard| Guard { disk: Some(name), ..guard });
        self.disks().skip(1).for_each(|disk| disk.guard(guard.clone()));
    }

    /// Takes a disk in that has become part of the volume.
    pub(crate) fn add_disk(&mut self, disk: D, part: Part) {
        let (name, generation) = (disk.name(), self.head.generation);
        self.others.push(Other { name, found: Some((disk, part)), generation });
        self.guard_others();
    }

    /// The last disk of the volume by its number, with its part.
    pub(crate) fn last_part(&self) -> Result<(usize, Part)> {
        let last = self.others.len();
        Ok((last, self.part(last).ok_or_else(|| self.missing_disk())?))
    }

    /// Lets the disks beside the head say of the volume what the head does. Only readers that look
    /// at them all mind; one that is missing says it when the volume is grown the next time.
    pub(crate) fn tell_others(&mut self) -> Result<()> {
        let head = self.head;
        for (disk, part) in self.others.iter_mut().filter_map(|other| other.found.as_mut()) {
            let wanted = head.of_part(*part);
            if !lvm::read(disk, part.partition)?.agrees_with(&wanted) {
                lvm::write_volume(disk, &wanted)?;
            }
        }
        Ok(())
    }
}
