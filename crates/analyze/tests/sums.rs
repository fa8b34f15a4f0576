//! At every level of attribution the classes sum to the accesses, whatever the facts are.

use numalens_analyze::report::{Report, Shape, Value};
use numalens_analyze::{Options, sections};
use numalens_profile::ids::*;
use numalens_profile::tables::{ObjectAccess, SiteAccess};
use numalens_profile::testing::Synthetic;
use numalens_profile::words::Class;
use numalens_profile::{Profile, RecordedUnit};
use numalens_topology::NodeId;
use proptest::prelude::*;

fn fact() -> impl Strategy<Value = SiteAccess> {
    let node = || prop::option::of(0u16..4).prop_map(|node| node.map(NodeId));
    // Sites beyond the table's: a profile whose tables disagree must not lose accesses.
    (0u32..4, 0u32..4, node(), 0u32..9, node(), 0..Class::ALL.len(), 0u64..1000, 0u64..1000, any::<bool>()).prop_map(
        |(bin, thread, node, site, home, class, reads, writes, sampled)| SiteAccess {
            process: ProcessId(thread / 3),
            bin: Bin(bin),
            thread: ThreadId(thread),
            node,
            site: SiteId(site),
            home,
            class: Class::ALL[class],
            reads,
            writes,
            samples: if sampled { (reads + writes) as u32 } else { 0 },
            period: 7,
        },
    )
}

fn of_object(fact: &SiteAccess) -> ObjectAccess {
    let SiteAccess { process, bin, thread, node, site, home, class, reads, writes, samples, period } = fact.clone();
    ObjectAccess {
        process,
        bin,
        thread,
        node,
        site: Some(site),
        object: ObjectId(site.0),
        home,
        class,
        reads,
        writes,
        samples,
        period,
    }
}

fn count(report: &Report, row: usize, key: &str) -> u64 {
    match report.cell(row, key) {
        Some(Value::Count(n) | Value::Estimate(n, _)) => *n,
        other => panic!("{}: {key} is {other:?}", report.key),
    }
}

/// The classes and the accesses of all rows together; each row is checked.
fn sums(report: &Report) -> (Vec<u64>, u64) {
    let Shape::Table(table) = &report.shape else { panic!("{} is no table", report.key) };
    let mut all = (vec![0; Class::ALL.len()], 0);
    for row in 0..table.rows.len() {
        let classes: Vec<u64> =
            Class::ALL.iter().map(|class| count(report, row, &format!("classes.{}", class.word()))).collect();
        let accesses = count(report, row, "accesses");
        assert_eq!(classes.iter().sum::<u64>(), accesses, "row {row} of {}", report.key);
        assert_eq!(count(report, row, "reads") + count(report, row, "writes"), accesses, "row {row} of {}", report.key);
        all.0.iter_mut().zip(classes).for_each(|(sum, n)| *sum += n);
        all.1 += accesses;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_level_has_every_access(facts in prop::collection::vec(fact(), 0..60), hardware in any::<bool>()) {
        let mut content = Synthetic::example();
        content.meta.unit = if hardware { RecordedUnit::EstimatedAccesses } else { RecordedUnit::TimeAtMemory };
        let weight = if hardware { 7 } else { 1 };
        content.object_accesses = facts.iter().map(of_object).collect();
        content.site_accesses = facts;
        let mut expected = vec![0; Class::ALL.len()];
        for fact in &content.site_accesses {
            expected[fact.class as usize] += (fact.reads + fact.writes) * weight;
        }
        let total = expected.iter().sum::<u64>();

        let directory = tempfile::tempdir().unwrap();
        let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
        let all: Vec<_> = sections::ALL.iter().collect();
        let reports = sections::run(&profile, &Options::default(), &all).unwrap();
        let find = |key: &str| reports.iter().find(|report| report.key == key).unwrap();
        for key in ["threads", "functions", "lines", "objects"] {
            prop_assert_eq!(sums(find(key)), (expected.clone(), total), "{}", key);
        }
        prop_assert!(matches!(find("summary").field("accesses"), Some(Value::Count(n) | Value::Estimate(n, _)) if *n == total));
        let Shape::Matrix(matrix) = &find("matrix.access").shape else { panic!("no matrix") };
        let cells = matrix.rows.iter().flatten().chain(&matrix.unpinned).chain(&matrix.homeless).sum::<u64>() + matrix.homeless_unpinned;
        prop_assert_eq!(cells, total);
        let Shape::Series(series) = &find("timeline").shape else { panic!("no series") };
        let over_time: Vec<u64> = series.lines[..Class::ALL.len()].iter().map(|(_, values)| values.iter().sum()).collect();
        prop_assert_eq!(over_time, expected);
    }
}
