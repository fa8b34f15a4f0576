//! Matrices as heat maps: every cell in percent of the whole, local blue, remote orange, undefined grey.

use super::escape;
use crate::{colors, numbers};
use numalens_analyze::report::Matrix;
use numalens_topology::NodeId;

/// Side of a cell and room for headings, in the units of the drawing.
const CELL: usize = 72;
const HIGH: usize = 34;
const LEFT: usize = 84;
const TOP: usize = 26;

/// Draws a matrix.
pub fn draw(matrix: &Matrix) -> String {
    let total = matrix.total();
    if total == 0 {
        return "<p class=\"quiet\">empty</p>\n".to_string();
    }
    let (homeless, unpinned) = (matrix.has_homeless(), matrix.has_unpinned());
    let columns = matrix.nodes.len() + usize::from(homeless);
    let rows = matrix.nodes.len() + usize::from(unpinned);
    let (width, height) = (LEFT + columns * CELL, TOP + rows * HIGH);
    let mut out = format!(
        "<div class=\"wide\"><svg class=\"heat\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(matrix.metric.help)
    );
    let mut heading = |x: usize, y: usize, anchor: &str, text: String| {
        out += &format!("<text class=\"head\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>\n", escape(&text));
    };
    let named = |node: &NodeId| format!("node {node}");
    let titles = matrix.nodes.iter().map(named).chain(homeless.then(|| matrix.homeless_name.to_string()));
    titles.enumerate().for_each(|(i, title)| heading(LEFT + i * CELL + CELL / 2, TOP - 8, "middle", title));
    let titles = matrix.nodes.iter().map(named).chain(unpinned.then(|| "unpinned".to_string()));
    titles.enumerate().for_each(|(i, title)| heading(LEFT - 8, TOP + i * HIGH + HIGH / 2 + 5, "end", title));
    let mut cell = |row: usize, column: usize, n: u64, kind: &str| {
        let (x, y) = (LEFT + column * CELL, TOP + row * HIGH);
        let share = n as f64 * 100.0 / total as f64;
        let weight = colors::strength(share).unwrap_or(0.0);
        let text = if n == 0 { "-".to_string() } else { numbers::percent(share) };
        out += &format!(
            "<g><title>{n}</title><rect class=\"{kind}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill-opacity=\"{weight:.3}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{text}</text></g>\n",
            x + 1,
            y + 1,
            CELL - 2,
            HIGH - 2,
            x + CELL / 2,
            y + HIGH / 2 + 5
        );
    };
    for (row, counts) in matrix.rows.iter().enumerate() {
        counts.iter().enumerate().for_each(|(column, n)| {
            cell(row, column, *n, if row == column { "local" } else { "remote" });
        });
        if homeless {
            cell(row, matrix.nodes.len(), matrix.homeless[row], "undefined");
        }
    }
    if unpinned {
        let row = matrix.nodes.len();
        matrix.unpinned.iter().enumerate().for_each(|(column, n)| cell(row, column, *n, "undefined"));
        if homeless {
            cell(row, matrix.nodes.len(), matrix.homeless_unpinned, "undefined");
        }
    }
    let total = if matrix.metric.unit == "bytes" { numbers::bytes(total) } else { numbers::count(total as f64) };
    out + &format!(
        "</svg></div>\n<p class=\"quiet\">rows: threads of a node; columns: pages of a node; 100 % = {total}</p>\n"
    )
}
