//! Every figure of the synthetic profile against its definition, worked out by hand.
//!
//! 77 accesses. Thread 0 on node 0 writes the 8 pages of the array, homed on 0: 16. Thread 1 on node 1 works on them:
//! 32; on its stack and on a variable, homed on 1: 4 + 2; on a page without a home: 1. Thread 3 on node 2 uses node 3,
//! which has memory only: 10. Thread 2 is unpinned: 4 to the array, 3 to the variable, 3 to a file on node 2, 2 to node
//! 3.

use numalens_analyze::report::{Field, Report, Shape, Value};
use numalens_analyze::{Options, intervals, sections};
use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::Synthetic;
use numalens_profile::words::*;
use numalens_profile::{Profile, RecordedUnit};
use numalens_topology::NodeId;

fn reports(content: &Synthetic, options: &Options) -> Vec<Report> {
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    sections::run(&profile, options, &sections::ALL.iter().collect::<Vec<_>>()).unwrap()
}

fn find<'a>(reports: &'a [Report], key: &str) -> &'a Report {
    reports.iter().find(|report| report.key == key).unwrap_or_else(|| panic!("no report {key}"))
}

fn inner<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    match value {
        Some(Value::Record(fields) | Value::Parts(fields)) => {
            fields.iter().find(|f: &&Field| f.key == key).map(|f| &f.value)
        }
        other => panic!("{other:?} is no record"),
    }
}

#[track_caller]
fn percent(value: Option<&Value>, part: f64, whole: f64) {
    match value {
        Some(Value::Percent(got, _)) => {
            assert!((got - part * 100.0 / whole).abs() < 1e-9, "{got} is not {part} of {whole}")
        }
        other => panic!("{other:?} is no share"),
    }
}

#[test]
fn scalars() {
    let reports = reports(&Synthetic::example(), &Options::default());
    let summary = find(&reports, "summary");
    let field = |key| summary.field(key);
    percent(field("local_share"), 22.0, 65.0);
    percent(field("local_share_all"), 22.0, 77.0);
    // The variable was placed by the unpinned thread: local by its home, but of class unpinned_page.
    percent(field("local_class_share"), 20.0, 77.0);
    assert_eq!(inner(field("hot_region"), "node"), Some(&Value::Node(NodeId(0))));
    percent(inner(field("hot_region"), "share"), 32.0, 77.0);
    percent(field("application_exclusivity"), 8.0 * 4.0 + 1.0 + 2.0 + 4.0 + 10.0, 65.0);
    // Nodes serve 52, 9, 3 and 12.
    percent(inner(field("balance"), "share"), 52.0, 76.0);
    percent(field("imbalance"), 52.0 - 19.0, 19.0);
    let Some(Value::Number(rate, Some((low, high)))) = field("numa_access_rate") else { panic!("no rate") };
    assert!((rate - (10.0 * 22.0 + 16.0 * 32.0 + 28.0 * 10.0) / 0.04).abs() < 1e-6, "{rate}");
    assert!(low < rate && rate < high);
    let Some(Value::List(distances)) = field("distances") else { panic!("no distances") };
    let accesses: Vec<_> = distances.iter().map(|entry| inner(Some(entry), "accesses").cloned()).collect();
    assert_eq!(accesses, [22, 32, 10, 13].map(|n| Some(Value::Count(n))));
}

#[test]
fn intervals_are_those_of_the_samples_behind() {
    let reports = reports(&Synthetic::example(), &Options::default());
    let summary = find(&reports, "summary");
    let interval = |key| summary.field(key).and_then(Value::interval);
    same(interval("local_share"), intervals::share(22.0 * 100.0 / 65.0, 65));
    same(interval("local_share_all"), intervals::share(22.0 * 100.0 / 77.0, 77));
    same(interval("accesses"), intervals::count(77.0, 77));
}

/// Equal but for the rounding of the last digits.
fn same(left: Option<(f64, f64)>, right: Option<(f64, f64)>) {
    let (Some(left), Some(right)) = (left, right) else { panic!("{left:?} and {right:?}: an interval is missing") };
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    assert!(close(left.0, right.0) && close(left.1, right.1), "{left:?} is not {right:?}");
}

#[test]
fn samples_of_events_count_their_period() {
    let mut content = Synthetic::example();
    content.meta.unit = RecordedUnit::EstimatedAccesses;
    for row in &mut content.site_accesses {
        row.period = 1000;
    }
    let reports = reports(&content, &Options::default());
    let summary = find(&reports, "summary");
    let Some(Value::Estimate(77_000, interval)) = summary.field("accesses") else { panic!("not 77,000 accesses") };
    same(Some(*interval), intervals::count(77_000.0, 77));
    assert_eq!(summary.field("local_share").and_then(Value::interval), intervals::share(22.0 * 100.0 / 65.0, 65));
}

#[test]
fn a_read_modify_write_is_two_accesses_of_one_sample() {
    let mut content = Synthetic::example();
    content.site_accesses.truncate(1);
    content.site_accesses[0] = SiteAccess { reads: 10, writes: 10, samples: 10, ..content.site_accesses[0].clone() };
    let reports = reports(&content, &Options::default());
    let share = find(&reports, "summary").field("local_share_all").and_then(Value::interval);
    assert_eq!(share, intervals::share(100.0, 10));
}

#[test]
fn first_touches_by_line_thread_and_home() {
    let reports = reports(&Synthetic::example(), &Options::default());
    let rows = find(&reports, "first_touch");
    let Some(Value::Location(place)) = rows.cell(0, "") else { panic!("no place") };
    assert_eq!((place.file.as_deref(), place.line, place.function.as_str()), (Some("app.c"), Some(9), "fill"));
    assert_eq!(rows.cell(0, "pages"), Some(&Value::Count(8)));
    assert_eq!(rows.cell(0, "thread"), Some(&Value::Id(0)));
    assert_eq!(rows.cell(0, "homes"), Some(&Value::homes(&numalens_analyze::metrics::PAGES, [(Some(NodeId(0)), 8)])));
    let sum = find(&reports, "summary").field("first_touch");
    let of = |key| inner(sum, key).cloned();
    // The page of the file was placed unseen; the zero page nowhere.
    assert_eq!(
        (of("pinned"), of("unpinned"), of("unseen")),
        (Some(Value::Count(11)), Some(Value::Count(1)), Some(Value::Count(1)))
    );
}

/// What `memset` of the C library touches first belongs to the line that called it.
#[test]
fn first_touches_of_library_code_belong_to_the_caller() {
    let mut content = Synthetic::example();
    content.functions.push(Function {
        function: FunctionId(90),
        module: Some(ModuleId(1)),
        name: "__memset_avx2_unaligned_erms".into(),
    });
    content.sites.push(Site { site: SiteId(90), module: Some(ModuleId(1)), address: 0x99 });
    content.frames.push(Frame { site: SiteId(90), depth: 0, function: FunctionId(90), file: None, line: None });
    // memset, called at site 0 (fill, app.c:9).
    content.stacks.push(Stack { stack: StackId(90), parent: Some(StackId(1)), site: SiteId(90) });
    for page in content.pages.iter_mut().filter(|page| page.site == Some(SiteId(0))) {
        (page.site, page.stack) = (Some(SiteId(90)), Some(StackId(90)));
    }
    let reports = reports(&content, &Options::default());
    for key in ["first_touch", "first_touch_lines"] {
        let rows = find(&reports, key);
        let Some(Value::Location(place)) = rows.cell(0, "") else { panic!("no place") };
        assert_eq!((place.function.as_str(), place.line), ("fill", Some(9)), "{key}");
        assert_eq!(
            rows.cell(0, "via"),
            Some(&Value::List(vec![Value::Text("__memset_avx2_unaligned_erms".into())])),
            "{key}"
        );
        assert_eq!(rows.cell(0, "pages"), Some(&Value::Count(8)), "{key}");
    }
}

#[test]
fn allocations_of_one_stack_are_one_object_row() {
    let mut content = Synthetic::example();
    for n in 0..3 {
        let id = ObjectId(100 + n);
        content.objects.push(Object {
            object: id,
            base: 0x5000_0000 + u64::from(n) * 0x1000,
            ..content.objects[5].clone()
        });
    }
    let reports = reports(&content, &Options::default());
    let rows = find(&reports, "objects");
    let Shape::Table(table) = &rows.shape else { panic!("no table") };
    let merged: Vec<usize> =
        (0..table.rows.len()).filter(|row| rows.cell(*row, "count") == Some(&Value::Count(4))).collect();
    assert_eq!(merged.len(), 1);
    assert_eq!(rows.cell(merged[0], "size"), Some(&Value::Bytes(4 * 4096)));
    assert_eq!(rows.cell(merged[0], "base"), Some(&Value::Absent));
}

#[test]
fn allocation_matrix_splits_a_block_by_page() {
    let reports = reports(&Synthetic::example(), &Options::default());
    let Shape::Matrix(bytes) = &find(&reports, "matrix.allocation").shape else { panic!("no matrix") };
    // 9 pages from node 0: 8 homed there, one is the zero page; 1 page from node 2, which lies on node 3.
    assert_eq!(bytes.rows[0], [8 * 4096, 0, 0, 0]);
    assert_eq!(bytes.homeless, [4096, 0, 0, 0]);
    assert_eq!(bytes.rows[2], [0, 0, 0, 4096]);
    let Shape::Matrix(calls) = &find(&reports, "matrix.allocation_calls").shape else { panic!("no matrix") };
    assert_eq!((calls.rows[0][0], calls.rows[2][3]), (1, 1));
}

#[test]
fn tables_sort_by_any_metric_of_theirs() {
    let mut reports = reports(&Synthetic::example(), &Options::default());
    assert_eq!(sections::sort_keys(&reports).first(), Some(&"accesses"));
    let lines = reports.iter_mut().find(|report| report.key == "lines").unwrap();
    assert!(lines.sort("first_touch") && !lines.sort("speed"));
    assert_eq!(lines.cell(0, "first_touch"), Some(&Value::Count(8)));
    lines.limit(1);
    let Shape::Table(table) = &lines.shape else { panic!("no table") };
    assert_eq!((table.rows.len(), table.omitted), (1, 3));
}

#[test]
fn an_empty_profile_has_a_report_that_says_so() {
    let mut content = Synthetic::example();
    content.site_accesses.clear();
    content.object_accesses.clear();
    content.page_accesses.clear();
    content.samples.clear();
    content.code_fetches.clear();
    content.pages.clear();
    content.allocations.clear();
    let reports = reports(&content, &Options::default());
    let doubts = &find(&reports, "summary").doubts;
    assert!(doubts.iter().any(|doubt| doubt.contains("no accesses were recorded")), "{doubts:?}");
    assert_eq!(find(&reports, "summary").field("local_share"), Some(&Value::Absent));
}

#[test]
fn a_process_that_is_not_there_is_named_with_those_that_are() {
    let directory = tempfile::tempdir().unwrap();
    let content = Synthetic::example();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let error =
        sections::run(&profile, &Options { pids: vec![77], ..Options::default() }, &[]).unwrap_err().to_string();
    assert_eq!(error, "the profile has no process 77; it has 1000 (./app), 1001 (./app --child)");
}

#[test]
fn pages_are_sorted_by_what_comes_from_other_nodes() {
    let reports = reports(&Synthetic::example(), &Options::default());
    let pages = find(&reports, "pages");
    let placed: Vec<_> = (0..14).filter_map(|row| pages.cell(row, "placed").cloned()).collect();
    assert!(placed.contains(&Value::Text(Placed::Unseen.word().into())));
    // The first page is the one on the tier: all its accesses come from another node.
    assert_eq!(
        (pages.cell(0, "home"), pages.cell(0, "away")),
        (Some(&Value::Node(NodeId(3))), Some(&Value::Count(10)))
    );
}

#[test]
fn cache_lines_and_who_takes_them() {
    let reports = reports(&Synthetic::example().with_lines(), &Options::default());
    // Of 14 pages: nine whose first line several threads take, two lines of each of the others.
    let sharing = find(&reports, "line_sharing");
    assert_eq!(sharing.field("lines"), Some(&Value::Count(9 + 2 * 5)));
    assert_eq!(sharing.field("shared_lines"), Some(&Value::Count(9)));
    assert_eq!(sharing.field("accesses"), Some(&Value::Count(77)));
    assert_eq!(sharing.field("transitions"), Some(&Value::Count(10)));
    let lines = find(&reports, "cache_lines");
    // The page that three threads use comes first, then by address.
    assert_eq!(lines.cell(0, "readers"), Some(&Value::List(vec![Value::Id(1), Value::Id(2)])));
    assert_eq!(lines.cell(0, "writers"), Some(&Value::List(vec![Value::Id(0), Value::Id(1)])));
    assert_eq!(lines.cell(0, "false_sharing"), Some(&Value::Count(2)));
    assert_eq!(lines.cell(1, "address"), Some(&Value::Address(0x404 << 12)));
    assert_eq!(lines.cell(1, "objects"), Some(&Value::List(vec![Value::Text("global table".to_string())])));
    assert_eq!(lines.cell(1, "sharing"), Some(&Value::Text("false".to_string())));
    let communication = find(&reports, "communication");
    assert_eq!(communication.field("shared"), Some(&Value::Count(10)));
    assert_eq!(communication.field("rule"), Some(&Value::Text("last accessor of a cache line".to_string())));
    let pairs = find(&reports, "communication_pairs");
    assert_eq!((pairs.cell(0, "shared"), pairs.cell(1, "shared")), (Some(&Value::Count(8)), Some(&Value::Count(2))));
    let without = self::reports(&Synthetic::example(), &Options::default());
    assert!(find(&without, "line_sharing").doubts[0].contains("--lines"));
    assert_eq!(find(&without, "communication").field("rule"), Some(&Value::Text("pages that both use".to_string())));
}

/// Threads that go elsewhere in the end have worked where they were.
#[test]
fn threads_stand_where_they_worked() {
    let moved = |mut content: Synthetic| {
        let last = content.placements.iter().filter(|row| row.thread == ThreadId(1)).max_by_key(|row| row.time_ns);
        let mut last = last.unwrap().clone();
        (last.time_ns, last.node) = (content.meta.duration_ns, Some(NodeId(3)));
        content.placements.push(last);
        content
    };
    let same = |content: fn() -> Synthetic, keys: &[&str]| {
        let (before, after) =
            (reports(&content(), &Options::default()), reports(&moved(content()), &Options::default()));
        for key in keys {
            assert_eq!(find(&before, key), find(&after, key), "{key}");
        }
        after
    };
    let all = ["communication", "matrix.communication", "communication_pairs", "line_sharing", "cache_lines"];
    let after = same(|| Synthetic::example().with_lines(), &all);
    assert!(find(&after, "communication").doubts.is_empty());
    same(Synthetic::example, &all);
    // One that has worked on two nodes.
    let on_two = |mut content: Synthetic| {
        let of_it = content.site_accesses.iter_mut().filter(|row| row.thread == ThreadId(1));
        of_it.min_by_key(|row| row.reads + row.writes).unwrap().node = Some(NodeId(3));
        content
    };
    let doubt = "thread 1 worked on several nodes: it stands on that of most of its accesses";
    let after = reports(&on_two(Synthetic::example().with_lines()), &Options::default());
    for key in ["communication", "line_sharing"] {
        assert_eq!(find(&after, key).doubts, [doubt], "{key}");
    }
    // Of pages it is known which accesses were made where.
    let mut content = Synthetic::example();
    let before = reports(&content, &Options::default());
    let uses = content.page_accesses.iter_mut().filter(|row| row.thread == ThreadId(1));
    uses.for_each(|row| row.node = Some(NodeId(3)));
    let after = reports(&content, &Options::default());
    let from_unpinned = |reports: &[Report], node: usize| {
        let Shape::Matrix(matrix) = &find(reports, "matrix.communication").shape else { panic!("a matrix") };
        matrix.unpinned[node]
    };
    assert_ne!(from_unpinned(&before, 1), from_unpinned(&after, 1));
    assert_eq!(from_unpinned(&before, 1), from_unpinned(&after, 3));
}

#[test]
fn what_misses_a_cache() {
    let reports = reports(&Synthetic::example().with_cache(), &Options::default());
    let missed: u64 = Synthetic::example().site_accesses.iter().map(|row| row.reads / 2).sum();
    let summary = find(&reports, "summary");
    assert_eq!(summary.field("cache_misses"), Some(&Value::Count(missed)));
    assert_eq!(summary.field("write_misses"), Some(&Value::Count(0)));
    percent(summary.field("miss_rate"), missed as f64, 77.0);
    for key in ["threads", "functions", "lines"] {
        let Shape::Table(table) = &find(&reports, key).shape else { panic!("{key} is a table") };
        let cell = |row| match find(&reports, key).cell(row, "cache_misses") {
            Some(Value::Count(missed)) => *missed,
            other => panic!("{other:?} of {key}"),
        };
        assert_eq!((0..table.rows.len()).map(cell).sum::<u64>(), missed, "{key}");
    }
    let without = self::reports(&Synthetic::example(), &Options::default());
    assert_eq!(find(&without, "summary").field("cache_misses"), None);
    assert_eq!(find(&without, "threads").cell(0, "cache_misses"), Some(&Value::Absent));
}
