//! Designators: the names of a logical unit (SPC-4 7.8.6) in VPD page 83h and in CSCD descriptors.

use crate::identity::Identification;

/// A designator with association 0, logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Designator {
    /// CODE SET: 1 binary, 2 ASCII.
    pub(crate) code_set: u8,
    /// DESIGNATOR TYPE.
    pub(crate) kind: u8,
    /// DESIGNATOR, at most 20 bytes: as many as a CSCD descriptor holds.
    pub(crate) value: Vec<u8>,
}

impl Designator {
    /// Those that VPD page 83h tells: the NAA name, which is the one that ESXi uses, and the T10
    /// vendor identification.
    pub(crate) fn told(identification: &Identification, naa: &[u8; 16]) -> [Self; 2] {
        let naa_name = Self { code_set: 1, kind: 3, value: naa.to_vec() };
        [naa_name, Self { code_set: 2, kind: 1, value: vendor_identification(identification, naa) }]
    }

    /// Those by which a copy manager finds the unit: the told ones, and the EUI-64 based name. The
    /// latter is not told, since ESXi does not get along with two units that have one.
    pub(crate) fn all(identification: &Identification, naa: &[u8; 16]) -> [Self; 3] {
        let [naa_name, vendor] = Self::told(identification, naa);
        [naa_name, vendor, Self { code_set: 1, kind: 2, value: eui_64(naa) }]
    }
}

/// SPC-4 7.8.6.4: T10 vendor identification, and the low 64 bits of the NAA name in 11 digits of
/// base 64.
fn vendor_identification(identification: &Identification, naa: &[u8; 16]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    let number = low_bits(naa);
    let digit = |place: u32| DIGITS[(number >> (6 * place) & 0x3f) as usize];
    let mut value = identification.vendor.to_vec();
    value.extend((0..11).rev().map(digit));
    value
}

/// SPC-4 7.8.6.5.4: EUI-64 based 16-byte: the low 64 bits of the NAA name as identifier extension,
/// its company identifier, and the vendor's bits that follow it.
fn eui_64(naa: &[u8; 16]) -> Vec<u8> {
    let high = u64::from_be_bytes(naa[..8].try_into().expect("8 bytes"));
    let company = high << 4 >> 40;
    let vendor = high & 0xf_ffff_ffff;
    let mut value = low_bits(naa).to_be_bytes().to_vec();
    value.extend((company << 40 | vendor).to_be_bytes());
    value
}

fn low_bits(naa: &[u8; 16]) -> u64 {
    u64::from_be_bytes(naa[8..].try_into().expect("8 bytes"))
}
