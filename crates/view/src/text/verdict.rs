//! The verdict: one sentence, and below it the fault, the remedy and what to type.

use super::{Look, record, value};
use numalens_analyze::report::{Report, Value};

/// What stands below the sentence, in this order.
const BELOW: [&str; 3] = ["fault", "remedy", "next"];

/// Draws a verdict.
pub fn draw(report: &Report, look: Look) -> String {
    let mut out = String::new();
    if let Some(sentence) = text(report, "sentence") {
        let room = look.width.map_or(usize::MAX, usize::from);
        out += &record::wrap(&sentence, room).iter().map(|line| format!("{}\n", look.bold(line))).collect::<String>();
    }
    let titles = BELOW.iter().map(|key| key.len()).max().unwrap_or(0);
    for (title, words) in parts(report) {
        let room = look.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(titles + 4).max(20));
        let lines = record::wrap(&words, room);
        let title = look.dim(format_args!("{title:titles$}"));
        out += &format!("  {title}  {}\n", lines.join(&format!("\n{:1$}", "", titles + 4)));
    }
    out
}

/// What it says below the sentence: titles and texts.
pub fn parts(report: &Report) -> impl Iterator<Item = (&'static str, String)> {
    BELOW.into_iter().filter_map(|key| Some((key, text(report, key)?)))
}

/// A text of a verdict.
pub fn text(report: &Report, key: &str) -> Option<String> {
    report.field(key).filter(|value| **value != Value::Absent).map(value::in_record)
}
