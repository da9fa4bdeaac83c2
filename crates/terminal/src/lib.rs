//! Standard output and standard error of the programs. A reader that closes the pipe ('| head')
//! ends the program quietly; an output that cannot be written ends it with an error. Neither
//! panics, as `println!` and `eprintln!` do.
#![forbid(unsafe_code)]

mod printable;

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

pub use printable::printable;

/// Status with which a program ends whose output cannot be written.
const FAILED: i32 = 1;

/// Prints a line on the standard output, like `println!`.
#[macro_export]
macro_rules! say {
    () => { $crate::print(format_args!("\n")) };
    ($($argument:tt)*) => { $crate::print(format_args!("{}\n", format_args!($($argument)*))) };
}

/// Prints on the standard output without ending the line, like `print!`.
#[macro_export]
macro_rules! say_part {
    ($($argument:tt)*) => { $crate::print(format_args!($($argument)*)) };
}

/// Prints progress on the standard output without ending the line. Work goes on whether or not
/// anybody reads it.
#[macro_export]
macro_rules! progress {
    ($($argument:tt)*) => { $crate::print_progress(format_args!($($argument)*)) };
}

/// Prints a line on the standard error, like `eprintln!`; nothing happens if nobody takes it.
#[macro_export]
macro_rules! complain {
    ($($argument:tt)*) => { $crate::print_error(format_args!($($argument)*)) };
}

/// Writes to the standard output; what stands behind [`say!`] and [`say_part!`].
///
/// Ends the process with status 0 if the reader has closed the pipe, and with status 1 and a word
/// on the standard error if the output cannot be written for another reason (a full disk).
pub fn print(text: Arguments<'_>) {
    let mut output = io::stdout().lock();
    if let Err(error) = output.write_fmt(text).and_then(|()| output.flush()) {
        process::exit(status_after(&error));
    }
}

/// Writes to the standard output if that is possible; what stands behind [`progress!`].
pub fn print_progress(text: Arguments<'_>) {
    let mut output = io::stdout().lock();
    let _ = output.write_fmt(text).and_then(|()| output.flush());
}

/// Writes a line to the standard error; what stands behind [`complain!`].
pub fn print_error(text: Arguments<'_>) {
    // Whoever cannot be told of an error cannot be told of that either.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn status_after(error: &io::Error) -> i32 {
    if error.kind() == ErrorKind::BrokenPipe {
        return 0;
    }
    print_error(format_args!("the standard output cannot be written: {error}"));
    FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_enough_is_no_error_and_a_full_disk_is() {
        for (kind, status) in [(ErrorKind::BrokenPipe, 0), (ErrorKind::StorageFull, FAILED)] {
            assert_eq!(status_after(&kind.into()), status, "{kind}");
        }
    }
}
