//! What a writer leaves behind at each moment of its life.

use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::Synthetic;
use numalens_profile::{Content, Error, Meta, Profile, Row, Writer};
use std::path::Path;

fn accesses(range: std::ops::Range<u64>) -> impl Iterator<Item = PageAccess> {
    range.map(|index| PageAccess {
        home: None,
        process: ProcessId(0),
        bin: Bin((index / 1000) as u32),
        thread: ThreadId((index % 4) as u32),
        node: None,
        page: Page(0x7_f000_0000 + index % 777),
        reads: index,
        writes: index % 3,
        samples: 0,
        period: 1,
    })
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn assert_all<T: Row + PartialEq + std::fmt::Debug>(profile: &Profile, expected: &[T]) {
    assert_eq!(profile.rows::<T>().unwrap(), expected, "{}", T::TABLE);
    assert_eq!(profile.count::<T>().unwrap(), expected.len() as u64);
}

#[test]
fn every_table_comes_back() {
    let scratch = tempfile::tempdir().unwrap();
    let example = Synthetic::example().with_lines().with_cache().with_bounds();
    let path = example.write(&scratch.path().join("a.numalens")).unwrap();
    let profile = Profile::open(&path).unwrap();
    assert_eq!(profile.meta, example.meta);
    assert!(!profile.is_partial());
    assert_all(&profile, &example.machine);
    assert_all(&profile, &example.processes);
    assert_all(&profile, &example.threads);
    assert_all(&profile, &example.placements);
    assert_all(&profile, &example.modules);
    assert_all(&profile, &example.mappings);
    assert_all(&profile, &example.sites);
    assert_all(&profile, &example.frames);
    assert_all(&profile, &example.functions);
    assert_all(&profile, &example.stacks);
    assert_all(&profile, &example.page_accesses);
    assert_all(&profile, &example.site_accesses);
    assert_all(&profile, &example.object_accesses);
    assert_all(&profile, &example.object_bounds);
    assert_all(&profile, &example.samples);
    assert_all(&profile, &example.code_fetches);
    assert_all(&profile, &example.site_misses);
    assert_all(&profile, &example.page_misses);
    assert_all(&profile, &example.cache_lines);
    assert_all(&profile, &example.line_communication);
    assert_all(&profile, &example.waiting_sites);
    assert_all(&profile, &example.pages);
    assert_all(&profile, &example.objects);
    assert_all(&profile, &example.allocations);
    assert_all(&profile, &example.phases);
    assert_eq!(profile.machine().unwrap(), numalens_profile::testing::machine());
    let expected: Vec<String> = {
        // The sums of imported profiles: one that has facts has none of them. Those that only large profiles have.
        let others = [NodeAccess::TABLE, ClassSum::TABLE, PageRegion::TABLE];
        let tables = TABLES.iter().filter(|table| !others.contains(table) && !SUMS.contains(table));
        let mut files: Vec<String> = tables.map(|table| format!("{table}.parquet")).collect();
        files.sort();
        files
    };
    assert_eq!(names(&path), expected);
}

#[test]
fn a_crash_leaves_the_last_checkpoint() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("crash.numalens");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.append(accesses(0..10)).unwrap();
    let error = Profile::open(&path).err().unwrap().to_string();
    assert!(error.contains("before its first checkpoint"), "{error}");

    let meta = Meta { duration_ns: 1, ..Meta::default() };
    writer.checkpoint(&meta).unwrap();
    writer.append(accesses(10..20)).unwrap();
    writer.replace(vec![Module { module: ModuleId(0), path: "never seen".into(), build_id: String::new() }]).unwrap();
    let alive = Profile::open(&path).unwrap();
    assert!(alive.is_partial());
    assert_all(&alive, &accesses(0..10).collect::<Vec<_>>());
    drop(writer);

    let profile = Profile::open(&path).unwrap();
    assert_eq!(profile.path(), scratch.path().join("crash.numalens.partial"));
    assert!(profile.is_partial());
    assert_eq!(profile.meta, meta);
    assert_all(&profile, &accesses(0..10).collect::<Vec<_>>());
    assert_all::<Module>(&profile, &[]);
}

#[test]
fn a_reader_keeps_what_it_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.numalens");
    let mut writer = Writer::create(&path, false).unwrap();
    let mut module = Module { module: ModuleId(0), path: "first".into(), build_id: String::new() };
    writer.replace([module.clone()]).unwrap();
    writer.checkpoint(&Meta::default()).unwrap();
    let early = Profile::open(&path).unwrap();
    for generation in 0..5 {
        module.path = format!("generation {generation}");
        writer.replace([module.clone()]).unwrap();
        writer.checkpoint(&Meta::default()).unwrap();
        assert_all(&Profile::open(&path).unwrap(), &[module.clone()]);
    }
    assert_eq!(early.rows::<Module>().unwrap()[0].path, "first");
    // The generation in force and the one before.
    assert_eq!(names(writer.partial()).len(), 3);
}

#[test]
fn parts_merge_to_the_same_table() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("parts.numalens");
    let mut writer = Writer::create(&path, false).unwrap();
    // Small parts, and two with row groups large enough to be copied as they are.
    let mut at = 0;
    for part in 0..150u64 {
        let size = if part == 40 || part == 100 { 300_000 } else { 10 + part };
        writer.append(accesses(at..at + size / 2)).unwrap();
        writer.append(accesses(at + size / 2..at + size)).unwrap();
        at += size;
        writer.checkpoint(&Meta::default()).unwrap();
        assert!(names(writer.partial()).len() < 45, "{:?}", names(writer.partial()));
    }
    let expected: Vec<PageAccess> = accesses(0..at).collect();
    assert_all(&Profile::open(&path).unwrap(), &expected);
    let announced = writer.bytes_written();
    let path = writer.finish(&Meta::default()).unwrap();
    assert_eq!(names(&path), ["meta.parquet", "page_accesses.parquet"]);
    let profile = Profile::open(&path).unwrap();
    assert_all(&profile, &expected);
    assert!(announced > std::fs::metadata(path.join("page_accesses.parquet")).unwrap().len());
}

#[test]
fn replace_forgets_what_was_appended() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.numalens");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.append(accesses(0..10)).unwrap();
    writer.checkpoint(&Meta::default()).unwrap();
    writer.append(accesses(10..20)).unwrap();
    writer.replace(accesses(20..30)).unwrap();
    writer.append(accesses(30..40)).unwrap();
    let path = writer.finish(&Meta::default()).unwrap();
    assert_eq!(names(&path), ["meta.parquet", "page_accesses.parquet"]);
    assert_all(&Profile::open(&path).unwrap(), &accesses(20..40).collect::<Vec<_>>());
}

#[test]
fn only_wanted_columns_are_decoded() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap();
    let profile = Profile::open(&path).unwrap();
    let rows = profile
        .fold(
            &["writes", "class"],
            Vec::new,
            |rows: &mut Vec<SiteAccess>, row| rows.push(row),
            |mut left, right| {
                left.extend(right);
                left
            },
        )
        .unwrap();
    let full = profile.rows::<SiteAccess>().unwrap();
    assert_eq!(rows.len(), full.len());
    for (row, full) in rows.iter().zip(&full) {
        assert_eq!((row.writes, row.class), (full.writes, full.class));
        assert_eq!((row.reads, row.node, row.home, row.site), (0, None, None, SiteId(0)));
    }
    let error = profile.fold(&["colour"], || (), |(), _: SiteAccess| (), |(), ()| ()).unwrap_err();
    assert_eq!(error.to_string(), "table site_accesses has no column `colour`");
}

#[test]
fn nothing_is_overwritten_unasked() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.numalens");
    let finish = |force, duration_ns| {
        Writer::create(&path, force).and_then(|writer| writer.finish(&Meta { duration_ns, ..Meta::default() }))
    };
    finish(false, 1).unwrap();
    assert!(matches!(finish(false, 2), Err(Error::Exists { .. })));
    assert_eq!(Profile::open(&path).unwrap().meta.duration_ns, 1);
    finish(true, 3).unwrap();
    assert_eq!(Profile::open(&path).unwrap().meta.duration_ns, 3);
    assert_eq!(names(scratch.path()), ["a.numalens"]);

    // The old profile stays until the new one is complete.
    let mut writer = Writer::create(&path, true).unwrap();
    writer.checkpoint(&Meta { duration_ns: 4, ..Meta::default() }).unwrap();
    assert_eq!(Profile::open(&path).unwrap().meta.duration_ns, 3);
    assert!(matches!(Writer::create(&path, true), Err(Error::Busy { .. })));
    drop(writer);
    std::fs::remove_dir_all(&path).unwrap();
    assert!(matches!(Writer::create(&path, false), Err(Error::Unfinished { .. })));
    finish(true, 5).unwrap();
    assert_eq!(Profile::open(&path).unwrap().meta.duration_ns, 5);
}

#[test]
fn force_replaces_nothing_but_profiles() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, file) = (scratch.path().join("home"), scratch.path().join("thesis.txt"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("letter.txt"), "dear").unwrap();
    std::fs::write(&file, "introduction").unwrap();
    for path in [&directory, &file] {
        let error = Writer::create(path, true).err().unwrap().to_string();
        assert!(error.contains("is not a profile") && error.contains("--force does not replace it"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(directory.join("letter.txt")).unwrap(), "dear");
}

/// By what a directory says of itself, not by how its files are called.
#[test]
fn parquet_tables_of_others_are_no_profile() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let before = names(path);
        let error = Writer::create(path, true).err().unwrap().to_string();
        assert!(error.contains("--force does not replace it"), "{error}");
        assert_eq!(names(path), before);
    };
    let at = |name: &str, files: &[&str]| {
        let path = scratch.path().join(name);
        std::fs::create_dir(&path).unwrap();
        files.iter().for_each(|file| std::fs::write(path.join(file), "PAR1 work PAR1").unwrap());
        path
    };
    refused(&at("sales", &["sales.parquet"]));
    refused(&at("sites", &["sites.parquet", "pages.parquet"]));
    refused(&at("meta", &["meta.parquet", "sites.parquet"]));
    refused(&at("writing", &["a.writing"]));
    // A profile with something else in it: a file, a directory, a link.
    let own = |name: &str| Synthetic::example().write(&scratch.path().join(name)).unwrap();
    std::fs::write(own("a.numalens").join("sales.parquet"), "work").unwrap();
    std::fs::create_dir(own("b.numalens").join("phases.writing")).unwrap();
    std::os::unix::fs::symlink("meta.parquet", own("c.numalens").join("sites.7.parquet")).unwrap();
    std::os::unix::fs::symlink(own("d.numalens"), scratch.path().join("link")).unwrap();
    ["a.numalens", "b.numalens", "c.numalens", "link"].iter().for_each(|name| refused(&scratch.path().join(name)));

    // What a recording leaves that ended before its first checkpoint, and an older one with a table half written.
    let path = scratch.path().join("early.numalens");
    at("early.numalens.partial", &["sites.0.writing", "page_accesses.3.a1B2c3.writing"]);
    Writer::create(&path, true).unwrap().finish(&Meta::default()).unwrap();
    std::fs::write(path.join("frames.writing"), "half").unwrap();
    Writer::create(&path, true).unwrap().finish(&Meta::default()).unwrap();
    assert_eq!(names(&path), ["meta.parquet"]);
    let other = at("other.numalens.partial", &["sales.0.parquet"]);
    let error = Writer::create(&other.with_extension(""), true).err().unwrap().to_string();
    assert!(error.contains("sales.0.parquet") && names(&other) == ["sales.0.parquet"], "{error}");
}

#[test]
fn symbols_are_added_to_a_finished_profile() {
    let scratch = tempfile::tempdir().unwrap();
    let mut example = Synthetic::example();
    let functions = std::mem::take(&mut example.functions);
    let path = scratch.path().join("a.numalens");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.replace(example.sites.clone()).unwrap();
    writer.finish(&example.meta).unwrap();
    let profile = Profile::open(&path).unwrap();
    assert_all::<Function>(&profile, &[]);
    profile.replace(functions.clone()).unwrap();
    assert_all(&profile, &functions);
    assert_all(&Profile::open(&path).unwrap(), &functions);
    profile.replace(functions[..2].to_vec()).unwrap();
    let again = Profile::open(&path).unwrap();
    assert_all(&again, &functions[..2]);
    assert_all(&again, &example.sites);
    assert_eq!(again.meta, example.meta);
    // Several at once, of which some are listed already.
    let contents = vec![Content::of(|| functions.iter().cloned()), Content::of(|| example.frames.iter().cloned())];
    profile.replace_all(contents).unwrap();
    for profile in [profile, Profile::open(&path).unwrap()] {
        assert_all(&profile, &functions);
        assert_all(&profile, &example.frames);
        assert_all(&profile, &example.sites);
    }
}

#[test]
fn a_profile_that_others_write_is_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.numalens");
    let example = Synthetic::example();
    let mut writer = Writer::create(&path, false).unwrap();
    writer.replace(example.sites.clone()).unwrap();
    writer.checkpoint(&example.meta).unwrap();
    let profile = Profile::open(&path).unwrap();
    profile.replace(example.functions.clone()).unwrap();
    assert_all(&profile, &example.functions);
    assert_all::<Function>(&Profile::open(&path).unwrap(), &[]);
    drop(writer);
    // The recording crashed: now it may be completed.
    profile.replace(example.functions.clone()).unwrap();
    assert_all(&Profile::open(&path).unwrap(), &example.functions);
    assert_all(&Profile::open(&path).unwrap(), &example.sites);

    let zip = scratch.path().join("a.zip");
    numalens_profile::pack(&path, &zip, false).unwrap();
    let before = std::fs::read(&zip).unwrap();
    let packed = Profile::open(&zip).unwrap();
    packed.replace(example.frames.clone()).unwrap();
    assert_all(&packed, &example.frames);
    assert_all(&packed, &example.functions);
    assert!(std::fs::read(&zip).unwrap() == before);
}

#[test]
fn says_what_is_missing() {
    let scratch = tempfile::tempdir().unwrap();
    let missing = Profile::open(&scratch.path().join("none.numalens")).err().unwrap().to_string();
    assert!(missing.contains("does not exist"), "{missing}");
    let empty = Profile::open(scratch.path()).err().unwrap().to_string();
    assert!(empty.contains("is not a profile: it has no meta.parquet"), "{empty}");
    let impossible = Writer::create(&scratch.path().join("no/such/folder"), false).err().unwrap().to_string();
    assert!(impossible.starts_with("cannot create") && impossible.contains("No such file"), "{impossible}");
}
