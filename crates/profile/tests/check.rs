//! Each invariant holds in the example and is found broken where a test breaks it.

use numalens_profile::ids::*;
use numalens_profile::tables::{MainUser, NodePage, PageSum, TargetPart};
use numalens_profile::testing::Synthetic;
use numalens_profile::words::Class;
use numalens_profile::{Profile, check};
use numalens_topology::NodeId;

/// The violations of the example after a change, as text.
fn violations(change: impl FnOnce(&mut Synthetic)) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let mut example = Synthetic::example();
    change(&mut example);
    let path = example.write(&scratch.path().join("a.numalens")).unwrap();
    check(&Profile::open(&path).unwrap()).unwrap().iter().map(ToString::to_string).collect()
}

/// Asserts that the change breaks one invariant.
#[track_caller]
fn breaks(expected: &str, change: impl FnOnce(&mut Synthetic)) {
    assert_eq!(violations(change), [expected]);
}

#[test]
fn the_example_is_valid_and_complete() {
    assert_eq!(violations(|_| ()), [""; 0]);
    let example = Synthetic::example();
    for class in Class::ALL {
        assert!(example.site_accesses.iter().any(|fact| fact.class == *class), "no {} access", class.word());
    }
}

#[test]
fn an_empty_profile_lacks_only_its_machine() {
    let all = violations(|example| *example = Synthetic { machine: example.machine.clone(), ..Synthetic::default() });
    assert_eq!(all, [""; 0]);
    let all = violations(|example| *example = Synthetic::default());
    assert!(
        all.len() == 1
            && all[0].starts_with("the machine is consistent: table machine: ")
            && all[0].contains("it has no nodes"),
        "{all:?}"
    );
}

#[test]
fn ids() {
    breaks("ids are unique and dense: table functions: id 2 is there twice", |example| {
        let again = example.functions[2].clone();
        example.functions.push(again);
    });
}

#[test]
fn holes() {
    let all = violations(|example| {
        example.modules[1].module = ModuleId(7);
        example.sites.iter_mut().for_each(|site| site.module = Some(ModuleId(7)));
        example.functions.iter_mut().for_each(|function| function.module = None);
        example.mappings.clear();
        example.code_fetches.clear();
    });
    assert_eq!(all, ["ids are unique and dense: table modules: id 1 is missing: 2 rows have ids up to 7"]);
}

#[test]
fn cache_lines() {
    let breaks = |expected: &str, change: fn(&mut Synthetic)| {
        let all = violations(|example| {
            *example = std::mem::take(example).with_lines();
            change(example);
        });
        assert_eq!(all, [expected]);
    };
    assert_eq!(violations(|example| *example = std::mem::take(example).with_lines()), [""; 0]);
    breaks(
        "cache lines are told consistently: table cache_lines: line Some(0) of thread 1 in page 0x404 stands for 2 lines",
        |example| example.cache_lines[0].lines = 2,
    );
    breaks(
        "cache lines are told consistently: table cache_lines: 2 transitions that are true or false sharing of thread 2 in page 0x404, 1 more than can be",
        |example| example.cache_lines[1].true_sharing = 1,
    );
    breaks(
        "cache lines are told consistently: table cache_lines: words 0x4 of thread 1 in page 0x404 are written and not accessed",
        |example| example.cache_lines[0].words_written = 4,
    );
    breaks(
        "cache lines count the accesses of pages: table cache_lines: thread 3 of process 1 has 6 reads, 1 more than the 5 of page_accesses",
        |example| example.cache_lines.last_mut().unwrap().reads += 1,
    );
    breaks(
        "threads communicate by transitions: table line_communication: thread 2 of process 0 has 5 accesses after others, 3 more than the 2 of cache_lines",
        |example| example.line_communication[0].accesses += 3,
    );
    breaks("references lead to a row: table line_communication: other 77 is not in table threads", |example| {
        example.line_communication[0].other = ThreadId(77)
    });
}

#[test]
fn misses() {
    let breaks = |expected: &str, change: fn(&mut Synthetic)| {
        let all = violations(|example| {
            *example = std::mem::take(example).with_cache();
            change(example);
        });
        assert!(all.len() == 1 && all[0].starts_with(expected), "{all:?}");
    };
    assert_eq!(violations(|example| *example = std::mem::take(example).with_cache()), [""; 0]);
    breaks("what misses a cache is accessed: table site_misses: 1", |example| {
        let missed = example.site_misses.iter_mut().find(|row| row.reads > 0).unwrap();
        let (more, thread) = (100 - missed.reads, missed.thread);
        missed.reads += more;
        example.page_misses.iter_mut().find(|row| row.thread == thread).unwrap().reads += more;
    });
    breaks("what misses a cache is accessed: table page_misses: ", |example| example.page_misses[0].writes += 1);
    breaks("bins lie within the recording: table page_misses: bin 4", |example| example.page_misses[0].bin = Bin(4));
}

#[test]
fn references() {
    breaks("references lead to a row: table samples: object 99 is not in table objects", |example| {
        example.samples[3].object = Some(ObjectId(99))
    });
    breaks("references lead to a row: table frames: function 70 is not in table functions", |example| {
        example.frames[0].function = FunctionId(70)
    });
    breaks("references lead to a row: table placements: node 9 is not in table machine (and 1 more rows)", |example| {
        example.placements[0].node = Some(NodeId(9));
        example.placements[1].node = Some(NodeId(9));
    });
}

#[test]
fn owners() {
    breaks(
        "threads belong to their process: table allocations: thread 3 stands in a row of process 0, but belongs to process 1",
        |example| example.allocations[0].thread = ThreadId(3),
    );
}

#[test]
fn stacks() {
    breaks("stacks are trees: table stacks: stack 2 has parent 2, which is not before it", |example| {
        example.stacks[2].parent = Some(StackId(2))
    });
    breaks("stacks are trees: table stacks: stack 1 has parent 3, which is not before it", |example| {
        example.stacks[1].parent = Some(StackId(3))
    });
}

#[test]
fn frames() {
    breaks(
        "frames of a site are complete: table frames: site 1 has a frame of depth 2 where depth 1 should follow",
        |example| example.frames[2].depth = 2,
    );
    breaks(
        "frames of a site are complete: table frames: site 1 has a frame of depth 0 where depth 1 should follow",
        |example| example.frames[2].depth = 0,
    );
}

#[test]
fn times() {
    breaks("times run forwards: table objects: object 0 starts at 500000 ns and ends 499999 ns before", |example| {
        example.objects[0].death_ns = Some(1)
    });
    breaks(
        "times run forwards: table mappings: a mapping of process 0 ends at 0x401000, not behind its start 0x401000",
        |example| example.mappings[0].end = example.mappings[0].start,
    );
}

#[test]
fn bins() {
    breaks(
        "bins lie within the recording: table code_fetches: bin 4 is not below 4, the number of bins in meta",
        |example| example.code_fetches[0].bin = Bin(4),
    );
    breaks("bins lie within the recording: table pages: page 0x7f0000000 is placed from bin 2 to bin 1", |example| {
        (example.pages[0].bin_from, example.pages[0].bin_to) = (Bin(2), Some(Bin(1)))
    });
    // Exclusive.
    assert_eq!(violations(|example| example.pages[0].bin_to = Some(Bin(4))), [""; 0]);
}

#[test]
fn periods() {
    breaks("periods and samples fit the counts: table samples: the period is 0", |example| {
        example.samples[0].period = 0
    });
    let all = violations(|example| example.page_accesses[0].samples = 7);
    assert_eq!(
        all[0],
        "periods and samples fit the counts: table page_accesses: 7 samples stand behind 2 accesses, 5 too many"
    );
    let all = violations(|example| example.object_accesses.iter_mut().for_each(|fact| fact.samples = 0));
    assert!(
        all.len() == 1
            && all[0].starts_with(
                "periods and samples fit the counts: table object_accesses: an exact count (no samples) of "
            ),
        "{all:?}"
    );
}

#[test]
fn classes() {
    breaks(
        "classes fit nodes and homes: table samples: accesses of a thread on node 0 to pages on node 0 are called remote, expected local or unpinned_page",
        |example| {
            let sample = example.samples.iter_mut().find(|sample| sample.class == Class::Local).unwrap();
            sample.class = Class::Remote;
        },
    );
    breaks(
        "classes fit nodes and homes: table site_accesses: accesses of an unpinned thread to pages on node 3 are called memory_tier_local, expected memory_tier_remote",
        |example| {
            let fact = example.site_accesses.iter_mut().find(|fact| fact.class == Class::MemoryTierRemote).unwrap();
            fact.class = Class::MemoryTierLocal;
        },
    );
    breaks(
        "classes fit nodes and homes: table object_accesses: accesses of a thread on node 1 to pages without a home are called local, expected unplaced",
        |example| {
            let fact = example.object_accesses.iter_mut().find(|fact| fact.class == Class::Unplaced).unwrap();
            fact.class = Class::Local;
        },
    );
}

#[test]
fn machines() {
    let all = violations(|example| example.machine[2].distances = "22 16 10".to_owned());
    assert!(all.len() == 1 && all[0].ends_with("node 2 has 3 distances, but there are 4 nodes"), "{all:?}");
}

#[test]
fn sizes() {
    breaks("placed pages have a size: table pages: page 0x7f0000001 has size 12288", |example| {
        example.pages[1].page_size = 12288
    });
    breaks("placed pages have a size: table pages: the run at page 0x7f0000001 has no pages", |example| {
        example.pages[1].count = 0
    });
}

#[test]
fn overlaps() {
    breaks(
        "a page has one home at a time: table pages: in bin 0 process 0 has two homes for page 0x7f0000001: runs 0x7f0000000 to 0x7f0000002 and 0x7f0000001 to 0x7f0000002",
        |example| example.pages[0].count = 2,
    );
    breaks(
        "a page has one home at a time: table pages: in bin 1 process 0 has two homes for page 0x7f0000002: runs 0x7f0000002 to 0x7f0000003 and 0x7f0000000 to 0x7f0000003",
        |example| {
            let mut moved = example.pages[0].clone();
            (moved.bin_from, moved.count) = (Bin(1), 3);
            (example.pages[0].bin_to, example.pages[1].bin_to) = (Some(Bin(1)), Some(Bin(0)));
            example.pages.push(moved);
        },
    );
    // A page that moves, and the same page number in another process, are no overlaps.
    let moved = violations(|example| {
        let mut moved = example.pages[0].clone();
        let mut other = moved.clone();
        moved.bin_from = Bin(2);
        example.pages[0].bin_to = Some(Bin(2));
        other.process = ProcessId(1);
        example.pages.extend([moved, other]);
    });
    assert_eq!(moved, [""; 0]);
}

#[test]
fn totals() {
    breaks(
        "facts count the same accesses: table page_accesses: thread 1 of process 0 has 38 reads, 10 more than the 28 of site_accesses",
        |example| {
            let fact = example.page_accesses.iter_mut().find(|fact| fact.thread == ThreadId(1)).unwrap();
            fact.reads += 10;
        },
    );
    breaks(
        "facts count the same accesses: table object_accesses: thread 3 of process 1 has 0 reads, 5 fewer than the 5 of site_accesses",
        |example| {
            example.object_accesses.retain(|fact| fact.thread != ThreadId(3));
        },
    );
    // As many of each thread, but of another place.
    let moved = |example: &mut Synthetic| {
        let facts = example.page_accesses.iter_mut().filter(|fact| fact.thread == ThreadId(1));
        facts.for_each(|fact| fact.node = Some(NodeId(0)));
    };
    breaks(
        "facts count the same accesses: table page_accesses: thread 1 of process 0 has 28 reads while bound to node 0, 28 more than the 0 of site_accesses (and 1 more rows)",
        moved,
    );
    let older = violations(|example| {
        moved(example);
        example.older = true;
    });
    assert_eq!(older, [""; 0], "older versions did not tell the place");
    // Absent facts claim nothing; a sampled subset beside exact counts is an estimate.
    assert_eq!(violations(|example| example.page_accesses.clear()), [""; 0]);
    let estimate = violations(|example| {
        example.object_accesses.truncate(1);
        example.page_accesses.iter_mut().for_each(|fact| (fact.samples, fact.period) = (0, 1));
        example.site_accesses.iter_mut().for_each(|fact| (fact.samples, fact.period) = (0, 1));
    });
    assert_eq!(estimate, [""; 0]);
}

/// The violations of the example with sums of each thread's page accesses, after a change.
fn summed(change: impl FnOnce(&Profile)) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let example = Synthetic::example();
    let profile = Profile::open(&example.write(&scratch.path().join("a.numalens")).unwrap()).unwrap();
    let sums = example.page_accesses.iter().map(|row| PageSum {
        first_row: Some(0),
        thread: row.thread,
        node: row.node,
        home: row.home,
        initial: false,
        reads: row.reads,
        writes: row.writes,
        waiting_reads: 0,
        waiting_writes: 0,
    });
    profile.replace(sums).unwrap();
    change(&profile);
    check(&profile).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn sums() {
    assert_eq!(summed(|_| ()), [""; 0]);
    let broken = summed(|profile| {
        let mut sums = profile.rows::<PageSum>().unwrap();
        sums.iter_mut().filter(|row| row.thread == ThreadId(0)).for_each(|row| row.reads += 1);
        profile.replace(sums).unwrap();
    });
    assert!(
        broken.len() == 1 && broken[0].starts_with("sums are those of the facts: table page_sums: thread 0 has "),
        "{broken:?}"
    );
    let broken = summed(|profile| {
        let mut sums = profile.rows::<PageSum>().unwrap();
        sums[0].first_row = Some(1000);
        profile.replace(sums).unwrap();
    });
    assert_eq!(broken.len(), 1);
    assert!(
        broken[0].starts_with("sums of memory fit each other: table page_sums: row 1000 is none of "),
        "{broken:?}"
    );
    let broken = summed(|profile| {
        let (process, page) = (ProcessId(0), Page(1));
        profile.replace([NodePage { process, page, node: None, home: None, reads: 0, writes: 0 }]).unwrap();
    });
    assert_eq!(broken.len(), 1);
    assert!(
        broken[0].starts_with("sums are those of the facts: table node_pages: all rows have 0 reads"),
        "{broken:?}"
    );
    let broken = summed(|profile| {
        let node = NodeId(0);
        profile.replace([MainUser { node, own: 3, accesses: 2 }]).unwrap();
        let part = TargetPart { first_row: 0, huge: true, process: ProcessId(0), number: 7, node, accesses: 1 };
        profile.replace([part]).unwrap();
    });
    assert_eq!(
        broken,
        [
            "sums of memory fit each other: table target_parts: row 0 begins no memory of target_sums",
            "sums of memory fit each other: table main_users: 3 of 2 accesses are the main user's",
        ]
    );
}
