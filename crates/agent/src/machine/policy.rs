//! Memory policies of a virtual machine: what the kernel makes of the program's words, and where a page goes under
//! them.
//!
//! Follows `mm/mempolicy.c` of Linux 6.12, with these differences: nodes never run full, so the preferred node takes
//! its pages; weights of weighted interleaving are all 1, the kernel's default; no migration by NUMA balancing.

use super::cpus::{NodeSet, write_list};
use super::nodes::{index_of, number_of};
use core::cell::Cell;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::errno::EINVAL;
use numalens_event::exact::{MOST_NODES, NODE_WORDS, POLICY_WORDS, Placement, PolicyWords};

/// `MPOL_*`.
pub mod mode {
    /// None: that of the thread, then that of `--policy`.
    pub const DEFAULT: u8 = 0;
    /// One node.
    pub const PREFERRED: u8 = 1;
    /// The nearest of some nodes.
    pub const BIND: u8 = 2;
    /// Some nodes in turn.
    pub const INTERLEAVE: u8 = 3;
    /// The toucher's.
    pub const LOCAL: u8 = 4;
    /// As [`BIND`] where nodes never run full.
    pub const PREFERRED_MANY: u8 = 5;
    /// As [`INTERLEAVE`] where all weigh the same.
    pub const WEIGHTED_INTERLEAVE: u8 = 6;
}

const STATIC_NODES: u32 = 1 << 15;
const RELATIVE_NODES: u32 = 1 << 14;
const NUMA_BALANCING: u32 = 1 << 13;
const FLAGS: u32 = STATIC_NODES | RELATIVE_NODES | NUMA_BALANCING;

/// No node, where a node's number is kept.
pub const NOBODY: u32 = u32::MAX;

/// A policy. Nodes are the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// One of [`mode`].
    pub mode: u8,
    /// `MPOL_F_*`.
    flags: u16,
    /// Nodes that are in force.
    pub nodes: NodeSet,
    /// Nodes that the program named.
    pub named: NodeSet,
    /// The node from which the nearest is looked for; [`NOBODY`]: the toucher's.
    pub home: u32,
}

impl Policy {
    /// No policy.
    pub const NONE: Policy =
        Policy { mode: mode::DEFAULT, flags: 0, nodes: NodeSet::EMPTY, named: NodeSet::EMPTY, home: NOBODY };

    /// The policy that the program names, on a machine with memory on these nodes.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn new(word: u32, named: NodeSet, memory: &NodeSet) -> Result<Policy, u32> {
        let (kind, flags) = (word & !FLAGS, word & FLAGS);
        let kind = u8::try_from(kind).ok().filter(|&kind| kind <= mode::WEIGHTED_INTERLEAVE).ok_or(EINVAL)?;
        let moves_nodes = flags & (STATIC_NODES | RELATIVE_NODES);
        if moves_nodes == STATIC_NODES | RELATIVE_NODES
            || flags & NUMA_BALANCING != 0 && !matches!(kind, mode::BIND | mode::PREFERRED_MANY)
        {
            return Err(EINVAL);
        }
        let kind = match kind {
            mode::DEFAULT if named.is_empty() => return Ok(Policy::NONE),
            mode::DEFAULT => return Err(EINVAL),
            mode::PREFERRED | mode::LOCAL if named.is_empty() && moves_nodes == 0 => mode::LOCAL,
            mode::LOCAL => return Err(EINVAL),
            _ if named.is_empty() => return Err(EINVAL),
            kind => kind,
        };
        let nodes = if flags & RELATIVE_NODES != 0 { onto(&named, memory) } else { named.intersection(memory) };
        let nodes = match kind {
            mode::LOCAL => NodeSet::EMPTY,
            _ if nodes.is_empty() => return Err(EINVAL),
            mode::PREFERRED => nodes.first().into_iter().collect(),
            _ => nodes,
        };
        Ok(Policy { mode: kind, flags: flags as u16, nodes, named, home: NOBODY })
    }

    /// The policy that words of a [`numalens_event::exact::ThreadPlace`] say: of those that [`Policy::new`] has made.
    pub fn from_words(word: u64, nodes: NodeSet, named: NodeSet) -> Policy {
        let word = word as u32;
        Policy { mode: (word & !FLAGS) as u8, flags: (word & FLAGS) as u16, nodes, named, home: NOBODY }
    }

    /// The policy that words of shared memory say: of those that [`Policy::to_words`] has made.
    pub fn from_shared(words: PolicyWords) -> Policy {
        let (nodes, named) = (set_at(&words, 1), set_at(&words, 1 + NODE_WORDS));
        let word = words[0];
        Policy { home: (word >> 32) as u32, ..Policy::from_words(word & u64::from(u32::MAX), nodes, named) }
    }

    /// All of it in words.
    pub fn to_words(self) -> PolicyWords {
        let mut words = [0; POLICY_WORDS];
        words[0] = u64::from(self.home) << 32 | u64::from(self.word());
        words[1..=NODE_WORDS].copy_from_slice(&self.nodes.0);
        words[1 + NODE_WORDS..].copy_from_slice(&self.named.0);
        words
    }

    /// Mode and flags, as the kernel tells them.
    pub fn word(&self) -> u32 {
        u32::from(self.mode) | u32::from(self.flags)
    }

    /// Writes it as the kernel shows policies in files.
    pub fn write(&self, to: &mut impl fmt::Write) -> fmt::Result {
        to.write_str(match self.mode {
            mode::PREFERRED => "prefer",
            mode::BIND => "bind",
            mode::INTERLEAVE => "interleave",
            mode::LOCAL => "local",
            mode::PREFERRED_MANY => "prefer (many)",
            mode::WEIGHTED_INTERLEAVE => "weighted interleave",
            _ => "default",
        })?;
        let has = |flag: u32, name: &'static str| if u32::from(self.flags) & flag != 0 { name } else { "" };
        let (fixed, relative) = (has(STATIC_NODES, "static"), has(RELATIVE_NODES, "relative"));
        match (fixed.len() + relative.len(), has(NUMA_BALANCING, "balancing")) {
            (0, "") => {}
            (0, balancing) => write!(to, "={balancing}")?,
            (_, "") => write!(to, "={fixed}{relative}")?,
            (_, balancing) => write!(to, "={fixed}{relative}|{balancing}")?,
        }
        if !self.nodes.is_empty() {
            to.write_char(':')?;
            write_list(to, self.nodes.iter())?;
        }
        Ok(())
    }

    /// The nodes that the kernel tells: those named where the flags keep them apart from those in force.
    pub fn reported(&self) -> NodeSet {
        if u32::from(self.flags) & (STATIC_NODES | RELATIVE_NODES) != 0 { self.named } else { self.nodes }
    }

    /// The number of the node that pages are bound to, if it is one.
    pub fn bound_to(&self) -> Option<u32> {
        if self.mode == mode::BIND { self.nodes.only() } else { None }
    }

    /// Whether pages are bound to one node.
    pub fn binds_to_one(&self) -> bool {
        self.bound_to().is_some()
    }

    /// Whether pages go round over nodes.
    pub fn goes_round(&self) -> bool {
        matches!(self.mode, mode::INTERLEAVE | mode::WEIGHTED_INTERLEAVE)
    }

    /// The number of the node that comes after `last` where pages go round.
    pub fn next(&self, last: u32) -> u32 {
        self.nodes.after(last).unwrap_or(NOBODY)
    }

    /// The index of the node that takes a page which a thread on the node of index `toucher` touches first, under the
    /// policy of the thread: where pages go round, `last` is who took the one before.
    pub fn home(&self, placement: &Placement, toucher: usize, last: &Cell<u32>) -> Option<u16> {
        if self.goes_round() {
            last.set(self.next(last.get()));
            return index_of(placement, last.get());
        }
        self.nearest(placement, toucher)
    }

    /// The same under the policy of a piece of memory, of which the page is the `number`-th.
    pub fn home_within(&self, placement: &Placement, toucher: usize, number: u64) -> Option<u16> {
        if self.goes_round() {
            let nth = number % u64::from(self.nodes.len().max(1));
            let node = self.nodes.iter().nth(nth as usize)?;
            return index_of(placement, node);
        }
        self.nearest(placement, toucher)
    }

    fn nearest(&self, placement: &Placement, toucher: usize) -> Option<u16> {
        let from = index_of(placement, self.home).map_or(toucher, usize::from);
        let in_force = |index: &u16| {
            self.mode == mode::LOCAL || number_of(placement, *index).is_some_and(|number| self.nodes.contains(number))
        };
        let row = placement.fallback.get(from.min(MOST_NODES - 1))?;
        row.iter().map_while(|word| word.load(Relaxed).checked_sub(1)).find(in_force)
    }
}

/// Node numbers relative to a set: the n-th of `named` stands for the n-th of `nodes`, over and over.
fn onto(named: &NodeSet, nodes: &NodeSet) -> NodeSet {
    let count = nodes.len().max(1);
    let folded: NodeSet = named.iter().map(|number| number % count).collect();
    nodes.iter().zip(0..).filter(|&(_, place)| folded.contains(place)).map(|(number, _)| number).collect()
}

/// The set whose words begin there.
fn set_at(words: &[u64], at: usize) -> NodeSet {
    let mut set = NodeSet::EMPTY;
    set.0.copy_from_slice(&words[at..at + NODE_WORDS]);
    set
}

/// Where each of `from` moves to when pages are migrated to `to`, as the kernel pairs them: the n-th to the n-th, over
/// and over. None: it stays.
pub fn migrates(node: u32, from: &NodeSet, to: &NodeSet) -> Option<u32> {
    if !from.contains(node) || to.is_empty() || from.len() != to.len() && to.contains(node) {
        return None;
    }
    let place = from.iter().take_while(|&before| before < node).count() % to.len() as usize;
    to.iter().nth(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::place::tests::machine;
    use numalens_event::exact::threads;

    const MEMORY: u64 = 0b1101;

    /// The nodes of these bits, moved up by so many numbers.
    fn set(bits: u64, up: u32) -> NodeSet {
        super::super::cpus::bits(bits).map(|bit| bit + up).collect()
    }

    fn policy(word: u32, named: u64) -> Result<Policy, u32> {
        Policy::new(word, set(named, 0), &set(MEMORY, 0))
    }

    #[test]
    fn words_are_judged_as_by_the_kernel() {
        let new = |word: u32, named| policy(word, named).map(|policy| (policy.word(), policy.reported().0[0]));
        assert_eq!(new(0, 0), Ok((0, 0)));
        assert_eq!(new(0, 1), Err(EINVAL));
        assert_eq!(new(1, 0), Ok((4, 0)), "preferring no node is preferring the local one");
        assert_eq!(new(1, 0b1100), Ok((1, 0b0100)));
        assert_eq!(new(2, 0b0011), Ok((2, 0b0001)), "nodes without memory do not count");
        assert_eq!(new(2, 0b0010), Err(EINVAL));
        assert_eq!(new(2, 0), Err(EINVAL));
        assert_eq!(new(3, 0b1111), Ok((3, MEMORY)));
        assert_eq!(new(4, 1), Err(EINVAL));
        assert_eq!(new(7, 1), Err(EINVAL));
        assert_eq!(new(3 | STATIC_NODES, 0b0011), Ok((3 | STATIC_NODES, 0b0011)));
        assert_eq!(new(3 | STATIC_NODES | RELATIVE_NODES, 1), Err(EINVAL));
        assert_eq!(new(3 | NUMA_BALANCING, 1), Err(EINVAL));
        assert_eq!(policy(2 | RELATIVE_NODES, 0b0110).unwrap().nodes, set(0b1100, 0));
        let bound = policy(2, 4).unwrap();
        assert_eq!(Policy::from_words(u64::from(bound.word()), bound.nodes, bound.named), bound);
        let near = Policy { home: 3, ..bound };
        assert_eq!(
            (Policy::from_shared(near.to_words()), Policy::from_shared(Policy::NONE.to_words())),
            (near, Policy::NONE)
        );
        assert!(bound.binds_to_one() && !policy(2, 5).unwrap().binds_to_one());
    }

    #[test]
    fn pages_go_where_the_policy_has_them() {
        let machine = machine(threads::SPREAD);
        let home = |word, named, toucher| policy(word, named).unwrap().home(&machine, toucher, &Cell::new(NOBODY));
        assert_eq!((home(4, 0, 3), home(4, 0, 1)), (Some(3), Some(2)), "node 1 has no memory");
        assert_eq!((home(1, 8, 0), home(2, 0b1001, 3), home(2, 0b1001, 2)), (Some(3), Some(3), Some(3)));
        let mut bound = policy(2, 0b1001).unwrap();
        bound.home = 0;
        assert_eq!(bound.home_within(&machine, 3, 0), Some(0));
        let last = Cell::new(NOBODY);
        let round = policy(3, MEMORY).unwrap();
        assert_eq!([0; 4].map(|_| round.home(&machine, 0, &last)), [Some(0), Some(2), Some(3), Some(0)]);
        assert_eq!([4, 5, 6].map(|page| round.home_within(&machine, 0, page)), [Some(2), Some(3), Some(0)]);
    }

    #[test]
    fn policies_are_shown_as_by_the_kernel() {
        let shown = |word, named| {
            let mut text = alloc::string::String::new();
            policy(word, named).unwrap().write(&mut text).unwrap();
            text
        };
        assert_eq!((shown(0, 0), shown(4, 0), shown(1, 8)), ("default".into(), "local".into(), "prefer:3".into()));
        assert_eq!((shown(3, MEMORY), shown(5, 12)), ("interleave:0,2-3".into(), "prefer (many):2-3".into()));
        let flags = STATIC_NODES | NUMA_BALANCING;
        assert_eq!(
            (shown(2 | flags, 1), shown(2 | NUMA_BALANCING, 4)),
            ("bind=static|balancing:0".into(), "bind=balancing:2".into())
        );
    }

    #[test]
    fn migrations_pair_nodes() {
        for up in [0, 252] {
            let migrates = |node, from, to| migrates(node + up, &set(from, up), &set(to, up)).map(|node| node - up);
            assert_eq!(migrates(1, 0b0011, 0b1100), Some(3));
            assert_eq!(migrates(2, 0b0011, 0b1100), None);
            assert_eq!(migrates(2, 0b0111, 0b1000), Some(3));
            assert_eq!(migrates(0, 0b0011, 0b0111), None, "it is one of those already");
        }
    }

    /// Numbers above 63, as POWER has them: the machine of the other tests with its last two nodes at 252 and 1023.
    #[test]
    fn nodes_have_any_numbers() {
        let machine = machine(threads::SPREAD);
        for (index, number) in [(2, 252), (3, 1023)] {
            machine.kernel_nodes[index].store(number + 1, Relaxed);
        }
        let memory: NodeSet = [0, 252, 1023].into_iter().collect();
        let new = |word, named: &[u32]| Policy::new(word, named.iter().copied().collect(), &memory).unwrap();
        let bound = new(2, &[1023]);
        assert_eq!((bound.bound_to(), bound.home(&machine, 0, &Cell::new(NOBODY))), (Some(1023), Some(3)));
        assert_eq!((Policy::from_shared(bound.to_words()), new(1, &[252, 1023]).reported().only()), (bound, Some(252)));
        let (round, last) = (new(3, &[0, 252, 1023]), Cell::new(NOBODY));
        assert_eq!([0; 4].map(|_| round.home(&machine, 0, &last)), [Some(0), Some(2), Some(3), Some(0)]);
        assert_eq!(new(2 | RELATIVE_NODES, &[1, 5]).nodes, [252, 1023].into_iter().collect());
        let mut text = alloc::string::String::new();
        round.write(&mut text).unwrap();
        assert_eq!(text, "interleave:0,252,1023");
    }
}
