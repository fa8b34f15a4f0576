//! What an analysis returns: a closed set of shapes, so that every view can show every analysis.
//!
//! Keys are the names of the JSON output. A dotted key nests (`classes.local`); a [`Value::Location`] under an empty
//! key puts its fields beside the others. Views decide how a value looks, never what it is.

use crate::model::intervals::Interval;
use crate::model::metrics::{ACCESSES, Metric};
use crate::model::patterns::{Pattern, Remedy};
use numalens_topology::NodeId;
use std::borrow::Cow;

/// The answer of one analysis.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The name after `--section`.
    pub section: &'static str,
    /// Where its shape stands in the JSON document: `matrix.access`.
    pub key: &'static str,
    /// Heading.
    pub title: String,
    /// What a reader must know before believing the figures.
    pub doubts: Vec<String>,
    /// The figures.
    pub shape: Shape,
    /// What people read below them.
    pub notes: Vec<String>,
    pub shown: Shown,
}

/// The shapes of answers.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    Record(Vec<Field>),
    Table(Table),
    Matrix(Matrix),
    Series(Series),
    Findings(Vec<Finding>),
}

/// A named value of a record.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    pub key: Cow<'static, str>,
    /// What people read.
    pub title: Cow<'static, str>,
    pub value: Value,
    pub shown: Shown,
}

/// Who sees a field or a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    Everywhere,
    /// On the terminal only: what the data has in another form.
    Screen,
    /// In machine-readable outputs only: there would be no room.
    Data,
}

/// A column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub key: &'static str,
    pub title: &'static str,
    /// The metric that it shows, when it shows one; makes it a `--sort` key.
    pub metric: Option<&'static Metric>,
    pub shown: Shown,
}

/// Rows of values, as many in each as there are columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    /// Rows left out by [`Report::limit`].
    pub omitted: usize,
}

/// Counts between nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix {
    /// The nodes of the machine: rows are the threads', columns the pages'.
    pub nodes: Vec<NodeId>,
    pub rows: Vec<Vec<u64>>,
    /// By unpinned threads, to each node.
    pub unpinned: Vec<u64>,
    /// Beside the columns: what had no home. By threads of each node, and by unpinned ones.
    pub homeless: Vec<u64>,
    pub homeless_unpinned: u64,
    /// What homeless is called here: `unplaced`, `untouched`.
    pub homeless_name: &'static str,
    /// What a cell counts.
    pub metric: &'static Metric,
}

impl Matrix {
    /// All that is counted, cell by cell.
    pub fn cells(&self) -> impl Iterator<Item = u64> {
        let rows = self.rows.iter().flatten();
        rows.chain(&self.unpinned).chain(&self.homeless).chain([&self.homeless_unpinned]).copied()
    }

    /// The sum of all cells. Forged ones may have none that fits: then the largest there is.
    pub fn total(&self) -> u64 {
        self.cells().fold(0, u64::saturating_add)
    }

    /// Whether anything had no home.
    pub fn has_homeless(&self) -> bool {
        self.homeless.iter().any(|n| *n > 0) || self.homeless_unpinned > 0
    }

    /// Whether any threads were unpinned.
    pub fn has_unpinned(&self) -> bool {
        self.unpinned.iter().any(|n| *n > 0) || self.homeless_unpinned > 0
    }
}

/// Something to change: advice, the most gainful first.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    pub pattern: Pattern,
    pub remedy: Remedy,
    /// Where to change it.
    pub place: Option<Location>,
    /// Whose memory it is about; empty where it is about no one object.
    pub object: Vec<Field>,
    /// What was seen.
    pub evidence: Vec<Field>,
    /// Where several targets have one cause: all of them, the one with the most accesses first. `place` and `object`
    /// are its.
    pub members: Vec<Member>,
    /// Predicted, in percent of the memory time: the estimate and the ends of its interval.
    pub gain: (f64, Interval),
    /// Lines of source in the program's language.
    pub in_code: String,
    /// Commands and settings.
    pub without_code: String,
}

/// One of the targets of a finding.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    pub place: Option<Location>,
    pub object: Vec<Field>,
    /// Its part of all accesses, and how much of that is remote.
    pub evidence: Vec<Field>,
}

/// Values over time, one per bin.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Width of a bin.
    pub bin_ns: u64,
    /// Each as long as the others.
    pub lines: Vec<(&'static Metric, Vec<u64>)>,
}

/// One figure or word.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Nothing known, or nothing to say.
    Absent,
    Flag(bool),
    Count(u64),
    /// A count that comes from samples.
    Estimate(u64, Interval),
    /// A count of which only a part is known: that part, and the least and the most that it may be.
    Within(u64, Interval),
    /// A real number, and its interval when it is an estimate.
    Number(f64, Option<Interval>),
    /// In percent, and its interval when it comes from samples.
    Percent(f64, Option<Interval>),
    Bytes(u64),
    /// Nanoseconds; JSON has seconds.
    Time(u64),
    Address(u64),
    /// A number that names (a pid, a thread): whole, however large.
    Id(u64),
    Node(NodeId),
    Text(String),
    Location(Location),
    List(Vec<Value>),
    Record(Vec<Field>),
    /// Parts of a whole, in percent: a record that is shown as a bar.
    Parts(Vec<Field>),
    /// A count for each node that has one.
    PerNode(PerNode),
}

/// Counts by node.
#[derive(Clone, PartialEq, Debug)]
pub struct PerNode {
    /// What is counted.
    pub metric: &'static Metric,
    /// What no node means here: `unpinned`, `unplaced`.
    pub none: &'static str,
    pub counts: Vec<(Option<NodeId>, u64)>,
}

/// A place in a program, as well as it is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Location {
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The function; where it has no name, `module+0x12ab`.
    pub function: String,
    /// File name of the program or library.
    pub module: Option<String>,
}

impl Field {
    /// A field that everyone sees.
    pub fn new(key: &'static str, title: &'static str, value: Value) -> Self {
        Field { key: key.into(), title: title.into(), value, shown: Shown::Everywhere }
    }

    /// A field whose name comes from the profile.
    pub fn named(name: String, value: Value) -> Self {
        Field { key: name.clone().into(), title: name.into(), value, shown: Shown::Everywhere }
    }

    /// A field named after its metric.
    pub fn metric(metric: &'static Metric, value: Value) -> Self {
        Field::new(metric.name, metric.title, value)
    }

    /// The same, for `shown` only.
    pub fn only(self, shown: Shown) -> Self {
        Field { shown, ..self }
    }
}

impl Column {
    /// A column without a metric.
    pub fn new(key: &'static str, title: &'static str) -> Self {
        Column { key, title, metric: None, shown: Shown::Everywhere }
    }

    /// A column that shows a metric under the metric's own name.
    pub fn metric(metric: &'static Metric) -> Self {
        Column { key: metric.name, title: metric.title, metric: Some(metric), shown: Shown::Everywhere }
    }

    /// A column that shows a metric under another key: `classes.local`.
    pub fn at(key: &'static str, metric: &'static Metric) -> Self {
        Column { key, ..Column::metric(metric) }
    }

    /// The same, for `shown` only.
    pub fn only(self, shown: Shown) -> Self {
        Column { shown, ..self }
    }
}

impl Value {
    /// Bytes or pages by home.
    pub fn homes(metric: &'static Metric, counts: impl IntoIterator<Item = (Option<NodeId>, u64)>) -> Value {
        Value::PerNode(PerNode { metric, none: "unplaced", counts: counts.into_iter().collect() })
    }

    /// Accesses by the threads' nodes.
    pub fn users(counts: impl IntoIterator<Item = (Option<NodeId>, u64)>) -> Value {
        Value::PerNode(PerNode { metric: &ACCESSES, none: "unpinned", counts: counts.into_iter().collect() })
    }

    /// An optional value.
    pub fn maybe<T>(value: Option<T>, make: impl FnOnce(T) -> Value) -> Value {
        value.map_or(Value::Absent, make)
    }

    /// The 95 % confidence interval of an estimate.
    pub fn interval(&self) -> Option<Interval> {
        match self {
            Value::Estimate(_, interval) | Value::Within(_, interval) => Some(*interval),
            Value::Number(_, interval) | Value::Percent(_, interval) => *interval,
            _ => None,
        }
    }

    /// For sorting: larger is more.
    fn magnitude(&self) -> f64 {
        match self {
            Value::Count(n) | Value::Estimate(n, _) | Value::Within(n, _) => *n as f64,
            Value::Bytes(n) | Value::Time(n) | Value::Address(n) | Value::Id(n) => *n as f64,
            Value::Number(x, _) | Value::Percent(x, _) => *x,
            Value::PerNode(PerNode { counts, .. }) => counts.iter().map(|(_, n)| *n as f64).sum(),
            Value::Flag(flag) => f64::from(u8::from(*flag)),
            _ => f64::NEG_INFINITY,
        }
    }
}

impl Report {
    /// A report that everyone sees and that has nothing to doubt.
    pub fn new(section: &'static str, key: &'static str, title: impl Into<String>, shape: Shape) -> Self {
        Report {
            section,
            key,
            title: title.into(),
            doubts: Vec::new(),
            shape,
            notes: Vec::new(),
            shown: Shown::Everywhere,
        }
    }

    /// The same with doubts.
    pub fn doubting(self, doubts: Vec<String>) -> Self {
        Report { doubts, ..self }
    }

    /// The same, for `shown` only.
    pub fn only(self, shown: Shown) -> Self {
        Report { shown, ..self }
    }

    /// The value of a record's field.
    pub fn field(&self, key: &str) -> Option<&Value> {
        match &self.shape {
            Shape::Record(fields) => fields.iter().find(|field| field.key == key).map(|field| &field.value),
            _ => None,
        }
    }

    /// The value in a row and column of a table.
    pub fn cell(&self, row: usize, key: &str) -> Option<&Value> {
        let Shape::Table(table) = &self.shape else { return None };
        let column = table.columns.iter().position(|column| column.key == key)?;
        table.rows.get(row)?.get(column)
    }

    /// Sorts a table by a metric, largest first; equals keep their order. False when it has no such column.
    pub fn sort(&mut self, metric: &str) -> bool {
        let Shape::Table(table) = &mut self.shape else { return false };
        let Some(column) = table.columns.iter().position(|c| c.metric.is_some_and(|m| m.name == metric)) else {
            return false;
        };
        table.rows.sort_by(|a, b| b[column].magnitude().total_cmp(&a[column].magnitude()));
        true
    }

    /// Makes the values of some metrics unknown: those that the recording does not have.
    pub fn blank(&mut self, metrics: &[&'static Metric]) {
        let meant = |name: &str| metrics.iter().any(|metric| metric.name == name);
        match &mut self.shape {
            Shape::Record(fields) => {
                fields.iter_mut().filter(|field| meant(&field.key)).for_each(|field| field.value = Value::Absent);
            }
            Shape::Table(Table { columns, rows, .. }) => {
                for (index, _) in columns.iter().enumerate().filter(|(_, column)| meant(column.key)) {
                    rows.iter_mut().for_each(|row| row[index] = Value::Absent);
                }
            }
            Shape::Matrix(_) | Shape::Series(_) | Shape::Findings(_) => {}
        }
    }

    /// Keeps the first `rows` rows of a table, and remembers how many it left out.
    pub fn limit(&mut self, rows: usize) {
        if let Shape::Table(table) = &mut self.shape {
            table.omitted += table.rows.len().saturating_sub(rows);
            table.rows.truncate(rows);
        }
    }

    /// Leaves out the rows of a table that have less than `least` percent of the whole, and remembers how many.
    pub fn worth(&mut self, least: f64) {
        let Shape::Table(table) = &mut self.shape else { return };
        let Some(share) = table.columns.iter().position(|column| ["share", "page_share"].contains(&column.key)) else {
            return;
        };
        let before = table.rows.len();
        table.rows.retain(|row| !matches!(row[share], Value::Percent(percent, _) if percent < least));
        table.omitted += before - table.rows.len();
    }

    /// The same with the first `rows` rows of a table; those that it leaves out are not copied.
    pub fn first(&self, rows: usize) -> Report {
        let shape = match &self.shape {
            Shape::Table(Table { columns, rows: all, omitted }) => Shape::Table(Table {
                columns: columns.clone(),
                rows: all.iter().take(rows).cloned().collect(),
                omitted: omitted + all.len().saturating_sub(rows),
            }),
            shape => shape.clone(),
        };
        let (doubts, notes) = (self.doubts.clone(), self.notes.clone());
        Report { shape, doubts, notes, title: self.title.clone(), ..*self }
    }

    /// Changes every text that may come from the profile; `true`: one that has no lines, as all but proposed source and
    /// commands.
    pub fn map_texts(&mut self, change: &mut dyn FnMut(&mut String, bool)) {
        change(&mut self.title, true);
        self.doubts.iter_mut().chain(&mut self.notes).for_each(|sentence| change(sentence, true));
        match &mut self.shape {
            Shape::Record(fields) => map_fields(fields, change),
            Shape::Table(table) => table.rows.iter_mut().flatten().for_each(|value| map_value(value, change)),
            Shape::Findings(found) => {
                for finding in found {
                    finding.place.iter_mut().for_each(|place| map_place(place, change));
                    map_fields(&mut finding.object, change);
                    map_fields(&mut finding.evidence, change);
                    for member in &mut finding.members {
                        member.place.iter_mut().for_each(|place| map_place(place, change));
                        map_fields(&mut member.object, change);
                        map_fields(&mut member.evidence, change);
                    }
                    change(&mut finding.in_code, false);
                    change(&mut finding.without_code, false);
                }
            }
            Shape::Matrix(_) | Shape::Series(_) => {}
        }
    }

    /// The metrics that [`Report::sort`] takes here.
    pub fn sort_keys(&self) -> Vec<&'static str> {
        match &self.shape {
            Shape::Table(table) => table.columns.iter().filter_map(|c| c.metric).map(|m| m.name).collect(),
            _ => Vec::new(),
        }
    }
}

fn map_fields(fields: &mut [Field], change: &mut dyn FnMut(&mut String, bool)) {
    for field in fields {
        for name in [&mut field.key, &mut field.title] {
            // A constant is ours.
            if let Cow::Owned(name) = name {
                change(name, true);
            }
        }
        map_value(&mut field.value, change);
    }
}

fn map_value(value: &mut Value, change: &mut dyn FnMut(&mut String, bool)) {
    match value {
        Value::Text(text) => change(text, true),
        Value::Location(place) => map_place(place, change),
        Value::List(list) => list.iter_mut().for_each(|value| map_value(value, change)),
        Value::Record(fields) | Value::Parts(fields) => map_fields(fields, change),
        Value::Absent
        | Value::Flag(_)
        | Value::Count(_)
        | Value::Estimate(..)
        | Value::Within(..)
        | Value::Number(..)
        | Value::Percent(..)
        | Value::Bytes(_)
        | Value::Time(_)
        | Value::Address(_)
        | Value::Id(_)
        | Value::Node(_)
        | Value::PerNode(_) => {}
    }
}

fn map_place(place: &mut Location, change: &mut dyn FnMut(&mut String, bool)) {
    change(&mut place.function, true);
    [&mut place.file, &mut place.module].into_iter().flatten().for_each(|text| change(text, true));
}
