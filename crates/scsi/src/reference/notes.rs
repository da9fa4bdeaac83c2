//! Notes of the reference page: the limit and the tests of each command.

use std::fmt::Write;
use std::time::Duration;

use crate::command::{Limit, Row};
use crate::limits;

/// The tests that try a command, in Markdown.
pub(super) fn tests(row: &Row) -> String {
    let mut text = String::new();
    for name in row.tests {
        let separator = if text.is_empty() { "" } else { "; " };
        write!(text, "{separator}`{name}`").expect("writing to a string does not fail");
    }
    text
}

/// What limits a command, in Markdown.
pub(super) fn limit(row: &Row) -> String {
    match row.limit {
        Limit::None => "–".to_owned(),
        Limit::Transfer => bytes(limits::TRANSFER_BYTES_MAX),
        Limit::CompareAndWrite => format!("{} blocks", limits::COMPARE_AND_WRITE_BLOCKS_MAX),
        Limit::WriteSame => format!("1 block to {}", bytes(limits::WRITE_SAME_BYTES_MAX)),
        Limit::Atomic => bytes(limits::ATOMIC_BYTES_MAX),
        Limit::List => format!("a list of {}", bytes(limits::PARAMETER_LIST_BYTES_MAX)),
        Limit::Unmap => format!(
            "{}, {} descriptors",
            bytes(limits::UNMAP_BYTES_MAX),
            limits::UNMAP_DESCRIPTORS_MAX
        ),
        Limit::LbaStatus => format!(
            "tells of {}, {} descriptors",
            bytes(limits::LBA_STATUS_BYTES_MAX),
            limits::LBA_STATUS_DESCRIPTORS_MAX
        ),
        Limit::Copy => format!(
            "{} CSCDs, {} segments of {}, {} at once",
            limits::CSCD_DESCRIPTORS_MAX,
            limits::SEGMENT_DESCRIPTORS_MAX,
            bytes(limits::SEGMENT_BYTES_MAX),
            limits::CONCURRENT_COPIES_MAX
        ),
        Limit::Token => format!(
            "{} ranges, {}, ends after {} at most, {} tokens",
            limits::TOKEN_RANGES_MAX,
            bytes(limits::TOKEN_BYTES_REPRESENTED_MAX),
            seconds(limits::TOKEN_TIMEOUT_MAX),
            limits::TOKENS_MAX
        ),
        Limit::Outcomes => format!(
            "{} outcomes of a nexus, held for {}",
            limits::COPY_RESULTS_HELD_MAX,
            seconds(limits::COPY_RESULT_HELD_FOR)
        ),
        Limit::Registrations => {
            format!("{} registrations", limits::REGISTRATIONS_PER_UNIT_MAX)
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
