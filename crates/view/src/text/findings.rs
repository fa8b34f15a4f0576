//! Findings: a numbered block each, the most gainful first.

use super::{Look, value};
use crate::numbers;
use numalens_analyze::report::{Field, Finding, Location, Member, Value};

/// Draws findings.
pub fn draw(findings: &[Finding], look: Look) -> String {
    findings.iter().enumerate().map(|(index, finding)| block(index + 1, finding, look)).collect::<Vec<_>>().join("\n")
}

fn block(rank: usize, finding: &Finding, look: Look) -> String {
    let about = about(finding.place.as_ref(), &finding.object);
    let mut out =
        format!("{} {}\n", look.bold(format_args!("{rank:>2}. {}:", finding.pattern.title())), look.bold(about));
    let mut line = |title: &str, text: &str| {
        let mut lines = text.lines();
        out += &format!("    {}  {}\n", look.dim(format_args!("{title:<9}")), lines.next().unwrap_or_default());
        lines.for_each(|more| out += &format!("    {:9}  {more}\n", ""));
    };
    line("pattern", finding.pattern.help());
    line("remedy", &format!("{}. {}", finding.remedy.title(), finding.remedy.help()));
    line("gain", &gain(finding));
    let members = members(&finding.members);
    if !members.is_empty() {
        line("members", &members.join("\n"));
    }
    let evidence: Vec<String> = value::shown(&finding.evidence).map(said).collect();
    line("evidence", &evidence.join("\n"));
    line("in code", &finding.in_code);
    line("without", &finding.without_code);
    out
}

/// A place and an object, as far as they are known: `main (app.c:12), heap data (64 MiB)`.
fn about(place: Option<&Location>, fields: &[Field]) -> String {
    let parts = [place.map(value::location).unwrap_or_default(), object(fields)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Members that are told one by one.
const FIRST: usize = 3;

/// How many have the cause in common, the first of them, and how many more there are.
pub fn members(members: &[Member]) -> Vec<String> {
    if members.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("{} of one cause:", members.len())];
    lines.extend(members.iter().take(FIRST).map(|member| {
        let evidence: Vec<String> = value::shown(&member.evidence).map(said).collect();
        format!("{}: {}", about(member.place.as_ref(), &member.object), evidence.join(", "))
    }));
    if members.len() > FIRST {
        lines.push(format!("{} more (--format json)", members.len() - FIRST));
    }
    lines
}

fn said(field: &Field) -> String {
    format!("{} {}", field.title, value::in_record(&field.value))
}

/// `31.0 % of the memory time (25.0 to 36.0)`.
pub fn gain(finding: &Finding) -> String {
    let (estimate, (low, high)) = finding.gain;
    format!("{} of the memory time, predicted ({low:.0} to {high:.0})", numbers::percent(estimate))
}

/// `heap data, 64 MiB`.
pub fn object(fields: &[Field]) -> String {
    let text = |key: &str| fields.iter().find(|field| field.key == key).map(|field| value::plain(&field.value));
    let words: Vec<String> =
        [text("kind"), text("name")].into_iter().flatten().filter(|word| !word.is_empty()).collect();
    let size = fields.iter().find(|field| field.key == "size" && field.value != Value::Bytes(0));
    match (words.is_empty(), size) {
        (true, _) => String::new(),
        (false, Some(size)) => format!("{} ({})", words.join(" "), value::plain(&size.value)),
        (false, None) => words.join(" "),
    }
}
