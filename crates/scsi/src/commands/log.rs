//! LOG SENSE and LOG SELECT (SPC-4 6.7, 6.8), and the log pages (SPC-4 7.3, SBC-4 6.4).

use std::time::Duration;

use crate::change::Change;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::sense::{self, Sense};
use crate::space::threshold_sets;
use crate::unit::LogicalUnit;

const SP: u8 = 0;
const PCR: u8 = 1;

/// PAGE CONTROL: current cumulative values.
const CUMULATIVE: u8 = 1;

const ALL_SUBPAGES: u8 = 0xff;
const STATISTICS: u8 = 0x19;

/// DS: no parameter is ever saved. SPF: there is a subpage code.
const DS: u8 = 0x80;
const SPF: u8 = 0x40;

/// FORMAT AND LINKING: a binary list; a counter that saturates.
const LIST: u8 = 0x03;
const COUNTER: u8 = 0x02;

/// A log parameter without its header.
struct Parameter {
    code: u16,
    control: u8,
    value: Vec<u8>,
}

/// What a page says of a unit now.
type Page = fn(&LogicalUnit, Duration) -> Vec<Parameter>;

/// Every page but 00h, by ascending page code.
const PAGES: [(u8, Page); 3] =
    [(0x0c, provisioning), (STATISTICS, statistics), (0x2f, informational_exceptions)];

/// LOG SENSE.
pub(super) fn log_sense(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    execution.unit()?.check_present()?;
    if execution.cdb.bit(1, SP) {
        return Err(Sense::invalid_cdb_bit(1, SP).into());
    }
    let (control, code) = (execution.cdb.u8(2) >> 6, execution.cdb.u8(2) & 0x3f);
    let pointer = execution.cdb.u16(5);
    let (mut page, content) = match (code, execution.cdb.u8(3)) {
        (0, 0) => (vec![DS, 0], supported_pages()),
        (0, ALL_SUBPAGES) => (vec![DS | SPF, ALL_SUBPAGES], supported_subpages()),
        (_, 0) => (vec![DS | code, 0], parameters(execution, code, control, pointer)?),
        _ => return Err(Sense::invalid_cdb_field(3).into()),
    };
    if code == 0 && pointer != 0 {
        return Err(Sense::invalid_cdb_field(5).into());
    }
    page.extend((content.len() as u16).to_be_bytes());
    page.extend(content);
    Ok(Action::data(page, u32::from(execution.cdb.u16(7))))
}

/// LOG SELECT: resets the statistics; no parameter can be given another value.
pub(super) fn log_select(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let cdb = execution.cdb;
    if cdb.bit(1, SP) {
        return Err(Sense::invalid_cdb_bit(1, SP).into());
    }
    // SPC-4 6.7: with PCR there is no parameter list; without it there is none that is right.
    if cdb.u16(7) != 0 {
        return Err(Sense::invalid_cdb_field(7).into());
    }
    let (code, subpage) = (cdb.u8(2) & 0x3f, cdb.u8(3));
    let is_known = code == 0 || PAGES.iter().any(|(known, _)| *known == code);
    if !is_known || (subpage != 0 && (code, subpage) != (0, ALL_SUBPAGES)) {
        return Err(Sense::invalid_cdb_field(if is_known { 3 } else { 2 }).into());
    }
    let now = execution.now;
    let restarted = execution.unit()?.statistics.restarted(now);
    let resets = cdb.bit(1, PCR) && (code == 0 || code == STATISTICS);
    Ok(Action::Change(Box::new(Change {
        statistics: resets.then_some(restarted),
        told_to_others: resets.then_some(sense::LOG_PARAMETERS_CHANGED),
        ..Change::default()
    })))
}

fn supported_pages() -> Vec<u8> {
    std::iter::once(0).chain(PAGES.iter().map(|(code, _)| *code)).collect()
}

fn supported_subpages() -> Vec<u8> {
    let pages = PAGES.iter().flat_map(|(code, _)| [*code, 0]);
    [0, 0, 0, ALL_SUBPAGES].into_iter().chain(pages).collect()
}

/// The parameters of a page from one code on.
fn parameters(
    execution: &mut Execution<'_>,
    code: u8,
    control: u8,
    pointer: u16,
) -> Result<Vec<u8>, Completion> {
    let page = PAGES.iter().find(|(known, _)| *known == code);
    let (_, page) = page.ok_or_else(|| Sense::invalid_cdb_field(2))?;
    // Counters have no thresholds; lists are the same whatever is asked for.
    if code == STATISTICS && control != CUMULATIVE {
        return Err(Sense::invalid_cdb_bit(2, 7).into());
    }
    let now = execution.now;
    let wanted: Vec<_> =
        page(execution.unit()?, now).into_iter().filter(|p| p.code >= pointer).collect();
    if wanted.is_empty() && pointer != 0 {
        return Err(Sense::invalid_cdb_field(5).into());
    }
    Ok(wanted.into_iter().flat_map(Parameter::emit).collect())
}

impl Parameter {
    fn emit(self) -> Vec<u8> {
        let [high, low] = self.code.to_be_bytes();
        let mut bytes = vec![high, low, self.control, self.value.len() as u8];
        bytes.extend(self.value);
        bytes
    }
}

/// SBC-4 6.4.4: in threshold sets. What is available is the whole pool's, what is used is this
/// unit's.
fn provisioning(unit: &LogicalUnit, _: Duration) -> Vec<Parameter> {
    const DEDICATED: u8 = 1;
    const SHARED: u8 = 2;
    let Some(space) = unit.space else { return Vec::new() };
    let parameter = |code, bytes, scope| {
        let mut value = threshold_sets(bytes, unit.spec.block_length).to_be_bytes().to_vec();
        value.extend([scope, 0, 0, 0]);
        Parameter { code, control: LIST, value }
    };
    vec![
        parameter(0x0001, space.available_bytes, SHARED),
        parameter(0x0002, space.used_bytes, DEDICATED),
    ]
}

/// SPC-4 7.3.10: commands and blocks, and times in milliseconds.
fn statistics(unit: &LogicalUnit, now: Duration) -> Vec<Parameter> {
    let counters = &unit.statistics;
    let intervals = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let values = [
        counters.read_commands,
        counters.write_commands,
        counters.blocks_received,
        counters.blocks_transmitted,
        intervals(counters.reading),
        intervals(counters.writing),
        counters.read_commands.saturating_add(counters.write_commands),
        intervals(counters.reading + counters.writing),
    ];
    let value = values.into_iter().flat_map(u64::to_be_bytes).collect();
    let idle = intervals(counters.idle(now)).to_be_bytes().to_vec();
    // TIME INTERVAL: EXPONENT -3, INTEGER 1.
    let interval = [(-3i32).to_be_bytes(), 1u32.to_be_bytes()].concat();
    vec![
        Parameter { code: 0x0001, control: COUNTER, value },
        Parameter { code: 0x0002, control: COUNTER, value: idle },
        Parameter { code: 0x0003, control: LIST, value: interval },
    ]
}

/// SPC-4 7.3.11: nothing to report, and no temperature.
fn informational_exceptions(_: &LogicalUnit, _: Duration) -> Vec<Parameter> {
    const NO_TEMPERATURE: u8 = 0xff;
    vec![Parameter { code: 0x0000, control: LIST, value: vec![0, 0, NO_TEMPERATURE, 0] }]
}
