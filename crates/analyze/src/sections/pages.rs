//! Section `pages`: the pages with most accesses from other nodes, and who uses them.

use crate::dataset::Dataset;
use crate::facts::ancestry::Ancestry;
use crate::facts::page_sums::OfPage;
use crate::facts::page_use::PageKey;
use crate::model::counts::{self, percent};
use crate::model::metrics;
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use crate::model::tally::Tally;
use crate::sections::exclusivity;
use numalens_profile::ids::{Page, ProcessId};
use numalens_profile::tables::PlacedPages;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

type UsersOfPages = FxHashMap<(ProcessId, Page), Vec<(PageKey, Tally)>>;

/// More rows than anyone reads; the facts have them all.
const MOST: usize = 1000;

/// The last known period of every page. Pages that a process has not placed itself are those of the process that forked
/// it.
pub struct Homes<'a> {
    processes: FxHashMap<ProcessId, Vec<Placed<'a>>>,
    ancestry: Ancestry,
}

/// A row, and the first page behind all rows of the process up to it.
struct Placed<'a> {
    row: &'a PlacedPages,
    reach: u64,
}

impl<'a> Homes<'a> {
    /// Sorts the rows of a dataset.
    pub fn new(dataset: &'a Dataset) -> Self {
        let mut processes: FxHashMap<ProcessId, Vec<Placed>> = FxHashMap::default();
        for row in &dataset.memory.pages {
            processes.entry(row.process).or_default().push(Placed { row, reach: row.page.0.saturating_add(row.count) });
        }
        for rows in processes.values_mut() {
            rows.sort_by_key(|placed| (placed.row.page, placed.row.bin_from));
            let mut reach = 0;
            for placed in rows {
                reach = placed.reach.max(reach);
                placed.reach = reach;
            }
        }
        Homes { processes, ancestry: Ancestry::new(&dataset.program.processes) }
    }

    /// The newest run that covers a page.
    pub fn of(&self, process: ProcessId, page: Page) -> Option<&'a PlacedPages> {
        let own = |process| self.own(process, page);
        own(process).or_else(|| self.ancestry.above(process).find_map(own))
    }

    /// Whether a process has a parent in the recording.
    pub fn has_parent(&self, process: ProcessId) -> bool {
        self.ancestry.has_parent(process)
    }

    fn own(&self, process: ProcessId, page: Page) -> Option<&'a PlacedPages> {
        let rows = self.processes.get(&process)?;
        let end = rows.partition_point(|placed| placed.row.page <= page);
        // Runs may nest when a part of one was placed anew: the newest that covers the page is wanted.
        rows[..end]
            .iter()
            .rev()
            .take(LOOK_BACK)
            .take_while(|placed| page.0 < placed.reach)
            .map(|placed| placed.row)
            .filter(|row| page.0 - row.page.0 < row.count)
            .max_by_key(|row| row.bin_from)
    }
}

/// Runs that begin between a page and the beginning of its own run are few.
const LOOK_BACK: usize = 64;

/// A page, its accesses from other nodes, all of them and the samples behind those.
struct Used {
    page: (ProcessId, Page),
    away: u64,
    all: u64,
    samples: u64,
}

impl Used {
    fn new(homes: &Homes<'_>, users: &[(PageKey, Tally)]) -> Used {
        let (page, process) = users[0].0.page();
        let home = homes.of(process, page).and_then(|row| row.home);
        let away = |key: &PageKey| {
            let home = key.home.or(home);
            key.node.is_some() && home.is_some() && key.node != home
        };
        let mut used = Used { page: (process, page), away: 0, all: 0, samples: 0 };
        for (key, tally) in users {
            used.away += if away(key) { tally.accesses() } else { 0 };
            used.all += tally.accesses();
            used.samples += tally.samples;
        }
        used
    }

    fn order(&self) -> (Reverse<u64>, Reverse<u64>, (ProcessId, Page)) {
        (Reverse(self.away), Reverse(self.all), self.page)
    }
}

/// The pages with most accesses from other nodes, and sums of all.
#[derive(Default)]
struct Most {
    pages: Vec<Used>,
    number: usize,
    all: u64,
    samples: u64,
}

impl Most {
    fn add(&mut self, used: Used) {
        self.number += 1;
        (self.all, self.samples) = (self.all + used.all, self.samples + used.samples);
        self.pages.push(used);
        if self.pages.len() >= 2 * MOST {
            self.shorten();
        }
    }

    /// Leaves out those that nobody will see.
    fn shorten(&mut self) {
        if self.pages.len() > MOST {
            self.pages.select_nth_unstable_by_key(MOST, Used::order);
            self.pages.truncate(MOST);
        }
    }

    fn merge(mut self, other: Most) -> Most {
        self.pages.extend(other.pages);
        self.shorten();
        let (all, samples) = (self.all + other.all, self.samples + other.samples);
        Most { pages: self.pages, number: self.number + other.number, all, samples }
    }
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let homes = Homes::new(dataset);
    let sums = &dataset.facts.by_page.sums;
    let most = sums.fold_pages(Most::default, |most, users| most.add(Used::new(&homes, users)), Most::merge);
    let Most { mut pages, number, all, samples } = most;
    let total = (all, samples);
    pages.sort_unstable_by_key(Used::order);
    pages.truncate(MOST);
    let omitted = number - pages.len();
    // Of those that are shown all is looked at.
    let shown: FxHashSet<(ProcessId, Page)> = pages.iter().map(|used| used.page).collect();
    let add = |all: &mut UsersOfPages, users: &[(PageKey, Tally)]| {
        let (page, process) = users[0].0.page();
        if shown.contains(&(process, page)) {
            all.insert((process, page), users.to_vec());
        }
    };
    let users = sums.fold_pages(UsersOfPages::default, add, |mut all, more| {
        all.extend(more);
        all
    });
    let users_of = |used: &Used| users.get(&used.page).map_or(&[][..], Vec::as_slice);
    let rows = pages
        .iter()
        .map(|used| row(dataset, used, users_of(used), homes.of(used.page.0, used.page.1), total))
        .collect();
    let table = Table { columns: columns(dataset), rows, omitted };
    let doubts = match dataset.facts.sums_only() {
        Some(missing) => vec![missing],
        None if dataset.facts.by_page.sums.is_empty() => vec![dataset.about.none("accesses to pages")],
        None => Vec::new(),
    };
    vec![Report::new("pages", "pages", "pages", Shape::Table(table)).doubting(doubts)]
}

fn columns(dataset: &Dataset) -> Vec<Column> {
    vec![
        Column::new("pid", "pid").only(if dataset.program.processes.len() > 1 {
            Shown::Everywhere
        } else {
            Shown::Data
        }),
        Column::new("address", "page"),
        Column { title: dataset.about.count_noun(), ..Column::metric(&metrics::ACCESSES) },
        Column::metric(&metrics::SHARE),
        Column::at("away", &metrics::REMOTE),
        Column::metric(&metrics::READS).only(Shown::Data),
        Column::metric(&metrics::WRITES).only(Shown::Data),
        Column::new("home", "home"),
        Column::new("users", "used by"),
        Column::metric(&metrics::EXCLUSIVITY),
        Column::new("page_size", "size"),
        Column::new("placed", "placed").only(Shown::Data),
        Column::new("object", "object"),
        Column::new("first_touch", "first touched at"),
        Column::new("thread", "thread").only(Shown::Data),
    ]
}

/// `total`: accesses of all pages, and samples.
fn row(
    dataset: &Dataset,
    used: &Used,
    users: &[(PageKey, Tally)],
    placed: Option<&PlacedPages>,
    total: (u64, u64),
) -> Vec<Value> {
    let Used { page: (process, page), away, .. } = *used;
    let mut all = Tally::default();
    users.iter().for_each(|(_, tally)| all += *tally);
    let by_node = exclusivity::by_node(users).map(|(node, tally)| (node, tally.accesses()));
    let (max, sum) = exclusivity::of_page(dataset, users);
    let object = placed.and_then(|row| dataset.memory.objects.get(&row.object?));
    let place = placed.and_then(|row| dataset.code.own_on_stack(row.stack, row.site));
    vec![
        Value::maybe(dataset.program.pid(process), |pid| Value::Id(u64::from(pid))),
        Value::Address(page.address()),
        counts::estimate(all.accesses(), all.samples),
        percent(all.accesses(), total.0, total.1),
        Value::Count(away),
        Value::Count(all.reads),
        Value::Count(all.writes),
        Value::maybe(placed.map_or_else(|| users.iter().find_map(|(key, _)| key.home), |row| row.home), Value::Node),
        Value::users(by_node),
        // Of a few samples the maximum says little: no interval would be honest about its bias.
        if sum > 0 { Value::Percent(max as f64 * 100.0 / sum as f64, None) } else { Value::Absent },
        Value::maybe(placed, |row| Value::Bytes(row.page_size)),
        Value::maybe(placed, |row| Value::Text(row.placed.word().to_string())),
        Value::maybe(object, |o| {
            Value::Text(format!("{} {}", o.kind.word(), dataset.name_of(o)).trim_end().to_string())
        }),
        Value::maybe(place, |place| Value::Location(place.location)),
        Value::maybe(placed.and_then(|row| row.thread), |thread| Value::Id(u64::from(thread.0))),
    ]
}
