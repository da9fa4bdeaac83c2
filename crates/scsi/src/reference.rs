//! Reference page of the commands, generated from the command table.

mod notes;

use std::fmt::Write;

use crate::cdb::VARIABLE_LENGTH;
use crate::command::{Medium, Ordering, Reservation, Row};
use crate::commands::table;

const HEAD: &str = "\
# SCSI commands

Generated from the command table of the device server; do not edit. A CDB bit that is not in the
usage mask must be zero, otherwise the command ends with CHECK CONDITION, 05h/24h/00h and a field
pointer. What exceeds a limit is refused and changes nothing. Tests named 'scsi/FILE' are unit tests
in `crates/scsi/src/tests`, the others are in `tests/tests`; besides, libiscsi's own tests of each
command run in `witness_libiscsi`.

| Code | Command | CDB usage | Changes the medium | Reserved by another nexus | Order | Limit | Test |
|---|---|---|---|---|---|---|---|
";

/// A Markdown page with one line per command.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for row in table::ROWS {
        let usage: Vec<String> = row.usage.iter().map(|byte| format!("{byte:02X}")).collect();
        let (limit, tests) = (notes::limit(row), notes::tests(row));
        writeln!(
            page,
            "| {} | {} | `{}` | {} | {} | {} | {limit} | {tests} |",
            code(row),
            row.name,
            usage.join(" "),
            if row.medium == Medium::Writes { "yes" } else { "no" },
            if row.reservation == Reservation::Allowed { "runs" } else { "conflict" },
            order(row.ordering),
        )
        .expect("writing to a string does not fail");
    }
    page
}

fn code(row: &Row) -> String {
    match row.service_action {
        Some(action) if row.opcode == VARIABLE_LENGTH => {
            format!("{VARIABLE_LENGTH:02X}h/{action:04X}h")
        }
        Some(action) => format!("{:02X}h/{action:02X}h", row.opcode),
        None => format!("{:02X}h", row.opcode),
    }
}

fn order(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Immediate => "at once",
        Ordering::Simple => "by task attribute",
        Ordering::CompareAndWrite => "by task attribute, not beside RESERVE",
        Ordering::Alone => "after all older ones, before all younger ones",
        Ordering::Reserve => "by task attribute, not beside COMPARE AND WRITE",
    }
}
