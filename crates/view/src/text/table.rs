//! Tables, as wide as the terminal.

use super::{Look, value};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets};
use numalens_analyze::report::{Column, Shown, Table, Value};

/// Draws a table; columns that say nothing in any row are left out.
pub fn draw(table: &Table, look: Look) -> String {
    if table.rows.is_empty() {
        return format!("  {}\n", look.dim("none"));
    }
    let columns: Vec<(usize, &Column)> = table
        .columns
        .iter()
        .enumerate()
        .filter(|(i, column)| column.shown != Shown::Data && table.rows.iter().any(|row| says(column, &row[*i])))
        .collect();
    // From the most to say to the least, until it fits.
    let attempts = [(true, false), (false, false), (false, true)];
    let drawings = attempts.map(|(intervals, breaking)| attempt(table, &columns, look, intervals, breaking));
    let fits = |drawing: &&comfy_table::Table| {
        look.width.is_none_or(|width| drawing.lines().all(|line| columns_of(&line) <= usize::from(width)))
    };
    let drawing = drawings.iter().find(fits).unwrap_or(&drawings[attempts.len() - 1]);
    let mut out = lines(drawing);
    if table.omitted > 0 {
        out += &format!("  {}\n", look.dim(format_args!("{} more (--top N)", table.omitted)));
    }
    out
}

/// One way to draw: with intervals or without; with figures and headings in one piece, or broken where they must.
fn attempt(
    table: &Table,
    columns: &[(usize, &Column)],
    look: Look,
    intervals: bool,
    breaking: bool,
) -> comfy_table::Table {
    let mut drawing = new(look);
    drawing.set_header(
        columns
            .iter()
            .map(|(i, column)| aligned(Cell::new(column.title).add_attribute(Attribute::Dim), is_figure(table, *i))),
    );
    drawing.set_constraints(columns.iter().map(|(i, _)| match is_figure(table, *i) && !breaking {
        true => ColumnConstraint::ContentWidth,
        false => ColumnConstraint::LowerBoundary(Width::Fixed(6)),
    }));
    for row in &table.rows {
        drawing.add_row(columns.iter().map(|(i, column)| {
            let text = if intervals { value::in_table(&row[*i]) } else { value::plain(&row[*i]) };
            let cell = aligned(Cell::new(text), is_figure(table, *i));
            match color(column, &row[*i]) {
                Some(color) => cell.fg(color),
                None => cell,
            }
        }));
    }
    drawing
}

/// Columns that a line takes on the terminal: escape sequences take none.
fn columns_of(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().trim_end().chars().count();
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, text)| text.chars().count())).sum::<usize>()
}

/// An empty drawing.
pub fn new(look: Look) -> comfy_table::Table {
    let mut drawing = comfy_table::Table::new();
    drawing.load_preset(presets::NOTHING);
    match look.width {
        Some(width) => drawing.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => drawing.set_content_arrangement(ContentArrangement::Disabled),
    };
    if look.color {
        drawing.enforce_styling()
    } else {
        drawing.force_no_tty()
    };
    drawing
}

/// The lines of a drawing, without blanks at their ends.
pub fn lines(drawing: &comfy_table::Table) -> String {
    drawing.lines().map(|line| format!(" {}\n", line.trim_end())).collect()
}

/// A zero in every row is no news, and neither is nothing. That there is nothing remote is.
fn says(column: &Column, value: &Value) -> bool {
    match value {
        Value::Absent | Value::Count(0) => false,
        Value::Percent(percent, _) => *percent > 0.0 || column.key == "remote_share",
        value => !value::plain(value).is_empty(),
    }
}

fn is_figure(table: &Table, column: usize) -> bool {
    table.rows.iter().any(|row| {
        matches!(
            row[column],
            Value::Count(_)
                | Value::Estimate(..)
                | Value::Number(..)
                | Value::Percent(..)
                | Value::Bytes(_)
                | Value::Time(_)
                | Value::Address(_)
        )
    })
}

fn aligned(cell: Cell, right: bool) -> Cell {
    cell.set_alignment(if right { CellAlignment::Right } else { CellAlignment::Left })
}

/// Remote traffic stands out.
fn color(column: &Column, value: &Value) -> Option<Color> {
    match (column.key, value) {
        ("remote_share", Value::Percent(percent, _)) if *percent >= 50.0 => Some(Color::Red),
        ("remote_share" | "unpinned_share", Value::Percent(percent, _)) if *percent >= 10.0 => Some(Color::Yellow),
        _ => None,
    }
}
