//! The lines at the end of `record`: the verdict, what has most of the accesses, how it was recorded.

use super::{Look, command, how, record, value, verdict};
use crate::visible;
use numalens_analyze::Need;
use numalens_analyze::report::{Report, Value};
use std::path::Path;

/// Sections that [`closing_summary`] reads.
pub const SECTIONS: [&str; 5] = ["verdict", "summary", "lines", "objects", "first-touch"];

/// Tables that what it shows of them comes from: less than what whole sections say, as the program's user waits for it.
pub fn needs() -> Vec<Need> {
    [numalens_analyze::verdict::NEEDS, &[Need::Sites, Need::Objects, Need::Placed, Need::Names]].concat()
}

/// Columns of the titles.
const TITLES: usize = 13;

/// Some ten lines from the reports of [`SECTIONS`]. `path` is where the profile lies.
pub fn closing_summary(reports: &[Report], path: &Path, look: Look) -> String {
    let mut reports: Vec<Report> = reports.iter().map(visible::report).collect();
    let named = visible::line(&shell_word(&path.to_string_lossy())).into_owned();
    numalens_analyze::verdict::name_profile(&mut reports, &named);
    // What has less than a hundredth is not what to look at.
    reports.iter_mut().filter(|report| report.section != "verdict").for_each(|report| report.worth(LEAST));
    let find = |key: &str| reports.iter().find(|report| report.key == key);
    let (Some(meta), Some(verdict)) = (find("meta"), find("verdict")) else { return String::new() };
    let text = |report: &Report, key: &str| report.field(key).map(value::in_record).unwrap_or_default();
    let line = |title: &str, words: String, paint: &dyn Fn(&str) -> String| {
        if words.is_empty() {
            return String::new();
        }
        let room = look.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(TITLES + 1).max(20));
        let lines: Vec<String> = record::wrap(&words, room).iter().map(|line| paint(line)).collect();
        let under = format!("\n{:1$}", "", TITLES + 1);
        format!("{} {}\n", look.dim(format_args!("{title:>TITLES$}")), lines.join(&under))
    };
    let plain = |words: &str| words.to_string();
    let bold = |words: &str| look.bold(words);
    let warn = |words: &str| look.warn(words);
    let mut out = line("verdict", text(verdict, "sentence"), &bold);
    out += &verdict.doubts.iter().map(|doubt| line("but", doubt.clone(), &warn)).collect::<String>();
    let below: Vec<(&str, String)> = verdict::parts(verdict).collect();
    out += &below
        .iter()
        .filter(|(title, _)| *title != "next")
        .map(|(title, words)| line(title, words.clone(), &plain))
        .collect::<String>();
    out += &verdict.notes.iter().map(|note| line("note", note.clone(), &plain)).collect::<String>();
    let next = below.into_iter().find(|(title, _)| *title == "next").map(|(_, words)| words);
    out += &line("next", next.unwrap_or_else(|| format!("numalens report {named}")), &bold);
    out += &line("hottest line", top(find("lines"), &["", "via"]), &plain);
    out += &line("object", top(find("objects"), &["kind", "name", "site"]), &plain);
    out += &line("first toucher", first_toucher(find("first_touch_lines")), &plain);
    let ran = [command(meta), text(meta, "duration_s"), text(meta, "exit_status")];
    out += &line("ran", ran.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", "), &plain);
    let counted = find("summary").map(counted).filter(|words| !words.is_empty());
    out += &line("recorded", [counted, Some(how(meta))].into_iter().flatten().collect::<Vec<_>>().join(", "), &plain);
    let others: Vec<&str> =
        meta.doubts.iter().filter(|doubt| !verdict.doubts.contains(doubt)).map(String::as_str).collect();
    out + &line("limits", others.join("; "), &warn)
}

/// Percent of the whole that a line, an object or a first touch must have to be told.
const LEAST: f64 = 1.0;

/// `1.69 G accesses`; of samples what one is.
fn counted(summary: &Report) -> String {
    let text = |key: &str| summary.field(key).map(value::in_record).unwrap_or_default();
    match summary.field("estimated") {
        Some(Value::Flag(true)) => format!("{} samples", text("samples")),
        _ => format!("{} accesses", text("accesses")),
    }
}

/// The first row of a table of accesses: what it is, its share, how much of it is remote.
fn top(report: Option<&Report>, keys: &[&str]) -> String {
    let Some(report) = report else { return String::new() };
    let cell = |key: &str| report.cell(0, key).map(value::plain).unwrap_or_default();
    let name = keys
        .iter()
        .map(|key| cell(key))
        .enumerate()
        .filter(|(_, text)| !text.is_empty())
        .map(|(i, text)| if keys[i] == "via" { format!("via {text}") } else { text });
    let name = name.collect::<Vec<_>>().join(" ");
    match (name.is_empty(), report.cell(0, "accesses")) {
        (true, _) => String::new(),
        (false, Some(Value::Count(0)) | None) => name,
        _ => format!(
            "{name}: {} of all, {} of it remote, {} unpinned",
            cell("share"),
            cell("remote_share"),
            cell("unpinned_share")
        ),
    }
}

fn first_toucher(report: Option<&Report>) -> String {
    let Some(report) = report else { return String::new() };
    let cell = |key: &str| report.cell(0, key).map(value::plain).unwrap_or_default();
    match report.cell(0, "") {
        Some(place) => format!(
            "{}: {} pages ({}) by {}{}",
            value::plain(place),
            cell("pages"),
            cell("page_share"),
            cell("by"),
            on_nodes(report.cell(0, "homes"))
        ),
        None => String::new(),
    }
}

/// ` on node 0`, ` on nodes 0 (75 %), 1 (25 %)`; nothing where nobody knows.
fn on_nodes(homes: Option<&Value>) -> String {
    let Some(Value::PerNode(homes)) = homes else { return String::new() };
    let total = homes.counts.iter().map(|(_, n)| *n as f64).sum::<f64>();
    let placed: Vec<_> =
        homes.counts.iter().filter_map(|(node, n)| Some(((*node)?, *n))).filter(|(_, n)| *n > 0).collect();
    match placed[..] {
        [] => String::new(),
        [(node, _)] => format!(" on node {node}"),
        _ => {
            let each = placed.iter().map(|(node, n)| format!("{node} ({:.0} %)", *n as f64 * 100.0 / total));
            format!(" on nodes {}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A word as a shell takes it.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_word("app-1.numalens"), "app-1.numalens");
        assert_eq!(shell_word("my app's"), r"'my app'\''s'");
    }
}
