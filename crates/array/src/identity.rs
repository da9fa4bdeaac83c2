//! NAA identifiers of volumes, which never change and are never given twice.

use block::VolumeId;

/// IEEE Registered Extended identifiers (SPC-4 7.8.6.6.5) start with 6h and a 24-bit company id.
/// Gantry has no registered one; this is a locally administered value (the U/L bit is set).
const COMPANY_ID: u64 = 0x02_6761;

/// Part of the identifier that says 'Gantry volume', 36 bits: the ASCII of "ntry" and a version.
const VENDOR_SPECIFIC: u64 = 0x6_e747_2791;

/// The NAA type 6 identifier of a volume, 16 bytes, as VPD page 83h carries it.
pub fn naa_identifier(id: VolumeId) -> [u8; 16] {
    let high = 0x6 << 60 | COMPANY_ID << 36 | VENDOR_SPECIFIC;
    let mut naa = [0; 16];
    naa[..8].copy_from_slice(&high.to_be_bytes());
    naa[8..].copy_from_slice(&id.0.to_be_bytes());
    naa
}

/// The volume that an NAA identifier names; `None` if it is not one of ours.
pub fn volume_id(naa: &[u8; 16]) -> Option<VolumeId> {
    let id = VolumeId(u64::from_be_bytes(naa[8..].try_into().expect("8 of 16 bytes")));
    (naa_identifier(id) == *naa).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_of_type_6_and_leads_back_to_its_volume() {
        let naa = naa_identifier(VolumeId(0x0123_4567_89ab_cdef));
        assert_eq!(naa[0] >> 4, 6);
        assert_eq!(volume_id(&naa), Some(VolumeId(0x0123_4567_89ab_cdef)));
        let mut foreign = naa;
        foreign[3] ^= 1;
        assert_eq!(volume_id(&foreign), None);
    }
}
