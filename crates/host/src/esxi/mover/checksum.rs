//! Checksum of the content of a virtual disk.

use anyhow::Result;
use sha2::{Digest, Sha256};
use vmfs::LockMode;

use super::{Progress, tell};
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::Lun;

/// Bytes that are read at once.
const STEP: u64 = 1 << 20;

/// SHA-256 of all bytes that a virtual disk shows, those of its snapshots among them, in
/// hexadecimal. Nothing is taken from a cache: everything is read from the LUN.
///
/// # Errors
/// [`super::Cancelled`]; when another host uses the disk.
pub fn checksum(store: &mut Datastore, path: &str, progress: &mut Progress<'_>) -> Result<String> {
    let mut chain = store.volume.open_chain(path, LockMode::ReadOnly)?;
    let mut digest = Sha256::new();
    let size = chain.size();
    let mut work = || -> Result<()> {
        for offset in (0..size).step_by(STEP as usize) {
            let mut bytes = vec![0; STEP.min(size - offset) as usize];
            store.volume.read_chain(&mut chain, offset, &mut bytes)?;
            digest.update(&bytes);
            store.volume.pulse_if_due()?;
            tell(progress, offset + bytes.len() as u64, size)?;
        }
        Ok(())
    };
    let done = work();
    store.volume.close_chain(chain)?;
    done?;
    Ok(hexadecimal(digest))
}

/// The same of the first bytes of a device.
///
/// # Errors
/// [`super::Cancelled`]; when the device cannot be read.
pub fn checksum_of_device(lun: &mut Lun, size: u64, progress: &mut Progress<'_>) -> Result<String> {
    let mut digest = Sha256::new();
    for offset in (0..size).step_by(STEP as usize) {
        let bytes = lun.read_bytes(offset, STEP.min(size - offset))?;
        digest.update(&bytes);
        tell(progress, offset + bytes.len() as u64, size)?;
    }
    Ok(hexadecimal(digest))
}

fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
