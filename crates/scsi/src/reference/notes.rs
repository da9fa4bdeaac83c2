//! What the page says of each command beside its row: how much it takes, and a test that tries it.

use std::fmt::Write;
use std::time::Duration;

use crate::command::Row;
use crate::limits;

/// What limits a command.
enum Limit {
    /// Nothing but its CDB.
    None,
    /// MAXIMUM TRANSFER LENGTH.
    Transfer,
    /// MAXIMUM COMPARE AND WRITE LENGTH.
    CompareAndWrite,
    /// MAXIMUM WRITE SAME LENGTH, and WSNZ.
    WriteSame,
    /// MAXIMUM UNMAP LBA COUNT and MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
    Unmap,
    /// MAXIMUM ATOMIC TRANSFER LENGTH.
    Atomic,
    /// What one answer can say.
    LbaStatus,
    /// RECEIVE COPY OPERATING PARAMETERS.
    Copy,
    /// Block device ROD limits of VPD page 8Fh.
    Token,
    /// How long an outcome is held, and how many.
    Outcomes,
    /// Registrations of a unit.
    Registrations,
    /// Parameter list.
    List,
}

/// Commands of one kind.
struct Note {
    /// How their names begin.
    names: &'static [&'static str],
    limit: Limit,
    /// FILE: TEST. 'scsi' files are in crates/scsi/src/tests, the others in tests/tests.
    tests: &'static [&'static str],
}

const fn note(
    names: &'static [&'static str],
    limit: Limit,
    tests: &'static [&'static str],
) -> Note {
    Note { names, limit, tests }
}

/// The first note with a name that a command's name begins with is the command's.
#[rustfmt::skip]
static NOTES: &[Note] = &[
    note(&["TEST UNIT READY"], Limit::None,
        &["scsi/unit_attention: power_on_is_told_once_to_each_nexus_on_each_unit"]),
    note(&["REQUEST SENSE"], Limit::None,
        &["scsi/unit_attention: inquiry_and_report_luns_leave_it_and_request_sense_takes_it"]),
    note(&["WRITE AND VERIFY"], Limit::Transfer,
        &["scsi/transfer: write_and_verify_writes_and_reads_back",
          "honesty: the_longest_transfer_works_and_one_block_more_is_refused"]),
    note(&["VERIFY"], Limit::Transfer,
        &["scsi/transfer: verify_compares_bytes_blocks_or_nothing",
          "honesty: the_longest_transfer_works_and_one_block_more_is_refused"]),
    note(&["WRITE SAME"], Limit::WriteSame,
        &["honesty: write_same_takes_as_many_blocks_as_told_and_unmaps_as_told",
          "scsi/write_same: the_form_of_32_bytes_does_the_same"]),
    note(&["WRITE ATOMIC"], Limit::Atomic,
        &["honesty: an_atomic_write_is_as_long_as_told"]),
    note(&["WRITE USING TOKEN", "POPULATE TOKEN"], Limit::Token,
        &["honesty: tokens_are_made_as_told", "tokens: a_token_copies_within_a_pool_without_data_io_and_to_another_pool_with_it"]),
    note(&["READ CAPACITY"], Limit::None,
        &["honesty: the_last_block_is_where_it_is_told_and_nothing_is_behind_it"]),
    note(&["READ DEFECT DATA"], Limit::None,
        &["scsi/discovery: defect_lists_are_empty_in_the_format_that_was_asked_for"]),
    note(&["READ (", "WRITE ("], Limit::Transfer,
        &["honesty: the_longest_transfer_works_and_one_block_more_is_refused",
          "scsi/transfer: what_is_written_is_read_by_every_form_of_read"]),
    note(&["ORWRITE"], Limit::Transfer,
        &["scsi/transfer: orwrite_sets_bits_even_when_others_write_in_between",
          "honesty: the_longest_transfer_works_and_one_block_more_is_refused"]),
    note(&["PRE-FETCH"], Limit::Transfer,
        &["honesty: the_longest_transfer_works_and_one_block_more_is_refused"]),
    note(&["SYNCHRONIZE CACHE", "START STOP UNIT", "PREVENT ALLOW"], Limit::None,
        &["scsi/transfer: the_cache_is_flushed_when_asked"]),
    note(&["INQUIRY"], Limit::None,
        &["honesty: standard_inquiry_data_says_what_is_so",
          "honesty: every_page_that_is_listed_is_there_and_no_other"]),
    note(&["REPORT LUNS"], Limit::None,
        &["scsi/discovery: report_luns_lists_the_inventory_and_its_length_without_header"]),
    note(&["MODE SELECT"], Limit::List,
        &["scsi/mode: every_bit_of_the_mask_can_be_changed_and_no_other"]),
    note(&["MODE SENSE"], Limit::None,
        &["scsi/mode: mode_sense_has_a_right_block_descriptor_unless_it_is_not_wanted"]),
    note(&["RESERVE", "RELEASE"], Limit::None,
        &["scsi/reservations: a_reservation_keeps_the_other_nexus_out_until_its_holder_releases_it"]),
    note(&["UNMAP"], Limit::Unmap,
        &["honesty: unmap_takes_as_many_blocks_and_descriptors_as_told"]),
    note(&["SANITIZE"], Limit::List,
        &["honesty: sanitize_erases_what_it_says_and_refuses_what_it_does_not_offer",
          "scsi/sanitize: a_failure_is_told_until_it_is_exited_or_mended"]),
    note(&["LOG SELECT", "LOG SENSE"], Limit::None,
        &["scsi/log: commands_blocks_and_times_are_counted_until_they_are_reset"]),
    note(&["PERSISTENT RESERVE IN"], Limit::Registrations,
        &["scsi/persistent: the_reservation_is_told_and_kept_against_others"]),
    note(&["PERSISTENT RESERVE OUT, REGISTER AND MOVE"], Limit::Registrations,
        &["scsi/persistent: register_and_move_hands_the_reservation_over"]),
    note(&["PERSISTENT RESERVE OUT, REGISTER"], Limit::Registrations,
        &["scsi/persistent: keys_are_registered_changed_and_removed",
          "reservations: what_was_answered_survives_twenty_kills"]),
    note(&["PERSISTENT RESERVE OUT, PREEMPT AND ABORT"], Limit::Registrations,
        &["scsi/persistent: preempt_and_abort_is_answered_after_the_last_aborted_task"]),
    note(&["PERSISTENT RESERVE OUT, PREEMPT", "PERSISTENT RESERVE OUT, CLEAR"],
        Limit::Registrations,
        &["scsi/persistent: clear_and_preempt_tell_those_who_lost"]),
    note(&["PERSISTENT RESERVE OUT"], Limit::Registrations,
        &["scsi/persistent: each_command_conflicts_as_the_standard_says",
          "reservations: what_was_answered_survives_twenty_kills"]),
    note(&["GET LBA STATUS (32)"], Limit::LbaStatus,
        &["scsi/write_atomic: get_lba_status_of_32_bytes_looks_no_further_than_it_is_asked_to"]),
    note(&["GET LBA STATUS"], Limit::LbaStatus,
        &["scsi/unmap: get_lba_status_tells_what_is_mapped"]),
    note(&["EXTENDED COPY"], Limit::Copy,
        &["honesty: the_copy_manager_takes_as_much_as_told",
          "scsi/third_party: a_list_of_the_second_format_copies_and_tells_its_status"]),
    note(&["COPY OPERATION ABORT"], Limit::None,
        &["scsi/third_party: an_abort_is_answered_after_the_last_write_and_the_count_is_exact"]),
    note(&["RECEIVE COPY OPERATING PARAMETERS"], Limit::None,
        &["honesty: the_copy_manager_says_the_same_in_all_places"]),
    note(&["RECEIVE COPY FAILURE DETAILS"], Limit::Outcomes,
        &["scsi/third_party: a_failure_is_held_with_its_sense_data"]),
    note(&["RECEIVE COPY STATUS"], Limit::Outcomes,
        &["scsi/extended_copy: the_outcome_is_held_under_its_list_identifier"]),
    note(&["RECEIVE ROD TOKEN INFORMATION", "REPORT ALL ROD TOKENS"], Limit::Outcomes,
        &["scsi/token: every_token_is_reported"]),
    note(&["COMPARE AND WRITE"], Limit::CompareAndWrite,
        &["honesty: compare_and_write_takes_as_many_blocks_as_told"]),
    note(&["REPORT TARGET PORT GROUPS"], Limit::None,
        &["scsi/access_state: every_group_is_reported_on_every_path_in_both_forms"]),
    note(&["REPORT SUPPORTED OPERATION CODES"], Limit::None,
        &["honesty: every_bit_outside_a_usage_mask_is_refused_and_every_other_code_too"]),
    note(&["REPORT SUPPORTED TASK MANAGEMENT"], Limit::None,
        &["scsi/supported_opcodes: task_management_functions_are_reported"]),
    note(&["REPORT TIMESTAMP", "SET TIMESTAMP"], Limit::None,
        &["scsi/timestamp: what_is_set_goes_on_from_there_and_is_told_to_the_others"]),
];

/// What limits a command, and its tests, in Markdown.
///
/// # Panics
/// If a command has no note.
pub(super) fn of(row: &Row) -> (String, String) {
    let begins = |note: &&Note| note.names.iter().any(|name| row.name.starts_with(name));
    let note = NOTES.iter().find(begins).unwrap_or_else(|| panic!("no note of {}", row.name));
    (note.limit.to_markdown(), tests(note.tests))
}

fn tests(names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        let separator = if text.is_empty() { "" } else { "; " };
        write!(text, "{separator}`{name}`").expect("writing to a string does not fail");
    }
    text
}

impl Limit {
    fn to_markdown(&self) -> String {
        match self {
            Self::None => "–".to_owned(),
            Self::Transfer => bytes(limits::TRANSFER_BYTES_MAX),
            Self::CompareAndWrite => format!("{} blocks", limits::COMPARE_AND_WRITE_BLOCKS_MAX),
            Self::WriteSame => format!("1 block to {}", bytes(limits::WRITE_SAME_BYTES_MAX)),
            Self::Atomic => bytes(limits::ATOMIC_BYTES_MAX),
            Self::List => format!("a list of {}", bytes(limits::PARAMETER_LIST_BYTES_MAX)),
            Self::Unmap => format!(
                "{}, {} descriptors",
                bytes(limits::UNMAP_BYTES_MAX),
                limits::UNMAP_DESCRIPTORS_MAX
            ),
            Self::LbaStatus => format!(
                "tells of {}, {} descriptors",
                bytes(limits::LBA_STATUS_BYTES_MAX),
                limits::LBA_STATUS_DESCRIPTORS_MAX
            ),
            Self::Copy => format!(
                "{} CSCDs, {} segments of {}, {} at once",
                limits::CSCD_DESCRIPTORS_MAX,
                limits::SEGMENT_DESCRIPTORS_MAX,
                bytes(limits::SEGMENT_BYTES_MAX),
                limits::CONCURRENT_COPIES_MAX
            ),
            Self::Token => format!(
                "{} ranges, {}, ends after {} at most, {} tokens",
                limits::TOKEN_RANGES_MAX,
                bytes(limits::TOKEN_BYTES_REPRESENTED_MAX),
                seconds(limits::TOKEN_TIMEOUT_MAX),
                limits::TOKENS_MAX
            ),
            Self::Outcomes => format!(
                "{} outcomes of a nexus, held for {}",
                limits::COPY_RESULTS_HELD_MAX,
                seconds(limits::COPY_RESULT_HELD_FOR)
            ),
            Self::Registrations => {
                format!("{} registrations", limits::REGISTRATIONS_PER_UNIT_MAX)
            }
        }
    }
}

/// In the largest unit of 1,024 that says it exactly.
fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let power = (0..units.len()).rev().find(|&power| bytes.is_multiple_of(1 << (10 * power)));
    let power = power.expect("every number is a multiple of 1");
    format!("{} {}", bytes >> (10 * power), units[power])
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}
