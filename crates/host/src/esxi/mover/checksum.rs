//! Checksum of the content of a virtual disk.

use anyhow::Result;
use sha2::{Digest, Sha256};
use vmfs::LockMode;

use super::{Progress, tell};
use crate::esxi::datastore::Datastore;

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
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
