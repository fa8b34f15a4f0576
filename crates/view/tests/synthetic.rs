//! Every view of the synthetic profile: golden text, golden CSV, and the contract of the JSON.

use numalens_analyze::report::{self, Report};
use numalens_analyze::{Options, metrics, sections};
use numalens_profile::testing::Synthetic;
use numalens_profile::{Engine, Profile, RecordedUnit};
use numalens_view::text::{self, Look};
use numalens_view::{csv, json};
use serde_json::Value;
use std::path::Path;

fn reports_of(content: &Synthetic, options: &Options) -> Vec<Report> {
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    sections::run(&profile, options, &sections::ALL.iter().collect::<Vec<_>>()).unwrap()
}

fn reports() -> Vec<Report> {
    reports_of(&Synthetic::example(), &Options::default())
}

/// The same program, every access counted.
fn exact() -> Synthetic {
    let mut content = Synthetic::example();
    content.meta.engine = Engine::Exact;
    content.meta.unit = RecordedUnit::Accesses;
    content.meta.period = 1;
    content.site_accesses.iter_mut().for_each(|row| (row.samples, row.period) = (0, 1));
    content.object_accesses.iter_mut().for_each(|row| (row.samples, row.period) = (0, 1));
    content.page_accesses.iter_mut().for_each(|row| (row.samples, row.period) = (0, 1));
    content
}

#[test]
fn text() {
    insta::assert_snapshot!(text::render(&reports(), Look::PLAIN));
}

#[test]
fn text_of_exact_counts() {
    let reports: Vec<Report> = reports_of(&exact(), &Options::default())
        .into_iter()
        .filter(|report| ["meta", "summary", "lines"].contains(&report.section))
        .collect();
    insta::assert_snapshot!(text::render(&reports, Look::PLAIN));
}

#[test]
fn text_fits_the_terminal() {
    let wide = text::render(&reports(), Look { color: false, width: Some(90) });
    let tables: Vec<&str> = wide.lines().filter(|line| line.starts_with(' ')).collect();
    assert!(tables.len() > 50);
    for line in tables {
        assert!(line.chars().count() <= 92, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn colours_change_nothing_else() {
    let colored = text::render(&reports(), Look { color: true, width: None });
    assert!(colored.contains('\x1b'));
    let plain: String = colored
        .split('\x1b')
        .enumerate()
        .map(|(i, part)| if i == 0 { part } else { part.split_once('m').unwrap().1 })
        .collect();
    let blanks =
        |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    assert_eq!(blanks(&plain), blanks(&text::render(&reports(), Look::PLAIN)));
}

#[test]
fn closing_summary() {
    let summary = text::closing_summary(&reports(), Path::new("app-1000.numalens"), Look::PLAIN);
    // The verdict, its reasons and what to type, before all else.
    let titles: Vec<&str> = summary.lines().map(|line| line[..13].trim()).collect();
    let reports = reports();
    let verdict = reports.iter().find(|report| report.key == "verdict").unwrap();
    let below =
        ["fault", "remedy"].into_iter().filter(|key| verdict.field(key).is_some_and(|v| *v != report::Value::Absent));
    let first: Vec<&str> =
        std::iter::once("verdict").chain(below).chain(verdict.notes.iter().map(|_| "note")).chain(["next"]).collect();
    assert_eq!(titles[..first.len()], first, "{summary}");
    assert_eq!(
        titles[first.len()..],
        ["hottest line", "object", "first toucher", "ran", "recorded", "limits"],
        "{summary}"
    );
    insta::assert_snapshot!(summary);
}

#[test]
fn csv_of_tables_matrices_and_records() {
    let directory = tempfile::tempdir().unwrap();
    let names = csv::write_all(&reports(), directory.path()).unwrap();
    let mut all = String::new();
    for name in &names {
        let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
        // Every row has as many cells as the heading: the reader fails otherwise.
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        assert!(reader.records().all(|record| record.is_ok()), "{name}");
        if ["summary.csv", "lines.csv", "matrix-access.csv", "timeline.csv", "placements.csv"].contains(&name.as_str())
        {
            all += &format!("== {name}\n{text}");
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn json() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&json::document(&reports())).unwrap());
}

/// What scripts rely on, at its place.
#[test]
fn json_has_what_was_promised() {
    let document = json::document(&reports());
    for path in PROMISED {
        assert!(document.pointer(path).is_some_and(|value| !value.is_null()), "{path} is missing");
    }
    assert_eq!(document["schema"], 1);
    let total: u64 = document["summary"]["classes"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(document["summary"]["accesses"], total);
    // Sampled: every share says how sure it is, and exact ones do not.
    for share in ["local_share", "local_share_all", "local_class_share"] {
        let interval = &document["summary"]["intervals"][share];
        let share = document["summary"][share].as_f64().unwrap();
        assert!(interval[0].as_f64().unwrap() < share && share < interval[1].as_f64().unwrap(), "{share} {interval}");
    }
    assert_eq!(document["summary"]["estimated"], true);
    let mut exact = json::document(&reports_of(&exact(), &Options::default()));
    // What single accesses tell, that were looked at beside the counts, is an estimate.
    exact.as_object_mut().unwrap().remove("line_objects");
    assert_eq!(exact["summary"]["estimated"], false);
    assert!(!serde_json::to_string(&exact).unwrap().contains("intervals"));
}

const PROMISED: &[&str] = &[
    "/meta/command/0",
    "/meta/engine",
    "/meta/machine",
    "/meta/virtual",
    "/meta/duration_s",
    "/meta/losses",
    "/summary/accesses",
    "/summary/reads",
    "/summary/writes",
    "/summary/unit",
    "/summary/classes/local",
    "/summary/classes/remote",
    "/summary/classes/unpinned_page",
    "/summary/classes/unpinned_thread",
    "/summary/classes/unpinned_both",
    "/summary/classes/memory_tier_local",
    "/summary/classes/memory_tier_remote",
    "/summary/classes/unplaced",
    "/summary/first_touch/pinned",
    "/summary/first_touch/unpinned",
    "/summary/first_touch/unseen",
    "/summary/local_share",
    "/summary/local_share_all",
    "/summary/local_class_share",
    "/summary/hot_region/node",
    "/summary/hot_region/share",
    "/summary/numa_access_rate",
    "/summary/application_exclusivity",
    "/summary/imbalance",
    "/summary/distances/0/distance",
    "/summary/distances/0/accesses",
    "/matrix/access/nodes/0",
    "/matrix/access/rows/0/0",
    "/matrix/access/unpinned/0",
    "/matrix/allocation/rows",
    "/matrix/code/rows",
    "/threads/0/thread",
    "/threads/0/classes/local",
    "/functions/0/function",
    "/lines/0/file",
    "/lines/0/line",
    "/lines/0/function",
    "/lines/0/reads",
    "/lines/0/writes",
    "/lines/0/classes/remote",
    "/objects/0/kind",
    "/objects/0/name",
    "/objects/0/size",
    "/objects/0/site/file",
    "/objects/0/site/line",
    "/objects/0/stack/0",
    "/objects/0/accesses",
    "/objects/0/classes/remote",
    "/first_touch/0/file",
    "/first_touch/0/line",
    "/first_touch/0/pages",
    "/first_touch/0/thread",
    "/placements/0/time_s",
    "/placements/0/thread",
    "/placements/0/cpus",
    "/placements/0/node",
    "/pages/0/address",
    "/timeline/time_s/0",
    "/machine/0/node",
];

/// The page that describes the document names everything in it.
#[test]
fn json_is_documented() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/json.md")).unwrap();
    let mut names = Vec::new();
    keys(&json::document(&reports()), &mut names);
    names.sort();
    names.dedup();
    // Classes are defined elsewhere, losses are named by the collector.
    let known = |name: &str| {
        page.contains(&format!("`{name}`"))
            || page.contains(&format!("\"{name}\""))
            || numalens_profile::words::Class::from_word(name).is_some()
            || metrics::named(name).is_some_and(|m| m.name == "samples")
    };
    let missing: Vec<_> = names.into_iter().filter(|name| !known(name)).collect();
    assert!(missing.is_empty(), "docs/reference/json.md does not name {missing:?}");
}

fn keys(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                // Keyed by names of sections or of figures, which are described as such.
                if !["doubts", "omitted", "intervals"].contains(&key.as_str()) {
                    keys(value, names);
                }
                names.push(key.clone());
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, names)),
        _ => {}
    }
}

#[test]
fn one_process_alone() {
    let content = Synthetic::example();
    let pid = content.processes[1].pid;
    let document = json::document(&reports_of(&content, &Options { pids: vec![pid], ..Options::default() }));
    assert_eq!(document["summary"]["accesses"], 10);
    assert_eq!(document["threads"].as_array().unwrap().len(), 1);
    assert_eq!(document["meta"]["only_pids"][0], pid);
}

/// Guards the first screen: what is wrong comes first, how it was recorded last.
#[test]
fn the_verdict_is_first_and_the_recording_last() {
    let text = text::render(&reports(), Look::PLAIN);
    let verdict = json::document(&reports())["verdict"].clone();
    assert_eq!(text.lines().next(), verdict["sentence"].as_str());
    let recorded = text.find("how it was recorded").unwrap();
    assert!(text[recorded..].contains("./app 8") && !text[..recorded].contains("! lost"), "{text}");
    for key in ["coarsened", "recorded unit", "exact counts)"] {
        assert!(!text.contains(key), "{key} is in\n{text}");
    }
}

/// Guards narrow terminals: columns go, words stay whole.
#[test]
fn no_word_breaks_at_80_columns() {
    let words =
        |text: &str| -> std::collections::BTreeSet<String> { text.split_whitespace().map(str::to_string).collect() };
    let wide = words(&text::render(&reports(), Look::PLAIN));
    let narrow = text::render(&reports(), Look { color: false, width: Some(80) });
    assert!(narrow.contains("no room for: "), "{narrow}");
    let mut broken = words(&narrow);
    // What says which columns are gone, intervals, whose place is not there, names cut in the middle, and bars.
    let ours = words("no room for: (a wider terminal, or --format json)");
    let bars = |word: &String| word.chars().all(|c| !c.is_ascii_alphanumeric());
    broken.retain(|word| !wide.contains(word) && !ours.contains(word) && !word.contains('…') && !bars(word));
    broken.retain(|word| !wide.contains(word.trim_end_matches(',')));
    assert!(broken.is_empty(), "{broken:?} in\n{narrow}");
    for line in narrow.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn limits_are_told() {
    let mut content = Synthetic::example();
    content.meta.unobserved = vec!["pid 77 (setuid program)".to_string()];
    content.meta.coarsened = vec!["bins merged by 2".to_string()];
    let text = text::render(&reports_of(&content, &Options::default()), Look::PLAIN);
    let recorded = text.find("how it was recorded").unwrap();
    let top: Vec<&str> = text[recorded..].lines().collect();
    for words in [
        "lost: 2 samples",
        "not observed: pid 77 (setuid program)",
        "recorded less finely: bins merged by 2",
        "synthetic",
    ] {
        assert!(top.iter().any(|line| line.starts_with("! ") && line.contains(words)), "{words} is not in {top:?}");
    }
}
