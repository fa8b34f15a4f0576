//! Small files of the shape that NUMAPROF writes, against arithmetic on their matrices.

mod common;

use common::numaprof as file;
use numalens_analyze::report::{Report, Shape, Value};
use numalens_analyze::{Options as Load, sections};
use numalens_import::{ImportError, Options, numaprof};
use numalens_profile::Profile;
use numalens_topology::{Machine, NodeId};
use serde_json::{Value as Json, json};
use std::path::Path;

fn import(file: &Json, options: &Options) -> Result<(tempfile::TempDir, Profile), ImportError> {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("a.numalens");
    let text = file.to_string();
    let made = numaprof::import_bytes(text.as_bytes(), Path::new("numaprof-app-77.json"), options, &output, false)?;
    let profile = Profile::open(&made).unwrap();
    Ok((directory, profile))
}

fn reports(profile: &Profile) -> Vec<Report> {
    sections::run(profile, &Load::default(), &sections::ALL.iter().collect::<Vec<_>>()).unwrap()
}

fn find<'a>(reports: &'a [Report], key: &str) -> &'a Report {
    reports.iter().find(|report| report.key == key).unwrap_or_else(|| panic!("no report {key}"))
}

#[track_caller]
fn percent(value: Option<&Value>, part: f64, whole: f64) {
    let Some(Value::Percent(got, None)) = value else { panic!("{value:?} is no exact share") };
    assert!((got - part * 100.0 / whole).abs() < 1e-9, "{got} is not {part} of {whole}");
}

fn inner<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    let Some(Value::Record(fields)) = value else { panic!("{value:?} is no record") };
    fields.iter().find(|field| field.key == key).map(|field| &field.value)
}

/// Distances 10, 16, 22 of three nodes, the last without CPUs.
fn machine() -> Machine {
    let mut machine = Machine::preset("cxl2").unwrap();
    let distances = [[10, 16, 22], [16, 10, 22], [22, 22, 10]];
    machine.nodes.iter_mut().zip(distances).for_each(|(node, row)| node.distances = row.to_vec());
    machine
}

#[test]
fn figures_are_arithmetic_on_the_matrices() {
    let options = Options { machine: Some(machine()), run_time_ns: Some(2_000_000_000) };
    let (_directory, profile) = import(&file(), &options).unwrap();
    assert_eq!(numalens_profile::check(&profile).unwrap(), Vec::new());
    let reports = reports(&profile);
    let summary = find(&reports, "summary");
    // Rows: unpinned 15 5 0; node 0: 70 10 0; node 1: 50 30 5.
    percent(summary.field("local_share"), 100.0, 165.0);
    percent(summary.field("local_share_all"), 100.0, 185.0);
    assert_eq!(inner(summary.field("hot_region"), "node"), Some(&Value::Node(NodeId(0))));
    percent(inner(summary.field("hot_region"), "share"), 50.0, 185.0);
    let rate = 10.0 * 100.0 + 16.0 * 60.0 + 22.0 * 5.0;
    assert_eq!(summary.field("numa_access_rate"), Some(&Value::Number(rate / 2.0, None)));
    // 185 of the matrices and one that found no page.
    assert_eq!(summary.field("accesses"), Some(&Value::Count(186)));
    assert_eq!(summary.field("reads"), Some(&Value::Absent));
    percent(summary.field("local_class_share"), 89.0, 186.0);
    assert_eq!(inner(summary.field("first_touch"), "pinned"), Some(&Value::Count(2)));
    assert_eq!(inner(summary.field("first_touch"), "unpinned"), Some(&Value::Count(2)));
    assert!(find(&reports, "meta").doubts.iter().any(|doubt| doubt.starts_with("1 accesses found no page")));

    let Shape::Matrix(matrix) = &find(&reports, "matrix.access").shape else { panic!("no matrix") };
    assert_eq!(matrix.rows, [[70, 10, 0], [50, 30, 5], [0, 0, 0]]);
    assert_eq!(matrix.unpinned, [15, 5, 0]);
    let Shape::Matrix(matrix) = &find(&reports, "matrix.allocation").shape else { panic!("no matrix") };
    assert_eq!((&matrix.rows[0], &matrix.unpinned), (&vec![100, 8, 0], &vec![4096, 0, 0]));
}

#[test]
fn lines_threads_and_objects_have_their_classes() {
    let (_directory, profile) = import(&file(), &Options::default()).unwrap();
    let reports = reports(&profile);
    let lines = find(&reports, "lines");
    let place = |row| match lines.cell(row, "") {
        Some(Value::Location(place)) => place.to_string(),
        other => panic!("{other:?} is no place"),
    };
    // Most remote first. Left out, and without a name, are rows too.
    assert_eq!(place(0), "main (app)");
    assert_eq!(lines.cell(0, "classes.remote"), Some(&Value::Count(60)));
    let mut sum = 0;
    let mut row = 0;
    while let Some(Value::Count(n)) = lines.cell(row, "accesses") {
        (sum, row) = (sum + n, row + 1);
    }
    assert_eq!((sum, row), (186, 4));
    let threads = find(&reports, "threads");
    assert_eq!(threads.cell(0, "classes.remote"), Some(&Value::Count(50)));
    percent(threads.cell(0, "local_share"), 30.0, 85.0);
    let nodes = vec![Value::Text("unpinned".to_owned()), Value::Node(NodeId(0))];
    assert_eq!(threads.cell(1, "nodes"), Some(&Value::List(nodes)));
    let objects = find(&reports, "objects");
    assert_eq!(objects.cell(0, "accesses"), Some(&Value::Count(148)));
    assert_eq!(objects.cell(0, "size"), Some(&Value::Absent));
    // The log, with the policy that came later.
    let Shape::Table(log) = &find(&reports, "placements").shape else { panic!("no log") };
    assert_eq!(log.rows.len(), 4);
}

#[test]
fn what_is_not_in_the_file_is_said_to_be_missing() {
    let (_directory, profile) = import(&file(), &Options::default()).unwrap();
    let reports = reports(&profile);
    for key in ["pages", "first_touch_lines", "timeline"] {
        let doubts = &find(&reports, key).doubts;
        assert!(doubts.iter().any(|doubt| doubt.contains("imported from sums")), "{key}: {doubts:?}");
    }
    let summary = find(&reports, "summary");
    assert_eq!(summary.field("numa_access_rate"), Some(&Value::Absent));
    assert!(summary.doubts.iter().any(|doubt| doubt.contains("--run-time")), "{:?}", summary.doubts);
    let advice = numalens_analyze::advice::run(&profile, &Load::default()).unwrap();
    assert!(find(&advice, "findings").doubts[0].contains("imported from sums"));
}

#[test]
fn a_file_of_another_kind_is_refused_with_a_reason() {
    let refused = |change: &dyn Fn(&mut Json)| {
        let mut file = file();
        change(&mut file);
        import(&file, &Options::default()).err().expect("it is refused").to_string()
    };
    let newer = refused(&|file| file["infos"]["formatVersion"] = json!(3));
    assert!(newer.contains("format version 3 is newer than 2"), "{newer}");
    assert!(refused(&|file| file["infos"]["tool"] = json!("malt")).contains("written by `malt`"));
    assert!(refused(&|file| drop(file.as_object_mut().unwrap().remove("threads"))).contains("no `threads`"));
    let row = refused(&|file| file["threads"][1]["accessMatrix"]["9"] = json!([1, 0, 0]));
    assert!(row.contains("thread 1: there is no node 9"), "{row}");
    let column = refused(&|file| file["threads"][0]["touchedPages"] = json!([0, 0, 0, 4]));
    assert!(column.contains("thread 0: there is no node 3"), "{column}");
    assert!(refused(&|file| file["threads"][0]["stats"]["localAccess"] = json!(-4)).contains("invalid value"));
    assert!(refused(&|file| file["topo"]["x"] = json!({})).contains("`x` in topo is no node"));
    let options = Options { machine: Machine::preset("xeon64"), run_time_ns: None };
    let mut four = file();
    four["topo"]["7"] = json!({ "cpus": [9], "distance": [1, 1, 1, 1, 1, 1, 1, 0] });
    for node in ["0", "1", "2"] {
        four["topo"][node]["distance"] = json!([0, 1, 1, 1]);
    }
    let unfit = import(&four, &options).err().expect("it is refused").to_string();
    assert!(unfit.contains("machine xeon64 does not fit"), "{unfit}");
}

#[test]
fn sums_that_differ_are_told() {
    let mut file = file();
    file["instructions"]["0x2"] = json!({ "localMcdramAccess": 6, "mcdramAccess": 1 });
    let (_directory, profile) = import(&file, &Options::default()).unwrap();
    assert!(profile.meta.notes.iter().any(|note| note.contains("contradicts itself")), "{:?}", profile.meta.notes);
}
