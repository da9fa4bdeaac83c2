//! Minimum C library version of a program.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// What the names of versions of the C library's symbols begin with.
const PREFIX: &[u8] = b"GLIBC_2.";

/// The newest version that a program names.
pub(super) fn needed(program: &Path) -> Result<(u32, u32)> {
    let bytes = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    newest(&bytes).with_context(|| format!("{} needs no C library", program.display()))
}

fn newest(bytes: &[u8]) -> Option<(u32, u32)> {
    let places = bytes.windows(PREFIX.len()).enumerate();
    let places = places.filter(|(_, window)| *window == PREFIX);
    let minors = places.filter_map(|(place, _)| minor(&bytes[place + PREFIX.len()..]));
    minors.max().map(|minor| (2, minor))
}

/// The number at the beginning, as far as there are digits.
fn minor(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.iter().take(4).take_while(|byte| byte.is_ascii_digit());
    let digits: Vec<u8> = digits.copied().collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let text = b"x\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBC_2.\0";
        assert_eq!(newest(text), Some((2, 34)));
        assert_eq!(newest(b"GLIBC_3.1"), None);
    }
}
