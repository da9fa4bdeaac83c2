//! Minimal iSCSI client for benchmarks: 4 KiB READ and WRITE with next to no cost of its own, so
//! that the array is what is measured. It speaks just enough of RFC 7143 for that and checks every
//! status; everything else is libiscsi's.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::initiator::raw::BlockFigures;

const BHS: usize = 48;
const BYTES: u32 = 4096;
const BLOCKS: u32 = BYTES / 512;

const COMMAND: u8 = 0x01;
const RESPONSE: u8 = 0x21;
const DATA_IN: u8 = 0x25;
const LOGIN: u8 = 0x43;

/// What each command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// READ (10).
    Read,
    /// WRITE (10).
    Write,
}

/// Where a LUN is.
struct Place {
    portal: String,
    target: String,
    lun: u16,
}

impl Place {
    fn parse(url: &str) -> Option<Self> {
        let mut parts = url.strip_prefix("iscsi://")?.split('/');
        let (portal, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        Some(Self { portal, target, lun: parts.next()?.parse().ok()? })
    }
}

/// One session.
struct Session {
    socket: TcpStream,
    lun: u16,
    command_sequence: u32,
    status_sequence: u32,
    /// Bytes that arrived and were not understood yet.
    arrived: Vec<u8>,
    /// Bytes of data that are still to be passed over.
    skip: usize,
}

impl Session {
    fn connect(place: &Place, number: u8) -> Result<Self> {
        let mut socket = TcpStream::connect(&place.portal)?;
        socket.set_nodelay(true)?;
        let keys = format!(
            "InitiatorName=iqn.2026-11.io.gantry.host:lean-{number}\0TargetName={}\0\
             SessionType=Normal\0HeaderDigest=None\0DataDigest=None\0InitialR2T=No\0\
             ImmediateData=Yes\0MaxRecvDataSegmentLength=262144\0",
            place.target
        );
        let mut pdu = vec![0; BHS];
        pdu[0] = LOGIN;
        pdu[1] = 0x87;
        pdu[5..8].copy_from_slice(&(keys.len() as u32).to_be_bytes()[1..]);
        pdu[8..14].copy_from_slice(&[0x80, 0, 0, 0x1e, 0xa0, number]);
        pdu.extend_from_slice(keys.as_bytes());
        pdu.resize(pdu.len().next_multiple_of(4), 0);
        socket.write_all(&pdu)?;
        let mut answer = [0; BHS];
        socket.read_exact(&mut answer)?;
        ensure!(answer[36] == 0, "login refused with status {:02x}{:02x}", answer[36], answer[37]);
        ensure!(
            answer[1] & 0x83 == 0x83,
            "the target wants to negotiate more than this client can"
        );
        let mut text = vec![0; data_length(&answer).next_multiple_of(4)];
        socket.read_exact(&mut text)?;
        let status_sequence = u32_at(&answer, 24) + 1;
        let (lun, arrived) = (place.lun, Vec::new());
        Ok(Self { socket, lun, command_sequence: 0, status_sequence, arrived, skip: 0 })
    }

    /// Appends a command PDU.
    fn emit(&mut self, direction: Direction, lba: u32, pdus: &mut Vec<u8>) {
        let start = pdus.len();
        pdus.resize(start + BHS, 0);
        let pdu = &mut pdus[start..];
        let (flags, opcode) = match direction {
            Direction::Read => (0xc1, 0x28),
            Direction::Write => (0xa1, 0x2a),
        };
        pdu[0] = COMMAND;
        pdu[1] = flags;
        pdu[8..10].copy_from_slice(&self.lun.to_be_bytes());
        pdu[16..20].copy_from_slice(&self.command_sequence.to_be_bytes());
        pdu[20..24].copy_from_slice(&BYTES.to_be_bytes());
        pdu[24..28].copy_from_slice(&self.command_sequence.to_be_bytes());
        pdu[28..32].copy_from_slice(&self.status_sequence.to_be_bytes());
        pdu[32] = opcode;
        pdu[34..38].copy_from_slice(&lba.to_be_bytes());
        pdu[39..41].copy_from_slice(&(BLOCKS as u16).to_be_bytes());
        self.command_sequence = self.command_sequence.wrapping_add(1);
        if direction == Direction::Write {
            pdu[5..8].copy_from_slice(&BYTES.to_be_bytes()[1..]);
            let filler = self.command_sequence as u8 | 1;
            pdus.resize(start + BHS + BYTES as usize, filler);
        }
    }

    /// Reads what has arrived; returns the commands that ended, and with which statuses.
    fn receive(&mut self, buffer: &mut [u8], ended: &mut Vec<u8>) -> Result<()> {
        let count = self.socket.read(buffer)?;
        ensure!(count > 0, "the array closed the connection");
        let mut bytes = &buffer[..count];
        while !bytes.is_empty() {
            let passed = self.skip.min(bytes.len());
            self.skip -= passed;
            bytes = &bytes[passed..];
            let wanted = BHS - self.arrived.len();
            let taken = wanted.min(bytes.len());
            if self.skip > 0 || taken == 0 {
                continue;
            }
            self.arrived.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let Some(header) = self.arrived.first_chunk::<BHS>().copied() {
                self.arrived.clear();
                self.skip = data_length(&header).next_multiple_of(4);
                self.take(&header, ended)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, header: &[u8; BHS], ended: &mut Vec<u8>) -> Result<()> {
        let has_status = header[0] == RESPONSE || (header[0] == DATA_IN && header[1] & 1 == 1);
        if has_status {
            self.status_sequence = u32_at(header, 24).wrapping_add(1);
            ended.push(header[3]);
        } else if header[0] != DATA_IN {
            bail!("an unexpected PDU of opcode {:02x}h", header[0]);
        }
        Ok(())
    }
}

fn data_length(header: &[u8; BHS]) -> usize {
    (u32_at(header, 4) & 0xff_ffff) as usize
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads or writes random blocks of the first `span` bytes of a LUN.
pub fn run(
    url: &str,
    direction: Direction,
    sessions: usize,
    depth: usize,
    span: u64,
    duration: Duration,
) -> Result<BlockFigures> {
    let place = Place::parse(url).context("write iscsi://HOST:PORT/TARGET-NAME/LUN")?;
    ensure!(sessions > 0 && sessions < 256 && depth >= sessions, "each session needs a command");
    ensure!(span >= u64::from(BYTES), "the span is smaller than one command");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random_lba = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % (span / u64::from(BYTES))) as u32 * BLOCKS
    };
    let mut open = Vec::new();
    for number in 0..sessions {
        let mut session = Session::connect(&place, number as u8)?;
        greet(&mut session)?;
        open.push(session);
    }
    let started = Instant::now();
    let (mut buffer, mut pdus) = (vec![0; 256 << 10], Vec::new());
    for session in &mut open {
        (0..depth / sessions).for_each(|_| session.emit(direction, random_lba(), &mut pdus));
        session.socket.write_all(&pdus)?;
        pdus.clear();
    }
    let mut operations = 0;
    let mut ended = Vec::new();
    while started.elapsed() < duration {
        for session in &mut open {
            session.receive(&mut buffer, &mut ended)?;
            for status in ended.drain(..) {
                ensure!(status == 0, "a command ended with status {status:02x}h");
                operations += 1;
                session.emit(direction, random_lba(), &mut pdus);
            }
            session.socket.write_all(&pdus)?;
            pdus.clear();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(BlockFigures { operations, seconds, per_second: operations as f64 / seconds })
}

/// The first command of a nexus ends with a unit attention; it is of no interest.
fn greet(session: &mut Session) -> Result<()> {
    let (mut pdus, mut ended, mut buffer) = (Vec::new(), Vec::new(), vec![0; 64 << 10]);
    session.emit(Direction::Read, 0, &mut pdus);
    session.socket.write_all(&pdus)?;
    while ended.is_empty() || session.skip > 0 {
        session.receive(&mut buffer, &mut ended)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_portal_target_and_lun() {
        let place = Place::parse("iscsi://127.0.0.1:3260/iqn.a:b/7").unwrap();
        assert_eq!(
            (&place.portal[..], &place.target[..], place.lun),
            ("127.0.0.1:3260", "iqn.a:b", 7)
        );
        for url in ["", "iscsi://", "iscsi://a/b", "iscsi://a/b/c", "http://a/b/1"] {
            assert!(Place::parse(url).is_none(), "{url}");
        }
    }
}
