//! Work over a range of a LUN, with several commands outstanding: fill, check, copy, zero, unmap.

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::initiator::cdb;
use crate::initiator::session::{BLOCK_BYTES, Data, Finished, Session};

/// Commands outstanding, as ESXi's data mover has them.
const OUTSTANDING: usize = 8;

/// Bytes of a read or write.
const TRANSFER: u64 = 1 << 20;

/// Bytes of a WRITE SAME: what ESXi sends.
const WRITE_SAME: u64 = 1 << 20;

/// Bytes of an UNMAP.
const UNMAP: u64 = 32 << 20;

/// A part of a LUN, in bytes; multiples of 512.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Summary {
    /// SCSI commands.
    pub commands: u64,
    /// Bytes of the LUN that were worked on.
    pub bytes: u64,
}

/// The content of the block that is `number` blocks from the start of a filled range.
fn pattern_block(seed: u64, number: u64, block: &mut [u8]) {
    let mut state = (number ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for word in block.as_chunks_mut::<8>().0 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(number | 1);
        *word = state.to_le_bytes();
    }
}

/// The bytes that [`fill`] writes `from` bytes behind the start of its range; both are multiples of
/// 512.
pub fn pattern(seed: u64, from: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    for (number, block) in (from / BLOCK_BYTES..).zip(bytes.chunks_mut(BLOCK_BYTES as usize)) {
        pattern_block(seed, number, block);
    }
    bytes
}

/// SHA-256 of a range, in hexadecimal: read in order, one command at a time.
///
/// # Errors
/// A range beyond the LUN's end, or not of whole blocks; a READ that fails.
pub fn hash(session: &mut Session, range: Range) -> Result<String> {
    let end = range.offset.checked_add(range.length).filter(|end| *end <= session.size_bytes);
    let end = end.context("the range ends beyond the LUN")?;
    ensure!(
        range.offset.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES),
        "offset and length are multiples of 512: choose others"
    );
    let mut digest = Sha256::new();
    for at in (range.offset..end).step_by(TRANSFER as usize) {
        let length = TRANSFER.min(end - at);
        let cdb = cdb::read(at / BLOCK_BYTES, (length / BLOCK_BYTES) as u32);
        digest.update(session.command(cdb, Data::In(vec![0; length as usize]))?);
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs one command per step of a range, several at once. `submit` begins the one at an offset
/// from the range's start, under that as its tag; `done` looks at its end.
fn steps(
    session: &mut Session,
    range: Range,
    step: u64,
    mut submit: impl FnMut(&mut Session, u64, u64) -> Result<()>,
    mut done: impl FnMut(Finished) -> Result<()>,
) -> Result<Summary> {
    ensure!(
        range.offset.is_multiple_of(BLOCK_BYTES) && range.length.is_multiple_of(BLOCK_BYTES),
        "offset and length are multiples of 512: choose others"
    );
    ensure!(
        range.offset + range.length <= session.size_bytes,
        "the range ends beyond the LUN's {} bytes",
        session.size_bytes
    );
    let mut next = 0;
    let mut summary = Summary::default();
    while next < range.length || session.in_flight() > 0 {
        while next < range.length && session.in_flight() < OUTSTANDING {
            let length = step.min(range.length - next);
            submit(session, next, length)?;
            next += length;
            summary.commands += 1;
            summary.bytes += length;
        }
        for finished in session.wait()? {
            if finished.is_news() {
                let length = step.min(range.length - finished.tag);
                submit(session, finished.tag, length)?;
                summary.commands += 1;
            } else {
                done(finished)?;
            }
        }
    }
    Ok(summary)
}

fn good(finished: Finished) -> Result<()> {
    Ok(finished.result?)
}

/// Writes a pattern that depends on the seed and on the distance from the start of the range.
pub fn fill(session: &mut Session, range: Range, seed: u64) -> Result<Summary> {
    let submit = |session: &mut Session, at: u64, length: u64| {
        let data = Data::Out(pattern(seed, at, length));
        Ok(session.submit(at, cdb::write(lba(range, at), blocks(length)), data)?)
    };
    steps(session, range, TRANSFER, submit, good)
}

/// What a range should hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// What [`fill`] wrote with that seed.
    Pattern(u64),
    /// Zeros.
    Zeros,
}

/// Reads a range and compares it.
pub fn check(session: &mut Session, range: Range, expected: Expected) -> Result<Summary> {
    let submit = |session: &mut Session, at: u64, length: u64| {
        let data = Data::In(vec![0xee; length as usize]);
        Ok(session.submit(at, cdb::read(lba(range, at), blocks(length)), data)?)
    };
    let done = |finished: Finished| {
        finished.result?;
        let Data::In(bytes) = finished.data else { return Ok(()) };
        let wanted = match expected {
            Expected::Pattern(seed) => pattern(seed, finished.tag, bytes.len() as u64),
            Expected::Zeros => vec![0; bytes.len()],
        };
        if let Some(at) = bytes.iter().zip(&wanted).position(|(is, should)| is != should) {
            bail!(
                "byte {} of the LUN is not what was written",
                range.offset + finished.tag + at as u64
            );
        }
        Ok(())
    };
    steps(session, range, TRANSFER, submit, done)
}

/// Writes zeros, by WRITE SAME or by sending them.
pub fn zero(session: &mut Session, range: Range, offload: bool) -> Result<Summary> {
    let submit = |session: &mut Session, at: u64, length: u64| {
        let (lba, count) = (lba(range, at), blocks(length));
        let (cdb, bytes) = if offload {
            (cdb::write_same(lba, count), BLOCK_BYTES)
        } else {
            (cdb::write(lba, count), length)
        };
        Ok(session.submit(at, cdb, Data::Out(vec![0; bytes as usize]))?)
    };
    steps(session, range, if offload { WRITE_SAME } else { TRANSFER }, submit, good)
}

/// UNMAPs a range.
pub fn unmap(session: &mut Session, range: Range) -> Result<Summary> {
    let submit = |session: &mut Session, at: u64, length: u64| {
        let list = cdb::unmap_list(lba(range, at), blocks(length));
        Ok(session.submit(at, cdb::unmap(list.len() as u16), Data::Out(list))?)
    };
    steps(session, range, UNMAP, submit, good)
}

/// Copies from the start of one LUN by EXTENDED COPY, `transfer` bytes per command.
pub fn copy_offloaded(
    source: &Session,
    destination: &mut Session,
    range: Range,
    transfer: u64,
) -> Result<Summary> {
    let (Some(from), Some(to)) = (source.naa, destination.naa) else {
        bail!("a LUN without NAA identifier cannot take part in EXTENDED COPY");
    };
    ensure!(transfer / BLOCK_BYTES <= 65_535, "a segment has at most 65,535 blocks");
    let submit = |session: &mut Session, at: u64, length: u64| {
        let count = blocks(length) as u16;
        let list = cdb::extended_copy_list(&from, at / BLOCK_BYTES, &to, lba(range, at), count);
        Ok(session.submit(at, cdb::extended_copy(list.len() as u32), Data::Out(list))?)
    };
    steps(destination, range, transfer, submit, good)
}

/// Copies from the start of one LUN by reading and writing.
pub fn copy_by_host(
    source: &mut Session,
    destination: &mut Session,
    range: Range,
) -> Result<Summary> {
    let mut summary = Summary::default();
    let mut at = 0;
    while at < range.length {
        let window = (OUTSTANDING as u64 * TRANSFER).min(range.length - at);
        let mut read = Vec::new();
        let part = Range { offset: at, length: window };
        let submit = |session: &mut Session, at: u64, length: u64| {
            let data = Data::In(vec![0; length as usize]);
            Ok(session.submit(at, cdb::read(lba(part, at), blocks(length)), data)?)
        };
        let done = |finished: Finished| {
            finished.result?;
            read.push((finished.tag, finished.data));
            Ok(())
        };
        summary.commands += steps(source, part, TRANSFER, submit, done)?.commands;
        while !read.is_empty() || destination.in_flight() > 0 {
            for (from, data) in read.drain(..) {
                let (Data::In(bytes) | Data::Out(bytes)) = data else { continue };
                let cdb = cdb::write(lba(range, at + from), blocks(bytes.len() as u64));
                destination.submit(from, cdb, Data::Out(bytes))?;
                summary.commands += 1;
            }
            for finished in destination.wait()? {
                if finished.is_news() {
                    read.push((finished.tag, finished.data))
                } else {
                    finished.result?
                }
            }
        }
        at += window;
        summary.bytes += window;
    }
    Ok(summary)
}

fn lba(range: Range, at: u64) -> u64 {
    (range.offset + at) / BLOCK_BYTES
}

fn blocks(length: u64) -> u32 {
    (length / BLOCK_BYTES) as u32
}
