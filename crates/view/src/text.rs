//! Reports on a terminal, or piped: [`render`] for `report`, [`closing_summary`] for the end of `record`.

mod closing;
pub(crate) mod findings;
mod heat;
mod record;
pub(crate) mod spark;
pub(crate) mod table;
pub(crate) mod value;
pub(crate) mod verdict;

pub use closing::{SECTIONS as CLOSING_SECTIONS, closing_summary, needs as closing_needs, shell_word};

use crate::visible;
use anstyle::{AnsiColor, Style};
use numalens_analyze::report::{Report, Shape, Shown, Value};
use std::fmt::Display;

/// How to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Whether escape sequences may be written.
    pub color: bool,
    /// Columns of the terminal; none: no limit, as in a pipe.
    pub width: Option<u16>,
}

impl Look {
    /// For files, pipes and tests.
    pub const PLAIN: Look = Look { color: false, width: None };

    /// Columns of the terminal on standard output; none when it is not one.
    pub fn terminal_width() -> Option<u16> {
        comfy_table::Table::new().width()
    }

    /// Text of lines that fit.
    pub fn lines(self, text: &str) -> String {
        self.wrapped(text, "", str::to_string)
    }

    /// Text of lines that fit, each painted; those after the first begin with `indent`.
    fn wrapped(self, text: &str, indent: &str, paint: impl Fn(&str) -> String) -> String {
        let room = self.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(indent.len()).max(20));
        record::wrap(text, room).iter().map(|line| paint(line)).collect::<Vec<_>>().join(&format!("\n{indent}"))
    }

    fn paint(self, style: Style, text: impl Display) -> String {
        if self.color { format!("{}{text}{}", style.render(), style.render_reset()) } else { text.to_string() }
    }

    fn bold(self, text: impl Display) -> String {
        self.paint(Style::new().bold(), text)
    }

    fn dim(self, text: impl Display) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    fn warn(self, text: impl Display) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }
}

/// The reports, one after the other. What was recorded, and what limits the figures, comes first; where there is a
/// verdict of the recording, that does, and how it was made comes last.
pub fn render(reports: &[Report], look: Look) -> String {
    let mut out = String::new();
    let mut shown: Vec<&Report> = reports.iter().filter(|report| report.shown != Shown::Data).collect();
    let judged = shown.iter().any(|report| report.section == "verdict");
    // Of two recordings the verdict is first, and both are told below it.
    let last = |report: &Report| judged && report.key == "meta";
    shown.sort_by_key(|report| last(report));
    for report in shown.into_iter().map(visible::report) {
        if report.section == "verdict" {
            out += &verdict::draw(&report, look);
        } else if report.section == "meta" {
            if last(&report) {
                out += &format!("\n{}\n", look.bold("how it was recorded"));
            }
            out += &header(&report, look);
        } else {
            out += &format!("\n{}\n", look.wrapped(&report.title, "", |line| look.bold(line)));
        }
        for doubt in &report.doubts {
            out += &format!("{}\n", look.wrapped(&format!("! {doubt}"), "  ", |line| look.warn(line)));
        }
        out += &match &report.shape {
            Shape::Record(_) if ["meta", "verdict"].contains(&report.section) => String::new(),
            Shape::Record(fields) => record::draw(fields, look),
            Shape::Table(table) => table::draw(table, look),
            Shape::Matrix(matrix) => heat::draw(matrix, look),
            Shape::Series(series) => spark::draw(series, look),
            Shape::Findings(found) if found.is_empty() && (nothing_to_gain(reports) || report.doubts.is_empty()) => {
                "  Nothing to gain: no pattern above noise would make this program faster by being placed otherwise.\n"
                    .to_string()
            }
            Shape::Findings(found) => findings::draw(found, look),
        };
        report.notes.iter().for_each(|note| out += &format!("  {}\n", look.wrapped(note, "  ", |line| look.dim(line))));
    }
    out
}

/// Whether advice has found that there is nothing to gain, whatever else it says.
pub(crate) fn nothing_to_gain(reports: &[Report]) -> bool {
    reports.iter().any(|report| report.field("nothing_to_gain") == Some(&Value::Flag(true)))
}

/// Two lines: what ran; on which machine, observed how. Of two recordings it says which one, and that the time is the
/// recording's.
fn header(meta: &Report, look: Look) -> String {
    let text = |key: &str| meta.field(key).map(value::plain).unwrap_or_default();
    let of_two = meta.key != "meta";
    let named = |name: &str, text: String| if of_two && !text.is_empty() { format!("{name}{text}") } else { text };
    let mut ran = vec![named(&format!("{:7}", meta.key), look.bold(command(meta)))];
    ran.extend(
        [named("recorded in ", text("duration_s")), text("exit_status")].into_iter().filter(|part| !part.is_empty()),
    );
    format!("{}\n{}\n", ran.join(", "), look.wrapped(&how(meta), "", |line| look.dim(line)))
}

/// `sampled (sample engine) on virtual machine 4x2 (threads spread, pages first-touch)`
pub(crate) fn how(meta: &Report) -> String {
    let text = |key: &str| meta.field(key).map(value::plain).unwrap_or_default();
    let machine = match meta.field("virtual") {
        Some(Value::Flag(true)) => {
            format!("virtual machine {} (threads {}, pages {})", text("machine"), text("placement"), text("policy"))
        }
        _ => format!("machine {}", text("machine")),
    };
    let counted = match text("engine").as_str() {
        "exact" => "every access counted (exact engine)".to_string(),
        "sample" => "sampled (sample engine)".to_string(),
        "" => "recorded".to_string(),
        other => format!("imported from {other}"),
    };
    format!("{counted} on {machine}")
}

fn command(meta: &Report) -> String {
    match meta.field("command") {
        Some(Value::List(words)) => value::shorten(&words.iter().map(value::plain).collect::<Vec<_>>().join(" "), 100),
        _ => String::new(),
    }
}
