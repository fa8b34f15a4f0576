//! Section `lines`: accesses and first touches by source line.
//!
//! Accesses belong to the nearest line of the program's own along the inlined frames of the instruction; first touches,
//! whose call stack is known, also to the caller of library code (see `code`). Every access belongs to exactly one row.

use crate::code::{OwnPlace, OwnPlaces};
use crate::counts::{self, Counts};
use crate::metrics;
use crate::misses::{self, Missed};
use crate::placed::FirstTouches;
use crate::report::{Column, Location, Report, Shape, Table, Value};
use crate::study::Study;
use numalens_profile::ids::SiteId;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeSet;

#[derive(Default)]
struct Line {
    counts: Counts,
    touches: FirstTouches,
    via: BTreeSet<String>,
    missed: Missed,
}

/// The lines that have a figure, each by its number, and those whose place no site of the profile has.
struct Lines<'a> {
    study: &'a Study,
    places: &'a OwnPlaces,
    /// Where in `all` the line of a number is.
    known: Vec<Option<u32>>,
    others: FxHashMap<Location, u32>,
    all: Vec<(Cow<'a, Location>, Line)>,
}

impl<'a> Lines<'a> {
    fn new(study: &'a Study) -> Self {
        let places = study.code.own_places();
        let known = vec![None; places.locations().len()];
        Lines { study, places, known, others: FxHashMap::default(), all: Vec::new() }
    }

    /// The line of a site; whoever acted for it is noted.
    fn of_site(&mut self, site: SiteId) -> &mut Line {
        match self.places.of_site(site) {
            Some((number, via)) => {
                let line = self.numbered(number);
                if let Some(via) = via.filter(|via| !line.via.contains(*via)) {
                    line.via.insert(via.to_string());
                }
                line
            }
            None => self.at(self.study.code.own(site)),
        }
    }

    /// The line of a place, which may be new.
    fn at(&mut self, place: OwnPlace) -> &mut Line {
        let line = match self.places.number(&place.location) {
            Some(number) => self.numbered(number),
            None => {
                let Lines { others, all, .. } = self;
                let at = *others.entry(place.location).or_insert_with_key(|location| {
                    all.push((Cow::Owned(location.clone()), Line::default()));
                    all.len() as u32 - 1
                });
                &mut all[at as usize].1
            }
        };
        line.via.extend(place.via);
        line
    }

    fn numbered(&mut self, number: usize) -> &mut Line {
        let Lines { places, known, all, .. } = self;
        let at = *known[number].get_or_insert_with(|| {
            all.push((Cow::Borrowed(&places.locations()[number]), Line::default()));
            all.len() as u32 - 1
        });
        &mut all[at as usize].1
    }
}

/// Runs the analysis.
pub fn run(study: &Study) -> Vec<Report> {
    first(study, usize::MAX)
}

/// The same with the first `most` rows: there may be a hundred thousand, and making them takes longer than finding out which are the first.
pub fn first(study: &Study, most: usize) -> Vec<Report> {
    let total = study.total();
    let mut lines = Lines::new(study);
    for ((site, class), tally) in study.sites.by_site() {
        lines.of_site(site).counts.add(class, tally);
    }
    for (site, &missed) in study.misses.iter().flat_map(|misses| &misses.sites) {
        lines.of_site(*site).missed += missed;
    }
    for row in &study.placed {
        if let Some(place) = study.code.own_on_stack(row.stack, row.site) {
            lines.at(place).touches.add(row);
        }
    }
    let mut sorted = lines.all;
    let order = total.order();
    let key = |line: &Line| (order(&line.counts), std::cmp::Reverse(line.touches.touched()));
    let compare =
        |(a, x): &(Cow<Location>, Line), (b, y): &(Cow<Location>, Line)| key(x).cmp(&key(y)).then_with(|| a.cmp(b));
    let omitted = sorted.len().saturating_sub(most);
    if omitted > 0 {
        sorted.select_nth_unstable_by(most, compare);
        sorted.truncate(most);
    }
    sorted.par_sort_unstable_by(compare);
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
            Value::Location(location.into_owned()),
            via(&line.via),
        ]);
        row
    });
    let table = Table { rows: rows.collect(), columns, omitted };
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
