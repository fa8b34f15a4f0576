//! Matrices: every cell in percent of the whole, coloured by its share: local traffic blue, remote orange.

use super::{Look, table};
use crate::colors::{self, Kind};
use crate::numbers;
use comfy_table::{Attribute, Cell, CellAlignment, Color};
use numalens_analyze::report::Matrix;

/// Draws a matrix.
pub fn draw(matrix: &Matrix, look: Look) -> String {
    let total = matrix.total();
    if total == 0 {
        return format!("  {}\n", look.dim("empty"));
    }
    let (homeless, unpinned) = (matrix.has_homeless(), matrix.has_unpinned());
    let cell = |n: u64, kind: Kind| {
        let share = n as f64 * 100.0 / total as f64;
        let cell = Cell::new(if n == 0 { "-".to_string() } else { numbers::percent(share) })
            .set_alignment(CellAlignment::Right);
        match colors::on_dark(kind, share) {
            Some((r, g, b)) => cell.bg(Color::Rgb { r, g, b }).fg(Color::White),
            None => cell,
        }
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
