//! Thread-local switch of the deliberate mistakes: a simulated pool is played by one thread.

use std::cell::Cell;

include!(concat!(env!("OUT_DIR"), "/names.rs"));

thread_local! {
    static ON: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Switches a mistake on for all pools of this thread, or all off; `false` if there is none of that
/// name.
pub fn plant(name: Option<&str>) -> bool {
    let number = name.map(|name| NAMES.iter().position(|other| *other == name));
    ON.set(number.flatten());
    number != Some(None)
}

/// Whether a mistake is on.
pub(crate) fn is_on(number: usize) -> bool {
    ON.get() == Some(number)
}
