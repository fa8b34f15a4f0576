//! Who made and freed blocks, and by which call.

use super::*;
use std::path::Path;

#[test]
fn allocations_say_who_made_and_who_freed() {
    for linked in ["-pie", "-static"] {
        allocations_say_who(linked);
    }
}

fn allocations_say_who(linked: &str) {
    let lab = Lab::exact();
    let recorded = record(&lab, "blocks.cc", &["-O1", "-g", "-pthread", linked]);
    let rows = objects(&recorded, "blocks.cc");
    let profile = recorded.profile();
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
fn calls(recorded: &Recorded, row: &Value) -> BTreeMap<String, u64> {
    let profile = recorded.profile();
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
    let lab = Lab::exact();
    let of_tests = |name: &str, flag: &str| {
        let library = lab.at(name);
        let flags = ["-std=c++17", "-O1", "-g", "-shared", "-fPIC", "-fno-builtin", flag];
        compile("objects/allocator.cc", Path::new(&library), &flags);
        library
    };
    let libraries = [
        of_tests("libown.so", "-DALIGNED"),
        // By the name of one that is known: its functions are not where the program allocates.
        of_tests("libjemalloc-by_name.so", "-DBY_NAME"),
        "-l:libjemalloc.so.2".to_owned(),
        "-l:libtcmalloc_minimal.so.4".to_owned(),
        "-l:libmimalloc.so.2".to_owned(),
    ];
    for library in &libraries {
        let flags = ["-std=c++17", "-O1", "-g", "-Wl,--no-as-needed", library];
        // Debian's mimalloc aborts the program where an operator is to throw.
        let throws = if library.contains("mimalloc") { "0" } else { "10" };
        for options in [&[][..], &["--objects", "exact"]] {
            let recorded = record_with(&lab, "operators.cc", &flags, options, &[throws]);
            let said = recorded.said();
            assert_eq!(said, format!("4498500 {throws}\n"), "{library}");
            let rows = objects(&recorded, "operators.cc");
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
                assert_eq!(calls(&recorded, row), made_and_freed, "{library}: {tag}");
            }
        }
    }
}

#[test]
fn operators_of_allocators_are_told_with_samples() {
    let lab = Lab::new();
    let program = lab.build("objects/operators.cc", &["-std=c++17", "-O1", "-g"]);
    let mut recorder = lab.recorder(&[]);
    let recorded = lab.finished(recorder.args([&program, "10"]).env("LD_PRELOAD", "libjemalloc.so.2")).succeeded();
    let rows = objects(&recorded, "operators.cc");
    // Those that are told one by one, and so are their ends.
    for (tag, bytes, count) in OF_OPERATORS.into_iter().filter(|(_, bytes, count)| bytes / count >= 1 << 15) {
        let row = rows.get(tag).unwrap_or_else(|| panic!("no object {tag}: {:?}", rows.keys()));
        assert_eq!((number(&row["size"]), number(&row["count"])), (bytes, count), "{tag}");
        assert_eq!(
            calls(&recorded, row),
            BTreeMap::from(["New", "Free"].map(|call| (call.to_owned(), count))),
            "{tag}"
        );
    }
}
