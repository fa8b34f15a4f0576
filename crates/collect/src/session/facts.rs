//! The fact tables under construction, and the time bins they share.

use super::counts::Of;
use numalens_aggregate::{Counts, Facts, TimeBins};
use numalens_profile::ids::*;
use numalens_profile::tables;
use numalens_profile::words::{Access, Class};
use numalens_topology::NodeId;
use std::cmp::Ordering;

/// Facts held before bins are widened to make room: about 100 MB.
const MOST_FACTS: usize = 500_000;
/// Bins start this wide.
const FIRST_BIN_NS: u64 = 10_000_000;
/// Below this many bins, pages are merged into regions instead.
const FEWEST_BINS: u32 = 8;
/// Pages of a region, where pages had to be merged.
const REGION: u64 = 512;

/// Of whose accesses to a page, and when, something is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PageKey {
    pub process: ProcessId,
    pub bin: Bin,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
    pub page: Page,
}

/// The same from a site, and to pages of which class.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SiteKey {
    pub process: ProcessId,
    pub bin: Bin,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub site: SiteId,
    pub home: Option<NodeId>,
    pub class: Class,
}

/// The same to an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ObjectKey {
    pub process: ProcessId,
    pub bin: Bin,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub site: Option<SiteId>,
    pub object: ObjectId,
    pub home: Option<NodeId>,
    pub class: Class,
    /// What is exact and what is not are apart, though it be of the same object.
    pub estimated: bool,
}

/// Of whose execution of a page's code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CodeKey {
    pub process: ProcessId,
    pub bin: Bin,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub page: Page,
    pub module: Option<ModuleId>,
    pub home: Option<NodeId>,
}

/// Orders keys by their fields, from the first to the last, several of them in a word: sorting is most of what is left
/// to do when the program has ended, and comparing is most of that.
macro_rules! ordered_by_words {
    ($($key:ident: $words:expr;)*) => {$(
        impl Ord for $key {
            fn cmp(&self, other: &Self) -> Ordering {
                let words = $words;
                words(self).cmp(&words(other))
            }
        }

        impl PartialOrd for $key {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
    )*};
}

ordered_by_words! {
    // By page, for readers that have the sums of one page after the other, and need no other one for that.
    PageKey: |key: &PageKey| [
        u64::from(key.process.0),
        key.page.0,
        both(key.thread.0, known(key.node)),
        both(known(key.home), key.bin.0),
    ];
    SiteKey: |key: &SiteKey| [
        both(key.process.0, key.bin.0),
        both(key.thread.0, known(key.node)),
        u64::from(key.site.0) << 20 | u64::from(known(key.home)) << 3 | key.class as u64,
    ];
    ObjectKey: |key: &ObjectKey| [
        both(key.process.0, key.bin.0),
        both(key.thread.0, known(key.node)),
        key.site.map_or(0, |site| u64::from(site.0) + 1),
        u64::from(key.object.0) << 21 | u64::from(key.estimated) << 20 | u64::from(known(key.home)) << 3 | key.class as u64,
    ];
    CodeKey: |key: &CodeKey| [
        both(key.process.0, key.bin.0),
        both(key.thread.0, known(key.node)),
        key.page.0,
        key.module.map_or(0, |module| u64::from(module.0) + 1) << 17 | u64::from(known(key.home)),
    ];
}

const _: () = assert!(Class::ALL.len() <= 8, "classes have three bits");

fn both(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

/// 0 where there is no node, else more: 17 bits.
fn known(node: Option<NodeId>) -> u32 {
    node.map_or(0, |node| u32::from(node.0) + 1)
}

/// One access, attributed in every dimension.
#[derive(Clone, Copy, Debug)]
pub struct Attributed {
    pub process: ProcessId,
    pub thread: ThreadId,
    pub bin: Bin,
    pub node: Option<NodeId>,
    pub site: SiteId,
    pub page: Page,
    pub object: ObjectId,
    pub home: Option<NodeId>,
    pub class: Class,
    pub access: Access,
    /// What it counts: 1 for a clock sample, the number of accesses that a hardware sample stands for.
    pub weight: u64,
}

/// The facts of a recording.
pub struct FactTables {
    bins: TimeBins,
    bin_limit: u32,
    pages: Facts<PageKey>,
    sites: Facts<SiteKey>,
    objects: Facts<ObjectKey>,
    code: Facts<CodeKey>,
    /// Accesses that missed the thread's private cache.
    page_misses: Facts<PageKey>,
    site_misses: Facts<SiteKey>,
    /// Pages stand for regions of [`REGION`] pages.
    regions: bool,
    /// Pages that are counted together, by their first one.
    pub page_regions: Vec<tables::PageRegion>,
    /// What was given up to stay within memory, for `meta`.
    pub coarsened: Vec<String>,
}

impl FactTables {
    /// Tables with at most `bin_limit` time bins.
    pub fn new(bin_limit: u32) -> Self {
        FactTables {
            bins: TimeBins::new(FIRST_BIN_NS, bin_limit),
            bin_limit,
            pages: Facts::default(),
            sites: Facts::default(),
            objects: Facts::default(),
            code: Facts::default(),
            page_misses: Facts::default(),
            site_misses: Facts::default(),
            regions: false,
            page_regions: Vec::new(),
            coarsened: Vec::new(),
        }
    }

    /// The bin of a time, and by how many halvings older bins have just become wider; the facts here have followed.
    pub fn bin(&mut self, time_ns: u64) -> (Bin, u32) {
        let (bin, halvings) = self.bins.bin(time_ns);
        self.halve(halvings);
        (Bin(bin), halvings)
    }

    pub fn bin_width_ns(&self) -> u64 {
        self.bins.width_ns()
    }

    pub fn bin_count(&self, duration_ns: u64) -> u32 {
        self.bins.count(duration_ns)
    }

    fn halve(&mut self, halvings: u32) {
        if halvings == 0 {
            return;
        }
        let bin = |bin: Bin| Bin(bin.0.checked_shr(halvings).unwrap_or(0));
        self.pages.rekey(|key| PageKey { bin: bin(key.bin), ..key });
        self.sites.rekey(|key| SiteKey { bin: bin(key.bin), ..key });
        self.objects.rekey(|key| ObjectKey { bin: bin(key.bin), ..key });
        self.code.rekey(|key| CodeKey { bin: bin(key.bin), ..key });
        self.page_misses.rekey(|key| PageKey { bin: bin(key.bin), ..key });
        self.site_misses.rekey(|key| SiteKey { bin: bin(key.bin), ..key });
    }

    /// Counts one sampled access. A read-modify-write is a read and a write.
    pub fn add_access(&mut self, access: Attributed) {
        let Attributed { process, thread, bin, node, site, page, object, home, class, access, weight } = access;
        let counts = Counts {
            reads: if access == Access::Write { 0 } else { weight },
            writes: if access == Access::Read { 0 } else { weight },
            samples: 1,
        };
        self.add_page(Of::Accesses, PageKey { process, bin, thread, node, home, page }, counts);
        self.add_site(Of::Accesses, SiteKey { process, bin, thread, node, site, home, class }, counts);
        let site = Some(site);
        self.add_object(ObjectKey { process, bin, thread, node, site, object, home, class, estimated: true }, counts);
    }

    /// Adds counts of a page.
    pub fn add_page(&mut self, of: Of, key: PageKey, counts: Counts) {
        let key = PageKey { page: self.reported_as(key.page), ..key };
        match of {
            Of::Accesses => self.pages.add(key, counts),
            Of::Misses => self.page_misses.add(key, counts),
        }
    }

    /// Adds counts of a site.
    pub fn add_site(&mut self, of: Of, key: SiteKey, counts: Counts) {
        match of {
            Of::Accesses => self.sites.add(key, counts),
            Of::Misses => self.site_misses.add(key, counts),
        }
    }

    /// Adds counts of an object.
    pub fn add_object(&mut self, key: ObjectKey, counts: Counts) {
        self.objects.add(key, counts);
    }

    /// Adds instructions executed, or samples of the instruction pointer.
    pub fn add_code(&mut self, key: CodeKey, instructions: u64) {
        self.code.add(key, Counts { reads: instructions, writes: 0, samples: 0 });
    }

    /// The page that stands for a page's facts: the first of its region where they are reported by region.
    fn reported_as(&self, page: Page) -> Page {
        if self.regions { Page(page.0 / REGION * REGION) } else { page }
    }

    /// Accesses, or samples of them, of each fact with the site that they are from.
    pub fn accesses_by_site(&self) -> impl Iterator<Item = (SiteId, u64)> {
        self.sites.iter().map(|(key, counts)| (key.site, counts.reads.saturating_add(counts.writes)))
    }

    /// Number of facts held.
    pub fn len(&self) -> usize {
        let misses = self.page_misses.len() + self.site_misses.len();
        self.pages.len() + self.sites.len() + self.objects.len() + self.code.len() + misses
    }

    /// Makes room when there are too many facts. Returns by how many halvings bins became wider.
    pub fn keep_within_limits(&mut self, now_ns: u64) -> u32 {
        if self.len() < MOST_FACTS {
            return 0;
        }
        self.settled();
        if self.len() < MOST_FACTS / 8 * 7 {
            return 0;
        }
        if self.bin_count(now_ns) > FEWEST_BINS.min(self.bin_limit) {
            self.bins.coarsen();
            self.halve(1);
            let note = "time bins were widened to hold the facts in memory".to_owned();
            if !self.coarsened.contains(&note) {
                self.coarsened.push(note);
            }
            return 1;
        }
        if !self.regions {
            self.regions = true;
            for pages in [&mut self.pages, &mut self.page_misses] {
                pages.rekey(|key| PageKey { page: Page(key.page.0 / REGION * REGION), ..key });
            }
            self.coarsened.push("page_accesses: pages were merged into regions of 2 MiB".to_owned());
        }
        0
    }

    /// All facts, in order.
    pub fn settled(&mut self) -> SettledFacts<'_> {
        let FactTables { pages, sites, objects, code, page_misses, site_misses, .. } = self;
        // Those of sites are mostly more than all others.
        let (sites, (pages, objects, code, page_misses, site_misses)) = rayon::join(
            || sites.settled(),
            || (pages.settled(), objects.settled(), code.settled(), page_misses.settled(), site_misses.settled()),
        );
        SettledFacts { pages, sites, objects, code, page_misses, site_misses }
    }
}

/// The facts in the order of their keys, each once: the rows of tables.
#[derive(Clone, Copy)]
pub struct SettledFacts<'a> {
    pages: &'a [(PageKey, Counts)],
    sites: &'a [(SiteKey, Counts)],
    objects: &'a [(ObjectKey, Counts)],
    code: &'a [(CodeKey, Counts)],
    page_misses: &'a [(PageKey, Counts)],
    site_misses: &'a [(SiteKey, Counts)],
}

impl<'a> SettledFacts<'a> {
    pub fn page_rows(self, period: u64) -> impl Iterator<Item = tables::PageAccess> + 'a {
        self.pages.iter().map(move |(key, counts)| tables::PageAccess {
            process: key.process,
            bin: key.bin,
            thread: key.thread,
            node: key.node,
            home: key.home,
            page: key.page,
            reads: counts.reads,
            writes: counts.writes,
            samples: counts.samples,
            period,
        })
    }

    pub fn site_rows(self, period: u64) -> impl Iterator<Item = tables::SiteAccess> + 'a {
        self.sites.iter().map(move |(key, counts)| tables::SiteAccess {
            process: key.process,
            bin: key.bin,
            thread: key.thread,
            node: key.node,
            site: key.site,
            home: key.home,
            class: key.class,
            reads: counts.reads,
            writes: counts.writes,
            samples: counts.samples,
            period,
        })
    }

    pub fn page_miss_rows(self) -> impl Iterator<Item = tables::PageMiss> + 'a {
        self.page_misses.iter().map(move |(key, counts)| tables::PageMiss {
            process: key.process,
            bin: key.bin,
            thread: key.thread,
            node: key.node,
            home: key.home,
            page: key.page,
            reads: counts.reads,
            writes: counts.writes,
        })
    }

    pub fn site_miss_rows(self) -> impl Iterator<Item = tables::SiteMiss> + 'a {
        self.site_misses.iter().map(move |(key, counts)| tables::SiteMiss {
            process: key.process,
            bin: key.bin,
            thread: key.thread,
            node: key.node,
            site: key.site,
            home: key.home,
            class: key.class,
            reads: counts.reads,
            writes: counts.writes,
        })
    }

    pub fn object_rows(self, period: u64) -> impl Iterator<Item = tables::ObjectAccess> + 'a {
        self.objects.iter().map(move |(key, counts)| tables::ObjectAccess {
            process: key.process,
            bin: key.bin,
            thread: key.thread,
            node: key.node,
            site: key.site,
            object: key.object,
            home: key.home,
            class: key.class,
            reads: counts.reads,
            writes: counts.writes,
            samples: counts.samples,
            period,
        })
    }

    pub fn code_rows(self, period: u64) -> impl Iterator<Item = tables::CodeFetch> + 'a {
        self.code.iter().map(move |(key, counts)| tables::CodeFetch {
            process: key.process,
            bin: key.bin,
            thread: key.thread,
            node: key.node,
            page: key.page,
            module: key.module,
            home: key.home,
            instructions: counts.reads,
            period,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(page: u64, bin: Bin) -> Attributed {
        Attributed {
            process: ProcessId(0),
            thread: ThreadId(0),
            bin,
            node: None,
            site: SiteId(0),
            page: Page(page),
            object: ObjectId(0),
            home: None,
            class: Class::Unplaced,
            access: Access::ReadWrite,
            weight: 1,
        }
    }

    #[test]
    fn memory_stays_bounded_and_nothing_is_lost() {
        let mut facts = FactTables::new(200);
        let total = 900_000u64;
        for n in 0..total {
            let time = n * 40_000;
            let (bin, _) = facts.bin(time);
            facts.add_access(access(n * 7, bin));
            facts.keep_within_limits(time);
        }
        assert!(facts.len() <= MOST_FACTS);
        assert!(!facts.coarsened.is_empty());
        let sum = |reads: u64, row: u64| reads + row;
        let facts = facts.settled();
        assert_eq!(facts.page_rows(1).map(|row| row.reads).fold(0, sum), total);
        assert_eq!(facts.site_rows(1).map(|row| row.writes).fold(0, sum), total);
        assert_eq!(facts.object_rows(1).map(|row| u64::from(row.samples)).fold(0, sum), total);
    }

    #[test]
    fn exact_counts_stay_exact_beside_estimates() {
        let mut facts = FactTables::new(200);
        for (reads, samples) in [(100, 0), (30, 2), (5, 0), (7, 1)] {
            let key = ObjectKey {
                process: ProcessId(0),
                bin: Bin(0),
                thread: ThreadId(0),
                node: None,
                site: None,
                object: ObjectId(3),
                home: None,
                class: Class::Unplaced,
                estimated: samples > 0,
            };
            facts.add_object(key, Counts { reads, writes: 0, samples });
        }
        let facts = facts.settled();
        let rows: Vec<(u64, u32)> = facts.object_rows(1).map(|row| (row.reads, row.samples)).collect();
        assert_eq!(rows, [(105, 0), (37, 3)]);
    }
}
