//! Section `lines`: accesses and first touches by source line.
//!
//! Accesses belong to the nearest line of the program's own along the inlined frames of the instruction; first touches,
//! whose call stack is known, also to the caller of library code (see `code`). Every access belongs to exactly one row.

use crate::code::OwnPlace;
use crate::counts::{self, Counts};
use crate::metrics;
use crate::placed::FirstTouches;
use crate::report::{Column, Location, Report, Shape, Table, Value};
use crate::study::Study;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Line {
    counts: Counts,
    touches: FirstTouches,
    via: BTreeSet<String>,
}

/// Runs the analysis.
pub fn run(study: &Study) -> Vec<Report> {
    let total = study.total();
    let mut lines: BTreeMap<Location, Line> = BTreeMap::new();
    let mut places: FxHashMap<_, OwnPlace> = FxHashMap::default();
    for ((site, class), tally) in study.sites.by_site() {
        let place = places.entry(site).or_insert_with(|| study.code.own(site));
        // Borrowed first: the same few lines are met again and again.
        if !lines.contains_key(&place.location) {
            lines.insert(place.location.clone(), Line::default());
        }
        if let Some(line) = lines.get_mut(&place.location) {
            line.counts.add(class, tally);
            if let Some(via) = &place.via
                && !line.via.contains(via)
            {
                line.via.insert(via.clone());
            }
        }
    }
    for row in &study.placed {
        if let Some(place) = study.code.own_on_stack(row.stack, row.site) {
            let line = lines.entry(place.location).or_default();
            line.touches.add(row);
            line.via.extend(place.via);
        }
    }
    let mut sorted: Vec<(Location, Line)> = lines.into_iter().collect();
    let order = total.order();
    sorted.sort_by_key(|(_, line)| (order(&line.counts), std::cmp::Reverse(line.touches.touched())));
    let mut columns = counts::columns(study.about.count_noun());
    columns.extend([
        Column::metric(&metrics::FIRST_TOUCH),
        Column::metric(&metrics::UNPINNED_FIRST_TOUCH),
        Column::new("", "line"),
        Column::new("via", "via"),
    ]);
    let rows = sorted.into_iter().map(|(location, line)| {
        let mut row = counts::values(&line.counts, &total);
        row.extend([
            Value::Count(line.touches.pinned),
            Value::Count(line.touches.unpinned),
            Value::Location(location),
            via(&line.via),
        ]);
        row
    });
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    vec![Report::new("lines", "lines", "source lines", Shape::Table(table)).doubting(name_doubts(study))]
}

/// The functions that acted for a line.
pub fn via(names: &BTreeSet<String>) -> Value {
    if names.is_empty() { Value::Absent } else { Value::List(names.iter().cloned().map(Value::Text).collect()) }
}

/// What the sections of code have to say beforehand.
pub fn name_doubts(study: &Study) -> Vec<String> {
    let mut doubts = study.access_doubts();
    if !study.code.has_names() && !study.sites.is_empty() {
        doubts.push("no symbols were found: build the program with -g, or map moved sources and binaries with --source-map OLD=NEW".to_string());
    }
    doubts
}
