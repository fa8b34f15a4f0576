//! Accesses over time, page after page: there are as many as a recording has facts, so they stand in one piece and are
//! counted into their places.

use numalens_topology::NodeId;

/// Accesses of one thread to one page at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    /// The time bin, [`Recording::bin_ns`](crate::Recording::bin_ns) long.
    pub bin: u32,
    /// The thread's place in the order in which threads started.
    pub thread: u32,
    /// Where it ran; none: unpinned.
    pub node: Option<NodeId>,
    pub accesses: f64,
}

/// Those of all pages, by time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Moments {
    all: Vec<Moment>,
    /// Where each page's begin, and where the last one's end.
    starts: Vec<usize>,
}

impl Moments {
    /// Of so many `pages`; each of `moments` names its page by index. Twice the same, in any order.
    pub fn new(pages: usize, moments: impl Iterator<Item = (usize, Moment)> + Clone) -> Self {
        let mut starts = vec![0; pages + 1];
        moments.clone().for_each(|(page, _)| starts[page + 1] += 1);
        for page in 0..pages {
            starts[page + 1] += starts[page];
        }
        let mut free = starts.clone();
        let nothing = Moment { bin: 0, thread: 0, node: None, accesses: 0.0 };
        let mut all = vec![nothing; starts[pages]];
        for (page, moment) in moments {
            all[free[page]] = moment;
            free[page] += 1;
        }
        for page in starts.windows(2) {
            all[page[0]..page[1]].sort_by_key(|moment| (moment.bin, moment.thread, moment.node));
        }
        Moments { all, starts }
    }

    /// Those of the page with this index.
    pub fn of(&self, page: usize) -> &[Moment] {
        match self.starts.get(page..page + 2) {
            Some(&[start, end]) => &self.all[start..end],
            _ => &[],
        }
    }

    /// Of each page with the index that `whole_of` has for it, one of `pages`.
    pub fn regrouped(&self, pages: usize, whole_of: &[usize]) -> Self {
        let each = whole_of.iter().enumerate();
        Moments::new(pages, each.flat_map(|(page, whole)| self.of(page).iter().map(move |moment| (*whole, *moment))))
    }
}
