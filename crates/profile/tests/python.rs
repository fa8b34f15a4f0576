//! The Python package knows the columns of every table, so that a query finds a table that a profile lacks: they stand
//! in a file, and this keeps it true.

use numalens_profile::{Error, Row, Visitor, tables};
use std::path::Path;

/// One line for each column.
struct Columns(serde_json::Map<String, serde_json::Value>);

impl Visitor for Columns {
    fn table<T: Row>(&mut self) -> Result<(), Error> {
        let columns = T::fields().into_iter().map(|column| {
            serde_json::json!({
                "name": column.name(),
                "type": column.data_type().to_string(),
                "nullable": column.is_nullable(),
            })
        });
        self.0.insert(T::TABLE.to_owned(), columns.collect());
        Ok(())
    }
}

#[test]
fn the_python_package_knows_every_column() {
    let mut columns = Columns(serde_json::Map::new());
    tables::visit(&mut columns).unwrap();
    let now = serde_json::to_string_pretty(&columns.0).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/numalens/schema.json");
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    if known != now {
        let found = std::env::temp_dir().join("numalens-schema.json");
        std::fs::write(&found, &now).unwrap();
        panic!("the tables have changed: copy {} to python/numalens/schema.json", found.display());
    }
}
