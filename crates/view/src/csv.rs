//! Reports as CSV: one file for each, one row per line, dotted keys as headings.
//!
//! What is an object in JSON becomes columns `site.file`, `site.line`; an interval becomes `KEY.low` and `KEY.high`;
//! lists are joined by ` | `, nodes with their counts by blanks: `0:12 1:3 unpinned:4`.

use crate::visible;
use numalens_analyze::report::{Field, Finding, Matrix, PerNode, Report, Series, Shape, Shown, Table, Value};
use numalens_topology::NodeId;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writing failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct Error {
    path: PathBuf,
    source: ::csv::Error,
}

/// Writes a file `KEY.csv` for each report into a directory that exists. Returns their names.
///
/// # Errors
/// A file cannot be written.
pub fn write_all(reports: &[Report], directory: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for report in reports.iter().filter(|report| report.shown != Shown::Screen) {
        let name = format!("{}.csv", report.key.replace('.', "-"));
        let path = directory.join(&name);
        let failed = |source: ::csv::Error| Error { path: path.clone(), source };
        write(report, File::create_new(&path).map_err(|error| failed(error.into()))?).map_err(failed)?;
        names.push(name);
    }
    Ok(names)
}

/// Writes one report.
///
/// # Errors
/// The output does not take it.
pub fn write(report: &Report, output: impl Write) -> Result<(), ::csv::Error> {
    let report = &visible::report(report);
    let mut writer = ::csv::Writer::from_writer(output);
    match &report.shape {
        Shape::Record(fields) => {
            writer.write_record(["key", "value", "low", "high"])?;
            record(&mut writer, "", fields)?;
        }
        Shape::Table(table) => rows(&mut writer, table)?,
        Shape::Matrix(matrix) => nodes(&mut writer, matrix)?,
        Shape::Series(series) => lines(&mut writer, series)?,
        Shape::Findings(list) => findings(&mut writer, list)?,
    }
    writer.flush()?;
    Ok(())
}

fn findings<W: Write>(writer: &mut ::csv::Writer<W>, list: &[Finding]) -> Result<(), ::csv::Error> {
    writer.write_record(["rank", "pattern", "remedy", "file", "line", "function", "gain", "gain.low", "gain.high"])?;
    for (index, finding) in list.iter().enumerate() {
        let place = finding.place.clone().unwrap_or_default();
        let (gain, (low, high)) = finding.gain;
        writer.write_record([
            (index + 1).to_string(),
            finding.pattern.name().to_string(),
            finding.remedy.name().to_string(),
            name(&place.file.unwrap_or_default()),
            place.line.map(|line| line.to_string()).unwrap_or_default(),
            name(&place.function),
            gain.to_string(),
            low.to_string(),
            high.to_string(),
        ])?;
    }
    Ok(())
}

fn record<W: Write>(writer: &mut ::csv::Writer<W>, prefix: &str, fields: &[Field]) -> Result<(), ::csv::Error> {
    for field in fields.iter().filter(|field| field.shown != Shown::Screen) {
        let key = if prefix.is_empty() { field.key.to_string() } else { format!("{prefix}.{}", field.key) };
        match &field.value {
            Value::Record(inner) | Value::Parts(inner) => record(writer, &key, inner)?,
            value => {
                let (low, high) = bounds(value);
                writer.write_record([&name(&key), &cell(value), &low, &high])?;
            }
        }
    }
    Ok(())
}

fn rows<W: Write>(writer: &mut ::csv::Writer<W>, table: &Table) -> Result<(), ::csv::Error> {
    // What a column becomes depends on what stands in it.
    let column = |i: usize| table.rows.iter().map(move |row| &row[i]);
    let mut heading = Vec::new();
    let mut kinds = Vec::new();
    for (i, c) in table.columns.iter().enumerate().filter(|(_, c)| c.shown != Shown::Screen) {
        let kind = Kind {
            location: c.key.is_empty() || column(i).any(|v| matches!(v, Value::Location(_))),
            bounds: column(i).any(|v| !bounds(v).0.is_empty()),
        };
        match (kind.location, c.key) {
            (true, "") => heading.extend(["file", "line", "function", "module"].map(str::to_string)),
            (true, key) => heading.extend(["file", "line", "function", "module"].map(|part| format!("{key}.{part}"))),
            (false, key) => heading.push(key.to_string()),
        }
        if kind.bounds {
            heading.extend([format!("{}.low", c.key), format!("{}.high", c.key)]);
        }
        kinds.push((i, kind));
    }
    writer.write_record(&heading)?;
    for row in &table.rows {
        let mut record = Vec::with_capacity(heading.len());
        for (i, kind) in &kinds {
            match &row[*i] {
                Value::Location(place) => record.extend([
                    name(place.file.as_deref().unwrap_or_default()),
                    place.line.map(|line| line.to_string()).unwrap_or_default(),
                    name(&place.function),
                    name(place.module.as_deref().unwrap_or_default()),
                ]),
                _ if kind.location => record.extend([const { String::new() }; 4]),
                value => record.push(cell(value)),
            }
            if kind.bounds {
                let (low, high) = bounds(&row[*i]);
                record.extend([low, high]);
            }
        }
        writer.write_record(&record)?;
    }
    Ok(())
}

struct Kind {
    location: bool,
    bounds: bool,
}

fn nodes<W: Write>(writer: &mut ::csv::Writer<W>, matrix: &Matrix) -> Result<(), ::csv::Error> {
    let mut heading = vec!["thread_node".to_string()];
    heading.extend(matrix.nodes.iter().map(|node| format!("node{node}")));
    heading.push(matrix.homeless_name.to_string());
    writer.write_record(&heading)?;
    let row = |name: String, cells: &[u64], homeless: u64| {
        std::iter::once(name).chain(cells.iter().chain([&homeless]).map(u64::to_string)).collect::<Vec<_>>()
    };
    for ((node, cells), homeless) in matrix.nodes.iter().zip(&matrix.rows).zip(&matrix.homeless) {
        writer.write_record(row(node.to_string(), cells, *homeless))?;
    }
    writer.write_record(row("unpinned".to_string(), &matrix.unpinned, matrix.homeless_unpinned))
}

fn lines<W: Write>(writer: &mut ::csv::Writer<W>, series: &Series) -> Result<(), ::csv::Error> {
    let mut heading = vec!["time_s"];
    heading.extend(series.lines.iter().map(|(metric, _)| metric.name));
    writer.write_record(&heading)?;
    let bins = series.lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    for bin in 0..bins {
        let time = seconds((bin as u64).saturating_mul(series.bin_ns));
        writer.write_record(
            std::iter::once(time)
                .chain(series.lines.iter().map(|(_, values)| values.get(bin).copied().unwrap_or(0).to_string())),
        )?;
    }
    Ok(())
}

fn seconds(ns: u64) -> String {
    (ns as f64 / 1e9).to_string()
}

fn bounds(value: &Value) -> (String, String) {
    value.interval().map(|(low, high)| (format!("{low:.4}"), format!("{high:.4}"))).unwrap_or_default()
}

/// What stands in a cell of its own.
fn cell(value: &Value) -> String {
    match value {
        Value::Text(_) | Value::Location(_) | Value::List(_) | Value::Record(_) | Value::Parts(_) => name(&text(value)),
        value => text(value),
    }
}

/// A cell that holds text of the profile. A spreadsheet computes what begins as a formula does, and asks nobody; with
/// an apostrophe before it, it is text. Few names begin so (methods of Objective-C do), and programs have the JSON.
fn name(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_owned() }
}

fn text(value: &Value) -> String {
    match value {
        Value::Absent => String::new(),
        Value::Flag(flag) => flag.to_string(),
        Value::Count(n) | Value::Estimate(n, _) | Value::Within(n, _) | Value::Bytes(n) | Value::Id(n) => n.to_string(),
        Value::Number(x, _) => x.to_string(),
        Value::Percent(x, _) => format!("{x:.4}"),
        Value::Time(ns) => seconds(*ns),
        Value::Address(address) => format!("{address:#x}"),
        Value::Node(node) => node.to_string(),
        Value::Text(text) => text.clone(),
        Value::Location(place) => place.to_string(),
        Value::List(list) => list.iter().map(text).collect::<Vec<_>>().join(" | "),
        Value::Record(fields) | Value::Parts(fields) => fields
            .iter()
            .filter(|field| field.shown != Shown::Screen)
            .map(|field| format!("{}={}", field.key, text(&field.value)))
            .collect::<Vec<_>>()
            .join(" "),
        Value::PerNode(PerNode { none, counts, .. }) => {
            let name = |node: Option<NodeId>| node.map_or_else(|| none.to_string(), |node| node.to_string());
            counts.iter().map(|(node, n)| format!("{}:{n}", name(*node))).collect::<Vec<_>>().join(" ")
        }
    }
}
