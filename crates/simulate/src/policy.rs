//! Policies of pages and their words. One row in [`Policy::NAMES`] each, and one arm in [`crate::homes`].

use crate::migration::Migration;
use numalens_topology::{Machine, PagePolicy};

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
