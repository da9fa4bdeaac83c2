//! Moments in UTC and lengths of time.

use std::time::UNIX_EPOCH;

const DAY: u64 = 86_400;

/// Parses a length of time in whole seconds: '90s', '15m', '6h', '30d', '1h 30m'.
///
/// # Errors
/// When it is none, or has a part of a second; the text says how to write one.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a length of time: write for example 15m, 6h or 30d");
    let duration = humantime::parse_duration(text).map_err(|_| wrong())?;
    match duration.subsec_nanos() {
        0 => Ok(duration.as_secs()),
        _ => Err(wrong()),
    }
}

/// Formats a length of time in seconds: '15m', '1day 6h'.
pub fn format_duration(seconds: u64) -> String {
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}

/// Parses a moment in UTC, '2027-01-31', '2027-01-31 18:00:00' or '2027-01-31T18:00:00Z', as
/// seconds since 1970.
///
/// # Errors
/// When it is none, or lies before 1970; the text says how to write one.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let whole = if text.len() == 10 { format!("{text} 00:00:00") } else { text.to_owned() };
    let moment = humantime::parse_rfc3339_weak(whole.trim_end_matches('Z'));
    let since = moment.ok().and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
    let wrong = || format!("'{text}' is not a moment: write for example 2027-01-31 18:00:00 (UTC)");
    since.map(|since| since.as_secs()).ok_or_else(wrong)
}

/// Formats seconds since 1970 as date and time of day in UTC: '2027-01-31 18:00:00Z'.
pub fn format_time(seconds: u64) -> String {
    let (year, month, day) = date_of(seconds / DAY);
    let rest = seconds % DAY;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn date_of(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, a leap day is the last day of its year, and every 400 years have
    // the same number of days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_lengths_of_time_read_as_people_write_them() {
        for (text, seconds) in [
            ("2026-11-21 07:57:29", 1_795_247_849),
            ("2026-11-21T07:57:29Z", 1_795_247_849),
            ("1970-01-02", DAY),
        ] {
            assert_eq!(parse_time(text), Ok(seconds), "{text}");
        }
        for text in ["", "tomorrow", "2026-13-01", "1969-12-31", "1795247849"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h 30m", 5400), ("30d", 30 * DAY)] {
            assert_eq!(parse_duration(text), Ok(seconds), "{text}");
        }
        for text in ["", "5", "-1s", "1 fortnight", "500ms"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_are_written_as_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (951_868_800, "2000-03-01 00:00:00Z"),
            (1_795_247_849, "2026-11-21 07:57:29Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(format_time(seconds), text);
        }
    }
}
