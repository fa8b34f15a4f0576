//! Tables, as wide as the terminal.

use super::{Look, record, value};
use crate::colors::{self, Kind};
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets};
use numalens_analyze::report::{Column, Shown, Table, Value};

/// Draws a table; columns that say nothing in any row are left out.
pub fn draw(table: &Table, look: Look) -> String {
    let omitted = match table.omitted {
        0 => String::new(),
        omitted => format!("  {}\n", look.dim(format_args!("{omitted} more (--top N)"))),
    };
    if table.rows.is_empty() && table.omitted > 0 {
        return omitted;
    }
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
    let whole = [(true, Breaks::Texts), (false, Breaks::Texts), (false, Breaks::Headings)];
    for (intervals, breaks) in whole {
        let drawing = attempt(table, &columns, look, intervals, breaks, LONGEST_CELL);
        if fits(&drawing, look) {
            return lines(&drawing) + &omitted;
        }
    }
    let mut kept = columns.clone();
    let mut drawing = None;
    while let Some(least) = least(&kept).filter(|_| drawing.is_none()) {
        kept.remove(least);
        drawing = Some(attempt(table, &kept, look, false, Breaks::Headings, LONGEST_CELL)).filter(|d| fits(d, look));
    }
    // What is left is what the table is about: names are cut in the middle.
    let shorter = || LONGEST_NAMES.iter().map(|longest| attempt(table, &kept, look, false, Breaks::Headings, *longest));
    let drawing = drawing
        .or_else(|| shorter().find(|drawing| fits(drawing, look)))
        .unwrap_or_else(|| attempt(table, &kept, look, false, Breaks::Words, LONGEST_CELL));
    let gone: Vec<&str> =
        columns.iter().filter(|(i, _)| kept.iter().all(|(k, _)| k != i)).map(|(_, column)| column.title).collect();
    let room = usize::from(look.width.unwrap_or(u16::MAX)).saturating_sub(2).max(20);
    let gone = format!("no room for: {} (a wider terminal, or --format json)", gone.join(", "));
    let gone: String = record::wrap(&gone, room).iter().map(|line| format!("  {}\n", look.dim(line))).collect();
    lines(&drawing) + &gone + &omitted
}

/// Columns that a table keeps longest, the last to go first; others go before them, from the right.
const KEPT: &[&str] = &[
    "",
    "function",
    "name",
    "object",
    "share",
    "remote_share",
    "page_share",
    "accesses",
    "pages",
    "site",
    "thread",
    "time_s",
    "kind",
    "homes",
    "bytes",
    "size",
    "by",
    "node",
    "nodes",
    "users",
    "pattern",
    "remedy",
    "first_touch",
    "pid",
    "unpinned_share",
    "module",
];

/// The column to leave out next; none: what is left says what the table is about.
fn least(columns: &[(usize, &Column)]) -> Option<usize> {
    const FEWEST: usize = 2;
    let rank = |column: &Column| KEPT.iter().position(|key| *key == column.key).unwrap_or(KEPT.len());
    let order = columns.iter().enumerate().map(|(at, (_, column))| (rank(column), at));
    order.max().map(|(_, at)| at).filter(|_| columns.len() > FEWEST)
}

/// Whether no line is longer than the terminal is wide.
fn fits(drawing: &comfy_table::Table, look: Look) -> bool {
    look.width.is_none_or(|width| drawing.lines().all(|line| columns_of(&line) < usize::from(width)))
}

/// What may be broken to make a table narrower, each with what stands before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Texts,
    Headings,
    Words,
}

/// One way to draw; cells have `longest` characters at most.
fn attempt(
    table: &Table,
    columns: &[(usize, &Column)],
    look: Look,
    intervals: bool,
    breaks: Breaks,
    longest: usize,
) -> comfy_table::Table {
    let text = |value: &Value| {
        let text = if intervals { value::in_table(value) } else { value::plain(value) };
        if look.width.is_some() { value::shorten(&text, longest) } else { text }
    };
    let mut drawing = new(look);
    drawing.set_header(
        columns
            .iter()
            .map(|(i, column)| aligned(Cell::new(column.title).add_attribute(Attribute::Dim), is_figure(table, *i))),
    );
    if breaks != Breaks::Words {
        drawing.set_constraints(columns.iter().map(|(i, column)| {
            let cells = table.rows.iter().map(|row| text(&row[*i]));
            let words = |text: &str| text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
            match (is_figure(table, *i), breaks) {
                (true, Breaks::Texts) => ColumnConstraint::ContentWidth,
                (true, _) => at_least(cells.map(|cell| cell.chars().count()).max(), words(column.title)),
                (false, _) => at_least(cells.map(|cell| words(&cell)).max(), words(column.title)),
            }
        }));
    }
    for row in &table.rows {
        drawing.add_row(columns.iter().map(|(i, column)| {
            let cell = aligned(Cell::new(text(&row[*i])), is_figure(table, *i));
            match fill(column, &row[*i]) {
                Some(color) => cell.bg(color).fg(Color::White),
                None => cell,
            }
        }));
    }
    drawing
}

/// Characters of a cell that are shown at a width: words are broken at the cost of their length's square, and a profile
/// may have names of a megabyte.
const LONGEST_CELL: usize = 1024;

/// The same where names must be cut to fit.
const LONGEST_NAMES: [usize; 4] = [48, 36, 24, 16];

/// A column as wide as its cells and its heading need, and two columns between it and the next.
fn at_least(cells: Option<usize>, heading: usize) -> ColumnConstraint {
    let width = cells.unwrap_or(0).max(heading) + 2;
    ColumnConstraint::LowerBoundary(Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX)))
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
pub fn says(column: &Column, value: &Value) -> bool {
    match value {
        Value::Absent | Value::Count(0) | Value::Id(0) => false,
        Value::Percent(percent, _) => *percent > 0.0 || column.key == "remote_share",
        value => !value::plain(value).is_empty(),
    }
}

/// Whether a column holds figures: those stand right.
pub fn is_figure(table: &Table, column: usize) -> bool {
    table.rows.iter().any(|row| {
        matches!(
            row[column],
            Value::Count(_)
                | Value::Estimate(..)
                | Value::Within(..)
                | Value::Number(..)
                | Value::Percent(..)
                | Value::Bytes(_)
                | Value::Time(_)
                | Value::Address(_)
                | Value::Id(_)
        )
    })
}

fn aligned(cell: Cell, right: bool) -> Cell {
    cell.set_alignment(if right { CellAlignment::Right } else { CellAlignment::Left })
}

/// Remote traffic stands out, the more the more.
fn fill(column: &Column, value: &Value) -> Option<Color> {
    let kind = match column.key {
        "remote_share" => Kind::Remote,
        "unpinned_share" => Kind::Undefined,
        _ => return None,
    };
    let Value::Percent(percent, _) = value else { return None };
    colors::on_dark(kind, *percent).map(|(r, g, b)| Color::Rgb { r, g, b })
}
