//! Section `line-objects`: what stands behind a line of source: the objects that it accesses, places and allocates, and
//! the call stacks on which it does.
//!
//! Which line accessed which object only single accesses tell. Samples are such; exact recordings look at a few
//! accesses beside their counts, which know the line or the object, not both. There `seen` counts those, and they
//! divide what is counted of the line (see [`crate::facts::divided`]). First touches and allocations are complete with
//! both engines.

use crate::dataset::Dataset;
use crate::dataset::caveats::name_doubts;
use crate::facts::code::OwnPlace;
use crate::facts::divided::Division;
use crate::facts::placed;
use crate::model::counts::{Counts, percent};
use crate::model::metrics;
use crate::model::object_group::Group;
use crate::model::report::{Column, Location, Report, Shape, Shown, Table, Value};
use crate::model::tally::{self, Sums};
use crate::sections::call_tree;
use numalens_profile::ids::{ObjectId, SiteId, StackId};
use numalens_profile::tables::Object;
use numalens_profile::words::{Class, ObjectKind};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Rows of each table; the lines of a large program and their objects are more than anyone reads.
const MOST: usize = 1000;

/// A line and one of its objects; none: accesses to nobody knows what.
#[derive(Default)]
struct OfObject {
    /// Accesses; of exact counts their part of those of the line.
    counts: Counts,
    /// Those that were looked at.
    seen: u64,
    placed: u64,
    allocated: u64,
    /// Stacks of first touches, by bytes.
    touches: BTreeMap<StackId, u64>,
}

/// A line on one call stack.
#[derive(Default)]
struct OnStack {
    counts: Counts,
    placed: u64,
    allocated: u64,
}

/// Lines by number: names are compared once for each instruction or stack.
struct Lines<'a> {
    dataset: &'a Dataset,
    all: Vec<Location>,
    numbers: FxHashMap<Location, usize>,
    places: FxHashMap<(Option<StackId>, Option<SiteId>), Option<usize>>,
}

impl Lines<'_> {
    /// The line of an instruction, or of the nearest caller that is the program's own; none: not known, or not asked
    /// for.
    fn of(&mut self, stack: Option<StackId>, site: Option<SiteId>) -> Option<usize> {
        if let Some(known) = self.places.get(&(stack, site)) {
            return *known;
        }
        let found: Option<OwnPlace> = match (stack, site) {
            (None, Some(site)) => Some(self.dataset.code.own(site)),
            _ => self.dataset.code.own_on_stack(stack, site),
        };
        let wanted = |at: &Location| match &self.dataset.about.place {
            Some((file, line)) => at.file.as_ref() == Some(file) && at.line == Some(*line),
            None => true,
        };
        let number = found.map(|place| place.location).filter(wanted).map(|location| {
            *self.numbers.entry(location).or_insert_with_key(|location| {
                self.all.push(location.clone());
                self.all.len() - 1
            })
        });
        self.places.insert((stack, site), number);
        number
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut lines = Lines { dataset, all: Vec::new(), numbers: FxHashMap::default(), places: FxHashMap::default() };
    let groups = Groups::new(dataset);
    let mut by_object: FxHashMap<(usize, Option<usize>), OfObject> = FxHashMap::default();
    let mut by_stack: FxHashMap<(usize, StackId), OnStack> = FxHashMap::default();
    let mut totals: FxHashMap<usize, Counts> = FxHashMap::default();
    let sampled = dataset.about.sampled();
    let mut seen: FxHashMap<usize, Division<Option<usize>>> = FxHashMap::default();
    for ((site, object, class), tally) in &dataset.facts.uses.0 {
        let Some(line) = lines.of(None, Some(*site)) else { continue };
        let object = object.and_then(|id| groups.of(id));
        let row = by_object.entry((line, object)).or_default();
        tally::add(&mut row.seen, tally.samples);
        if sampled {
            row.counts.add(*class, *tally);
            totals.entry(line).or_default().add(*class, *tally);
        } else {
            seen.entry(line).or_default().add(object, *class, *tally);
        }
    }
    for ((line, class), tally) in counted(dataset, &mut lines, &seen) {
        for (object, part) in seen[&line].divide(class, tally, None) {
            by_object.entry((line, object)).or_default().counts.add(class, part);
            totals.entry(line).or_default().add(class, part);
        }
    }
    if call_tree::has_callers(dataset) {
        for ((stack, site), counts) in call_tree::accesses(dataset) {
            // As the table of lines has them: accesses belong to the instruction, whoever called it.
            if let (Some(line), Some(stack)) = (lines.of(None, Some(site)), stack) {
                by_stack.entry((line, stack)).or_default().counts += counts;
            }
        }
    }
    for page in dataset.memory.placed.iter().filter(|page| page.stack.is_some() || page.site.is_some()) {
        let Some(line) = lines.of(page.stack, page.site) else { continue };
        let row = by_object.entry((line, page.object.and_then(|id| groups.of(id)))).or_default();
        row.placed += placed::bytes(page);
        if let Some(stack) = page.stack {
            *row.touches.entry(stack).or_default() += placed::bytes(page);
            by_stack.entry((line, stack)).or_default().placed += placed::bytes(page);
        }
    }
    for object in dataset.memory.objects.values().filter(|object| object.kind == ObjectKind::Heap) {
        if object.stack.is_none() && object.site.is_none() {
            continue;
        }
        let Some(line) = lines.of(object.stack, object.site) else { continue };
        by_object.entry((line, groups.of(object.object))).or_default().allocated += object.size;
        if let Some(stack) = object.stack {
            by_stack.entry((line, stack)).or_default().allocated += object.size;
        }
    }
    let all_seen = tally::total(by_object.values().map(|row| row.seen));
    let covered = tally::total(totals.values().map(Counts::accesses));
    let objects = of_objects(dataset, &lines, &groups, by_object, &totals).doubting(doubts(dataset, covered, all_seen));
    vec![objects, on_stacks(dataset, &lines, by_stack, &totals)]
}

/// Exact counts of lines of which some accesses were looked at.
fn counted<K>(dataset: &Dataset, lines: &mut Lines<'_>, seen: &FxHashMap<usize, K>) -> Sums<(usize, Class)> {
    let mut counted: Sums<(usize, Class)> = Sums::default();
    for ((site, class), tally) in dataset.facts.sites.by_site().filter(|_| !seen.is_empty()) {
        if let Some(line) = lines.of(None, Some(site)).filter(|line| seen.contains_key(line)) {
            *counted.entry((line, class)).or_default() += tally;
        }
    }
    counted
}

/// Objects that are one row elsewhere are one here.
struct Groups<'a> {
    numbers: FxHashMap<ObjectId, usize>,
    all: Vec<Objects<'a>>,
}

struct Objects<'a> {
    /// The largest lends its site and stack.
    example: &'a Object,
    size: u64,
    count: u64,
}

impl<'a> Groups<'a> {
    fn new(dataset: &'a Dataset) -> Self {
        let mut groups = Groups { numbers: FxHashMap::default(), all: Vec::new() };
        let mut known: FxHashMap<Group, usize> = FxHashMap::default();
        let mut sorted: Vec<&Object> = dataset.memory.objects.values().collect();
        sorted.sort_unstable_by_key(|object| (Reverse(object.size), object.object));
        for object in sorted {
            let number = *known.entry(Group::of(object)).or_insert_with(|| {
                groups.all.push(Objects { example: object, size: 0, count: 0 });
                groups.all.len() - 1
            });
            tally::add(&mut groups.all[number].size, object.size);
            tally::add(&mut groups.all[number].count, object.count);
            groups.numbers.insert(object.object, number);
        }
        groups
    }

    fn of(&self, object: ObjectId) -> Option<usize> {
        self.numbers.get(&object).copied()
    }
}

fn of_objects(
    dataset: &Dataset,
    lines: &Lines<'_>,
    groups: &Groups<'_>,
    rows: FxHashMap<(usize, Option<usize>), OfObject>,
    totals: &FxHashMap<usize, Counts>,
) -> Report {
    let mut sorted: Vec<_> = rows.into_iter().collect();
    let key = |row: &OfObject| Reverse((row.counts.accesses(), row.placed, row.allocated));
    sorted.sort_by(|((a, x), one), ((b, y), other)| {
        key(one).cmp(&key(other)).then_with(|| (&lines.all[*a], x).cmp(&(&lines.all[*b], y)))
    });
    let omitted = sorted.len().saturating_sub(MOST);
    let exact = !dataset.about.sampled();
    let stack = |stack: Option<StackId>| {
        Value::maybe(stack, |stack| Value::List(dataset.code.stack(stack).into_iter().map(Value::Text).collect()))
    };
    let rows = sorted.into_iter().take(MOST).map(|((line, group), row)| {
        let of_line = totals.get(&line).copied().unwrap_or_default();
        let object = group.map(|group| &groups.all[group]);
        let example = object.map(|object| object.example);
        let site = example.and_then(|o| dataset.code.own_on_stack(o.stack, o.site));
        let hottest = row.touches.iter().rev().max_by_key(|(_, bytes)| **bytes).map(|(stack, _)| *stack);
        let known = row.counts.accesses() > 0 || !exact;
        let count = |n: u64| if known { Value::Count(n) } else { Value::Absent };
        vec![
            if known { row.counts.total() } else { Value::Absent },
            percent(row.counts.accesses(), of_line.accesses(), of_line.samples),
            row.counts.percent(row.counts.remote()),
            count(row.counts.reads),
            count(row.counts.writes),
            Value::Count(row.seen),
            Value::Bytes(row.placed),
            Value::Bytes(row.allocated),
            Value::maybe(example, |o| Value::Text(o.kind.word().to_string())),
            Value::maybe(example, |o| Value::Text(o.name.clone())),
            Value::maybe(object, |o| Value::Bytes(o.size)),
            Value::maybe(object, |o| Value::Count(o.count)),
            Value::maybe(site, |place| Value::Location(place.location)),
            stack(example.and_then(|o| o.stack)),
            stack(hottest),
            Value::maybe(example, |o| Value::Id(u64::from(o.object.0))),
            Value::Location(lines.all[line].clone()),
        ]
    });
    let table = Table { rows: rows.collect(), columns: object_columns(dataset), omitted };
    Report::new("line-objects", "line_objects", "objects behind lines", Shape::Table(table))
}

fn object_columns(dataset: &Dataset) -> Vec<Column> {
    let seen = if dataset.about.sampled() { Shown::Data } else { Shown::Everywhere };
    vec![
        Column { title: dataset.about.count_noun(), ..Column::metric(&metrics::ACCESSES) },
        Column { title: "of the line", ..Column::metric(&metrics::SHARE) },
        Column::metric(&metrics::REMOTE_SHARE),
        Column::metric(&metrics::READS).only(Shown::Data),
        Column::metric(&metrics::WRITES).only(Shown::Data),
        Column { title: "looked at", ..Column::at("seen", &metrics::SAMPLES) }.only(seen),
        Column::new("placed", "placed"),
        Column::new("allocated", "allocated"),
        Column::new("kind", "kind"),
        Column::new("name", "name"),
        Column::new("size", "size"),
        Column::metric(&metrics::COUNT).only(Shown::Data),
        Column::new("site", "allocated at"),
        Column::new("allocation_stack", "allocation stack").only(Shown::Data),
        Column::new("first_touch_stack", "first touch stack").only(Shown::Data),
        Column::new("object", "object").only(Shown::Data),
        Column::new("", "line"),
    ]
}

fn on_stacks(
    dataset: &Dataset,
    lines: &Lines<'_>,
    rows: FxHashMap<(usize, StackId), OnStack>,
    totals: &FxHashMap<usize, Counts>,
) -> Report {
    let mut sorted: Vec<_> = rows.into_iter().collect();
    sorted.sort_by_key(|((_, stack), row)| (Reverse((row.counts.accesses(), row.placed, row.allocated)), *stack));
    let omitted = sorted.len().saturating_sub(MOST);
    let known = call_tree::has_callers(dataset);
    let rows = sorted.into_iter().take(MOST).map(|((line, stack), row)| {
        let of_line = totals.get(&line).copied().unwrap_or_default();
        vec![
            if known { row.counts.total() } else { Value::Absent },
            if known { percent(row.counts.accesses(), of_line.accesses(), of_line.samples) } else { Value::Absent },
            row.counts.percent(row.counts.remote()),
            Value::Bytes(row.placed),
            Value::Bytes(row.allocated),
            Value::List(dataset.code.stack(stack).into_iter().map(Value::Text).collect()),
            Value::Location(lines.all[line].clone()),
        ]
    });
    let columns = vec![
        Column { title: dataset.about.count_noun(), ..Column::metric(&metrics::ACCESSES) },
        Column { title: "of the line", ..Column::metric(&metrics::SHARE) },
        Column::metric(&metrics::REMOTE_SHARE),
        Column::new("placed", "placed"),
        Column::new("allocated", "allocated"),
        Column::new("stack", "stack"),
        Column::new("", "line").only(Shown::Data),
    ];
    let table = Table { rows: rows.collect(), columns, omitted };
    let report = Report::new("line-objects", "line_stacks", "call stacks behind lines", Shape::Table(table));
    let accesses = !known && dataset.facts.total().accesses() > 0;
    let missing = "accesses were recorded without their callers: these are stacks of first touches and allocations";
    report.doubting(accesses.then(|| missing.to_string()).into_iter().collect())
}

fn doubts(dataset: &Dataset, covered: u64, seen: u64) -> Vec<String> {
    let mut doubts = name_doubts(dataset);
    let all = dataset.facts.total().accesses();
    if dataset.about.sampled() {
        if covered < all {
            doubts.push(format!("covers {covered} of {all} {}", dataset.about.count_noun()));
        }
    } else if all > 0 {
        doubts.push(match seen {
            0 => "which line accessed which object is not known: exact counts know the one or the other, and no \
                  single access was looked at"
                .to_string(),
            n => format!("which objects a line accesses is estimated from {n} accesses that were looked at"),
        });
    }
    doubts
}
