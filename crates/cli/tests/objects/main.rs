//! Objects of exact recordings: what a program's blocks are, who made and freed them, and how often each was used,
//! against arithmetic. And the call stacks that tell them apart.

mod blocks;
mod calls;
mod handed_on;
mod lines;
mod mapped;
mod named;
mod paused;
mod reserved;
mod small;
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod temporary;
mod thread_local;

use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::tables::{Allocation, Object, ObjectAccess};
use numalens_profile::words::Call;
use serde_json::Value;
use std::collections::BTreeMap;
use support::*;

/// Compiles a program that stands beside this file, and records it.
#[track_caller]
fn record(lab: &Lab, name: &str, flags: &[&str]) -> Recorded {
    record_with(lab, name, flags, &[], &[])
}

/// The same with options and the program's arguments.
#[track_caller]
fn record_with(lab: &Lab, name: &str, flags: &[&str], options: &[&str], arguments: &[&str]) -> Recorded {
    // musl-gcc has no C++ library, so it takes the program for C.
    let compiler = if flags.contains(&"-xc") { "musl-gcc" } else { "c++" };
    let program = lab.build(&format!("objects/{name}"), &[&[compiler], flags].concat());
    let recorded = lab.recorded(options, &[&[program.as_str()], arguments].concat()).succeeded();
    assert_eq!(recorded.outcome.stderr, "");
    recorded.sound()
}

/// Rows of section `objects` by the tag of the line that allocated them, or by name.
#[track_caller]
fn objects(recorded: &Recorded, name: &str) -> BTreeMap<String, Value> {
    let text = text_of(&format!("objects/{name}"));
    let tags: Vec<Option<&str>> = text.lines().map(tag).collect();
    let report = recorded.json(&["report", "--section", "objects"]);
    let mut rows = BTreeMap::new();
    for row in report["objects"].as_array().unwrap() {
        let file = row["site"]["file"].as_str().unwrap_or_default();
        let line = row["site"]["line"].as_u64().unwrap_or(0) as usize;
        let tag = if file.ends_with(name) { line.checked_sub(1).and_then(|at| tags[at]) } else { None };
        let key = tag.map_or_else(|| row["name"].as_str().unwrap_or_default().to_owned(), str::to_owned);
        rows.insert(key, row.clone());
    }
    rows
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value["value"].as_u64()).unwrap_or_else(|| panic!("{value} is no count"))
}

/// How many accesses a row has at least, and at most.
fn interval(row: &Value) -> [f64; 2] {
    let known = number(&row["accesses"]) as f64;
    [0, 1].map(|end| row["intervals"]["accesses"][end].as_f64().unwrap_or(known))
}
