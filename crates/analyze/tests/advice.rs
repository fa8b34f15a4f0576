//! Advice on programs of four threads on four nodes, made of exact counts: each planted pattern is the first finding,
//! with its remedy and a gain that arithmetic on the cost model confirms; a program without a fault gets none.

use numalens_analyze::report::{Field, Finding, Report, Shape, Value};
use numalens_analyze::whatif::{self, Plan, RECORDED_PAGE};
use numalens_analyze::{Options, advice, sections};
use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::{Synthetic, a_thread};
use numalens_profile::words::*;
use numalens_profile::{Engine, Meta, Profile, RecordedUnit};
use numalens_topology::{CpuSet, Machine, Node, NodeId};

const NODES: u16 = 4;
const BASE: u64 = 0x7_f000_0000;
/// Pages of an array: 4 MiB.
const PAGES: u64 = 1024;

fn machine() -> Machine {
    let node = |id: u16| Node {
        id: NodeId(id),
        cpus: CpuSet::from_iter([u32::from(id)]),
        memory_bytes: 8 << 30,
        distances: (0..NODES).map(|to| if to == id { 10 } else { 20 }).collect(),
        tier: 0,
        huge_page_sizes: Vec::new(),
        only_unusable_cpus: false,
        latency_ns: None,
        bandwidth: None,
    };
    Machine { name: "4x1".into(), is_virtual: true, nodes: (0..NODES).map(node).collect() }
}

/// Four threads, thread i pinned to node i; one process for each pair of `processes` threads.
fn program() -> Synthetic {
    let machine = machine();
    let process = |id: u32| Process {
        process: ProcessId(id),
        pid: 100 + id,
        parent: None,
        rank: None,
        host: "test".into(),
        command: "./app".into(),
        start_ns: 0,
        end_ns: Some(1_000_000),
        end: "exited 0".into(),
        heap_observed: true,
    };
    Synthetic {
        meta: Meta {
            unit: RecordedUnit::Accesses,
            engine: Engine::Exact,
            bin_ns: 1000,
            bins: 10,
            duration_ns: 10_000,
            machine_name: machine.name.clone(),
            machine_virtual: true,
            complete: true,
            ..Synthetic::example().meta
        },
        machine: MachineNode::of(&machine),
        processes: vec![process(0)],
        threads: (0..4).map(|id| thread(id, 0)).collect(),
        placements: (0..4).map(|id| placement(id, 0, Some(NodeId(id as u16)))).collect(),
        ..Synthetic::default()
    }
}

fn thread(id: u32, process: u32) -> Thread {
    Thread { name: format!("t{id}"), ..a_thread(ProcessId(process), ThreadId(id)) }
}

fn placement(id: u32, process: u32, node: Option<NodeId>) -> Placement {
    Placement {
        process: ProcessId(process),
        thread: ThreadId(id),
        time_ns: 0,
        cpus: node.map_or("0-3".into(), |node| node.to_string()),
        node,
        policy: "default".into(),
        cause: "start".into(),
    }
}

fn heap(id: u32, base: u64, pages: u64) -> Object {
    Object {
        process: ProcessId(0),
        object: ObjectId(id),
        kind: ObjectKind::Heap,
        name: String::new(),
        base: base << 12,
        size: pages << 12,
        count: 1,
        site: None,
        stack: None,
        thread: Some(ThreadId(0)),
        birth_ns: 0,
        death_ns: None,
    }
}

fn placed(page: u64, count: u64, toucher: u32, object: u32) -> PlacedPages {
    PlacedPages {
        process: ProcessId(0),
        page: Page(page),
        count,
        bin_from: Bin(0),
        bin_to: None,
        home: Some(NodeId(toucher as u16)),
        page_size: 4096,
        placed: Placed::Pinned,
        fault: Fault::Anonymous,
        call: None,
        thread: Some(ThreadId(toucher)),
        node: Some(NodeId(toucher as u16)),
        site: None,
        stack: None,
        object: Some(ObjectId(object)),
        inferred: false,
    }
}

fn access(bin: u32, thread: u32, page: u64, reads: u64, writes: u64) -> PageAccess {
    PageAccess {
        process: ProcessId(0),
        bin: Bin(bin),
        thread: ThreadId(thread),
        node: Some(NodeId(thread as u16)),
        home: None,
        page: Page(page),
        reads,
        writes,
        samples: 0,
        period: 1,
    }
}

/// An array that thread 0 touches, with what every thread does to every page afterwards.
fn array(use_of: impl Fn(u32, u64) -> (u64, u64)) -> Synthetic {
    let mut content = program();
    content.objects = vec![heap(0, BASE, PAGES)];
    content.pages = vec![placed(BASE, PAGES, 0, 0)];
    for page in 0..PAGES {
        content.page_accesses.push(access(0, 0, BASE + page, 0, 512));
        for thread in 0..4 {
            let (reads, writes) = use_of(thread, page);
            if reads + writes > 0 {
                content.page_accesses.push(access(5, thread, BASE + page, reads, writes));
            }
        }
    }
    content
}

fn advise(content: &Synthetic) -> (Vec<Finding>, bool, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
    let reports = advice::run(&profile, &Options::default()).unwrap();
    let find = |key: &str| reports.iter().find(|report: &&Report| report.key == key).unwrap();
    let Shape::Findings(findings) = &find("findings").shape else { panic!("no findings") };
    let Some(Value::Flag(nothing)) = find("").field("nothing_to_gain") else { panic!("no verdict") };
    (findings.clone(), *nothing, find("findings").doubts.clone())
}

#[track_caller]
fn first(content: &Synthetic, pattern: &str, remedy: &str) -> Finding {
    let (findings, nothing, _) = advise(content);
    assert!(!nothing && !findings.is_empty(), "nothing was found");
    let first = findings[0].clone();
    assert_eq!((first.pattern.name(), first.remedy.name()), (pattern, remedy), "{:?}", first.evidence);
    assert!(!first.in_code.is_empty() && !first.without_code.is_empty());
    first
}

/// The table of objects says of an object what advice says of it.
#[test]
fn objects_have_their_patterns() {
    let blocks = array(|thread, page| if page / (PAGES / 4) == u64::from(thread) { (5120, 0) } else { (0, 0) });
    let cases = [
        (blocks, "serial-initialisation", "parallel-initialisation"),
        (array(|_, _| (2560, 0)), "read-by-all", "replicate"),
        (array(|_, _| (1280, 1280)), "shared-read-write", "interleave"),
    ];
    for (content, pattern, remedy) in cases {
        let finding = first(&content, pattern, remedy);
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
        let reports = sections::run(&profile, &Options::default(), &[sections::named("objects").unwrap()]).unwrap();
        let cell = |key: &str| reports[1].cell(0, key).cloned();
        assert_eq!(cell("pattern"), Some(Value::Text(pattern.to_string())));
        assert_eq!(cell("remedy"), Some(Value::Text(remedy.to_string())));
        assert_eq!(cell("evidence"), Some(Value::Record(finding.evidence)));
    }
}

#[test]
fn serial_initialisation() {
    let content = array(|thread, page| if page / (PAGES / 4) == u64::from(thread) { (5120, 0) } else { (0, 0) });
    let finding = first(&content, "serial-initialisation", "parallel-initialisation");
    // By latency alone: a quarter local and the initialisation too, the rest at twice the cost; then all local.
    let (used, initial) = (5120.0 * PAGES as f64, 512.0 * PAGES as f64);
    let before = initial + used / 4.0 + used * 0.75 * 2.0;
    let low = (before - used - initial) * 100.0 / before;
    let (estimate, interval) = finding.gain;
    assert!((interval.0 - low).abs() < 0.01, "{} is not {low}", interval.0);
    assert!(interval.0 < estimate && estimate < interval.1 && interval.1 < 100.0);
}

/// Counts are found when the array is gone, and another, without fault, is where it was.
#[test]
fn an_array_that_is_gone_when_it_is_looked_at() {
    let blocks = |thread, page| if page / (PAGES / 4) == u64::from(thread) { (2560, 0) } else { (0, 0) };
    let mut content = array(blocks);
    let other = Object { kind: ObjectKind::Global, name: "other".into(), birth_ns: 4000, ..heap(1, BASE, PAGES) };
    content.objects.push(other);
    content.objects[0].death_ns = Some(4000);
    content.pages[0].bin_to = Some(Bin(4));
    for id in 0..4 {
        let part = placed(BASE + u64::from(id) * (PAGES / 4), PAGES / 4, id, 1);
        content.pages.push(PlacedPages { bin_from: Bin(4), ..part });
    }
    for row in &mut content.page_accesses {
        row.home = Some(NodeId(0));
    }
    let of_second = content.page_accesses.iter().filter(|row| row.bin == Bin(5));
    let of_second = of_second.map(|row| PageAccess { home: row.node, ..row.clone() });
    let of_second: Vec<PageAccess> = of_second.filter(|row| row.home != Some(NodeId(0))).collect();
    content.page_accesses.extend(of_second);
    let finding = first(&content, "serial-initialisation", "parallel-initialisation");
    assert!(
        matches!(
            finding.object.iter().find(|field| field.key == "size"),
            Some(Field { value: Value::Bytes(4_194_304), .. })
        ),
        "{:?}",
        finding.object
    );
}

/// Parts of 512 KiB in turn, each page used by one thread; the same memory as huge pages has one home for four of them.
#[test]
fn huge_pages_that_nodes_divide() {
    let mut content = array(|thread, page| if page / 128 % 4 == u64::from(thread) { (5120, 0) } else { (0, 0) });
    first(&content, "serial-initialisation", "parallel-initialisation");
    content.pages[0].page_size = 2 << 20;
    let finding = first(&content, "huge-page-split", "align-to-huge-pages");
    let evidence = |key: &str| finding.evidence.iter().find(|field| field.key == key).map(|field| field.value.clone());
    let Some(Value::Percent(of_small, _)) = evidence("page_main_user") else { panic!("{:?}", finding.evidence) };
    let Some(Value::Percent(of_huge, _)) = evidence("huge_page_main_user") else { panic!("{:?}", finding.evidence) };
    assert!(of_small > 99.0 && of_huge < 40.0, "{of_small} {of_huge}");
    // Divided as the huge pages are, who touched them first is what matters.
    let mut halves = array(|thread, page| if page / 512 == u64::from(thread) / 2 { (2560, 0) } else { (0, 0) });
    halves.pages[0].page_size = 2 << 20;
    assert_ne!(advise(&halves).0[0].pattern.name(), "huge-page-split");
}

#[test]
fn written_once_and_read_by_all() {
    first(&array(|_, _| (2560, 0)), "read-by-all", "replicate");
    // What was written before is not written to every copy: the way is a third of the time, and the queue as much.
    let mut content = array(|_, _| (8192, 0));
    content.page_accesses.iter_mut().filter(|row| row.bin == Bin(0)).for_each(|row| row.writes = 4096);
    let finding = first(&content, "read-by-all", "replicate");
    assert!(finding.gain.0 > 60.0, "{:?}", finding.gain);
}

/// Who reads a table once copies nothing by reading a copy of it, and beside many instructions nobody would feel it.
#[test]
fn a_table_that_is_read_once() {
    let times = |n: u64, instructions: u64| {
        let mut content = array(|_, _| (n * 4096, 0));
        content.code_fetches = vec![CodeFetch {
            process: ProcessId(0),
            bin: Bin(5),
            thread: ThreadId(0),
            node: Some(NodeId(0)),
            page: Page(BASE - 1),
            module: None,
            home: Some(NodeId(0)),
            instructions,
            period: 1,
        }];
        content
    };
    let (few, many) = (40_000_000, 40_000_000_000);
    let once = first(&times(1, few), "read-by-all", "replicate");
    assert!(once.gain.0 > 30.0 && once.gain.1.0 < 1e-9, "{:?}", once.gain);
    let often = first(&times(100, many), "read-by-all", "replicate");
    assert!(often.gain.1.0 > 40.0, "{:?}", often.gain);
    assert!(advise(&times(1, many)).0.is_empty());
}

#[test]
fn read_and_written_by_all() {
    let finding = first(&array(|_, _| (1280, 1280)), "shared-read-write", "interleave");
    // Latency alone gains nothing: interleaved, as many accesses are remote as before, but for the initialisation.
    assert!(finding.gain.1.0.abs() < 1e-9, "{:?}", finding.gain);
}

#[test]
fn private_objects_made_by_the_main_thread() {
    let mut content = array(|thread, page| if page / (PAGES / 4) == u64::from(thread) { (2560, 2560) } else { (0, 0) });
    content.objects = (0..4).map(|id| heap(id, BASE + u64::from(id) * (PAGES / 4), PAGES / 4)).collect();
    content.pages = (0..4).map(|id| placed(BASE + u64::from(id) * (PAGES / 4), PAGES / 4, 0, id)).collect();
    first(&content, "private-elsewhere", "local-allocation");
}

/// The stacks of threads 1 to 3, 8 MiB each, of which thread 0 has touched `pages` and their threads use those.
fn stacks(pages: u64) -> Synthetic {
    let mut content = program();
    let base = |id: u32| BASE + u64::from(id) * 2048;
    let stack = |id: u32| Object { kind: ObjectKind::Stack, name: format!("stack {id}"), ..heap(id, base(id), 2048) };
    content.objects = (0..4).map(stack).collect();
    for id in 1..4 {
        content.pages.push(placed(base(id), pages, 0, id));
        content.page_accesses.extend((0..pages).map(|page| access(5, id, base(id) + page, 5120, 512)));
    }
    content
}

/// What counts is what a thread touches, not what is mapped; and all of it.
#[test]
fn stacks_that_caches_do_not_hold() {
    let (findings, nothing, doubts) = advise(&stacks(3));
    assert!(findings.is_empty() && nothing, "{findings:?} {doubts:?}");
    let finding = first(&stacks(256), "private-elsewhere", "local-stack");
    assert_eq!(finding.members.len(), 3);
    let share = |fields: &[Field]| match fields.iter().find(|field| field.key == "share").unwrap().value {
        Value::Percent(share, _) => share,
        ref other => panic!("{other:?}"),
    };
    assert!((share(&finding.evidence) - 100.0).abs() < 1e-9);
    assert!(finding.members.iter().all(|member| (share(&member.evidence) - 100.0 / 3.0).abs() < 0.01));
    // By latency alone: all of it is at twice the distance.
    assert!((finding.gain.1.0 - 50.0).abs() < 0.01, "{:?}", finding.gain);
}

/// Each of a thread's objects fits, all together do not. Alone none of them is a hundredth of all accesses.
#[test]
fn objects_that_are_little_each_and_much_together() {
    let mut content = program();
    let site = |site: u32| Site { site: SiteId(site), module: None, address: 0x1000 + u64::from(site) };
    let frame = |site: u32, depth: u32, function: u32, line: u32| Frame {
        site: SiteId(site),
        depth,
        function: FunctionId(function),
        file: Some("/src/app.c".into()),
        line: Some(line),
    };
    // Site 0 calls from main; site i of 1 to 128 makes object i in a function of its own.
    content.sites = (0..=128).map(site).collect();
    content.frames = (0..=128).map(|id| frame(id, 0, id, 10 + id)).collect();
    let name = |id: u32| if id == 0 { "main".to_string() } else { format!("make{id}") };
    content.functions =
        (0..=128).map(|id| Function { function: FunctionId(id), module: None, name: name(id) }).collect();
    let main = Stack { stack: StackId(0), parent: None, site: SiteId(0) };
    let call = |id: u32| Stack { stack: StackId(id), parent: Some(StackId(0)), site: SiteId(id) };
    content.stacks = std::iter::once(main).chain((1..=128).map(call)).collect();
    let base = |id: u32| BASE + u64::from(id) * 4;
    for id in 1..=128 {
        let (stack, site) = (Some(StackId(id)), Some(SiteId(id)));
        content.objects.push(Object { stack, site, ..heap(id, base(id), 4) });
        content.pages.push(PlacedPages { stack, site, ..placed(base(id), 4, 0, id) });
        content.page_accesses.extend((0..4).map(|page| access(5, 1, base(id) + page, 5120, 512)));
    }
    let finding = first(&content, "private-elsewhere", "local-allocation");
    assert_eq!(finding.members.len(), 128);
    // As few as a cache holds are nothing.
    content.page_accesses.retain(|row| row.page.0 < base(17));
    assert!(advise(&content).1);
}

#[test]
fn one_page_that_all_write() {
    let mut content = program();
    content.objects = vec![heap(0, BASE, 1)];
    content.pages = vec![placed(BASE, 1, 0, 0)];
    content.page_accesses = (0..4).map(|thread| access(3, thread, BASE, 100_000, 100_000)).collect();
    first(&content, "shared-line", "split-line");
    // Written ten times by each, lines can have moved some tens of times: nobody waits for that.
    content.page_accesses = (0..4).map(|thread| access(3, thread, BASE, 100_000, 10)).collect();
    assert!(advise(&content).0.is_empty());
}

#[test]
fn threads_bound_to_no_node() {
    let mut content = array(|thread, page| if page / (PAGES / 4) == u64::from(thread) { (5120, 0) } else { (0, 0) });
    content.placements = (0..4).map(|id| placement(id, 0, None)).collect();
    content.page_accesses.iter_mut().for_each(|row| row.node = None);
    content.pages[0].node = None;
    content.pages[0].placed = Placed::Unpinned;
    content.site_accesses = vec![SiteAccess {
        process: ProcessId(0),
        bin: Bin(5),
        thread: ThreadId(1),
        node: None,
        site: SiteId(0),
        home: Some(NodeId(0)),
        class: Class::UnpinnedBoth,
        reads: 5120,
        writes: 0,
        samples: 0,
        period: 1,
    }];
    let finding = first(&content, "unpinned-threads", "pin-threads");
    assert_eq!(finding.gain.1.0, 0.0, "the kernel may leave them alone");
}

/// Threads 0 and 1 share one array, 2 and 3 another; each pair lies on two nodes, of two CPUs each.
#[test]
fn threads_that_share_are_apart() {
    let mut content = program();
    let mut machine = machine();
    machine
        .nodes
        .iter_mut()
        .for_each(|node| node.cpus = CpuSet::from_iter([2 * u32::from(node.id.0), 2 * u32::from(node.id.0) + 1]));
    content.machine = MachineNode::of(&machine);
    content.objects = vec![heap(0, BASE, PAGES), heap(1, BASE + PAGES, PAGES)];
    content.pages = vec![placed(BASE, PAGES, 0, 0), placed(BASE + PAGES, PAGES, 2, 1)];
    for page in 0..PAGES {
        for thread in 0..4u32 {
            content.page_accesses.push(access(5, thread, BASE + page + u64::from(thread / 2) * PAGES, 1000, 10));
        }
    }
    content.site_accesses = vec![SiteAccess {
        process: ProcessId(0),
        bin: Bin(5),
        thread: ThreadId(1),
        node: Some(NodeId(1)),
        site: SiteId(0),
        home: Some(NodeId(0)),
        class: Class::Remote,
        reads: 1,
        writes: 0,
        samples: 0,
        period: 1,
    }];
    first(&content, "split-clusters", "co-locate-threads");
}

#[test]
fn code_on_another_node() {
    let mut content = program();
    content.code_fetches = (0..400u64)
        .map(|i| CodeFetch {
            process: ProcessId(0),
            bin: Bin(1),
            thread: ThreadId((i % 4) as u32),
            node: Some(NodeId((i % 4) as u16)),
            page: Page(BASE + i / 4),
            module: None,
            home: Some(NodeId(0)),
            instructions: 1000,
            period: 1,
        })
        .collect();
    first(&content, "remote-code", "replicate-text");
    // Beside so many instructions an array of few accesses is of little weight, whatever is wrong with it.
    let array = array(|thread, page| if page / (PAGES / 4) == u64::from(thread) { (5120, 0) } else { (0, 0) });
    let mut both = Synthetic { code_fetches: content.code_fetches.clone(), ..array };
    both.code_fetches.iter_mut().for_each(|row| row.instructions *= 1000);
    first(&both, "remote-code", "replicate-text");
    both.code_fetches.iter_mut().for_each(|row| row.instructions /= 1000);
    first(&both, "serial-initialisation", "parallel-initialisation");
    // What may gain nothing does not come first where something surely gains, even if it is likely to gain more.
    let scaled = |times: u64| {
        let mut both = both.clone();
        both.code_fetches.iter_mut().for_each(|row| row.instructions *= times);
        advise(&both).0
    };
    let found = scaled(100);
    let [first, second] = [&found[0], &found[1]].map(|finding| (finding.pattern.name(), finding.gain));
    assert_eq!((first.0, second.0), ("serial-initialisation", "remote-code"));
    // Of a hundred instructions fifteen access memory.
    assert!(second.1.0 > first.1.0 * 0.15 && second.1.1.0 == 0.0 && first.1.1.0 > 0.0, "{first:?} {second:?}");
    // One page is in everybody's cache.
    content.code_fetches.iter_mut().for_each(|row| row.page = Page(BASE));
    assert!(advise(&content).0.is_empty());
}

#[test]
fn a_program_without_a_fault_gets_no_advice() {
    let mut content = array(|thread, page| if page / (PAGES / 4) == u64::from(thread) { (5120, 512) } else { (0, 0) });
    content.pages = (0..4).map(|id| placed(BASE + u64::from(id) * (PAGES / 4), PAGES / 4, id, 0)).collect();
    content.page_accesses.retain(|row| row.bin != Bin(0));
    let (findings, nothing, doubts) = advise(&content);
    assert!(findings.is_empty() && nothing, "{findings:?} {doubts:?}");
}

#[test]
fn what_cannot_be_judged_is_said() {
    let (findings, nothing, doubts) = advise(&program());
    assert!(findings.is_empty() && !nothing && doubts[0].contains("no accesses"), "{doubts:?}");
    let mut content = array(|_, page| (u64::from(page < 3), 0));
    content.page_accesses.retain(|row| row.bin == Bin(5));
    content.page_accesses.iter_mut().for_each(|row| row.samples = 1);
    content.meta.unit = RecordedUnit::TimeAtMemory;
    let (_, nothing, doubts) = advise(&content);
    assert!(!nothing && doubts[0].contains("too few"), "{doubts:?}");
}

/// Two samples a page: nothing is exclusive by chance.
#[test]
fn samples_that_are_few_for_a_page_are_enough_for_an_array() {
    let scatter = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32;
    let mut content = array(|_, _| (0, 0));
    content.meta.unit = RecordedUnit::TimeAtMemory;
    content.page_accesses = (0..PAGES * 2)
        .map(|i| PageAccess {
            samples: 1,
            ..access(5, scatter(i * i + 7 * i) % 4, BASE + i / 2, 1, u64::from(i % 3 == 0))
        })
        .collect();
    // Rows are one for each thread and page.
    content.page_accesses.sort_by_key(|row| (row.bin, row.thread, row.page));
    content.page_accesses.dedup_by_key(|row| (row.bin, row.thread, row.page));
    first(&content, "shared-read-write", "interleave");
}

/// Its accesses tell on which node it made them; those of older versions leave it to the pinning log, which knows the
/// end of a bin.
#[test]
fn a_thread_that_goes_to_its_other_memory_within_a_bin() {
    let mut content = program();
    let pages = [BASE, BASE + PAGES];
    content.objects = vec![heap(0, pages[0], PAGES), heap(1, pages[1], PAGES)];
    content.placements.push(Placement { time_ns: 8500, ..placement(0, 0, Some(NodeId(1))) });
    for (number, first) in pages.into_iter().enumerate() {
        let node = Some(NodeId(number as u16));
        content.pages.push(PlacedPages { node, home: node, ..placed(first, PAGES, 0, number as u32) });
        let accesses = (0..PAGES).map(|page| PageAccess { node, ..access(8, 0, first + page, 5120, 512) });
        content.page_accesses.extend(accesses);
    }
    let local_share = |content: &Synthetic| {
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile::open(&content.write(&directory.path().join("a.numalens")).unwrap()).unwrap();
        let plan = Plan {
            machine: None,
            placements: Vec::new(),
            policies: Vec::new(),
            choices: Vec::new(),
            page_size: RECORDED_PAGE,
        };
        let reports = whatif::run(&profile, &Options::default(), &plan).unwrap();
        let simulation = reports.iter().find(|report| report.key == "simulation").unwrap();
        match simulation.cell(0, "local_share") {
            Some(Value::Percent(share, _)) => *share,
            other => panic!("{other:?}"),
        }
    };
    let found = advise(&content).0;
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(local_share(&content), 100.0);
    content.older = true;
    assert!(!advise(&content).0.is_empty());
    assert_eq!(local_share(&content), 50.0);
}
