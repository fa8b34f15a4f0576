//! Text that a terminal only shows: characters that would do something there are written out.
//!
//! Names of functions, threads, files, arguments and notes come from the recorded program, or from whoever made a
//! profile. What a terminal obeys in them (C0, DEL, C1) could change its title, its colours and what stands above, and
//! the marks of bidirectional text could show a line in another order than it has. So
//!
//! - every text of a report is made visible before it is laid out ([`report`]): newlines and tabs too, so that a name
//!   stays in its row. Colours come after that;
//! - everything that is printed passes one of [`line`], [`lines`] and [`styled`] on its way out, so that what forgets
//!   the first is caught by the second.

use numalens_analyze::Report;
use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal does something else with a character than to show it.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes out those characters that act, except where `stays`.
fn written_out(text: &str, stays: impl Fn(char) -> bool, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let is_hidden = |character: char| acts(character) && !stays(character);
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) { write(&mut out, character) } else { out.push(character) }
    }
    Cow::Owned(out)
}

/// As Rust and C write it: `\n`, `\x1b`, `\u{202e}`.
fn escaped(out: &mut String, character: char) {
    // Writing to a string cannot fail.
    let _ = match character {
        '\n' | '\r' | '\t' => write!(out, "{}", character.escape_default()),
        ..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(character)),
        _ => write!(out, "\\u{{{:x}}}", u32::from(character)),
    };
}

/// A name, or a message of one line.
pub fn line(text: &str) -> Cow<'_, str> {
    written_out(text, |_| false, escaped)
}

/// A document of lines.
pub fn lines(text: &str) -> Cow<'_, str> {
    written_out(text, |character| matches!(character, '\n' | '\t'), escaped)
}

/// A JSON document: characters that JSON lets stand in its strings are written as JSON does.
pub fn json(text: &str) -> Cow<'_, str> {
    let as_json = |out: &mut String, character: char| {
        let _ = write!(out, "\\u{:04x}", u32::from(character));
    };
    written_out(text, |character| matches!(character, '\n' | '\t'), as_json)
}

/// A document of lines whose names are visible already, with our own colours in it: nothing but these may begin with
/// ESC.
pub fn styled(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return lines(text);
    }
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('\x1b').enumerate() {
        let style = if index == 0 { 0 } else { style(part) };
        if index > 0 {
            out.push_str(if style > 0 { "\x1b" } else { "\\x1b" });
        }
        out.push_str(&part[..style]);
        out.push_str(&lines(&part[style..]));
    }
    Cow::Owned(out)
}

/// The bytes of `[1;33m`, which changes how text looks and does nothing else; 0: something else stands here.
fn style(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix('[') else { return 0 };
    let end =
        parameters.find(|character: char| !character.is_ascii_digit() && character != ';').unwrap_or(parameters.len());
    if parameters[end..].starts_with('m') { end + 2 } else { 0 }
}

/// A report with all its texts visible. Lines of source in advice stay lines.
pub fn report(report: &Report) -> Report {
    let mut report = report.clone();
    report.map_texts(&mut |text, is_one_line| {
        let visible = if is_one_line { line(text) } else { lines(text) };
        if let Cow::Owned(visible) = visible {
            *text = visible;
        }
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_is_written_out() {
        assert_eq!(line("a\x1b]0;title\x07b"), "a\\x1b]0;title\\x07b");
        assert_eq!(line("one\ntwo\tthree\r"), "one\\ntwo\\tthree\\r");
        assert_eq!(line("\u{9b}31m \u{7f} \u{202e}txt.exe"), "\\x9b31m \\x7f \\u{202e}txt.exe");
        assert!(matches!(line("größe ∑ 数 operator<<"), Cow::Borrowed(_)));
        assert_eq!(lines("one\n\ttwo\r\n"), "one\n\ttwo\\r\n");
        assert_eq!(json("{\"a\": \"\u{9b}\u{202e}\"}\n"), "{\"a\": \"\\u009b\\u202e\"}\n");
        assert_eq!(styled("\x1b[1;33m! doubt\x1b[0m\n"), "\x1b[1;33m! doubt\x1b[0m\n");
        assert_eq!(styled("\x1b[2Jx\x1b]0;t\x07 \x1b"), "\\x1b[2Jx\\x1b]0;t\\x07 \\x1b");
    }

    proptest! {
        #[test]
        fn nothing_but_lines_and_styles_is_left(text in "(\\PC|[\\x00-\\x1f\\x7f-\\x9f]|\x1b\\[[0-9;]*[a-zA-Z]|[\u{202a}-\u{202e}]){0,40}") {
            prop_assert!(!line(&text).chars().any(acts));
            prop_assert!(lines(&text).chars().all(|c| !acts(c) || c == '\n' || c == '\t'));
            let once = line(&text);
            prop_assert_eq!(line(&once), once.clone());
            let styled = styled(&text);
            for (index, part) in styled.split('\x1b').enumerate() {
                prop_assert!(index == 0 || style(part) > 0);
                prop_assert!(part.chars().all(|c| !acts(c) || c == '\n' || c == '\t'));
            }
        }
    }
}
