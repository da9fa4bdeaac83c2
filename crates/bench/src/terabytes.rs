//! Memory with terabytes mapped. Clones of one gibibyte fill volumes of up to 64 TiB, so that each
//! mebibyte has an entry of its own in one of up to 262,144 different pages; the leaves that clones
//! share become different where they are written to.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::Result;
use block::{BLOCK, ByteRange, DeviceOperation, DeviceResult, Request};
use store::{Change, Options};

use crate::pool::{Devices, Pool, copy, data, scattered, write};
use crate::report::{Goal, Report};

const POOL: u64 = 96 << 40;
const MEMORY: u64 = 256 << 20;
const FOREVER: Duration = Duration::from_secs(3600);

/// Blocks in a file without a name, in the order in which they came.
pub(crate) struct Spool {
    file: File,
    places: HashMap<(u8, u64), u64>,
    next: u64,
    done: Vec<(u64, DeviceResult)>,
}

impl Spool {
    pub(crate) fn new() -> Result<Self> {
        let file = tempfile::tempfile_in(".")?;
        Ok(Self { file, places: HashMap::new(), next: 0, done: Vec::new() })
    }

    fn serve(&mut self, device: u8, operation: DeviceOperation) -> DeviceResult {
        let failed =
            |error: std::io::Error| block::DeviceError::Os(error.raw_os_error().unwrap_or(5));
        match operation {
            DeviceOperation::Read { offset, mut buffer } => {
                for (number, part) in (offset / BLOCK..).zip(buffer.chunks_mut(BLOCK as usize)) {
                    match self.places.get(&(device, number)) {
                        Some(place) => {
                            self.file.read_exact_at(part, place * BLOCK).map_err(failed)?
                        }
                        None => part.fill(0),
                    }
                }
                return Ok(Some(buffer));
            }
            DeviceOperation::Write { offset, data } => {
                for (number, part) in (offset / BLOCK..).zip(data.to_vec().chunks(BLOCK as usize)) {
                    let place = *self.places.entry((device, number)).or_insert_with(|| {
                        self.next += 1;
                        self.next
                    });
                    self.file.write_all_at(part, place * BLOCK).map_err(failed)?;
                }
            }
            DeviceOperation::Flush | DeviceOperation::Reserve { .. } => {}
        }
        Ok(None)
    }
}

impl Devices for Spool {
    fn submit(&mut self, device: u8, id: u64, operation: DeviceOperation) {
        let result = self.serve(device, operation);
        self.done.push((id, result));
    }

    fn reap(&mut self, _: bool, done: &mut Vec<(u64, DeviceResult)>) {
        done.append(&mut self.done);
    }
}

/// Bytes of memory that this process has to itself.
fn resident() -> Result<u64> {
    let mut text = String::new();
    File::open("/proc/self/statm")?.read_to_string(&mut text)?;
    let mut pages = text.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
    Ok((pages.nth(1).unwrap_or(0) - pages.next().unwrap_or(0)) * 4096)
}

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let options = Options { memory_bytes: MEMORY, ..Options::default() };
    let mut pool = Pool::format(Spool::new()?, &[POOL], options);
    let a = pool.create(1, 1 << 30);
    let b = pool.create(2, 64 << 40);
    let mebibyte = data(1 << 20);
    pool.run(8, 1 << 10, FOREVER, |number| (a, write(number << 20, &mebibyte)));
    let mut mapped = 0;
    for tebibytes in [1, 16, 64_u64] {
        let slice = 32 << 20;
        let count = ((tebibytes << 40) - mapped) / slice;
        pool.run(8, count, FOREVER, |number| {
            let at = mapped + number * slice;
            (b, copy(a, at % (1 << 30), at, slice))
        });
        mapped = tebibytes << 40;
        measure_access(report, &mut pool, tebibytes)?;
    }
    Ok(())
}

fn measure_access(report: &mut Report, pool: &mut Pool<Spool>, tebibytes: u64) -> Result<()> {
    let (b, block) = (block::VolumeId(2), data(BLOCK as usize));
    let blocks = (tebibytes << 40) / BLOCK;
    pool.run(32, 40_000, FOREVER, |number| {
        let offset = scattered(number, blocks) * BLOCK;
        match number % 4 {
            0 => (b, write(offset, &block)),
            _ => (b, Request::Read { range: ByteRange::new(offset, BLOCK) }),
        }
    });
    pool.change(Change::Checkpoint);
    // The places of blocks in the spool are this program's, not the engine's.
    let places = pool.devices.places.capacity() as u64 * 26;
    let bytes = resident()?.saturating_sub(places);
    let what = format!("memory with {tebibytes} TiB mapped, budget 256 MiB");
    report.add(what, bytes as f64 / f64::from(1 << 20), "MiB", Goal::AtMost(512.0));
    let statistics = pool.store.statistics();
    let what = format!("… of which the engine counts, with {tebibytes} TiB mapped");
    let pages = statistics.pages_clean + statistics.pages_dirty;
    let counted = pages * 4192 + statistics.groups_loaded * 16_384;
    report.add(what, counted as f64 / f64::from(1 << 20), "MiB", Goal::AtMost(256.0));
    Ok(())
}
