//! Logical unit numbers (SAM-5 4.7).

/// Largest number that flat space addressing can carry.
pub(crate) const LUN_MAX: u16 = 0x3fff;

/// The single-level LUN in an 8-byte LUN field (big-endian); `None` if it uses another addressing
/// method or more levels, which no logical unit of ours has.
pub const fn parse_lun(field: u64) -> Option<u16> {
    let first = (field >> 48) as u16;
    if field & 0xffff_ffff_ffff != 0 {
        return None;
    }
    match first >> 14 {
        // SAM-5 4.7.7.2: peripheral device addressing, bus 0.
        0b00 if first < 256 => Some(first),
        // SAM-5 4.7.7.3: flat space addressing.
        0b01 => Some(first & LUN_MAX),
        _ => None,
    }
}

/// The 8-byte LUN field: peripheral device addressing below 256, flat space from there to 16,383.
pub const fn emit_lun(lun: u16) -> u64 {
    let first = if lun < 256 { lun } else { 0x4000 | (lun & LUN_MAX) };
    (first as u64) << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_from_its_field() {
        for lun in [0, 1, 255, 256, 1000, LUN_MAX] {
            assert_eq!(parse_lun(emit_lun(lun)), Some(lun));
        }
        assert_eq!(parse_lun(0x4001_0000_0000_0000), Some(1));
    }

    #[test]
    fn other_levels_buses_and_well_known_units_are_not_ours() {
        for field in [1, 0x0100_0000_0000_0000, 0xc101_0000_0000_0000, 0x8000_0000_0000_0000] {
            assert_eq!(parse_lun(field), None, "{field:#x}");
        }
    }
}
