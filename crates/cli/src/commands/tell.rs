//! What is said beside a command's document, on standard error. That may be full or closed, which is no reason to end
//! otherwise than without it: so nothing here fails, as `eprintln!` would.

use numalens_view::visible;
use std::fmt::Arguments;
use std::io::Write;

/// A line on standard error, as far as somebody takes it. What a terminal would obey in it is written out: names come
/// from others.
macro_rules! tell {
    ($($text:tt)*) => { $crate::commands::tell::line(format_args!($($text)*)) };
}
pub(crate) use tell;

/// Writes a line to standard error, if it can be written there.
pub fn line(text: Arguments<'_>) {
    write(&visible::line(&text.to_string()), "\n");
}

/// Writes lines with our own colours, whose names are visible already.
pub fn styled(text: &str) {
    write(&visible::styled(text), "");
}

/// Columns of the terminal on standard error; none when it is not one.
pub fn width() -> Option<u16> {
    // SAFETY: an all-zero size is valid; the call only fills it.
    let (answer, size) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size), size)
    };
    Some(size.ws_col).filter(|columns| answer == 0 && *columns > 0)
}

/// Whether standard error is this job's terminal: one in the background may be stopped for writing.
pub fn is_in_foreground() -> bool {
    // SAFETY: plain calls without memory.
    unsafe { libc::tcgetpgrp(libc::STDERR_FILENO) == libc::getpgrp() }
}

fn write(text: &str, end: &str) {
    // In one piece, as others write there too; without colours where that is no terminal.
    let _ = anstream::stderr().write_all(format!("{text}{end}").as_bytes());
}
