//! Matrices: every cell in percent of the whole, coloured by its weight: local traffic green, remote red.

use super::{Look, table};
use crate::numbers;
use comfy_table::{Attribute, Cell, CellAlignment, Color};
use numalens_analyze::report::Matrix;

/// What a cell means.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Local,
    Remote,
    Undefined,
}

/// Draws a matrix.
pub fn draw(matrix: &Matrix, look: Look) -> String {
    let (total, largest) = (matrix.total(), matrix.cells().max().unwrap_or(0));
    if total == 0 {
        return format!("  {}\n", look.dim("empty"));
    }
    let (homeless, unpinned) = (matrix.has_homeless(), matrix.has_unpinned());
    let cell = |n: u64, kind: Kind| {
        let cell = Cell::new(if n == 0 { "-".to_string() } else { numbers::percent(n as f64 * 100.0 / total as f64) })
            .set_alignment(CellAlignment::Right);
        if n == 0 { cell } else { cell.bg(shade(kind, n as f64 / largest as f64)).fg(Color::White) }
    };
    let heading = |text: String| Cell::new(text).add_attribute(Attribute::Dim);
    let mut drawing = table::new(look);
    let mut header = vec![heading(String::new())];
    header.extend(matrix.nodes.iter().map(|node| heading(format!("node {node}")).set_alignment(CellAlignment::Right)));
    if homeless {
        header.push(heading(matrix.homeless_name.to_string()).set_alignment(CellAlignment::Right));
    }
    drawing.set_header(header);
    for ((from, row), none) in matrix.nodes.iter().zip(&matrix.rows).zip(&matrix.homeless) {
        let mut cells = vec![heading(format!("node {from}"))];
        cells.extend(
            matrix.nodes.iter().zip(row).map(|(to, n)| cell(*n, if from == to { Kind::Local } else { Kind::Remote })),
        );
        if homeless {
            cells.push(cell(*none, Kind::Undefined));
        }
        drawing.add_row(cells);
    }
    if unpinned {
        let mut cells = vec![heading("unpinned".to_string())];
        cells.extend(matrix.unpinned.iter().map(|n| cell(*n, Kind::Undefined)));
        if homeless {
            cells.push(cell(matrix.homeless_unpinned, Kind::Undefined));
        }
        drawing.add_row(cells);
    }
    let total = if matrix.metric.unit == "bytes" { numbers::bytes(total) } else { numbers::count(total as f64) };
    format!("{}  {}\n", table::lines(&drawing), look.dim(format_args!("100 % = {total}")))
}

/// From dark to the kind's full colour. White can be read on all of them.
fn shade(kind: Kind, weight: f64) -> Color {
    // The eye tells small weights apart better on a root scale.
    let level = (40.0 + 130.0 * weight.clamp(0.0, 1.0).sqrt()) as u8;
    let low = 24;
    let (r, g, b) = match kind {
        Kind::Local => (low, level - 20, low),
        Kind::Remote => (level, low, low),
        Kind::Undefined => (level - 30, level - 40, low),
    };
    Color::Rgb { r, g, b }
}
