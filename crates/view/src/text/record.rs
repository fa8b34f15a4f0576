//! Records: a title and a value a line; parts of a whole as a bar.

use super::{Look, value};
use crate::colors::Kind;
use anstyle::{RgbColor, Style};
use numalens_analyze::report::{Field, Value};

/// Columns of a bar.
const BAR: usize = 50;

/// Draws a record.
pub fn draw(fields: &[Field], look: Look) -> String {
    let titles = value::shown(fields).map(|field| field.title.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for field in value::shown(fields) {
        let title = look.dim(format_args!("{:titles$}", field.title));
        match &field.value {
            Value::Parts(parts) => out += &bar(&title, titles, parts, look),
            _ => {
                let room = look.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(titles + 4).max(20));
                let lines = wrap(&value::of_field(field), room);
                out += &format!("  {title}  {}\n", lines.join(&format!("\n{:1$}", "", titles + 4)));
            }
        }
    }
    out
}

/// Breaks at blanks, so that lines have at most `room` columns; a longer word has a line of its own, and a figure keeps
/// its percent sign.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(figure) if word.starts_with('%') => *figure += &format!(" {word}"),
            _ => words.push(word.to_string()),
        }
    }
    for word in &words {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.clone());
        }
    }
    lines
}

/// The bar, and below it what its parts are.
fn bar(title: &str, titles: usize, parts: &[Field], look: Look) -> String {
    let mut bar = String::new();
    let mut legend = String::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for part in parts {
        let Value::Percent(percent, _) = part.value else { continue };
        sum += percent;
        // Ends are rounded, not lengths: so the lengths sum to the whole.
        let end = (sum / 100.0 * BAR as f64).round() as usize;
        let (mark, style) = mark(&part.key);
        bar += &look.paint(style, mark.to_string().repeat(end.saturating_sub(drawn)));
        drawn = drawn.max(end);
        legend += &format!(
            "  {:titles$}    {} {:<16} {}\n",
            "",
            look.paint(style, mark),
            part.title,
            value::in_record(&part.value)
        );
    }
    format!("  {title}  {bar}\n{legend}")
}

fn ink(kind: Kind) -> Style {
    let (r, g, b) = kind.rgb();
    Style::new().fg_color(Some(RgbColor(r, g, b).into()))
}

/// How a class looks: letters too, so that it can be read without colours.
fn mark(class: &str) -> (char, Style) {
    match class {
        "local" => ('█', ink(Kind::Local)),
        "remote" => ('▒', ink(Kind::Remote)),
        "memory_tier_local" => ('▓', ink(Kind::Local).dimmed()),
        "memory_tier_remote" => ('░', ink(Kind::Remote).dimmed()),
        "unplaced" => ('.', Style::new().dimmed()),
        "unpinned_page" => ('p', ink(Kind::Undefined)),
        "unpinned_thread" => ('t', ink(Kind::Undefined)),
        _ => ('u', ink(Kind::Undefined)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("immeasurable a b", 5), ["immeasurable", "a b"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("save 43 %, or", 8), ["save", "43 %, or"]);
    }
}
