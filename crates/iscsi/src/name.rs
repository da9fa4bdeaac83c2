//! Validation and case folding of iSCSI names (RFC 7143 4.2.7).
//!
//! RFC 3722 folds the case of names; of ASCII it allows letters, digits, '-', '.' and ':' only.
//! This room also accepts '_', since initiators send it and it does no harm. Beyond ASCII it
//! accepts letters and digits, so that no name brings a control character, a space or a mark that
//! turns the direction of text into a log, a table or a label.

use thiserror::Error;

/// RFC 7143 4.2.7.1: the longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 223;

/// Why a text is no iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// It is empty or longer than [`NAME_BYTES_MAX`].
    #[error("an iSCSI name has 1 to {NAME_BYTES_MAX} bytes")]
    Length,
    /// It begins with none of the type designators.
    #[error("an iSCSI name begins with 'iqn.', 'eui.' or 'naa.'")]
    Type,
    /// What follows 'iqn.' is no date and naming authority.
    #[error("after 'iqn.' come year and month, a dot and a name: iqn.2026-01.com.example:esx1")]
    NamingAuthority,
    /// What follows 'eui.' is no EUI-64.
    #[error("after 'eui.' come 16 hexadecimal digits")]
    Eui,
    /// What follows 'naa.' is no NAA identifier.
    #[error("after 'naa.' come 16 or 32 hexadecimal digits")]
    Naa,
    /// It has a character that no name has.
    #[error("an iSCSI name has letters, digits, '-', '.', ':' and '_' only")]
    Character,
}

/// Checks a name and returns it as it is compared: in lower case.
///
/// # Errors
/// Why it is none.
pub fn fold_name(text: &str) -> Result<String, NameError> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return Err(NameError::Length);
    }
    if !text.chars().all(is_name_character) {
        return Err(NameError::Character);
    }
    // RFC 3722 4: some letters take more bytes in lower case.
    let name = text.to_lowercase();
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::Length);
    }
    check_form(&name)?;
    Ok(name)
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || "-.:_".contains(character)
}

/// RFC 7143 4.2.7.4 to 4.2.7.6.
fn check_form(name: &str) -> Result<(), NameError> {
    let Some((designator, rest)) = name.split_at_checked("iqn.".len()) else {
        return Err(NameError::Type);
    };
    let hexadecimal = || rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    match designator {
        "iqn." if has_naming_authority(rest) => Ok(()),
        "iqn." => Err(NameError::NamingAuthority),
        "eui." if rest.len() == 16 && hexadecimal() => Ok(()),
        "eui." => Err(NameError::Eui),
        "naa." if matches!(rest.len(), 16 | 32) && hexadecimal() => Ok(()),
        "naa." => Err(NameError::Naa),
        _ => Err(NameError::Type),
    }
}

/// Whether a text begins with 'yyyy-mm.' and goes on.
fn has_naming_authority(text: &str) -> bool {
    let Some((date, authority)) = text.split_once('.') else { return false };
    let Some((year, month)) = date.split_once('-') else { return false };
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    digits(year, 4) && digits(month, 2) && !authority.is_empty()
}

#[cfg(test)]
mod tests;
