//! Section `call-tree`: accesses, first touches and allocations by who called whom.
//!
//! A node is a function called from the functions above it; its figures include everything below. Samples of accesses
//! carry call stacks. Exact counts do not: their accesses stand under the function that made them, inlined functions
//! below it, while first touches and allocations have their callers with every engine.

use crate::dataset::Dataset;
use crate::dataset::caveats::name_doubts;
use crate::facts::code::Called;
use crate::facts::placed;
use crate::model::counts::{self, Counts};
use crate::model::report::{Column, Report, Shape, Shown, Table, Value};
use numalens_profile::ids::{SiteId, StackId};
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Rows of the tree; a program with more has most of them in corners that nobody looks at.
const MOST: usize = 20_000;

#[derive(Default)]
struct Node {
    function: u32,
    parent: Option<u32>,
    depth: u32,
    counts: Counts,
    own: u64,
    placed: u64,
    allocated: u64,
    children: Vec<u32>,
}

#[derive(Default)]
struct Tree {
    functions: Vec<Called>,
    numbers: FxHashMap<Called, u32>,
    nodes: Vec<Node>,
    roots: Vec<u32>,
    edges: FxHashMap<(Option<u32>, u32), u32>,
}

impl Tree {
    /// The nodes of a chain of calls, outermost first, made where there are none.
    fn path(&mut self, chain: Vec<Called>) -> Vec<u32> {
        let mut path: Vec<u32> = Vec::with_capacity(chain.len());
        for called in chain {
            let function = match self.numbers.get(&called) {
                Some(number) => *number,
                None => {
                    let number = self.functions.len() as u32;
                    self.functions.push(called.clone());
                    self.numbers.insert(called, number);
                    number
                }
            };
            let parent = path.last().copied();
            let node = match self.edges.get(&(parent, function)) {
                Some(node) => *node,
                None => {
                    let node = self.nodes.len() as u32;
                    self.nodes.push(Node { function, parent, depth: path.len() as u32, ..Node::default() });
                    self.edges.insert((parent, function), node);
                    match parent {
                        Some(parent) => self.nodes[parent as usize].children.push(node),
                        None => self.roots.push(node),
                    }
                    node
                }
            };
            path.push(node);
        }
        path
    }

    fn add(&mut self, path: &[u32], change: impl Fn(&mut Node)) {
        path.iter().for_each(|node| change(&mut self.nodes[*node as usize]));
    }

    /// Every node under its parent, the largest first.
    fn order(&mut self) -> Vec<u32> {
        let key = |nodes: &[Node], node: u32| {
            let node = &nodes[node as usize];
            Reverse((node.counts.accesses(), node.placed, node.allocated))
        };
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut roots = std::mem::take(&mut self.roots);
        roots.sort_by_key(|node| (key(&self.nodes, *node), *node));
        let mut waiting: Vec<u32> = roots.into_iter().rev().collect();
        while let Some(node) = waiting.pop() {
            order.push(node);
            let mut children = std::mem::take(&mut self.nodes[node as usize].children);
            children.sort_by_key(|child| (key(&self.nodes, *child), *child));
            waiting.extend(children.into_iter().rev());
        }
        order
    }
}

/// Whether it is known who called the instructions that access memory. Exact recordings have samples of a part of their
/// accesses only.
pub fn has_callers(dataset: &Dataset) -> bool {
    dataset.about.sampled() && !dataset.facts.stacks.0.is_empty()
}

/// Accesses by call stack, where that is known, and by site; in the order of ids, so that equal profiles give equal
/// trees.
pub fn accesses(dataset: &Dataset) -> Vec<((Option<StackId>, SiteId), Counts)> {
    let mut accesses: FxHashMap<(Option<StackId>, SiteId), Counts> = FxHashMap::default();
    if has_callers(dataset) {
        for ((stack, site, class), tally) in &dataset.facts.stacks.0 {
            accesses.entry((*stack, *site)).or_default().add(*class, *tally);
        }
    } else {
        for ((site, class), tally) in dataset.facts.sites.by_site() {
            accesses.entry((None, site)).or_default().add(class, tally);
        }
    }
    let mut accesses: Vec<_> = accesses.into_iter().collect();
    accesses.sort_by_key(|(key, _)| *key);
    accesses
}

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let mut tree = Tree::default();
    let mut doubts = name_doubts(dataset);
    let mut total = Counts::default();
    let accesses = accesses(dataset);
    if !has_callers(dataset) && !accesses.is_empty() {
        doubts.push(
            "accesses were recorded without their callers: they stand under the function that made them".to_string(),
        );
    }
    for ((stack, site), counts) in accesses {
        total += counts;
        let path = tree.path(dataset.code.chain(stack, Some(site)));
        tree.add(&path, |node| node.counts += counts);
        if let Some(leaf) = path.last() {
            tree.nodes[*leaf as usize].own += counts.accesses();
        }
    }
    for row in dataset.memory.placed.iter().filter(|row| row.stack.is_some() || row.site.is_some()) {
        let path = tree.path(dataset.code.chain(row.stack, row.site));
        tree.add(&path, |node| node.placed += placed::bytes(row));
    }
    let mut objects: Vec<_> =
        dataset.memory.objects.values().filter(|object| object.kind == ObjectKind::Heap).collect();
    objects.sort_by_key(|object| object.object);
    for object in objects.into_iter().filter(|object| object.stack.is_some() || object.site.is_some()) {
        let path = tree.path(dataset.code.chain(object.stack, object.site));
        tree.add(&path, |node| node.allocated += object.size);
    }
    let table = table(dataset, &mut tree, &total);
    vec![Report::new("call-tree", "call_tree", "call tree", Shape::Table(table)).doubting(doubts)]
}

fn table(dataset: &Dataset, tree: &mut Tree, total: &Counts) -> Table {
    let order = tree.order();
    // Whoever stays has a parent that stays, as figures include everything below.
    let weight = |node: &Node| (node.counts.accesses(), node.placed.max(node.allocated));
    let mut weights: Vec<_> = tree.nodes.iter().map(weight).collect();
    weights.sort_by_key(|weight| Reverse(*weight));
    let least = weights.get(MOST).copied();
    let mut numbers: FxHashMap<u32, u64> = FxHashMap::default();
    let mut rows = Vec::new();
    for index in order {
        let node = &tree.nodes[index as usize];
        let parent = node.parent.map(|parent| numbers.get(&parent).copied());
        if least.is_some_and(|least| weight(node) <= least) || parent == Some(None) {
            continue;
        }
        let number = rows.len() as u64;
        numbers.insert(index, number);
        let called = &tree.functions[node.function as usize];
        let mut row = counts::values(&node.counts, total);
        row.extend([
            Value::Count(node.own),
            Value::Bytes(node.placed),
            Value::Bytes(node.allocated),
            Value::Text(format!("{:width$}{}", "", called.function, width = 2 * node.depth as usize)),
            Value::Text(called.function.clone()),
            Value::maybe(called.module.clone(), Value::Text),
            Value::maybe(called.file.clone(), Value::Text),
            Value::Count(number),
            Value::maybe(parent.flatten(), Value::Count),
            Value::Count(u64::from(node.depth)),
        ]);
        rows.push(row);
    }
    let mut columns = counts::columns(dataset.about.count_noun());
    columns.extend([
        Column::new("own", "of itself"),
        Column::new("placed", "placed"),
        Column::new("allocated", "allocated"),
        Column::new("tree", "function").only(Shown::Screen),
        Column::new("function", "function").only(Shown::Data),
        Column::new("module", "module").only(Shown::Data),
        Column::new("file", "file").only(Shown::Data),
        Column::new("node", "node").only(Shown::Data),
        Column::new("parent", "parent").only(Shown::Data),
        Column::new("depth", "depth").only(Shown::Data),
    ]);
    let omitted = tree.nodes.len() - rows.len();
    Table { columns, rows, omitted }
}
