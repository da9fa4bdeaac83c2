//! Thick-to-thin conversion: the host looks at every block and leaves zeros out.

use anyhow::Result;
use vmfs::Place;
use vmfs::file::File;
use vmfs::limits::FILE_BLOCK;

use super::Report;
use super::decide::Fallback;
use crate::esxi::datastore::Datastore;

/// Copies a run of the source's data, which begins at a byte of the source's disk, to the same
/// place of a thin file, block by block. Blocks of zeros become holes.
pub(super) fn copy(
    stores: &mut [Datastore],
    (from, source_at): (usize, Place),
    (to, file): (usize, &mut File),
    [offset, length]: [u64; 2],
    reason: Fallback,
    report: &mut Report,
) -> Result<()> {
    let copied = report.fallbacks.entry(reason.to_string()).or_default();
    for done in (0..length).step_by(FILE_BLOCK as usize) {
        let taken = FILE_BLOCK.min(length - done);
        let bytes = stores[from].lun(source_at)?.read_bytes(source_at.at + done, taken)?;
        if bytes.iter().all(|byte| *byte == 0) {
            report.skipped_bytes += taken;
            continue;
        }
        stores[to].volume.write_at(file, offset + done, &bytes)?;
        report.host_bytes += taken;
        *copied += taken;
    }
    Ok(())
}
