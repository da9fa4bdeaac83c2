//! The table at the end of the demo.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use harness::Traffic;

/// What one step cost.
pub(super) struct Row {
    /// What was done.
    pub(super) work: &'static str,
    /// By which means.
    pub(super) how: &'static str,
    pub(super) elapsed: Duration,
    pub(super) traffic: Traffic,
    /// Space that the pool's volumes and their maps held afterwards.
    pub(super) used_bytes: u64,
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["STEP", "HOW", "SECONDS", "MIB ON THE WIRE", "COMMANDS", "POOL USED, MIB"]);
    for row in rows {
        table.add_row([
            row.work.to_owned(),
            row.how.to_owned(),
            format!("{:.3}", row.elapsed.as_secs_f64()),
            mebibytes(row.traffic.bytes()),
            row.traffic.commands.to_string(),
            mebibytes(row.used_bytes),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[allow(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn mebibytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1 << 20))
}
