//! The command table: one row per command, by ascending operation code and service action.

use super::{
    cache, capacity, compare_and_write, copy_results, extended_copy, inquiry, lba_status, log,
    mode, mode_select, or_write, persistent_reserve_in, persistent_reserve_out, reserve, sanitize,
    supported_opcodes, target_port_groups, timestamp, token, transfer, unmap, verify, write_atomic,
    write_same,
};
use crate::cdb::{CDB_BYTES, Cdb, VARIABLE_LENGTH};
use crate::command::Medium::{Keeps, Writes};
use crate::command::Ordering::{Alone, CompareAndWrite, Immediate, Reserve, Simple};
use crate::command::Reservation::{Allowed, Asks, Conflicts, Legacy, Persistent, Reads};
use crate::command::Scope::{AnyLun, LogicalUnit};
use crate::command::{Handler, Medium, Ordering, Reservation, Row, Scope};
use crate::identity::Identity;
use crate::limits::{PARAMETER_LIST_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::sense::{self, Sense};
use crate::work::{self, Asked, Work};

/// Most bytes that any command takes from the initiator.
pub(crate) const DATA_OUT_MAX: u64 = TRANSFER_BYTES_MAX;

/// Operation codes of the copy manager.
pub(crate) const EXTENDED_COPY: u8 = 0x83;
pub(crate) const RECEIVE_COPY_RESULTS: u8 = 0x84;

/// Operation code of SANITIZE.
pub(crate) const SANITIZE: u8 = 0x48;
pub(crate) const REPORT_LUNS: u8 = 0xa0;

type Length = fn(&Cdb, u64) -> u64;
type Traits = (Medium, Reservation, Ordering, Scope);

const READS: Traits = (Keeps, Reads, Simple, LogicalUnit);
const ORDERS: Traits = (Keeps, Conflicts, Simple, LogicalUnit);
const WRITES: Traits = (Writes, Conflicts, Simple, LogicalUnit);
const ERASES: Traits = (Writes, Conflicts, Alone, LogicalUnit);
const LOCKS: Traits = (Writes, Conflicts, CompareAndWrite, LogicalUnit);
const RESERVES: Traits = (Keeps, Legacy, Reserve, LogicalUnit);
const REGISTERS: Traits = (Keeps, Persistent, Reserve, LogicalUnit);
const TELLS_REGISTRATIONS: Traits = (Keeps, Persistent, Immediate, LogicalUnit);
const SELECTS: Traits = (Keeps, Conflicts, Reserve, LogicalUnit);
const ASKS: Traits = (Keeps, Conflicts, Immediate, LogicalUnit);
const TELLS: Traits = (Keeps, Allowed, Immediate, LogicalUnit);
const TELLS_ALWAYS: Traits = (Keeps, Allowed, Immediate, AnyLun);

const fn row(
    name: &'static str,
    usage: &'static [u8],
    (medium, reservation, ordering, scope): Traits,
    data_out: Length,
    handler: Handler,
) -> Row {
    let service_action = None;
    let opcode = usage[0];
    Row {
        opcode,
        service_action,
        name,
        usage,
        data_out,
        work: work::answers,
        medium,
        reservation,
        ordering,
        scope,
        handler,
    }
}

impl Row {
    const fn action(mut self, service_action: u8) -> Self {
        self.service_action = Some(service_action);
        self
    }

    const fn works(mut self, work: fn(&Asked<'_>) -> Work) -> Self {
        self.work = work;
        self
    }
}

/// Every command.
#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    row("TEST UNIT READY", &[0x00, 0, 0, 0, 0, 0], (Keeps, Asks, Immediate, LogicalUnit), none, cache::test_unit_ready),
    row("REQUEST SENSE", &[0x03, 1, 0, 0, FF, 0], TELLS_ALWAYS, none, inquiry::request_sense),
    row("READ (6)", &[0x08, 0x1f, FF, FF, FF, 0], READS, none, transfer::read).works(work::reads),
    row("WRITE (6)", &[0x0a, 0x1f, FF, FF, FF, 0], WRITES, blocks, transfer::write).works(work::writes),
    row("INQUIRY", &[0x12, 1, FF, FF, FF, 0], TELLS_ALWAYS, none, inquiry::inquiry),
    row("MODE SELECT (6)", &[0x15, 0x11, 0, 0, FF, 0], SELECTS, mode_list_6,
        mode_select::mode_select_6),
    row("RESERVE (6)", &[0x16, 0, 0, 0, 0, 0], RESERVES, none, reserve::reserve),
    row("RELEASE (6)", &[0x17, 0, 0, 0, 0, 0], RESERVES, none, reserve::release),
    row("MODE SENSE (6)", &[0x1a, 0x08, FF, FF, FF, 0], ASKS, none, mode::mode_sense_6),
    row("START STOP UNIT", &[0x1b, 1, 0, 0, 0x05, 0], ORDERS, none, cache::start_stop_unit),
    row("PREVENT ALLOW MEDIUM REMOVAL", &[0x1e, 0, 0, 0, 0x01, 0], ASKS, none,
        cache::prevent_allow_medium_removal),
    row("READ CAPACITY (10)", &[0x25, 0, FF, FF, FF, FF, 0, 0, 0, 0], TELLS, none,
        capacity::read_capacity_10),
    row("READ (10)", &[0x28, 0x18, FF, FF, FF, FF, GR, FF, FF, 0], READS, none, transfer::read).works(work::reads),
    row("WRITE (10)", &[0x2a, 0x18, FF, FF, FF, FF, GR, FF, FF, 0], WRITES, blocks,
        transfer::write).works(work::writes),
    row("WRITE AND VERIFY (10)", &[0x2e, 0x16, FF, FF, FF, FF, GR, FF, FF, 0], WRITES, blocks,
        verify::write_and_verify).works(work::writes_and_reads),
    row("VERIFY (10)", &[0x2f, 0x16, FF, FF, FF, FF, GR, FF, FF, 0], READS, verify::data_out,
        verify::verify).works(work::verifies),
    row("PRE-FETCH (10)", &[0x34, 0x02, FF, FF, FF, FF, GR, FF, FF, 0], READS, none,
        cache::pre_fetch),
    row("SYNCHRONIZE CACHE (10)", &[0x35, 0x06, FF, FF, FF, FF, GR, FF, FF, 0], ORDERS, none,
        cache::synchronize_cache),
    row("READ DEFECT DATA (10)", &[0x37, 0, 0x1f, 0, 0, 0, 0, FF, FF, 0], ASKS, none,
        cache::read_defect_data_10),
    row("WRITE SAME (10)", &[0x41, 0x18, FF, FF, FF, FF, GR, FF, FF, 0], WRITES,
        write_same::data_out, write_same::write_same).works(work::repeats),
    row("UNMAP", &[0x42, 0x01, 0, 0, 0, 0, GR, FF, FF, 0], WRITES, parameter_list_16, unmap::unmap).works(work::unmaps),
    row("SANITIZE, OVERWRITE", &[SANITIZE, 0xbf, 0, 0, 0, 0, 0, FF, FF, 0], ERASES,
        parameter_list_16, sanitize::overwrite).action(0x01),
    row("SANITIZE, BLOCK ERASE", &[SANITIZE, 0xbf, 0, 0, 0, 0, 0, FF, FF, 0], ERASES, none,
        sanitize::block_erase).action(0x02),
    row("SANITIZE, EXIT FAILURE MODE", &[SANITIZE, 0xbf, 0, 0, 0, 0, 0, FF, FF, 0], ERASES, none,
        sanitize::exit_failure_mode).action(0x1f),
    row("LOG SELECT", &[0x4c, 0x03, FF, FF, 0, 0, 0, FF, FF, 0], SELECTS, parameter_list_16,
        log::log_select),
    row("LOG SENSE", &[0x4d, 0x01, FF, FF, 0, FF, FF, FF, FF, 0], TELLS, none, log::log_sense),
    row("MODE SELECT (10)", &[0x55, 0x11, 0, 0, 0, 0, 0, FF, FF, 0], SELECTS, parameter_list_16,
        mode_select::mode_select_10),
    row("RESERVE (10)", &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], RESERVES, none, reserve::reserve),
    row("RELEASE (10)", &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0], RESERVES, none, reserve::release),
    row("MODE SENSE (10)", &[0x5a, 0x18, FF, FF, 0, 0, 0, FF, FF, 0], ASKS, none,
        mode::mode_sense_10),
    row("PERSISTENT RESERVE IN, READ KEYS", PR_IN, TELLS_REGISTRATIONS, none,
        persistent_reserve_in::read_keys).action(0x00),
    row("PERSISTENT RESERVE IN, READ RESERVATION", PR_IN, TELLS_REGISTRATIONS, none,
        persistent_reserve_in::read_reservation).action(0x01),
    row("PERSISTENT RESERVE IN, REPORT CAPABILITIES", PR_IN, TELLS_REGISTRATIONS, none,
        persistent_reserve_in::report_capabilities).action(0x02),
    row("PERSISTENT RESERVE IN, READ FULL STATUS", PR_IN, TELLS_REGISTRATIONS, none,
        persistent_reserve_in::read_full_status).action(0x03),
    row("PERSISTENT RESERVE OUT, REGISTER", PR_OUT, REGISTERS, reservation_list,
        persistent_reserve_out::register).action(0x00),
    row("PERSISTENT RESERVE OUT, RESERVE", PR_OUT, REGISTERS, reservation_list,
        persistent_reserve_out::reserve).action(0x01),
    row("PERSISTENT RESERVE OUT, RELEASE", PR_OUT, REGISTERS, reservation_list,
        persistent_reserve_out::release).action(0x02),
    row("PERSISTENT RESERVE OUT, CLEAR", PR_OUT, REGISTERS, reservation_list,
        persistent_reserve_out::clear).action(0x03),
    row("PERSISTENT RESERVE OUT, PREEMPT", PR_OUT, REGISTERS, reservation_list,
        persistent_reserve_out::preempt).action(0x04),
    row("PERSISTENT RESERVE OUT, PREEMPT AND ABORT", PR_OUT, REGISTERS, reservation_list,
        persistent_reserve_out::preempt_and_abort).action(0x05),
    row("PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY", PR_OUT, REGISTERS,
        reservation_list, persistent_reserve_out::register_and_ignore).action(0x06),
    row("PERSISTENT RESERVE OUT, REGISTER AND MOVE", PR_OUT, REGISTERS, reservation_list,
        persistent_reserve_out::register_and_move).action(0x07),
    row("WRITE SAME (32)",
        &[VARIABLE_LENGTH, 0, 0, 0, 0, 0, GR, FF, FF, FF, 0x19, 0, FF, FF, FF, FF, FF, FF, FF, FF,
            FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF],
        WRITES, write_same::data_out, write_same::write_same).action(0x0d).works(work::repeats),
    row("GET LBA STATUS (32)",
        &[VARIABLE_LENGTH, 0, 0, 0, 0, 0, 0, FF, FF, FF, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, FF,
            FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF],
        READS, none, lba_status::get_lba_status_32).action(0x12).works(work::looks_up),
    row("EXTENDED COPY (LID1)",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ORDERS,
        parameter_list_32, extended_copy::extended_copy_lid1).action(0x00).works(work::copies),
    row("EXTENDED COPY (LID4)",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ORDERS,
        parameter_list_32, extended_copy::extended_copy_lid4).action(0x01).works(work::copies),
    row("POPULATE TOKEN",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], READS,
        parameter_list_32, token::populate_token).action(0x10).works(work::populates),
    row("WRITE USING TOKEN",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], WRITES,
        parameter_list_32, token::write_using_token).action(0x11).works(work::uses_token),
    row("COPY OPERATION ABORT",
        &[EXTENDED_COPY, 0x1f, FF, FF, FF, FF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ASKS, none,
        extended_copy::copy_operation_abort).action(0x1c),
    row("RECEIVE COPY STATUS (LID1)",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ASKS, none,
        copy_results::copy_status_lid1).action(0x00),
    row("RECEIVE COPY OPERATING PARAMETERS",
        &[RECEIVE_COPY_RESULTS, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ASKS, none,
        copy_results::operating_parameters).action(0x03),
    row("RECEIVE COPY FAILURE DETAILS (LID1)",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ASKS, none,
        copy_results::failure_details).action(0x04),
    row("RECEIVE COPY STATUS (LID4)",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ASKS, none,
        copy_results::copy_status_lid4).action(0x05),
    row("RECEIVE ROD TOKEN INFORMATION",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ASKS, none,
        token::rod_token_information).action(0x07),
    row("REPORT ALL ROD TOKENS",
        &[RECEIVE_COPY_RESULTS, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ASKS, none,
        token::report_all_rod_tokens).action(0x08),
    row("READ (16)", &[0x88, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], READS,
        none, transfer::read).works(work::reads),
    row("COMPARE AND WRITE", &[0x89, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0, 0, FF, GR, 0],
        LOCKS, compare_and_write::data_out, compare_and_write::compare_and_write).works(work::compares_and_writes),
    row("WRITE (16)", &[0x8a, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], WRITES,
        blocks, transfer::write).works(work::writes),
    row("ORWRITE (16)", &[0x8b, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        WRITES, blocks, or_write::or_write).works(work::writes_and_reads),
    row("WRITE AND VERIFY (16)",
        &[0x8e, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], WRITES, blocks,
        verify::write_and_verify).works(work::writes_and_reads),
    row("VERIFY (16)", &[0x8f, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], READS,
        verify::data_out, verify::verify).works(work::verifies),
    row("PRE-FETCH (16)", &[0x90, 0x02, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        READS, none, cache::pre_fetch),
    row("SYNCHRONIZE CACHE (16)",
        &[0x91, 0x06, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], ORDERS, none,
        cache::synchronize_cache),
    row("WRITE SAME (16)", &[0x93, 0x19, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        WRITES, write_same::data_out, write_same::write_same).works(work::repeats),
    row("WRITE ATOMIC (16)",
        &[0x9c, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0, FF, FF, GR, 0], WRITES,
        write_atomic::data_out, write_atomic::write_atomic).works(work::writes),
    row("READ CAPACITY (16)",
        &[0x9e, 0x1f, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0], TELLS, none,
        capacity::read_capacity_16).action(0x10),
    row("GET LBA STATUS", &[0x9e, 0x1f, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        READS, none, lba_status::get_lba_status_16).action(0x12).works(work::looks_up),
    row("REPORT LUNS", &[0xa0, 0, FF, 0, 0, 0, FF, FF, FF, FF, 0, 0], TELLS_ALWAYS, none,
        inquiry::report_luns),
    row("REPORT TARGET PORT GROUPS", &[0xa3, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], TELLS, none,
        target_port_groups::report_target_port_groups).action(0x0a),
    row("REPORT SUPPORTED OPERATION CODES", &[0xa3, 0x1f, 0x87, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        TELLS, none, supported_opcodes::report_supported_operation_codes).action(0x0c),
    row("REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS",
        &[0xa3, 0x1f, 0x80, 0, 0, 0, FF, FF, FF, FF, 0, 0], TELLS, none,
        target_port_groups::report_task_management).action(0x0d),
    row("REPORT TIMESTAMP", &[0xa3, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], TELLS, none,
        timestamp::report_timestamp).action(0x0f),
    row("SET TIMESTAMP", &[0xa4, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], SELECTS,
        maintenance_list, timestamp::set_timestamp).action(0x0f),
    row("READ (12)", &[0xa8, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], READS, none,
        transfer::read).works(work::reads),
    row("WRITE (12)", &[0xaa, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], WRITES, blocks,
        transfer::write).works(work::writes),
    row("WRITE AND VERIFY (12)", &[0xae, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], WRITES,
        blocks, verify::write_and_verify).works(work::writes_and_reads),
    row("VERIFY (12)", &[0xaf, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], READS,
        verify::data_out, verify::verify).works(work::verifies),
    row("READ DEFECT DATA (12)", &[0xb7, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0], ASKS, none,
        cache::read_defect_data_12),
];

const FF: u8 = 0xff;

const PR_IN: &[u8] = &[0x5e, 0x1f, 0, 0, 0, 0, 0, FF, FF, 0];
const PR_OUT: &[u8] = &[0x5f, 0x1f, FF, 0, 0, FF, FF, FF, FF, 0];

/// GROUP NUMBER: accepted, and without effect, since VPD page 86h does not set GROUP_SUP.
const GR: u8 = 0x1f;

/// Index and number of the rows of each operation code.
static INDEX: [(u8, u8); 256] = {
    let mut index = [(0, 0); 256];
    let mut at = 0;
    while at < ROWS.len() {
        let entry = &mut index[ROWS[at].opcode as usize];
        if entry.1 == 0 {
            entry.0 = at as u8;
        }
        entry.1 += 1;
        at += 1;
    }
    index
};

/// The rows of an operation code; none if the target does not support it.
pub(crate) fn supported(opcode: u8, identity: &Identity) -> &'static [Row] {
    match opcode {
        VARIABLE_LENGTH if !identity.long_cdbs => &[],
        _ => rows(opcode),
    }
}

/// The rows of an operation code.
pub(crate) fn rows(opcode: u8) -> &'static [Row] {
    let (start, count) = INDEX[usize::from(opcode)];
    &ROWS[usize::from(start)..usize::from(start) + usize::from(count)]
}

/// The row of a command.
///
/// # Errors
/// 05h/20h/00h if there is no such operation code, 05h/24h/00h if no such service action of it.
pub(crate) fn find(cdb: &Cdb, identity: &Identity) -> Result<&'static Row, Sense> {
    match supported(cdb.opcode(), identity) {
        [] => Err(sense::INVALID_COMMAND_OPERATION_CODE.into()),
        [row] if row.service_action.is_none() => Ok(row),
        rows => {
            let action = Some(cdb.service_action());
            let row = rows.iter().find(|row| row.service_action == action);
            let row = row.ok_or_else(|| match cdb.opcode() {
                VARIABLE_LENGTH => Sense::invalid_cdb_field(8),
                _ => Sense::invalid_cdb_bit(1, 4),
            })?;
            // SPC-4 4.3.3: ADDITIONAL CDB LENGTH.
            if cdb.opcode() == VARIABLE_LENGTH && usize::from(cdb.u8(7)) != CDB_BYTES - 8 {
                return Err(Sense::invalid_cdb_field(7));
            }
            Ok(row)
        }
    }
}

fn none(_: &Cdb, _: u64) -> u64 {
    0
}

fn blocks(cdb: &Cdb, block_bytes: u64) -> u64 {
    cdb.extent().1.0 * block_bytes
}

fn mode_list_6(cdb: &Cdb, _: u64) -> u64 {
    u64::from(cdb.u8(4))
}

fn parameter_list_16(cdb: &Cdb, _: u64) -> u64 {
    u64::from(cdb.u16(7))
}

fn parameter_list_32(cdb: &Cdb, _: u64) -> u64 {
    let length = u64::from(cdb.u32(10));
    if length <= PARAMETER_LIST_BYTES_MAX { length } else { 0 }
}

fn reservation_list(cdb: &Cdb, _: u64) -> u64 {
    let length = u64::from(cdb.u32(5));
    if length <= PARAMETER_LIST_BYTES_MAX { length } else { 0 }
}

fn maintenance_list(cdb: &Cdb, _: u64) -> u64 {
    let length = u64::from(cdb.u32(6));
    if length <= PARAMETER_LIST_BYTES_MAX { length } else { 0 }
}
