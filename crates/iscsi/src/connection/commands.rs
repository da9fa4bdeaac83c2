//! SCSI command PDUs: command arrival, Data-Out, and the answer with Data-In, status and residual.

use block::{Buffer, Rope};
use bytes::Bytes;
use sam::TaskAttribute;
use smallvec::SmallVec;

use super::recovery::EarlyData;
use super::{Connection, Question};
use crate::event::{Cdb, Command, Completion, Event};
use crate::limits::IMMEDIATE_TASKS_MAX;
use crate::pdu::{Bhs, FINAL, NO_TAG, RejectReason, response};
use crate::receive::{Destination, Header};
use crate::send::DataIn;
use crate::task::{DataError, DataOut, Task};

/// SAM-5 5.3 status codes that are decided here.
const GOOD: u8 = 0x00;
const CHECK_CONDITION: u8 = 0x02;
const TASK_SET_FULL: u8 = 0x28;

/// The most sense data a response carries (SPC-4 4.5).
const SENSE_MAX: usize = 252;

/// Flags of byte 1 of a SCSI command (RFC 7143 11.3.1).
const READ: u8 = 0x40;
const WRITE: u8 = 0x20;

/// Flags of byte 1 of a response and of a Data-In with status.
const RESIDUAL_OVERFLOW: u8 = 0x04;
const RESIDUAL_UNDERFLOW: u8 = 0x02;
const STATUS: u8 = 0x01;

impl Connection {
    pub(super) fn take_command(&mut self, header: &Header) {
        self.skip_segment(&header.bhs);
        self.take_command_header(header);
    }

    /// A command whose immediate data is about to be met, or was put aside.
    pub(super) fn take_command_header(&mut self, header: &Header) {
        let bhs = &header.bhs;
        if !self.admit(bhs) {
            return;
        }
        match self.check_command(bhs).and_then(|()| parse_ahs(&header.ahs, bhs)) {
            Ok(ahs) => self.begin_command(bhs, ahs),
            Err(reason) => self.reject(bhs, reason),
        }
    }

    /// Whether a command may hold so many bytes more. In its session, one that is alone always may.
    fn has_room(&mut self, length: u64) -> bool {
        if length == 0 {
            return true;
        }
        self.settle();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let memory = self.memory();
        let in_session =
            memory == 0 || memory.saturating_add(length) <= self.config.limits.memory_max;
        in_session && self.charge.share().has_room(length)
    }

    /// SAM-5 5.3.1: after TASK SET FULL the initiator sends it again when fewer commands are under
    /// way.
    pub(super) fn admit_data_in(&mut self, tag: u32, bytes: u64) -> bool {
        let has_room = self.has_room(bytes);
        let Some(task) = self.tasks.get_mut(&tag) else { return false };
        if !has_room {
            let full = Completion { status: TASK_SET_FULL, ..Completion::default() };
            self.answer(tag, full);
            return false;
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        task.memory += bytes;
        self.task_bytes += bytes;
        true
    }

    fn check_command(&self, bhs: &Bhs) -> Result<(), RejectReason> {
        let immediate_length = bhs.data_segment_length() as u32;
        if self.parameters.discovery {
            return Err(RejectReason::ProtocolError);
        }
        if bhs.initiator_task_tag() == NO_TAG {
            return Err(RejectReason::InvalidPduField);
        }
        if self.tasks.contains_key(&bhs.initiator_task_tag()) {
            return Err(RejectReason::TaskInProgress);
        }
        let tasks_max = self.config.limits.tasks_max as usize + IMMEDIATE_TASKS_MAX;
        if self.tasks.len() >= tasks_max {
            return Err(RejectReason::TooManyImmediateCommands);
        }
        let is_write = bhs.flags() & WRITE != 0;
        let immediate_max = bhs.u32(20).min(self.parameters.first_burst_length);
        let may_have_data = is_write && self.parameters.immediate_data;
        if immediate_length > 0 && (!may_have_data || immediate_length > immediate_max) {
            return Err(RejectReason::ProtocolError);
        }
        Ok(())
    }

    fn begin_command(&mut self, bhs: &Bhs, ahs: AdditionalSegments) {
        let (read, write) = (bhs.flags() & READ != 0, bhs.flags() & WRITE != 0);
        let length = bhs.u32(20);
        let tag = bhs.initiator_task_tag();
        let expected_read = ahs.expected_read(bhs);
        let task = Task {
            lun: bhs.lun(),
            arrival: self.arrivals,
            expected_write: if write { length } else { 0 },
            expected_read,
            transfer_length: 0,
            memory: 0,
            data_out: write.then(|| DataOut::new(self.expects_unsolicited(bhs))),
        };
        self.arrivals += 1;
        self.tasks.insert(tag, task);
        // The session counts it from now on; the window does not close by that.
        self.open_window();
        if write {
            self.question = Question::Command(tag);
        }
        self.events.push_back(Event::Command(Command {
            task: tag,
            lun: bhs.lun(),
            attribute: attribute(bhs.flags()),
            cdb: ahs.cdb,
            expected_data_transfer_length: length,
            expected_read_length: expected_read,
            read,
            write,
            immediate: bhs.immediate(),
        }));
    }

    /// Whether unsolicited Data-Out PDUs follow. A command without the final bit whose immediate
    /// data is already all that may come unasked does not leave us waiting.
    fn expects_unsolicited(&self, bhs: &Bhs) -> bool {
        let unsolicited_max = bhs.u32(20).min(self.parameters.first_burst_length);
        !bhs.is_final()
            && !self.parameters.initial_r2t
            && (bhs.data_segment_length() as u32) < unsolicited_max
    }

    pub(super) fn decide_data(&mut self, tag: u32, transfer_length: u32) {
        let is_open = self.question == Question::Command(tag);
        let early = self.early_immediate.take_if(|_| is_open);
        self.answer_question(tag);
        let length_max = self.config.limits.data_out_length_max;
        let expected = self.tasks.get(&tag).map_or(0, |task| task.expected_write);
        let length = transfer_length.min(expected);
        let has_room = self.has_room(length.into());
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        let Some(data_out) = &mut task.data_out else {
            task.transfer_length = transfer_length;
            self.events.push_back(Event::DataOut { task: tag, data: Buffer::for_overwrite(0) });
            return;
        };
        if !data_out.is_undecided() {
            return;
        }
        if length > length_max {
            // ILLEGAL REQUEST, INVALID FIELD IN CDB.
            self.fail(tag, CHECK_CONDITION, fixed_sense(0x05, [0x24, 0x00]));
        } else if !has_room {
            self.fail(tag, TASK_SET_FULL, Vec::new());
        } else {
            data_out.accept(length);
            task.transfer_length = transfer_length;
            task.memory += length as usize;
            self.task_bytes += length as usize;
            match early {
                Some(early) => self.copy_immediate_data(tag, &early),
                None => self.collect_immediate_data(tag),
            }
        }
    }

    /// The immediate data of a command that was put aside is there already.
    fn copy_immediate_data(&mut self, tag: u32, early: &EarlyData) {
        let Some(data_out) = self.tasks.get_mut(&tag).and_then(|task| task.data_out.as_mut())
        else {
            return;
        };
        let mut destination = data_out.place_immediate(early.data.len() as u32);
        if let Destination::Buffer { buffer, offset, take } = &mut destination {
            buffer[*offset..*offset + *take].copy_from_slice(&early.data[..*take]);
        }
        self.finish_immediate_data(&early.bhs, destination, early.intact);
    }

    /// The owner has said what is to become of a write command; parsing goes on.
    fn answer_question(&mut self, tag: u32) {
        if self.question == Question::Command(tag) {
            self.question = Question::None;
            self.early_immediate = None;
        }
    }

    /// Directs the immediate data, which the parser is about to meet, into the buffer.
    fn collect_immediate_data(&mut self, tag: u32) {
        let Some(bhs) = self.receiver.undivided_segment() else {
            self.advance_data_out(tag);
            return;
        };
        let length = bhs.data_segment_length() as u32;
        if let Some(data_out) = self.tasks.get_mut(&tag).and_then(|task| task.data_out.as_mut()) {
            self.receiver.redirect(data_out.place_immediate(length));
        }
    }

    pub(super) fn finish_immediate_data(
        &mut self,
        bhs: &Bhs,
        destination: Destination,
        intact: bool,
    ) {
        let tag = bhs.initiator_task_tag();
        let Some(data_out) = self.tasks.get_mut(&tag).and_then(|task| task.data_out.as_mut())
        else {
            return;
        };
        if intact {
            data_out.finish_immediate(destination, bhs.data_segment_length() as u32);
        } else {
            data_out.restore(destination);
            self.reject(bhs, RejectReason::DataDigestError);
            self.recover_data(tag, DataError::ProtocolServiceCrc);
        }
        self.advance_data_out(tag);
    }

    pub(super) fn take_data_out(&mut self, bhs: &Bhs) {
        let tag = bhs.initiator_task_tag();
        let Some(task) = self.tasks.get_mut(&tag) else {
            // The command was answered or aborted while this was on its way.
            self.skip_segment(bhs);
            return;
        };
        let Some(data_out) = &mut task.data_out else {
            self.skip_segment(bhs);
            self.reject(bhs, RejectReason::ProtocolError);
            return;
        };
        let placed = data_out.place(bhs, task.expected_write, &self.parameters);
        let destination = placed.unwrap_or_else(|error| {
            self.recover_data(tag, error);
            Destination::Discard
        });
        if bhs.data_segment_length() > 0 {
            self.receiver.begin_segment(*bhs, destination);
        } else {
            self.finish_data_out(bhs, destination, true);
        }
    }

    pub(super) fn finish_data_out(&mut self, bhs: &Bhs, destination: Destination, intact: bool) {
        let tag = bhs.initiator_task_tag();
        if !intact {
            self.reject(bhs, RejectReason::DataDigestError);
            self.recover_data(tag, DataError::ProtocolServiceCrc);
        }
        if let Some(data_out) = self.tasks.get_mut(&tag).and_then(|task| task.data_out.as_mut()) {
            data_out.finish(bhs, destination);
            self.advance_data_out(tag);
        }
    }

    /// Hands complete data over, sends a held answer, or asks for more data.
    pub(super) fn advance_data_out(&mut self, tag: u32) {
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        let Some(data_out) = &mut task.data_out else { return };
        if let Some(data) = data_out.take_complete() {
            self.events.push_back(Event::DataOut { task: tag, data });
        }
        if let Some(completion) = data_out.release() {
            self.finish_command(tag, completion);
            return;
        }
        self.ask_for_data(tag);
    }

    fn ask_for_data(&mut self, tag: u32) {
        loop {
            let transfer_tag = self.new_transfer_tag();
            let Some(task) = self.tasks.get_mut(&tag) else { return };
            let Some(data_out) = &mut task.data_out else { return };
            let Some(r2t) = data_out.next_ready_to_transfer(transfer_tag, &self.parameters) else {
                return;
            };
            let mut bhs = Bhs::response(response::R2T, tag);
            bhs.set_lun(task.lun);
            bhs.set_u32(20, r2t.target_transfer_tag);
            bhs.set_u32(36, r2t.r2t_sn);
            bhs.set_u32(40, r2t.offset);
            bhs.set_u32(44, r2t.end - r2t.offset);
            self.open_window();
            self.numbers.stamp(&mut bhs);
            self.send_kept(bhs, Rope::new(), None);
        }
    }

    /// RFC 7143 7.8: at error recovery level 1 data that was lost or damaged is asked for again; at
    /// level 0, or when the initiator sent what it should not, the command ends.
    fn recover_data(&mut self, tag: u32, error: DataError) {
        let is_lost = error == DataError::ProtocolServiceCrc;
        let recovers = is_lost && self.parameters.error_recovery_level > 0;
        let data_out = self.tasks.get_mut(&tag).and_then(|task| task.data_out.as_mut());
        match data_out {
            Some(data_out) if recovers && data_out.may_recover() => data_out.begin_recovery(),
            _ => self.fail_collecting(tag, error),
        }
    }

    /// RFC 7143 11.4.7.2: ends a command whose data went wrong; does nothing if its data is no
    /// longer being collected.
    fn fail_collecting(&mut self, tag: u32, error: DataError) {
        if self.tasks.get(&tag).is_some_and(Task::is_collecting) {
            self.fail(tag, CHECK_CONDITION, fixed_sense(0x0b, error.additional_sense()));
        }
    }

    /// Ends a command from here; the owner learns that it was aborted.
    fn fail(&mut self, tag: u32, status: u8, sense: Vec<u8>) {
        self.events.push_back(Event::Aborted { task: tag });
        self.answer(tag, Completion { status, sense, ..Completion::default() });
    }

    pub(super) fn abort_collecting_where(&mut self, covers: impl Fn(&Task) -> bool) {
        let collecting = self.tasks.iter().filter(|(_, task)| task.is_collecting() && covers(task));
        let mut tags: Vec<u32> = collecting.map(|(&tag, _)| tag).collect();
        tags.sort_unstable();
        for tag in tags {
            self.remove_task(tag);
            self.events.push_back(Event::Aborted { task: tag });
        }
    }

    pub(super) fn remove_task(&mut self, tag: u32) -> Option<Task> {
        self.answer_question(tag);
        let task = self.tasks.remove(&tag)?;
        if self.parameters.error_recovery_level > 0 {
            self.remember_sent();
            self.history.forget_task(tag);
        }
        self.task_bytes -= task.memory;
        Some(task)
    }

    pub(super) fn answer(&mut self, tag: u32, completion: Completion) {
        self.answer_question(tag);
        let Some(task) = self.tasks.get_mut(&tag) else { return };
        if let Some(data_out) = &mut task.data_out {
            data_out.give_up();
            if data_out.is_open() {
                data_out.hold(completion);
                return;
            }
        }
        self.finish_command(tag, completion);
    }

    fn finish_command(&mut self, tag: u32, completion: Completion) {
        let Some(task) = self.remove_task(tag) else { return };
        self.open_window();
        let outcome = Residuals::new(&task, &completion);
        let collapse =
            completion.status == GOOD && completion.sense.is_empty() && task.data_out.is_none();
        let length = completion.data_in.len().min(task.expected_read as usize);
        let data = if length == completion.data_in.len() {
            completion.data_in.clone()
        } else {
            completion.data_in.slice(0, length)
        };
        let data_in_pdus = self.send_data_in(tag, data, (0, 0), collapse.then_some(&outcome));
        if !(collapse && data_in_pdus > 0) {
            let r2ts = task.data_out.as_ref().map_or(0, DataOut::ready_to_transfers);
            self.send_response(tag, &completion, &outcome, data_in_pdus + r2ts);
        }
    }

    /// Sends data in sequences of MaxBurstLength, from a DataSN and a buffer offset on; returns the
    /// DataSN after the last. With an outcome, the last PDU carries it as status GOOD (RFC 7143
    /// 11.7.3). The PDUs are made as they are sent.
    pub(super) fn send_data_in(
        &mut self,
        tag: u32,
        data: Rope,
        start: (u32, usize),
        outcome: Option<&Residuals>,
    ) -> u32 {
        if data.is_empty() {
            return start.0;
        }
        let mut first = Bhs::response(response::DATA_IN, tag);
        first.set_u32(20, NO_TAG);
        self.numbers.stamp_window(&mut first);
        let mut stat_sn = None;
        let last = outcome.map(|outcome| {
            let mut last = first;
            last.0[1] = FINAL | STATUS | outcome.residual.flag;
            last.set_u32(44, outcome.residual.count);
            stat_sn = Some(self.numbers.stamp_status(&mut last));
            last
        });
        let data_in = DataIn {
            first,
            data,
            segment_max: self.parameters.initiator_max_recv_data_segment_length as usize,
            burst_max: self.parameters.max_burst_length as usize,
            last,
            start,
            kept: self.parameters.error_recovery_level > 0,
            stat_sn,
        };
        let next_data_sn = start.0 + data_in.pdus();
        self.send.push_data_in(data_in);
        next_data_sn
    }

    fn send_response(
        &mut self,
        tag: u32,
        completion: &Completion,
        outcome: &Residuals,
        exp_data_sn: u32,
    ) {
        let mut bhs = Bhs::response(response::SCSI_RESPONSE, tag);
        bhs.0[1] |= outcome.residual.flag | outcome.read_residual.flag << 2;
        bhs.0[3] = completion.status;
        bhs.set_u32(36, exp_data_sn);
        bhs.set_u32(40, outcome.read_residual.count);
        bhs.set_u32(44, outcome.residual.count);
        self.send_status(bhs, sense_segment(&completion.sense));
    }
}

/// A residual count and which way it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Residual {
    flag: u8,
    count: u32,
}

impl Residual {
    /// RFC 7143 11.4.5: `expected` is the initiator's word, `actual` what the command moves.
    fn new(expected: u32, actual: u32) -> Self {
        match expected.cmp(&actual) {
            std::cmp::Ordering::Equal => Self::default(),
            std::cmp::Ordering::Less => Self { flag: RESIDUAL_OVERFLOW, count: actual - expected },
            std::cmp::Ordering::Greater => {
                Self { flag: RESIDUAL_UNDERFLOW, count: expected - actual }
            }
        }
    }
}

/// The residuals of a command.
pub(super) struct Residuals {
    residual: Residual,
    /// The other direction of a bidirectional command.
    read_residual: Residual,
}

impl Residuals {
    fn new(task: &Task, completion: &Completion) -> Self {
        let data_in = (completion.data_in.len() as u64).saturating_add(completion.withheld);
        let data_in = u32::try_from(data_in).unwrap_or(u32::MAX);
        if task.data_out.is_none() {
            let actual = data_in.saturating_add(task.transfer_length);
            let residual = Residual::new(task.expected_read, actual);
            return Self { residual, read_residual: Residual::default() };
        }
        Self {
            residual: Residual::new(task.expected_write, task.transfer_length),
            read_residual: Residual::new(task.expected_read, data_in),
        }
    }
}

/// RFC 7143 11.4.7: sense length, then sense data.
fn sense_segment(sense: &[u8]) -> Rope {
    if sense.is_empty() {
        return Rope::new();
    }
    let sense = &sense[..sense.len().min(SENSE_MAX)];
    let mut segment = Vec::with_capacity(2 + sense.len());
    segment.extend_from_slice(&(sense.len() as u16).to_be_bytes());
    segment.extend_from_slice(sense);
    Rope::from(Bytes::from(segment))
}

/// SPC-4 4.5.3: current error in fixed format.
fn fixed_sense(sense_key: u8, [asc, ascq]: [u8; 2]) -> Vec<u8> {
    vec![0x70, 0, sense_key, 0, 0, 0, 0, 10, 0, 0, 0, 0, asc, ascq, 0, 0, 0, 0]
}

/// Content of the additional header segments of a command.
struct AdditionalSegments {
    cdb: Cdb,
    expected_read_length: u32,
}

impl AdditionalSegments {
    /// How much Data-In the initiator is ready to take.
    fn expected_read(&self, bhs: &Bhs) -> u32 {
        match (bhs.flags() & READ != 0, bhs.flags() & WRITE != 0) {
            (true, false) => bhs.u32(20),
            (true, true) => self.expected_read_length,
            _ => 0,
        }
    }
}

/// RFC 7143 11.2.2: extended CDB and bidirectional expected read-data length.
fn parse_ahs(mut ahs: &[u8], bhs: &Bhs) -> Result<AdditionalSegments, RejectReason> {
    let mut cdb = SmallVec::from_slice(&bhs.0[32..48]);
    let mut expected_read_length = 0;
    while let [high, low, kind, rest @ ..] = ahs {
        // The length counts what follows the type, a reserved byte included.
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let content = rest.get(1..length).ok_or(RejectReason::InvalidPduField)?;
        match (kind & 0x3f, content) {
            (1, content) if cdb.len() == 16 => cdb.extend_from_slice(content),
            (2, &[a, b, c, d]) => expected_read_length = u32::from_be_bytes([a, b, c, d]),
            _ => return Err(RejectReason::InvalidPduField),
        }
        let padded = (3 + length).next_multiple_of(4) - 3;
        ahs = rest.get(padded..).unwrap_or_default();
    }
    if cdb.len() > 260 {
        return Err(RejectReason::InvalidPduField);
    }
    Ok(AdditionalSegments { cdb: Cdb(cdb), expected_read_length })
}

/// SAM-5 8.9; RFC 7143 11.3.1: the other codes are reserved and mean the default.
fn attribute(flags: u8) -> TaskAttribute {
    match flags & 7 {
        2 => TaskAttribute::Ordered,
        3 => TaskAttribute::HeadOfQueue,
        4 => TaskAttribute::Aca,
        _ => TaskAttribute::Simple,
    }
}
