//! What a replay needs of a recording: pages, who touched and used them, in numbers alone.

use crate::moments::Moments;
use crate::users::Users;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// Accesses of one thread to one page.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct User {
    /// The thread's place in the order in which threads started.
    pub thread: u32,
    /// Where it ran; none: unpinned.
    pub node: Option<NodeId>,
    pub reads: f64,
    pub writes: f64,
    /// Of these, writes that are the page's initialisation.
    pub initial: f64,
}

/// One page.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PageUse {
    pub number: u64,
    /// Whose address space it is in.
    pub space: u32,
    /// Which of the choices for single objects it has; none: the policy of all.
    pub choice: Option<usize>,
    /// Who touched it first, by place in the order of threads; none: nobody was seen to.
    pub toucher: Option<u32>,
    /// Where that ran then; none: unpinned, or not known.
    pub toucher_node: Option<NodeId>,
    /// Where it lay; none: nowhere.
    pub home: Option<NodeId>,
    pub users: Users,
}

/// All pages, in the order of their first touches as far as that is known.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recording {
    pub pages: Vec<PageUse>,
    /// The same accesses over time. None where nobody asked: then no page moves.
    pub moments: Moments,
    /// The number by which each thread is placed, in the order of threads; of those that are missing: their place in
    /// it.
    pub slots: Vec<u32>,
    pub bin_ns: u64,
    /// What it costs to copy a page, in accesses.
    pub copy: f64,
}

impl Recording {
    /// The same with larger pages, of so many of the recorded ones each: all of one lies where the first of its parts
    /// that was touched does, and is its toucher's.
    pub fn with_pages_of(self, parts: u64) -> Recording {
        let mut whole: Vec<PageUse> = Vec::new();
        let mut places: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        let mut whole_of = Vec::with_capacity(self.pages.len());
        for page in self.pages {
            // What has no home has no page.
            let key = (page.space, page.number / parts.max(1));
            match places.get(&key).filter(|_| page.home.is_some()) {
                Some(&at) => {
                    whole_of.push(at);
                    whole[at].take_in(&page.users);
                }
                None => {
                    if page.home.is_some() {
                        places.insert(key, whole.len());
                    }
                    whole_of.push(whole.len());
                    whole.push(PageUse { number: key.1, ..page });
                }
            }
        }
        let moments = self.moments.regrouped(whole.len(), &whole_of);
        Recording { pages: whole, moments, copy: self.copy * parts as f64, ..self }
    }

    /// Bins in a length of time: at least one.
    pub fn bins_in(&self, ns: u64) -> u32 {
        u32::try_from(ns.div_ceil(self.bin_ns.max(1))).unwrap_or(u32::MAX).max(1)
    }
}

impl PageUse {
    fn take_in(&mut self, users: &Users) {
        let mut all: Vec<User> = self.users.iter().collect();
        for user in users.iter() {
            let same = |known: &&mut User| known.thread == user.thread && known.node == user.node;
            match all.iter_mut().find(same) {
                Some(known) => {
                    known.reads += user.reads;
                    known.writes += user.writes;
                    known.initial += user.initial;
                }
                None => all.push(user),
            }
        }
        self.users = all.into();
    }
}

impl User {
    /// Reads and writes.
    pub fn accesses(&self) -> f64 {
        self.reads + self.writes
    }
}
