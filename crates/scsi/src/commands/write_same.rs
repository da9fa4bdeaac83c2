//! WRITE SAME (SBC-4 5.48, 5.49). VMware: Zero, block zeroing.

use block::{Pattern, Request, Switch};

use crate::cdb::{Cdb, VARIABLE_LENGTH};
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::extent::Extent;
use crate::sense::Sense;

const ANCHOR: u8 = 4;
const UNMAP: u8 = 3;
const NDOB: u8 = 0;

/// ANCHOR and UNMAP.
pub(super) const ABOUT_UNMAPPING: u8 = 1 << ANCHOR | 1 << UNMAP;

/// One block, unless a CDB of 16 or 32 bytes says that there is none (NDOB).
pub(super) fn data_out(cdb: &Cdb, _: Extent, block_bytes: u64) -> u64 {
    if has_no_data(cdb) { 0 } else { block_bytes }
}

fn has_no_data(cdb: &Cdb) -> bool {
    cdb.opcode() != 0x41 && cdb.bit(flags_at(cdb.opcode()), NDOB)
}

/// Byte of the CDB that has WRPROTECT, ANCHOR, UNMAP and NDOB.
pub(super) const fn flags_at(opcode: u8) -> usize {
    if opcode == VARIABLE_LENGTH { 10 } else { 1 }
}

/// WRITE SAME (10), (16), (32). The tags of the last have no effect, since there is no protection
/// information.
pub(super) fn write_same(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let range = execution.range()?;
    let flags_at = flags_at(execution.cdb.opcode());
    let unmap = execution.cdb.bit(flags_at, UNMAP);
    if unmap {
        execution.require_on(Switch::Unmap, Sense::invalid_cdb_bit(flags_at, UNMAP))?;
    }
    // SBC-4 5.48: ANCHOR goes with UNMAP, and needs ANC_SUP of VPD page B2h.
    if execution.cdb.bit(flags_at, ANCHOR) && !(unmap && execution.unit()?.anchors()) {
        return Err(Sense::invalid_cdb_bit(flags_at, ANCHOR).into());
    }
    // One request, so that it is done wholly or not at all, whatever the length.
    Ok(Action::Request(match pattern(execution)? {
        // SBC-4 4.7.3.4: blocks may be unmapped only if they then read as the data says.
        Pattern::Zero if unmap => Request::Unmap { ranges: vec![range] },
        pattern => Request::WriteSame { range, pattern },
    }))
}

fn pattern(execution: &Execution<'_>) -> Result<Pattern, Completion> {
    if has_no_data(&execution.cdb) {
        return Ok(Pattern::Zero);
    }
    let length = execution.unit()?.block_bytes();
    execution.require_exact_data_out(length)?;
    let block = execution.data_out.slice(..length as usize);
    if block.iter().all(|&byte| byte == 0) {
        return Ok(Pattern::Zero);
    }
    Ok(Pattern::Block(block))
}
