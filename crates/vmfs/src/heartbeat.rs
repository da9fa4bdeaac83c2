//! Heartbeats: how a host shows that it lives, and how others see that it does not.

use crate::bytes::{Sector, Uuid, get_u32, get_u64, put_text, put_u32, put_u64};

/// The first slot's volume address.
const REGION: u64 = 0x30_0000;

const CLEAR: u32 = 0xabcd_ef01;
const IN_USE: u32 = 0xabcd_ef02;

/// The volume address of a slot.
pub(crate) fn address(number: u64) -> u64 {
    REGION + number * 512
}

/// The slot at an address.
pub(crate) fn number(address: u64) -> Option<u64> {
    let offset = address.checked_sub(REGION)?;
    (offset.is_multiple_of(512) && offset / 512 < crate::limits::HOSTS_MAX).then_some(offset / 512)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) in_use: bool,
    pub(crate) address: u64,
    /// One more with each host that takes the slot.
    pub(crate) generation: u64,
    /// The host's clock; a live host's changes.
    pub(crate) stamp_us: u64,
    pub(crate) host: Uuid,
    /// A name for people.
    pub(crate) name: String,
    /// The host that replays this one's journal; else zero.
    pub(crate) replayed_by: Uuid,
}

/// Bytes of the stamp in a slot.
pub(crate) const STAMP: std::ops::Range<usize> = 0x14..0x1c;

impl Slot {
    pub(crate) fn clear(address: u64, generation: u64) -> Self {
        Self {
            in_use: false,
            address,
            generation,
            stamp_us: 0,
            host: Uuid::default(),
            name: String::new(),
            replayed_by: Uuid::default(),
        }
    }

    pub(crate) fn emit(&self) -> Sector {
        let mut out = [0; 512];
        put_u32(&mut out, 0x00, if self.in_use { IN_USE } else { CLEAR });
        put_u64(&mut out, 0x04, self.address);
        put_u64(&mut out, 0x0c, self.generation);
        put_u64(&mut out, 0x14, self.stamp_us);
        self.host.put(&mut out, 0x1c);
        put_u32(&mut out, 0x30, 14);
        put_text(&mut out, 0x36, 45, &self.name);
        self.replayed_by.put(&mut out, 0x6c);
        out
    }

    /// `None` for a sector that is no slot.
    pub(crate) fn parse(bytes: &Sector) -> Option<Self> {
        let state = get_u32(bytes, 0);
        (state == CLEAR || state == IN_USE).then(|| Self {
            in_use: state == IN_USE,
            address: get_u64(bytes, 0x04),
            generation: get_u64(bytes, 0x0c),
            stamp_us: get_u64(bytes, 0x14),
            host: Uuid::get(bytes, 0x1c),
            name: crate::bytes::get_text(bytes, 0x36, 46),
            replayed_by: Uuid::get(bytes, 0x6c),
        })
    }
}
