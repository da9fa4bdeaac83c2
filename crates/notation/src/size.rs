//! Sizes in bytes, with units that are powers of 1024.

const UNITS: [(&str, u64); 6] =
    [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40), ("P", 1 << 50), ("", 1)];

/// Parses '20G', '512M', '1T', '1.5T' or a number of bytes; units are powers of 1024, and may be
/// followed by 'iB' or 'B'.
///
/// # Errors
/// When it is no size, or 2^64 bytes or more; the text says how to write one.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size: write for example 20G, 512M or 1T");
    let upper = text.to_ascii_uppercase();
    let number = upper.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = upper[number.len()..].trim_end_matches("IB").trim_end_matches('B');
    let unit = UNITS.iter().find(|(name, _)| *name == suffix).ok_or_else(wrong)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.len() <= 18 && part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| wrong())?);
    let part: u128 = format!("0{fraction}").parse().map_err(|_| wrong())?;
    let part = u64::try_from(part * u128::from(unit) / scale).map_err(|_| wrong())?;
    whole.checked_mul(unit).and_then(|bytes| bytes.checked_add(part)).ok_or_else(wrong)
}

/// Formats a size in the largest unit of which it has at least one, with two decimals at most:
/// '1.5 GiB'.
pub fn format_size(bytes: u64) -> String {
    let mut units = UNITS.iter().filter(|(name, unit)| !name.is_empty() && bytes >= *unit);
    match units.next_back() {
        #[allow(clippy::cast_precision_loss, reason = "two decimals are shown")]
        Some((name, unit)) => {
            let text = format!("{:.2}", bytes as f64 / *unit as f64);
            format!("{} {name}iB", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("20G", 20 << 30),
            ("1t", 1 << 40),
            ("512MiB", 512 << 20),
            ("1.5G", 3 << 29),
            ("10GB", 10 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "G", "-1", "1X", "1 G", "99999999999999999999", "18446744073709551615T", "1..5G"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_written_short() {
        assert_eq!(format_size(20 << 30), "20 GiB");
        assert_eq!(format_size(3 << 29), "1.5 GiB");
        assert_eq!(format_size(100), "100 B");
    }
}
