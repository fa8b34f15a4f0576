//! The replay: a recording under another machine, thread placement and page policy.

use crate::cluster::cluster;
use crate::homes::{self, Homes};
use crate::migration;
use crate::moments::Moment;
use crate::policy::Policy;
use crate::recording::{PageUse, Recording, User};
use crate::{CostModel, Traffic};
use numalens_topology::{Machine, NodeId, ThreadPlacement};
use std::collections::BTreeMap;

/// Where threads run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// As recorded, where the machine has the node.
    Recorded,
    /// As a virtual machine places them.
    Placed(ThreadPlacement),
    /// Those that use the same pages on one node.
    Clustered,
}

impl std::str::FromStr for Threads {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "recorded" => Threads::Recorded,
            "cluster" => Threads::Clustered,
            other => Threads::Placed(other.parse().map_err(|_| {
                format!("`{other}` is no placement; there are recorded, spread, compact, cluster, none")
            })?),
        })
    }
}

impl std::fmt::Display for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Threads::Recorded => f.write_str("recorded"),
            Threads::Placed(placement) => placement.fmt(f),
            Threads::Clustered => f.write_str("cluster"),
        }
    }
}

/// What would be.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The program's accesses.
    pub traffic: Traffic,
    /// Those that move pages while it runs.
    pub copying: Traffic,
    /// Pages whose home is another than the recorded one; copies are not counted. Where they move while the program
    /// runs: moves.
    pub moved: u64,
    /// Copies beyond one home for each page.
    pub copies: u64,
}

/// Replays a recording. `choices` are the policies of the pages that have one of their own ([`PageUse::choice`]).
pub fn replay(
    recording: &Recording,
    machine: &Machine,
    threads: Threads,
    policy: Policy,
    choices: &[Policy],
) -> Outcome {
    let clusters = if threads == Threads::Clustered { cluster(recording, machine) } else { BTreeMap::new() };
    let placed = |thread: u32, node: Option<NodeId>| match threads {
        Threads::Recorded => node.filter(|node| machine.has_cpus(*node)),
        Threads::Placed(placement) => {
            let slot = recording.slots.get(thread as usize).copied().unwrap_or(thread);
            placement.node_of(machine, slot as usize)
        }
        Threads::Clustered => clusters.get(&thread).copied(),
    };
    let node_of = |user: &User| placed(user.thread, user.node);
    let node_then = |moment: &Moment| placed(moment.thread, moment.node);
    let toucher_of = |page: &PageUse| {
        let toucher = page.toucher?;
        // Of one without another access, or that a filter leaves out, nothing is known but its touch. Without that it
        // is on the page's recorded home: that is what first touch means.
        let mut seen = page.users.iter().filter(|user| user.thread == toucher);
        let first = seen.clone().next();
        let then = seen.find(|user| user.node == page.toucher_node).or(first);
        placed(toucher, then.map_or(page.toucher_node.or(page.home), |user| user.node))
    };
    let mut homes = homes::homes(policy, machine, recording, &node_of, &toucher_of);
    for (choice, own) in choices.iter().enumerate() {
        let chosen = homes::homes(*own, machine, recording, &node_of, &toucher_of);
        let pages = recording.pages.iter().zip(homes.iter_mut().zip(chosen));
        pages.filter(|(page, _)| page.choice == Some(choice)).for_each(|(_, (home, own))| *home = own);
    }
    let mut outcome = Outcome::default();
    for (at, (page, homes)) in recording.pages.iter().zip(&homes).enumerate() {
        let policy = page.choice.and_then(|choice| choices.get(choice).copied()).unwrap_or(policy);
        if let (Policy::Migrate(migration), &[home]) = (policy, homes.as_slice()) {
            let moments = recording.moments.of(at);
            if !moments.is_empty() {
                migration::walk(migration, (recording, machine), (page, home), moments, &node_then, &mut outcome);
                continue;
            }
        }
        outcome.moved += u64::from(homes.first().is_some_and(|home| !homes.contains(&page.home.unwrap_or(*home))));
        outcome.copies += homes.len().saturating_sub(1) as u64;
        page.users.iter().for_each(|user| add(&mut outcome.traffic, machine, node_of(&user), &user, homes));
    }
    outcome
}

/// Reads go to the nearest copy, writes to all.
fn add(traffic: &mut Traffic, machine: &Machine, from: Option<NodeId>, user: &User, homes: &Homes) {
    match homes.as_slice() {
        [] => traffic.add(from, None, user.accesses()),
        [home] => traffic.add(from, Some(*home), user.accesses()),
        copies => {
            let nearest = copies.iter().min_by_key(|copy| from.map_or(0, |from| machine.distance(from, **copy)));
            traffic.add(from, nearest.copied(), user.reads);
            copies.iter().for_each(|copy| traffic.add(from, Some(*copy), user.writes));
        }
    }
}

/// Figures of traffic, by their definitions in docs/reference/metrics.md.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Figures {
    /// Percent of the accesses of pinned threads; none: there are no such.
    pub local_share: Option<f64>,
    /// Sum of distance times accesses of pinned threads.
    pub weighted: f64,
    /// (max / mean - 1) * 100 of what nodes with memory serve.
    pub imbalance: f64,
    /// The busiest node and its share of what has a home, in percent.
    pub busiest: Option<(NodeId, f64)>,
    /// In units of one local access, with the estimate's weight of the queues.
    pub time: f64,
}

/// The figures of traffic on a machine.
pub fn figures(traffic: &Traffic, machine: &Machine) -> Figures {
    let pinned = traffic.sum(|from, _| from.is_some());
    let own = traffic.sum(|from, to| from.is_some() && from == to);
    let homes: BTreeMap<NodeId, f64> = traffic.homes();
    let homed: f64 = homes.values().sum();
    let nodes = machine.nodes_with_memory().count().max(1) as f64;
    let busiest = homes.iter().rev().max_by(|a, b| a.1.total_cmp(b.1)).filter(|_| homed > 0.0);
    let weighted = traffic.cells().filter_map(|((from, to), n)| Some(f64::from(machine.distance(from?, to?)) * n));
    Figures {
        local_share: (pinned > 0.0).then(|| own * 100.0 / pinned),
        weighted: weighted.sum(),
        imbalance: busiest.map_or(0.0, |(_, most)| (most * nodes / homed - 1.0) * 100.0),
        busiest: busiest.map(|(node, most)| (*node, most * 100.0 / homed)),
        time: CostModel::new(machine).time(traffic, crate::QUEUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_topology::PagePolicy;

    fn machine(spec: &str) -> Machine {
        Machine::parse(spec, &Machine::preset("togian").unwrap()).unwrap()
    }

    /// Eight pages that thread 0 initialised on node 0; thread i of four reads pages 2 i and 2 i + 1.
    fn blocks() -> Recording {
        let user = |thread: u32, reads: f64, writes: f64, initial: f64| User {
            thread,
            node: Some(NodeId(thread as u16)),
            reads,
            writes,
            initial,
        };
        let page = |number: u64| PageUse {
            number,
            space: 0,
            choice: None,
            toucher: Some(0),
            toucher_node: Some(NodeId(0)),
            home: Some(NodeId(0)),
            users: vec![user(0, 0.0, 1.0, 1.0), user(number as u32 / 2, 100.0, 0.0, 0.0)].into(),
        };
        Recording { pages: (0..8).map(page).collect(), ..Recording::default() }
    }

    fn outcome(policy: &str) -> (Outcome, Figures) {
        let machine = machine("4x1");
        let outcome = replay(&blocks(), &machine, Threads::Recorded, policy.parse().unwrap(), &[]);
        let figures = figures(&outcome.traffic, &machine);
        (outcome, figures)
    }

    #[test]
    fn every_policy_by_hand() {
        let total = 808.0;
        for (policy, local, busiest, moved, copies) in [
            ("recorded", 208.0, 808.0, 0, 0),
            ("first-touch", 208.0, 808.0, 0, 0),
            ("bind:2", 200.0, 808.0, 8, 0),
            ("local", 802.0, 202.0, 6, 0),
            ("parallel-first-touch", 802.0, 202.0, 6, 0),
            // Pages 0 and 7 are their users'; so is the initial write of page 4.
            ("interleave", 202.0, 202.0, 6, 0),
            ("round-robin", 202.0, 202.0, 6, 0),
            ("mixed", 802.0, 202.0, 6, 0),
            ("balance", 802.0, 202.0, 6, 0),
            // Pages 2 to 7 are read by their user and were written by node 0 before: a copy each; the initial write
            // goes to both.
            ("replicate", 808.0, 208.0, 0, 6),
        ] {
            let (outcome, figures) = outcome(policy);
            let traffic = &outcome.traffic;
            let own = traffic.sum(|from, to| from == to);
            assert_eq!((own, outcome.moved, outcome.copies), (local, moved, copies), "{policy}");
            let all = traffic.total();
            assert_eq!(all, if policy == "replicate" { total + 6.0 } else { total }, "{policy}");
            let share = figures.busiest.unwrap().1;
            assert!((share - busiest * 100.0 / all).abs() < 1e-9, "{policy}: {share}");
        }
    }

    #[test]
    fn threads_and_machines_change() {
        let compact = Threads::Placed(ThreadPlacement::Compact);
        let two = machine("2x2");
        let outcome = replay(&blocks(), &two, compact, Policy::AtTouch(PagePolicy::FirstTouch), &[]);
        // Threads 0 and 1 on node 0 with all pages.
        assert_eq!(outcome.traffic.sum(|from, to| from == to), 408.0);
        let nobody = replay(&blocks(), &two, Threads::Placed(ThreadPlacement::None), Policy::Local, &[]);
        assert_eq!(figures(&nobody.traffic, &two).local_share, None);
        let one = machine("1x4");
        let all = replay(&blocks(), &one, Threads::Placed(ThreadPlacement::Spread), Policy::Recorded, &[]);
        assert_eq!(figures(&all.traffic, &one).local_share, Some(100.0));
    }

    #[test]
    fn objects_have_choices_and_pages_sizes() {
        let machine = machine("4x1");
        let mut recording = blocks();
        recording.pages[2..4].iter_mut().for_each(|page| page.choice = Some(0));
        let outcome = replay(&recording, &machine, Threads::Recorded, Policy::Recorded, &[Policy::Local]);
        // Thread 1's two pages are with it; their initial writes are not.
        assert_eq!((outcome.traffic.sum(|from, to| from == to), outcome.moved), (206.0 + 200.0, 2));
        // One page of four has one home: what is used by thread 0, or 2, is with it, of thread 1's or 3's nothing.
        let large = blocks().with_pages_of(4);
        assert_eq!(large.pages.len(), 2);
        let outcome = replay(&large, &machine, Threads::Recorded, Policy::Local, &[]);
        assert_eq!((outcome.traffic.sum(|from, to| from == to), outcome.traffic.total()), (204.0 + 200.0, 808.0));
        let mut other = blocks();
        other.pages[1].space = 1;
        assert_eq!(other.with_pages_of(4).pages.len(), 3, "another address space");
    }

    #[test]
    fn the_hottest_pages_are_the_fast_tiers() {
        let cxl = Machine::preset("cxl2").unwrap();
        let policy: Policy = "tier:50".parse().unwrap();
        assert_eq!(policy.to_string(), "tier:50");
        assert!(policy.check(&machine("4x1")).is_err() && policy.check(&cxl).is_ok());
        assert!("tier:101".parse::<Policy>().is_err());
        let mut recording = blocks();
        let reads = |user: User| User { reads: user.reads * 10.0, ..user };
        recording.pages[5].users = recording.pages[5].users.iter().map(reads).collect();
        let outcome = replay(&recording, &cxl, Threads::Placed(ThreadPlacement::Spread), policy, &[]);
        let slow = outcome.traffic.sum(|_, to| to == Some(NodeId(2)));
        // Four of eight pages, and not the hot one.
        assert_eq!(slow, 404.0);
        let all = replay(&recording, &cxl, Threads::Recorded, "tier:0".parse().unwrap(), &[]);
        assert_eq!(all.traffic.sum(|_, to| to == Some(NodeId(2))), all.traffic.total());
    }

    #[test]
    fn words_come_back() {
        for policy in Policy::COMMON {
            assert_eq!(policy.to_string().parse(), Ok(*policy));
        }
        assert!("nonsense".parse::<Policy>().unwrap_err().contains("round-robin"));
        assert!("bind:9".parse::<Policy>().unwrap().check(&machine("4x1")).unwrap_err().contains("does not have"));
    }
}
