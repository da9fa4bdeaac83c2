//! On-disk locks: one sector each, changed by ATS (COMPARE AND WRITE) or under a SCSI-2
//! reservation (RESERVE, RELEASE).

use crate::bytes::{Sector, Uuid, get_u32, get_u64, put_u32, put_u64};
use crate::disk::DiskError;
use crate::limits::{HOLDERS_MAX, RESERVE_ATTEMPTS_MAX, SWAP_ATTEMPTS_MAX};
use crate::{Disk, Result};

/// What a lock's holder may do, and who may hold it beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// One host, which may write.
    Exclusive,
    /// Several hosts, which only read.
    ReadOnly,
    /// Several hosts that write and agree among themselves.
    MultiWriter,
}

impl LockMode {
    fn code(self) -> u32 {
        match self {
            Self::Exclusive => 1,
            Self::ReadOnly => 2,
            Self::MultiWriter => 3,
        }
    }
}

/// The heartbeat by which a holder shows that it lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Volume address of the slot.
    pub(crate) slot: u64,
    pub(crate) generation: u64,
    pub(crate) host: Uuid,
}

/// The first sector of a file descriptor or resource cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockRecord {
    pub(crate) kind: u32,
    /// Its own volume address.
    pub(crate) address: u64,
    /// One more with each acquisition.
    pub(crate) token: u64,
    mode: u32,
    modified_us: u64,
    /// One for an exclusive lock, up to eight for a shared one.
    pub(crate) holders: Vec<Holder>,
}

/// Type word of a file descriptor's lock.
pub(crate) const DESCRIPTOR: u32 = 0x10c0_0001;

impl LockRecord {
    pub(crate) fn free(kind: u32, address: u64) -> Self {
        Self { kind, address, token: 0, mode: 0, modified_us: 0, holders: Vec::new() }
    }

    pub(crate) fn emit(&self) -> Sector {
        let mut out = [0; 512];
        put_u32(&mut out, 0x00, self.kind);
        put_u64(&mut out, 0x04, self.address);
        put_u64(&mut out, 0x1c, self.token);
        put_u32(&mut out, 0x24, self.mode);
        put_u64(&mut out, 0x38, self.modified_us);
        if self.mode == 1 {
            let holder = self.holders[0];
            put_u64(&mut out, 0x0c, holder.slot);
            put_u64(&mut out, 0x14, holder.generation);
            holder.host.put(&mut out, 0x28);
            return out;
        }
        put_u32(&mut out, 0x40, self.holders.len() as u32);
        for (number, holder) in self.holders.iter().enumerate() {
            let at = 0x44 + number * 32;
            put_u64(&mut out, at, holder.slot);
            put_u64(&mut out, at + 8, holder.generation);
            holder.host.put(&mut out, at + 16);
        }
        out
    }

    /// Nothing here can be malformed: what makes no sense is taken as free and the compare of the
    /// next change shows whether it was.
    pub(crate) fn parse(bytes: &Sector) -> Self {
        let mode = get_u32(bytes, 0x24);
        let at = |slot: usize, host: usize| Holder {
            slot: get_u64(bytes, slot),
            generation: get_u64(bytes, slot + 8),
            host: Uuid::get(bytes, host),
        };
        let holders = match mode {
            1 => vec![at(0x0c, 0x28)],
            2 | 3 => {
                let count = (get_u32(bytes, 0x40) as usize).min(HOLDERS_MAX);
                (0..count).map(|number| at(0x44 + number * 32, 0x54 + number * 32)).collect()
            }
            _ => Vec::new(),
        };
        Self {
            kind: get_u32(bytes, 0),
            address: get_u64(bytes, 0x04),
            token: get_u64(bytes, 0x1c),
            mode,
            modified_us: get_u64(bytes, 0x38),
            holders,
        }
    }

    /// Whether this is the lock of the object at an address.
    pub(crate) fn is_of(&self, address: u64) -> bool {
        self.address == address && self.kind & 0xffff_ff00 == 0x10c0_0000
    }

    /// With one more holder, if the mode allows it beside those that are there.
    pub(crate) fn with(&self, holder: Holder, mode: LockMode, now_us: u64) -> Option<Self> {
        let shared = mode != LockMode::Exclusive && self.mode == mode.code();
        if !self.holders.is_empty() && (!shared || self.holders.len() == HOLDERS_MAX) {
            return None;
        }
        let mut record = self.clone();
        record.mode = mode.code();
        record.token += 1;
        record.modified_us = now_us;
        record.holders.push(holder);
        Some(record)
    }

    /// In the words of `vmkfstools -D`.
    pub(crate) fn describe(&self) -> String {
        let holder = self.holders.first().copied().unwrap_or_default();
        let shared = if self.mode == 1 { 0 } else { self.holders.len() };
        format!(
            "Lock [type {:x} offset {} v {}, hb offset {}\ngen {}, mode {}, owner {} mtime {}\nnum {shared} gblnum 0 gblgen 0 gblbrk 0]",
            self.kind,
            self.address,
            self.token,
            holder.slot,
            holder.generation,
            self.mode,
            holder.host,
            self.modified_us / 1_000_000,
        )
    }

    pub(crate) fn without(&self, holder: &Holder) -> Self {
        let mut record = self.clone();
        if let Some(at) = record.holders.iter().position(|other| other == holder) {
            record.holders.remove(at);
        }
        if record.holders.is_empty() {
            record.mode = 0;
        }
        record
    }
}

/// How on-disk locks are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// COMPARE AND WRITE.
    Ats,
    /// RESERVE, look, write, RELEASE.
    Scsi,
}

/// How often a volume's host met another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contention {
    /// Compares that found something else than expected.
    pub miscompares: u64,
    /// Reservations that another host had.
    pub reservation_conflicts: u64,
}

impl Locking {
    /// Replaces a sector, if it is as expected.
    pub(crate) fn swap(
        self,
        disk: &mut impl Disk,
        offset: u64,
        [expected, replacement]: [&Sector; 2],
        contention: &mut Contention,
    ) -> Result<bool> {
        let swapped = match self {
            Self::Ats => loop {
                match disk.compare_and_write(offset, expected, replacement) {
                    Err(DiskError::Reserved) => pause(disk, contention, 0),
                    other => break other?,
                }
            },
            Self::Scsi => swap_by_reservation(disk, offset, [expected, replacement], contention)?,
        };
        contention.miscompares += u64::from(!swapped);
        Ok(swapped)
    }
}

/// A reservation ends with its path. Then what was written is not known: it is looked at again,
/// under a new reservation.
fn swap_by_reservation(
    disk: &mut impl Disk,
    offset: u64,
    [expected, replacement]: [&Sector; 2],
    contention: &mut Contention,
) -> Result<bool> {
    for _ in 1..SWAP_ATTEMPTS_MAX {
        reserve(disk, contention)?;
        let swapped = swap_reserved(disk, offset, expected, replacement);
        let released = disk.release();
        if let Ok(swapped) = swapped {
            return Ok(swapped);
        }
        released?;
    }
    reserve(disk, contention)?;
    let swapped = swap_reserved(disk, offset, expected, replacement);
    disk.release()?;
    swapped
}

fn swap_reserved(
    disk: &mut impl Disk,
    offset: u64,
    expected: &Sector,
    replacement: &Sector,
) -> Result<bool> {
    let mut found = [0; 512];
    disk.read(offset, &mut found)?;
    if found != *expected {
        return Ok(found == *replacement);
    }
    disk.write(offset, replacement)?;
    Ok(true)
}

fn reserve(disk: &mut impl Disk, contention: &mut Contention) -> Result<()> {
    despite_reservations(disk, contention, Disk::reserve)
}

/// Reads before anything is known of the volume.
pub(crate) fn read_patiently(disk: &mut impl Disk, offset: u64, buffer: &mut [u8]) -> Result<()> {
    despite_reservations(disk, &mut Contention::default(), |disk| disk.read(offset, buffer))
}

/// Writes what lies outside of the volume.
pub(crate) fn write_patiently(disk: &mut impl Disk, offset: u64, bytes: &[u8]) -> Result<()> {
    despite_reservations(disk, &mut Contention::default(), |disk| disk.write(offset, bytes))
}

/// Repeats a command while another host has the disk reserved, which is never for long.
fn despite_reservations<D: Disk>(
    disk: &mut D,
    contention: &mut Contention,
    mut command: impl FnMut(&mut D) -> std::result::Result<(), DiskError>,
) -> Result<()> {
    for attempt in 0..RESERVE_ATTEMPTS_MAX {
        match command(disk) {
            Err(DiskError::Reserved) => pause(disk, contention, attempt),
            other => return Ok(other?),
        }
    }
    Err(DiskError::Reserved.into())
}

fn pause(disk: &mut impl Disk, contention: &mut Contention, attempt: u32) {
    contention.reservation_conflicts += 1;
    // Hosts that met once should not meet again: the clock's last digits tell them apart.
    let spread = disk.now_us().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53;
    disk.pause_us(200 + spread * u64::from(attempt.min(8) + 1) / 2);
}
