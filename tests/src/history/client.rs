//! A client that does one thing after the other to a few blocks, and writes down what it saw.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::paths::is_not_ready;
use super::{Action, Block, Event, Value};
use crate::pdu::{Answer, Pdu, RawConnection, RawSession, cdb16};
use crate::random::Random;

const BLOCK_BYTES: usize = 512;

/// Most blocks of one command; the data of a COMPARE AND WRITE of half as many is all immediate.
const BLOCKS_MAX: u64 = 8;

/// Where the clients meet.
#[derive(Clone, Debug)]
pub struct Arena {
    /// The portals; one of each controller. Where there are several, a client looks for the one that serves, and
    /// leaves one that does not answer, or says that it does not serve.
    pub portals: Vec<SocketAddr>,
    /// The target's iSCSI name.
    pub target: String,
    /// LUN numbers and NAA designators.
    pub luns: Vec<(u8, Vec<u8>)>,
    /// Blocks of each LUN that are used.
    pub blocks: u64,
    /// What all clients tell the time by.
    pub start: Instant,
    /// Whether the pool is full, so that copies may be refused for want of space.
    pub full: bool,
    /// What others may look at meanwhile.
    pub watch: Arc<Watch>,
}

/// What happens while the clients are at work.
#[derive(Debug, Default)]
pub struct Watch {
    /// The longest time from a command to its answer, or to that of a later one if it was lost on its path, since
    /// somebody took it; nanoseconds.
    longest: AtomicU64,
    /// Rounds that were checked.
    rounds: AtomicU64,
    /// Blocks whose operations did not fit together.
    findings: AtomicU64,
}

impl Watch {
    pub(super) fn answered_after(&self, time: Duration) {
        self.longest.fetch_max(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The longest time from a command to its answer since this was called last.
    pub fn take_longest(&self) -> Duration {
        Duration::from_nanos(self.longest.swap(0, Ordering::Relaxed))
    }

    /// How many rounds were checked, and in how many blocks something did not fit.
    pub fn checked(&self) -> (u64, u64) {
        (self.rounds.load(Ordering::Acquire), self.findings.load(Ordering::Acquire))
    }

    pub(super) fn round_checked(&self, findings: u64) {
        self.findings.fetch_add(findings, Ordering::Release);
        self.rounds.fetch_add(1, Ordering::Release);
    }
}

impl Arena {
    /// LUNs of an array, of which so many blocks are used.
    ///
    /// # Errors
    /// When the array does not tell their names.
    pub fn of(portals: Vec<SocketAddr>, target: String, luns: &[u8], blocks: u64) -> Result<Self> {
        let portal = *portals.first().context("a portal")?;
        let mut session = RawSession::log_in(portal, "iqn.2026-01.org.example:look", &target)?;
        let mut named = Vec::new();
        for &lun in luns {
            let page = session.read(lun, &[0x12, 1, 0x83, 1, 0, 0], 256)?.good()?;
            ensure!(page[4..8] == [1, 3, 0, 16], "the first designator is the NAA name");
            named.push((lun, page[8..24].to_vec()));
        }
        let (start, watch) = (Instant::now(), Arc::default());
        Ok(Self { portals, target, luns: named, blocks, start, full: false, watch })
    }

    pub(super) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// What a client does to a command that it has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It waits for the answer.
    Wait,
    /// It sends ABORT TASK at once.
    Abort,
    /// It drops the connection.
    Drop,
}

/// How a command ended.
enum CommandEnd {
    Answered(Answer),
    /// It was aborted, here or by a reset; nothing of it happens any more.
    Aborted,
    /// Nobody knows.
    Lost,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Commands with an answer.
    pub answered: u64,
    /// COMPARE AND WRITE commands that succeeded.
    pub swapped: u64,
    /// COMPARE AND WRITE commands that did not.
    pub differed: u64,
    /// Commands that were aborted.
    pub aborted: u64,
    /// Logical unit resets.
    pub resets: u64,
    /// Connections that were dropped.
    pub dropped: u64,
    /// Commands that were answered BUSY or TASK SET FULL.
    pub refused: u64,
    /// EXTENDED COPYs for which a full pool had no space.
    pub without_space: u64,
}

/// A client with a session of its own.
pub struct Client {
    pub(super) number: u64,
    run: u64,
    pub(super) arena: Arena,
    pub(super) connection: Option<RawConnection>,
    /// Number of the portal that it is, or was, connected to.
    pub(super) path: usize,
    /// When it sent the first command that has no answer.
    pub(super) waits_since: Option<Instant>,
    /// Numbers of events of which nobody knows yet when they could no longer happen, each with its path.
    pub(super) open_ended: Vec<(usize, usize)>,
    pub(super) command_sequence_number: u32,
    random: Random,
    writes: u64,
    /// What this client saw last.
    seen: HashMap<Block, Value>,
    /// What it wrote down and nobody took yet.
    pub events: Vec<Event>,
    /// What it did.
    pub counts: Counts,
}

impl Client {
    /// A client that has no session yet. Runs that follow each other on the same blocks have seeds
    /// with different lowest bytes, which are in what they write.
    pub fn new(number: u64, seed: u64, arena: Arena) -> Self {
        Self {
            number,
            run: seed & 0xff,
            arena,
            connection: None,
            path: 0,
            waits_since: None,
            open_ended: Vec::new(),
            command_sequence_number: 0,
            random: Random::new(seed ^ number << 32),
            writes: 0,
            seen: HashMap::new(),
            events: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Does one thing.
    ///
    /// # Errors
    /// When the target does not answer as it should.
    pub fn act(&mut self) -> Result<()> {
        let at = self.place();
        match self.random.below(100) {
            0..30 => self.read(at).map(drop),
            30..50 => self.write(at),
            50..68 => self.compare_and_write(at),
            68..76 => self.write_same(at),
            76..84 => self.unmap(at),
            84..99 => self.copy(at),
            _ if self.random.below(10) == 0 => self.reset_some_unit(),
            _ => self.read(at).map(drop),
        }
    }

    fn place(&mut self) -> (Block, usize) {
        let lun = self.arena.luns[self.random.below(self.arena.luns.len() as u64) as usize].0;
        let count = 1 + self.random.below(BLOCKS_MAX);
        let lba = self.random.below(self.arena.blocks - count + 1);
        (Block { lun, lba }, count as usize)
    }

    fn fate(&mut self) -> Fate {
        match self.random.below(100) {
            0..3 => Fate::Abort,
            3 => Fate::Drop,
            _ => Fate::Wait,
        }
    }

    fn new_value(&mut self) -> Value {
        self.writes += 1;
        self.run << 56 | (self.number + 1) << 40 | self.writes
    }

    /// READ (16); returns what was found, unless it was not answered.
    fn read(&mut self, (at, count): (Block, usize)) -> Result<Option<Vec<Value>>> {
        let cdb = cdb16(0x88, 0, at.lba, count as u32);
        self.ensure_path()?;
        let invoked = self.arena.now();
        let length = (count * BLOCK_BYTES) as u32;
        let pdu = |task| Pdu::command(task, at.lun, &cdb, 0x40, length);
        let CommandEnd::Answered(answer) = self.run(pdu, at.lun, Fate::Wait)? else {
            return Ok(None);
        };
        let Some(answer) = self.executed(answer) else { return Ok(None) };
        let data = answer.good()?;
        ensure!(data.len() == length as usize, "{} bytes of {length}", data.len());
        let values = data.chunks(BLOCK_BYTES).map(value_of).collect::<Result<Vec<_>>>()?;
        for (offset, value) in values.iter().enumerate() {
            self.seen.insert(at.plus(offset), *value);
        }
        self.note(invoked, true, Action::Read { at, values: values.clone() });
        Ok(Some(values))
    }

    fn write(&mut self, (at, count): (Block, usize)) -> Result<()> {
        let value = self.new_value();
        let cdb = cdb16(0x8a, 0, at.lba, count as u32);
        let data = content(value, count);
        self.change(at.lun, &cdb, data, Action::Write { at, count, value })
    }

    fn write_same(&mut self, (at, count): (Block, usize)) -> Result<()> {
        let value = self.new_value();
        let cdb = cdb16(0x93, 0, at.lba, count as u32);
        self.change(at.lun, &cdb, content(value, 1), Action::Write { at, count, value })
    }

    fn unmap(&mut self, (at, count): (Block, usize)) -> Result<()> {
        let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
        list.extend(at.lba.to_be_bytes());
        list.extend((count as u32).to_be_bytes());
        list.extend([0; 4]);
        let cdb = [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0];
        self.change(at.lun, &cdb, list, Action::Write { at, count, value: 0 })
    }

    fn copy(&mut self, (from, count): (Block, usize)) -> Result<()> {
        let (to, _) = self.place();
        let to = Block { lba: to.lba.min(self.arena.blocks - count as u64), ..to };
        let list = copy_list(&self.arena, from, to, count as u16)?;
        let cdb = cdb16(0x83, 0, 0, list.len() as u32);
        self.change(to.lun, &cdb, list, Action::Copy { from, to, count })
    }

    /// COMPARE AND WRITE, of what was just read or of what was seen some time ago.
    fn compare_and_write(&mut self, (at, count): (Block, usize)) -> Result<()> {
        let count = count.div_ceil(2);
        if self.random.below(3) > 0 {
            self.read((at, count))?;
        }
        let known = |offset| self.seen.get(&at.plus(offset)).copied().unwrap_or(0);
        let expected: Vec<Value> = (0..count).map(known).collect();
        let value = self.new_value();
        let mut data: Vec<u8> = expected.iter().flat_map(|value| content(*value, 1)).collect();
        data.extend(content(value, count));
        let mut cdb = cdb16(0x89, 0, at.lba, 0);
        cdb[13] = count as u8;
        self.change(at.lun, &cdb, data, Action::Swap { at, expected, value })
    }

    /// Sends a command that changes blocks, and writes down what became of it.
    fn change(&mut self, lun: u8, cdb: &[u8], data: Vec<u8>, action: Action) -> Result<()> {
        let fate = self.fate();
        self.ensure_path()?;
        let (invoked, sent_on) = (self.arena.now(), self.path);
        let pdu = |task| {
            let mut pdu = Pdu::command(task, lun, cdb, 0x20, data.len() as u32);
            pdu.data = data.clone();
            pdu
        };
        match self.run(pdu, lun, fate)? {
            CommandEnd::Answered(answer) => {
                if let Some(answer) = self.executed(answer) {
                    self.note_answer(invoked, action, answer)?;
                }
            }
            CommandEnd::Aborted => {
                self.counts.aborted += 1;
                self.note(invoked, false, action);
            }
            CommandEnd::Lost => {
                self.counts.dropped += 1;
                self.note(invoked, false, action);
                self.events.last_mut().expect("it was just noted").returned = u64::MAX;
                self.open_ended.push((self.events.len() - 1, sent_on));
            }
        }
        Ok(())
    }

    fn note_answer(&mut self, invoked: u64, action: Action, answer: Answer) -> Result<()> {
        const OUT_OF_SPACE: Option<(u8, u8, u8)> = Some((7, 0x27, 7));
        let is_copy = matches!(action, Action::Copy { .. });
        if self.arena.full && is_copy && answer.code() == OUT_OF_SPACE {
            self.counts.without_space += 1;
            self.note(invoked, false, action);
            return Ok(());
        }
        if answer.code() != Some((14, 0x1d, 0)) {
            answer.good().with_context(|| format!("{action:?}"))?;
            self.counts.swapped += u64::from(matches!(action, Action::Swap { .. }));
            self.note(invoked, true, action);
            return Ok(());
        }
        let Action::Swap { at, expected, .. } = action else { bail!("{action:?} miscompared") };
        let offset = answer.sense[3..7].try_into().context("sense data of fixed format")?;
        let first = u32::from_be_bytes(offset) as usize / BLOCK_BYTES;
        ensure!(first < expected.len(), "a miscompare behind the compared data");
        self.counts.differed += 1;
        self.note(invoked, true, Action::Differs { at, expected, first });
        Ok(())
    }

    fn note(&mut self, invoked: u64, certain: bool, action: Action) {
        let returned = self.arena.now();
        self.events.push(Event { invoked, returned, certain, action });
    }

    fn reset_some_unit(&mut self) -> Result<()> {
        let lun = self.place().0.lun;
        self.counts.resets += 1;
        self.reset(lun)
    }

    /// LOGICAL UNIT RESET: afterwards nothing that was sent before happens any more.
    ///
    /// # Errors
    /// When it does not succeed.
    pub fn reset(&mut self, lun: u8) -> Result<()> {
        loop {
            self.ensure_path()?;
            match self.reset_here(lun) {
                Err(error) if self.has_other_paths() => self.leave_path(error)?,
                outcome => return outcome,
            }
        }
    }

    fn reset_here(&mut self, lun: u8) -> Result<()> {
        const LOGICAL_UNIT_RESET: u8 = 5;
        let pdu = self.task_management(LOGICAL_UNIT_RESET, lun, u32::MAX);
        let connection = self.connection.as_mut().context("a session")?;
        connection.send(&pdu.bytes())?;
        loop {
            let pdu = connection.receive()?.context("the target closed the connection")?;
            if pdu.header[0] & 0x3f == 0x22 {
                ensure!(pdu.header[2] == 0, "LOGICAL UNIT RESET: response {}", pdu.header[2]);
                return Ok(());
            }
        }
    }

    /// Reads every block, without fail.
    ///
    /// # Errors
    /// When the target does not answer as it should.
    pub fn read_all(&mut self) -> Result<()> {
        for (lun, _) in self.arena.luns.clone() {
            for lba in (0..self.arena.blocks).step_by(BLOCKS_MAX as usize) {
                let count = BLOCKS_MAX.min(self.arena.blocks - lba) as usize;
                while self.read((Block { lun, lba }, count))?.is_none() {}
            }
        }
        Ok(())
    }

    fn task_management(&self, function: u8, lun: u8, referenced: u32) -> Pdu {
        let mut header = [0; crate::pdu::HEADER_BYTES];
        header[..2].copy_from_slice(&[0x42, 0x80 | function]);
        header[9] = lun;
        header[16..20].copy_from_slice(&0x8000_0000_u32.to_be_bytes());
        header[20..24].copy_from_slice(&referenced.to_be_bytes());
        header[24..28].copy_from_slice(&self.command_sequence_number.to_be_bytes());
        header[32..36].copy_from_slice(&referenced.to_be_bytes());
        Pdu { header, additional: Vec::new(), data: Vec::new() }
    }

    /// Ends the session, if there is one. Who waits for others answers no pings, so that the target
    /// is free to do the same.
    pub fn forget_session(&mut self) {
        (self.connection, self.waits_since) = (None, None);
        self.open_ended.clear();
    }

    /// The answer, unless the command was not carried out: it brought a unit attention, or the
    /// target was busy.
    fn executed(&mut self, answer: Answer) -> Option<Answer> {
        const BUSY: u8 = 0x08;
        const TASK_SET_FULL: u8 = 0x28;
        let is_attention = answer.code().is_some_and(|(key, ..)| key == 6);
        let is_refused = [BUSY, TASK_SET_FULL].contains(&answer.status);
        self.counts.refused += u64::from(is_refused);
        (!is_attention && !is_refused).then_some(answer)
    }

    /// Runs a command on the path that it has.
    fn run(&mut self, pdu: impl Fn(u32) -> Pdu, lun: u8, fate: Fate) -> Result<CommandEnd> {
        self.waits_since.get_or_insert_with(Instant::now);
        let reason = match self.run_here(pdu, lun, fate) {
            Ok(CommandEnd::Answered(answer)) if self.has_other_paths() && is_not_ready(&answer) => {
                anyhow!("sense data {:02x?}", answer.sense)
            }
            Err(error) if self.has_other_paths() => error,
            Ok(CommandEnd::Lost) => {
                self.waits_since = None;
                return Ok(CommandEnd::Lost);
            }
            outcome => {
                self.is_answered();
                return outcome;
            }
        };
        self.leave_path(reason)?;
        Ok(CommandEnd::Lost)
    }

    /// The same, of a command that is not aborted.
    pub(super) fn run_to_answer(&mut self, pdu: impl Fn(u32) -> Pdu, lun: u8) -> Result<Answer> {
        match self.run_here(pdu, lun, Fate::Wait)? {
            CommandEnd::Answered(answer) => Ok(answer),
            CommandEnd::Aborted | CommandEnd::Lost => bail!("it was aborted"),
        }
    }

    fn run_here(&mut self, pdu: impl Fn(u32) -> Pdu, lun: u8, fate: Fate) -> Result<CommandEnd> {
        const ABORT_TASK: u8 = 1;
        let task = self.command_sequence_number;
        let mut bytes = pdu(task).numbered(task).bytes();
        self.command_sequence_number += 1;
        if fate == Fate::Abort {
            bytes.extend(self.task_management(ABORT_TASK, lun, task).bytes());
        }
        let mut connection = self.connection.take().context("a session")?;
        connection.send(&bytes)?;
        if fate == Fate::Drop {
            return Ok(CommandEnd::Lost);
        }
        let outcome = collect(&mut connection, fate)?;
        self.connection = Some(connection);
        self.counts.answered += u64::from(matches!(outcome, CommandEnd::Answered(_)));
        Ok(outcome)
    }
}

/// Waits for the answer to a command, and to the ABORT TASK behind it.
fn collect(connection: &mut RawConnection, fate: Fate) -> Result<CommandEnd> {
    const TASK_ABORTED: u8 = 0x40;
    let mut data = Vec::new();
    let mut outcome = None;
    let mut waits_for_abort = fate == Fate::Abort;
    while waits_for_abort || outcome.is_none() {
        let pdu = connection.receive()?.context("the target closed the connection")?;
        let (status, has_status) = (pdu.header[3], pdu.header[1] & 1 != 0);
        match pdu.header[0] & 0x3f {
            0x25 => {
                data.extend(&pdu.data);
                if has_status {
                    let data = std::mem::take(&mut data);
                    outcome =
                        Some(CommandEnd::Answered(Answer { status, data, sense: Vec::new() }));
                }
            }
            0x21 if status == TASK_ABORTED => outcome = Some(CommandEnd::Aborted),
            0x21 => {
                let sense = pdu.data.get(2..).unwrap_or_default().to_vec();
                let data = std::mem::take(&mut data);
                outcome = Some(CommandEnd::Answered(Answer { status, data, sense }));
            }
            0x22 => {
                ensure!(pdu.header[2] <= 1, "ABORT TASK: response {}", pdu.header[2]);
                waits_for_abort = false;
                outcome = outcome.or(Some(CommandEnd::Aborted));
            }
            0x20 => {}
            other => bail!("unexpected PDU {other:02x}h"),
        }
    }
    outcome.context("an outcome")
}

/// Blocks full of a value.
fn content(value: Value, blocks: usize) -> Vec<u8> {
    value.to_be_bytes().repeat(blocks * BLOCK_BYTES / 8)
}

/// The value that a block is full of.
fn value_of(block: &[u8]) -> Result<Value> {
    let (words, _) = block.as_chunks::<8>();
    let first = words.first().context("an empty block")?;
    ensure!(words.iter().all(|word| word == first), "a block that is torn: {block:02x?}");
    Ok(u64::from_be_bytes(*first))
}

/// EXTENDED COPY (LID1) without a list identifier, as ESXi sends it.
fn copy_list(arena: &Arena, from: Block, to: Block, count: u16) -> Result<Vec<u8>> {
    let mut list = vec![0; 16];
    (list[1], list[3], list[11]) = (0x18, 64, 28);
    for block in [from, to] {
        let found = arena.luns.iter().find(|(lun, _)| *lun == block.lun);
        let (_, naa) = found.context("a LUN of the arena")?;
        let mut descriptor = [0; 32];
        descriptor[0] = 0xe4;
        descriptor[4..8].copy_from_slice(&[1, 3, 0, 16]);
        descriptor[8..24].copy_from_slice(naa);
        list.extend(descriptor);
    }
    let mut segment = [0; 28];
    segment[..8].copy_from_slice(&[0x02, 0, 0, 0x18, 0, 0, 0, 1]);
    segment[10..12].copy_from_slice(&count.to_be_bytes());
    segment[12..20].copy_from_slice(&from.lba.to_be_bytes());
    segment[20..28].copy_from_slice(&to.lba.to_be_bytes());
    list.extend(segment);
    Ok(list)
}
