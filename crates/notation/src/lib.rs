//! Formats and parses sizes, moments and lengths of time as people write them: '20 GiB',
//! '2027-01-31 18:00:00Z', '15m'. One notation for command lines, messages and events.
#![forbid(unsafe_code)]

mod size;
mod time;

pub use size::{format_size, parse_size};
pub use time::{format_duration, format_time, parse_duration, parse_time};
