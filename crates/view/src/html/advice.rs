//! Findings as cards.

use super::escape;
use crate::text::{findings, value};
use numalens_analyze::report::Finding;

/// Draws findings; `judged`: whether none means that there is nothing to gain.
pub fn draw(list: &[Finding], judged: bool) -> String {
    if list.is_empty() && judged {
        return "<p class=\"good\">Nothing to gain: no pattern above noise would make this program faster by being placed otherwise.</p>\n".to_string();
    }
    list.iter().enumerate().map(|(index, finding)| card(index + 1, finding)).collect()
}

fn card(rank: usize, finding: &Finding) -> String {
    let place = finding.place.as_ref().map(value::location).unwrap_or_default();
    let object = findings::object(&finding.object);
    let about: Vec<String> = [place, object].iter().filter(|part| !part.is_empty()).map(|part| escape(part)).collect();
    let evidence: String = value::shown(&finding.evidence)
        .map(|field| {
            format!("<tr><th>{}</th><td>{}</td></tr>\n", escape(&field.title), escape(&value::in_record(&field.value)))
        })
        .collect();
    let members: String =
        findings::members(&finding.members).iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    format!(
        "<article>\n<h3>{rank}. {}</h3>\n<p class=\"place\">{}</p>\n<p>{} <strong>Remedy: {}.</strong> {}</p>\n<p class=\"gain\">{}</p>\n{}{members}<details><summary>Evidence</summary><table class=\"pairs\">\n{evidence}</table></details>\n<details open><summary>In code</summary><pre>{}</pre></details>\n<details><summary>Without code</summary><p>{}</p></details>\n</article>\n",
        escape(finding.pattern.title()),
        about.join(", "),
        escape(finding.pattern.help()),
        escape(finding.remedy.title()),
        escape(finding.remedy.help()),
        escape(&findings::gain(finding)),
        gauge(finding),
        escape(&finding.in_code),
        escape(&finding.without_code),
    )
}

/// The interval as a band, the estimate as a mark in it.
fn gauge(finding: &Finding) -> String {
    let (estimate, (low, high)) = finding.gain;
    let clamp = |percent: f64| percent.clamp(0.0, 100.0);
    let (low, high, estimate) = (clamp(low), clamp(high), clamp(estimate));
    format!(
        "<svg class=\"gauge\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"gain\"><rect class=\"track\" width=\"100\" height=\"4\"/><rect class=\"band\" x=\"{low:.2}\" width=\"{:.2}\" height=\"4\"/><rect class=\"mark\" x=\"{:.2}\" width=\"0.6\" height=\"4\"/></svg>\n",
        high - low,
        (estimate - 0.3).max(0.0)
    )
}
