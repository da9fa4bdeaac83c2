//! The file system descriptor.

use crate::bytes::{Sector, Uuid, get_text, get_u32, get_u64, put_text, put_u32, put_u64};
use crate::limits::{FILE_BLOCK, LEASE_MS, SUB_BLOCK};
use crate::{Error, Result};

/// Where it lies in the volume.
pub(crate) const OFFSET: u64 = 0x20_0000;

const MAGIC: u32 = 0x2fab_f15e;
const MAJOR: u32 = 14;

#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) uuid: Uuid,
    pub(crate) label: String,
    pub(crate) created: u32,
    pub(crate) lvm: Uuid,
    /// The volume address of the descriptor of the system's data directory; 0 without one.
    pub(crate) system_data: u64,
    /// Formatted where COMPARE AND WRITE works: locks never use reservations.
    pub(crate) ats_only: bool,
    pub(crate) lease_ms: u32,
}

/// Bit of the configuration word that says ATS-only. The word's layout is not public; this bit is
/// ours.
const ATS_ONLY: u32 = 0x1000;

/// The address of the descriptor of the system's data directory.
const SYSTEM_DATA_ADDRESS: u32 = 0x01c0_0004;

impl Descriptor {
    pub(crate) fn emit(&self) -> Sector {
        let mut out = [0; 512];
        put_u32(&mut out, 0x00, MAGIC);
        put_u32(&mut out, 0x04, MAJOR);
        out[0x08] = 61;
        self.uuid.put(&mut out, 0x09);
        // 2: public, which all hosts may mount.
        put_u32(&mut out, 0x19, 2 | if self.ats_only { ATS_ONLY } else { 0 });
        put_text(&mut out, 0x1d, 127, &self.label);
        put_u32(&mut out, 0x9d, 512);
        put_u64(&mut out, 0xa1, FILE_BLOCK);
        put_u32(&mut out, 0xa9, self.created);
        self.lvm.put(&mut out, 0xb1);
        put_u32(&mut out, 0xd1, 0x1_0000);
        put_u32(&mut out, 0xd5, 32);
        put_u32(&mut out, 0xd9, SUB_BLOCK as u32);
        put_u64(&mut out, 0x105, self.system_data);
        put_u32(&mut out, 0x10d, SYSTEM_DATA_ADDRESS);
        put_u32(&mut out, 0x130, 512);
        put_u32(&mut out, 0x134, 512);
        put_u32(&mut out, 0x14c, self.lease_ms);
        put_u32(&mut out, 0x150, self.lease_ms);
        out
    }

    pub(crate) fn parse(bytes: &Sector) -> Result<Self> {
        if get_u32(bytes, 0) != MAGIC {
            return Err(Error::Format("there is no file system descriptor".into()));
        }
        let (major, block) = (get_u32(bytes, 4), get_u64(bytes, 0xa1));
        if major != MAJOR || block != FILE_BLOCK || get_u32(bytes, 0xd9) != SUB_BLOCK as u32 {
            return Err(Error::Format(format!("version {major} with blocks of {block} bytes")));
        }
        let lease_ms = get_u32(bytes, 0x14c);
        Ok(Self {
            uuid: Uuid::get(bytes, 0x09),
            label: get_text(bytes, 0x1d, 128),
            created: get_u32(bytes, 0xa9),
            lvm: Uuid::get(bytes, 0xb1),
            system_data: get_u64(bytes, 0x105),
            ats_only: get_u32(bytes, 0x19) & ATS_ONLY != 0,
            lease_ms: if lease_ms == 0 { LEASE_MS } else { lease_ms },
        })
    }
}
