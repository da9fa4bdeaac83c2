//! Number formatting for people.

/// Three significant digits, without an exponent.
pub(in crate::validate) fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "–".to_owned() };
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return grouped(value.round());
    }
    format!("{value:.*}", digits.min(6) as usize)
}

/// Thousands apart.
fn grouped(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (number, digit) in plain.chars().enumerate() {
        if number > 0 && (plain.len() - number).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

/// A whole number, thousands apart.
pub(in crate::validate) fn count(value: u64) -> String {
    grouped(value as f64)
}

/// Bytes in decimal units.
pub(in crate::validate) fn bytes(value: u64) -> String {
    let units =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{} {name}", significant(value as f64 / *unit as f64)),
        None => format!("{value} B"),
    }
}

/// Seconds, in the unit that suits.
pub(in crate::validate) fn seconds(value: f64) -> String {
    match value {
        value if value < 1e-3 => format!("{} µs", significant(value * 1e6)),
        value if value < 1.0 => format!("{} ms", significant(value * 1e3)),
        value if value < 120.0 => format!("{} s", significant(value)),
        value => format!("{:.0} min {:02.0} s", (value / 60.0).floor(), value % 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough_for_people() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1.00"),
            (0.012_345, "0.0123"),
            (12.345, "12.3"),
            (123.45, "123"),
            (1234.4, "1\u{202f}234"),
            (-1_234_567.0, "−1\u{202f}234\u{202f}567"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(significant(value), text);
        }
        assert_eq!((bytes(999), bytes(1_500_000)), ("999 B".to_owned(), "1.50 MB".to_owned()));
        let texts = [0.000_05, 0.05, 5.0, 185.0].map(seconds);
        assert_eq!(texts, ["50.0 µs", "50.0 ms", "5.00 s", "3 min 05 s"]);
    }
}
