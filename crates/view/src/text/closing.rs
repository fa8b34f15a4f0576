//! The ten lines at the end of `record`: is there remote traffic, how much, who causes it, what to type next.

use super::{Look, command, how, value};
use crate::visible;
use numalens_analyze::Need;
use numalens_analyze::report::{Report, Shape, Value};
use std::path::Path;

/// Sections that [`closing_summary`] reads.
pub const SECTIONS: [&str; 4] = ["summary", "lines", "objects", "first-touch"];

/// Tables that what it shows of them comes from: less than what whole sections say, as the program's user waits for it.
pub const NEEDS: [Need; 4] = [Need::Sites, Need::Objects, Need::Placed, Need::Names];

/// Ten lines from the reports of [`SECTIONS`]. `path` is where the profile lies.
pub fn closing_summary(reports: &[Report], path: &Path, look: Look) -> String {
    let reports: Vec<Report> = reports.iter().map(visible::report).collect();
    let find = |key: &str| reports.iter().find(|report| report.key == key);
    let (Some(meta), Some(summary)) = (find("meta"), find("summary")) else { return String::new() };
    let text = |report: &Report, key: &str| report.field(key).map(value::in_record).unwrap_or_default();
    let line = |title: &str, text: String| {
        format!("{} {}\n", look.dim(format_args!("{title:>12}")), if text.is_empty() { "-".to_string() } else { text })
    };
    let mut out = line(
        "ran",
        [command(meta), text(meta, "duration_s"), text(meta, "exit_status")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
    );
    out += &line("recorded", how(meta));
    let noun = summary_noun(summary);
    out += &line(noun, format!("{}; unit: {}", text(summary, "accesses"), text(summary, "unit")));
    out += &line(
        "classes",
        match summary.field("class_shares") {
            Some(Value::Parts(parts)) => value::shown(parts)
                .map(|part| format!("{} {}", part.title, value::in_table(&part.value)))
                .collect::<Vec<_>>()
                .join(", "),
            _ => String::new(),
        },
    );
    out += &line("first touch", text(summary, "first_touch"));
    out += &line("hottest line", top(find("lines"), &["", "via"]));
    out += &line("object", top(find("objects"), &["kind", "name", "site"]));
    out += &line("first toucher", first_toucher(find("first_touch_lines")));
    out += &line(
        "limits",
        if meta.doubts.is_empty() { "nothing was lost".to_string() } else { look.warn(meta.doubts.join("; ")) },
    );
    out + &line(
        "next",
        look.bold(format_args!("numalens report {}", visible::line(&shell_word(&path.to_string_lossy())))),
    )
}

/// `samples` of a clock, else `accesses`.
fn summary_noun(summary: &Report) -> &str {
    match &summary.shape {
        Shape::Record(fields) => {
            fields.iter().find(|field| field.key == "accesses").map_or("accesses", |field| &field.title)
        }
        _ => "accesses",
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
            "{}: {} pages ({}) by {} on node {}",
            value::plain(place),
            cell("pages"),
            cell("page_share"),
            cell("by"),
            cell("homes")
        ),
        None => String::new(),
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
