//! Objects of exact recordings: what a program's blocks are, who made and freed them, and how often each was used,
//! against arithmetic.

#[path = "objects/handed_on.rs"]
mod handed_on;
#[path = "objects/lines.rs"]
mod lines;
#[path = "objects/named.rs"]
mod named;
#[path = "objects/paused.rs"]
mod paused;
#[path = "objects/reserved.rs"]
mod reserved;
#[path = "objects/temporary.rs"]
mod temporary;
#[path = "objects/thread_local.rs"]
mod thread_local;

use numalens_profile::Profile;
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::tables::{Allocation, Object, ObjectAccess, SiteAccess};
use numalens_profile::words::Call;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn numalens() -> Command {
    Command::new(env!("CARGO_BIN_EXE_numalens"))
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects").join(name)
}

/// Compiles a program that stands beside this file, and records it.
fn record(directory: &Path, name: &str, flags: &[&str]) -> PathBuf {
    record_with(directory, name, flags, &[], &[]).0
}

/// The same with options and the program's arguments. What it wrote comes too.
fn record_with(
    directory: &Path,
    name: &str,
    flags: &[&str],
    options: &[&str],
    arguments: &[&str],
) -> (PathBuf, String) {
    let program = directory.join(name.split('.').next().unwrap());
    let headers = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    // musl-gcc has no C++ library, so it takes the program for C.
    let mut compiler = Command::new(if flags.contains(&"-xc") { "musl-gcc" } else { "c++" });
    let status = compiler.args(flags).arg(source(name)).arg("-o").arg(&program).arg(headers).status().unwrap();
    assert!(status.success(), "{name} does not compile");
    let profile = directory.join("p.numalens");
    let output = numalens()
        .args(["record", "-q", "-f", "--machine", "4x2", "-o"])
        .arg(&profile)
        .args(if options.contains(&"--engine") { &[][..] } else { &["--engine", "exact"] })
        .args(options)
        .arg("--")
        .arg(&program)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let checked = numalens().arg("check").arg(&profile).output().unwrap();
    assert!(checked.status.success(), "check: {}", String::from_utf8_lossy(&checked.stderr));
    (profile, String::from_utf8(output.stdout).unwrap())
}

/// Rows of section `objects` by the tag of the line that allocated them, or by name.
fn objects(profile: &Path, name: &str) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(source(name)).unwrap();
    let tags: Vec<Option<&str>> =
        text.lines().map(|line| line.split_once("EXPECT ").map(|(_, tag)| tag.trim())).collect();
    let output = numalens().arg("report").arg(profile).args(["--section", "objects", "--format", "json"]).output();
    let report: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let mut rows = BTreeMap::new();
    for row in report["objects"].as_array().unwrap() {
        let file = row["site"]["file"].as_str().unwrap_or_default();
        let line = row["site"]["line"].as_u64().unwrap_or(0) as usize;
        let tag = if file.ends_with(name) { line.checked_sub(1).and_then(|at| tags[at]) } else { None };
        let key = tag.map_or_else(|| row["name"].as_str().unwrap_or_default().to_owned(), str::to_owned);
        rows.insert(key, row.clone());
    }
    rows
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value["value"].as_u64()).unwrap_or_else(|| panic!("{value} is no count"))
}

/// How many accesses a row has at least, and at most.
fn interval(row: &Value) -> [f64; 2] {
    let known = number(&row["accesses"]) as f64;
    [0, 1].map(|end| row["intervals"]["accesses"][end].as_f64().unwrap_or(known))
}

#[test]
fn blocks_are_used_as_often_as_arithmetic_says() {
    // Where a library is preloaded, and where the allocator is a part of the program.
    for linked in [&["-pie"][..], &["-static"], &["-static-pie"], &["-xc"], &["-xc", "-static"]] {
        blocks_are_used(linked);
    }
}

fn blocks_are_used(linked: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let profile = record(directory.path(), "blocks.cc", &[&["-O1", "-g", "-pthread"], linked].concat());
    let rows = objects(&profile, "blocks.cc");
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
    let directory = tempfile::tempdir().unwrap();
    for linked in ["-pie", "-static"] {
        let profile = record(directory.path(), "first_bytes.c", &["-O1", "-g", linked]);
        let row = &objects(&profile, "first_bytes.c")["blocks"];
        assert_eq!(number(&row["count"]), 4000, "{linked}");
        let (writes, of_the_allocator) = (number(&row["writes"]), 2 * 4000);
        assert!((0..=of_the_allocator).contains(&(writes - 4000 * 4000 * 40)), "{linked}: {writes}");
    }
}

#[test]
fn blocks_of_an_allocator_of_the_programs_own_are_objects() {
    let directory = tempfile::tempdir().unwrap();
    let profile = record(directory.path(), "arena.cc", &["-O1", "-g"]);
    let rows = objects(&profile, "arena.cc");
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
    let directory = tempfile::tempdir().unwrap();
    let profile = record(directory.path(), "blocks.cc", &["-O1", "-g", "-pthread"]);
    let rows = objects(&profile, "blocks.cc");
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
    let directory = tempfile::tempdir().unwrap();
    let (profile, said) = record_with(directory.path(), "one_after_other.c", &["-O1", "-g"], &[], &["400"]);
    let rows = objects(&profile, "one_after_other.c");
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
    let directory = tempfile::tempdir().unwrap();
    for linked in ["-pie", "-static"] {
        let (profile, said) = record_with(directory.path(), "grown.c", &["-O1", "-g", linked], &[], &["50"]);
        let rows = objects(&profile, "grown.c");
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
fn allocations_say_who_made_and_who_freed() {
    for linked in ["-pie", "-static"] {
        allocations_say_who(linked);
    }
}

fn allocations_say_who(linked: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = record(directory.path(), "blocks.cc", &["-O1", "-g", "-pthread", linked]);
    let rows = objects(&path, "blocks.cc");
    let profile = Profile::open(&path).unwrap();
    let of = |tag: &str| -> Vec<(Call, ThreadId, u64)> {
        let base =
            rows[tag]["base"].as_str().map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap());
        let object =
            profile.rows::<Object>().unwrap().into_iter().find(|object| Some(object.base) == base).unwrap().object;
        let all = profile.rows::<Allocation>().unwrap().into_iter().filter(|row| row.object == Some(object));
        all.map(|row| (row.call, row.thread, row.bytes)).collect()
    };
    let (main, worker) = (ThreadId(0), ThreadId(1));
    assert_eq!(of("malloc"), [(Call::Malloc, main, 1 << 20), (Call::Free, main, 1 << 20)]);
    assert_eq!(of("lent"), [(Call::Malloc, main, 1 << 20), (Call::Free, worker, 1 << 20)]);
    assert_eq!(of("by-thread"), [(Call::Malloc, worker, 200_000), (Call::Free, main, 200_000)]);
    assert_eq!(of("calloc"), [(Call::Calloc, main, 300_000), (Call::Free, main, 300_000)]);
    assert_eq!(of("realloc"), [(Call::Realloc, main, 900_000), (Call::Free, main, 900_000)]);
    assert_eq!(of("aligned_alloc"), [(Call::Aligned, main, 40_960), (Call::Free, main, 40_960)]);
    assert_eq!(of("new"), [(Call::New, main, 500_000), (Call::Free, main, 500_000)]);
    assert_eq!(of("mmap"), [(Call::Mmap, main, 1 << 20), (Call::Munmap, main, 1 << 20)]);
}

/// How often each call was made for the objects of this row, which all have one call stack.
fn calls(profile: &Path, row: &Value) -> BTreeMap<String, u64> {
    let profile = Profile::open(profile).unwrap();
    let all = profile.rows::<Object>().unwrap();
    let stack = all.iter().find(|object| u64::from(object.object.0) == number(&row["object"])).unwrap().stack;
    let of_row: Vec<ObjectId> = all.iter().filter(|object| object.stack == stack).map(|object| object.object).collect();
    let mut calls = BTreeMap::new();
    for row in profile.rows::<Allocation>().unwrap() {
        if row.object.is_some_and(|object| of_row.contains(&object)) {
            *calls.entry(format!("{:?}", row.call)).or_default() += 1;
        }
    }
    calls
}

/// Blocks of `operators.cc`: the tag of the line, how long all of them are together, and how many.
const OF_OPERATORS: [(&str, u64, u64); 6] = [
    ("before main", 320_000, 1),
    ("many", 800_000, 1),
    ("node", 48_000, 3000),
    ("nothrow", 240_000, 1),
    ("aligned", 10_240, 1),
    ("late", 50_000, 1),
];

/// Allocators with C++ operators that do not come to their own malloc, as they are linked: a small one, the same where
/// they do, and those of the world.
#[test]
fn operators_of_allocators_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let of_tests = |name: &str, flags: &[&str]| {
        let library = directory.join(name);
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-O1", "-g", "-shared", "-fPIC", "-fno-builtin"]).args(flags);
        let status = compiler.arg(source("allocator.cc")).arg("-o").arg(&library).status().unwrap();
        assert!(status.success());
        library.to_str().unwrap().to_owned()
    };
    let libraries = [
        of_tests("libown.so", &["-DALIGNED"]),
        // By the name of one that is known: its functions are not where the program allocates.
        of_tests("libjemalloc-by_name.so", &["-DBY_NAME"]),
        "-l:libjemalloc.so.2".to_owned(),
        "-l:libtcmalloc_minimal.so.4".to_owned(),
        "-l:libmimalloc.so.2".to_owned(),
    ];
    for library in &libraries {
        let flags = ["-std=c++17", "-O1", "-g", "-Wl,--no-as-needed", library];
        // Debian's mimalloc aborts the program where an operator is to throw.
        let throws = if library.contains("mimalloc") { "0" } else { "10" };
        for options in [&[][..], &["--objects", "exact"]] {
            let (path, said) = record_with(directory, "operators.cc", &flags, options, &[throws]);
            assert_eq!(said, format!("4498500 {throws}\n"), "{library}");
            let rows = objects(&path, "operators.cc");
            for (tag, bytes, count) in OF_OPERATORS {
                if tag == "node" && options.is_empty() {
                    continue;
                }
                let row = rows.get(tag).unwrap_or_else(|| panic!("{library}: no object {tag}: {:?}", rows.keys()));
                assert_eq!((number(&row["size"]), number(&row["count"])), (bytes, count), "{library}: {tag}");
                // Of an allocator without one for aligned blocks the C++ library's is called, which comes to
                // aligned_alloc.
                let is_without = tag == "aligned" && library.contains("jemalloc");
                let call = if is_without { Call::Aligned } else { Call::New };
                let made_and_freed = BTreeMap::from([(format!("{call:?}"), count), ("Free".to_owned(), count)]);
                assert_eq!(calls(&path, row), made_and_freed, "{library}: {tag}");
            }
        }
    }
}

#[test]
fn operators_of_allocators_are_told_with_samples() {
    let directory = tempfile::tempdir().unwrap();
    let [program, profile] = ["operators", "p.numalens"].map(|name| directory.path().join(name));
    let mut compiler = Command::new("c++");
    let status =
        compiler.args(["-std=c++17", "-O1", "-g"]).arg(source("operators.cc")).arg("-o").arg(&program).status();
    assert!(status.unwrap().success());
    let mut recorder = numalens();
    recorder.args(["record", "--engine", "sample", "-q", "-f", "-o"]).arg(&profile).arg("--").arg(&program).arg("10");
    let output = recorder.env("LD_PRELOAD", "libjemalloc.so.2").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = objects(&profile, "operators.cc");
    // Those that are told one by one, and so are their ends.
    for (tag, bytes, count) in OF_OPERATORS.into_iter().filter(|(_, bytes, count)| bytes / count >= 1 << 15) {
        let row = rows.get(tag).unwrap_or_else(|| panic!("no object {tag}: {:?}", rows.keys()));
        assert_eq!((number(&row["size"]), number(&row["count"])), (bytes, count), "{tag}");
        assert_eq!(calls(&profile, row), BTreeMap::from(["New", "Free"].map(|call| (call.to_owned(), count))), "{tag}");
    }
}

#[test]
fn blocks_of_forked_children_are_told_apart() {
    for linked in ["-pie", "-static"] {
        let directory = tempfile::tempdir().unwrap();
        let profile = record(directory.path(), "forked.cc", &["-O1", "-g", linked]);
        let rows = objects(&profile, "forked.cc");
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
    let directory = tempfile::tempdir().unwrap();
    let path = record(directory.path(), "blocks.cc", &["-O1", "-g", "-pthread"]);
    let profile = Profile::open(&path).unwrap();
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

/// Reads and writes of each object of `words.cc`, every access attributed, and how often its finding compares.
fn every_word(directory: &Path, linked: &str, rounds: u64, more: &[&str]) -> (BTreeMap<String, (u64, u64)>, u64) {
    let options: Vec<&str> = ["--objects", "exact"].into_iter().chain(more.iter().copied()).collect();
    let (profile, said) =
        record_with(directory, "words.cc", &["-O1", "-g", "-pthread", linked], &options, &[&rounds.to_string()]);
    let compared = said.split_whitespace().next().unwrap().parse().unwrap();
    let rows = objects(&profile, "words.cc");
    let counts = rows.into_iter().map(|(name, row)| {
        assert!(row["intervals"].get("accesses").is_none(), "{name} is exact: {row}");
        (name, (number(&row["reads"]), number(&row["writes"])))
    });
    (counts.collect(), compared)
}

#[test]
fn small_blocks_are_used_as_often_as_arithmetic_says() {
    for linked in ["-pie", "-static", "-static-pie"] {
        small_blocks_are_used(linked);
    }
}

fn small_blocks_are_used(linked: &str) {
    let directory = tempfile::tempdir().unwrap();
    let [(once, compared_once), (thrice, compared)] =
        [1, 3].map(|rounds| every_word(directory.path(), linked, rounds, if rounds == 3 { &["--lines"] } else { &[] }));
    // Of the keys of a bucket those that were inserted later come first.
    let chains: u64 = (0..1000).map(|key| 2 * ((999 - key) / 256) + 2).sum();
    for (rows, rounds) in [(&once, 1), (&thrice, 3)] {
        let wanted = [
            ("list", (rounds * 10 * 2 * 1000, 2000)),
            ("other", (rounds * 3 * 2 * 1000, 1000)),
            ("buckets", (1000 + rounds * 1000, 256 + 1000)),
            ("entry", (rounds * chains, 3000)),
            ("former", (5000 + 2000, 3000)),
            ("latter", (7000 + 1000, 2000)),
            ("grown", (0, 1000)),
            ("hits", (0, 700)),
            ("misses", (300, 0)),
        ];
        for (name, counts) in wanted {
            assert_eq!(rows.get(name), Some(&counts), "{linked}: {name}, {rounds}");
        }
        assert!(!rows.contains_key("objects that share a page, not told apart"), "{rows:?}");
    }
    // Each node on the way down: its key and the pointer to the next; and at the end the key of what was found.
    let finds = 2 * 1000;
    let compared = compared - compared_once;
    assert_eq!(thrice["tree"].0 - once["tree"].0, 2 * (compared - finds) + finds);
    assert_eq!(thrice["tree"].1, once["tree"].1);
}

#[test]
fn small_blocks_of_a_pool_that_goes_or_moves_have_what_arithmetic_says() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--objects", "exact"];
    let (profile, _) = record_with(directory.path(), "pools.cc", &["-O1", "-g"], &options, &[]);
    let rows = objects(&profile, "pools.cc");
    let pairs = 3000;
    for (name, reads, writes) in [
        ("freed", pairs / 2 * 3, 0),
        ("freed one", 0, pairs * 3),
        ("freed other", 0, pairs * 4),
        ("unmapped", pairs * 4, 0),
        ("unmapped one", 0, pairs * 2),
        ("moved one", 0, pairs * 7),
        ("moved other", 0, pairs * 3),
        ("read one", pairs * 3, pairs),
        ("read other", pairs * 2, pairs * 4),
    ] {
        let row = rows.get(name).unwrap_or_else(|| panic!("no object {name}: {:?}", rows.keys()));
        assert_eq!((number(&row["reads"]), number(&row["writes"])), (reads, writes), "{name}");
    }
    for name in ["moved", "read"] {
        let accesses = rows.get(name).map_or(0, |row| number(&row["accesses"]));
        assert_eq!(accesses, 0, "{name}");
    }
}

#[test]
fn what_is_sampled_lies_within_its_interval() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-g"];
    let of_a_round = [("often", 20 * 750 * 10), ("seldom", 20 * 750 * 3)];
    let (profile, _) = record_with(directory.path(), "halves.cc", &flags, &["--objects", "exact"], &["2"]);
    let exact = objects(&profile, "halves.cc");
    for (name, reads) in of_a_round {
        assert_eq!(
            (&exact[name]["reads"], &exact[name]["writes"]),
            (&(2 * reads).into(), &(20 * 750).into()),
            "{name}"
        );
    }
    let rounds = 2000;
    let (profile, _) = record_with(directory.path(), "halves.cc", &flags, &[], &[&rounds.to_string()]);
    let sampled = objects(&profile, "halves.cc");
    // Pages of which no access was looked at.
    let unknown = sampled.get("objects that share a page, not told apart").map_or(0, |row| number(&row["accesses"]));
    for (name, reads) in of_a_round {
        let row = &sampled[name];
        // None of its accesses on shared pages was looked at: then there is no interval, and they are among the
        // unknown.
        let told = row["accesses"].as_f64().unwrap();
        let [low, high] = [0, 1].map(|end| row["intervals"]["accesses"][end].as_f64().unwrap_or(told));
        // Six standard deviations, of which the interval has 1.96 to each side.
        let accesses = rounds * reads + 20 * 750;
        let wrong = number(&row["accesses"]).abs_diff(accesses).saturating_sub(unknown);
        let most = (high - low) / 2.0 / 1.96 * 6.0;
        assert!(wrong as f64 <= most, "{name}: {accesses} accesses, {unknown} unknown, {row}");
    }
}

#[test]
fn what_was_accessed_in_memory_that_is_gone_is_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    for flags in [["-O1", "-g"].as_slice(), &["-O1", "-g", "-static"]] {
        let (profile, _) = record_with(directory.path(), "gone.cc", flags, &["--objects", "exact"], &[]);
        let found = objects(&profile, "gone.cc");
        let n = 1 << 16;
        for (tag, reads, writes) in [
            ("unmapped", 0, n),
            ("in halves", n / 2, n),
            ("moved", n, n),
            ("given up", 2 * n, n),
            ("freed", 3 * n, 3 * n),
        ] {
            let row = &found[tag];
            assert_eq!([&row["reads"], &row["writes"]].map(number), [reads, writes], "{tag}: {row}");
        }
    }
}

#[test]
fn exact_objects_are_refused_where_they_cannot_be() {
    let mut command = numalens();
    let refused = command.args(["record", "--objects", "exact", "--engine", "sample", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("need the exact engine"));
}

fn bytes_of_homes(row: &Value) -> u64 {
    row["homes"].as_array().unwrap().iter().map(|home| home["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn a_block_that_has_moved_has_its_pages() {
    let directory = tempfile::tempdir().unwrap();
    let profile = record(directory.path(), "moved.c", &["-O1", "-g"]);
    let grown = &objects(&profile, "moved.c")["grown"];
    let homes = bytes_of_homes(grown);
    assert!((4 << 20..=(4 << 20) + 8192).contains(&homes), "{homes}: {grown}");
}

#[test]
fn memory_that_processes_share_is_one_object() {
    for kind in ["sysv", "memfd", "shm", "file", "anonymous"] {
        for options in [&[][..], &["--objects", "exact"], &["--engine", "sample"]] {
            // The others appear there when an access to them is sampled.
            if options.contains(&"sample") && kind != "anonymous" {
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("numalens-mapped");
            let (profile, _) =
                record_with(directory.path(), "mapped.c", &["-O1", "-g"], options, &[kind, file.to_str().unwrap()]);
            let name = match kind {
                "sysv" => "SYSV",
                "shm" => "numalens-test-mapped",
                "anonymous" => "unnamed",
                "memfd" => "numalens-test-memfd",
                _ => "numalens-mapped",
            };
            let rows = objects(&profile, "mapped.c");
            let code = |row: &Value| row["kind"] == "code";
            let found: Vec<&Value> =
                rows.iter().filter(|(key, row)| key.contains(name) && !code(row)).map(|(_, row)| row).collect();
            let [row] = found[..] else { panic!("{kind} {options:?}: {found:?}") };
            let facts = (row["size"].as_u64(), row["count"].as_u64(), bytes_of_homes(row));
            assert_eq!(facts, (Some(256 << 10), Some(1), 256 << 10), "{kind} {options:?}: {row}");
        }
    }
}
