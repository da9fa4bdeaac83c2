//! A session that sends whatever a test wants to see sent: any LUN field, task attribute or task
//! management function.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

pub use crate::pdu::cdb16;
use crate::pdu::{Answer, HEADER_BYTES, Pdu, RawConnection};

/// Task management functions (RFC 7143 11.5.1, RFC 7144).
pub mod function {
    /// ABORT TASK.
    pub const ABORT_TASK: u8 = 1;
    /// ABORT TASK SET.
    pub const ABORT_TASK_SET: u8 = 2;
    /// CLEAR ACA.
    pub const CLEAR_ACA: u8 = 3;
    /// CLEAR TASK SET.
    pub const CLEAR_TASK_SET: u8 = 4;
    /// LOGICAL UNIT RESET.
    pub const LOGICAL_UNIT_RESET: u8 = 5;
    /// TARGET WARM RESET.
    pub const TARGET_WARM_RESET: u8 = 6;
    /// QUERY TASK, of protocol level 2.
    pub const QUERY_TASK: u8 = 9;
    /// QUERY TASK SET, of protocol level 2.
    pub const QUERY_TASK_SET: u8 = 10;
    /// I_T NEXUS RESET, of protocol level 2.
    pub const I_T_NEXUS_RESET: u8 = 11;
    /// QUERY ASYNCHRONOUS EVENT, of protocol level 2.
    pub const QUERY_ASYNCHRONOUS_EVENT: u8 = 12;
}

/// A session with one connection that runs one command at a time.
#[derive(Debug)]
pub struct Wire {
    /// The connection, for what this type cannot say.
    pub connection: RawConnection,
    /// Number of the next command, also its task tag.
    pub next: u32,
}

/// How a command ended, with what iSCSI says of its data.
#[derive(Debug)]
pub struct Ended {
    /// Status, data and sense data.
    pub answer: Answer,
    /// Bytes that the initiator was ready for and that were not transferred (U), or negative, those
    /// that it was not ready for (O).
    pub residual: i64,
}

impl Wire {
    /// Connects and logs in, with protocol level 2.
    ///
    /// # Errors
    /// When the target refuses.
    pub fn log_in(portal: SocketAddr, initiator: &str, target: &str) -> Result<Self> {
        let mut login = Pdu::login(initiator, target);
        login.data.extend(b"iSCSIProtocolLevel=2\0");
        let mut connection = RawConnection::open(portal)?;
        connection.send(&login.bytes())?;
        let answer = connection.receive()?.context("the target closed the connection")?;
        ensure!(answer.header[0] & 0x3f == 0x23, "no login response: {:02x?}", answer.header);
        ensure!(answer.header[36..38] == [0, 0], "login was refused: {:02x?}", answer.header);
        Ok(Self { connection, next: 0 })
    }

    /// Runs a command, again if it only brought a unit attention. Data goes out as immediate data,
    /// so it is at most 8 KiB; without data the target may send `length` bytes. `lun` is the first
    /// two bytes of the LUN field.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn run(&mut self, lun: u16, cdb: &[u8], data: &[u8], length: u32) -> Result<Answer> {
        loop {
            let answer = self.run_once(lun, cdb, data, length)?;
            if answer.code().is_none_or(|(key, ..)| key != 6) {
                return Ok(answer);
            }
        }
    }

    /// The same, and a unit attention is an answer too.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn run_once(&mut self, lun: u16, cdb: &[u8], data: &[u8], length: u32) -> Result<Answer> {
        let pdu = self.command(lun, cdb, data, length);
        Ok(self.finish(&pdu)?.answer)
    }

    /// The PDU of the next command.
    pub fn command(&self, lun: u16, cdb: &[u8], data: &[u8], length: u32) -> Pdu {
        let (flags, length) = match (data.len(), length) {
            (0, 0) => (0, 0),
            (0, length) => (0x40, length),
            (sent, _) => (0x20, sent as u32),
        };
        let mut pdu = Pdu::command(self.next, 0, cdb, flags, length).numbered(self.next);
        pdu.header[8..10].copy_from_slice(&lun.to_be_bytes());
        pdu.data = data.to_vec();
        pdu
    }

    /// Sends a command and waits for its end.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn finish(&mut self, pdu: &Pdu) -> Result<Ended> {
        self.send(pdu)?;
        self.receive_end()
    }

    /// Sends a command and does not wait.
    ///
    /// # Errors
    /// When the target has closed the connection.
    pub fn send(&mut self, pdu: &Pdu) -> Result<()> {
        self.next += 1;
        self.connection.send(&pdu.bytes())
    }

    /// Waits for the end of a command.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn receive_end(&mut self) -> Result<Ended> {
        let mut received = Vec::new();
        loop {
            let pdu = self.connection.receive()?.context("the target closed the connection")?;
            let (kind, flags) = (pdu.header[0] & 0x3f, pdu.header[1]);
            ensure!([0x20, 0x21, 0x25, 0x31].contains(&kind), "unexpected PDU {kind:02x}h");
            let mut sense = Vec::new();
            match kind {
                0x25 => received.extend(&pdu.data),
                0x21 => sense.extend(pdu.data.get(2..).unwrap_or_default()),
                _ => continue,
            }
            if kind == 0x21 || flags & 1 != 0 {
                let answer = Answer { status: pdu.header[3], data: received, sense };
                return Ok(Ended { answer, residual: residual(&pdu) });
            }
        }
    }

    /// Sends a task management function and waits for its response code; 0 is 'function complete'.
    /// `referenced` is the tag of the task that it names.
    ///
    /// # Errors
    /// When the target does not answer as RFC 7143 says.
    pub fn manage(&mut self, function: u8, lun: u16, referenced: u32) -> Result<u8> {
        self.send_management(function, lun, referenced)?;
        loop {
            let pdu = self.connection.receive()?.context("the target closed the connection")?;
            if pdu.header[0] & 0x3f == 0x22 {
                return Ok(pdu.header[2]);
            }
        }
    }

    /// Sends a task management function and does not wait.
    ///
    /// # Errors
    /// When the target has closed the connection.
    pub fn send_management(&mut self, function: u8, lun: u16, referenced: u32) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[0x42, 0x80 | function]);
        header[8..10].copy_from_slice(&lun.to_be_bytes());
        header[16..20].copy_from_slice(&(0x8000_0000 | self.next).to_be_bytes());
        header[20..24].copy_from_slice(&referenced.to_be_bytes());
        header[24..28].copy_from_slice(&self.next.to_be_bytes());
        header[32..36].copy_from_slice(&referenced.to_be_bytes());
        self.connection.send(&Pdu { header, additional: Vec::new(), data: Vec::new() }.bytes())
    }
}

/// RFC 7143 11.4.5: what the flags and RESIDUAL COUNT say.
fn residual(pdu: &Pdu) -> i64 {
    const UNDERFLOW: u8 = 0x02;
    const OVERFLOW: u8 = 0x04;
    let count = u32::from_be_bytes(pdu.header[44..48].try_into().expect("4 bytes"));
    match pdu.header[1] {
        flags if flags & UNDERFLOW != 0 => i64::from(count),
        flags if flags & OVERFLOW != 0 => -i64::from(count),
        _ => 0,
    }
}
