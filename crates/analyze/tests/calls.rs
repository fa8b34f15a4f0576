//! Sections that place what others count: the call tree, the address space, the nodes over time.

use numalens_analyze::report::{Report, Value};
use numalens_analyze::{Options, sections};
use numalens_profile::Profile;
use numalens_profile::testing::Synthetic;

fn report(content: &Synthetic, name: &str) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    sections::run(&profile, &Options::default(), &[sections::named(name).unwrap()]).unwrap().pop().unwrap()
}

fn number(report: &Report, row: usize, key: &str) -> Option<u64> {
    match report.cell(row, key)? {
        Value::Count(n) | Value::Estimate(n, _) | Value::Bytes(n) => Some(*n),
        Value::Node(node) => Some(u64::from(node.0)),
        _ => None,
    }
}

fn rows(report: &Report) -> usize {
    (0..).take_while(|row| report.cell(*row, "accesses").or(report.cell(*row, "served")).is_some()).count()
}

/// Both engines' kinds of profiles: with sampled stacks, and without.
fn contents() -> [Synthetic; 2] {
    let mut without = Synthetic::example();
    without.samples.clear();
    [Synthetic::example(), without]
}

#[test]
fn callers_include_whom_they_call() {
    for content in contents() {
        let tree = report(&content, "call-tree");
        let summary = report(&content, "summary");
        let Some(Value::Count(all) | Value::Estimate(all, _)) = summary.field("accesses") else {
            panic!("no accesses")
        };
        let (mut roots, mut own) = (0, 0);
        let mut below = vec![0; rows(&tree)];
        for row in 0..rows(&tree) {
            let accesses = number(&tree, row, "accesses").unwrap();
            assert_eq!(number(&tree, row, "node"), Some(row as u64), "rows are numbered as they stand");
            own += number(&tree, row, "own").unwrap();
            match number(&tree, row, "parent") {
                None => roots += accesses,
                Some(parent) => {
                    assert!(parent < row as u64, "a caller stands before whom it calls");
                    let depth = |row: usize| number(&tree, row, "depth").unwrap();
                    assert_eq!(depth(row), depth(parent as usize) + 1);
                    below[parent as usize] += accesses;
                }
            }
        }
        assert!(*all > 0 && rows(&tree) > 1);
        assert_eq!((roots, own), (*all, *all), "every access is under one root, and of one function itself");
        for (row, below) in below.into_iter().enumerate() {
            let (accesses, own) = (number(&tree, row, "accesses").unwrap(), number(&tree, row, "own").unwrap());
            assert_eq!(accesses, own + below, "row {row}");
        }
        let placed: u64 = (0..rows(&tree))
            .filter(|row| number(&tree, *row, "parent").is_none())
            .filter_map(|row| number(&tree, row, "placed"))
            .sum();
        assert!(placed > 0, "first touches have callers with every engine");
    }
}

#[test]
fn inclusive_figures_are_those_of_the_tree() {
    for content in contents() {
        let (tree, inclusive) = (report(&content, "call-tree"), report(&content, "inclusive"));
        let of = |report: &Report, key: &str, name: &str, named: &dyn Fn(usize) -> bool| -> u64 {
            let is_it =
                |row: &usize| report.cell(*row, "function") == Some(&Value::Text(name.to_string())) && named(*row);
            (0..rows(report)).filter(is_it).filter_map(|row| number(report, row, key)).sum()
        };
        // Nobody calls main, and main calls everything that has callers.
        let root = |row: usize| number(&tree, row, "parent").is_none();
        for key in ["placed", "allocated"] {
            let main = of(&inclusive, key, "main", &|_| true);
            assert_eq!(main, of(&tree, key, "main", &root), "{key}");
            assert!(main > 0, "{key}");
        }
        let own: u64 = (0..rows(&inclusive)).filter_map(|row| number(&inclusive, row, "own")).sum();
        let all: u64 = (0..rows(&tree)).filter(|row| root(*row)).filter_map(|row| number(&tree, row, "accesses")).sum();
        assert_eq!(own, all, "every access is of one function itself");
        match content.samples.is_empty() {
            true => assert!(report_doubts(&inclusive, "without their callers")),
            false => assert_eq!(of(&inclusive, "accesses", "main", &|_| true), all),
        }
    }
}

fn report_doubts(report: &Report, words: &str) -> bool {
    report.doubts.iter().any(|doubt| doubt.contains(words))
}

#[test]
fn the_address_space_has_every_page_and_every_access_to_one() {
    let content = Synthetic::example();
    let space = report(&content, "address-space");
    let bytes: u64 = (0..rows(&space)).filter_map(|row| number(&space, row, "bytes")).sum();
    let pages: u64 = content.pages.iter().map(|row| row.count).sum();
    assert_eq!(bytes, pages * 4096);
    let accesses: u64 = (0..rows(&space)).filter_map(|row| number(&space, row, "accesses")).sum();
    assert_eq!(accesses, content.page_accesses.iter().map(|row| row.reads + row.writes).sum::<u64>());
    // The array of eight pages on node 0 is one run, which threads of node 1 use most.
    let array = (0..rows(&space)).find(|row| number(&space, *row, "bytes") == Some(8 * 4096)).unwrap();
    assert_eq!((number(&space, array, "home"), number(&space, array, "main_user")), (Some(0), Some(1)));
}

#[test]
fn a_later_period_of_a_page_counts() {
    let mut content = Synthetic::example();
    let mut moved = content.pages[0].clone();
    (moved.bin_from.0, moved.home, moved.count) = (2, Some(numalens_topology::NodeId(2)), 1);
    content.pages[0].bin_to = Some(moved.bin_from);
    content.pages.push(moved);
    let space = report(&content, "address-space");
    let home = |row| number(&space, row, "home");
    assert!((0..rows(&space)).any(|row| home(row) == Some(2) && number(&space, row, "bytes") == Some(4096)));
}

/// What a forked process accesses of its parent's memory has no placement of its own.
#[test]
fn memory_that_a_process_has_from_its_parent_is_where_that_placed_it() {
    let mut content = Synthetic::example();
    let parent = content.page_accesses[0].process;
    let child = numalens_profile::ids::ProcessId(content.processes.len() as u32);
    let like = content.processes.iter().find(|process| process.process == parent).unwrap().clone();
    content.processes.push(numalens_profile::tables::Process {
        process: child,
        parent: Some(parent),
        pid: 4711,
        ..like
    });
    let placed = content.pages.iter().find(|row| row.process == parent && row.object.is_some()).unwrap().clone();
    let used = content.page_accesses[0].clone();
    let used = numalens_profile::tables::PageAccess { process: child, page: placed.page, home: placed.home, ..used };
    content.page_accesses.push(used.clone());
    let is_childs = |report: &Report, row: usize| report.cell(row, "pid") == Some(&Value::Id(4711));
    let space = report(&content, "address-space");
    let row = (0..rows(&space)).find(|&row| is_childs(&space, row)).expect("a run of the child's");
    assert_eq!(number(&space, row, "accesses"), Some(used.reads + used.writes));
    assert_eq!(number(&space, row, "home"), placed.home.map(|home| u64::from(home.0)));
    assert_eq!(number(&space, row, "bytes"), Some(4096));
    assert_eq!(space.cell(row, "object"), Some(&Value::Id(u64::from(placed.object.unwrap().0))));
    let pages = report(&content, "pages");
    let row = (0..rows(&pages)).find(|&row| is_childs(&pages, row)).expect("a page of the child's");
    assert_ne!(pages.cell(row, "object"), Some(&Value::Absent));
}

#[test]
fn what_nodes_serve_is_what_they_do() {
    let content = Synthetic::example();
    let times = report(&content, "node-timeline");
    let sum = |key| (0..rows(&times)).filter_map(|row| number(&times, row, key)).sum::<u64>();
    let all: u64 = content.site_accesses.iter().map(|row| row.reads + row.writes).sum();
    assert_eq!((sum("served"), sum("made")), (all, all));
    let differ =
        |row: &&numalens_profile::tables::SiteAccess| row.node.is_some() && row.home.is_some() && row.node != row.home;
    let remote: u64 = content.site_accesses.iter().filter(differ).map(|row| row.reads + row.writes).sum();
    assert_eq!(sum("remote"), remote);
}
