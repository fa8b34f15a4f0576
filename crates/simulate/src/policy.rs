//! Policies: where a page would lie. One row in [`Policy::ALL`] and one arm in [`homes`] each.

use crate::migration::Migration;
use crate::recording::{PageUse, Recording, User};
use numalens_topology::{Machine, NodeId, PagePolicy};
use std::collections::BTreeMap;

/// A policy of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// As it was recorded, where the machine has the node.
    Recorded,
    /// What the kernel, or a program with an allocator of its own, can do when a page is touched.
    AtTouch(PagePolicy),
    /// First touch by the thread that uses the page most: an initialisation in parallel.
    ParallelFirstTouch,
    /// The node with most accesses, known beforehand: the best that one home for each page can do for distances.
    Local,
    /// Round the nodes in the order of first touches, whatever the address.
    RoundRobin,
    /// Pages that one node has nearly to itself on that node, all others interleaved.
    Mixed,
    /// Every node serves as many accesses: on the main user's node while that has room.
    Balance,
    /// Pages that nobody writes after their initialisation on every node that uses them, others as first touched.
    Replicate,
    /// The pages with most accesses on their main users' nodes, until these have so many percent of the memory; the
    /// others on slower memory.
    Tier(u8),
    /// As first touched, and then moved to who uses them.
    Migrate(Migration),
}

/// Percent of accesses by one node from which [`Policy::Mixed`] calls a page its own.
const EXCLUSIVE: f64 = 95.0;

impl Policy {
    /// The words of all policies, as `--policy` takes them.
    pub const NAMES: &'static [&'static str] = &[
        "recorded",
        "first-touch",
        "parallel-first-touch",
        "local",
        "interleave",
        "bind:NODE",
        "random",
        "round-robin",
        "mixed",
        "balance",
        "replicate",
        "numa-balancing",
        "kmaf",
        "tier:PERCENT",
    ];

    /// What is compared when nobody says what.
    pub const COMMON: &'static [Policy] = &[
        Policy::AtTouch(PagePolicy::FirstTouch),
        Policy::ParallelFirstTouch,
        Policy::Local,
        Policy::AtTouch(PagePolicy::Interleave),
        Policy::RoundRobin,
        Policy::AtTouch(PagePolicy::Random(0)),
        Policy::Mixed,
        Policy::Balance,
        Policy::Replicate,
        Policy::Migrate(Migration::NumaBalancing),
        Policy::Migrate(Migration::Kmaf),
    ];

    /// Those that a word stands for: one, or with `common` all of [`Policy::COMMON`].
    ///
    /// # Errors
    /// It is the word of no policy.
    pub fn named(word: &str) -> Result<Vec<Policy>, String> {
        match word {
            "common" => Ok(Policy::COMMON.to_vec()),
            one => one.parse().map(|policy| vec![policy]),
        }
    }

    /// Whether [`Recording::moments`] are wanted.
    pub fn asks_for_time(self) -> bool {
        matches!(self, Policy::Migrate(_))
    }

    /// Whether it can be done on the machine; else why not.
    pub fn check(self, machine: &Machine) -> Result<(), String> {
        match self {
            Policy::AtTouch(policy) => policy.check(machine).map_err(|error| error.to_string()),
            Policy::Tier(_) if !machine.nodes.iter().any(|node| machine.is_slower_memory(node.id)) => {
                Err("the machine has no slower memory; cxl2 has".to_string())
            }
            _ => Ok(()),
        }
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "recorded" => Policy::Recorded,
            "parallel-first-touch" => Policy::ParallelFirstTouch,
            "local" => Policy::Local,
            "round-robin" => Policy::RoundRobin,
            "mixed" => Policy::Mixed,
            "balance" => Policy::Balance,
            "replicate" => Policy::Replicate,
            "numa-balancing" => Policy::Migrate(Migration::NumaBalancing),
            "kmaf" => Policy::Migrate(Migration::Kmaf),
            other if let Some(percent) = other.strip_prefix("tier:") => {
                let percent = percent.trim_end_matches('%').parse().ok().filter(|percent| *percent <= 100);
                Policy::Tier(
                    percent.ok_or_else(|| format!("`{other}`: a percentage of the memory is wanted, as in tier:30"))?,
                )
            }
            other => Policy::AtTouch(
                other.parse().map_err(|_| format!("`{other}` is no policy; there are {}", Policy::NAMES.join(", ")))?,
            ),
        })
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Policy::Recorded => f.write_str("recorded"),
            Policy::AtTouch(policy) => policy.fmt(f),
            Policy::ParallelFirstTouch => f.write_str("parallel-first-touch"),
            Policy::Local => f.write_str("local"),
            Policy::RoundRobin => f.write_str("round-robin"),
            Policy::Mixed => f.write_str("mixed"),
            Policy::Balance => f.write_str("balance"),
            Policy::Replicate => f.write_str("replicate"),
            Policy::Migrate(Migration::NumaBalancing) => f.write_str("numa-balancing"),
            Policy::Migrate(Migration::Kmaf) => f.write_str("kmaf"),
            Policy::Tier(percent) => write!(f, "tier:{percent}"),
        }
    }
}

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
    let near = |node: Option<NodeId>| node.and_then(|node| machine.nearest_with_memory(node));
    let main = |page: &PageUse| {
        let users = by_node(page, node_of);
        users.into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(node, _)| node)
    };
    let touched = |page: &PageUse| near(toucher_of(page)).or(stays(machine, page, &nodes));
    let mut turn = 0;
    let mut loads: BTreeMap<NodeId, f64> = nodes.iter().map(|node| (*node, 0.0)).collect();
    let all: f64 = recording.pages.iter().filter(|page| page.home.is_some()).map(accesses).sum();
    let fair = all / nodes.len().max(1) as f64;
    let hot = hottest(policy, recording);
    let slow = |from: Option<NodeId>| {
        let slow = machine.nodes.iter().filter(|node| machine.is_slower_memory(node.id));
        slow.min_by_key(|node| from.map_or(0, |from| machine.distance(from, node.id))).map(|node| node.id)
    };
    let mut at = 0;
    let mut place = |page: &PageUse| -> Homes {
        at += 1;
        // What had no home (the zero page) has none elsewhere either.
        if page.home.is_none() {
            return Vec::new();
        }
        let home = match policy {
            Policy::Recorded => stays(machine, page, &nodes),
            Policy::AtTouch(PagePolicy::FirstTouch) | Policy::Migrate(_) => touched(page),
            Policy::AtTouch(at_touch) => touched(page).map(|toucher| at_touch.home(machine, page.number, toucher)),
            Policy::ParallelFirstTouch => {
                let thread =
                    page.users.iter().max_by(|a, b| (a.accesses() - a.initial).total_cmp(&(b.accesses() - b.initial)));
                near(thread.and_then(node_of)).or(touched(page))
            }
            Policy::Local => near(main(page)).or(touched(page)),
            Policy::RoundRobin => {
                turn += 1;
                nodes.get((turn - 1) % nodes.len().max(1)).copied()
            }
            Policy::Mixed => {
                let users = by_node(page, node_of);
                let (most, sum) = users.values().fold((0.0f64, 0.0), |(most, sum), n| (most.max(*n), sum + n));
                match sum > 0.0 && most * 100.0 > sum * EXCLUSIVE {
                    true => near(main(page)),
                    false => nodes.get(page.number as usize % nodes.len().max(1)).copied(),
                }
            }
            Policy::Balance => {
                let wanted = near(main(page)).filter(|node| loads.get(node).is_some_and(|load| *load < fair));
                let least = || loads.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(node, _)| *node);
                let home = wanted.or_else(least);
                if let Some(load) = home.and_then(|home| loads.get_mut(&home)) {
                    *load += accesses(page);
                }
                home
            }
            Policy::Replicate => {
                let written = page.users.iter().any(|user| user.writes > user.initial);
                let readers: Homes = by_node(page, node_of).into_keys().filter_map(|node| near(Some(node))).collect();
                if !written && readers.len() > 1 {
                    return readers;
                }
                touched(page)
            }
            Policy::Tier(_) => {
                let main = main(page).or(toucher_of(page));
                if hot.get(at - 1) == Some(&true) { near_fast(machine, main).or(touched(page)) } else { slow(main) }
            }
        };
        home.into_iter().collect()
    };
    recording.pages.iter().map(&mut place).collect()
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

/// The nearest node whose memory is not the slower.
fn near_fast(machine: &Machine, from: Option<NodeId>) -> Option<NodeId> {
    let from = from?;
    let fast = machine.nodes_with_memory().filter(|node| !node.cpus.is_empty());
    fast.min_by_key(|node| machine.distance(from, node.id)).map(|node| node.id)
}

/// Where a page lay, or, on a machine without that node, any one that stays the same.
fn stays(machine: &Machine, page: &PageUse, nodes: &[NodeId]) -> Option<NodeId> {
    let home = page.home?;
    match machine.node(home) {
        Some(node) if node.memory_bytes > 0 => Some(home),
        _ => nodes.get(usize::from(home.0) % nodes.len().max(1)).copied(),
    }
}

fn accesses(page: &PageUse) -> f64 {
    page.users.iter().map(User::accesses).sum()
}

/// Accesses of pinned threads by node.
fn by_node(page: &PageUse, node_of: &dyn Fn(&User) -> Option<NodeId>) -> BTreeMap<NodeId, f64> {
    let mut nodes = BTreeMap::new();
    for user in &page.users {
        if let Some(node) = node_of(user) {
            *nodes.entry(node).or_default() += user.accesses();
        }
    }
    nodes
}
