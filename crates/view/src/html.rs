//! Reports as one static page: no scripts, no network, light and dark as the reader's system is. To be kept beside a
//! recording, mailed, or attached to a ticket.

mod advice;
mod matrix;
mod record;
mod series;
mod table;

use crate::text::{value, verdict};
use crate::visible;
use numalens_analyze::report::{Report, Shape, Shown, Value};

const STYLE: &str = include_str!("html/style.css");

/// The page of these reports; advice comes first where it is among them.
pub fn document(reports: &[Report]) -> String {
    // Bidirectional marks would show a line in another order than it has, here too.
    let visible: Vec<Report> =
        reports.iter().filter(|report| report.shown != Shown::Data).map(visible::report).collect();
    let shown: Vec<&Report> = visible.iter().collect();
    let meta = shown.iter().find(|report| report.section == "meta");
    let title = meta.map(|meta| command(meta)).unwrap_or_default();
    let nothing = crate::text::nothing_to_gain(reports);
    let verdict = shown.iter().find(|report| report.section == "verdict");
    let first = shown.iter().filter(|report| matches!(report.shape, Shape::Findings(_)));
    let above = ["meta", "verdict"];
    let rest =
        shown.iter().filter(|report| !above.contains(&report.section) && !matches!(report.shape, Shape::Findings(_)));
    let ordered: Vec<&&Report> = first.chain(rest).collect();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0} - numalens</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n",
        escape(&title)
    );
    out += &verdict.map(|verdict| judged(verdict)).unwrap_or_default();
    if let Some(meta) = meta {
        // With a verdict, what limits the figures is told with how they came to be, below.
        let limits = if verdict.is_some() { String::new() } else { doubts(meta) };
        out += &format!("<p class=\"how\">{}</p>\n{limits}", escape(&how(meta)));
    }
    out += "<nav>";
    for report in &ordered {
        out += &format!("<a href=\"#{}\">{}</a>", anchor(report), escape(heading(report)));
    }
    out += "</nav>\n</header>\n<main>\n";
    ordered.iter().for_each(|report| out += &section(report, true, nothing));
    if let Some(meta) = meta {
        out += &section(meta, verdict.is_some(), nothing);
    }
    out + "</main>\n</body>\n</html>\n"
}

/// The verdict, above all.
fn judged(report: &Report) -> String {
    let sentence = verdict::text(report, "sentence").unwrap_or_default();
    let below: String = verdict::parts(report)
        .map(|(title, words)| {
            let words = escape(&words);
            let words = if title == "next" { format!("<code>{words}</code>") } else { words };
            format!("<dt>{title}</dt><dd>{words}</dd>\n")
        })
        .collect();
    let below = if below.is_empty() { below } else { format!("<dl>\n{below}</dl>\n") };
    format!(
        "<div id=\"{}\" class=\"verdict\">\n<p>{}</p>\n{}{below}</div>\n",
        anchor(report),
        escape(&sentence),
        doubts(report)
    )
}

fn section(report: &Report, with_doubts: bool, nothing: bool) -> String {
    let body = match &report.shape {
        Shape::Record(fields) => record::draw(fields),
        Shape::Table(table) => table::draw(table),
        Shape::Matrix(matrix) => matrix::draw(matrix),
        Shape::Series(series) => series::draw(series),
        Shape::Findings(findings) => advice::draw(findings, nothing || report.doubts.is_empty()),
    };
    let doubts = if with_doubts { doubts(report) } else { String::new() };
    let title = escape(&report.title);
    let notes: String = report.notes.iter().map(|note| format!("<p>{}</p>\n", escape(note))).collect();
    format!("<section id=\"{}\">\n<h2>{title}</h2>\n{doubts}{body}{notes}</section>\n", anchor(report))
}

fn anchor(report: &Report) -> String {
    report.key.replace('.', "-")
}

/// Short: titles of matrices explain themselves behind a colon.
fn heading(report: &Report) -> &str {
    report.title.split(':').next().unwrap_or_default()
}

fn doubts(report: &Report) -> String {
    report.doubts.iter().map(|doubt| format!("<p class=\"doubt\">{}</p>\n", escape(doubt))).collect()
}

fn command(meta: &Report) -> String {
    match meta.field("command") {
        Some(Value::List(words)) => words.iter().map(value::plain).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

fn how(meta: &Report) -> String {
    let parts = ["duration_s", "exit_status"].map(|key| meta.field(key).map(value::plain).unwrap_or_default());
    let mut words = vec![crate::text::how(meta)];
    words.extend(parts.into_iter().filter(|part| !part.is_empty()));
    words.join(", ")
}

/// Text as HTML takes it, in elements and in quoted attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes() {
        assert_eq!(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
    }
}
