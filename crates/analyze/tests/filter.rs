//! A filter shows a part: parts add up to the whole, by every dimension.

use numalens_analyze::report::{Shape, Value};
use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Filter, Options, sections};
use numalens_profile::Profile;
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::testing::Synthetic;
use numalens_simulate::Threads;
use numalens_topology::{NodeId, ThreadPlacement};

fn profile(directory: &tempfile::TempDir) -> Profile {
    Profile::open(&Synthetic::example().write(&directory.path().join("a.numalens")).unwrap()).unwrap()
}

/// Accesses of `summary`, of all rows of a table, under a filter.
fn accesses(profile: &Profile, section: &str, filter: &Filter) -> u64 {
    let options = Options { filter: filter.clone(), ..Options::default() };
    let reports = sections::run(profile, &options, &[sections::named(section).unwrap()]).unwrap();
    let count = |value: &Value| match value {
        Value::Count(n) | Value::Estimate(n, _) => *n,
        _ => 0,
    };
    match &reports[1].shape {
        Shape::Record(_) => reports[1].field("accesses").map_or(0, count),
        Shape::Table(table) => {
            (0..table.rows.len()).filter_map(|row| reports[1].cell(row, "accesses")).map(count).sum()
        }
        Shape::Matrix(matrix) => {
            let homeless: u64 = matrix.homeless.iter().sum::<u64>() + matrix.homeless_unpinned;
            matrix.rows.iter().flatten().chain(&matrix.unpinned).sum::<u64>() + homeless
        }
        _ => 0,
    }
}

fn sum(profile: &Profile, section: &str, filters: impl Iterator<Item = Filter>) -> u64 {
    filters.map(|filter| accesses(profile, section, &filter)).sum()
}

#[test]
fn parts_add_up_to_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(&directory);
    let nodes = || (0..4).map(|node| Some(NodeId(node))).chain([None]);
    for section in ["summary", "matrix", "threads", "lines", "functions", "objects", "pages"] {
        let all = accesses(&profile, section, &Filter::default());
        assert!(all > 0, "{section}");
        let by_thread = (0..4).map(|thread| Filter { threads: vec![ThreadId(thread)], ..Filter::default() });
        assert_eq!(sum(&profile, section, by_thread), all, "{section} by thread");
        let by_node = nodes().map(|node| Filter { nodes: vec![node], ..Filter::default() });
        assert_eq!(sum(&profile, section, by_node), all, "{section} by node");
        let by_home = nodes().map(|home| Filter { homes: vec![home], ..Filter::default() });
        assert_eq!(sum(&profile, section, by_home), all, "{section} by home");
        let bin_ns = profile.meta.bin_ns;
        let middle = 2 * bin_ns;
        let by_time =
            [(None, Some(middle)), (Some(middle), None)].map(|time_ns| Filter { time_ns, ..Filter::default() });
        assert_eq!(sum(&profile, section, by_time.into_iter()), all, "{section} by time");
        let two = Filter { threads: vec![ThreadId(0), ThreadId(1)], ..Filter::default() };
        let one =
            |thread| accesses(&profile, section, &Filter { threads: vec![ThreadId(thread)], ..Filter::default() });
        assert_eq!(accesses(&profile, section, &two), one(0) + one(1), "{section}: several values are any of them");
    }
}

#[test]
fn objects_and_functions_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(&directory);
    let all = accesses(&profile, "objects", &Filter::default());
    let objects = Synthetic::example().objects.into_iter().map(|object| object.object);
    let mut seen: Vec<(ObjectId, u64)> = Vec::new();
    for object in objects {
        let filter = Filter { object: Some(object), ..Filter::default() };
        let part = accesses(&profile, "objects", &filter);
        for section in ["summary", "matrix", "lines", "threads", "pages"] {
            assert_eq!(accesses(&profile, section, &filter), part, "{section} of object {object}");
        }
        seen.push((object, part));
    }
    assert_eq!(seen.iter().map(|(_, n)| n).sum::<u64>(), all, "{seen:?}");
    let mut names: Vec<String> = Synthetic::example().functions.into_iter().map(|function| function.name).collect();
    names.push("[no symbols]".to_string());
    names.sort();
    names.dedup();
    for section in ["summary", "lines", "functions", "threads"] {
        let by_function = names.iter().map(|name| Filter { function: Some(name.clone()), ..Filter::default() });
        assert_eq!(sum(&profile, section, by_function), accesses(&profile, section, &Filter::default()), "{section}");
    }
}

#[test]
fn a_filter_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(&directory);
    let doubts = |filter: Filter| {
        let options = Options { filter, ..Options::default() };
        sections::run(&profile, &options, &[]).unwrap()[0].doubts.join("; ")
    };
    assert!(!doubts(Filter::default()).contains("part of the recording"));
    assert!(doubts(Filter { threads: vec![ThreadId(1)], ..Filter::default() }).contains("part of the recording"));
    assert!(doubts(Filter { function: Some("main".into()), ..Filter::default() }).contains("do not know the function"));
}

#[test]
fn lines_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(&directory);
    let reports = sections::run(&profile, &Options::default(), &[sections::named("lines").unwrap()]).unwrap();
    let Shape::Table(table) = &reports[1].shape else { panic!("no table") };
    let at = table.columns.iter().position(|column| column.key.is_empty()).unwrap();
    let mut places = Vec::new();
    for row in &table.rows {
        let Value::Location(place) = &row[at] else { panic!("no place") };
        places.extend(place.file.clone().zip(place.line));
    }
    places.sort();
    places.dedup();
    assert!(places.len() > 2, "{places:?}");
    let of = |place: &(String, u32)| Filter { place: Some(place.clone()), ..Filter::default() };
    for section in ["summary", "lines", "functions", "threads"] {
        let by_line = sum(&profile, section, places.iter().map(of));
        assert_eq!(by_line, accesses(&profile, section, &Filter::default()), "{section}");
    }
    // What is behind a line is a part of what is behind all, and of that line alone.
    for place in &places {
        let of_line = accesses(&profile, "line-objects", &of(place));
        assert_eq!(of_line, accesses(&profile, "lines", &of(place)), "{place:?}");
    }
    assert_eq!(accesses(&profile, "summary", &of(&("nowhere.c".to_string(), 1))), 0);
}

#[test]
fn events_are_those_of_the_one_that_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(&directory);
    let events = |filter: Filter| {
        let options = Options { filter, ..Options::default() };
        let wanted = ["object-flow", "thread-flow"].map(|name| sections::named(name).unwrap());
        let reports = sections::run(&profile, &options, &wanted).unwrap();
        [1, 2].map(|index| {
            let Shape::Table(table) = &reports[index].shape else { panic!("no table") };
            let times: Vec<&Value> =
                (0..table.rows.len()).filter_map(|row| reports[index].cell(row, "time_s")).collect();
            let ns = |value: &Value| if let Value::Time(ns) = value { *ns } else { 0 };
            assert!(times.is_sorted_by_key(|time| ns(time)), "in order of time");
            table.rows.len() as u64
        })
    };
    let all = events(Filter::default());
    assert_eq!(all, [Synthetic::example().samples.len() as u64; 2]);
    let by_thread = (0..4).map(|thread| events(Filter { threads: vec![ThreadId(thread)], ..Filter::default() })[1]);
    assert_eq!(by_thread.sum::<u64>(), all[1]);
    let of_object = |object: &numalens_profile::tables::Object| {
        events(Filter { object: Some(object.object), ..Filter::default() })[0]
    };
    let objects = Synthetic::example().objects;
    assert!(objects.iter().map(of_object).sum::<u64>() <= all[0]);
    assert!(objects.iter().any(|object| of_object(object) > 0));
}

/// Where a page is predicted to lie does not depend on whose accesses are looked at.
#[test]
fn predictions_add_up() {
    let directory = tempfile::tempdir().unwrap();
    let profile = profile(&directory);
    for policy in ["recorded", "first-touch", "interleave", "bind:1"] {
        for placement in [Threads::Recorded, Threads::Placed(ThreadPlacement::Compact)] {
            let policies = vec![policy.parse().unwrap()];
            let plan =
                Plan { machine: None, placements: vec![placement], policies, choices: Vec::new(), page_size: 4096 };
            let cells = |filter: Filter| -> Vec<u64> {
                let options = Options { filter, ..Options::default() };
                let reports = whatif::run(&profile, &options, &plan).unwrap();
                let found = reports.iter().find_map(|report| match &report.shape {
                    Shape::Matrix(matrix) => {
                        Some(matrix.rows.iter().flatten().chain(&matrix.unpinned).copied().collect())
                    }
                    _ => None,
                });
                found.expect("one combination has its matrix")
            };
            let mut sum = vec![0; cells(Filter::default()).len()];
            for thread in 0..4 {
                let part = cells(Filter { threads: vec![ThreadId(thread)], ..Filter::default() });
                sum.iter_mut().zip(part).for_each(|(sum, cell)| *sum += cell);
            }
            assert_eq!(sum, cells(Filter::default()), "{policy}, threads {placement:?}");
        }
    }
}
