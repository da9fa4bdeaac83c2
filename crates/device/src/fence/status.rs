//! Parameter data of PERSISTENT RESERVE IN (SPC-4, 6.15): who is registered, and who holds the
//! reservation.

/// A registration of an initiator port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) key: u64,
    pub(crate) is_holder: bool,
    /// The initiator port, as far as its TransportID is known.
    pub(crate) port: Option<String>,
}

/// Bytes before the first descriptor.
const HEADER: usize = 8;

/// Bytes of a full status descriptor before its TransportID.
const DESCRIPTOR: usize = 24;

/// Parameter data are shorter than they say, or than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut;

/// Bytes that a device needs for all of the answer of which this is the beginning.
pub(crate) fn length(data: &[u8]) -> Result<usize, Cut> {
    let length = data.get(4..8).and_then(|bytes| bytes.try_into().ok()).ok_or(Cut)?;
    Ok(HEADER + u32::from_be_bytes(length) as usize)
}

fn body(data: &[u8]) -> Result<&[u8], Cut> {
    data.get(HEADER..length(data)?).ok_or(Cut)
}

fn key_at(bytes: &[u8]) -> Result<u64, Cut> {
    let key = bytes.get(..8).and_then(|bytes| bytes.try_into().ok()).ok_or(Cut)?;
    Ok(u64::from_be_bytes(key))
}

/// READ FULL STATUS.
pub(crate) fn full_status(data: &[u8]) -> Result<Vec<Registrant>, Cut> {
    let mut rest = body(data)?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = key_at(rest)?;
        let head = rest.get(..DESCRIPTOR).ok_or(Cut)?;
        let length = u32::from_be_bytes([head[20], head[21], head[22], head[23]]) as usize;
        let end = DESCRIPTOR.checked_add(length).ok_or(Cut)?;
        let port = transport_id(rest.get(DESCRIPTOR..end).ok_or(Cut)?);
        found.push(Registrant { key, is_holder: head[12] & 1 != 0, port });
        rest = &rest[end..];
    }
    Ok(found)
}

/// READ KEYS.
pub(crate) fn keys(data: &[u8]) -> Result<Vec<u64>, Cut> {
    body(data)?.chunks(8).map(key_at).collect()
}

/// READ RESERVATION: the holder's key; `None` if nothing is reserved. All registrants hold one of a type
/// for all of them, whose key is 0.
pub(crate) fn reservation(data: &[u8]) -> Result<Option<u64>, Cut> {
    let body = body(data)?;
    if body.is_empty() { Ok(None) } else { key_at(body).map(Some) }
}

/// The name in a TransportID (SPC-4, 7.6.4).
fn transport_id(id: &[u8]) -> Option<String> {
    let hexadecimal =
        |name: &[u8]| -> String { name.iter().map(|byte| format!("{byte:02x}")).collect() };
    match id.first()? & 0x0f {
        0x0 => id.get(8..16).map(|name| format!("wwn.{}", hexadecimal(name))),
        0x5 => {
            let length = usize::from(u16::from_be_bytes([*id.get(2)?, *id.get(3)?]));
            let name = id.get(4..4 + length)?.split(|&byte| byte == 0).next()?;
            let name = String::from_utf8_lossy(name);
            Some(name.split(",i,").next().unwrap_or(&name).to_owned())
        }
        0x6 => id.get(4..12).map(|name| format!("sas.{}", hexadecimal(name))),
        _ => None,
    }
}
