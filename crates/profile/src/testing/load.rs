//! Many rows of the shape that recordings have, to measure with: threads that sweep over their share of pages bin after
//! bin, with counts that scatter, and some traffic to pages of others.

use crate::ids::*;
use crate::tables::{PageAccess, SiteAccess};
use crate::words::Class;
use numalens_topology::NodeId;

/// Bins, threads and sites of the load.
const BINS: u64 = 200;
const THREADS: u64 = 16;
const SITES: u64 = 500;

/// SplitMix64: scatter without a dependency, the same in every run.
pub(crate) fn scatter(index: u64) -> u64 {
    let mut value = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// `rows` rows sorted by bin, thread and page, as collectors write them.
pub fn page_accesses(rows: u64) -> impl Iterator<Item = PageAccess> {
    let each = (rows / (BINS * THREADS)).max(1);
    (0..rows).map(move |index| {
        let (bin, thread, nth) = (index / each / THREADS, index / each % THREADS, index % each);
        let noise = scatter(index);
        // Its own share page by page with gaps; one in eight pages lies anywhere.
        let page = if noise.is_multiple_of(8) {
            0x7_f000_0000 + noise % (THREADS * each * 2)
        } else {
            0x7_f000_0000 + 2 * thread * each + 2 * nth + noise % 2
        };
        // Most pages see a full sweep of 512 words, some a part of it.
        let reads = if noise % 4 < 3 { 512 } else { noise >> 40 & 1023 };
        let writes = if thread % 2 == 0 { reads / 2 } else { noise >> 54 };
        PageAccess {
            process: ProcessId(0),
            bin: Bin((bin % BINS) as u32),
            thread: ThreadId(thread as u32),
            node: Some(NodeId((thread % 4) as u16)),
            home: Some(NodeId((noise % 4) as u16)),
            page: Page(page),
            reads,
            writes,
            samples: 0,
            period: 1,
        }
    })
}

/// `rows` rows of several sites per thread and bin.
pub fn site_accesses(rows: u64) -> impl Iterator<Item = SiteAccess> {
    let each = (rows / (BINS * THREADS)).max(1);
    (0..rows).map(move |index| {
        let (bin, thread, nth) = (index / each / THREADS, index / each % THREADS, index % each);
        let noise = scatter(index);
        let (node, home) = (thread % 4, noise % 4);
        SiteAccess {
            process: ProcessId(0),
            bin: Bin((bin % BINS) as u32),
            thread: ThreadId(thread as u32),
            node: Some(NodeId(node as u16)),
            site: SiteId((nth % SITES) as u32),
            home: Some(NodeId(home as u16)),
            class: if node == home { Class::Local } else { Class::Remote },
            reads: noise >> 44,
            writes: noise >> 20 & 4095,
            samples: 0,
            period: 1,
        }
    })
}
