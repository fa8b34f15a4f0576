//! What a replay needs of a recording: pages, who touched and used them, in numbers alone.

use numalens_topology::NodeId;

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
    /// Who touched it first, by place in the order of threads; none: nobody was seen to.
    pub toucher: Option<u32>,
    /// Where that ran then; none: unpinned, or not known.
    pub toucher_node: Option<NodeId>,
    /// Where it lay; none: nowhere.
    pub home: Option<NodeId>,
    pub users: Vec<User>,
}

/// All pages, in the order of their first touches as far as that is known.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recording {
    pub pages: Vec<PageUse>,
}

impl User {
    /// Reads and writes.
    pub fn accesses(&self) -> f64 {
        self.reads + self.writes
    }
}
