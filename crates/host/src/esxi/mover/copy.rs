//! Copying ranges between LUNs, or within one.

use std::collections::BTreeMap;

use anyhow::Result;
use vmfs::Place;

use super::Report;
use super::decide::Fallback;
use crate::esxi::counters::Kind;
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::{Job, Lun};
use crate::esxi::settings::CopyShape;
use crate::esxi::vaai::Status;
use crate::initiator::cdb;
use crate::initiator::session::Data;

/// Bytes of a READ or WRITE of the host's own data mover.
const TRANSFER: u64 = 1 << 20;

/// A run of bytes to copy: from and to which byte of the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte on the source's disks.
    pub from: Place,
    /// First byte on the destination's disks.
    pub to: Place,
    /// Bytes.
    pub length: u64,
}

/// Where a copy goes.
pub(crate) enum Destination<'a> {
    /// To a datastore of this number, which may be the source's.
    Store(usize),
    /// To a device without a datastore.
    Device(&'a mut Lun),
}

/// The datastores that a copy is between, or the datastore and the device.
pub(crate) struct Between<'a> {
    pub(crate) stores: &'a mut [Datastore],
    pub(crate) from: usize,
    pub(crate) to: Destination<'a>,
}

impl Between<'_> {
    fn source(&mut self, place: Place) -> Result<&mut Lun> {
        self.stores[self.from].lun(place)
    }

    fn destination(&mut self, place: Place) -> Result<&mut Lun> {
        match &mut self.to {
            Destination::Store(number) => self.stores[*number].lun(place),
            Destination::Device(lun) => Ok(&mut **lun),
        }
    }

    /// Copies: by the array, unless there is a reason not to.
    pub(crate) fn copy(
        &mut self,
        pieces: &[Piece],
        reason: Option<Fallback>,
        report: &mut Report,
    ) -> Result<()> {
        // A command is about one pair of LUNs.
        let mut pairs: BTreeMap<(usize, usize), Vec<Piece>> = BTreeMap::new();
        for piece in pieces {
            pairs.entry((piece.from.disk, piece.to.disk)).or_default().push(*piece);
        }
        for pieces in pairs.into_values() {
            let (left, reason) = match reason {
                Some(reason) => (pieces, reason),
                None => self.offload(&pieces, report)?,
            };
            for piece in left {
                self.by_host(piece)?;
                report.host_bytes += piece.length;
                *report.fallbacks.entry(reason.to_string()).or_default() += piece.length;
            }
        }
        Ok(())
    }

    /// Lets the array copy pieces between two LUNs; returns what it did not, and why.
    fn offload(&mut self, pieces: &[Piece], report: &mut Report) -> Result<(Vec<Piece>, Fallback)> {
        let Some(first) = pieces.first() else { return Ok((Vec::new(), Fallback::Failed)) };
        let source = self.source(first.from)?.identity.naa;
        let lun = self.destination(first.to)?;
        let (Some(source), Some(destination)) = (source, lun.identity.naa) else {
            return Ok((pieces.to_vec(), Fallback::NotIdentified));
        };
        let commands = shape(pieces, lun.settings.copy_shape(lun.identity.copy));
        let (mut next, mut failed, mut copied) = (0, Vec::new(), (0, 0));
        let outstanding = lun.settings.outstanding as usize;
        while next < commands.len() || lun.in_flight() > 0 {
            while next < commands.len() && lun.in_flight() < outstanding {
                if lun.vaai.clone == Status::Unsupported {
                    failed.extend(commands[next..].iter().flatten().copied());
                    next = commands.len();
                    break;
                }
                lun.submit(job(next as u64, &source, &destination, &commands[next]))?;
                next += 1;
            }
            for done in lun.wait()? {
                let command = &commands[done.tag as usize];
                if done.result.is_ok() {
                    copied = (copied.0 + 1, copied.1 + bytes(command));
                } else {
                    report.failed_commands += 1;
                    failed.extend(command.iter().copied());
                }
            }
        }
        report.offloaded_commands += copied.0;
        report.offloaded_bytes += copied.1;
        let unsupported = lun.vaai.clone == Status::Unsupported;
        let counters = &mut self.source(first.from)?.counters;
        counters.clone_rd += copied.0;
        counters.clone_rd_bytes += copied.1;
        Ok((failed, if unsupported { Fallback::Unsupported } else { Fallback::Failed }))
    }

    /// Reads and writes, several commands at once.
    fn by_host(&mut self, piece: Piece) -> Result<()> {
        let mut done = 0;
        while done < piece.length {
            let source = self.source(piece.from)?;
            let window = (source.settings.outstanding * TRANSFER).min(piece.length - done);
            let read = read_window(source, piece.from.at + done, window)?;
            let destination = self.destination(piece.to)?;
            for (at, bytes) in read {
                let length = bytes.len() as u64;
                destination.submit(Job {
                    tag: 0,
                    kind: Kind::Write,
                    cdb: cdb::write((piece.to.at + done + at) / 512, (length / 512) as u32),
                    data: Data::Out(bytes),
                    bytes: length,
                })?;
            }
            while destination.in_flight() > 0 {
                destination.wait()?.into_iter().try_for_each(|done| done.result)?;
            }
            done += window;
        }
        Ok(())
    }
}

fn read_window(source: &mut Lun, from: u64, length: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut read = Vec::new();
    for at in (0..length).step_by(TRANSFER as usize) {
        let taken = TRANSFER.min(length - at);
        source.submit(Job {
            tag: at,
            kind: Kind::Read,
            cdb: cdb::read((from + at) / 512, (taken / 512) as u32),
            data: Data::In(vec![0; taken as usize]),
            bytes: taken,
        })?;
    }
    while source.in_flight() > 0 {
        for done in source.wait()? {
            done.result?;
            if let Data::In(bytes) = done.data {
                read.push((done.tag, bytes));
            }
        }
    }
    Ok(read)
}

fn bytes(command: &[Piece]) -> u64 {
    command.iter().map(|piece| piece.length).sum()
}

fn job(tag: u64, source: &[u8; 16], destination: &[u8; 16], command: &[Piece]) -> Job {
    let segment =
        |piece: &Piece| (piece.from.at / 512, piece.to.at / 512, (piece.length / 512) as u16);
    let segments: Vec<cdb::Segment> = command.iter().map(segment).collect();
    let list = cdb::extended_copy_segments(source, destination, &segments);
    Job {
        tag,
        kind: Kind::Clone,
        cdb: cdb::extended_copy(list.len() as u32),
        data: Data::Out(list),
        bytes: bytes(command),
    }
}

/// Cuts pieces into commands.
fn shape(pieces: &[Piece], shape: CopyShape) -> Vec<Vec<Piece>> {
    let mut commands: Vec<Vec<Piece>> = Vec::new();
    let mut room = (0, 0);
    for piece in pieces {
        let mut done = 0;
        while done < piece.length {
            if room.0 == 0 || room.1 == 0 {
                commands.push(Vec::new());
                room = (shape.segments, shape.command_bytes);
            }
            let length = shape.segment_bytes.min(room.1).min(piece.length - done);
            let segment = Piece { from: piece.from.plus(done), to: piece.to.plus(done), length };
            commands.last_mut().expect("one was pushed").push(segment);
            room = (room.0 - 1, room.1 - length);
            done += length;
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn cut(length: u64, segment_bytes: u64, segments: u64, command_bytes: u64) -> Vec<Vec<u64>> {
        let place = |at| Place { disk: 0, at };
        let piece = Piece { from: place(0), to: place(8 * MIB), length };
        let commands = shape(&[piece], CopyShape { segment_bytes, segments, command_bytes });
        let lengths = |command: &Vec<Piece>| command.iter().map(|piece| piece.length).collect();
        commands.iter().map(lengths).collect()
    }

    #[test]
    fn commands_have_one_segment_of_the_documented_size() {
        assert_eq!(cut(10 * MIB, 4 * MIB, 1, 4 * MIB), [[4 * MIB], [4 * MIB], [2 * MIB]]);
        assert_eq!(cut(0, 4 * MIB, 1, 4 * MIB), Vec::<Vec<u64>>::new());
    }

    #[test]
    fn several_segments_stay_within_the_command() {
        let cuts = cut(10 * MIB, 4 * MIB, 3, 6 * MIB);
        assert_eq!(cuts, [vec![4 * MIB, 2 * MIB], vec![4 * MIB]]);
        let largest = 65_535 * 512;
        let commands = cut(240 * MIB, largest, 64, 240 * MIB);
        assert_eq!((commands.len(), commands[0].len()), (1, 8));
    }
}
