//! Small C programs under the library, and what the reader hears of them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use numalens_event::layout::{RingKind, Shape};
use numalens_event::record::Kind;
use numalens_event::ring;

use super::event::weight;
use super::*;

mod programs;
mod transparency;

/// An event without its borrowed parts.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    kind: &'static str,
    pid: u32,
    tid: u32,
    call: Option<Call>,
    numbers: Vec<u64>,
    stack: usize,
    ip: u64,
    bytes: Vec<u8>,
}

fn seen(event: HeapEvent<'_>) -> Seen {
    let (kind, pid, tid, numbers): (_, _, _, Vec<u64>) = match event {
        HeapEvent::Alloc { pid, tid, address, size, weight, sampled, .. } => {
            ("alloc", pid, tid, vec![address, size, weight, u64::from(sampled)])
        }
        HeapEvent::Free { pid, tid, address, .. } => ("free", pid, tid, vec![address]),
        HeapEvent::MayEnd { pid, tid, address, .. } => ("may end", pid, tid, vec![address]),
        HeapEvent::Kept { pid, tid, address, .. } => ("kept", pid, tid, vec![address]),
        HeapEvent::Munmap { pid, tid, address, size, .. } => ("munmap", pid, tid, vec![address, size]),
        HeapEvent::Mremap { pid, tid, old, old_size, new, new_size, .. } => {
            ("mremap", pid, tid, vec![old, old_size, new, new_size])
        }
        HeapEvent::Request { pid, tid, request, .. } => ("request", pid, tid, vec![request as u64]),
        HeapEvent::Region { pid, tid, call, .. } => ("region", pid, tid, vec![call]),
        HeapEvent::Name { pid, tid, address, .. } => ("name", pid, tid, vec![address]),
        HeapEvent::ThreadStart { pid, tid, creator, routine, .. } => {
            ("thread", pid, tid, vec![u64::from(creator), routine])
        }
        HeapEvent::ThreadPlaced { pid, tid, placed, cpus, ask, .. } => {
            ("placed", pid, tid, [vec![u64::from(placed), u64::from(ask)], cpus.to_vec()].concat())
        }
        HeapEvent::Policy { pid, tid, mode, nodes, ask, .. } => {
            ("policy", pid, tid, [vec![u64::from(mode), u64::from(ask)], nodes.to_vec()].concat())
        }
        HeapEvent::Mbind { pid, tid, address, size, mode, nodes, .. } => {
            ("mbind", pid, tid, [vec![address, size, u64::from(mode)], nodes.to_vec()].concat())
        }
        HeapEvent::MigratePages { pid, tid, target, .. } => ("migrate", pid, tid, vec![u64::from(target)]),
        HeapEvent::MovePages { pid, tid, target, count, .. } => ("move", pid, tid, vec![u64::from(target), count]),
        HeapEvent::ProcessStart { pid, tid, parent, .. } => ("start", pid, tid, vec![u64::from(parent)]),
        HeapEvent::ForkChild { pid, tid, parent, .. } => ("fork", pid, tid, vec![u64::from(parent)]),
        HeapEvent::Exec { pid, tid, waits, .. } => ("exec", pid, tid, vec![u64::from(waits)]),
        HeapEvent::ExecFailed { pid, tid, errno, .. } => ("exec failed", pid, tid, vec![errno as u64]),
        HeapEvent::ProcessExit { pid, tid, status, waits, .. } => {
            ("exit", pid, tid, vec![status.map_or(u64::MAX, |status| status as u64), u64::from(waits)])
        }
    };
    let (mut call, mut stack, mut ip, mut bytes) = (None, 0, 0, Vec::new());
    if let HeapEvent::Alloc { call: made_by, stack: copied, ip: from, sp, .. } = event {
        assert_eq!(sp % 8, 0);
        (call, stack, ip, bytes) = (Some(made_by), copied.len(), from, copied.to_vec());
    }
    Seen { kind, pid, tid, call, numbers, stack, ip, bytes }
}

/// Compiles a program; `None`, with the reason printed, when the compiler is not installed.
fn compile(directory: &Path, name: &str, source: &str, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let file = directory.join(format!("{name}{}", if compiler.contains('+') { ".cc" } else { ".c" }));
    fs::write(&file, source).expect("scratch directory");
    let program = directory.join(name);
    let run = Command::new(compiler).args(["-O1", "-g", "-w", "-o"]).arg(&program).arg(&file).args(flags).output();
    match run {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped: {compiler} cannot be run: {error}");
            return None;
        }
    }
    Some(program)
}

fn observed(channel: &HeapChannel, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.envs(channel.environment(None)).stdin(Stdio::null());
    command
}

/// Waits for the child while reading, answering every process that waits.
fn read_until_exit(channel: &mut HeapChannel, mut child: Child) -> (Output, Vec<Seen>) {
    let mut events = Vec::new();
    let mut read = |channel: &mut HeapChannel| {
        let mut waiting = Vec::new();
        channel.drain(&mut |event| {
            if let HeapEvent::ProcessExit { pid, waits: true, .. } | HeapEvent::Exec { pid, waits: true, .. } = event {
                waiting.push(pid);
            }
            events.push(seen(event));
        });
        waiting.into_iter().for_each(|pid| channel.acknowledge(pid));
    };
    while child.try_wait().expect("child").is_none() {
        channel.wait(Duration::from_millis(2));
        read(channel);
    }
    read(channel);
    (child.wait_with_output().expect("output"), events)
}

fn run(channel: &mut HeapChannel, mut command: Command) -> (Output, Vec<Seen>) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("program");
    read_until_exit(channel, child)
}

/// Every small allocation recorded, too.
fn everything() -> HeapOptions {
    HeapOptions { large: 1, large_burst: 1 << 20, handshake: Some(Duration::from_secs(5)), ..HeapOptions::default() }
}

fn of<'a>(events: &'a [Seen], kind: &str) -> Vec<&'a Seen> {
    events.iter().filter(|event| event.kind == kind).collect()
}

/// The `name=number` pairs that a program printed.
fn printed(output: &Output) -> BTreeMap<String, u64> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()?))
    };
    text.lines().filter_map(pair).collect()
}

#[test]
fn weights_are_size_over_probability() {
    assert_eq!(weight(100, 0), 100);
    assert_eq!(weight(0, 64), 0);
    let nearly_never = weight(1, 1 << 16);
    assert!((65_536..=65_537).contains(&nearly_never), "{nearly_never}");
    assert_eq!(weight(1 << 30, 1 << 10), 1 << 30);
}

/// Claims a slot of the note ring of a thread's lane as that thread would.
fn claim(channel: &HeapChannel, tid: u32) -> Option<ring::Position> {
    let lane = tid as usize % channel.shape.lanes();
    let slots = channel.slots(lane, RingKind::Notes);
    let words = RingKind::Notes.slot_words();
    let head = &channel.control(lane, RingKind::Notes).head;
    ring::reserve(channel.shape.slots_log2(RingKind::Notes), head, |slot| &slots[slot * words], tid)
}

fn fill_and_publish(channel: &HeapChannel, tid: u32, position: ring::Position) -> bool {
    let slots_log2 = channel.shape.slots_log2(RingKind::Notes);
    let words = RingKind::Notes.slot_words();
    let slot =
        &channel.slots(tid as usize % channel.shape.lanes(), RingKind::Notes)[position.slot(slots_log2) * words..];
    slot[1].store(Kind::Free as u64, Ordering::Relaxed);
    slot[4].store(u64::from(tid), Ordering::Relaxed);
    ring::publish(slots_log2, position, &slot[0], tid)
}

#[test]
fn a_writer_that_was_killed_is_passed_over_and_a_living_one_is_waited_for() {
    let shape = Shape { lanes_log2: 0, ..Shape::default() };
    let mut channel = HeapChannel::create(&HeapOptions { shape, ..HeapOptions::default() }).expect("channel");
    let mut victim = Command::new("sleep").arg("1000").spawn().expect("sleep");
    let (dead, alive) = (victim.id(), std::process::id());
    let of_dead = claim(&channel, dead).expect("room");
    let of_alive = claim(&channel, alive).expect("room");
    let after = claim(&channel, alive).expect("room");
    assert!(fill_and_publish(&channel, alive, after));
    let read = |channel: &mut HeapChannel| {
        let mut addresses = Vec::new();
        let summary = channel.drain(&mut |event| addresses.extend(seen(event).numbers));
        (addresses, summary.lost)
    };
    for _ in 0..3 {
        assert_eq!(read(&mut channel), (vec![], 0), "the sleeping writer may still write");
    }
    victim.kill().expect("kill");
    // Not collected yet: a zombie counts as dead. Its death may take a moment to become visible.
    let mut lost = 0;
    while lost == 0 {
        let (addresses, now) = read(&mut channel);
        assert_eq!(addresses, Vec::<u64>::new(), "the second slot is not written yet");
        lost += now;
    }
    assert_eq!((lost, channel.losses().abandoned), (1, 1));
    assert!(!fill_and_publish(&channel, dead, of_dead), "the slot was taken back");
    assert!(fill_and_publish(&channel, alive, of_alive));
    assert_eq!(read(&mut channel), (vec![u64::from(alive), u64::from(alive)], 0));
    victim.wait().expect("victim");
}

#[test]
fn a_living_writer_that_never_comes_back_does_not_stop_the_ring() {
    let shape = Shape { lanes_log2: 0, ..Shape::default() };
    let mut channel = HeapChannel::create(&HeapOptions { shape, ..HeapOptions::default() }).expect("channel");
    let alive = std::process::id();
    let stuck = claim(&channel, alive).expect("room");
    let after = claim(&channel, alive).expect("room");
    assert!(fill_and_publish(&channel, alive, after));
    let start = Instant::now();
    let mut events_at = |seconds| channel.drain_at(start + Duration::from_secs(seconds), &mut |_| ());
    assert_eq!([0, 5, 9].map(|seconds| events_at(seconds).events), [0, 0, 0]);
    assert_eq!(events_at(10), DrainSummary { events: 1, lost: 1, waits: false });
    assert!(!fill_and_publish(&channel, alive, stuck));
}

#[test]
fn scribbled_slots_are_counted_and_passed_over() {
    let shape = Shape { lanes_log2: 0, note_slots_log2: 4, wide_slots_log2: 4 };
    let mut channel = HeapChannel::create(&HeapOptions { shape, ..HeapOptions::default() }).expect("channel");
    for kind in [RingKind::Notes, RingKind::Wides] {
        for (index, word) in channel.slots(0, kind).iter().enumerate() {
            word.store((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), Ordering::Relaxed);
        }
    }
    let mut events = 0;
    for _ in 0..4 {
        events += channel.drain(&mut |_| ()).events;
    }
    let losses = channel.losses();
    assert!(losses.damaged > 0, "{losses:?}");
    assert!(events <= 32);
}

/// A program that allocates a hundred blocks, and a channel with room for sixteen.
fn more_than_fit(directory: &Path, patience: Duration) -> Option<(PathBuf, HeapOptions)> {
    let source = r#"#include <stdlib.h>
        int main(void) { for (int i = 0; i < 100; i++) { void *volatile p = malloc(50000); free(p); } return 0; }"#;
    let shape = Shape { lanes_log2: 0, note_slots_log2: 5, wide_slots_log2: 4 };
    let options = HeapOptions { shape, patience, handshake: None, ..HeapOptions::default() };
    Some((compile(directory, "full", source, "cc", &[])?, options))
}

#[test]
fn a_writer_waits_for_room_when_it_is_told_to() {
    let directory = tempfile::tempdir().expect("directory");
    let Some((program, options)) = more_than_fit(directory.path(), Duration::from_secs(1000)) else { return };
    let mut channel = HeapChannel::create(&options).expect("channel");
    let mut child = observed(&channel, program).spawn().expect("program");
    while channel.control(0, RingKind::Wides).head.load(Ordering::Relaxed) < 16 {
        std::thread::yield_now();
    }
    let mut allocations = 0;
    let mut ended = false;
    while !std::mem::replace(&mut ended, child.try_wait().expect("child").is_some()) {
        channel.drain(&mut |event| allocations += u64::from(seen(event).kind == "alloc"));
    }
    assert_eq!((allocations, channel.losses()), (100, HeapLosses::default()));
}

#[test]
fn a_full_ring_drops_and_counts() {
    let directory = tempfile::tempdir().expect("directory");
    // One wait is in vain; should each be, this would take minutes.
    let Some((program, options)) = more_than_fit(directory.path(), Duration::from_secs(2)) else { return };
    let mut channel = HeapChannel::create(&options).expect("channel");
    let status = observed(&channel, program).status().expect("program");
    assert!(status.success());
    let mut allocations = 0;
    let summary = channel.drain(&mut |event| allocations += u64::from(seen(event).kind == "alloc"));
    // 16 wides: one tells where the process runs. Of the others no release is told either: they are not tracked.
    assert_eq!(allocations, 15);
    assert_eq!((summary.lost, channel.losses().full), (85, 85));
    assert_eq!(channel.control(0, RingKind::Wides).waited_in_vain.load(Ordering::Relaxed), 1);
    assert_eq!(channel.drain(&mut |_| ()), DrainSummary { events: 0, lost: 0, waits: false });
}
