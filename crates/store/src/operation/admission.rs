//! Admission of requests: checks their ranges, and claims them in order of arrival.

use block::{BlockError, ByteRange, Request, VolumeId};
use smallvec::SmallVec;

use super::{Operation, Work, changes};
use crate::address::BlockRange;
use crate::change::Tag;
use crate::limits::{REQUEST_BYTES_MAX, UNMAP_RANGES_MAX};
use crate::locks::Claim;
use crate::serving::Serving;

impl Serving {
    pub(crate) fn begin(&mut self, tag: Tag, volume: VolumeId, work: Work) {
        let claims = match self.claims(volume, &work) {
            Ok(claims) => claims,
            Err(error) => return self.engine.answer(tag, Err(error.into())),
        };
        if let Work::Request(request) = &work {
            self.engine.pool.budget.metadata.note(volume, request);
        }
        let key = self.requests.table.insert(Operation::new(tag, volume, work, claims));
        let claims = &self.requests.table[key].claims;
        if self.requests.locks.claim(key, claims) {
            self.run(key);
        }
    }

    /// The ranges that the work reads and changes, checked against the volume's size.
    fn claims(&self, volume: VolumeId, work: &Work) -> Result<SmallVec<[Claim; 2]>, BlockError> {
        let request = match work {
            Work::Change(change) => return Ok(changes::claims(change)),
            Work::Request(request) => request,
        };
        let claim = |volume, range: ByteRange, exclusive| Claim {
            volume,
            range: BlockRange::touched_by(range),
            exclusive,
        };
        let mut claims = SmallVec::new();
        match request {
            Request::Read { range } | Request::MapStatus { range, .. } => {
                self.check_range(volume, *range, u64::MAX)?;
                claims.push(claim(volume, *range, false));
            }
            Request::Write { range, data } => {
                self.check_range(volume, *range, data.len() as u64)?;
                claims.push(claim(volume, *range, true));
            }
            Request::CompareAndWrite { range, compare, write } => {
                let length = compare.len().min(write.len()) as u64;
                self.check_range(volume, *range, length)?;
                claims.push(claim(volume, *range, true));
            }
            Request::WriteSame { range, .. } => {
                self.check_range(volume, *range, u64::MAX)?;
                claims.push(claim(volume, *range, true));
            }
            Request::Unmap { ranges } => {
                if ranges.len() > UNMAP_RANGES_MAX {
                    return Err(BlockError::OutOfRange);
                }
                for range in ranges.iter().filter(|range| !range.is_empty()) {
                    self.check_range(volume, *range, u64::MAX)?;
                    claims.push(claim(volume, *range, true));
                }
            }
            Request::Copy { source, source_offset, destination, length } => {
                let from = ByteRange::new(*source_offset, *length);
                let to = ByteRange::new(*destination, *length);
                self.check_range(*source, from, REQUEST_BYTES_MAX)?;
                self.check_range(volume, to, REQUEST_BYTES_MAX)?;
                claims.push(claim(*source, from, false));
                claims.push(claim(volume, to, true));
            }
            Request::Flush => {}
        }
        Ok(claims)
    }

    /// A range inside the volume, in whole sectors, and no longer than its data.
    fn check_range(
        &self,
        volume: VolumeId,
        range: ByteRange,
        length_max: u64,
    ) -> Result<(), BlockError> {
        let volume = self.engine.pool.volumes.get(volume).ok_or(BlockError::NoSuchVolume)?;
        let end = range.offset.checked_add(range.length).ok_or(BlockError::OutOfRange)?;
        let fits = end <= volume.spec.size_bytes
            && range.is_aligned(block::SECTOR)
            && range.length <= length_max;
        if fits { Ok(()) } else { Err(BlockError::OutOfRange) }
    }
}
