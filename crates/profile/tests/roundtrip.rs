//! Whatever the rows hold, they come back: every type of column, every table, `None` among them.

use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::load;
use numalens_profile::words::*;
use numalens_profile::{Extremes, Meta, Profile, Row, Writer};
use numalens_topology::NodeId;
use proptest::prelude::*;
use proptest::sample::select;

/// Writes the rows, half of them in another part, and reads them back.
fn round_trip<T: Row>(rows: &[T]) -> Vec<T> {
    let scratch = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&scratch.path().join("a.numalens"), false).unwrap();
    let (first, second) = rows.split_at(rows.len() / 2);
    writer.append(first.iter().cloned()).unwrap();
    writer.checkpoint(&Meta::default()).unwrap();
    writer.append(second.iter().cloned()).unwrap();
    let path = writer.finish(&Meta::default()).unwrap();
    let profile = Profile::open(&path).unwrap();
    let read = profile.rows::<T>().unwrap();
    // From memory they come as from the files, in the same order.
    assert_eq!(profile.keep::<T>(usize::MAX).unwrap(), size_of_val(rows));
    assert!(profile.rows::<T>().unwrap() == read);
    read
}

fn word<W: Copy + std::fmt::Debug + 'static>(all: &'static [W]) -> impl Strategy<Value = W> {
    select(all)
}

fn some<S: Strategy>(inner: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    proptest::option::of(inner)
}

prop_compose! {
    fn sample()(
        ids in any::<(u32, u32, u32, u32)>(), numbers in any::<(u64, u64, u64)>(), found in word(Found::ALL), access in word(Access::ALL),
        class in word(Class::ALL), source in some(word(Source::ALL)), stack in any::<Option<u32>>(), object in any::<Option<u32>>(),
        node in any::<Option<u16>>(), home in any::<Option<u16>>(), latency in any::<Option<u32>>(),
    ) -> Sample {
        let (process, thread, cpu, site) = ids;
        let (time_ns, address, period) = numbers;
        Sample {
            process: ProcessId(process), time_ns, thread: ThreadId(thread), cpu, site: SiteId(site), stack: stack.map(StackId), address, found, access,
            object: object.map(ObjectId), node: node.map(NodeId), home: home.map(NodeId), class, latency, source, period,
        }
    }
}

prop_compose! {
    fn placed()(
        process in any::<u32>(), numbers in any::<(u64, u64, u64)>(), bins in any::<(u32, Option<u32>)>(), home in any::<Option<u16>>(), placed in word(Placed::ALL),
        fault in word(Fault::ALL), call in some(word(SystemCall::ALL)), ids in any::<(Option<u32>, Option<u16>, Option<u32>, Option<u32>, Option<u32>)>(), inferred in any::<bool>(),
    ) -> PlacedPages {
        let (page, count, page_size) = numbers;
        let (thread, node, site, stack, object) = ids;
        PlacedPages {
            process: ProcessId(process), page: Page(page), count, bin_from: Bin(bins.0), bin_to: bins.1.map(Bin), home: home.map(NodeId), page_size, placed, fault, call,
            thread: thread.map(ThreadId), node: node.map(NodeId), site: site.map(SiteId), stack: stack.map(StackId), object: object.map(ObjectId), inferred,
        }
    }
}

prop_compose! {
    fn process()(
        ids in any::<(u32, u32, Option<u32>, Option<u32>)>(), host in ".*", command in ".*", start_ns in any::<u64>(), end_ns in any::<Option<u64>>(), end in ".*", heap_observed in any::<bool>(),
    ) -> Process {
        Process { process: ProcessId(ids.0), pid: ids.1, parent: ids.2.map(ProcessId), rank: ids.3, host, command, start_ns, end_ns, end, heap_observed }
    }
}

prop_compose! {
    fn node()(
        node in any::<u16>(), cpus in ".*", memory_bytes in any::<u64>(), distances in ".*", tier in any::<u32>(), huge_pages in ".*",
        only_unusable_cpus in any::<Option<bool>>(),
        latency_ns in some(-1e300..1e300f64), bandwidth in some(select(vec![0.0, -0.0, f64::MIN_POSITIVE, f64::INFINITY])),
    ) -> MachineNode {
        MachineNode { node: NodeId(node), cpus, memory_bytes, distances, tier, huge_pages, only_unusable_cpus, latency_ns, bandwidth }
    }
}

prop_compose! {
    fn object()(
        ids in any::<(u32, u32, Option<u32>, Option<u32>, Option<u32>)>(), kind in word(ObjectKind::ALL), name in ".*", numbers in any::<(u64, u64, u64, u64, Option<u64>)>(),
    ) -> Object {
        Object {
            process: ProcessId(ids.0), object: ObjectId(ids.1), kind, name, base: numbers.0, size: numbers.1, count: numbers.2,
            site: ids.2.map(SiteId), stack: ids.3.map(StackId), thread: ids.4.map(ThreadId), birth_ns: numbers.3, death_ns: numbers.4,
        }
    }
}

prop_compose! {
    fn frame()(ids in any::<(u32, u32, u32)>(), file in some(".*"), line in any::<Option<u32>>()) -> Frame {
        Frame { site: SiteId(ids.0), depth: ids.1, function: FunctionId(ids.2), file, line }
    }
}

prop_compose! {
    fn allocation()(ids in any::<(u32, u32, Option<u32>)>(), call in word(Call::ALL), numbers in any::<(u64, u64, u64, u64)>()) -> Allocation {
        Allocation {
            process: ProcessId(ids.0), time_ns: numbers.0, thread: ThreadId(ids.1), object: ids.2.map(ObjectId), call, address: numbers.1, bytes: numbers.2, weight: numbers.3,
        }
    }
}

fn rows<S: Strategy>(row: S) -> impl Strategy<Value = Vec<S::Value>> {
    proptest::collection::vec(row, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn samples(rows in rows(sample())) {
        prop_assert_eq!(round_trip(&rows), rows);
    }

    #[test]
    fn pages(rows in rows(placed())) {
        prop_assert_eq!(round_trip(&rows), rows);
    }

    #[test]
    fn processes(rows in rows(process())) {
        prop_assert_eq!(round_trip(&rows), rows);
    }

    #[test]
    fn machines(rows in rows(node())) {
        prop_assert_eq!(round_trip(&rows), rows);
    }

    #[test]
    fn objects(rows in rows(object())) {
        prop_assert_eq!(round_trip(&rows), rows);
    }

    #[test]
    fn frames(rows in rows(frame())) {
        prop_assert_eq!(round_trip(&rows), rows);
    }

    #[test]
    fn allocations(rows in rows(allocation())) {
        prop_assert_eq!(round_trip(&rows), rows);
    }

    #[test]
    fn meta(texts in proptest::collection::vec(".*", 4), number in any::<u64>(), frequency in some(0.001..1e9f64), flag in any::<bool>()) {
        let mut meta = Meta { complete: true, command: texts.clone(), host: texts[0].clone(), duration_ns: number, frequency, machine_virtual: flag, ..Meta::default() };
        meta.losses.insert(texts[1].clone(), number);
        meta.extra.insert(format!("of a later version: {}", texts[2]), serde_json::json!({ "a": [number, null, texts[3]] }));
        let scratch = tempfile::tempdir().unwrap();
        let path = Writer::create(&scratch.path().join("a.numalens"), false).unwrap().finish(&meta).unwrap();
        prop_assert_eq!(Profile::open(&path).unwrap().meta, meta);
    }
}

/// The size that the format promises, on rows of the shape that recordings have.
#[test]
fn facts_are_small() {
    let bytes =
        |path: &std::path::Path, table: &str| std::fs::metadata(path.join(format!("{table}.parquet"))).unwrap().len();
    let scratch = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&scratch.path().join("a.numalens"), false).unwrap();
    let rows = 400_000;
    writer.append(numalens_profile::testing::load::page_accesses(rows)).unwrap();
    writer.append(numalens_profile::testing::load::site_accesses(rows)).unwrap();
    let path = writer.finish(&Meta::default()).unwrap();
    for table in [PageAccess::TABLE, SiteAccess::TABLE] {
        let each = bytes(&path, table) as f64 / rows as f64;
        assert!(each <= 15.0, "{table}: {each} bytes a row");
    }
}

#[test]
fn what_is_too_large_is_not_kept_and_what_is_replaced_is_forgotten() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = |n: u32| (0..n).map(|n| Function { function: FunctionId(n), module: None, name: String::new() });
    let mut writer = Writer::create(&scratch.path().join("a.numalens"), false).unwrap();
    writer.append(rows(10)).unwrap();
    let profile = Profile::open(&writer.finish(&Meta::default()).unwrap()).unwrap();
    assert_eq!(profile.keep::<Function>(9 * size_of::<Function>()).unwrap(), 0);
    assert_eq!(profile.keep::<Function>(10 * size_of::<Function>()).unwrap(), 10 * size_of::<Function>());
    assert_eq!(profile.keep::<Function>(usize::MAX).unwrap(), 0, "it is there already");
    profile.replace(rows(3)).unwrap();
    assert_eq!(profile.rows::<Function>().unwrap().len(), 3);
}

#[test]
fn row_groups_without_wanted_rows_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut rows: Vec<PageAccess> = load::page_accesses(700_000).collect();
    rows.sort_by_key(|row| row.page);
    let middle = rows[350_000].page.0;
    let wanted = |page: u64| (middle..middle + 100).contains(&page);
    let expected: Vec<PageAccess> = rows.iter().filter(|row| wanted(row.page.0)).cloned().collect();
    let mut writer = Writer::create(&directory.path().join("a.numalens"), false).unwrap();
    writer.append(rows).unwrap();
    let profile = Profile::open(&writer.finish(&Meta::default()).unwrap()).unwrap();
    let may_have = |rows: &Extremes<'_>| {
        let (least, most) = rows.of("page").unwrap();
        assert_eq!((rows.of("no such column"), rows.of("process")), (None, Some((0, 0))));
        least < middle + 100 && middle <= most
    };
    let add = |(read, found): &mut (u64, Vec<PageAccess>), row: PageAccess| {
        *read += 1;
        if wanted(row.page.0) {
            found.push(row);
        }
    };
    let merge =
        |one: (u64, Vec<PageAccess>), other: (u64, Vec<PageAccess>)| (one.0 + other.0, [one.1, other.1].concat());
    let (read, found) = profile.fold_some(PageAccess::COLUMNS, &may_have, || (0, Vec::new()), add, merge).unwrap();
    assert_eq!(found, expected);
    assert!(read < 600_000, "{read} rows were read");
}
