//! What is said beside a command's document, on standard error. That may be full or closed, which is no reason to end otherwise than without it: so
//! nothing here fails, as `eprintln!` would.

use std::fmt::Arguments;
use std::io::Write;

/// A line on standard error, as far as somebody takes it.
macro_rules! tell {
    ($($text:tt)*) => { $crate::commands::tell::write(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use tell;

/// Writes to standard error what can be written there.
pub fn write(text: Arguments<'_>) {
    // In one piece, as others write there too; without colours where that is no terminal.
    let _ = anstream::stderr().write_all(text.to_string().as_bytes());
}
