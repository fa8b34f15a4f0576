//! Which lines access which objects: exact counts of the one are divided by accesses that were looked at.

use super::*;

/// Rows of a section at the line of the program with this remark.
fn at_line<'a>(report: &'a Value, section: &str, remark: &str) -> Vec<&'a Value> {
    let text = text_of("objects/lines.c");
    let line = line_of(&text, &format!("/* {remark} */"));
    let here = |row: &&Value| row["file"].as_str().is_some_and(|file| file.ends_with("lines.c")) && row["line"] == line;
    report[section].as_array().unwrap().iter().filter(here).collect()
}

fn accesses(rows: &[&Value]) -> u64 {
    rows.iter().map(|row| number(&row["accesses"])).sum()
}

#[test]
fn lines_of_an_object_and_objects_of_a_line_are_as_arithmetic_says() {
    const PASS: u64 = 60 << 20;
    let lab = Lab::exact();
    let recorded = record(&lab, "lines.c", &["-O1", "-g"]);
    let all = recorded.json(&["report", "--section", "lines", "--section", "line-objects"]);
    assert_eq!(accesses(&at_line(&all, "lines", "both")), 4 * PASS);
    let behind = at_line(&all, "line_objects", "both");
    assert_eq!(accesses(&behind), 4 * PASS, "objects are all of the line");
    // Over a hundred are looked at of these; a quarter is five standard deviations.
    let share_of = |rows: &[&Value], part: &dyn Fn(&Value) -> bool| {
        let of: Vec<&Value> = rows.iter().copied().filter(|row| part(row)).collect();
        accesses(&of) as f64 / accesses(rows) as f64
    };
    let often = share_of(&behind, &|row| row["name"] == "often");
    assert!((0.5..0.95).contains(&often), "{often} of 0.75");
    let own = at_line(&all, "line_objects", "own");
    let only_seldom = own.iter().all(|row| row["name"] == "seldom");
    assert!(only_seldom && accesses(&own) == PASS, "{own:?}");

    let number = objects(&recorded, "lines.c")["seldom"]["object"].as_u64().unwrap().to_string();
    let of_seldom = recorded.json(&["report", "--object", &number, "--section", "lines", "--section", "objects"]);
    let lines: Vec<&Value> = of_seldom["lines"].as_array().unwrap().iter().collect();
    assert_eq!(accesses(&lines), accesses(&of_seldom["objects"].as_array().unwrap().iter().collect::<Vec<_>>()));
    let both = at_line(&of_seldom, "lines", "both");
    let both = accesses(&both) as f64 / accesses(&lines) as f64;
    assert!((0.25..0.75).contains(&both), "{both} of 0.5");
    let doubts = of_seldom["doubts"]["lines"].to_string();
    assert!(doubts.contains("estimated from"), "{doubts}");
}
