//! One session of the benchmark client: login with the keys a Linux initiator offers, command PDUs,
//! solicited data, digests (RFC 7143). Every status and every digest is checked.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::work::{Order, Payload};
use crate::initiator::times::times;

const BHS: usize = 48;
const DIGEST: usize = 4;

const NOP_OUT: u8 = 0x40;
const COMMAND: u8 = 0x01;
const LOGIN: u8 = 0x43;
const DATA_OUT: u8 = 0x05;
const NOP_IN: u8 = 0x20;
const RESPONSE: u8 = 0x21;
const DATA_IN: u8 = 0x25;
const READY_TO_TRANSFER: u8 = 0x31;

const FINAL: u8 = 0x80;
const NO_TAG: u32 = u32::MAX;

/// Of a response's data segment, so much is kept to explain a failure.
const SENSE_KEPT: usize = 34;

/// What open-iscsi offers by default.
const FIRST_BURST: usize = 262_144;
const MAX_BURST: usize = 16_776_192;
const RECEIVE_SEGMENT: usize = 262_144;

/// Where a LUN is.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) portal: String,
    pub(super) target: String,
    pub(super) lun: u16,
}

impl Place {
    /// From iscsi://HOST:PORT/TARGET-NAME/LUN.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let mut parts = url.strip_prefix("iscsi://")?.split('/');
        let (portal, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        Some(Self { portal, target, lun: parts.next()?.parse().ok()? })
    }
}

/// What login agreed on.
#[derive(Debug)]
struct Agreed {
    first_burst: usize,
    /// The longest data segment that the target takes.
    send_segment: usize,
    immediate_data: bool,
    digests: bool,
}

/// A command that is outstanding.
#[derive(Debug)]
struct Outstanding {
    order: Order,
    since: Instant,
}

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With GOOD, after so many microseconds.
    Good(u64),
    /// With a unit attention: the array has news, and did nothing.
    UnitAttention,
}

/// How much one read from the socket brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// There was nothing.
    Nothing,
    /// Less than there was room for.
    AllThereWas,
    /// As much as there was room for: there may be more.
    FullBuffer,
}

/// What is being received.
#[derive(Debug, Default)]
struct Incoming {
    /// Header, with its digest.
    header: Vec<u8>,
    /// Bytes of padded data that are to come.
    data: usize,
    /// CRC32C of the data so far.
    sum: u32,
    /// Bytes of the data's digest that are to come, and those that came.
    digest: usize,
    digest_bytes: Vec<u8>,
    kept: Vec<u8>,
}

/// One session of one connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) socket: TcpStream,
    /// Commands that are sent even after the time is over: the first queue, and those that a unit
    /// attention kept from being done.
    pub(super) owed: usize,
    /// Unit attentions since a command was done.
    pub(super) news: usize,
    lun: u16,
    agreed: Agreed,
    command_sequence: u32,
    max_command_sequence: u32,
    status_sequence: u32,
    /// By initiator task tag.
    outstanding: Vec<Option<Outstanding>>,
    incoming: Incoming,
    unsent: Vec<u8>,
    /// What WRITE commands write, shared by all.
    filler: Vec<u8>,
}

impl Session {
    /// Logs in; `number` tells sessions of one run apart.
    pub(super) fn connect(place: &Place, number: u16, digests: bool) -> Result<Self> {
        let mut socket = TcpStream::connect(&place.portal)
            .with_context(|| format!("cannot connect to {}", place.portal))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(times().command))?;
        socket.set_write_timeout(Some(times().command))?;
        let (agreed, answer) = login(&mut socket, place, number, digests)?;
        Ok(Self {
            socket,
            owed: 0,
            news: 0,
            lun: place.lun,
            agreed,
            command_sequence: u32_at(&answer, 28),
            max_command_sequence: u32_at(&answer, 32),
            status_sequence: u32_at(&answer, 24).wrapping_add(1),
            outstanding: Vec::new(),
            incoming: Incoming::default(),
            unsent: Vec::new(),
            filler: filler(),
        })
    }

    /// Commands that are outstanding.
    pub(super) fn in_flight(&self) -> usize {
        self.outstanding.iter().flatten().count()
    }

    /// Whether the array's command window takes one more (RFC 7143, 4.2.2.1).
    pub(super) fn has_window(&self) -> bool {
        self.max_command_sequence.wrapping_sub(self.command_sequence) as i32 >= 0
    }

    /// Appends a command to what is to be sent.
    pub(super) fn submit(&mut self, order: Order) {
        let tag = self.outstanding.iter().position(Option::is_none);
        let tag = tag.unwrap_or_else(|| {
            self.outstanding.push(None);
            self.outstanding.len() - 1
        });
        let mut pdu = [0; BHS];
        pdu[0] = COMMAND;
        pdu[1] = FINAL | order.flags() | 1;
        pdu[8..10].copy_from_slice(&self.lun.to_be_bytes());
        pdu[16..20].copy_from_slice(&(tag as u32).to_be_bytes());
        pdu[20..24].copy_from_slice(&(order.transfer_length() as u32).to_be_bytes());
        pdu[24..28].copy_from_slice(&self.command_sequence.to_be_bytes());
        pdu[28..32].copy_from_slice(&self.status_sequence.to_be_bytes());
        pdu[32..48].copy_from_slice(&order.cdb);
        self.command_sequence = self.command_sequence.wrapping_add(1);
        let immediate = if self.agreed.immediate_data {
            let limit = self.agreed.first_burst.min(self.agreed.send_segment);
            order.data_out_length().min(limit)
        } else {
            0
        };
        self.append(pdu, &order.payload, 0..immediate);
        self.outstanding[tag] = Some(Outstanding { order, since: Instant::now() });
    }

    /// Appends a PDU with a part of a command's data.
    fn append(&mut self, mut pdu: [u8; BHS], payload: &Payload, part: Range<usize>) {
        pdu[5..8].copy_from_slice(&(part.len() as u32).to_be_bytes()[1..]);
        self.unsent.extend_from_slice(&pdu);
        if self.agreed.digests {
            self.unsent.extend_from_slice(&crc32c::crc32c(&pdu).to_le_bytes());
        }
        if part.is_empty() {
            return;
        }
        let start = self.unsent.len();
        let data = match payload {
            Payload::Filler { .. } => &self.filler[part],
            Payload::List(list) => &list[part],
            Payload::None | Payload::In { .. } => &[],
        };
        self.unsent.extend_from_slice(data);
        self.unsent.resize(start + (self.unsent.len() - start).next_multiple_of(4), 0);
        if self.agreed.digests {
            let sum = crc32c::crc32c(&self.unsent[start..]);
            self.unsent.extend_from_slice(&sum.to_le_bytes());
        }
    }

    /// Sends what waits, as far as the socket takes it.
    pub(super) fn send(&mut self) -> Result<()> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.socket.write(&self.unsent[sent..]) {
                Ok(0) => bail!("the array closed the connection"),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Reads once. A socket that blocks has nothing only if the array was silent for as long as a
    /// command may take.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        ended: &mut Vec<Ended>,
    ) -> Result<Received> {
        let count = match self.socket.read(buffer) {
            Ok(0) => bail!("the array closed the connection"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Nothing);
            }
            Err(error) => return Err(error.into()),
        };
        let mut bytes = &buffer[..count];
        while !bytes.is_empty() {
            let taken = self.incoming.take(bytes, self.header_length(), self.agreed.digests);
            bytes = &bytes[taken..];
            if self.incoming.header.len() == self.header_length() && self.incoming.is_whole() {
                self.finish_pdu(ended)?;
            }
        }
        Ok(if count == buffer.len() { Received::FullBuffer } else { Received::AllThereWas })
    }

    fn header_length(&self) -> usize {
        if self.agreed.digests { BHS + DIGEST } else { BHS }
    }

    fn finish_pdu(&mut self, ended: &mut Vec<Ended>) -> Result<()> {
        let incoming = std::mem::take(&mut self.incoming);
        let (header, digest) = incoming.header.split_at(BHS);
        if self.agreed.digests {
            ensure!(crc32c::crc32c(header).to_le_bytes() == digest, "a header digest is wrong");
            let found = &incoming.digest_bytes[..];
            ensure!(
                found.is_empty() || found == incoming.sum.to_le_bytes(),
                "a data digest is wrong"
            );
        }
        let tag = u32_at(header, 16);
        match header[0] {
            DATA_IN if header[1] & 1 == 1 => self.end(tag, header, &incoming.kept, ended),
            DATA_IN => Ok(()),
            RESPONSE => self.end(tag, header, &incoming.kept, ended),
            READY_TO_TRANSFER => self.answer_ready_to_transfer(tag, header),
            NOP_IN => {
                self.answer_nop_in(header);
                Ok(())
            }
            opcode => bail!("an unexpected PDU of opcode {opcode:02x}h"),
        }
    }

    fn end(&mut self, tag: u32, header: &[u8], sense: &[u8], ended: &mut Vec<Ended>) -> Result<()> {
        self.status_sequence = u32_at(header, 24).wrapping_add(1);
        self.max_command_sequence = u32_at(header, 32);
        let slot = self.outstanding.get_mut(tag as usize).and_then(Option::take);
        let command = slot.context("an answer to a command that is not outstanding")?;
        match (header[3], sense_key(sense)) {
            // NO SENSE and RECOVERED ERROR: the command was completed, and the LUN had something
            // to tell, for example that the array's space runs low (38h/07h).
            (0, _) | (2, Some(0 | 1)) => {
                ended.push(Ended::Good(command.since.elapsed().as_micros() as u64))
            }
            (2, Some(6)) => ended.push(Ended::UnitAttention),
            (status, _) => bail!(
                "a command {:02x}h ended with status {status:02x}h, sense data {sense:02x?}",
                command.order.cdb[0]
            ),
        }
        Ok(())
    }

    fn answer_ready_to_transfer(&mut self, tag: u32, header: &[u8]) -> Result<()> {
        let slot = self.outstanding.get_mut(tag as usize).and_then(Option::take);
        let command = slot.context("R2T for a command that is not outstanding")?;
        let (offset, length) = (u32_at(header, 40) as usize, u32_at(header, 44) as usize);
        let end = offset + length;
        ensure!(length > 0 && end <= command.order.data_out_length(), "R2T beyond the data");
        let mut at = offset;
        let mut number: u32 = 0;
        while at < end {
            let next = end.min(at + self.agreed.send_segment);
            let mut pdu = [0; BHS];
            pdu[0] = DATA_OUT;
            pdu[1] = if next == end { FINAL } else { 0 };
            pdu[8..10].copy_from_slice(&self.lun.to_be_bytes());
            pdu[16..20].copy_from_slice(&tag.to_be_bytes());
            pdu[20..24].copy_from_slice(&header[20..24]);
            pdu[28..32].copy_from_slice(&self.status_sequence.to_be_bytes());
            pdu[36..40].copy_from_slice(&number.to_be_bytes());
            pdu[40..44].copy_from_slice(&(at as u32).to_be_bytes());
            self.append(pdu, &command.order.payload, at..next);
            (at, number) = (next, number + 1);
        }
        self.outstanding[tag as usize] = Some(command);
        Ok(())
    }

    fn answer_nop_in(&mut self, header: &[u8]) {
        if u32_at(header, 20) == NO_TAG {
            return;
        }
        let mut pdu = [0; BHS];
        pdu[0] = NOP_OUT;
        pdu[1] = FINAL;
        pdu[8..16].copy_from_slice(&header[8..16]);
        pdu[16..20].copy_from_slice(&NO_TAG.to_be_bytes());
        pdu[20..24].copy_from_slice(&header[20..24]);
        pdu[24..28].copy_from_slice(&self.command_sequence.to_be_bytes());
        pdu[28..32].copy_from_slice(&self.status_sequence.to_be_bytes());
        self.append(pdu, &Payload::None, 0..0);
    }
}

impl Incoming {
    /// Takes bytes of the header, of the data, then of the data's digest; returns how many.
    fn take(&mut self, bytes: &[u8], header_length: usize, digests: bool) -> usize {
        if self.header.len() < header_length {
            let taken = (header_length - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..taken]);
            if self.header.len() == header_length {
                self.data = data_length(&self.header).next_multiple_of(4);
                self.digest = if digests && self.data > 0 { DIGEST } else { 0 };
            }
            return taken;
        }
        if self.data > 0 {
            let taken = self.data.min(bytes.len());
            if digests {
                self.sum = crc32c::crc32c_append(self.sum, &bytes[..taken]);
            }
            if self.header[0] == RESPONSE {
                let room = SENSE_KEPT.saturating_sub(self.kept.len());
                self.kept.extend_from_slice(&bytes[..taken.min(room)]);
            }
            self.data -= taken;
            return taken;
        }
        let taken = self.digest.min(bytes.len());
        self.digest_bytes.extend_from_slice(&bytes[..taken]);
        self.digest -= taken;
        taken
    }

    fn is_whole(&self) -> bool {
        self.data == 0 && self.digest == 0
    }
}

/// Logs in with one request; returns what was agreed, and the header of the answer.
fn login(
    socket: &mut TcpStream,
    place: &Place,
    number: u16,
    digests: bool,
) -> Result<(Agreed, [u8; BHS])> {
    let digest = if digests { "CRC32C" } else { "None" };
    let keys = format!(
        "InitiatorName=iqn.2026-11.io.gantry.host:lean-{number}\0TargetName={}\0\
         SessionType=Normal\0HeaderDigest={digest}\0DataDigest={digest}\0InitialR2T=No\0\
         ImmediateData=Yes\0FirstBurstLength={FIRST_BURST}\0MaxBurstLength={MAX_BURST}\0\
         MaxRecvDataSegmentLength={RECEIVE_SEGMENT}\0",
        place.target
    );
    let mut pdu = vec![0; BHS];
    pdu[0] = LOGIN;
    pdu[1] = 0x87;
    pdu[5..8].copy_from_slice(&(keys.len() as u32).to_be_bytes()[1..]);
    pdu[8..12].copy_from_slice(&[0x80, 0, 0, 0x1e]);
    pdu[12..14].copy_from_slice(&number.to_be_bytes());
    pdu.extend_from_slice(keys.as_bytes());
    pdu.resize(pdu.len().next_multiple_of(4), 0);
    socket.write_all(&pdu)?;
    let mut answer = [0; BHS];
    socket.read_exact(&mut answer).context("the array does not answer the login")?;
    ensure!(answer[36] == 0, "login refused with status {:02x}{:02x}", answer[36], answer[37]);
    ensure!(answer[1] & 0x83 == 0x83, "the target wants to negotiate more than this client can");
    let mut text = vec![0; data_length(&answer).next_multiple_of(4)];
    socket.read_exact(&mut text).context("the array does not answer the login")?;
    let agreed = Agreed::read(&String::from_utf8_lossy(&text))?;
    ensure!(agreed.digests == digests, "the target does not agree to digests {digest}");
    Ok((agreed, answer))
}

impl Agreed {
    /// From the keys of a target's answer; a key that is missing has the default of RFC 7143, 13.
    fn read(text: &str) -> Result<Self> {
        let value = |name: &str| {
            let mut pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(key, value)| (key == name).then_some(value))
        };
        let number = |name: &str, default: usize| match value(name) {
            Some(value) => value.parse().with_context(|| format!("{name}={value}")),
            None => Ok(default),
        };
        Ok(Self {
            first_burst: number("FirstBurstLength", FIRST_BURST)?.min(FIRST_BURST),
            send_segment: number("MaxRecvDataSegmentLength", 8192)?.max(512),
            immediate_data: value("ImmediateData") != Some("No"),
            digests: value("DataDigest") == Some("CRC32C"),
        })
    }
}

/// Bytes that no array can shrink or take for zeros.
fn filler() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(super::BLOCK_MAX);
    while bytes.len() < super::BLOCK_MAX {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

fn data_length(header: &[u8]) -> usize {
    (u32_at(header, 4) & 0xff_ffff) as usize
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The sense key in the data segment of a SCSI Response, behind the length of two bytes (SPC-4
/// 4.5.2 and 4.5.3); none where there is no sense data.
fn sense_key(data: &[u8]) -> Option<u8> {
    let sense = data.get(2..)?;
    match sense.first()? & 0x7f {
        0x70 | 0x71 => sense.get(2).map(|byte| byte & 0xf),
        0x72 | 0x73 => sense.get(1).map(|byte| byte & 0xf),
        _ => None,
    }
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

    #[test]
    fn what_a_target_does_not_say_has_the_default() {
        let agreed = Agreed::read("ImmediateData=No\0FirstBurstLength=8192\0").unwrap();
        assert_eq!((agreed.first_burst, agreed.send_segment), (8192, 8192));
        assert!(!agreed.immediate_data && !agreed.digests);
        assert!(Agreed::read("FirstBurstLength=many\0").is_err());
    }

    #[test]
    fn sense_keys_are_read_in_both_formats() {
        let fixed = [0, 18, 0x70, 0, 0x21, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x38, 7];
        assert_eq!(sense_key(&fixed), Some(1));
        assert_eq!(sense_key(&[0, 8, 0xf2, 6, 0x38, 7, 0, 0, 0, 0]), Some(6));
        for none in [&[][..], &[0, 0], &[0, 2, 0x70, 0], &[0, 4, 0, 0, 6, 0], &[0, 1, 0x72]] {
            assert_eq!(sense_key(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_pdu_that_comes_byte_by_byte_is_whole_at_its_last_byte() {
        let mut header = [0; BHS];
        header[0] = RESPONSE;
        header[7] = 5;
        let data = [1, 2, 3, 4, 5, 0, 0, 0];
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(&crc32c::crc32c(&data).to_le_bytes());
        let mut incoming = Incoming::default();
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(incoming.take(&[*byte], BHS + DIGEST, true), 1);
            let whole = incoming.header.len() == BHS + DIGEST && incoming.is_whole();
            assert_eq!(whole, at + 1 == bytes.len(), "byte {at}");
        }
        assert_eq!(incoming.kept, data);
        assert_eq!(incoming.digest_bytes, incoming.sum.to_le_bytes());
    }
}
