//! The command table: one row per command, by ascending operation code and service action.
//!
//! All that is asked of a command by its code or name is asked of its row: what it takes from the
//! initiator, which blocks it names, what it counts as, how long it may be, what keeps it out, and
//! which tests try it. What the forms of a command have in common stands once, in a constant of its name.

use block::{Primitive, Switch};

use super::{
    cache, capacity, compare_and_write, copy_results, extended_copy, inquiry, lba_status, log,
    mode, mode_select, or_write, persistent_reserve_in, persistent_reserve_out, reserve, sanitize,
    supported_opcodes, target_port_groups, timestamp, token, transfer, unmap, verify, write_atomic,
    write_same,
};
use crate::cdb::{CDB_BYTES, Cdb, VARIABLE_LENGTH};
use crate::command::Medium::{Keeps, Reads, Writes};
use crate::command::Ordering::{Alone, CompareAndWrite, Immediate, Reserve, Simple};
use crate::command::Reservation::{self, Allowed, Asks, Conflicts, Legacy, Persistent};
use crate::command::Scope::{AnyLun, LogicalUnit};
use crate::command::{Handler, Limit, Medium, Ordering, Row, Scope};
use crate::extent::{self, Extent};
use crate::identity::Identity;
use crate::limits::{PARAMETER_LIST_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::sense::{self, Sense};
use crate::work::{self, Asked, Work};

/// Most bytes that any command takes from the initiator.
pub(crate) const DATA_OUT_MAX: u64 = TRANSFER_BYTES_MAX;

/// Operation codes of the copy manager.
pub(crate) const TEST_UNIT_READY: u8 = 0x00;
pub(crate) const EXTENDED_COPY: u8 = 0x83;
pub(crate) const RECEIVE_COPY_RESULTS: u8 = 0x84;

/// Operation code of SANITIZE.
pub(crate) const SANITIZE: u8 = 0x48;
pub(crate) const REPORT_LUNS: u8 = 0xa0;

type Length = fn(&Cdb, Extent, u64) -> u64;
type Traits = (Medium, Reservation, Ordering, Scope);

const READS: Traits = (Reads, Reservation::Reads, Simple, LogicalUnit);
const LOOKS: Traits = (Keeps, Reservation::Reads, Simple, LogicalUnit);
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

/// What all forms of a command have in common: it takes that much from the initiator, and a test
/// tries it. It names no blocks, answers with parameter data, and counts as no kind of its own,
/// unless it says more.
const fn command(
    (medium, reservation, ordering, scope): Traits,
    data_out: Length,
    handler: Handler,
    tests: &'static [&'static str],
) -> Row {
    Row {
        opcode: 0,
        service_action: None,
        name: "",
        usage: &[],
        primitive: Primitive::Other,
        switch: None,
        extent: extent::none,
        data_out,
        limit: Limit::None,
        work: work::answers,
        medium,
        reservation,
        ordering,
        scope,
        tells_space: false,
        tests,
        handler,
    }
}

/// A command in one of its forms.
const fn row(name: &'static str, usage: &'static [u8], command: Row) -> Row {
    Row { name, usage, opcode: usage[0], ..command }
}

impl Row {
    const fn action(mut self, service_action: u8) -> Self {
        self.service_action = Some(service_action);
        self
    }

    const fn counts_as(mut self, primitive: Primitive) -> Self {
        self.primitive = primitive;
        self
    }

    const fn switched(mut self, switch: Switch) -> Self {
        self.switch = Some(switch);
        self
    }

    const fn names(mut self, extent: fn(&Cdb) -> Extent) -> Self {
        self.extent = extent;
        self
    }

    const fn works(mut self, work: fn(&Asked<'_>) -> Work) -> Self {
        self.work = work;
        self
    }

    const fn limited(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    const fn tells_space(mut self) -> Self {
        self.tells_space = true;
        self
    }
}

const READ: Row = command(READS, none, transfer::read, &[LONGEST, EVERY_FORM])
    .counts_as(Primitive::Read)
    .works(work::reads)
    .limited(Limit::Transfer);
const WRITE: Row = command(WRITES, blocks, transfer::write, &[LONGEST, EVERY_FORM])
    .counts_as(Primitive::Write)
    .works(work::writes)
    .limited(Limit::Transfer);
const WRITE_AND_VERIFY: Row = command(
    WRITES,
    blocks,
    verify::write_and_verify,
    &["scsi/transfer: write_and_verify_writes_and_reads_back", LONGEST],
)
.counts_as(Primitive::Write)
.works(work::writes_and_reads)
.limited(Limit::Transfer);
const VERIFY: Row = command(
    READS,
    verify::data_out,
    verify::verify,
    &["scsi/transfer: verify_compares_bytes_blocks_or_nothing", LONGEST],
)
.works(work::verifies)
.limited(Limit::Transfer);
const OR_WRITE: Row = command(
    WRITES,
    blocks,
    or_write::or_write,
    &["scsi/transfer: orwrite_sets_bits_even_when_others_write_in_between", LONGEST],
)
.works(work::writes_and_reads)
.limited(Limit::Transfer);
const WRITE_ATOMIC: Row = command(
    WRITES,
    blocks,
    write_atomic::write_atomic,
    &["honesty: an_atomic_write_is_as_long_as_told"],
)
.counts_as(Primitive::Write)
.works(work::writes)
.limited(Limit::Atomic);
const PRE_FETCH: Row = command(LOOKS, none, cache::pre_fetch, &[LONGEST]).limited(Limit::Transfer);
const SYNCHRONIZE_CACHE: Row = command(ORDERS, none, cache::synchronize_cache, FLUSHED);
const COMPARE_AND_WRITE: Row = command(
    LOCKS,
    compare_and_write::data_out,
    compare_and_write::compare_and_write,
    &["honesty: compare_and_write_takes_as_many_blocks_as_told"],
)
.counts_as(Primitive::CompareAndWrite)
.switched(Switch::CompareAndWrite)
.works(work::compares_and_writes)
.limited(Limit::CompareAndWrite);
const WRITE_SAME: Row = command(
    WRITES,
    write_same::data_out,
    write_same::write_same,
    &[
        "honesty: write_same_takes_as_many_blocks_as_told_and_unmaps_as_told",
        "scsi/write_same: the_form_of_32_bytes_does_the_same",
    ],
)
.counts_as(Primitive::WriteSame)
.switched(Switch::WriteSame)
.works(work::repeats)
.limited(Limit::WriteSame);
const UNMAP: Row = command(
    WRITES,
    parameter_list_16,
    unmap::unmap,
    &["honesty: unmap_takes_as_many_blocks_and_descriptors_as_told"],
)
.counts_as(Primitive::Unmap)
.switched(Switch::Unmap)
.works(work::unmaps)
.limited(Limit::Unmap);
const GET_LBA_STATUS: Row = command(
    LOOKS,
    none,
    lba_status::get_lba_status_16,
    &["scsi/unmap: get_lba_status_tells_what_is_mapped"],
)
.works(work::looks_up)
.limited(Limit::LbaStatus);
const GET_LBA_STATUS_32: Row = command(
    LOOKS,
    none,
    lba_status::get_lba_status_32,
    &["scsi/write_atomic: get_lba_status_of_32_bytes_looks_no_further_than_it_is_asked_to"],
)
.works(work::looks_up)
.limited(Limit::LbaStatus);
const COPY_LID1: Row =
    command(ORDERS, parameter_list_32, extended_copy::extended_copy_lid1, COPIES)
        .counts_as(Primitive::ExtendedCopy)
        .works(work::copies)
        .limited(Limit::Copy)
        .switched(Switch::ExtendedCopy);
const COPY_LID4: Row =
    command(ORDERS, parameter_list_32, extended_copy::extended_copy_lid4, COPIES)
        .counts_as(Primitive::ExtendedCopy)
        .works(work::copies)
        .limited(Limit::Copy)
        .switched(Switch::ExtendedCopy);
const POPULATE_TOKEN: Row = command(LOOKS, parameter_list_32, token::populate_token, TOKENS)
    .counts_as(Primitive::Token)
    .works(work::populates)
    .limited(Limit::Token)
    .switched(Switch::ExtendedCopy);
const WRITE_USING_TOKEN: Row = command(WRITES, parameter_list_32, token::write_using_token, TOKENS)
    .counts_as(Primitive::Token)
    .works(work::uses_token)
    .limited(Limit::Token)
    .switched(Switch::ExtendedCopy);
const ABORT_COPY: Row = command(
    ASKS,
    none,
    extended_copy::copy_operation_abort,
    &["scsi/third_party: an_abort_is_answered_after_the_last_write_and_the_count_is_exact"],
)
.switched(Switch::ExtendedCopy);
const COPY_STATUS_LID1: Row = command(ASKS, none, copy_results::copy_status_lid1, HELD)
    .limited(Limit::Outcomes)
    .switched(Switch::ExtendedCopy);
const COPY_STATUS_LID4: Row = command(ASKS, none, copy_results::copy_status_lid4, HELD)
    .limited(Limit::Outcomes)
    .switched(Switch::ExtendedCopy);
const COPY_PARAMETERS: Row = command(
    ASKS,
    none,
    copy_results::operating_parameters,
    &["honesty: the_copy_manager_says_the_same_in_all_places"],
)
.switched(Switch::ExtendedCopy);
const COPY_FAILURE: Row = command(
    ASKS,
    none,
    copy_results::failure_details,
    &["scsi/third_party: a_failure_is_held_with_its_sense_data"],
)
.limited(Limit::Outcomes)
.switched(Switch::ExtendedCopy);
const TOKEN_INFORMATION: Row = command(ASKS, none, token::rod_token_information, REPORTED)
    .limited(Limit::Outcomes)
    .switched(Switch::ExtendedCopy);
const ALL_TOKENS: Row = command(ASKS, none, token::report_all_rod_tokens, REPORTED)
    .limited(Limit::Outcomes)
    .switched(Switch::ExtendedCopy);
const RESERVE: Row = command(RESERVES, none, reserve::reserve, KEPT_OUT);
const RELEASE: Row = command(RESERVES, none, reserve::release, KEPT_OUT);

const fn selects_modes(data_out: Length, handler: Handler) -> Row {
    command(SELECTS, data_out, handler, MASKED).limited(Limit::List)
}

const fn sanitizes(data_out: Length, handler: Handler) -> Row {
    command(ERASES, data_out, handler, SANITIZED).limited(Limit::List)
}

const fn tells_registrations(handler: Handler) -> Row {
    command(TELLS_REGISTRATIONS, none, handler, TOLD).limited(Limit::Registrations)
}

const fn registers(handler: Handler, tests: &'static [&'static str]) -> Row {
    command(REGISTERS, reservation_list, handler, tests).limited(Limit::Registrations)
}

/// Every command.
#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    row("TEST UNIT READY", &[0x00, 0, 0, 0, 0, 0],
        command((Keeps, Asks, Immediate, LogicalUnit), none, cache::test_unit_ready,
        &["scsi/unit_attention: power_on_is_told_once_to_each_nexus_on_each_unit"])),
    row("REQUEST SENSE", &[0x03, 1, 0, 0, FF, 0],
        command(TELLS_ALWAYS, none, inquiry::request_sense,
        &["scsi/unit_attention: inquiry_and_report_luns_leave_it_and_request_sense_takes_it"])),
    row("READ (6)", &[0x08, 0x1f, FF, FF, FF, 0], READ).names(extent::six),
    row("WRITE (6)", &[0x0a, 0x1f, FF, FF, FF, 0], WRITE).names(extent::six),
    row("INQUIRY", &[0x12, 1, FF, FF, FF, 0], command(TELLS_ALWAYS, none, inquiry::inquiry,
        &["honesty: standard_inquiry_data_says_what_is_so",
        "honesty: every_page_that_is_listed_is_there_and_no_other"])),
    row("MODE SELECT (6)", &[0x15, 0x11, 0, 0, FF, 0],
        selects_modes(mode_list_6, mode_select::mode_select_6)),
    row("RESERVE (6)", &[0x16, 0, 0, 0, 0, 0], RESERVE),
    row("RELEASE (6)", &[0x17, 0, 0, 0, 0, 0], RELEASE),
    row("MODE SENSE (6)", &[0x1a, 0x08, FF, FF, FF, 0],
        command(ASKS, none, mode::mode_sense_6, DESCRIBED)),
    row("START STOP UNIT", &[0x1b, 1, 0, 0, 0x05, 0],
        command(ORDERS, none, cache::start_stop_unit, FLUSHED)),
    row("PREVENT ALLOW MEDIUM REMOVAL", &[0x1e, 0, 0, 0, 0x01, 0],
        command(ASKS, none, cache::prevent_allow_medium_removal, FLUSHED)),
    row("READ CAPACITY (10)", &[0x25, 0, FF, FF, FF, FF, 0, 0, 0, 0],
        command(TELLS, none, capacity::read_capacity_10, CAPACITY)),
    row("READ (10)", &[0x28, 0x18, FF, FF, FF, FF, GR, FF, FF, 0], READ).names(extent::ten),
    row("WRITE (10)", &[0x2a, 0x18, FF, FF, FF, FF, GR, FF, FF, 0], WRITE).names(extent::ten),
    row("WRITE AND VERIFY (10)",
        &[0x2e, 0x16, FF, FF, FF, FF, GR, FF, FF, 0], WRITE_AND_VERIFY).names(extent::ten),
    row("VERIFY (10)", &[0x2f, 0x16, FF, FF, FF, FF, GR, FF, FF, 0], VERIFY).names(extent::ten),
    row("PRE-FETCH (10)",
        &[0x34, 0x02, FF, FF, FF, FF, GR, FF, FF, 0], PRE_FETCH).names(extent::ten),
    row("SYNCHRONIZE CACHE (10)",
        &[0x35, 0x06, FF, FF, FF, FF, GR, FF, FF, 0], SYNCHRONIZE_CACHE).names(extent::ten),
    row("READ DEFECT DATA (10)", &[0x37, 0, 0x1f, 0, 0, 0, 0, FF, FF, 0],
        command(ASKS, none, cache::read_defect_data_10, NO_DEFECTS)),
    row("WRITE SAME (10)",
        &[0x41, 0x18, FF, FF, FF, FF, GR, FF, FF, 0], WRITE_SAME).names(extent::ten),
    row("UNMAP", &[0x42, 0x01, 0, 0, 0, 0, GR, FF, FF, 0], UNMAP),
    row("SANITIZE, OVERWRITE", &[SANITIZE, 0xbf, 0, 0, 0, 0, 0, FF, FF, 0],
        sanitizes(parameter_list_16, sanitize::overwrite)).action(0x01),
    row("SANITIZE, BLOCK ERASE", &[SANITIZE, 0xbf, 0, 0, 0, 0, 0, FF, FF, 0],
        sanitizes(none, sanitize::block_erase)).action(0x02),
    row("SANITIZE, EXIT FAILURE MODE", &[SANITIZE, 0xbf, 0, 0, 0, 0, 0, FF, FF, 0],
        sanitizes(none, sanitize::exit_failure_mode)).action(0x1f),
    row("LOG SELECT", &[0x4c, 0x03, FF, FF, 0, 0, 0, FF, FF, 0],
        command(SELECTS, parameter_list_16, log::log_select, COUNTED)),
    row("LOG SENSE", &[0x4d, 0x01, FF, FF, 0, FF, FF, FF, FF, 0],
        command(TELLS, none, log::log_sense, COUNTED).tells_space()),
    row("MODE SELECT (10)", &[0x55, 0x11, 0, 0, 0, 0, 0, FF, FF, 0],
        selects_modes(parameter_list_16, mode_select::mode_select_10)),
    row("RESERVE (10)", &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], RESERVE),
    row("RELEASE (10)", &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0], RELEASE),
    row("MODE SENSE (10)", &[0x5a, 0x18, FF, FF, 0, 0, 0, FF, FF, 0],
        command(ASKS, none, mode::mode_sense_10, DESCRIBED)),
    row("PERSISTENT RESERVE IN, READ KEYS", PR_IN,
        tells_registrations(persistent_reserve_in::read_keys)).action(0x00),
    row("PERSISTENT RESERVE IN, READ RESERVATION", PR_IN,
        tells_registrations(persistent_reserve_in::read_reservation)).action(0x01),
    row("PERSISTENT RESERVE IN, REPORT CAPABILITIES", PR_IN,
        tells_registrations(persistent_reserve_in::report_capabilities)).action(0x02),
    row("PERSISTENT RESERVE IN, READ FULL STATUS", PR_IN,
        tells_registrations(persistent_reserve_in::read_full_status)).action(0x03),
    row("PERSISTENT RESERVE OUT, REGISTER", PR_OUT,
        registers(persistent_reserve_out::register, CHANGED)).action(0x00),
    row("PERSISTENT RESERVE OUT, RESERVE", PR_OUT,
        registers(persistent_reserve_out::reserve, CONFLICTS)).action(0x01),
    row("PERSISTENT RESERVE OUT, RELEASE", PR_OUT,
        registers(persistent_reserve_out::release, CONFLICTS)).action(0x02),
    row("PERSISTENT RESERVE OUT, CLEAR", PR_OUT,
        registers(persistent_reserve_out::clear, CLEARED)).action(0x03),
    row("PERSISTENT RESERVE OUT, PREEMPT", PR_OUT,
        registers(persistent_reserve_out::preempt, CLEARED)).action(0x04),
    row("PERSISTENT RESERVE OUT, PREEMPT AND ABORT", PR_OUT,
        registers(persistent_reserve_out::preempt_and_abort, ABORTED)).action(0x05),
    row("PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY", PR_OUT,
        registers(persistent_reserve_out::register_and_ignore, CHANGED)).action(0x06),
    row("PERSISTENT RESERVE OUT, REGISTER AND MOVE", PR_OUT,
        registers(persistent_reserve_out::register_and_move,
        &["scsi/persistent: register_and_move_hands_the_reservation_over"])).action(0x07),
    row("WRITE SAME (32)",
        &[VARIABLE_LENGTH, 0, 0, 0, 0, 0, GR, FF, FF, FF, 0x19, 0, FF, FF, FF, FF, FF, FF, FF, FF,
        FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF],
        WRITE_SAME).names(extent::thirty_two).action(0x0d),
    row("GET LBA STATUS (32)",
        &[VARIABLE_LENGTH, 0, 0, 0, 0, 0, 0, FF, FF, FF, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, FF,
        FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF], GET_LBA_STATUS_32).action(0x12),
    row("EXTENDED COPY (LID1)",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        COPY_LID1).action(0x00),
    row("EXTENDED COPY (LID4)",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        COPY_LID4).action(0x01),
    row("POPULATE TOKEN",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        POPULATE_TOKEN).action(0x10),
    row("WRITE USING TOKEN",
        &[EXTENDED_COPY, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        WRITE_USING_TOKEN).action(0x11),
    row("COPY OPERATION ABORT",
        &[EXTENDED_COPY, 0x1f, FF, FF, FF, FF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ABORT_COPY).action(0x1c),
    row("RECEIVE COPY STATUS (LID1)",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        COPY_STATUS_LID1).action(0x00),
    row("RECEIVE COPY OPERATING PARAMETERS",
        &[RECEIVE_COPY_RESULTS, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        COPY_PARAMETERS).action(0x03),
    row("RECEIVE COPY FAILURE DETAILS (LID1)",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        COPY_FAILURE).action(0x04),
    row("RECEIVE COPY STATUS (LID4)",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        COPY_STATUS_LID4).action(0x05),
    row("RECEIVE ROD TOKEN INFORMATION",
        &[RECEIVE_COPY_RESULTS, 0x1f, FF, FF, FF, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        TOKEN_INFORMATION).action(0x07),
    row("REPORT ALL ROD TOKENS",
        &[RECEIVE_COPY_RESULTS, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        ALL_TOKENS).action(0x08),
    row("READ (16)",
        &[0x88, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        READ).names(extent::sixteen),
    row("COMPARE AND WRITE",
        &[0x89, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0, 0, FF, GR, 0],
        COMPARE_AND_WRITE).names(extent::sixteen_byte),
    row("WRITE (16)",
        &[0x8a, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        WRITE).names(extent::sixteen),
    row("ORWRITE (16)",
        &[0x8b, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        OR_WRITE).names(extent::sixteen),
    row("WRITE AND VERIFY (16)",
        &[0x8e, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        WRITE_AND_VERIFY).names(extent::sixteen),
    row("VERIFY (16)",
        &[0x8f, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        VERIFY).names(extent::sixteen),
    row("PRE-FETCH (16)",
        &[0x90, 0x02, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        PRE_FETCH).names(extent::sixteen),
    row("SYNCHRONIZE CACHE (16)",
        &[0x91, 0x06, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        SYNCHRONIZE_CACHE).names(extent::sixteen),
    row("WRITE SAME (16)",
        &[0x93, 0x19, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        WRITE_SAME).names(extent::sixteen),
    row("WRITE ATOMIC (16)",
        &[0x9c, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0, FF, FF, GR, 0],
        WRITE_ATOMIC).names(extent::sixteen_short),
    row("READ CAPACITY (16)",
        &[0x9e, 0x1f, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        command(TELLS, none, capacity::read_capacity_16, CAPACITY)).action(0x10),
    row("GET LBA STATUS",
        &[0x9e, 0x1f, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        GET_LBA_STATUS).action(0x12),
    row("REPORT LUNS", &[REPORT_LUNS, 0, FF, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        command(TELLS_ALWAYS, none, inquiry::report_luns,
        &["scsi/discovery: report_luns_lists_the_inventory_and_its_length_without_header"])),
    row("REPORT TARGET PORT GROUPS", &[0xa3, FF, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        command(TELLS, none, target_port_groups::report_target_port_groups,
        &["scsi/access_state: every_group_is_reported_on_every_path_in_both_forms"])).action(0x0a),
    row("REPORT SUPPORTED OPERATION CODES",
        &[0xa3, 0x1f, 0x87, FF, FF, FF, FF, FF, FF, FF, 0, 0],
        command(TELLS, none, supported_opcodes::report_supported_operation_codes,
            MASKS)).action(0x0c),
    row("REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS",
        &[0xa3, 0x1f, 0x80, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        command(TELLS, none, target_port_groups::report_task_management,
        &["scsi/supported_opcodes: task_management_functions_are_reported"])).action(0x0d),
    row("REPORT TIMESTAMP", &[0xa3, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        command(TELLS, none, timestamp::report_timestamp, TIME)).action(0x0f),
    row("SET TIMESTAMP", &[0xa4, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        command(SELECTS, maintenance_list, timestamp::set_timestamp, TIME)).action(0x0f),
    row("READ (12)",
        &[0xa8, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], READ).names(extent::twelve),
    row("WRITE (12)",
        &[0xaa, 0x18, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], WRITE).names(extent::twelve),
    row("WRITE AND VERIFY (12)",
        &[0xae, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0],
        WRITE_AND_VERIFY).names(extent::twelve),
    row("VERIFY (12)",
        &[0xaf, 0x16, FF, FF, FF, FF, FF, FF, FF, FF, GR, 0], VERIFY).names(extent::twelve),
    row("READ DEFECT DATA (12)", &[0xb7, 0x1f, 0, 0, 0, 0, FF, FF, FF, FF, 0, 0],
        command(ASKS, none, cache::read_defect_data_12, NO_DEFECTS)),
];

const FF: u8 = 0xff;

const PR_IN: &[u8] = &[0x5e, 0x1f, 0, 0, 0, 0, 0, FF, FF, 0];
const PR_OUT: &[u8] = &[0x5f, 0x1f, FF, 0, 0, FF, FF, FF, FF, 0];

/// GROUP NUMBER: accepted, and without effect, since VPD page 86h does not set GROUP_SUP.
const GR: u8 = 0x1f;

const LONGEST: &str = "honesty: the_longest_transfer_works_and_one_block_more_is_refused";
const EVERY_FORM: &str = "scsi/transfer: what_is_written_is_read_by_every_form_of_read";
const KILLS: &str = "reservations: what_was_answered_survives_twenty_kills";

const COPIES: &[&str] = &[
    "honesty: the_copy_manager_takes_as_much_as_told",
    "scsi/third_party: a_list_of_the_second_format_copies_and_tells_its_status",
];
const TOKENS: &[&str] = &[
    "honesty: tokens_are_made_as_told",
    "tokens: a_token_copies_within_a_pool_without_data_io_and_to_another_pool_with_it",
];
const HELD: &[&str] = &["scsi/extended_copy: the_outcome_is_held_under_its_list_identifier"];
const REPORTED: &[&str] = &["scsi/token: every_token_is_reported"];
const FLUSHED: &[&str] = &["scsi/transfer: the_cache_is_flushed_when_asked"];
const NO_DEFECTS: &[&str] =
    &["scsi/discovery: defect_lists_are_empty_in_the_format_that_was_asked_for"];
const SANITIZED: &[&str] = &[
    "honesty: sanitize_erases_what_it_says_and_refuses_what_it_does_not_offer",
    "scsi/sanitize: a_failure_is_told_until_it_is_exited_or_mended",
];
const COUNTED: &[&str] = &["scsi/log: commands_blocks_and_times_are_counted_until_they_are_reset"];
const CAPACITY: &[&str] = &["honesty: the_last_block_is_where_it_is_told_and_nothing_is_behind_it"];
const MASKED: &[&str] = &["scsi/mode: every_bit_of_the_mask_can_be_changed_and_no_other"];
const DESCRIBED: &[&str] =
    &["scsi/mode: mode_sense_has_a_right_block_descriptor_unless_it_is_not_wanted"];
const KEPT_OUT: &[&str] =
    &["scsi/reservations: a_reservation_keeps_the_other_nexus_out_until_its_holder_releases_it"];
const TOLD: &[&str] = &["scsi/persistent: the_reservation_is_told_and_kept_against_others"];
const CONFLICTS: &[&str] = &["scsi/persistent: each_command_conflicts_as_the_standard_says", KILLS];
const CHANGED: &[&str] = &["scsi/persistent: keys_are_registered_changed_and_removed", KILLS];
const ABORTED: &[&str] =
    &["scsi/persistent: preempt_and_abort_is_answered_after_the_last_aborted_task"];
const MASKS: &[&str] =
    &["honesty: every_bit_outside_a_usage_mask_is_refused_and_every_other_code_too"];
const CLEARED: &[&str] = &["scsi/persistent: clear_and_preempt_tell_those_who_lost"];
const TIME: &[&str] = &["scsi/timestamp: what_is_set_goes_on_from_there_and_is_told_to_the_others"];

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

fn none(_: &Cdb, _: Extent, _: u64) -> u64 {
    0
}

fn blocks(_: &Cdb, extent: Extent, block_bytes: u64) -> u64 {
    extent.blocks.0 * block_bytes
}

fn mode_list_6(cdb: &Cdb, _: Extent, _: u64) -> u64 {
    u64::from(cdb.u8(4))
}

fn parameter_list_16(cdb: &Cdb, _: Extent, _: u64) -> u64 {
    u64::from(cdb.u16(7))
}

fn parameter_list_32(cdb: &Cdb, _: Extent, _: u64) -> u64 {
    parameter_list(cdb.u32(10))
}

fn reservation_list(cdb: &Cdb, _: Extent, _: u64) -> u64 {
    parameter_list(cdb.u32(5))
}

fn maintenance_list(cdb: &Cdb, _: Extent, _: u64) -> u64 {
    parameter_list(cdb.u32(6))
}

/// A parameter list of that length; one that is longer than any may be is not asked for.
fn parameter_list(length: u32) -> u64 {
    let length = u64::from(length);
    if length <= PARAMETER_LIST_BYTES_MAX { length } else { 0 }
}
