//! A profile with sums of its own says the same as one without, and needs no facts for it.

use numalens_analyze::report::Report;
use numalens_analyze::{Dataset, DatasetCache, Filter, Options, advice, rollup, sections};
use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::Synthetic;
use numalens_profile::words::{ObjectKind, Placed};
use numalens_profile::{Content, Engine, Profile, RecordedUnit, Row, check};
use numalens_topology::NodeId;
use proptest::prelude::*;

/// Sections that read sums.
const SUMMED: [&str; 4] = ["verdict", "summary", "objects", "communication"];

fn reports(profile: &Profile, names: &[&str]) -> Vec<Report> {
    part(profile, &Options::default(), names)
}

fn part(profile: &Profile, options: &Options, names: &[&str]) -> Vec<Report> {
    let wanted: Vec<_> = sections::ALL.iter().filter(|section| names.contains(&section.name)).collect();
    let mut reports = sections::run(profile, options, &wanted).unwrap();
    reports.extend(advice::run(profile, options).unwrap());
    reports
}

/// The example as exact counts: nothing of it is sampled but single accesses that were looked at.
fn exact_example() -> Synthetic {
    let mut content = Synthetic::example();
    (content.meta.engine, content.meta.unit) = (Engine::Exact, RecordedUnit::Accesses);
    macro_rules! exact {
        ($($table:ident)*) => {$(
            content.$table.iter_mut().for_each(|row| (row.samples, row.period) = (0, 1));
        )*};
    }
    exact!(site_accesses object_accesses page_accesses);
    content
}

/// Adds sums, and gives away all facts that they were made of.
fn summed(profile: &Profile) {
    let dataset = Dataset::load(profile, &Options::default(), rollup::NEEDS).unwrap();
    rollup::of(&dataset, |contents| profile.replace_all(contents)).unwrap().unwrap();
    assert!(profile.count::<PageSum>().unwrap() > 0);
    assert_eq!(check(profile).unwrap().iter().filter(|broken| broken.invariant.contains("sums")).count(), 0);
    profile.overlay(vec![Content::of(Vec::<PageAccess>::new)], |_| ()).unwrap();
}

/// A page's use: which, by whom, when, how often it is read and written.
type PageUse = (u64, u32, u32, u64, u64);
/// Neighbouring pages that somebody placed: which, how many, by whom, where, huge ones.
type Run = (u64, u64, Option<u32>, Option<u16>, bool);

fn with(uses: &[PageUse], runs: &[Run], small: &[u64]) -> Synthetic {
    let mut content = exact_example();
    let access = content.page_accesses[0].clone();
    let (base, process) = (access.page.0, access.process);
    content.page_accesses.extend(uses.iter().map(|(page, thread, bin, reads, writes)| PageAccess {
        page: Page(base + page),
        thread: ThreadId(*thread),
        bin: Bin(*bin),
        home: None,
        node: (*thread > 0).then_some(NodeId(*thread as u16 % 2)),
        reads: *reads,
        writes: *writes,
        ..access.clone()
    }));
    let placed = content.pages[0].clone();
    content.pages.extend(runs.iter().zip(0..).map(|((page, count, thread, home, huge), at)| PlacedPages {
        page: Page(base + page),
        count: *count,
        home: home.map(NodeId),
        page_size: if *huge { 2 << 20 } else { 4096 },
        placed: Placed::ALL[at as usize % Placed::ALL.len()],
        thread: thread.map(ThreadId),
        site: Some(SiteId(at % 3)),
        object: None,
        bin_from: Bin(at % 2),
        bin_to: None,
        ..placed.clone()
    }));
    let first = content.objects.len() as u32;
    let example = content.objects[0].clone();
    content.objects.extend(small.iter().zip(first..).map(|(at, object)| Object {
        process,
        object: ObjectId(object),
        kind: ObjectKind::Heap,
        base: base * Page::BYTES + at * 64,
        size: 48,
        count: 1,
        ..example.clone()
    }));
    let used = content.object_accesses[0].clone();
    content.object_accesses.extend((first..).take(small.len()).map(|object| ObjectAccess {
        object: ObjectId(object),
        node: Some(NodeId(object as u16 % 2)),
        home: Some(NodeId(0)),
        reads: 500_000,
        ..used.clone()
    }));
    content
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sums_say_what_facts_say(
        uses in prop::collection::vec((0u64..1500, 0u32..4, 0u32..4, 0u64..5000, 0u64..50), 0..2000),
        runs in prop::collection::vec(
            (0u64..1500, 1u64..700, prop::option::of(0u32..4), prop::option::of(0u16..2), any::<bool>()),
            0..12,
        ),
        small in prop::collection::vec(0u64..300, 0..20),
        waiting in prop::collection::btree_set(0u32..8, 0..3),
        few in any::<bool>(),
    ) {
        let mut content = with(&uses, &runs, &small);
        content.waiting_sites = waiting.into_iter().map(|site| WaitingSite { site: SiteId(site) }).collect();
        if few {
            // Neighbouring pages stand for one then.
            content.page_accesses.iter_mut().for_each(|row| (row.reads, row.writes) = (row.reads.min(1), 0));
        }
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
        let of_facts = reports(&profile, &SUMMED);
        summed(&profile);
        prop_assert_eq!(&reports(&profile, &SUMMED), &of_facts);
    }
}

/// What waits is left out: with other names of code all facts are read.
#[test]
fn sums_of_other_names_are_not_used() {
    let content = exact_example();
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let facts = profile.rows::<PageAccess>().unwrap();
    summed(&profile);
    profile.overlay(vec![Content::of(|| facts.clone())], |_| ()).unwrap();
    let site = |site| WaitingSite { site: SiteId(site) };
    for waiting in [vec![], vec![site(0), site(1), site(2)]] {
        profile.overlay(vec![Content::of(|| waiting.clone())], |_| ()).unwrap();
        let found = reports(&profile, &SUMMED);
        let without = Synthetic { waiting_sites: waiting, ..content.clone() };
        let path = without.write(&directory.path().join(format!("{}.numalens", without.waiting_sites.len()))).unwrap();
        assert_eq!(found, reports(&Profile::open(&path).unwrap(), &SUMMED));
    }
}

/// Pages know no function: their sums are those of any, as long as the same instructions wait.
#[test]
fn sums_are_those_of_each_function() {
    let uses: Vec<PageUse> = (0..900).map(|at| (at % 90, at as u32 % 4, at as u32 % 3, at % 7, at % 3)).collect();
    let mut content = with(&uses, &[(0, 60, Some(1), Some(1), false)], &[]);
    for waiting in [vec![], vec![WaitingSite { site: SiteId(1) }, WaitingSite { site: SiteId(3) }]] {
        let is_simple = waiting.is_empty();
        content.waiting_sites = waiting;
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
        let options = |function: &Function| {
            let filter = Filter { function: Some(function.name.clone()), ..Filter::default() };
            Options { filter, ..Options::default() }
        };
        let functions: Vec<Options> = profile.rows::<Function>().unwrap().iter().map(options).collect();
        let facts = profile.rows::<PageAccess>().unwrap();
        let of_functions = || functions.iter().map(|one| part(&profile, one, &SUMMED)).collect::<Vec<_>>();
        let of_facts = of_functions();
        summed(&profile);
        if !is_simple {
            profile.overlay(vec![Content::of(|| facts.clone())], |_| ()).unwrap();
        }
        assert_eq!(of_functions(), of_facts);
    }
}

/// Whoever asks for one part after the other has what each of them would have alone.
#[test]
fn a_cache_has_sums_and_facts() {
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&exact_example().write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let facts = profile.rows::<PageAccess>().unwrap();
    let all: Vec<_> = sections::ALL.iter().collect();
    let expected = sections::run(&profile, &Options::default(), &all).unwrap();
    summed(&profile);
    profile.overlay(vec![Content::of(|| facts.clone())], |_| ()).unwrap();
    let orders: [&[&str]; 3] = [&["communication", "verdict", "pages"], &["pages", "verdict"], &["summary", "objects"]];
    for order in orders {
        let mut cache = DatasetCache::new(Options::default());
        for name in order {
            let needs = sections::needs(&[sections::named(name).unwrap()]);
            let dataset = cache.dataset(&profile, &Options::default(), &needs).unwrap();
            sections::of(dataset, &[sections::named(name).unwrap()]);
        }
        let dataset = cache.dataset(&profile, &Options::default(), &sections::needs(&all)).unwrap();
        assert_eq!(sections::of(dataset, &all), expected, "{order:?}");
    }
}

/// Where several threads of a node use the same pages, pages are summed too.
#[test]
fn pages_of_many_threads_need_no_facts() {
    let uses: Vec<PageUse> =
        (0..2400).map(|at| (at / 8, at as u32 % 4, at as u32 / 4 % 2 * 3, at % 7, at % 3)).collect();
    let runs = [(0, 140, Some(1), Some(1), false), (130, 90, Some(2), None, true)];
    let mut content = with(&uses, &runs, &[]);
    content.page_accesses.iter_mut().for_each(|row| row.node = Some(NodeId(1)));
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let names = [&SUMMED[..], &["pages", "address-space", "huge-pages", "memory-tiers"]].concat();
    let of_facts = reports(&profile, &names);
    summed(&profile);
    assert!(profile.count::<NodePage>().unwrap() > 0);
    assert_eq!(reports(&profile, &names), of_facts);
}

/// Gives a column of all rows of a table, or of one, a value; whoever reads them answers, whatever it is.
fn spoil<T: Row>(profile: &Profile, column: usize, value: u64, only: Option<usize>) {
    let rows = profile.rows::<T>().unwrap();
    let mut spoilt = rows.clone();
    let is_meant = |at: usize| only.is_none_or(|only| only % rows.len() == at);
    let meant = spoilt.iter_mut().enumerate().filter(|(at, _)| is_meant(*at));
    meant.for_each(|(_, row)| row.set(column % T::COLUMNS.len(), value));
    profile.overlay(vec![Content::of(|| spoilt)], |_| ()).unwrap();
    reports(profile, &SUMMED);
    profile.overlay(vec![Content::of(|| rows)], |_| ()).unwrap();
}

#[test]
fn mad_sums_do_no_harm() {
    let uses: Vec<PageUse> = (0..600).map(|at| (at % 90, at as u32 % 4, at as u32 % 3, at % 7, at % 3)).collect();
    let runs = [(0, 40, Some(1), Some(1), false), (30, 60, Some(2), None, true)];
    let content = with(&uses, &runs, &[1, 2, 3, 70, 71, 140]);
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    summed(&profile);
    for value in [0, 1, 2, 1 << 31, 1 << 52, 1 << 56, u64::MAX] {
        for column in 0..15 {
            for only in [None, Some(1)] {
                spoil::<PageSum>(&profile, column, value, only);
                spoil::<TargetSum>(&profile, column, value, only);
                spoil::<TargetPart>(&profile, column, value, only);
                spoil::<ThreadPair>(&profile, column, value, only);
                spoil::<MainUser>(&profile, column, value, only);
                spoil::<NodePage>(&profile, column, value, only);
            }
        }
    }
}
