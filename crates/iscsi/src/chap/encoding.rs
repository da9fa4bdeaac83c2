//! Encoding of binary values in text (RFC 7143 6.1): hexadecimal after `0x`, Base64 after `0b`.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// RFC 4648 with its padding, which some initiators leave out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Writes bytes in hexadecimal, which every initiator reads.
pub(super) fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}

/// Reads what is written in either way; `None` if it is neither.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let (prefix, rest) = text.split_at_checked(2)?;
    match prefix {
        "0x" | "0X" => decode_hexadecimal(rest),
        "0b" | "0B" => BASE64.decode(rest).ok(),
        _ => None,
    }
}

/// An odd number of digits lacks a leading zero.
fn decode_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let mut digits = digits?;
    if digits.len() % 2 == 1 {
        digits.insert(0, 0);
    }
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
