//! Section `communication`: which threads use the same memory, and how structured that is.
//!
//! Of recordings that counted by cache line, two threads communicate whenever one of them accesses a line that the
//! other had accessed last. Else who accessed a page last is not recorded, so a pair of threads communicates through a
//! page as much as the one that uses it less. Unlike a count of transitions this cannot tell memory that goes to and
//! fro from memory handed over once.

use crate::dataset::Dataset;
use crate::dataset::clusters::{self, Communication};
use crate::facts::node_occupancy::NodeOccupancy;
use crate::model::counts::percent;
use crate::model::metrics::{self, Metric};
use crate::model::node::node;
use crate::model::report::{Column, Field, Report, Shape, Shown, Table, Value};
use crate::model::tally;
use crate::sections::access_matrix::fill;
use numalens_profile::ids::ThreadId;
use numalens_topology::NodeId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let occupancy = NodeOccupancy::of(&dataset.facts.sites, &dataset.program.pinning);
    let (rule, found) = match dataset.facts.lines.pairs.is_empty() {
        true => (&PAGES, clusters::communication(dataset)),
        false => (&LINES, by_lines(dataset, &occupancy)),
    };
    let pairs: Vec<((ThreadId, ThreadId), u64)> =
        found.pairs.iter().map(|(pair, n)| (*pair, n.round() as u64)).filter(|(_, n)| *n > 0).collect();
    let all = tally::total(pairs.iter().map(|(_, n)| *n));
    let mut doubts: Vec<String> = dataset.facts.sums_only().into_iter().collect();
    if doubts.is_empty() && all == 0 {
        doubts.push(rule.nothing.to_string());
    }
    doubts.extend(occupancy.doubt(pairs.iter().flat_map(|((a, b), _)| [*a, *b])).map(|doubt| rule.of_moved(doubt)));
    let together = found.nodes.iter().filter(|((a, b), _)| a.is_some() && a == b);
    let within = together.map(|(_, n)| n).sum::<f64>().round() as u64;
    let score = structure(&found);
    let record = vec![
        Field::new("shared", rule.metric.title, Value::Count(all)),
        Field::new("threads", "threads", Value::Count(found.threads.len() as u64)),
        Field::metric(&metrics::STRUCTURE, Value::maybe(score, |score| Value::Percent(score, None))),
        Field::new("within_nodes", "within nodes", percent(within, all, 0)),
        Field::new("rule", "rule", Value::Text(rule.says.to_string())),
    ];
    let record = Report::new("communication", "communication", "communication of threads", Shape::Record(record));
    vec![record.doubting(doubts), matrix(dataset, rule, &found), table(dataset, rule, &occupancy, pairs, all)]
}

/// As counted by cache line: on which nodes the two were at each access is not known.
fn by_lines(dataset: &Dataset, occupancy: &NodeOccupancy<'_>) -> Communication {
    let mut found = Communication { threads: clusters::threads(dataset), ..Communication::default() };
    for row in &dataset.facts.lines.pairs {
        let pair = (row.thread.min(row.other), row.thread.max(row.other));
        *found.pairs.entry(pair).or_default() += row.accesses as f64;
        *found.nodes.entry((occupancy.node(pair.0), occupancy.node(pair.1))).or_default() += row.accesses as f64;
    }
    found
}

/// What makes two threads communicate.
struct Rule {
    says: &'static str,
    metric: &'static Metric,
    matrix: &'static str,
    nothing: &'static str,
    /// The matrix knows the node of each access.
    by_access: bool,
}

impl Rule {
    fn of_moved(&self, doubt: String) -> String {
        if self.by_access {
            format!("{doubt} in the table of pairs; the matrix has them where they were")
        } else {
            doubt
        }
    }
}

const PAGES: Rule = Rule {
    says: "pages that both use",
    metric: &metrics::SHARED,
    matrix: "communication matrix: accesses to pages that threads of two nodes share",
    nothing: "no two threads of one process used the same pages",
    by_access: true,
};
const LINES: Rule = Rule {
    says: "last accessor of a cache line",
    metric: &metrics::COMMUNICATION,
    matrix: "communication matrix: accesses to cache lines that a thread of the other node had accessed last",
    nothing: "no two threads of one process accessed the same cache lines",
    by_access: false,
};

/// How far each thread communicates with one other alone (100) rather than with all alike (0), weighted by what it
/// communicates.
fn structure(found: &Communication) -> Option<f64> {
    let threads = found.threads.len();
    if threads < 3 {
        return None;
    }
    let mut partners: BTreeMap<ThreadId, (f64, f64)> = BTreeMap::new();
    for ((a, b), n) in &found.pairs {
        for thread in [a, b] {
            let (most, sum) = partners.entry(*thread).or_default();
            (*most, *sum) = (most.max(*n), *sum + n);
        }
    }
    let alike = 1.0 / (threads - 1) as f64;
    let (weighted, sum) = partners.values().fold((0.0, 0.0), |(weighted, all), (most, sum)| {
        let score = if *sum > 0.0 { (most / sum - alike) / (1.0 - alike) } else { 0.0 };
        (weighted + score.max(0.0) * sum, all + sum)
    });
    (sum > 0.0).then(|| weighted * 100.0 / sum)
}

fn matrix(dataset: &Dataset, rule: &Rule, found: &Communication) -> Report {
    let mut cells: BTreeMap<(Option<NodeId>, Option<NodeId>), f64> = BTreeMap::new();
    for (&(from, to), n) in &found.nodes {
        // Unpinned threads have a row and no column.
        let (from, to) = if from.is_none() { (from, to) } else { (to, from) };
        *cells.entry((from, to)).or_default() += n;
        if from != to && from.is_some() {
            *cells.entry((to, from)).or_default() += n;
        }
    }
    let at = |from, to| cells.get(&(from, to)).map_or(0, |n| n.round() as u64);
    let matrix = fill(dataset.nodes(), rule.metric, "unpinned", at);
    Report::new("communication", "matrix.communication", rule.matrix, Shape::Matrix(matrix))
}

fn table(
    dataset: &Dataset,
    rule: &Rule,
    occupancy: &NodeOccupancy<'_>,
    mut pairs: Vec<((ThreadId, ThreadId), u64)>,
    all: u64,
) -> Report {
    pairs.sort_by_key(|(pair, n)| (Reverse(*n), *pair));
    let name = |id: ThreadId| dataset.program.threads.get(&id).map_or_else(String::new, |thread| thread.name.clone());
    let of_thread = |id: ThreadId| Value::Id(u64::from(id.0));
    let rows = pairs.into_iter().map(|((a, b), n)| {
        vec![
            Value::Count(n),
            percent(n, all, 0),
            of_thread(a),
            Value::Text(name(a)),
            node(occupancy.node(a)),
            of_thread(b),
            Value::Text(name(b)),
            node(occupancy.node(b)),
        ]
    });
    let columns = vec![
        Column::at("shared", rule.metric),
        Column::at("communication_share", &metrics::SHARE),
        Column::new("thread", "thread"),
        Column::new("name", "name"),
        Column::new("node", "on node"),
        Column::new("other_thread", "with thread"),
        Column::new("other_name", "name").only(Shown::Data),
        Column::new("other_node", "on node"),
    ];
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    Report::new("communication", "communication_pairs", "pairs of threads", Shape::Table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(pairs: &[(u32, u32, f64)], threads: u32) -> Option<f64> {
        let found = Communication {
            pairs: pairs.iter().map(|(a, b, n)| ((ThreadId(*a), ThreadId(*b)), *n)).collect(),
            threads: (0..threads).map(|thread| (ThreadId(thread), 1.0)).collect(),
            nodes: BTreeMap::new(),
        };
        structure(&found).map(|score| score.round())
    }

    #[test]
    fn pairs_are_structured_and_crowds_are_not() {
        assert_eq!(score(&[(0, 1, 50.0), (2, 3, 70.0)], 4), Some(100.0));
        assert_eq!(score(&[(0, 1, 5.0), (0, 2, 5.0), (1, 2, 5.0)], 3), Some(0.0));
        assert_eq!(score(&[(0, 1, 9.0)], 2), None);
        assert_eq!(score(&[], 4), None);
    }
}
