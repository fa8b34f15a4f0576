//! Reports as JSON by columns: the document of [`json`](crate::json), whose tables stand under `tables` as lists of
//! values instead of lists of objects.
//!
//! A table of 100,000 rows repeats its names and most of its words 100,000 times: by columns it takes a tenth of the
//! space, and as much of the time to write and to read. A column is one of
//!
//! ```text
//! {"all": VALUE}                     the same in every row
//! {"of": [VALUE, ...]}               one for each row
//! {"words": [TEXT, ...], "at": [n]}  texts by number; null: none
//! ```
//!
//! under the dotted name that the value has in a row's object: `classes.local`, `intervals.share`. A reader that puts
//! them together again has the rows of [`json`](crate::json) (`ui/src/lib/rows.ts` is one).

use crate::json;
use numalens_analyze::report::{Column, Location, Report, Shape, Shown, Table, Value};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde_json::Value as Json;

/// The document of these reports.
pub fn document(reports: &[Report]) -> Vec<u8> {
    let mut text = json::without_tables(reports).to_string().into_bytes();
    // In place of the closing brace.
    text.pop();
    text.extend_from_slice(b",\"tables\":{");
    let tables = reports.iter().filter(|report| report.shown != Shown::Screen);
    let tables = tables.filter_map(|report| match &report.shape {
        Shape::Table(table) => Some((report.key, table)),
        _ => None,
    });
    for (index, (key, table)) in tables.enumerate() {
        separate(&mut text, index);
        put(&mut text, &Json::from(key));
        text.extend_from_slice(format!(":{{\"rows\":{},\"columns\":{{", table.rows.len()).as_bytes());
        columns(&mut text, table);
        text.extend_from_slice(b"}}");
    }
    text.extend_from_slice(b"}}");
    text
}

/// The columns of a table, made side by side: there may be a hundred thousand rows.
fn columns(text: &mut Vec<u8>, table: &Table) {
    let shown: Vec<(usize, &Column)> =
        table.columns.iter().enumerate().filter(|(_, column)| column.shown != Shown::Screen).collect();
    let parts: Vec<Vec<u8>> = shown.into_par_iter().map(|(index, column)| column_of(table, index, column)).collect();
    for (at, part) in parts.iter().enumerate() {
        separate(text, at);
        text.extend_from_slice(part);
    }
}

/// A column, or the several that its values are told in.
fn column_of(table: &Table, index: usize, column: &Column) -> Vec<u8> {
    let mut text = Vec::new();
    let mut written = 0;
    let mut named = |text: &mut Vec<u8>, name: &str| {
        separate(text, written);
        written += 1;
        put(text, &Json::from(name));
        text.push(b':');
    };
    let text = &mut text;
    let values = || table.rows.iter().map(move |row| &row[index]);
    if column.key.is_empty() {
        // A place, whose parts stand beside the other values.
        named(text, "file");
        words(text, values().map(|value| part(value, |place| place.file.as_deref())));
        named(text, "line");
        list(text, values(), |text, value| put(text, &part(value, |place| place.line).map_or(Json::Null, Json::from)));
        named(text, "function");
        words(text, values().map(|value| part(value, |place| Some(place.function.as_str()))));
        named(text, "module");
        words(text, values().map(|value| part(value, |place| place.module.as_deref())));
        return std::mem::take(text);
    }
    named(text, column.key);
    if values().all(|value| matches!(value, Value::Text(_) | Value::Absent)) && table.rows.len() > 1 {
        words(
            text,
            values().map(|value| match value {
                Value::Text(word) => Some(word.as_str()),
                _ => None,
            }),
        );
    } else {
        list(text, values(), cell);
    }
    if values().any(|value| value.interval().is_some()) {
        named(text, &format!("intervals.{}", column.key));
        list(text, values(), |text, value| put(text, &json::bounds(value).unwrap_or_default()));
    }
    std::mem::take(text)
}

fn part<'a, T>(value: &'a Value, of: impl FnOnce(&'a Location) -> Option<T>) -> Option<T> {
    match value {
        Value::Location(place) => of(place),
        _ => None,
    }
}

/// One value for each row, or for all.
fn list<'a>(
    text: &mut Vec<u8>,
    mut values: impl Iterator<Item = &'a Value> + Clone,
    put: impl Fn(&mut Vec<u8>, &Value),
) {
    if let Some(first) = values.clone().next()
        && values.clone().all(|value| value == first)
    {
        text.extend_from_slice(b"{\"all\":");
        put(text, first);
        text.push(b'}');
        return;
    }
    text.extend_from_slice(b"{\"of\":[");
    if let Some(first) = values.next() {
        put(text, first);
    }
    for value in values {
        text.push(b',');
        put(text, value);
    }
    text.extend_from_slice(b"]}");
}

/// Texts by number.
fn words<'a>(text: &mut Vec<u8>, values: impl Iterator<Item = Option<&'a str>>) {
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    let mut words: Vec<&str> = Vec::new();
    let mut at: Vec<u8> = Vec::new();
    for (index, word) in values.enumerate() {
        separate(&mut at, index);
        match word {
            Some(word) => {
                let number = *numbers.entry(word).or_insert_with(|| {
                    words.push(word);
                    words.len() - 1
                });
                at.extend_from_slice(number.to_string().as_bytes());
            }
            None => at.extend_from_slice(b"null"),
        }
    }
    text.extend_from_slice(b"{\"words\":");
    put(text, &Json::from(words));
    text.extend_from_slice(b",\"at\":[");
    text.extend_from_slice(&at);
    text.extend_from_slice(b"]}");
}

fn cell(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Count(n) | Value::Estimate(n, _) | Value::Within(n, _) | Value::Bytes(n) | Value::Id(n) => {
            put(text, &Json::from(*n))
        }
        Value::Absent => text.extend_from_slice(b"null"),
        value => put(text, &json::value(value)),
    }
}

fn separate(text: &mut Vec<u8>, index: usize) {
    if index > 0 {
        text.push(b',');
    }
}

fn put(text: &mut Vec<u8>, value: &Json) {
    // Writing to memory cannot fail, nor can a value that has been made.
    let _ = serde_json::to_writer(text, value);
}
