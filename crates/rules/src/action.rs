//! What a rule does.

use numalens_topology::CpuSet;

/// Nodes, by the kernel's numbers, in the order of these; empty: all that have memory.
pub type Nodes = CpuSet;

/// What is done with what a rule speaks of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Memory on these nodes, and nowhere else (`MPOL_BIND`): where they are full, the kernel may end the program.
    Bind(Nodes),
    /// Memory on these nodes while they have some (`MPOL_PREFERRED_MANY`).
    Prefer(Nodes),
    /// Pages in turn on these nodes.
    Interleave(Nodes),
    /// Pages in turn, as many on each node as its weight says: node, weight.
    Weighted(Vec<(u32, u8)>),
    /// Equal parts of a block in turn on these nodes: for what threads divide among them.
    SpreadByParts(Nodes),
    /// Huge pages, or none.
    HugePages(bool),
    /// Blocks have cache lines of their own.
    Pad,
    /// Threads on these CPUs.
    Pin(CpuSet),
}

impl Action {
    /// The word that a file has for it.
    pub fn word(&self) -> &'static str {
        match self {
            Action::Bind(_) => "bind",
            Action::Prefer(_) => "prefer",
            Action::Interleave(_) => "interleave",
            Action::Weighted(_) => "weighted",
            Action::SpreadByParts(_) => "spread-by-parts",
            Action::HugePages(true) => "huge-pages",
            Action::HugePages(false) => "no-huge-pages",
            Action::Pad => "pad",
            Action::Pin(_) => "pin",
        }
    }

    /// The nodes that it names.
    pub fn nodes(&self) -> Option<&Nodes> {
        match self {
            Action::Bind(nodes) | Action::Prefer(nodes) | Action::Interleave(nodes) | Action::SpreadByParts(nodes) => {
                Some(nodes)
            }
            Action::Weighted(_) | Action::HugePages(_) | Action::Pad | Action::Pin(_) => None,
        }
    }

    /// Whether it is about threads, not memory.
    pub fn is_of_threads(&self) -> bool {
        matches!(self, Action::Pin(_))
    }
}
