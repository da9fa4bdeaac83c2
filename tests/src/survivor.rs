//! An initiator at error recovery level 0 that survives its connections: whenever one fails, it
//! logs in again and repeats what was not answered. With digests it notices every wrong byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::pdu::{HEADER_BYTES, Pdu, cdb10};

/// How long an answer may take before the connection is given up, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connections that one operation may use up.
const ATTEMPTS_MAX: usize = 30;

/// Data that goes with a command.
const IMMEDIATE_BYTES: usize = 4096;

/// Data in one Data-Out PDU.
const DATA_OUT_BYTES: usize = 8192;

const BLOCK_BYTES: usize = 512;

/// One connection, logged in.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    digests: bool,
    command_sequence_number: u32,
    expected_status_sequence_number: u32,
}

/// The initiator.
#[derive(Debug)]
pub struct Survivor {
    portal: SocketAddr,
    initiator: String,
    target: String,
    digests: bool,
    patience: Duration,
    connection: Option<Connection>,
    logins: usize,
}

impl Survivor {
    /// One that is not connected yet.
    pub fn new(portal: SocketAddr, initiator: &str, target: &str, digests: bool) -> Self {
        Self {
            portal,
            initiator: initiator.to_owned(),
            target: target.to_owned(),
            digests,
            patience: PATIENCE,
            connection: None,
            logins: 0,
        }
    }

    /// The same, that waits so long for an answer.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// How often it has logged in.
    pub fn logins(&self) -> usize {
        self.logins
    }

    /// Writes blocks.
    ///
    /// # Errors
    /// When it does not succeed in many attempts, or the target answers what no host wants.
    pub fn write(&mut self, lba: u32, data: &[u8]) -> Result<()> {
        self.repeat(|connection| connection.write(lba, data))
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn read(&mut self, lba: u32, length: usize) -> Result<Vec<u8>> {
        self.repeat(|connection| connection.read(lba, length))
    }

    /// Sends one request of every other kind, and at last logs out.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn say_everything_else(&mut self) -> Result<()> {
        // NOP-Out; ABORT TASK of a task that is not there; SendTargets.
        self.repeat(|connection| connection.request(&simple(0x40, 0x80), 0x20).map(|_| ()))?;
        self.repeat(|connection| connection.request(&simple(0x42, 0x81), 0x22).map(|_| ()))?;
        let mut text = simple(0x44, 0x80);
        text.header[20..24].copy_from_slice(&[0xff; 4]);
        text.data = b"SendTargets=\0".to_vec();
        self.repeat(|connection| connection.request(&text, 0x24).map(|_| ()))?;
        self.repeat(|connection| connection.request(&simple(0x46, 0x80), 0x26).map(|_| ()))?;
        self.connection = None;
        Ok(())
    }

    fn repeat<T>(&mut self, act: impl Fn(&mut Connection) -> Result<T>) -> Result<T> {
        let mut last = None;
        for _ in 0..ATTEMPTS_MAX {
            match self.connected().and_then(&act) {
                Ok(value) => return Ok(value),
                Err(error) => last = Some(error),
            }
            self.connection = None;
        }
        Err(last.context("there was an attempt")?.context("too many attempts"))
    }

    fn connected(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(Connection::log_in(self)?);
            self.logins += 1;
        }
        self.connection.as_mut().context("it was made above")
    }
}

impl Connection {
    fn log_in(survivor: &Survivor) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&survivor.portal, survivor.patience)?;
        stream.set_read_timeout(Some(survivor.patience))?;
        stream.set_write_timeout(Some(survivor.patience))?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            digests: false,
            command_sequence_number: 0,
            expected_status_sequence_number: 0,
        };
        let mut login = Pdu::login(&survivor.initiator, &survivor.target);
        if survivor.digests {
            let text = String::from_utf8(login.data)?;
            login.data = text.replace("Digest=None", "Digest=CRC32C").into_bytes();
        }
        connection.send(&login)?;
        let answer = connection.receive()?;
        ensure!(answer.header[0] == 0x23 && answer.header[36..38] == [0, 0], "login was refused");
        ensure!(answer.header[1] & 0x83 == 0x83, "login did not reach full feature");
        connection.digests = survivor.digests;
        // The unit attention of the new nexus.
        connection.command(&[0; 6], 0, &[], 0)?;
        Ok(connection)
    }

    fn write(&mut self, lba: u32, data: &[u8]) -> Result<()> {
        let answer = self.command(&cdb(0x2a, lba, data.len()), 0x20, data, data.len())?;
        ensure!(answer.0 == 0, "status {:#04x}", answer.0);
        Ok(())
    }

    fn read(&mut self, lba: u32, length: usize) -> Result<Vec<u8>> {
        let (status, data) = self.command(&cdb(0x28, lba, length), 0x40, &[], length)?;
        ensure!(status == 0 && data.len() == length, "status {status:#04x}");
        Ok(data)
    }

    /// Runs a command; returns its status and data.
    fn command(
        &mut self,
        cdb: &[u8],
        direction: u8,
        data_out: &[u8],
        length: usize,
    ) -> Result<(u8, Vec<u8>)> {
        let task = self.command_sequence_number;
        let mut pdu = Pdu::command(task, 0, cdb, direction, u32::try_from(length)?);
        pdu.data = data_out[..data_out.len().min(IMMEDIATE_BYTES)].to_vec();
        self.send(&pdu.numbered(task))?;
        self.command_sequence_number += 1;
        let mut data_in = Vec::new();
        loop {
            let answer = self.receive()?;
            match answer.header[0] & 0x3f {
                0x31 => self.send_data(task, &answer, data_out)?,
                0x25 => {
                    let offset = word(&answer, 40) as usize;
                    ensure!(offset == data_in.len(), "data is missing");
                    data_in.extend(&answer.data);
                    if answer.header[1] & 1 == 1 {
                        return Ok((answer.header[3], data_in));
                    }
                }
                0x21 => return Ok((answer.header[3], data_in)),
                0x20 => {}
                opcode => bail!("unexpected opcode {opcode:#04x}"),
            }
        }
    }

    /// Answers an R2T.
    fn send_data(&mut self, task: u32, r2t: &Pdu, data: &[u8]) -> Result<()> {
        let (start, length) = (word(r2t, 40) as usize, word(r2t, 44) as usize);
        let wanted = data.get(start..start + length).context("more was asked for than there is")?;
        let pieces = wanted.chunks(DATA_OUT_BYTES).enumerate();
        for (number, piece) in pieces {
            let offset = start + number * DATA_OUT_BYTES;
            let is_last = offset + piece.len() == start + length;
            let mut pdu = simple(0x05, if is_last { 0x80 } else { 0 });
            pdu.header[16..20].copy_from_slice(&task.to_be_bytes());
            pdu.header[20..24].copy_from_slice(&r2t.header[20..24]);
            pdu.header[36..40].copy_from_slice(&u32::try_from(number)?.to_be_bytes());
            pdu.header[40..44].copy_from_slice(&u32::try_from(offset)?.to_be_bytes());
            pdu.data = piece.to_vec();
            self.send(&pdu)?;
        }
        Ok(())
    }

    /// Sends an immediate request and waits for its answer.
    fn request(&mut self, pdu: &Pdu, answer: u8) -> Result<Pdu> {
        let number = self.command_sequence_number;
        let mut pdu = pdu.clone().numbered(number);
        pdu.header[16..20].copy_from_slice(&0x8000_0000_u32.to_be_bytes());
        self.send(&pdu)?;
        loop {
            let received = self.receive()?;
            let opcode = received.header[0] & 0x3f;
            if opcode == answer {
                return Ok(received);
            }
            ensure!(opcode == 0x20, "unexpected opcode {opcode:#04x}");
        }
    }

    fn send(&mut self, pdu: &Pdu) -> Result<()> {
        let mut pdu = pdu.clone();
        pdu.header[28..32].copy_from_slice(&self.expected_status_sequence_number.to_be_bytes());
        let bytes = if self.digests { pdu.bytes_with_digests() } else { pdu.bytes() };
        Ok(self.stream.write_all(&bytes)?)
    }

    fn receive(&mut self) -> Result<Pdu> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        self.check_digest(&header)?;
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        if length > 0 {
            self.stream.read_exact(&mut data)?;
            self.check_digest(&data)?;
        }
        data.truncate(length);
        let pdu = Pdu { header, additional: Vec::new(), data };
        self.expected_status_sequence_number = word(&pdu, 24).wrapping_add(1);
        Ok(pdu)
    }

    fn check_digest(&mut self, bytes: &[u8]) -> Result<()> {
        if self.digests {
            let mut digest = [0; 4];
            self.stream.read_exact(&mut digest)?;
            ensure!(digest == crc32c::crc32c(bytes).to_le_bytes(), "wrong digest");
        }
        Ok(())
    }
}

pub(crate) fn word(pdu: &Pdu, at: usize) -> u32 {
    let bytes = &pdu.header[at..at + 4];
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

pub(crate) fn simple(opcode: u8, flags: u8) -> Pdu {
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[opcode, flags]);
    Pdu { header, additional: Vec::new(), data: Vec::new() }
}

pub(crate) fn cdb(opcode: u8, lba: u32, length: usize) -> [u8; 10] {
    cdb10(opcode, 0, lba, (length / BLOCK_BYTES) as u16)
}
