//! Lines and objects of both recordings, in pairs: those that change most come first.

use super::figures::{self, MATTERS as PERCENT};
use super::pairs::{Key, pairs};
use super::{Sides, names};
use crate::dataset::Dataset;
use crate::facts::code::OwnPlace;
use crate::facts::totals;
use crate::model::counts::{Counts, estimate};
use crate::model::report::{Column, Location, Report, Shape, Shown, Table, Value};
use crate::model::tally::Tally;
use numalens_profile::ids::ObjectId;
use numalens_profile::tables::Object;
use numalens_profile::words::ObjectKind;
use numalens_simulate::{CostModel, Traffic};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The column that says whether a row is worth showing.
pub const MATTERS: &str = "matters";

/// Accesses of one row; its traffic only where it is an object.
#[derive(Clone, Default)]
pub struct Sum {
    pub counts: Counts,
    pub traffic: Traffic,
}

/// One line or object of both recordings; none: that side has no such row.
pub struct Row {
    pub keys: Sides<Option<Key>>,
    pub sums: Sides<Sum>,
}

impl Row {
    /// As the recording after the change says it, where it has it.
    pub fn key(&self) -> &Key {
        static NONE: Key = Key { kind: None, name: String::new(), place: None };
        self.keys.after.as_ref().or(self.keys.before.as_ref()).unwrap_or(&NONE)
    }

    /// After minus before.
    pub fn change(&self, of: impl Fn(&Counts) -> u64) -> f64 {
        of(&self.sums.after.counts) as f64 - of(&self.sums.before.counts) as f64
    }
}

type Sums = BTreeMap<Key, Sum>;

/// Lines, in pairs.
pub fn lines(datasets: Sides<&Dataset>, executable: Sides<Option<&str>>) -> Vec<Row> {
    let of = |dataset: &Dataset, executable: Option<&str>| {
        let mut keys: FxHashMap<usize, Key> = FxHashMap::default();
        let mut sums = Sums::default();
        let (code, places) = (&dataset.code, dataset.code.own_places());
        let key = |place| Key { place: Some(names::place(place, executable)), ..Key::default() };
        for ((site, class), tally) in dataset.facts.sites.by_site() {
            let key = match places.of_site(site) {
                Some((number, _)) => {
                    keys.entry(number).or_insert_with(|| key(places.location(code, number).unwrap_or_default())).clone()
                }
                None => key(code.own(site).location),
            };
            sums.entry(key).or_default().counts.add(class, tally);
        }
        sums
    };
    paired(of(datasets.before, executable.before), of(datasets.after, executable.after))
}

/// Objects by what both recordings call alike, in pairs.
pub fn objects(datasets: Sides<&Dataset>, executable: Sides<Option<&str>>) -> Vec<Row> {
    let of = |dataset: &Dataset, executable: Option<&str>| {
        let weighed = totals::weigher(&dataset.about, &dataset.machine, CostModel::new(&dataset.machine));
        let numbers = thread_numbers(dataset);
        let mut keys: FxHashMap<ObjectId, Key> = FxHashMap::default();
        let mut sums = Sums::default();
        for (key, tally) in &dataset.facts.by_object.sums {
            let tally: Tally = *tally;
            let object = keys.entry(key.object).or_insert_with(|| {
                dataset
                    .memory
                    .objects
                    .get(&key.object)
                    .map_or_else(unknown, |object| named(dataset, object, executable, &numbers))
            });
            let sum = sums.entry(object.clone()).or_default();
            sum.counts.add(key.class, tally);
            sum.traffic.add(key.node, key.home, weighed(key.node, key.home, tally.accesses()));
        }
        sums
    };
    paired(of(datasets.before, executable.before), of(datasets.after, executable.after))
}

fn unknown() -> Key {
    Key { kind: Some(ObjectKind::Unknown), ..Key::default() }
}

/// The numbers of threads in their processes, in the order in which they started: the main one has 0.
fn thread_numbers(dataset: &Dataset) -> FxHashMap<u32, usize> {
    let mut next: FxHashMap<_, usize> = FxHashMap::default();
    let mut numbers = FxHashMap::default();
    for thread in &dataset.program.order {
        if let Some(row) = dataset.program.threads.get(thread) {
            let number = next.entry(row.process).or_default();
            numbers.insert(thread.0, *number);
            *number += 1;
        }
    }
    numbers
}

fn named(dataset: &Dataset, object: &Object, executable: Option<&str>, numbers: &FxHashMap<u32, usize>) -> Key {
    let number = object.thread.and_then(|thread| numbers.get(&thread.0));
    let name = match (object.kind, number) {
        (ObjectKind::Stack, Some(0)) => "stack of the main thread".to_string(),
        (ObjectKind::Stack, Some(number)) => format!("stack of worker {number}"),
        _ => names::object(&object.name, executable),
    };
    let place: Option<OwnPlace> = dataset.code.own_on_stack(object.stack, object.site);
    let place = place.filter(|_| object.kind == ObjectKind::Heap);
    Key { kind: Some(object.kind), name, place: place.map(|place| names::place(place.location, executable)) }
}

/// Pairs in their order: the largest change of remote accesses first, of accesses among equals.
fn paired(before: Sums, after: Sums) -> Vec<Row> {
    let list = |sums: &Sums| -> Vec<(Key, u64)> {
        sums.iter().map(|(key, sum)| (key.clone(), sum.counts.accesses())).collect()
    };
    let found = pairs(&list(&before), &list(&after));
    let before: Vec<(Key, Sum)> = before.into_iter().collect();
    let after: Vec<(Key, Sum)> = after.into_iter().collect();
    let of = |rows: &[(Key, Sum)], index: Option<usize>| match index.map(|index| rows[index].clone()) {
        Some((key, sum)) => (Some(key), sum),
        None => (None, Sum::default()),
    };
    let row = |(old, new)| {
        let (old, new) = (of(&before, old), of(&after, new));
        Row { keys: Sides { before: old.0, after: new.0 }, sums: Sides { before: old.1, after: new.1 } }
    };
    let mut rows: Vec<Row> = found.into_iter().map(row).collect();
    let moved = |row: &Row, of: fn(&Counts) -> u64| of(&row.sums.before.counts).abs_diff(of(&row.sums.after.counts));
    let order = |row: &Row| Reverse((moved(row, Counts::remote), moved(row, Counts::accesses)));
    rows.sort_by(|one, other| order(one).cmp(&order(other)).then_with(|| one.key().cmp(other.key())));
    rows
}

/// The upper end of the exact 95 % interval of a Poisson count of 0, in samples.
const NONE_SEEN: f64 = 3.689;

/// The table of lines, or of objects.
pub fn report(key: &'static str, title: &str, datasets: Sides<&Dataset>, rows: Vec<Row>) -> Report {
    let mut columns = vec![
        Column::new("before", "before"),
        Column::new("after", "after"),
        Column::new("change", "change"),
        Column::new("significant", "significant").only(Shown::Data),
        Column::new("remote_before", "remote before"),
        Column::new("remote_after", "remote after"),
        Column::new("remote_change", "remote change"),
        Column::new(MATTERS, "matters").only(Shown::Data),
        Column::new("state", ""),
    ];
    let lines = key == "lines";
    columns.extend(match lines {
        true => vec![Column::new("", "line"), Column::new("line_before", "line before")],
        false => vec![
            Column::new("object", "object"),
            Column::new("kind", "kind").only(Shown::Data),
            Column::new("name", "name").only(Shown::Data),
            Column::new("site", "allocated at").only(Shown::Data),
        ],
    });
    let totals = datasets.map(|dataset| dataset.facts.total().accesses());
    let sampled = datasets.before.about.sampled() || datasets.after.about.sampled();
    let values = |row: Row| {
        let mut values = figures_of(&row, totals, sampled);
        values.push(state(&row));
        values.extend(if lines { line(&row) } else { object(&row) });
        values
    };
    let table = Table { rows: rows.into_iter().map(values).collect(), columns, omitted: 0 };
    let title = format!("{title}: {}, by change of remote ones", datasets.after.about.count_noun());
    Report::new(key, key, title, Shape::Table(table))
}

fn figures_of(row: &Row, totals: Sides<u64>, sampled: bool) -> Vec<Value> {
    let Sides { before: Sum { counts: old, .. }, after: Sum { counts: new, .. } } = &row.sums;
    let samples = old.samples + new.samples;
    let weight = (old.accesses() + new.accesses()) as f64 / samples.max(1) as f64;
    let value = |counts: &Counts, part: u64| {
        let of_part = u128::from(counts.samples) * u128::from(part) / u128::from(counts.accesses().max(1));
        match (samples, of_part) {
            // No sample is an estimate too.
            (1.., 0) => Value::Estimate(part, (0.0, NONE_SEEN * weight)),
            _ => estimate(part, of_part as u64),
        }
    };
    let all = (value(old, old.accesses()), value(new, new.accesses()));
    let change = figures::change(&all.0, &all.1).unwrap_or_default();
    let remote = figures::change(&value(old, old.remote()), &value(new, new.remote())).unwrap_or_default();
    let least = totals.before.max(totals.after) as f64 * PERCENT / 100.0;
    // Beside exact counts few samples stand behind small objects, and say too little by their interval alone.
    let enough = |change: f64| sampled || change.abs() >= least;
    let significant = [change, remote].into_iter().any(|one| figures::significant(one, least) && enough(one.0));
    let part = |counts: &Counts, total: u64| counts.accesses() as f64 * 100.0 >= total as f64 * PERCENT;
    let large = part(old, totals.before) || part(new, totals.after);
    vec![
        all.0,
        all.1,
        Value::Number(change.0, change.1),
        Value::Flag(significant),
        old.percent(old.remote()),
        new.percent(new.remote()),
        Value::Number(remote.0, remote.1),
        Value::Flag(significant && large),
    ]
}

fn line_of(key: &Option<Key>) -> Option<u32> {
    key.as_ref()?.place.as_ref()?.line
}

fn state(row: &Row) -> Value {
    let state = match (&row.keys.before, &row.keys.after) {
        (Some(_), None) => "gone",
        (None, Some(_)) => "new",
        _ if line_of(&row.keys.before) != line_of(&row.keys.after) => "moved",
        _ => return Value::Absent,
    };
    Value::Text(state.to_string())
}

fn line(row: &Row) -> Vec<Value> {
    let moved = row.keys.after.is_some() && line_of(&row.keys.before) != line_of(&row.keys.after);
    let before = line_of(&row.keys.before).filter(|_| moved);
    vec![
        Value::maybe(row.key().place.clone(), Value::Location),
        Value::maybe(before, |line| Value::Id(u64::from(line))),
    ]
}

fn object(row: &Row) -> Vec<Value> {
    let key = row.key();
    let place: Option<&Location> = key.place.as_ref();
    let kind = key.kind.map(|kind| kind.word().to_string());
    let mut words: Vec<String> = kind.clone().into_iter().collect();
    words.extend(Some(key.name.clone()).filter(|name| !name.is_empty() && Some(name) != kind.as_ref()));
    words.extend(place.map(Location::to_string));
    vec![
        Value::Text(words.join(" ")),
        Value::maybe(kind, Value::Text),
        Value::Text(key.name.clone()),
        Value::maybe(place.cloned(), Value::Location),
    ]
}
