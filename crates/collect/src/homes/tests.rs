//! Memory of every kind is made in a child process, then asked about from here.

mod child;

use std::io;

use numalens_profile::ids::Page;
use numalens_topology::NodeId;

use super::*;
use child::Memory;

const PAGE: u64 = Page::BYTES;
const HUGE: u64 = 2 << 20;

fn pages(start: u64, bytes: u64) -> Vec<Page> {
    (Page::of(start).0..Page::of(start + bytes).0).map(Page).collect()
}

fn homes(pid: i32, start: u64, bytes: u64) -> Vec<PageHome> {
    let mut out = vec![PageHome::Error(1)];
    query_homes(pid, &pages(start, bytes), &mut out).unwrap();
    assert_eq!(out.len() as u64, bytes / PAGE);
    out
}

fn all_on_a_node(homes: &[PageHome]) -> bool {
    homes.iter().all(|home| home.node().is_some())
}

/// Pages in runs that `which` picks.
fn count(runs: &[PageRun], which: impl Fn(&PageRun) -> bool) -> u64 {
    runs.iter().filter(|run| which(run)).map(|run| run.count).sum()
}

#[test]
fn written_anonymous_memory_has_a_home_and_the_rest_has_none() {
    let memory = Memory::new(64 * PAGE, |memory| memory.write(0, 16 * PAGE));
    let found = homes(memory.pid, memory.start, 64 * PAGE);
    assert!(all_on_a_node(&found[..16]), "{found:?}");
    assert!(found[16..].iter().all(|&home| home == PageHome::NotPresent), "{found:?}");
    let runs = page_map(memory.pid, memory.start, memory.end()).unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!((runs[0].start, runs[0].count), (Page::of(memory.start), 16));
    assert!(runs[0].present && !runs[0].zero && !runs[0].huge && !runs[0].file_or_shared && !runs[0].swapped);
}

#[test]
fn asking_places_nothing() {
    let memory = Memory::new(64 * PAGE, |_| ());
    for _ in 0..3 {
        assert!(homes(memory.pid, memory.start, 64 * PAGE).iter().all(|&home| home == PageHome::NotPresent));
        assert_eq!(page_map(memory.pid, memory.start, memory.end()).unwrap(), []);
    }
}

#[test]
fn the_zero_page_is_no_home() {
    let memory = Memory::new(8 * PAGE, |memory| memory.read(0, 8 * PAGE));
    assert_eq!(homes(memory.pid, memory.start, 8 * PAGE), [PageHome::ZeroPage; 8]);
    let runs = page_map(memory.pid, memory.start, memory.end()).unwrap();
    assert_eq!(count(&runs, |run| run.present), 8);
    if child::has_scan() {
        assert_eq!(count(&runs, |run| run.zero), 8, "{runs:?}");
    }
    let maps = read_maps(memory.pid).unwrap();
    let unseen = unseen_pages(memory.pid, &maps, |_| false).unwrap();
    assert!(unseen.iter().all(|run| !memory.holds(run.start)), "the zero page was not placed: {unseen:?}");
}

#[test]
fn unmapped_and_forbidden_memory() {
    let memory = Memory::new(16 * PAGE, |memory| {
        memory.write(0, 16 * PAGE);
        memory.unmap(4 * PAGE, 4 * PAGE);
        memory.forbid(8 * PAGE, 8 * PAGE);
    });
    let found = homes(memory.pid, memory.start, 16 * PAGE);
    assert!(all_on_a_node(&found[..4]), "{found:?}");
    assert!(found[4..8].iter().all(|&home| home == PageHome::ZeroPage), "{found:?}");
    assert!(all_on_a_node(&found[8..]), "{found:?}");
}

#[test]
fn transparent_huge_pages() {
    if !child::huge_pages_on_request() {
        return;
    }
    let memory = Memory::new(4 * HUGE, |memory| {
        memory.want_huge();
        let first = memory.start.next_multiple_of(HUGE) - memory.start;
        memory.write(first, 1);
        memory.read(first + HUGE, 1);
    });
    let aligned = memory.start.next_multiple_of(HUGE);
    let written = homes(memory.pid, aligned, HUGE);
    assert!(all_on_a_node(&written), "one write places the whole huge page: {:?}", &written[..4]);
    assert!(written.iter().all(|home| *home == written[0]));
    let read = homes(memory.pid, aligned + HUGE, HUGE);
    assert!(read.iter().all(|&home| home == PageHome::ZeroPage), "{:?}", &read[..4]);
    let runs = page_map(memory.pid, aligned, aligned + 2 * HUGE).unwrap();
    assert!(count(&runs, |run| run.huge && run.present && !run.zero) >= 512, "{runs:?}");
    // Seen at any of its pages is seen.
    let maps = read_maps(memory.pid).unwrap();
    let within = |run: &UnseenRun| memory.holds(run.start);
    let touched = Page::of(aligned + 77 * PAGE);
    let unseen = unseen_pages(memory.pid, &maps, |page| page == touched).unwrap();
    assert!(!unseen.iter().any(within), "{unseen:?}");
    let unseen = unseen_pages(memory.pid, &maps, |_| false).unwrap();
    let of_memory: Vec<_> = unseen.iter().filter(|run| within(run)).collect();
    assert_eq!(of_memory.iter().map(|run| run.count).sum::<u64>(), 512, "{of_memory:?}");
    assert!(of_memory.iter().all(|run| run.huge));
}

#[test]
fn the_kernel_places_without_being_seen() {
    let memory = Memory::new(32 * PAGE, |memory| {
        memory.write(0, 2 * PAGE);
        memory.populate(4 * PAGE, 8 * PAGE);
        memory.read_file_into(16 * PAGE, 4 * PAGE);
    });
    let maps = read_maps(memory.pid).unwrap();
    let seen = [Page::of(memory.start), Page::of(memory.start + PAGE)];
    let unseen: Vec<UnseenRun> = unseen_pages(memory.pid, &maps, |page| seen.contains(&page))
        .unwrap()
        .into_iter()
        .filter(|run| memory.holds(run.start))
        .collect();
    let expected = [(4, 8), (16, 4)].map(|(at, count)| (Page::of(memory.start + at * PAGE), count));
    assert_eq!(unseen.iter().map(|run| (run.start, run.count)).collect::<Vec<_>>(), expected);
    for run in &unseen {
        let mapping = &maps[run.mapping];
        assert!(mapping.start <= run.start.address() && run.start.address() < mapping.end);
        assert!(!run.file_or_shared && !run.huge);
        assert_eq!(PageHome::Node(run.home), homes(memory.pid, run.start.address(), PAGE)[0]);
    }
}

#[test]
fn fault_around_of_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data file");
    std::fs::write(&path, vec![7; 64 * PAGE as usize]).unwrap();
    let memory = Memory::of_file(&path, 64 * PAGE, |memory| memory.read(20 * PAGE, 1));
    let runs = page_map(memory.pid, memory.start, memory.end()).unwrap();
    let present = count(&runs, |run| run.present);
    assert!(present >= 1 && count(&runs, |run| !run.file_or_shared) == 0, "{runs:?}");
    let found = homes(memory.pid, memory.start, 64 * PAGE);
    let with_home = found.iter().filter(|home| home.node().is_some()).count() as u64;
    assert_eq!(with_home, present, "pages in the page cache alone have no home here");
    assert!(found[20].node().is_some());
    let maps = read_maps(memory.pid).unwrap();
    let unseen = unseen_pages(memory.pid, &maps, |page| page == Page::of(memory.start + 20 * PAGE)).unwrap();
    let of_file: Vec<_> = unseen.iter().filter(|run| memory.holds(run.start)).collect();
    assert_eq!(of_file.iter().map(|run| run.count).sum::<u64>(), present - 1);
    assert!(of_file.iter().all(|run| run.file_or_shared && maps[run.mapping].path == path));
    let rows = read_numa_maps(memory.pid).unwrap();
    let row = rows.iter().find(|row| row.start == memory.start).unwrap();
    assert_eq!(row.file.as_ref(), Some(&path));
    assert_eq!(row.pages_per_node.iter().map(|&(_, pages)| pages).sum::<u64>(), present);
}

/// More runs than one call of the kernel returns.
#[test]
fn many_runs() {
    let memory = Memory::new(6000 * PAGE, |memory| {
        memory.no_huge();
        (0..3000).for_each(|at| memory.write(2 * at * PAGE, 1));
    });
    let runs = page_map(memory.pid, memory.start, memory.end()).unwrap();
    assert_eq!(runs.len(), 3000);
    assert!(runs.iter().all(|run| run.count == 1 && run.present));
    assert!(runs.is_sorted_by(|a, b| a.start.0 + 2 == b.start.0));
    let flags = page_map::by_flags(memory.pid, memory.start, memory.end(), None).unwrap();
    assert_eq!(flags, runs, "older kernels' way");
}

#[test]
fn huge_pages_from_frames_and_from_smaps() {
    if !child::huge_pages_on_request() {
        return;
    }
    let memory = Memory::new(4 * HUGE, |memory| {
        memory.want_huge();
        memory.write(0, 4 * HUGE);
    });
    let scanned = page_map(memory.pid, memory.start, memory.end()).unwrap();
    for frames in [None, std::fs::File::open(page_map::PAGE_FRAMES).ok()] {
        let flags = page_map::by_flags(memory.pid, memory.start, memory.end(), frames.as_ref()).unwrap();
        assert!(count(&flags, |run| run.huge) >= 3 * 512, "{flags:?}");
        assert_eq!(flags, scanned);
    }
}

#[test]
fn hugetlb_pages() {
    let Some(memory) = Memory::of_hugetlb(|memory| memory.write(0, 1)) else { return };
    let found = homes(memory.pid, memory.start, HUGE);
    assert!(all_on_a_node(&found), "{:?}", &found[..4]);
    let rows = read_numa_maps(memory.pid).unwrap();
    let row = rows.iter().find(|row| row.start == memory.start).unwrap();
    assert!(row.huge && row.kernel_page_kb == 2048, "{row:?}");
}

#[test]
fn memory_that_is_no_page() {
    let maps = read_maps(std::process::id() as i32).unwrap();
    for name in ["[vvar]", "[vsyscall]"] {
        let Some(mapping) = maps.iter().find(|mapping| mapping.path.to_str() == Some(name)) else { continue };
        let mut out = Vec::new();
        query_homes(0, &[Page::of(mapping.start)], &mut out).unwrap();
        assert!(matches!(out[0], PageHome::ZeroPage | PageHome::NotPresent), "{name}: {out:?}");
    }
}

#[test]
fn a_process_that_is_gone() {
    let memory = Memory::new(PAGE, |memory| memory.write(0, 1));
    let (pid, start) = (memory.pid, memory.start);
    memory.become_zombie();
    let mut out = Vec::new();
    let error = query_homes(pid, &[Page::of(start)], &mut out).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH), "a zombie");
    assert_eq!(read_maps(pid).unwrap_or_default(), []);
    drop(memory);
    let error = query_homes(pid, &[Page::of(start)], &mut out).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    assert!(out.is_empty());
    assert_eq!(read_maps(pid).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(read_numa_maps(pid).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(page_map(pid, start, start + PAGE).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(thread_policy(pid, pid).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(thread_affinity(pid).unwrap_err().raw_os_error(), Some(libc::ESRCH));
}

/// As another user, in a child: this process's own memory is then a stranger's.
#[test]
fn a_process_of_another_user() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let stranger = Memory::new(PAGE, |memory| memory.write(0, 1));
    let (pid, start) = (stranger.pid, stranger.start);
    let errors = child::as_nobody(|| {
        let mut out = Vec::new();
        let query = query_homes(pid, &[Page::of(start)], &mut out).err().and_then(|error| error.raw_os_error());
        let maps = read_maps(pid).err().and_then(|error| error.raw_os_error());
        [query, maps]
    });
    assert_eq!(errors, [Some(libc::EPERM), Some(libc::EACCES)]);
}

#[test]
fn policies_of_threads() {
    let bind = child::with_policy(libc::MPOL_BIND, None, |pid, tid| (thread_policy(pid, tid), thread_policy(pid, pid)));
    assert_eq!(bind.0.unwrap(), "bind:0");
    assert_eq!(bind.1.unwrap(), "default", "the other thread's");
    // A mapping with a policy of its own stands before all others.
    let own = child::with_policy(libc::MPOL_INTERLEAVE, Some(libc::MPOL_BIND), thread_policy);
    assert_eq!(own.unwrap(), "interleave:0");
    let default = child::with_policy(libc::MPOL_DEFAULT, Some(libc::MPOL_BIND), thread_policy);
    assert_eq!(default.unwrap(), "default");
}

#[test]
fn affinity_of_a_thread() {
    let own = thread_affinity(0).unwrap();
    let kernel = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
    let expected: Vec<u32> = (0..1024).filter(|&cpu| kernel.is_set(cpu as usize).unwrap()).collect();
    assert_eq!(own.iter().collect::<Vec<_>>(), expected);
    let first = expected[0];
    let bound = child::bound_to(first, |tid| thread_affinity(tid).unwrap());
    assert_eq!(bound.iter().collect::<Vec<_>>(), [first]);
}

#[test]
fn numa_maps_counts_what_was_written() {
    let memory = Memory::new(64 * PAGE, |memory| {
        memory.no_huge();
        memory.write(0, 10 * PAGE);
    });
    let rows = read_numa_maps(memory.pid).unwrap();
    let row = rows.iter().find(|row| row.start == memory.start).unwrap();
    assert_eq!((row.anon, row.dirty, row.kernel_page_kb), (10, 10, 4), "{row:?}");
    let home = homes(memory.pid, memory.start, PAGE)[0].node().unwrap_or(NodeId(u16::MAX));
    assert!(row.pages_per_node.iter().any(|&(node, pages)| node == home && pages > 0), "{row:?}");
    assert!(rows.iter().any(|row| row.stack));
}
