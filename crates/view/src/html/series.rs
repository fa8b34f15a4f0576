//! Values over time: a small chart for each line that is not all zero.

use super::escape;
use super::record::class;
use crate::numbers;
use crate::text::spark::whole;
use numalens_analyze::report::Series;

/// Draws series.
pub fn draw(series: &Series) -> String {
    let bins = series.lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let lines = series.lines.iter().filter(|(_, values)| values.iter().any(|n| *n > 0));
    let mut out = String::new();
    for (metric, values) in lines {
        let largest = values.iter().copied().max().unwrap_or(0).max(1) as f64;
        let bars: String = values
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(bin, n)| {
                let height = *n as f64 * 30.0 / largest;
                format!("<rect x=\"{bin}\" y=\"{:.2}\" width=\"1\" height=\"{height:.2}\"/>", 30.0 - height)
            })
            .collect();
        out += &format!(
            "<tr><th>{}</th><td><svg class=\"series {}\" viewBox=\"0 0 {bins} 30\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">{bars}</svg></td><td class=\"figure\">{}</td></tr>\n",
            escape(metric.title),
            class(metric.name),
            escape(metric.help),
            whole(metric, values)
        );
    }
    if out.is_empty() {
        return "<p class=\"quiet\">nothing</p>\n".to_string();
    }
    let end = numbers::time((bins as u64).saturating_mul(series.bin_ns));
    format!("<table class=\"pairs\">\n{out}</table>\n<p class=\"quiet\">from 0 to {end}, {bins} bins</p>\n")
}
