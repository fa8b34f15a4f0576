//! Tables; columns that say nothing in any row are left out.

use super::escape;
use crate::colors;
use crate::text::{table as text, value};
use numalens_analyze::report::{Column, Shown, Table, Value};

/// Draws a table.
pub fn draw(table: &Table) -> String {
    if table.rows.is_empty() {
        return "<p class=\"quiet\">none</p>\n".to_string();
    }
    let columns: Vec<(usize, &Column)> = table
        .columns
        .iter()
        .enumerate()
        .filter(|(i, column)| column.shown != Shown::Data && table.rows.iter().any(|row| text::says(column, &row[*i])))
        .collect();
    let class = |column: usize| if text::is_figure(table, column) { " class=\"figure\"" } else { "" };
    let mut out = "<div class=\"wide\"><table>\n<thead><tr>".to_string();
    for (i, column) in &columns {
        let help = column.metric.map_or("", |metric| metric.help);
        out += &format!("<th{} title=\"{}\">{}</th>", class(*i), escape(help), escape(column.title));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        out += "<tr>";
        for (i, column) in &columns {
            let weight = match (column.key, &row[*i]) {
                ("remote_share", Value::Percent(percent, _)) => colors::strength(*percent)
                    .map_or(String::new(), |strength| format!(" style=\"--weight:{strength:.2}\"")),
                _ => String::new(),
            };
            out += &format!("<td{}{weight}>{}</td>", class(*i), escape(&value::in_table(&row[*i])));
        }
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    if table.omitted > 0 {
        out += &format!("<p class=\"quiet\">{} more rows</p>\n", table.omitted);
    }
    out
}
