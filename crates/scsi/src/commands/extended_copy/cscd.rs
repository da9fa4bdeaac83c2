//! Copy sources and destinations (SPC-4 6.4.5): only logical units that the nexus sees.

use block::VolumeId;

use super::parameter_list::{invalid, length_error, u32_at};
use super::refused;
use crate::command::Execution;
use crate::completion::Completion;
use crate::limits::CSCD_DESCRIPTORS_MAX;
use crate::sense;

/// DESCRIPTOR TYPE CODE of an identification descriptor CSCD descriptor.
pub(crate) const CSCD_IDENTIFICATION: u8 = 0xe4;

/// SPC-4 table 114: the CSCD identifier of the logical unit that the command is addressed to.
pub(in crate::commands) const THIS_LOGICAL_UNIT: u16 = 0xffff;

const CSCD_BYTES: usize = 32;

/// Longest designator that fits.
const DESIGNATOR_BYTES_MAX: usize = 20;

/// A copy source or destination, as the list describes it.
#[derive(Clone, Debug)]
pub(super) struct Cscd {
    /// CODE SET, DESIGNATOR TYPE and DESIGNATOR of a logical unit; `None` if the NUL bit says that
    /// there is no device, or it is not a logical unit that is named.
    designator: Option<(u8, u8, Vec<u8>)>,
    /// DISK BLOCK LENGTH, or 0.
    block_bytes: u32,
    /// PAD: what is missing in the last block is filled with zeros.
    pad: bool,
    /// First byte of the descriptor in the list.
    position: usize,
}

/// A copy source or destination that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) volume: VolumeId,
    /// PAD of its descriptor.
    pub(super) pad: bool,
}

/// All descriptors between two bytes of a list.
pub(super) fn parse_all(list: &[u8], start: usize, end: usize) -> Result<Vec<Cscd>, Completion> {
    let mut cscds = Vec::new();
    let mut position = start;
    while position < end {
        if cscds.len() == CSCD_DESCRIPTORS_MAX {
            return Err(refused(sense::TOO_MANY_TARGET_DESCRIPTORS, position));
        }
        if list[position] != CSCD_IDENTIFICATION {
            return Err(refused(sense::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE, position));
        }
        let descriptor = list.get(position..end.min(position + CSCD_BYTES));
        let descriptor = descriptor.and_then(|bytes| bytes.first_chunk::<CSCD_BYTES>());
        cscds.push(parse(descriptor.ok_or_else(length_error)?, position)?);
        position += CSCD_BYTES;
    }
    Ok(cscds)
}

fn parse(descriptor: &[u8; CSCD_BYTES], position: usize) -> Result<Cscd, Completion> {
    const NUL: u8 = 0x20;
    const PERIPHERAL_DEVICE_TYPE: u8 = 0x1f;
    const PAD: u8 = 0x04;
    // SPC-4 6.4.5.1: LU ID TYPE means nothing for this type of descriptor.
    if descriptor[1] & PERIPHERAL_DEVICE_TYPE != 0 {
        return Err(invalid(position + 1));
    }
    let length = usize::from(descriptor[7]);
    if length > DESIGNATOR_BYTES_MAX {
        return Err(invalid(position + 7));
    }
    let is_null = descriptor[1] & NUL != 0;
    let is_of_unit = descriptor[5] & 0x30 == 0;
    let (code_set, kind) = (descriptor[4] & 0x0f, descriptor[5] & 0x0f);
    let value = descriptor[8..8 + length].to_vec();
    Ok(Cscd {
        designator: (is_of_unit && !is_null).then_some((code_set, kind, value)),
        block_bytes: u32_at(descriptor, 28) & 0xff_ffff,
        pad: descriptor[28] & PAD != 0,
        position,
    })
}

impl Cscd {
    /// The logical unit that is meant, if this nexus sees it. Never any other: a copy manager that
    /// looked at all units would let an initiator read those of others.
    pub(super) fn find(&self, execution: &Execution<'_>) -> Result<Option<End>, Completion> {
        let Some((code_set, kind, value)) = &self.designator else { return Ok(None) };
        let mapped = execution.nexus.mappings.values().map(|mapping| mapping.volume);
        let found = mapped
            .filter_map(|volume| Some((volume, execution.units.get(&volume)?)))
            .find(|(_, unit)| unit.has_designator(execution.identity, *code_set, *kind, value));
        let Some((volume, unit)) = found else { return Ok(None) };
        if self.block_bytes != 0 && u64::from(self.block_bytes) != unit.block_bytes() {
            return Err(invalid(self.position + 29));
        }
        Ok(Some(End { volume, pad: self.pad }))
    }
}
