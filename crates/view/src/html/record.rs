//! Records as pairs; parts of a whole as a bar.

use super::escape;
use crate::text::value;
use numalens_analyze::report::{Field, Value};

/// Draws a record.
pub fn draw(fields: &[Field]) -> String {
    let rows: String = value::shown(fields)
        .map(|field| {
            let text = match &field.value {
                Value::Parts(parts) => bar(parts),
                _ => escape(&value::of_field(field)),
            };
            format!("<tr><th>{}</th><td>{text}</td></tr>\n", escape(&field.title))
        })
        .filter(|row| !row.contains("<td></td>"))
        .collect();
    format!("<table class=\"pairs\">\n{rows}</table>\n")
}

fn bar(parts: &[Field]) -> String {
    let (mut bar, mut legend, mut from) = (String::new(), String::new(), 0.0);
    for part in parts {
        let Value::Percent(percent, _) = part.value else { continue };
        let class = class(&part.key);
        bar += &format!("<rect class=\"{class}\" x=\"{from:.3}\" width=\"{percent:.3}\" height=\"8\"/>");
        legend += &format!(
            "<span class=\"key\"><svg viewBox=\"0 0 8 8\"><rect class=\"{class}\" width=\"8\" height=\"8\"/></svg>{} {}</span>",
            escape(&part.title),
            escape(&value::in_record(&part.value))
        );
        from += percent;
    }
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"by class\">{bar}</svg><div>{legend}</div>"
    )
}

/// The colour of a class of accesses.
pub fn class(name: &str) -> &'static str {
    match name {
        "local" => "local",
        "remote" => "remote",
        "memory_tier_local" => "tier-local",
        "memory_tier_remote" => "tier-remote",
        "unplaced" => "unplaced",
        _ => "undefined",
    }
}
