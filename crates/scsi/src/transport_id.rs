//! TransportIDs of iSCSI initiators (SPC-4 7.6.4.6).

use crate::persistent::Registrant;

const HEADER_BYTES: usize = 4;
const ISCSI: u8 = 0x05;
const FORMAT_PORT: u8 = 0x40;

/// What stands between the iSCSI name and the ISID of an initiator port.
const SEPARATOR: &str = ",i,0x";

/// ADDITIONAL LENGTH is at least this, and a multiple of 4.
const ADDITIONAL_BYTES_MIN: usize = 20;

/// RFC 7143 4.2.7.1: the longest iSCSI name, in bytes.
const NAME_BYTES_MAX: usize = 223;

/// An initiator as a TransportID names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitiatorPort {
    pub(crate) name: String,
    /// Absent if the whole initiator device is named.
    pub(crate) isid: Option<[u8; 6]>,
}

/// The TransportID of a registrant, format 01b.
pub(crate) fn emit(registrant: &Registrant) -> Vec<u8> {
    let isid: String = registrant.isid.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut name = format!("{}{SEPARATOR}{isid}", registrant.initiator_name).into_bytes();
    // SPC-4 7.6.4.6: terminated by a zero and padded with zeros.
    name.resize((name.len() / 4 + 1).max(ADDITIONAL_BYTES_MIN / 4) * 4, 0);
    let mut id = vec![FORMAT_PORT | ISCSI, 0];
    id.extend((name.len() as u16).to_be_bytes());
    id.extend(name);
    id
}

/// The TransportID at the head of `bytes` and its length; `None` if it is cut off or not one of
/// iSCSI.
pub(crate) fn parse(bytes: &[u8]) -> Option<(InitiatorPort, usize)> {
    let [kind, _, high, low] = *bytes.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if kind & 0x3f != ISCSI || length < ADDITIONAL_BYTES_MIN || !length.is_multiple_of(4) {
        return None;
    }
    let field = bytes.get(HEADER_BYTES..HEADER_BYTES + length)?;
    let end = field.iter().position(|&byte| byte == 0)?;
    // RFC 7143 4.2.7.1: names are compared in lower case; so is 'i' of the ISID.
    let text = std::str::from_utf8(&field[..end]).ok()?.to_lowercase();
    let port = match kind & 0xc0 {
        0 => InitiatorPort { name: text.to_owned(), isid: None },
        FORMAT_PORT => {
            let (name, isid) = text.rsplit_once(SEPARATOR)?;
            InitiatorPort { name: name.to_owned(), isid: Some(parse_isid(isid)?) }
        }
        _ => return None,
    };
    let is_name = !port.name.is_empty() && port.name.len() <= NAME_BYTES_MAX;
    is_name.then_some((port, HEADER_BYTES + length))
}

/// Up to 12 hexadecimal digits; sg3_utils and Linux leave leading zeros away.
fn parse_isid(digits: &str) -> Option<[u8; 6]> {
    if digits.is_empty() || digits.len() > 12 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(digits, 16).ok()?;
    let [_, _, isid @ ..] = number.to_be_bytes();
    Some(isid)
}

#[cfg(test)]
mod tests;
