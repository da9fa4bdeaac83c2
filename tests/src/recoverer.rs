//! An initiator at error recovery levels 1 and 2: what it misses it asks for again by SNACK; at
//! level 2 it brings a session back after its connection failed, and takes its command over by TASK
//! REASSIGN. It runs one command at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::pdu::{HEADER_BYTES, Pdu};
use crate::survivor::{cdb, simple, word};

/// How long an answer may take before the initiator looks for what it has missed.
const PATIENCE: Duration = Duration::from_millis(300);

/// Looks without success before the connection is given up.
const LOOKS_MAX: usize = 40;

/// Connections that one operation may use up.
const ATTEMPTS_MAX: usize = 30;

/// Data that goes with a command.
const IMMEDIATE_BYTES: usize = 4096;

/// Data in one Data-Out PDU.
const DATA_OUT_BYTES: usize = 8192;

/// Initiator task tags of requests that are no commands.
const OTHER_TAG: u32 = 0x8000_0000;
const NO_TAG: u32 = u32::MAX;

/// The initiator.
#[derive(Debug)]
pub struct Recoverer {
    portal: SocketAddr,
    initiator: String,
    target: String,
    level: u32,
    digests: bool,
    session: Option<Session>,
    counts: Counts,
}

/// How it recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Logins that began a session.
    pub sessions: usize,
    /// Logins that brought a session back.
    pub continuations: usize,
    /// Commands that were taken over.
    pub reassignments: usize,
    /// Requests for what was missed.
    pub snacks: usize,
}

/// A session, which may outlive its connection.
#[derive(Debug)]
struct Session {
    tsih: [u8; 2],
    command_sequence_number: u32,
    connection: Option<Connection>,
    /// The unit attention of the new nexus is still to come.
    is_new: bool,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    digests: bool,
    /// All responses before it were received.
    expected_status_sequence_number: u32,
    /// Responses that came before others that are missing.
    early: BTreeSet<u32>,
    snacks: usize,
}

/// A PDU, and whether its data is what was sent.
struct Received {
    pdu: Pdu,
    intact: bool,
}

/// A command and what has come of it.
struct Command {
    task: u32,
    cdb: [u8; 10],
    direction: u8,
    data_out: Vec<u8>,
    length: usize,
    sent: bool,
    data_in: Vec<u8>,
    next_data_sn: u32,
    /// Data-In that came before other that is missing.
    early: BTreeMap<u32, Vec<u8>>,
    /// Not known after it was taken over: an R2T may have been lost with the connection.
    next_r2t_sn: Option<u32>,
    /// The status, and the number of Data-In PDUs that belong to it.
    ended: Option<(u8, u32)>,
}

impl Recoverer {
    /// One that is not connected yet.
    pub fn new(portal: SocketAddr, names: (&str, &str), level: u32, digests: bool) -> Self {
        let (initiator, target) = (names.0.to_owned(), names.1.to_owned());
        let counts = Counts::default();
        Self { portal, initiator, target, level, digests, session: None, counts }
    }

    /// How it recovered so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Writes blocks.
    ///
    /// # Errors
    /// When it does not succeed in many attempts, or the target answers what no host wants.
    pub fn write(&mut self, lba: u32, data: &[u8]) -> Result<()> {
        let command = Command::new(cdb(0x2a, lba, data.len()), 0x20, data, data.len());
        self.run(command).map(|_| ())
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn read(&mut self, lba: u32, length: usize) -> Result<Vec<u8>> {
        let data = self.run(Command::new(cdb(0x28, lba, length), 0x40, &[], length))?;
        ensure!(data.len() == length, "{} bytes instead of {length}", data.len());
        Ok(data)
    }

    /// Sends one request of every other kind, and at last logs out.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn say_everything_else(&mut self) -> Result<()> {
        self.request(&simple(0x40, 0x80), 0x20)?;
        self.request(&simple(0x42, 0x81), 0x22)?;
        let mut text = simple(0x44, 0x80);
        text.header[20..24].copy_from_slice(&[0xff; 4]);
        text.data = b"SendTargets=\0".to_vec();
        self.request(&text, 0x24)?;
        self.request(&simple(0x46, 0x80), 0x26)?;
        self.session = None;
        Ok(())
    }

    /// Runs a command until it has ended with GOOD.
    fn run(&mut self, mut command: Command) -> Result<Vec<u8>> {
        let mut last = None;
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(&mut command) {
                Ok(0) => return Ok(command.data_in),
                Ok(2) if self.is_new() => {
                    command.restart();
                    continue;
                }
                Ok(status) => bail!("status {status:#04x}"),
                Err(error) => last = Some(error),
            }
            self.lose_connection();
        }
        Err(last.context("there was an attempt")?.context("too many attempts"))
    }

    /// Whether no unit attention has come in this session; then one has now.
    fn is_new(&mut self) -> bool {
        self.session.as_mut().is_some_and(|session| std::mem::take(&mut session.is_new))
    }

    fn attempt(&mut self, command: &mut Command) -> Result<u8> {
        if self.connect()? == Connected::Anew {
            command.restart();
        }
        let session = self.session.as_mut().context("it is connected")?;
        if command.task == NO_TAG {
            command.task = session.command_sequence_number;
            session.command_sequence_number += 1;
        }
        let connection = session.connection.as_mut().context("it is connected")?;
        if command.is_to_be_taken_over() {
            command.sent = connection.take_over(command)?;
            self.counts.reassignments += usize::from(command.sent);
        }
        let status = connection.run(command);
        self.counts.snacks += std::mem::take(&mut connection.snacks);
        status
    }

    fn request(&mut self, pdu: &Pdu, answer: u8) -> Result<()> {
        let mut last = None;
        for _ in 0..ATTEMPTS_MAX {
            match self.connect().and_then(|_| self.request_once(pdu, answer)) {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
            self.lose_connection();
        }
        Err(last.context("there was an attempt")?.context("too many attempts"))
    }

    fn request_once(&mut self, pdu: &Pdu, answer: u8) -> Result<()> {
        let session = self.session.as_mut().context("it is connected")?;
        let number = session.command_sequence_number;
        let connection = session.connection.as_mut().context("it is connected")?;
        connection.send_request(pdu, number)?;
        for _ in 0..LOOKS_MAX {
            let Some(received) = connection.receive()? else {
                connection.send_request(pdu, number)?;
                continue;
            };
            connection.take_status(&received.pdu)?;
            if received.pdu.header[0] & 0x3f == answer && received.intact {
                return Ok(());
            }
        }
        bail!("no answer {answer:#04x}")
    }

    /// Below level 2 a session ends with its connection.
    fn lose_connection(&mut self) {
        match &mut self.session {
            Some(session) if self.level >= 2 => session.connection = None,
            _ => self.session = None,
        }
    }

    fn connect(&mut self) -> Result<Connected> {
        match &mut self.session {
            Some(session) if session.connection.is_some() => Ok(Connected::Already),
            Some(_) => self.continue_session(),
            None => self.begin_session(),
        }
    }

    fn begin_session(&mut self) -> Result<Connected> {
        let mut login = Pdu::login(&self.initiator, &self.target);
        let text = String::from_utf8(login.data)?;
        login.data = format!("{text}ErrorRecoveryLevel={}\0", self.level).into_bytes();
        let (connection, answer) = self.log_in(login)?;
        let keys = String::from_utf8_lossy(&answer.data).into_owned();
        let wanted = format!("ErrorRecoveryLevel={}\0", self.level);
        ensure!(keys.contains(&wanted), "other levels were negotiated: {keys}");
        let tsih = [answer.header[14], answer.header[15]];
        let (command_sequence_number, connection) = (0, Some(connection));
        let is_new = true;
        self.session = Some(Session { tsih, command_sequence_number, connection, is_new });
        self.counts.sessions += 1;
        Ok(Connected::Anew)
    }

    fn continue_session(&mut self) -> Result<Connected> {
        let session = self.session.as_ref().context("there is one")?;
        let (tsih, number) = (session.tsih, session.command_sequence_number);
        let mut login = Pdu::login(&self.initiator, &self.target).numbered(number);
        login.header[14..16].copy_from_slice(&tsih);
        // Keys of the session are not negotiated again.
        let text = String::from_utf8(login.data)?;
        let own = text.split_inclusive('\0').filter(|key| !is_of_session(key));
        login.data = own.collect::<String>().into_bytes();
        match self.log_in(login) {
            Ok((connection, _)) => {
                let session = self.session.as_mut().context("there is one")?;
                session.connection = Some(connection);
                self.counts.continuations += 1;
                Ok(Connected::Again)
            }
            Err(error) => {
                if error.to_string().contains("refused") {
                    self.session = None;
                }
                Err(error)
            }
        }
    }

    fn log_in(&self, mut login: Pdu) -> Result<(Connection, Pdu)> {
        let stream = TcpStream::connect_timeout(&self.portal, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        stream.set_nodelay(true)?;
        let mut connection = Connection {
            stream,
            digests: false,
            expected_status_sequence_number: 0,
            early: BTreeSet::new(),
            snacks: 0,
        };
        if self.digests {
            let text = String::from_utf8(login.data)?;
            login.data = text.replace("Digest=None", "Digest=CRC32C").into_bytes();
        }
        connection.send(&login)?;
        let answer = (0..LOOKS_MAX).find_map(|_| connection.receive().transpose());
        let answer = answer.context("no answer to the login")??.pdu;
        ensure!(answer.header[0] == 0x23, "no login response");
        ensure!(answer.header[36..38] == [0, 0], "refused: {:02x?}", &answer.header[36..38]);
        ensure!(answer.header[1] & 0x83 == 0x83, "login did not reach full feature");
        connection.expected_status_sequence_number = word(&answer, 24).wrapping_add(1);
        connection.digests = self.digests;
        Ok((connection, answer))
    }
}

/// How an initiator came to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connected {
    Already,
    /// The session goes on.
    Again,
    /// In a new session.
    Anew,
}

fn is_of_session(key: &str) -> bool {
    ["InitialR2T", "ImmediateData", "ErrorRecoveryLevel"].iter().any(|name| key.starts_with(name))
}

impl Command {
    fn new(cdb: [u8; 10], direction: u8, data_out: &[u8], length: usize) -> Self {
        Self {
            task: NO_TAG,
            cdb,
            direction,
            data_out: data_out.to_vec(),
            length,
            sent: false,
            data_in: Vec::new(),
            next_data_sn: 0,
            early: BTreeMap::new(),
            next_r2t_sn: Some(0),
            ended: None,
        }
    }

    /// In a new session nothing is left of it.
    fn restart(&mut self) {
        let data_out = std::mem::take(&mut self.data_out);
        *self = Self::new(self.cdb, self.direction, &data_out, self.length);
    }

    fn is_to_be_taken_over(&self) -> bool {
        self.sent
    }

    fn take_data(&mut self, data_sn: u32, data: &[u8]) {
        if data_sn >= self.next_data_sn {
            self.early.insert(data_sn, data.to_vec());
        }
        while let Some(data) = self.early.remove(&self.next_data_sn) {
            self.data_in.extend(data);
            self.next_data_sn += 1;
        }
    }

    /// The status, once all data is there.
    fn status(&self) -> Option<u8> {
        let (status, data_in_pdus) = self.ended?;
        (self.next_data_sn >= data_in_pdus).then_some(status)
    }
}

impl Connection {
    /// Sends a command that was not sent yet, and waits for its end.
    fn run(&mut self, command: &mut Command) -> Result<u8> {
        if !command.sent {
            self.send_command(command)?;
        }
        let mut looks = 0;
        loop {
            if let Some(status) = command.status() {
                return Ok(status);
            }
            match self.receive()? {
                Some(received) => self.take(command, &received)?,
                None if looks < LOOKS_MAX => {
                    looks += 1;
                    self.look_for_missing(command)?;
                }
                None => bail!("no answer"),
            }
        }
    }

    fn send_command(&mut self, command: &mut Command) -> Result<()> {
        let length = u32::try_from(command.length)?;
        let mut pdu = Pdu::command(command.task, 0, &command.cdb, command.direction, length);
        let immediate = command.data_out.len().min(IMMEDIATE_BYTES);
        pdu.data = command.data_out[..immediate].to_vec();
        command.sent = true;
        self.send(&pdu.numbered(command.task))
    }

    /// Asks for the command on this connection; false if the target never had it.
    fn take_over(&mut self, command: &mut Command) -> Result<bool> {
        let mut pdu = simple(0x42, 0x88);
        pdu.header[20..24].copy_from_slice(&command.task.to_be_bytes());
        pdu.header[36..40].copy_from_slice(&command.next_data_sn.to_be_bytes());
        // The status that came without its data comes again.
        command.early.clear();
        command.ended = None;
        command.next_r2t_sn = None;
        self.send_request(&pdu, command.task + 1)?;
        for _ in 0..LOOKS_MAX {
            let Some(received) = self.receive()? else { continue };
            self.take_status(&received.pdu)?;
            if received.pdu.header[0] & 0x3f == 0x22 {
                let response = received.pdu.header[2];
                if response == 1 {
                    command.next_r2t_sn = Some(0);
                }
                ensure!(response <= 1, "the target does not hand over: {response}");
                return Ok(response == 0);
            }
        }
        bail!("no answer to TASK REASSIGN")
    }

    fn take(&mut self, command: &mut Command, received: &Received) -> Result<()> {
        let pdu = &received.pdu;
        let opcode = pdu.header[0] & 0x3f;
        let is_own = word(pdu, 16) == command.task;
        if opcode == 0x25 && is_own {
            return self.take_data_in(command, received);
        }
        // What was asked for twice comes twice, perhaps when its command has ended.
        if opcode != 0x25 || pdu.header[1] & 1 == 1 {
            self.take_status(pdu)?;
        }
        match opcode {
            0x31 if is_own => self.take_r2t(command, pdu),
            0x21 if is_own => {
                let is_read = command.direction == 0x40;
                let data_in_pdus = if is_read { word(pdu, 36) } else { 0 };
                command.ended = Some((pdu.header[3], data_in_pdus));
                if command.next_data_sn < data_in_pdus {
                    let missing = data_in_pdus - command.next_data_sn;
                    self.snack((0, command.task), command.next_data_sn, missing)?;
                }
                Ok(())
            }
            // Pings, rejects and repeated answers.
            0x20..=0x22 | 0x25 | 0x31 | 0x3f => Ok(()),
            _ => bail!("unexpected opcode {opcode:#04x}"),
        }
    }

    fn take_data_in(&mut self, command: &mut Command, received: &Received) -> Result<()> {
        let pdu = &received.pdu;
        let data_sn = word(pdu, 36);
        if !received.intact {
            return self.snack((0, command.task), data_sn, 1);
        }
        if data_sn > command.next_data_sn && !command.early.contains_key(&data_sn) {
            let missing = data_sn - command.next_data_sn;
            self.snack((0, command.task), command.next_data_sn, missing)?;
        }
        command.take_data(data_sn, &pdu.data);
        if pdu.header[1] & 1 == 1 {
            self.take_status(pdu)?;
            command.ended = Some((pdu.header[3], data_sn + 1));
        }
        Ok(())
    }

    /// Answers an R2T, unless it came before.
    fn take_r2t(&mut self, command: &mut Command, r2t: &Pdu) -> Result<()> {
        let r2t_sn = word(r2t, 36);
        let expected = command.next_r2t_sn.unwrap_or(r2t_sn);
        if r2t_sn < expected {
            return Ok(());
        }
        if r2t_sn > expected {
            // It comes again with those before it.
            return self.snack((0, command.task), expected, r2t_sn - expected + 1);
        }
        command.next_r2t_sn = Some(r2t_sn + 1);
        let (start, length) = (word(r2t, 40) as usize, word(r2t, 44) as usize);
        let wanted =
            command.data_out.get(start..start + length).context("too much is asked for")?;
        for (number, piece) in wanted.chunks(DATA_OUT_BYTES).enumerate() {
            let offset = start + number * DATA_OUT_BYTES;
            let is_last = offset + piece.len() == start + length;
            let mut pdu = simple(0x05, if is_last { 0x80 } else { 0 });
            pdu.header[16..20].copy_from_slice(&command.task.to_be_bytes());
            pdu.header[20..24].copy_from_slice(&r2t.header[20..24]);
            pdu.header[36..40].copy_from_slice(&u32::try_from(number)?.to_be_bytes());
            pdu.header[40..44].copy_from_slice(&u32::try_from(offset)?.to_be_bytes());
            pdu.data = piece.to_vec();
            self.send(&pdu)?;
        }
        Ok(())
    }

    /// Counts a response; asks for those that are missing before it.
    fn take_status(&mut self, pdu: &Pdu) -> Result<()> {
        let opcode = pdu.header[0] & 0x3f;
        // R2T and pings name the next StatSN without using it up.
        if opcode == 0x31 || (opcode == 0x20 && word(pdu, 16) == NO_TAG) {
            return Ok(());
        }
        let stat_sn = word(pdu, 24);
        let expected = self.expected_status_sequence_number;
        if stat_sn > expected && self.early.insert(stat_sn) {
            self.snack((1, NO_TAG), expected, stat_sn - expected)?;
        }
        if stat_sn == expected {
            self.expected_status_sequence_number += 1;
        }
        while self.early.remove(&self.expected_status_sequence_number) {
            self.expected_status_sequence_number += 1;
        }
        Ok(())
    }

    /// Nothing comes: an R2T may be lost, or a response, which a ping brings to light.
    fn look_for_missing(&mut self, command: &Command) -> Result<()> {
        if let (0x20, Some(expected)) = (command.direction, command.next_r2t_sn) {
            self.snack((0, command.task), expected, 1)?;
        }
        self.send_request(&simple(0x40, 0x80), command.task + 1)
    }

    fn snack(&mut self, (kind, tag): (u8, u32), begin: u32, length: u32) -> Result<()> {
        self.snacks += 1;
        let mut pdu = simple(0x10, 0x80 | kind);
        pdu.header[16..20].copy_from_slice(&tag.to_be_bytes());
        pdu.header[20..24].copy_from_slice(&NO_TAG.to_be_bytes());
        pdu.header[40..44].copy_from_slice(&begin.to_be_bytes());
        pdu.header[44..48].copy_from_slice(&length.to_be_bytes());
        self.send(&pdu)
    }

    /// Sends an immediate request.
    fn send_request(&mut self, pdu: &Pdu, number: u32) -> Result<()> {
        let mut pdu = pdu.clone().numbered(number);
        pdu.header[16..20].copy_from_slice(&OTHER_TAG.to_be_bytes());
        self.send(&pdu)
    }

    fn send(&mut self, pdu: &Pdu) -> Result<()> {
        let mut pdu = pdu.clone();
        pdu.header[28..32].copy_from_slice(&self.expected_status_sequence_number.to_be_bytes());
        let bytes = if self.digests { pdu.bytes_with_digests() } else { pdu.bytes() };
        Ok(self.stream.write_all(&bytes)?)
    }

    /// The next PDU; `None` if nothing comes for a while.
    fn receive(&mut self) -> Result<Option<Received>> {
        let mut header = [0; HEADER_BYTES];
        match self.stream.read(&mut header[..1]) {
            Ok(1) => {}
            Ok(_) => bail!("the target closed the connection"),
            Err(error) if is_timeout(error.kind()) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        self.stream.read_exact(&mut header[1..])?;
        ensure!(self.is_digest_right(&header)?, "wrong header digest");
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; length.next_multiple_of(4)];
        self.stream.read_exact(&mut data)?;
        let intact = length == 0 || self.is_digest_right(&data)?;
        data.truncate(length);
        Ok(Some(Received { pdu: Pdu { header, additional: Vec::new(), data }, intact }))
    }

    fn is_digest_right(&mut self, bytes: &[u8]) -> Result<bool> {
        if !self.digests {
            return Ok(true);
        }
        let mut digest = [0; 4];
        self.stream.read_exact(&mut digest)?;
        Ok(digest == crc32c::crc32c(bytes).to_le_bytes())
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
