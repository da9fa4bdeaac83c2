//! Blocks freed by an unmap request, as the LUN tells it: GET LBA STATUS, else the used count of log page 0Ch.

use std::thread;
use std::time::{Duration, Instant};

use super::{MIB, Scratch};
use crate::initiator::session::SessionError;
use crate::validate::model::Verdict;
use crate::validate::space::{self, Used};

/// Bytes that are unmapped at least, in whole granules.
const TRIED: u64 = 8 * MIB;

/// Bytes of a granule that are still tried.
const GRANULE_MAX: u64 = 16 * MIB;

/// How long an array may take to free what it was asked to: many do so in the background.
const PATIENCE: Duration =
    if cfg!(test) { Duration::from_millis(600) } else { Duration::from_secs(5) };

const POLL: Duration = Duration::from_millis(100);

/// Blocks of OPTIMAL UNMAP GRANULARITY, 1 if it is not reported, and a first one by UNMAP GRANULARITY
/// ALIGNMENT; bytes are counted from the scratch area's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granule {
    pub(super) blocks: u64,
    pub(super) at: u64,
}

/// UNMAP GRANULARITY ALIGNMENT, if UGAVALID says that it counts.
fn alignment(page: &[u8], blocks: u64) -> u64 {
    let field =
        page.get(32..36).and_then(|field| field.try_into().ok()).map_or(0, u32::from_be_bytes);
    if field >> 31 == 1 { u64::from(field & 0x7fff_ffff) % blocks } else { 0 }
}

impl Granule {
    pub(super) fn bytes(self) -> u64 {
        self.blocks * 512
    }

    /// Bytes of as many whole granules as are tried.
    pub(super) fn several(self) -> u64 {
        (TRIED / self.bytes()).max(1) * self.bytes()
    }
}

/// What a LUN tells of a range that it was asked to unmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// It does not tell, for this reason.
    Untold(&'static str),
    /// So many blocks of so many are still mapped.
    Left(u64, u64),
}

impl Freed {
    /// Of an array that says that it unmaps. A block more or less is the array's choice (SBC-4 4.7.3.4.2:
    /// 'perform an unmap operation, or make no change'; table 6 says 'should'); to free nothing at all of
    /// so many whole granules is not to support it.
    pub(super) fn verdict(self) -> Verdict {
        match self {
            Self::Untold(_) => Verdict::Unclear,
            Self::Left(left, of) if left == of => Verdict::Lie,
            Self::Left(..) => Verdict::Honest,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::Untold(reason) => format!("whether it is freed: {reason}"),
            Self::Left(0, _) => "freed".to_owned(),
            Self::Left(left, of) if left == of => {
                format!("none of {of} blocks freed within {} s", PATIENCE.as_secs())
            }
            Self::Left(left, of) => format!("{} of {of} blocks freed", of - left),
        }
    }
}

impl Scratch<'_> {
    /// The first whole granule behind the scratch area's first one; none if it is too large to be
    /// tried.
    pub(super) fn granule(&mut self) -> Option<Granule> {
        let blocks = u64::from(self.lun.identity.unmap_granularity).max(1);
        if blocks * 512 > GRANULE_MAX {
            return None;
        }
        let offset = alignment(&self.page(0xb0), blocks);
        let start = (self.lba(0) / blocks + 1) * blocks + offset;
        Some(Granule { blocks, at: start * 512 - self.at })
    }

    /// What log page 0Ch counts; asked before a range is unmapped.
    pub(super) fn used(&mut self) -> Option<Used> {
        space::used_by_log(&mut self.lun)
    }

    /// Waits until a range is freed, or it takes too long.
    pub(super) fn freed(
        &mut self,
        [at, length]: [u64; 2],
        before: Option<Used>,
    ) -> Result<Freed, SessionError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let freed = self.look([at, length], before);
            let is_settled = matches!(freed, Freed::Untold(_) | Freed::Left(0, _));
            if is_settled || Instant::now() >= until {
                return Ok(freed);
            }
            if let Some(silence) = &self.silence {
                return Err(silence.clone());
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until the LUN's used space is as it should be, or it takes too long; returns it.
    pub(super) fn used_reaches(
        &mut self,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<u64, SessionError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let used = space::used(&mut self.lun).map_or(0, |(bytes, _)| bytes);
            if wanted(used) || Instant::now() >= until {
                return Ok(used);
            }
            if let Some(silence) = &self.silence {
                return Err(silence.clone());
            }
            thread::sleep(POLL);
        }
    }

    fn look(&mut self, [at, length]: [u64; 2], before: Option<Used>) -> Freed {
        let of = length / 512;
        let by_map = self.mapped(at, length);
        if let Some(left) = by_map.filter(|left| *left < of) {
            return Freed::Left(left, of);
        }
        let now = before.and_then(|_| self.used());
        if let (Some(before), Some(now)) = (before, now)
            && before.unit <= length / 8
        {
            let freed = before.bytes.saturating_sub(now.bytes).min(length);
            return Freed::Left((length - freed) / 512, of);
        }
        if by_map.is_none() {
            return Freed::Untold("nothing tells");
        }
        // PROVISIONING STATUS 0h is 'mapped, or not known' (SBC-4 5.6.2.4).
        let all = self.lun.identity.size_bytes / 512;
        match space::mapped(&mut self.lun, 0, all) {
            Ok(mapped) if mapped < all => Freed::Left(of, of),
            _ => Freed::Untold("GET LBA STATUS says 'mapped or not known' of every block"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alignment_counts_only_when_it_is_valid() {
        let mut page = vec![0; 64];
        page[35] = 3;
        assert_eq!(alignment(&page, 8), 0);
        page[32] = 0x80;
        assert_eq!(
            (alignment(&page, 8), alignment(&page, 2), alignment(&page[..34], 8)),
            (3, 1, 0)
        );
    }

    #[test]
    fn only_whole_granules_are_tried() {
        for (blocks, bytes) in [(1, TRIED), (24, TRIED / 12288 * 12288), (32768, 16 * MIB)] {
            assert_eq!(Granule { blocks, at: 0 }.several(), bytes);
        }
    }

    #[test]
    fn to_free_nothing_is_a_lie_and_to_free_a_part_is_not() {
        for (freed, verdict) in [
            (Freed::Left(0, 16), Verdict::Honest),
            (Freed::Left(15, 16), Verdict::Honest),
            (Freed::Left(16, 16), Verdict::Lie),
            (Freed::Untold("nothing tells"), Verdict::Unclear),
        ] {
            assert_eq!(freed.verdict(), verdict, "{}", freed.words());
        }
    }
}
