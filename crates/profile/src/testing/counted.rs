//! What recordings that look at every access by itself have besides: cache lines, cache misses.

use super::Synthetic;
use crate::CACHE;
use crate::ids::*;
use crate::tables::*;
use std::collections::BTreeMap;

impl Synthetic {
    /// The example with cache lines: threads that access the same page take its first line from each other, once each,
    /// at words of their own; what a page's only thread accessed is told together.
    pub fn with_lines(mut self) -> Synthetic {
        let mut pages: BTreeMap<(ProcessId, Page), BTreeMap<ThreadId, [u64; 2]>> = BTreeMap::new();
        for row in &self.page_accesses {
            let counts = pages.entry((row.process, row.page)).or_default().entry(row.thread).or_default();
            *counts = [counts[0] + row.reads, counts[1] + row.writes];
        }
        let objects: BTreeMap<Page, ObjectId> =
            self.pages.iter().filter_map(|row| Some((row.page, row.object?))).collect();
        for ((process, page), users) in pages {
            let threads: Vec<ThreadId> = users.keys().copied().collect();
            for (at, (thread, [reads, writes])) in users.into_iter().enumerate() {
                let others = at.checked_sub(1).map(|before| threads[before]);
                self.line_communication.extend(others.map(|other| LineCommunication {
                    process,
                    thread,
                    other,
                    accesses: 1,
                }));
                let taken = u64::from(others.is_some());
                let (shared, word) = (threads.len() > 1, 1 << at);
                self.cache_lines.push(CacheLine {
                    process,
                    thread,
                    page,
                    line: shared.then_some(0),
                    lines: if shared { 1 } else { 2 },
                    object: shared.then(|| objects.get(&page).copied()).flatten(),
                    reads,
                    writes,
                    words_accessed: if shared { word } else { 0 },
                    words_written: if shared && writes > 0 { word } else { 0 },
                    transitions: taken,
                    node_transitions: taken,
                    true_sharing: 0,
                    false_sharing: taken,
                });
            }
        }
        self
    }

    /// The example with objects of which a tenth may be more or less.
    pub fn with_bounds(mut self) -> Synthetic {
        let mut accesses: BTreeMap<(ProcessId, ObjectId), u64> = BTreeMap::new();
        for row in &self.object_accesses {
            *accesses.entry((row.process, row.object)).or_default() += row.reads + row.writes;
        }
        self.object_bounds.extend(accesses.into_iter().map(|((process, object), all)| ObjectBound {
            process,
            object,
            divided: all / 10,
            squares: all as f64,
            untold: all / 20,
            skewed: all / 100,
        }));
        self
    }

    /// The example with a private cache of 32 KiB for each thread, which every second read and no write misses.
    pub fn with_cache(mut self) -> Synthetic {
        let cache = serde_json::json!({"bytes": 32768, "ways": 8, "line": 64});
        self.meta.extra.insert(CACHE.to_owned(), cache);
        let mut left: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for row in &self.site_accesses {
            let reads = row.reads / 2;
            *left.entry(row.thread).or_default() += reads;
            self.site_misses.push(SiteMiss {
                process: row.process,
                bin: row.bin,
                thread: row.thread,
                node: row.node,
                site: row.site,
                home: row.home,
                class: row.class,
                reads,
                writes: 0,
            });
        }
        for row in &self.page_accesses {
            let left = left.entry(row.thread).or_default();
            let reads = row.reads.min(*left);
            *left -= reads;
            self.page_misses.push(PageMiss {
                process: row.process,
                bin: row.bin,
                thread: row.thread,
                node: row.node,
                home: row.home,
                page: row.page,
                reads,
                writes: 0,
            });
        }
        self
    }
}
