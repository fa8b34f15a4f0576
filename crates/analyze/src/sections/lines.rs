//! Section `lines`: accesses and first touches by source line.
//!
//! Accesses belong to the nearest line of the program's own along the inlined frames of the instruction; first touches,
//! whose call stack is known, also to the caller of library code (see `code`). Every access belongs to exactly one row.

use crate::dataset::Dataset;
use crate::dataset::caveats::name_doubts;
use crate::facts::cache_misses::Missed;
use crate::facts::code::OwnPlaces;
use crate::facts::placed::FirstTouches;
use crate::facts::runtime;
use crate::model::counts::{self, Counts};
use crate::model::metrics;
use crate::model::report::{Column, Location, Report, Shape, Table, Value};
use crate::model::tally::Tally;
use crate::sections::functions;
use crate::sections::misses;
use numalens_profile::ids::{FunctionId, SiteId};
use numalens_profile::tables::PlacedPages;
use numalens_profile::words::Class;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// One figure of a line.
enum Figure<'a> {
    /// And whether they wait for other threads.
    Accesses(Class, Tally, bool),
    Missed(Missed),
    Placed(&'a PlacedPages),
}

/// Lines by number, with whatever is known of them. There may be a hundred thousand, of which a page shows a few
/// hundred: figures are gone through twice, for which lines come first, and for all figures of those.
struct Lines<'a> {
    dataset: &'a Dataset,
    places: &'a OwnPlaces,
    /// Places that no site of the profile has; their numbers follow on those of `places`.
    others: Vec<Location>,
    numbers: FxHashMap<Location, usize>,
    /// Where system libraries are a row each: what stands for a line.
    folded: Option<FxHashMap<usize, usize>>,
}

impl<'a> Lines<'a> {
    fn new(dataset: &'a Dataset) -> Self {
        let (others, numbers) = (Vec::new(), FxHashMap::default());
        Lines { dataset, places: dataset.code.own_places(), others, numbers, folded: None }
    }

    /// The line of a site, and the function that it called there.
    fn of_site(&mut self, site: SiteId) -> (usize, Option<FunctionId>) {
        let (number, via) = match self.places.of_site(site) {
            Some(known) => known,
            None => (self.number(self.dataset.code.own(site).location), None),
        };
        (self.folded(number), via)
    }

    /// The number of a place that no site may have.
    fn number(&mut self, location: Location) -> usize {
        let known = self.places.count();
        *self.numbers.entry(location).or_insert_with_key(|location| {
            self.others.push(location.clone());
            known + self.others.len() - 1
        })
    }

    /// The line, or the system library that it is of where those are a row each.
    fn folded(&mut self, number: usize) -> usize {
        if let Some(known) = self.folded.as_ref().map(|folded| folded.get(&number).copied()) {
            return known.unwrap_or_else(|| {
                let module = self.location(number).and_then(|place| place.module);
                let row = match module.filter(|module| runtime::is_library(module)) {
                    Some(module) => self.number(Location {
                        function: functions::LIBRARY.to_string(),
                        module: Some(module),
                        ..Location::default()
                    }),
                    None => number,
                };
                if let Some(folded) = &mut self.folded {
                    folded.insert(number, row);
                }
                row
            });
        }
        number
    }

    fn location(&self, number: usize) -> Option<Location> {
        let place = self.places.location(&self.dataset.code, number);
        place.or_else(|| self.others.get(number - self.places.count()).cloned())
    }

    fn len(&self) -> usize {
        self.places.count() + self.others.len()
    }

    /// As their places; those that no site of the profile has come last.
    fn compare(&self, one: usize, other: usize) -> Ordering {
        match (one < self.places.count(), other < self.places.count()) {
            (true, true) => self.places.compare(&self.dataset.code, one, other),
            (false, false) => self.location(one).cmp(&self.location(other)),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    /// Placed pages with their lines, and who acted for those. What pages of one place have in common is looked up
    /// once.
    fn placed(&mut self) -> Placed<'a> {
        let mut places: FxHashMap<_, Option<u32>> = FxHashMap::default();
        let mut placed = Placed::default();
        for row in &self.dataset.memory.placed {
            let place = *places.entry((row.stack, row.site)).or_insert_with(|| {
                let place = self.dataset.code.own_on_stack(row.stack, row.site)?;
                placed.places.push((self.of_site(place.site).0, place.via));
                Some(placed.places.len() as u32 - 1)
            });
            placed.pages.extend(place.map(|place| (place, row)));
        }
        placed
    }

    /// Every figure of an instruction, with the line and who acted for it.
    fn each_of_sites(&mut self, mut add: impl FnMut(usize, Option<FunctionId>, Figure<'a>)) {
        let dataset = self.dataset;
        let accesses = dataset
            .facts
            .sites
            .by_site()
            .map(|((site, class), tally)| (site, Figure::Accesses(class, tally, dataset.code.waits(site))));
        let missed = dataset.facts.misses.iter().flat_map(|misses| &misses.sites);
        for (site, figure) in accesses.chain(missed.map(|(site, missed)| (*site, Figure::Missed(*missed)))) {
            let (number, via) = self.of_site(site);
            add(number, via, figure);
        }
    }
}

/// Placed pages, and the lines that placed them.
#[derive(Default)]
struct Placed<'a> {
    /// Lines, and who acted for them.
    places: Vec<(usize, Option<String>)>,
    /// Pages with an index into the above.
    pages: Vec<(u32, &'a PlacedPages)>,
}

impl<'a> Placed<'a> {
    fn each(&self, mut add: impl FnMut(usize, Option<&str>, Figure<'a>)) {
        for (place, page) in &self.pages {
            let (number, via) = &self.places[*place as usize];
            add(*number, via.as_deref(), Figure::Placed(page));
        }
    }
}

/// What decides which lines come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Rank {
    /// What mostly waits for other threads comes last: where memory lies makes no difference to it.
    works: bool,
    /// Not told apart where next to nothing is remote.
    remote: u64,
    accesses: u64,
    touched: u64,
    waiting: u64,
}

impl Rank {
    fn add(&mut self, figure: &Figure, by_remote: bool) {
        match figure {
            Figure::Accesses(class, tally, waits) => {
                self.waiting = self.waiting.saturating_add(if *waits { tally.accesses() } else { 0 });
                let remote = by_remote && Counts::REMOTE.contains(class);
                self.accesses = self.accesses.saturating_add(tally.accesses());
                self.remote = self.remote.saturating_add(if remote { tally.accesses() } else { 0 });
            }
            Figure::Missed(_) => (),
            Figure::Placed(row) => {
                let mut touches = FirstTouches::default();
                touches.add(row);
                self.touched = self.touched.saturating_add(touches.touched());
            }
        }
    }
}

/// The numbers of the first `most` lines that have a figure, and how many more there are.
fn ordered(lines: &mut Lines, placed: &Placed, by_remote: bool, most: usize) -> (Vec<usize>, usize) {
    let mut ranks: Vec<Option<Rank>> = vec![None; lines.places.count()];
    let mut add = |number: usize, figure: Figure| {
        if ranks.len() <= number {
            ranks.resize(number + 1, None);
        }
        ranks[number].get_or_insert_default().add(&figure, by_remote);
    };
    placed.each(|number, _, figure| add(number, figure));
    lines.each_of_sites(|number, _, figure| add(number, figure));
    let of = |(number, rank): (usize, Option<Rank>)| {
        let rank = rank?;
        Some((Rank { works: rank.waiting <= rank.accesses / 2, ..rank }, number))
    };
    let mut order: Vec<(Rank, usize)> = ranks.into_iter().enumerate().filter_map(of).collect();
    let compare =
        |(one, x): &(Rank, usize), (other, y): &(Rank, usize)| other.cmp(one).then_with(|| lines.compare(*x, *y));
    let omitted = order.len().saturating_sub(most);
    if omitted > 0 {
        order.select_nth_unstable_by(most, compare);
        order.truncate(most);
    }
    order.par_sort_unstable_by(compare);
    (order.into_iter().map(|(_, number)| number).collect(), omitted)
}

/// A line that is shown.
#[derive(Default)]
struct Line {
    counts: Counts,
    touches: FirstTouches,
    via: BTreeSet<String>,
    missed: Missed,
}

impl Line {
    fn add(&mut self, via: Option<&str>, figure: Figure) {
        match figure {
            Figure::Accesses(class, tally, _) => self.counts.add(class, tally),
            Figure::Missed(missed) => self.missed += missed,
            Figure::Placed(row) => self.touches.add(row),
        }
        if let Some(via) = via.filter(|via| !self.via.contains(*via)) {
            self.via.insert(via.to_string());
        }
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    first(dataset, usize::MAX)
}

/// The same with the first `most` rows.
pub fn first(dataset: &Dataset, most: usize) -> Vec<Report> {
    of(dataset, Lines::new(dataset), most)
}

/// The same with a row for each system library.
pub fn folded(dataset: &Dataset) -> Vec<Report> {
    of(dataset, Lines { folded: Some(FxHashMap::default()), ..Lines::new(dataset) }, usize::MAX)
}

fn of(dataset: &Dataset, mut lines: Lines<'_>, most: usize) -> Vec<Report> {
    let total = dataset.facts.total();
    let placed = lines.placed();
    let (order, omitted) = ordered(&mut lines, &placed, total.leads_by_remote(), most);
    let mut row_of: Vec<Option<u32>> = vec![None; lines.len()];
    for (row, number) in (0..).zip(&order) {
        row_of[*number] = Some(row);
    }
    let mut shown: Vec<Line> = order.iter().map(|_| Line::default()).collect();
    placed.each(|number, via, figure| {
        if let Some(row) = row_of[number] {
            shown[row as usize].add(via, figure);
        }
    });
    lines.each_of_sites(|number, via, figure| {
        if let Some(row) = row_of[number] {
            shown[row as usize].add(via.map(|via| dataset.code.function_name(via)).as_deref(), figure);
        }
    });
    let mut columns = counts::columns(dataset.about.count_noun());
    columns.extend(misses::columns(dataset));
    columns.extend([
        Column::metric(&metrics::FIRST_TOUCH),
        Column::metric(&metrics::UNPINNED_FIRST_TOUCH),
        Column::new("", "line"),
        Column::new("via", "via"),
    ]);
    let rows = order.par_iter().zip(shown).map(|(number, line)| {
        let mut row = counts::values(&line.counts, &total);
        row.extend(misses::values(dataset, |_| line.missed));
        row.extend([
            Value::Count(line.touches.pinned),
            Value::Count(line.touches.unpinned),
            lines.location(*number).map_or(Value::Absent, Value::Location),
            via(&line.via),
        ]);
        row
    });
    let table = Table { rows: rows.collect(), columns, omitted };
    vec![Report::new("lines", "lines", "source lines", Shape::Table(table)).doubting(name_doubts(dataset))]
}

/// The functions that acted for a line.
pub fn via(names: &BTreeSet<String>) -> Value {
    if names.is_empty() { Value::Absent } else { Value::List(names.iter().cloned().map(Value::Text).collect()) }
}
