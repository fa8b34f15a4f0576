//! The verdict: what is said first of a recording is what advice found, and where there is none, why.

use numalens_analyze::report::{Report, Shape, Value};
use numalens_analyze::{Options, advice, sections};
use numalens_profile::Profile;
use numalens_profile::testing::Synthetic;
use numalens_profile::words::Class;

fn verdict(content: &Synthetic) -> (Report, Profile, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let section = sections::named("verdict").unwrap();
    let mut reports = sections::run(&profile, &Options::default(), &[section]).unwrap();
    (reports.pop().unwrap(), profile, directory)
}

fn text(report: &Report, key: &str) -> String {
    match report.field(key) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

/// Guards that the verdict and `advise` tell the same fault first.
#[test]
fn the_main_fault_is_the_first_finding() {
    let (report, profile, _directory) = verdict(&Synthetic::example());
    let advice = advice::run(&profile, &Options::default()).unwrap();
    let findings = advice.iter().find_map(|report| match &report.shape {
        Shape::Findings(findings) => Some(findings.clone()),
        _ => None,
    });
    let findings = findings.unwrap();
    let first = findings.first().expect("a finding");
    assert_eq!(text(&report, "result"), "gain");
    assert_eq!(text(&report, "pattern"), first.pattern.name());
    assert!(text(&report, "fault").starts_with(first.pattern.title()), "{report:?}");
    assert!(text(&report, "remedy").starts_with(first.remedy.title()), "{report:?}");
    assert_eq!(report.field("findings"), Some(&Value::Count(findings.len() as u64)));
    assert!(text(&report, "sentence").contains("of the memory time"), "{report:?}");
}

/// Guards programs without a fault, and recordings that cannot tell.
#[test]
fn without_a_finding_it_says_why() {
    let mut local = Synthetic::example();
    local.code_fetches.clear();
    for (class, node, home) in local
        .site_accesses
        .iter_mut()
        .map(|row| (&mut row.class, &mut row.node, &mut row.home))
        .chain(local.object_accesses.iter_mut().map(|row| (&mut row.class, &mut row.node, &mut row.home)))
    {
        (*class, *home) = (Class::Local, *node);
    }
    local.page_accesses.iter_mut().for_each(|row| row.node = row.home);
    let (report, ..) = verdict(&local);
    assert_eq!(text(&report, "result"), "nothing-to-gain", "{report:?}");
    assert!(text(&report, "sentence").starts_with("nothing to gain: 0.0 %"), "{report:?}");
    assert_eq!((text(&report, "fault"), text(&report, "next")), (String::new(), String::new()));
    let mut none = Synthetic::example();
    none.site_accesses.clear();
    none.object_accesses.clear();
    none.page_accesses.clear();
    none.code_fetches.clear();
    let (report, ..) = verdict(&none);
    assert_eq!(text(&report, "result"), "unknown");
    assert!(text(&report, "sentence").starts_with("no verdict: "), "{report:?}");
}

/// Guards recordings that were paused: the verdict says so beside its figures.
#[test]
fn a_paused_recording_is_told_with_the_verdict() {
    let mut content = Synthetic::example();
    content.meta.counted_ns = Some(content.meta.duration_ns / 4);
    let (report, ..) = verdict(&content);
    assert!(report.doubts.iter().any(|doubt| doubt.contains("(25 %)")), "{report:?}");
}
