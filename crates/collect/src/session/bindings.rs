//! Memory policies of ranges, as `mbind` set them. They win over the thread's: where the kernel can no longer be asked
//! for a page's home they tell it, and what is bound to one node counts as placed by a pinned thread.

use numalens_topology::NodeId;
use rangemap::RangeMap;
use std::ops::Range;

/// Where the pages of a range go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangePolicy {
    /// To this node and no other.
    Bound(NodeId),
    /// To this node while it has room.
    Preferred(NodeId),
    /// To the node of the first toucher.
    Local,
    /// To one of several nodes.
    Several,
}

/// Bits of the mode that say how the nodes are meant.
const STATIC_NODES: u32 = 1 << 15;
const RELATIVE_NODES: u32 = 1 << 14;
const NUMA_BALANCING: u32 = 1 << 13;

impl RangePolicy {
    /// From `mbind`'s mode and nodes (one bit each, the kernel's numbers); `None`: the range follows the thread's
    /// policy.
    pub fn new(mode: u32, nodes: &[u64]) -> Option<Self> {
        let one = || {
            let mut nodes = (0..).zip(nodes).flat_map(|(word, &bits)| {
                (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| NodeId(word * 64 + bit))
            });
            (nodes.next(), nodes.next())
        };
        if mode & RELATIVE_NODES != 0 {
            return Some(RangePolicy::Several);
        }
        match (mode & !(STATIC_NODES | NUMA_BALANCING)) as i32 {
            libc::MPOL_DEFAULT => None,
            libc::MPOL_LOCAL => Some(RangePolicy::Local),
            libc::MPOL_BIND => Some(match one() {
                (Some(node), None) => RangePolicy::Bound(node),
                _ => RangePolicy::Several,
            }),
            libc::MPOL_PREFERRED => Some(match one() {
                (Some(node), _) => RangePolicy::Preferred(node),
                _ => RangePolicy::Local,
            }),
            _ => Some(RangePolicy::Several),
        }
    }
}

/// The policies of a process's memory, by address.
#[derive(Clone, Default)]
pub struct Bindings(RangeMap<u64, RangePolicy>);

impl Bindings {
    /// `mbind`, or memory that went and took its policy with it (`None`).
    pub fn set(&mut self, range: Range<u64>, policy: Option<RangePolicy>) {
        if range.is_empty() {
            return;
        }
        match policy {
            Some(policy) => self.0.insert(range, policy),
            None => self.0.remove(range),
        }
    }

    /// The policies within a range.
    pub fn within(&self, range: &Range<u64>) -> Vec<(Range<u64>, RangePolicy)> {
        self.0.overlapping(range).map(|(piece, &policy)| (piece.clone(), policy)).collect()
    }

    /// Memory that was at `old` with these policies is at `new`. Where it has grown, the last one reaches on.
    pub fn put(&mut self, policies: &[(Range<u64>, RangePolicy)], old: &Range<u64>, new: &Range<u64>) {
        let moved = |at: u64| match at >= old.end {
            true => new.end,
            false => (new.start + at.saturating_sub(old.start)).min(new.end),
        };
        for (range, policy) in policies {
            self.set(moved(range.start)..moved(range.end), Some(*policy));
        }
    }

    pub fn get(&self, address: u64) -> Option<RangePolicy> {
        self.0.get(&address).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_nodes() {
        let policy = |mode: i32, nodes: &[u64]| RangePolicy::new(mode as u32, nodes);
        assert_eq!(policy(libc::MPOL_BIND, &[4]), Some(RangePolicy::Bound(NodeId(2))));
        assert_eq!(policy(libc::MPOL_BIND | STATIC_NODES as i32, &[0, 2]), Some(RangePolicy::Bound(NodeId(65))));
        assert_eq!(policy(libc::MPOL_BIND, &[6]), Some(RangePolicy::Several));
        assert_eq!(policy(libc::MPOL_BIND | RELATIVE_NODES as i32, &[4]), Some(RangePolicy::Several));
        assert_eq!(policy(libc::MPOL_PREFERRED, &[2]), Some(RangePolicy::Preferred(NodeId(1))));
        assert_eq!(policy(libc::MPOL_PREFERRED, &[]), Some(RangePolicy::Local));
        assert_eq!(policy(libc::MPOL_INTERLEAVE, &[2]), Some(RangePolicy::Several));
        assert_eq!(policy(libc::MPOL_DEFAULT, &[]), None);
    }

    #[test]
    fn policies_move_and_go_with_their_memory() {
        let mut bindings = Bindings::default();
        let bound = RangePolicy::Bound(NodeId(1));
        bindings.set(0x1000..0x5000, Some(bound));
        bindings.set(0x2000..0x3000, None);
        assert_eq!([0x1000, 0x2000, 0x3000].map(|at| bindings.get(at)), [Some(bound), None, Some(bound)]);
        let old = 0x1000..0x4000;
        let policies = bindings.within(&old);
        bindings.set(old.clone(), None);
        bindings.put(&policies, &old, &(0x9000..0xd000));
        assert_eq!([0x1000, 0x4000].map(|at| bindings.get(at)), [None, Some(bound)]);
        assert_eq!(
            [0x9000, 0xa000, 0xb000, 0xcfff].map(|at| bindings.get(at)),
            [Some(bound), None, Some(bound), Some(bound)]
        );
        bindings.put(&policies, &old, &(0x1000..0x2000));
        assert_eq!([0x1000, 0x2000].map(|at| bindings.get(at)), [Some(bound), None]);
    }
}
