//! Escaping of control characters in texts that others wrote, so that no name or message can move the cursor,
//! change the colours or set the title of the terminal.

/// A text with its control characters, and those that turn the direction of text, as escapes.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push(character),
            _ if is_unsafe(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

/// C0, DEL and C1; the marks, embeddings, overrides and isolates of the bidirectional algorithm
/// (UAX #9); separators of lines and paragraphs.
fn is_unsafe(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}');
    character.is_control() || turns || matches!(character, '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        for (text, shown) in [
            ("iqn.2026-01.org.example:größe", "iqn.2026-01.org.example:größe"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\rb\tc", "a\\u{d}b\\u{9}c"),
            ("two\nlines", "two\nlines"),
            ("\u{202e}gro", "\\u{202e}gro"),
            ("\u{7f}", "\\u{7f}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
