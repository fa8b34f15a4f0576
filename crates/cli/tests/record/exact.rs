//! Placed pages by arithmetic: programs that touch a known number of pages in a known way.

use super::*;
use numalens_profile::Profile;
use numalens_profile::tables::{Frame, Mapping, PlacedPages, Process, Thread};
use numalens_profile::words::{Fault, Placed, SystemCall};

struct Run {
    profile: Profile,
    /// What the program has printed.
    said: String,
    /// Rows about the program's pages, each cut to them.
    rows: Vec<PlacedPages>,
    _lab: Lab,
}

#[track_caller]
fn touch(engine: &str, kind: &str) -> Run {
    touch_with(engine, pages(), kind)
}

#[track_caller]
fn touch_with(engine: &str, program: &str, kind: &str) -> Run {
    let lab = Lab::new();
    let options = ["--engine", engine, "--machine", "4x2"];
    let (outcome, profile) = lab.record(&options, &[program, kind, "700"]);
    range(lab, profile, &outcome.stdout)
}

/// The rows of the pages that the last line of the program's output names.
fn range(lab: Lab, profile: Profile, said: &str) -> Run {
    let (first, count) = said.lines().last().unwrap().split_once(' ').unwrap();
    let (first, count) = (u64::from_str_radix(first, 16).unwrap(), count.parse::<u64>().unwrap());
    let rows = profile.rows::<PlacedPages>().unwrap().into_iter().filter_map(|mut row| {
        let (from, to) = (row.page.0.max(first), (row.page.0 + row.count).min(first + count));
        row.page.0 = from;
        row.count = to.checked_sub(from).filter(|&count| count > 0)?;
        Some(row)
    });
    let rows = rows.collect();
    Run { profile, said: said.to_owned(), rows, _lab: lab }
}

/// Every kind with every engine.
fn every<'a>(kinds: &[&'a str]) -> Vec<(&'static str, &'a str)> {
    ENGINES.into_iter().flat_map(|engine| kinds.iter().map(move |&kind| (engine, kind))).collect()
}

impl Run {
    fn sum(&self, wanted: impl Fn(&PlacedPages) -> bool) -> u64 {
        self.rows.iter().filter(|row| wanted(row)).map(|row| row.count).sum()
    }

    /// Pages that were really placed: the zero page is nobody's.
    fn placed(&self) -> u64 {
        self.sum(|row| row.fault != Fault::ZeroPage)
    }

    /// All of them were placed by the line that writes.
    #[track_caller]
    fn by_the_writing_line(&self) {
        self.by_line("/* WRITE */", |row| row.fault != Fault::ZeroPage);
    }

    /// Some were placed by one of the lines with a comment.
    #[track_caller]
    fn by_line(&self, comment: &str, wanted: impl Fn(&PlacedPages) -> bool) {
        let source = text_of("record/pages.c");
        let lines: Vec<u32> =
            (1..).zip(source.lines()).filter(|(_, line)| line.contains(comment)).map(|(number, _)| number).collect();
        let frames = self.profile.rows::<Frame>().unwrap();
        for row in self.rows.iter().filter(|row| wanted(row)) {
            let frame = frames.iter().find(|frame| Some(frame.site) == row.site && frame.depth == 0);
            assert!(frame.and_then(|frame| frame.line).is_some_and(|line| lines.contains(&line)), "{row:?}");
        }
    }

    fn tid(&self, row: &PlacedPages) -> Option<u32> {
        let threads = self.profile.rows::<Thread>().unwrap();
        threads.iter().find(|thread| Some(thread.thread) == row.thread).map(|thread| thread.tid)
    }
}

#[test]
fn written_pages_are_placed_by_the_line_and_thread_that_wrote_them() {
    need_recording!();
    for (engine, kind) in every(&["write", "thread"]) {
        let run = touch(engine, kind);
        assert_eq!(run.placed(), 700, "{engine}, {kind}: {:?}", run.rows);
        assert_eq!(
            run.sum(|row| row.fault == Fault::Anonymous && row.placed == Placed::Pinned && row.page_size == 4096),
            700
        );
        run.by_the_writing_line();
        let leader = run.profile.rows::<Process>().unwrap()[0].pid;
        assert!(run.rows.iter().all(|row| (run.tid(row) == Some(leader)) == (kind == "write")), "{:?}", run.rows);
        let nodes: std::collections::BTreeSet<_> = run.rows.iter().map(|row| row.home).collect();
        assert_eq!(nodes.len(), 1, "one thread, one node");
    }
}

#[test]
fn reading_untouched_memory_places_nothing_until_it_is_written() {
    need_recording!();
    for engine in ENGINES {
        assert_eq!(touch(engine, "read").placed(), 0, "{engine}");
        let run = touch(engine, "read-write");
        assert_eq!(run.placed(), 700, "{engine}: {:?}", run.rows);
        run.by_the_writing_line();
    }
}

#[test]
fn pages_that_the_kernel_filled_are_the_callers() {
    need_recording!();
    for (kind, call) in [("populate", SystemCall::Mmap), ("read-call", SystemCall::Read)] {
        let run = touch("exact", kind);
        let callers = run.sum(|row| row.placed == Placed::Pinned && row.call == Some(call));
        assert_eq!((run.placed(), callers), (700, 700), "exact, {kind}: {:?}", run.rows);
        if kind == "read-call" && !is_root() {
            eprintln!("skipped: sample, {kind}: not everybody may watch the kernel");
            continue;
        }
        let run = touch("sample", kind);
        let callers = run.sum(|row| row.placed == Placed::Pinned && row.call.is_some() && row.thread.is_some());
        assert_eq!((run.placed(), callers), (700, 700), "sample, {kind}: {:?}", run.rows);
    }
}

#[test]
fn pages_that_go_before_any_access_have_been_there() {
    need_recording!();
    for how in ["unmap", "dontneed", "over", "shrink"] {
        let run = touch("exact", &format!("given-up-{how}"));
        let callers = run.sum(|row| row.call == Some(SystemCall::Mmap));
        assert_eq!((run.placed(), callers), (700, 700), "{how}: {:?}", run.rows);
    }
}

#[test]
fn one_instruction_places_only_what_was_not_there() {
    need_recording!();
    for (engine, kind) in every(&["fill", "fill-down"]) {
        let run = touch(engine, kind);
        let by_kernel = |row: &PlacedPages| row.placed == Placed::Unseen || row.call == Some(SystemCall::Madvise);
        assert_eq!((run.placed(), run.sum(by_kernel)), (700, 350), "{engine}, {kind}: {:?}", run.rows);
        run.by_line("/* FILL */", |row| !by_kernel(row));
    }
}

#[test]
fn memory_of_the_recording_itself_is_not_the_programs() {
    need_recording!();
    let run = touch("sample", "write");
    let ours = run.profile.rows::<Mapping>().unwrap();
    let ours: Vec<_> = ours.iter().filter(|mapping| mapping.name.starts_with("/memfd:numalens-")).collect();
    assert!(ours.iter().any(|mapping| mapping.name.contains("channel")), "{ours:?}");
    for row in run.profile.rows::<PlacedPages>().unwrap() {
        let (from, to) = (row.page.address(), row.page.address() + (row.count << 12));
        let inside = ours.iter().find(|mapping| mapping.start < to && from < mapping.end);
        assert!(inside.is_none(), "{row:?} in {inside:?}");
    }
}

#[test]
fn a_forked_childs_copies_are_the_childs() {
    need_recording!();
    for engine in ENGINES {
        let run = touch(engine, "fork");
        let processes = run.profile.rows::<Process>().unwrap();
        assert_eq!(processes.len(), 2);
        let of = |process: &Process, fault| run.sum(|row| row.process == process.process && row.fault == fault);
        assert_eq!(of(&processes[0], Fault::Anonymous), 700, "{engine}: {:?}", run.rows);
        assert_eq!(of(&processes[1], Fault::CopyOnWrite), 700, "{engine}: {:?}", run.rows);
        assert_eq!(run.placed(), 1400, "{engine}");
        run.by_the_writing_line();
    }
}

#[test]
fn pages_given_back_are_placed_again() {
    need_recording!();
    for (engine, kind) in every(&["dontneed", "remap"]) {
        let run = touch(engine, kind);
        assert_eq!(run.placed(), 1400, "{engine}, {kind}: {:?}", run.rows);
        run.by_the_writing_line();
    }
}

#[test]
fn a_static_programs_pages_are_counted_all_the_same() {
    need_recording!();
    for (kind, count) in [("write", 700), ("read-write", 700), ("dontneed", 1400), ("remap", 1400)] {
        for engine in ENGINES {
            let run = touch_with(engine, pages_static(), kind);
            assert_eq!(run.placed(), count, "{engine}, {kind}: {:?}", run.rows);
            run.by_the_writing_line();
        }
    }
}

#[test]
fn moved_pages_keep_who_placed_them() {
    need_recording!();
    for (engine, kind) in every(&["move", "grow"]) {
        let run = touch(engine, kind);
        let moved = run.sum(|row| matches!(row.fault, Fault::None | Fault::Moved));
        assert_eq!((run.placed(), moved), (700, 700), "{engine}, {kind}: {:?}", run.rows);
        run.by_the_writing_line();
        let rows = run.profile.rows::<PlacedPages>().unwrap();
        let first = rows.iter().filter(|row| row.site == run.rows[0].site && row.fault == Fault::Anonymous);
        assert_eq!(first.map(|row| row.count).sum::<u64>(), 700, "{kind}: at their first address");
    }
}

#[test]
fn pages_placed_while_others_are_looked_up_are_counted_once() {
    need_recording!();
    let lab = Lab::new();
    let mut command = lab.recorder(&["--engine", "sample", "--machine", "4x2"]);
    command.arg(pages()).args(["steady", "2000000"]);
    let mut served = serve(command);
    until("there is a checkpoint", || lab.partial().join("meta.parquet").exists());
    let line = served.finish();
    assert_eq!(served.wait().0.code(), Some(0));
    let profile = lab.sound();
    let run = range(lab, profile, &line);
    let count: u64 = line.trim().split_once(' ').unwrap().1.parse().unwrap();
    assert_eq!((run.placed(), run.sum(|row| row.fault == Fault::Anonymous)), (count, count));
}

#[test]
fn a_huge_page_is_placed_once() {
    need_recording!();
    // What goes before the kernel is asked is known to the exact engine only.
    let going = ["huge-gone", "huge-half"].map(|kind| ("exact", kind));
    for (engine, kind) in every(&["huge", "huge-parts"]).into_iter().chain(going) {
        let run = touch(engine, kind);
        if run.said.starts_with("small") {
            eprintln!("skipped: {engine}, {kind}: the kernel made no huge page");
            continue;
        }
        if engine == "sample" && run.sum(|row| row.page_size == 4096) == 1 {
            eprintln!("skipped: {engine}, {kind}: the program had ended before the kernel was asked for the size");
            continue;
        }
        let [huge, gone] = [run.sum(|row| row.page_size == 2 << 20), run.sum(|row| row.bin_to.is_some())];
        let expected = match kind {
            "huge-gone" => (512, 512, 512, 1),
            // What stays is small pages.
            "huge-half" => (512, 256, 256, 2),
            _ => (512, 512, 0, 1),
        };
        assert_eq!((run.placed(), huge, gone, run.rows.len()), expected, "{engine}, {kind}: {:?}", run.rows);
        run.by_the_writing_line();
    }
}
