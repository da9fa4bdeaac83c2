//! Expiry date of a certificate (RFC 5280 4.1.2.5), read from its DER.

use std::time::UNIX_EPOCH;

/// The end of the validity, seconds since 1970; `None` for what is no certificate.
pub(super) fn not_after(certificate: &[u8]) -> Option<u64> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    // [0] version is there in version 3; then serial number, signature algorithm and issuer.
    if rest.first() == Some(&0xa0) {
        rest = element(rest)?.2;
    }
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, validity, _) = element(rest)?;
    let (_, _, after) = element(validity)?;
    let (tag, time, _) = element(after)?;
    seconds_of(tag, str::from_utf8(time).ok()?)
}

/// Tag, content, and what follows (X.690 8.1).
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// UTCTime counts years from 1950 to 2049 (RFC 5280 4.1.2.5.1), GeneralizedTime has four digits.
fn seconds_of(tag: u8, time: &str) -> Option<u64> {
    let time = match tag {
        0x17 if time.get(..2)? < "50" => format!("20{time}"),
        0x17 => format!("19{time}"),
        0x18 => time.to_owned(),
        _ => return None,
    };
    let part = |from: usize| time.get(from..from + 2);
    let (year, month, day) = (time.get(..4)?, part(4)?, part(6)?);
    let (hour, minute, second) = (part(8)?, part(10)?, part(12)?);
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    let moment = humantime::parse_rfc3339(&text).ok()?;
    Some(moment.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_says_when_it_expires() {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        for (year, expected) in [(2031, 1_924_992_000), (2061, 2_871_763_200)] {
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            let certificate = parameters.self_signed(&key).unwrap();
            assert_eq!(not_after(certificate.der()), Some(expected));
        }
    }

    #[test]
    fn what_is_no_certificate_says_nothing() {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let whole = parameters.self_signed(&key).unwrap().der().to_vec();
        for length in 0..100 {
            assert_eq!(not_after(&whole[..length]), None);
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0x5a;
            not_after(&other);
        }
    }
}
