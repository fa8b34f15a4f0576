//! Reports are the same in whatever order the accesses to pages stand: recordings write them by page, versions before
//! wrote them by time and thread.

use numalens_analyze::report::Report;
use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Options, advice, sections};
use numalens_profile::Profile;
use numalens_profile::ids::*;
use numalens_profile::tables::PageAccess;
use numalens_profile::testing::Synthetic;
use numalens_simulate::Threads;
use proptest::prelude::*;

fn all_reports(content: &Synthetic) -> Vec<Report> {
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let all: Vec<_> = sections::ALL.iter().collect();
    let mut reports = sections::run(&profile, &Options::default(), &all).unwrap();
    reports.extend(advice::run(&profile, &Options::default()).unwrap());
    let policies = ["recorded", "first-touch", "interleave", "local", "replicate"];
    let plan = Plan {
        machine: None,
        placements: vec![Threads::Recorded, Threads::Clustered],
        policies: policies.iter().map(|policy| policy.parse().unwrap()).collect(),
        choices: Vec::new(),
        page_size: whatif::RECORDED_PAGE,
    };
    reports.extend(whatif::run(&profile, &Options::default(), &plan).unwrap());
    reports
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_order_of_page_accesses_does_not_matter(
        uses in prop::collection::vec((0u64..1500, 0u32..4, 0u32..4, 1u64..50, 0u64..50), 0..3000),
        exact in any::<bool>(),
    ) {
        let mut content = Synthetic::example();
        let example = content.page_accesses[0].clone();
        let (samples, period) = if exact { (0, 1) } else { (1, example.period) };
        content.page_accesses.extend(uses.iter().map(|(page, thread, bin, reads, writes)| PageAccess {
            page: Page(example.page.0 + page),
            thread: ThreadId(*thread),
            bin: Bin(*bin),
            reads: *reads,
            writes: *writes,
            samples,
            period,
            ..example.clone()
        }));
        let any = all_reports(&content);
        content.page_accesses.sort_by_key(|row| (row.process, row.page, row.thread, row.bin));
        prop_assert_eq!(&all_reports(&content), &any);
        content.page_accesses.sort_by_key(|row| (row.process, row.bin, row.thread, row.page));
        prop_assert_eq!(&all_reports(&content), &any);
    }
}
