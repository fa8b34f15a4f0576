//! A document by columns, put together again, is the document.

use numalens_analyze::{Options, sections};
use numalens_profile::Profile;
use numalens_profile::testing::Synthetic;
use numalens_view::{columns, json};
use serde_json::{Map, Value, json};

/// The rows of a table by columns.
fn rows(table: &Value) -> Vec<Value> {
    let count = table["rows"].as_u64().unwrap() as usize;
    let mut rows = vec![Map::new(); count];
    for (name, column) in table["columns"].as_object().unwrap() {
        for (at, row) in rows.iter_mut().enumerate() {
            let value = match (column.get("all"), column.get("of"), column.get("at")) {
                (Some(value), ..) => value.clone(),
                (_, Some(list), _) => list[at].clone(),
                (.., Some(numbers)) => {
                    numbers[at].as_u64().map_or(Value::Null, |n| column["words"][n as usize].clone())
                }
                _ => panic!("{name} is no column"),
            };
            match name.split_once('.') {
                // What is exact has no interval.
                Some(("intervals", _)) if value.is_null() => {}
                Some((outer, inner)) => {
                    let outer = row.entry(outer).or_insert_with(|| json!({}));
                    outer.as_object_mut().unwrap().insert(inner.to_string(), value);
                }
                None => _ = row.insert(name.clone(), value),
            }
        }
    }
    rows.into_iter().map(Value::Object).collect()
}

#[test]
fn columns_have_what_rows_have() {
    let mut several = Synthetic::example();
    several.samples.iter_mut().step_by(2).for_each(|sample| sample.object = None);
    for content in [Synthetic::example(), several, Synthetic::example().with_lines()] {
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
        let all: Vec<_> = sections::ALL.iter().collect();
        let reports = sections::run(&profile, &Options::default(), &all).unwrap();
        let mut document: Value = serde_json::from_slice(&columns::document(&reports)).unwrap();
        let tables = document.as_object_mut().unwrap().remove("tables").unwrap();
        for (name, table) in tables.as_object().unwrap() {
            document[name] = Value::Array(rows(table));
        }
        let wanted = json::document(&reports);
        assert!(wanted["lines"].as_array().unwrap().len() > 2);
        // Objects are compared without the order of their names.
        assert_eq!(document, wanted);
    }
}
