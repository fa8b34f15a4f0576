//! Section `lines`: accesses and first touches by source line.
//!
//! Accesses belong to the nearest line of the program's own along the inlined frames of the instruction; first touches,
//! whose call stack is known, also to the caller of library code (see `code`). Every access belongs to exactly one row.

use crate::code::OwnPlace;
use crate::counts::{self, Counts};
use crate::metrics;
use crate::misses::{self, Missed};
use crate::placed::FirstTouches;
use crate::report::{Column, Location, Report, Shape, Table, Value};
use crate::study::Study;
use numalens_profile::ids::SiteId;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

#[derive(Default)]
struct Line {
    counts: Counts,
    touches: FirstTouches,
    via: BTreeSet<String>,
    missed: Missed,
}

/// Lines by number.
#[derive(Default)]
struct Lines {
    numbers: FxHashMap<Location, usize>,
    all: Vec<(Location, Line)>,
}

impl Lines {
    /// The line of a place, which may be new; whoever acted for it is noted.
    fn number(&mut self, place: OwnPlace) -> usize {
        let Lines { numbers, all } = self;
        let number = *numbers.entry(place.location).or_insert_with_key(|location| {
            all.push((location.clone(), Line::default()));
            all.len() - 1
        });
        all[number].1.via.extend(place.via);
        number
    }
}

/// Runs the analysis.
pub fn run(study: &Study) -> Vec<Report> {
    let total = study.total();
    let mut lines = Lines::default();
    // Looked up once for each instruction, side by side: there may be a hundred thousand, and names take time to compare.
    let mut sites: Vec<SiteId> = study.sites.by_site().map(|((site, _), _)| site).collect();
    sites.par_sort_unstable();
    sites.dedup();
    let found: Vec<OwnPlace> = sites.par_iter().map(|site| study.code.own(*site)).collect();
    let mut places: FxHashMap<SiteId, usize> =
        sites.into_iter().zip(found).map(|(site, place)| (site, lines.number(place))).collect();
    for ((site, class), tally) in study.sites.by_site() {
        lines.all[places[&site]].1.counts.add(class, tally);
    }
    for (site, &missed) in study.misses.iter().flat_map(|misses| &misses.sites) {
        let line = *places.entry(*site).or_insert_with(|| lines.number(study.code.own(*site)));
        lines.all[line].1.missed += missed;
    }
    for row in &study.placed {
        if let Some(place) = study.code.own_on_stack(row.stack, row.site) {
            let line = lines.number(place);
            lines.all[line].1.touches.add(row);
        }
    }
    let mut sorted = lines.all;
    let order = total.order();
    let key = |line: &Line| (order(&line.counts), std::cmp::Reverse(line.touches.touched()));
    sorted.par_sort_unstable_by(|(a, x), (b, y)| key(x).cmp(&key(y)).then_with(|| a.cmp(b)));
    let mut columns = counts::columns(study.about.count_noun());
    columns.extend(misses::columns(study));
    columns.extend([
        Column::metric(&metrics::FIRST_TOUCH),
        Column::metric(&metrics::UNPINNED_FIRST_TOUCH),
        Column::new("", "line"),
        Column::new("via", "via"),
    ]);
    let rows = sorted.into_par_iter().map(|(location, line)| {
        let mut row = counts::values(&line.counts, &total);
        row.extend(misses::values(study, |_| line.missed));
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
