//! Reports as one JSON document (docs/reference/json.md). The names are a contract.

use numalens_analyze::intervals::Interval;
use numalens_analyze::report::{
    Field, Finding, Location, Matrix, Member, PerNode, Report, Series, Shape, Shown, Table, Value,
};
use serde_json::{Map, Number, Value as Json, json};

/// Version of the document's form.
pub const SCHEMA: u32 = 1;

/// The document of these reports.
pub fn document(reports: &[Report]) -> Json {
    of(reports, true)
}

/// The same without the rows of tables.
pub(crate) fn without_tables(reports: &[Report]) -> Json {
    of(reports, false)
}

fn of(reports: &[Report], tables: bool) -> Json {
    let mut document = Map::new();
    document.insert("schema".to_string(), json!(SCHEMA));
    let (mut doubts, mut omitted) = (Map::new(), Map::new());
    for report in reports.iter().filter(|report| report.shown != Shown::Screen) {
        if tables || !matches!(report.shape, Shape::Table(_)) {
            insert(&mut document, report.key, shape(&report.shape));
        }
        if !report.doubts.is_empty() {
            doubts.insert(report.key.to_string(), json!(report.doubts));
        }
        if let Shape::Table(Table { omitted: rows @ 1.., .. }) = &report.shape {
            omitted.insert(report.key.to_string(), json!(rows));
        }
    }
    document.insert("doubts".to_string(), Json::Object(doubts));
    document.insert("omitted".to_string(), Json::Object(omitted));
    Json::Object(document)
}

/// Puts a value at a dotted key; under an empty one the fields of an object go beside the others.
fn insert(into: &mut Map<String, Json>, key: &str, value: Json) {
    match (key.split_once('.'), value) {
        (None, Json::Object(fields)) if key.is_empty() => into.extend(fields),
        (None, value) => {
            into.insert(key.to_string(), value);
        }
        (Some((first, rest)), value) => {
            if let Json::Object(inner) = into.entry(first).or_insert_with(|| Json::Object(Map::new())) {
                insert(inner, rest, value);
            }
        }
    }
}

fn shape(shape: &Shape) -> Json {
    match shape {
        Shape::Record(fields) => record(fields),
        Shape::Table(table) => rows(table),
        Shape::Matrix(matrix) => nodes(matrix),
        Shape::Series(series) => lines(series),
        Shape::Findings(list) => findings(list),
    }
}

fn record(fields: &[Field]) -> Json {
    object(fields.iter().filter(|field| field.shown != Shown::Screen).map(|field| (field.key.as_ref(), &field.value)))
}

fn rows(table: &Table) -> Json {
    let row = |row: &Vec<Value>| {
        object(
            table
                .columns
                .iter()
                .zip(row)
                .filter(|(column, _)| column.shown != Shown::Screen)
                .map(|(column, value)| (column.key, value)),
        )
    };
    Json::Array(table.rows.iter().map(row).collect())
}

/// Keys and values, and beside them the intervals of those that are estimates.
fn object<'a>(entries: impl Iterator<Item = (&'a str, &'a Value)>) -> Json {
    let (mut object, mut intervals) = (Map::new(), Map::new());
    for (key, entry) in entries {
        insert(&mut object, key, value(entry));
        if let Some(bounds) = bounds(entry) {
            intervals.insert(key.to_string(), bounds);
        }
    }
    if !intervals.is_empty() {
        object.insert("intervals".to_string(), Json::Object(intervals));
    }
    Json::Object(object)
}

/// The interval of an estimate.
pub(crate) fn bounds(value: &Value) -> Option<Json> {
    Some(interval(value.interval()?, !matches!(value, Value::Number(..))))
}

fn interval((low, high): Interval, round: bool) -> Json {
    let number = if round { percent } else { number };
    Json::Array(vec![number(low), number(high)])
}

/// A value as it stands in a record or a row.
pub(crate) fn value(value: &Value) -> Json {
    match value {
        Value::Absent => Json::Null,
        Value::Flag(flag) => json!(flag),
        Value::Count(n) | Value::Estimate(n, _) | Value::Within(n, _) | Value::Bytes(n) | Value::Id(n) => json!(n),
        Value::Number(x, _) => number(*x),
        Value::Percent(x, _) => percent(*x),
        Value::Time(ns) => number(*ns as f64 / 1e9),
        // As text: numbers beyond 2^53 are not safe in JSON.
        Value::Address(address) => json!(format!("{address:#x}")),
        Value::Node(node) => json!(node.0),
        Value::Text(text) => json!(text),
        Value::Location(place) => location(place),
        Value::List(list) => Json::Array(list.iter().map(self::value).collect()),
        Value::Record(fields) | Value::Parts(fields) => record(fields),
        Value::PerNode(PerNode { metric, counts, .. }) => Json::Array(
            counts.iter().map(|(node, n)| json!({"node": node.map(|node| node.0), metric.name: n})).collect(),
        ),
    }
}

fn location(Location { file, line, function, module }: &Location) -> Json {
    json!({"file": file, "line": line, "function": function, "module": module})
}

/// JSON has no infinities.
fn number(x: f64) -> Json {
    Number::from_f64(x).map_or(Json::Null, Json::Number)
}

/// Ten-thousandths of a percent are enough, and equal on every machine.
fn percent(x: f64) -> Json {
    number((x * 1e4).round() / 1e4)
}

fn nodes(matrix: &Matrix) -> Json {
    let mut object = Map::new();
    object.insert("nodes".to_string(), json!(matrix.nodes.iter().map(|node| node.0).collect::<Vec<_>>()));
    object.insert("rows".to_string(), json!(matrix.rows));
    object.insert("unpinned".to_string(), json!(matrix.unpinned));
    object.insert(
        matrix.homeless_name.to_string(),
        json!({"rows": matrix.homeless, "unpinned": matrix.homeless_unpinned}),
    );
    object.insert("unit".to_string(), json!(matrix.metric.unit));
    Json::Object(object)
}

fn findings(list: &[Finding]) -> Json {
    let object = |fields: &[Field]| if fields.is_empty() { Json::Null } else { record(fields) };
    let member = |member: &Member| {
        json!({
            "where": member.place.as_ref().map(location),
            "object": object(&member.object),
            "evidence": record(&member.evidence),
        })
    };
    let finding = |(index, finding): (usize, &Finding)| {
        let (estimate, (low, high)) = finding.gain;
        json!({
            "rank": index + 1,
            "pattern": finding.pattern.name(),
            "remedy": finding.remedy.name(),
            "where": finding.place.as_ref().map(location),
            "object": object(&finding.object),
            "evidence": record(&finding.evidence),
            "members": finding.members.iter().map(member).collect::<Json>(),
            "gain": {"memory_time_percent": percent(estimate), "low": percent(low), "high": percent(high)},
            "in_code": finding.in_code,
            "without_code": finding.without_code,
        })
    };
    list.iter().enumerate().map(finding).collect()
}

fn lines(series: &Series) -> Json {
    let mut object = Map::new();
    let bins = series.lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    object.insert("bin_s".to_string(), value(&Value::Time(series.bin_ns)));
    object.insert(
        "time_s".to_string(),
        (0..bins as u64).map(|bin| value(&Value::Time(bin.saturating_mul(series.bin_ns)))).collect(),
    );
    for (metric, values) in &series.lines {
        object.insert(metric.name.to_string(), json!(values));
    }
    Json::Object(object)
}
