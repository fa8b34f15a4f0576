//! Records: a title and a value a line; parts of a whole as a bar.

use super::{Look, value};
use anstyle::{AnsiColor, Style};
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
            value => {
                let room = look.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(titles + 4).max(20));
                let lines = wrap(&value::in_record(value), room);
                out += &format!("  {title}  {}\n", lines.join(&format!("\n{:1$}", "", titles + 4)));
            }
        }
    }
    out
}

/// Breaks at blanks, so that lines have at most `room` columns; a longer word has a line of its own.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
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

/// How a class looks: letters too, so that it can be read without colours.
fn mark(class: &str) -> (char, Style) {
    match class {
        "local" => ('█', AnsiColor::Green.on_default()),
        "remote" => ('▒', AnsiColor::Red.on_default()),
        "memory_tier_local" => ('▓', AnsiColor::Cyan.on_default()),
        "memory_tier_remote" => ('░', AnsiColor::Magenta.on_default()),
        "unplaced" => ('.', Style::new().dimmed()),
        "unpinned_page" => ('p', AnsiColor::Yellow.on_default()),
        "unpinned_thread" => ('t', AnsiColor::Yellow.on_default()),
        _ => ('u', AnsiColor::Yellow.on_default()),
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
    }
}
