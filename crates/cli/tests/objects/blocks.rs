//! How often blocks were used, against arithmetic.

use super::*;
use numalens_profile::tables::SiteAccess;

#[test]
fn blocks_are_used_as_often_as_arithmetic_says() {
    // Where a library is preloaded, and where the allocator is a part of the program.
    for linked in [&["-pie"][..], &["-static"], &["-static-pie"], &["-xc"], &["-xc", "-static"]] {
        blocks_are_used(linked);
    }
}

fn blocks_are_used(linked: &[&str]) {
    let lab = Lab::exact();
    let recorded = record(&lab, "blocks.cc", &[&["-O1", "-g", "-pthread"], linked].concat());
    let rows = objects(&recorded, "blocks.cc");
    let mib = 1 << 20;
    // Size, blocks, reads, writes. The allocator keeps a word or two beside blocks that have pages of their own, and
    // clears some.
    let wanted: [(&str, u64, u64, u64, u64); 11] = [
        ("malloc", mib, 1, 0, 3 * mib),
        ("calloc", 300_000, 1, 300_000, 0),
        ("before", 300_000, 1, 0, 300_000),
        ("realloc", 900_000, 1, 900_000, 0),
        ("posix_memalign", 8 * 65_536, 8, 0, 65_536 * 36),
        ("aligned_alloc", 40_960, 1, 0, 5 * 40_960),
        ("new", 500_000, 1, 0, 500_000),
        ("mmap", mib, 1, 0, mib / 2),
        ("lent", mib, 1, 0, mib),
        ("by-thread", 200_000, 1, 200_000, 400_000),
        ("table", mib, 1, 0, 2 * mib),
    ];
    for (tag, size, count, reads, writes) in wanted {
        let row = rows.get(tag).unwrap_or_else(|| panic!("{linked:?}: no object {tag}: {:?}", rows.keys()));
        assert_eq!((number(&row["size"]), number(&row["count"])), (size, count), "{linked:?}: {tag}");
        let found = (number(&row["reads"]), number(&row["writes"]));
        let musl = linked.contains(&"-xc");
        let of_the_allocator = match tag {
            "table" => 0,
            // It looks whether the block is clear, by words, where its malloc is another's.
            "calloc" if musl => size / 8,
            _ => 40,
        };
        // How musl divides a mapping is its own affair: the first and the last page of a block belong to nobody alone,
        // nor do others when the block goes.
        if musl {
            let [low, high] = interval(row);
            let at_the_edges = (reads + writes) * 2 * 4096 * count / size;
            assert!(
                low <= (reads + writes + of_the_allocator) as f64 && (reads + writes - at_the_edges) as f64 <= high,
                "{linked:?}: {tag}: {low} to {high}, not {reads} reads and {writes} writes"
            );
            continue;
        }
        assert!(
            (reads..=reads + of_the_allocator).contains(&found.0)
                && (writes..=writes + of_the_allocator).contains(&found.1),
            "{linked:?}: {tag}: {found:?} reads and writes, not {reads} and {writes}"
        );
    }
}

/// The collector reads whose pages are and how often they were used one after the other, while the program goes on.
#[test]
fn blocks_have_their_first_bytes_though_the_allocator_was_there_before() {
    let lab = Lab::exact();
    for linked in ["-pie", "-static"] {
        let recorded = record(&lab, "first_bytes.c", &["-O1", "-g", linked]);
        let row = &objects(&recorded, "first_bytes.c")["blocks"];
        assert_eq!(number(&row["count"]), 4000, "{linked}");
        let (writes, of_the_allocator) = (number(&row["writes"]), 2 * 4000);
        assert!((0..=of_the_allocator).contains(&(writes - 4000 * 4000 * 40)), "{linked}: {writes}");
    }
}

#[test]
fn blocks_of_an_allocator_of_the_programs_own_are_objects() {
    let lab = Lab::exact();
    let recorded = record(&lab, "arena.cc", &["-O1", "-g"]);
    let rows = objects(&recorded, "arena.cc");
    let mib = 1 << 20;
    for (tag, name, size, writes) in [
        ("grid", "the grid", mib, 3 * mib),
        ("halo", "", mib / 2, mib),
        ("later", "", mib, 4 * mib),
        ("pool", "", 2 * mib, 3 * mib),
        ("piece", "", mib, 2 * mib),
        ("arena", "arena", 8 * mib, 2 * mib),
    ] {
        let row = rows.get(tag).unwrap_or_else(|| panic!("no object {tag}: {:?}", rows.keys()));
        assert_eq!(row["name"].as_str().unwrap_or_default(), name, "{tag}");
        assert_eq!((number(&row["size"]), number(&row["count"])), (size, 1), "{tag}");
        let known = (number(&row["reads"]), number(&row["writes"]));
        if ["grid", "pool", "piece", "arena"].contains(&tag) {
            // Whatever is where one was, once it has gone, might have been used as well.
            let [low, high] = interval(row);
            assert!(low <= writes as f64 && writes as f64 <= high, "{tag}: {low} to {high}, not {writes}");
        } else {
            assert_eq!(known, (0, writes), "{tag}");
        }
    }
}

#[test]
fn objects_of_one_page_are_told_apart_by_accesses_that_are_looked_at() {
    let lab = Lab::exact();
    let recorded = record(&lab, "blocks.cc", &["-O1", "-g", "-pthread"]);
    let rows = objects(&recorded, "blocks.cc");
    let (one, two) = (&rows["small_one"], &rows["small_two"]);
    let writes = |row: &Value| number(&row["writes"]) as f64;
    let samples = number(&one["samples"]) + number(&two["samples"]);
    assert!(samples > 0, "{one} {two}");
    // What was counted before the first access was looked at is in a row of its own: on a busy machine that may be
    // much.
    let (sum, truth) = (writes(one) + writes(two), 1_500_000.0 * 256.0);
    assert!(sum > 0.0 && sum < 1.01 * truth, "{sum} of {truth}");
    // Three of four go to the one. Five standard deviations of so many samples, and what the first accesses after a
    // pause differ.
    let (share, deviation) = (writes(one) / sum, (0.75 * 0.25 / samples as f64).sqrt());
    assert!((share - 0.75).abs() < 5.0 * deviation + 0.05, "{share} from {samples} samples");
}

/// Whose a page was before says nothing of whose its accesses are now, and what nobody has looked at may be anybody's.
#[test]
fn objects_that_have_pages_one_after_the_other_have_as_many_accesses_as_their_intervals_say() {
    let lab = Lab::exact();
    let recorded = record_with(&lab, "one_after_other.c", &["-O1", "-g"], &[], &["400"]);
    let said = recorded.said();
    let rows = objects(&recorded, "one_after_other.c");
    for line in said.lines() {
        let (tag, truth) = line.split_once(' ').unwrap();
        let (row, truth) = (&rows[tag], truth.parse::<f64>().unwrap());
        let ([low, high], known) = (interval(row), number(&row["accesses"]) as f64);
        // The allocator accesses a few words of each block besides, and what clears fresh memory.
        let allocator = 0.003 * truth;
        assert!(low <= known && known <= high, "{tag}: {row}");
        assert!(low - allocator <= truth && truth <= high, "{tag}: {low} to {high}, not {truth}: {row}");
    }
}

/// What comes to lie where a block was, and what the allocator copies for one that grows, is not the block's, even
/// where it alone is known to have been there.
#[test]
fn blocks_that_are_freed_or_grow_have_no_more_accesses_than_their_intervals_say() {
    let lab = Lab::exact();
    for linked in ["-pie", "-static"] {
        let recorded = record_with(&lab, "grown.c", &["-O1", "-g", linked], &[], &["50"]);
        let said = recorded.said();
        let rows = objects(&recorded, "grown.c");
        for line in said.lines() {
            let (tag, truth) = line.split_once(' ').unwrap();
            // There is no row of what may have none.
            let Some(row) = rows.get(tag) else { continue };
            let (truth, [low, high]) = (truth.parse::<f64>().unwrap(), interval(row));
            // A few words of each block are the allocator's.
            let allocator = 50.0 * 10.0;
            assert!(low - allocator <= truth && truth <= high, "{linked}: {tag}: {low} to {high}, not {truth}: {row}");
        }
    }
}

#[test]
fn blocks_of_forked_children_are_told_apart() {
    for linked in ["-pie", "-static"] {
        let lab = Lab::exact();
        let recorded = record(&lab, "forked.cc", &["-O1", "-g", linked]);
        let rows = objects(&recorded, "forked.cc");
        let mib = 1 << 20;
        for (tag, size, writes) in [("both", mib, 2 * mib), ("child", 2 * mib, 2 * mib), ("parent", 3 * mib, 3 * mib)] {
            let row = rows.get(tag).unwrap_or_else(|| panic!("{linked}: no object {tag}: {:?}", rows.keys()));
            assert_eq!(number(&row["size"]), size, "{linked}: {tag}");
            let found = number(&row["writes"]);
            assert!((writes..writes + 40).contains(&found), "{linked}: {tag}: {found} writes, not {writes}");
        }
    }
}

#[test]
fn accesses_by_object_are_all_accesses() {
    let lab = Lab::exact();
    let recorded = record(&lab, "blocks.cc", &["-O1", "-g", "-pthread"]);
    let profile = recorded.profile();
    let mut sites: BTreeMap<(ThreadId, String), (u64, u64)> = BTreeMap::new();
    for row in profile.rows::<SiteAccess>().unwrap() {
        let sum = sites.entry((row.thread, format!("{:?} {:?}", row.home, row.class))).or_default();
        *sum = (sum.0 + row.reads, sum.1 + row.writes);
    }
    let mut objects: BTreeMap<(ThreadId, String), (u64, u64)> = BTreeMap::new();
    let known: Vec<ObjectId> = profile.rows::<Object>().unwrap().into_iter().map(|object| object.object).collect();
    for row in profile.rows::<ObjectAccess>().unwrap() {
        assert!(known.contains(&row.object));
        let sum = objects.entry((row.thread, format!("{:?} {:?}", row.home, row.class))).or_default();
        *sum = (sum.0 + row.reads, sum.1 + row.writes);
    }
    assert_eq!(objects, sites);
}
