//! What blocks are called.

use super::*;

#[test]
fn blocks_have_the_names_of_the_variables_that_the_source_assigns_them_to() {
    let lab = Lab::exact();
    let recorded = record(&lab, "named.cc", &["-O0", "-g"]);
    let rows = objects(&recorded, "named.cc");
    for (tag, name, count) in [
        ("b", "b", 1),
        ("cells", "cells", 1),
        ("wrapped", "by_wrapper", 1),
        ("rows", "rows[i]", 4),
        ("values", "values", 1),
        ("aligned", "aligned", 1),
        ("nameless", "", 1),
    ] {
        let row = rows.get(tag).unwrap_or_else(|| panic!("no object {tag}: {:?}", rows.keys()));
        assert_eq!((row["name"].as_str().unwrap_or_default(), number(&row["count"])), (name, count), "{tag}");
    }
}
