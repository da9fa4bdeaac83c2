//! iSCSI as bytes on a socket (RFC 7143 chapter 11), so that tests can send what no initiator
//! would.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Bytes of a basic header segment.
pub const HEADER_BYTES: usize = 48;

/// How long a raw connection waits for an answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Most data that is sent in one PDU: what a target takes that has declared nothing (RFC 7143
/// 13.12).
const DATA_SEGMENT_BYTES: usize = 8192;

/// A PDU without digests.
#[derive(Clone, Debug)]
pub struct Pdu {
    /// The basic header segment.
    pub header: [u8; HEADER_BYTES],
    /// Additional header segments, a multiple of four bytes.
    pub additional: Vec<u8>,
    /// The data segment, without padding.
    pub data: Vec<u8>,
}

impl Pdu {
    /// A login request that goes straight from the operational stage to full feature.
    pub fn login(initiator: &str, target: &str) -> Self {
        let keys = [
            ("InitiatorName", initiator),
            ("TargetName", target),
            ("SessionType", "Normal"),
            ("HeaderDigest", "None"),
            ("DataDigest", "None"),
            ("InitialR2T", "Yes"),
            ("ImmediateData", "Yes"),
            ("MaxRecvDataSegmentLength", "65536"),
        ];
        let text: String = keys.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
        let mut header = [0; HEADER_BYTES];
        // Login request, immediate; transit from stage 1 to stage 3.
        header[..2].copy_from_slice(&[0x43, 0x87]);
        // ISID of the random format, type 10b.
        header[8] = 0x80;
        header[13] = 1;
        Self { header, additional: Vec::new(), data: text.into_bytes() }
    }

    /// A SCSI command of a simple task.
    pub fn command(task: u32, lun: u8, cdb: &[u8], flags: u8, expected_length: u32) -> Self {
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[0x01, 0x81 | flags]);
        header[9] = lun;
        header[16..20].copy_from_slice(&task.to_be_bytes());
        header[20..24].copy_from_slice(&expected_length.to_be_bytes());
        let length = cdb.len().min(16);
        header[32..32 + length].copy_from_slice(&cdb[..length]);
        let mut additional = Vec::new();
        // RFC 7143 11.2.2.3: extended CDB.
        if let Some(rest) = cdb.get(16..).filter(|rest| !rest.is_empty()) {
            additional.extend((rest.len() as u16 + 1).to_be_bytes());
            additional.extend([1, 0]);
            additional.extend(rest);
            additional.resize(additional.len().next_multiple_of(4), 0);
        }
        header[4] = (additional.len() / 4) as u8;
        Self { header, additional, data: Vec::new() }
    }

    /// The same PDU with another command sequence number.
    #[must_use]
    pub fn numbered(mut self, command_sequence_number: u32) -> Self {
        self.header[24..28].copy_from_slice(&command_sequence_number.to_be_bytes());
        self
    }

    /// The bytes on the wire, padded to a multiple of four.
    ///
    /// # Panics
    /// With more data than 24 bits can say.
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.data.len()).expect("data fits a PDU").to_be_bytes();
        let mut bytes = self.header.to_vec();
        bytes[5..8].copy_from_slice(&length[1..]);
        bytes.extend(&self.additional);
        bytes.extend(&self.data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// The same with both digests.
    ///
    /// # Panics
    /// With more data than 24 bits can say.
    pub fn bytes_with_digests(&self) -> Vec<u8> {
        let bytes = self.bytes();
        let (header, data) = bytes.split_at(HEADER_BYTES + self.additional.len());
        let mut whole = header.to_vec();
        whole.extend(crc32c::crc32c(header).to_le_bytes());
        whole.extend(data);
        if !data.is_empty() {
            whole.extend(crc32c::crc32c(data).to_le_bytes());
        }
        whole
    }
}

/// A TCP connection to a portal.
#[derive(Debug)]
pub struct RawConnection(TcpStream);

impl RawConnection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn open(portal: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(portal).context("connecting to the portal")?;
        stream.set_nodelay(true)?;
        let connection = Self(stream);
        connection.set_patience(ANSWER_TIMEOUT)?;
        Ok(connection)
    }

    /// How long it waits for each answer from now on.
    ///
    /// # Errors
    /// When the socket does not take it.
    pub fn set_patience(&self, patience: Duration) -> Result<()> {
        self.0.set_read_timeout(Some(patience))?;
        Ok(self.0.set_write_timeout(Some(patience))?)
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// When the target refuses.
    pub fn log_in(portal: SocketAddr, initiator: &str, target: &str) -> Result<Self> {
        Self::log_in_within(ANSWER_TIMEOUT, portal, initiator, target)
    }

    /// The same, with a patience of the caller's for this and for what follows.
    ///
    /// # Errors
    /// When the target refuses, or is silent.
    pub fn log_in_within(
        patience: Duration,
        portal: SocketAddr,
        initiator: &str,
        target: &str,
    ) -> Result<Self> {
        let mut connection = Self::open(portal)?;
        connection.set_patience(patience)?;
        connection.send(&Pdu::login(initiator, target).bytes())?;
        let answer = connection.receive()?.context("the target closed the connection")?;
        ensure!(answer.header[0] & 0x3f == 0x23, "no login response: {:02x?}", answer.header);
        let status = &answer.header[36..38];
        ensure!(status == [0, 0], "login was refused with status {status:02x?}");
        ensure!(answer.header[1] & 0x83 == 0x83, "login did not reach full feature");
        Ok(connection)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// When the peer has closed.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).context("sending")
    }

    /// Sends bytes that the peer may cut off: it is free to close on a bad PDU.
    pub fn send_and_expect_anything(&mut self, bytes: &[u8]) {
        // An error is one of the right answers here.
        let _ = self.0.write_all(bytes);
    }

    /// Receives one PDU; `None` when the peer has closed.
    ///
    /// # Errors
    /// When nothing comes in time.
    pub fn receive(&mut self) -> Result<Option<Pdu>> {
        let mut header = [0; HEADER_BYTES];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        if !self.fill(&mut data)? {
            return Ok(None);
        }
        data.truncate(length);
        Ok(Some(Pdu { header, additional: Vec::new(), data }))
    }

    /// Takes so many bytes at most of what comes, whatever they are; 0 when the peer has closed.
    ///
    /// # Errors
    /// When nothing comes in time, or the peer broke off.
    pub fn take(&mut self, bytes_max: usize) -> Result<usize> {
        Ok(self.0.read(&mut vec![0; bytes_max])?)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool> {
        match self.0.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if is_closed(error.kind()) => Ok(false),
            Err(error) => bail!("waiting for {} bytes: {error}", bytes.len()),
        }
    }

    /// Takes what comes until the peer closes or is silent for so long.
    ///
    /// # Errors
    /// When the socket does not take the timeout.
    pub fn drain(&mut self, silence: Duration) -> Result<()> {
        self.0.set_read_timeout(Some(silence))?;
        let mut bytes = [0; 65536];
        while self.0.read(&mut bytes).is_ok_and(|length| length > 0) {}
        Ok(())
    }
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// A CDB of 16 bytes with flags, address and length where READ (16) has them.
pub fn cdb16(opcode: u8, flags: u8, lba: u64, count: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// As [`cdb16`], with place and length in bytes of a LUN with blocks of 512.
pub fn cdb16_of_bytes(opcode: u8, flags: u8, at: u64, bytes: u64) -> [u8; 16] {
    cdb16(opcode, flags, at / 512, u32::try_from(bytes / 512).expect("fits a CDB"))
}

/// A CDB of 10 bytes with flags, address and length where READ (10) has them.
pub fn cdb10(opcode: u8, flags: u8, lba: u32, count: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    (cdb[0], cdb[1]) = (opcode, flags);
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// A logged-in session with one connection that runs one command at a time.
#[derive(Debug)]
pub struct RawSession {
    connection: RawConnection,
    command_sequence_number: u32,
}

/// How a command ended.
#[derive(Debug)]
pub struct Answer {
    /// SAM-5 status code; 0 is GOOD.
    pub status: u8,
    /// What the target sent.
    pub data: Vec<u8>,
    /// Sense data; empty if there was none.
    pub sense: Vec<u8>,
}

impl Answer {
    /// Sense key, additional sense code and its qualifier; `None` without sense data.
    pub fn code(&self) -> Option<(u8, u8, u8)> {
        match *self.sense.get(..14)? {
            [_, _, key, .., code, qualifier] => Some((key & 0x0f, code, qualifier)),
            _ => None,
        }
    }

    /// The byte and bit of the CDB or parameter list that the sense data points at.
    pub fn field(&self) -> Option<(u16, Option<u8>)> {
        let &[specific, high, low] = self.sense.get(15..18)?.first_chunk()?;
        let bit = (specific & 0x08 != 0).then_some(specific & 0x07);
        (specific & 0x80 != 0).then_some((u16::from_be_bytes([high, low]), bit))
    }

    fn is_unit_attention(&self) -> bool {
        self.status == 2 && self.sense.get(2).is_some_and(|key| key & 0x0f == 6)
    }

    /// The data, if the status is GOOD.
    ///
    /// # Errors
    /// With any other status: status and sense data.
    pub fn good(self) -> Result<Vec<u8>> {
        ensure!(self.status == 0, "status {:#04x}, sense {:02x?}", self.status, self.sense);
        Ok(self.data)
    }
}

/// Unit attentions that one command may meet.
const UNIT_ATTENTIONS_MAX: usize = 8;

impl RawSession {
    /// Connects and logs in.
    ///
    /// # Errors
    /// When the target refuses.
    pub fn log_in(portal: SocketAddr, initiator: &str, target: &str) -> Result<Self> {
        let connection = RawConnection::log_in(portal, initiator, target)?;
        Ok(Self { connection, command_sequence_number: 0 })
    }

    /// Runs a command that takes at most `length` bytes from the target.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn read(&mut self, lun: u8, cdb: &[u8], length: u32) -> Result<Answer> {
        let flags = if length > 0 { 0x40 } else { 0 };
        self.run(Pdu::command(self.command_sequence_number, lun, cdb, flags, length), &[])
    }

    /// As [`Self::read`], but an answer that only brings a unit attention is not passed over.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn read_once(&mut self, lun: u8, cdb: &[u8], length: u32) -> Result<Answer> {
        let flags = if length > 0 { 0x40 } else { 0 };
        self.run_once(Pdu::command(self.command_sequence_number, lun, cdb, flags, length), &[])
    }

    /// Runs a command that gives the target data: a part of it immediately, the rest as the target
    /// asks for it.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn write(&mut self, lun: u8, cdb: &[u8], data: &[u8]) -> Result<Answer> {
        let length = u32::try_from(data.len())?;
        let mut pdu = Pdu::command(self.command_sequence_number, lun, cdb, 0x20, length);
        pdu.data = data[..data.len().min(DATA_SEGMENT_BYTES)].to_vec();
        self.run(pdu, data)
    }

    /// PERSISTENT RESERVE OUT, with service action, type and the flags of its parameter list (SPC-4 6.16).
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn reserve_out(
        &mut self,
        lun: u8,
        [action, kind, flags]: [u8; 3],
        keys: (u64, u64),
    ) -> Result<Answer> {
        let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
        let mut list = keys.0.to_be_bytes().to_vec();
        list.extend(keys.1.to_be_bytes());
        list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
        self.write(lun, &cdb, &list)
    }

    /// Sends half of a command's header and is gone, as a host that is killed: there is nothing to
    /// answer, and its last bytes and the end of the stream are one piece to the target.
    ///
    /// # Errors
    /// When the target has closed.
    pub fn vanish(mut self, lun: u8) -> Result<()> {
        let last = Pdu::command(self.command_sequence_number, lun, &[0; 6], 0, 0);
        self.connection.send(&last.bytes()[..HEADER_BYTES / 2])
    }

    /// As every host does, repeats a command that only brought a unit attention (SAM-5 5.14).
    fn run(&mut self, pdu: Pdu, data_out: &[u8]) -> Result<Answer> {
        for _ in 0..UNIT_ATTENTIONS_MAX {
            let answer = self.run_once(pdu.clone(), data_out)?;
            if !answer.is_unit_attention() {
                return Ok(answer);
            }
        }
        bail!("{UNIT_ATTENTIONS_MAX} unit attentions in a row")
    }

    /// Sends the data that the target asks for by R2T.
    fn send_solicited(&mut self, ready: &Pdu, data_out: &[u8]) -> Result<()> {
        let field = |at: usize| {
            u32::from_be_bytes(ready.header[at..at + 4].try_into().expect("4 bytes")) as usize
        };
        let (start, length) = (field(40), field(44));
        let wanted =
            data_out.get(start..start + length).context("more is asked for than there is")?;
        let parts = wanted.chunks(DATA_SEGMENT_BYTES);
        let last = parts.len() - 1;
        for (number, part) in parts.enumerate() {
            let mut header = [0; HEADER_BYTES];
            header[..2].copy_from_slice(&[0x05, if number == last { 0x80 } else { 0 }]);
            header[8..24].copy_from_slice(&ready.header[8..24]);
            header[36..40].copy_from_slice(&(number as u32).to_be_bytes());
            let offset = start + number * DATA_SEGMENT_BYTES;
            header[40..44].copy_from_slice(&(offset as u32).to_be_bytes());
            let pdu = Pdu { header, additional: Vec::new(), data: part.to_vec() };
            self.connection.send(&pdu.bytes())?;
        }
        Ok(())
    }

    fn run_once(&mut self, pdu: Pdu, data_out: &[u8]) -> Result<Answer> {
        self.connection.send(&pdu.numbered(self.command_sequence_number).bytes())?;
        self.command_sequence_number += 1;
        let mut data = Vec::new();
        loop {
            let pdu = self.connection.receive()?.context("the target closed the connection")?;
            let has_status = pdu.header[1] & 0x01 != 0;
            match pdu.header[0] & 0x3f {
                0x25 => {
                    data.extend(&pdu.data);
                    if has_status {
                        return Ok(Answer { status: pdu.header[3], data, sense: Vec::new() });
                    }
                }
                0x21 => {
                    let sense = pdu.data.get(2..).unwrap_or_default().to_vec();
                    return Ok(Answer { status: pdu.header[3], data, sense });
                }
                0x31 => self.send_solicited(&pdu, data_out)?,
                // A ping of the target's is not for us.
                0x20 => {}
                _ => bail!("unexpected PDU {:02x?}", pdu.header),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pdu_is_padded_and_says_the_length_of_its_data() {
        let mut pdu = Pdu::command(7, 1, &[0x12, 0, 0, 0, 36], 0x40, 36).numbered(3);
        pdu.data = vec![1, 2, 3, 4, 5];
        let bytes = pdu.bytes();
        assert_eq!(bytes.len(), HEADER_BYTES + 8);
        assert_eq!(bytes[5..8], [0, 0, 5]);
        assert_eq!(bytes[16..20], [0, 0, 0, 7]);
        assert_eq!(bytes[24..28], [0, 0, 0, 3]);
        assert_eq!(bytes[32], 0x12);
    }
}
