//! Where the pages of a recording would lie under a policy.

use crate::policy::Policy;
use crate::recording::{PageUse, Recording, User};
use numalens_topology::{Machine, NodeId, PagePolicy};
use std::collections::BTreeMap;

/// Percent of accesses by one node from which [`Policy::Mixed`] calls a page its own.
const EXCLUSIVE: f64 = 95.0;

/// The homes of a page: none, one, or a copy on several nodes.
pub type Homes = Vec<NodeId>;

/// The homes of every page of a recording. `node_of` is where threads run (none: anywhere).
pub fn homes(
    policy: Policy,
    machine: &Machine,
    recording: &Recording,
    node_of: &dyn Fn(&User) -> Option<NodeId>,
    toucher_of: &dyn Fn(&PageUse) -> Option<NodeId>,
) -> Vec<Homes> {
    let nodes: Vec<NodeId> =
        machine.nodes_with_memory().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect();
    let uses = Uses { machine, nodes: &nodes, node_of, toucher_of };
    let mut turns = (0..).map(|turn: usize| nodes.get(turn % nodes.len().max(1)).copied());
    let mut loads = Loads::new(&nodes, recording);
    let hot = hottest(policy, recording);
    let place = |(at, page): (usize, &PageUse)| -> Homes {
        // What had no home (the zero page) has none elsewhere either.
        if page.home.is_none() {
            return Vec::new();
        }
        let home = match policy {
            Policy::Recorded => uses.as_recorded(page),
            Policy::AtTouch(PagePolicy::FirstTouch) | Policy::Migrate(_) => uses.touched(page),
            Policy::AtTouch(at_touch) => uses.touched(page).map(|node| at_touch.home(machine, page.number, node)),
            Policy::ParallelFirstTouch => uses.near_thread(page).or(uses.touched(page)),
            Policy::Local => uses.near_main(page).or(uses.touched(page)),
            Policy::RoundRobin => turns.next().flatten(),
            Policy::Mixed if uses.is_exclusive(page) => uses.near_main(page),
            Policy::Mixed => nodes.get(page.number as usize % nodes.len().max(1)).copied(),
            Policy::Balance => loads.take(page, uses.near_main(page)),
            Policy::Replicate => match uses.copies(page) {
                Some(copies) => return copies,
                None => uses.touched(page),
            },
            Policy::Tier(_) if hot.get(at) == Some(&true) => uses.near_fast(page).or(uses.touched(page)),
            Policy::Tier(_) => uses.near_slow(page),
        };
        home.into_iter().collect()
    };
    recording.pages.iter().enumerate().map(place).collect()
}

/// Who uses pages from where, and what lies near to them.
struct Uses<'a> {
    machine: &'a Machine,
    /// Those that have both CPUs and memory.
    nodes: &'a [NodeId],
    node_of: &'a dyn Fn(&User) -> Option<NodeId>,
    toucher_of: &'a dyn Fn(&PageUse) -> Option<NodeId>,
}

impl Uses<'_> {
    fn near(&self, node: Option<NodeId>) -> Option<NodeId> {
        node.and_then(|node| self.machine.nearest_with_memory(node))
    }

    /// Accesses of pinned threads by node.
    fn by_node(&self, page: &PageUse) -> BTreeMap<NodeId, f64> {
        let mut nodes = BTreeMap::new();
        for user in page.users.iter() {
            if let Some(node) = (self.node_of)(&user) {
                *nodes.entry(node).or_default() += user.accesses();
            }
        }
        nodes
    }

    /// The node with most accesses; of equals the first.
    fn main(&self, page: &PageUse) -> Option<NodeId> {
        self.by_node(page).into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(node, _)| node)
    }

    fn near_main(&self, page: &PageUse) -> Option<NodeId> {
        self.near(self.main(page))
    }

    /// Near to the thread that uses the page most once it is initialised.
    fn near_thread(&self, page: &PageUse) -> Option<NodeId> {
        let used = |user: &User| user.accesses() - user.initial;
        let thread = page.users.iter().max_by(|a, b| used(a).total_cmp(&used(b)));
        self.near(thread.and_then(|user| (self.node_of)(&user)))
    }

    /// Where a page lay, or, on a machine without that node, any one that stays the same.
    fn as_recorded(&self, page: &PageUse) -> Option<NodeId> {
        let home = page.home?;
        match self.machine.node(home) {
            Some(node) if node.memory_bytes > 0 => Some(home),
            _ => self.nodes.get(usize::from(home.0) % self.nodes.len().max(1)).copied(),
        }
    }

    /// Near to who touched the page first, if that is known.
    fn touched(&self, page: &PageUse) -> Option<NodeId> {
        self.near((self.toucher_of)(page)).or(self.as_recorded(page))
    }

    /// Whether one node has the page nearly to itself.
    fn is_exclusive(&self, page: &PageUse) -> bool {
        let users = self.by_node(page);
        let (most, sum) = users.values().fold((0.0f64, 0.0), |(most, sum), n| (most.max(*n), sum + n));
        sum > 0.0 && most * 100.0 > sum * EXCLUSIVE
    }

    /// The nodes that read a page which nobody writes after its initialisation, when they are several.
    fn copies(&self, page: &PageUse) -> Option<Homes> {
        let written = page.users.iter().any(|user| user.writes > user.initial);
        let readers: Homes = self.by_node(page).into_keys().filter_map(|node| self.near(Some(node))).collect();
        (!written && readers.len() > 1).then_some(readers)
    }

    /// The main user's node; where none is pinned, that of the first touch.
    fn main_or_toucher(&self, page: &PageUse) -> Option<NodeId> {
        self.main(page).or((self.toucher_of)(page))
    }

    /// The nearest node whose memory is not the slower.
    fn near_fast(&self, page: &PageUse) -> Option<NodeId> {
        let from = self.main_or_toucher(page)?;
        self.nodes.iter().copied().min_by_key(|node| self.machine.distance(from, *node))
    }

    /// The nearest node whose memory is the slower.
    fn near_slow(&self, page: &PageUse) -> Option<NodeId> {
        let from = self.main_or_toucher(page);
        let slow = self.machine.nodes.iter().filter(|node| self.machine.is_slower_memory(node.id));
        slow.min_by_key(|node| from.map_or(0, |from| self.machine.distance(from, node.id))).map(|node| node.id)
    }
}

/// How many accesses each node serves already, and how many are its share.
struct Loads {
    by_node: BTreeMap<NodeId, f64>,
    fair: f64,
}

impl Loads {
    fn new(nodes: &[NodeId], recording: &Recording) -> Self {
        let all: f64 = recording.pages.iter().filter(|page| page.home.is_some()).map(accesses).sum();
        Loads { by_node: nodes.iter().map(|node| (*node, 0.0)).collect(), fair: all / nodes.len().max(1) as f64 }
    }

    /// Puts a page on the wanted node while that has room, else on the one with least to do.
    fn take(&mut self, page: &PageUse, wanted: Option<NodeId>) -> Option<NodeId> {
        let wanted = wanted.filter(|node| self.by_node.get(node).is_some_and(|load| *load < self.fair));
        let least = || self.by_node.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(node, _)| *node);
        let home = wanted.or_else(least)?;
        *self.by_node.entry(home).or_default() += accesses(page);
        Some(home)
    }
}

/// Which pages are the fast memory's.
fn hottest(policy: Policy, recording: &Recording) -> Vec<bool> {
    let Policy::Tier(percent) = policy else { return Vec::new() };
    let mut order: Vec<usize> = (0..recording.pages.len()).filter(|&at| recording.pages[at].home.is_some()).collect();
    // Of equals the first touched.
    order.sort_by(|a, b| accesses(&recording.pages[*b]).total_cmp(&accesses(&recording.pages[*a])));
    let room = order.len() * usize::from(percent) / 100;
    let mut hot = vec![false; recording.pages.len()];
    order.into_iter().take(room).for_each(|at| hot[at] = true);
    hot
}

fn accesses(page: &PageUse) -> f64 {
    page.users.iter().map(|user| user.accesses()).sum()
}
