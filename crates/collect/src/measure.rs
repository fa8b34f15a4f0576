//! How long memory takes to answer here, from the CPUs of every node to the memory of every node (`numalens machine
//! measure`). The firmware's table of distances is often copied from one board to the next; this is what programs get.
//!
//! ```text
//!   latency     one thread follows a cycle through all cache lines of a buffer, in random order: each load needs the
//!               one before, so no two overlap and no prefetcher helps
//!   bandwidth   a thread on each CPU of the node reads its part of the buffer from end to end
//! ```
//!
//! The buffer is bound to the node, larger than the caches, and in huge pages where the kernel gives them: else misses
//! of the TLB count as well.

use crate::homes::{PageHome, query_homes, thread_affinity};
use numalens_profile::ids::Page;
use numalens_topology::{CpuSet, Machine, Node, NodeId, mix};
use std::hint::black_box;
use std::io;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Of x86-64, and of most others.
const LINE: usize = 64;
const HUGE: usize = 2 << 20;
/// How many times the largest cache a buffer is, and its bounds.
const CACHES: usize = 4;
const LEAST: usize = 64 << 20;
const MOST: usize = 1 << 30;
/// What is left to a node beside the buffer.
const SPARE: u64 = 64 << 20;
/// Loads of one round of a chase.
const LOADS: usize = 1 << 16;
/// How long rounds of a chase go on, and each round of reading; and how many rounds there are at least.
const LONG_ENOUGH: Duration = Duration::from_millis(200);
const ROUNDS: usize = 3;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Rows and columns, in order.
    pub nodes: Vec<NodeId>,
    /// Median nanoseconds of a load, by the node of the CPU and then of the memory; none: that way could not be
    /// measured.
    pub latency_ns: Vec<Vec<Option<f64>>>,
    /// Most bytes that all CPUs of the node read in a second.
    pub bandwidth: Vec<Vec<Option<f64>>>,
    /// Size of the buffer.
    pub bytes: usize,
    /// Why something is missing, or means less than it seems.
    pub notes: Vec<String>,
}

/// Measures this host. `begins` is called for each way before it is measured.
///
/// # Errors
/// The kernel refuses what is needed: memory, threads on chosen CPUs.
pub fn measure(host: &Machine, begins: &mut dyn FnMut(NodeId, NodeId)) -> io::Result<Measured> {
    let allowed = thread_affinity(0)?;
    let bytes = (largest_cache() * CACHES).clamp(LEAST, MOST).next_multiple_of(HUGE);
    let n = host.nodes.len();
    let nothing = || vec![vec![None; n]; n];
    let nodes = host.nodes.iter().map(|node| node.id).collect();
    let mut measured = Measured { nodes, latency_ns: nothing(), bandwidth: nothing(), bytes, notes: Vec::new() };
    let from: Vec<(usize, &Node, CpuSet)> = host
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (at, node, node.cpus.intersection(&allowed)))
        .filter(|(_, node, _)| !node.cpus.is_empty())
        .collect();
    for (_, node, _) in from.iter().filter(|(_, _, cpus)| cpus.is_empty()) {
        measured.notes.push(format!("this process may not run on node {} (taskset, cpuset)", node.id));
    }
    for (to, memory) in host.nodes.iter().enumerate().filter(|(_, node)| node.memory_bytes > 0) {
        if let Some(free) = free_bytes(memory.id).filter(|free| *free < bytes as u64 + SPARE) {
            let wanted = (bytes as u64 + SPARE) >> 20;
            measured.notes.push(format!(
                "node {} has {} MiB of free memory, {wanted} are needed: not measured",
                memory.id,
                free >> 20
            ));
            continue;
        }
        let mut buffer = match Buffer::on(memory.id, bytes, n > 1) {
            Ok(buffer) => buffer,
            Err(error) => {
                measured.notes.push(format!("memory on node {}: {error}", memory.id));
                continue;
            }
        };
        if !buffer.is_huge()? {
            measured
                .notes
                .push(format!("node {} gave no huge pages: its latencies have TLB misses in them", memory.id));
        }
        let start = buffer.make_cycle();
        for (at, node, cpus) in from.iter().filter(|(_, _, cpus)| !cpus.is_empty()) {
            begins(node.id, memory.id);
            measured.bandwidth[*at][to] = Some(bandwidth(&buffer, cpus)?);
            measured.latency_ns[*at][to] = Some(latency(&buffer, start, cpus)?);
        }
    }
    Ok(measured)
}

impl Measured {
    /// The host with what was measured in place of the firmware's distances: 10 is a node's own memory, and nothing is
    /// nearer.
    pub fn machine(&self, host: &Machine) -> Machine {
        let mut machine = host.clone();
        for (from, node) in machine.nodes.iter_mut().enumerate() {
            let Some(own) = self.latency_ns[from][from] else { continue };
            for (to, distance) in node.distances.iter_mut().enumerate() {
                if let Some(ns) = self.latency_ns[from][to] {
                    *distance = ((ns / own * 10.0).round() as u32).max(10);
                }
            }
        }
        for (to, node) in machine.nodes.iter_mut().enumerate() {
            let nearest = |rows: &[Vec<Option<f64>>], best: fn(f64, f64) -> f64| {
                rows.iter().filter_map(|row| row[to]).reduce(best)
            };
            node.latency_ns = nearest(&self.latency_ns, f64::min).or(node.latency_ns);
            node.bandwidth = nearest(&self.bandwidth, f64::max).or(node.bandwidth);
        }
        machine
    }
}

/// The median time of a load from one of the CPUs, along the cycle from `start` on.
fn latency(buffer: &Buffer, start: usize, cpus: &CpuSet) -> io::Result<f64> {
    let Some(cpu) = cpus.iter().next() else { return Err(io::ErrorKind::NotFound.into()) };
    std::thread::scope(|scope| {
        let chase = scope.spawn(|| {
            run_on(cpu)?;
            let mut at = start;
            let words = buffer.words();
            let mut round = || {
                let begun = Instant::now();
                for _ in 0..LOADS {
                    at = words[at] as usize;
                }
                black_box(at);
                begun.elapsed()
            };
            // The first one brings in what all others need.
            round();
            let begun = Instant::now();
            let mut rounds = Vec::new();
            while rounds.len() < ROUNDS || begun.elapsed() < LONG_ENOUGH {
                rounds.push(round());
            }
            rounds.sort_unstable();
            Ok(rounds[rounds.len() / 2].as_secs_f64() * 1e9 / LOADS as f64)
        });
        chase.join().unwrap_or_else(|_| Err(io::Error::other("the thread that measures has ended")))
    })
}

/// The most bytes a second that threads on all of the CPUs read.
fn bandwidth(buffer: &Buffer, cpus: &CpuSet) -> io::Result<f64> {
    let words = buffer.words();
    let part = words.len().div_ceil(cpus.len().max(1));
    let parts: Vec<(u32, &[u64])> = cpus.iter().zip(words.chunks(part)).collect();
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let barrier = Barrier::new(parts.len());
        let rates = std::thread::scope(|scope| {
            let read = |cpu: u32, part: &[u64]| {
                let there = run_on(cpu);
                barrier.wait();
                let begun = Instant::now();
                let mut bytes = 0;
                while bytes == 0 || begun.elapsed() < LONG_ENOUGH / ROUNDS as u32 {
                    black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
                    bytes += size_of_val(part);
                }
                there.map(|()| bytes as f64 / begun.elapsed().as_secs_f64())
            };
            let threads: Vec<_> = parts.iter().map(|&(cpu, part)| scope.spawn(move || read(cpu, part))).collect();
            let each = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that measures has ended")))
            });
            each.collect::<io::Result<Vec<f64>>>()
        })?;
        best = best.max(rates.iter().sum());
    }
    Ok(best)
}

/// Memory on one node.
struct Buffer {
    start: NonNull<u64>,
    bytes: usize,
}

// SAFETY: it owns its mapping, as a box does its memory.
unsafe impl Send for Buffer {}
// SAFETY: shared, it is only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `bind`: with one node there is nothing to choose, and the kernel may know no policies.
    fn on(node: NodeId, bytes: usize, bind: bool) -> io::Result<Buffer> {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, kind, -1, 0) };
        let start = match NonNull::new(start.cast::<u64>()) {
            Some(at) if at.as_ptr().cast::<libc::c_void>() != libc::MAP_FAILED => at,
            _ => return Err(io::Error::last_os_error()),
        };
        let mut buffer = Buffer { start, bytes };
        // SAFETY: of the mapping above. Where there are no huge pages it is as good as it can be.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        if bind {
            // As many nodes as kernels can have.
            let mut mask = [0u64; 16];
            let bits = mask.len() * 64;
            let Some(word) = mask.get_mut(usize::from(node.0) / 64) else { return Err(io::ErrorKind::NotFound.into()) };
            *word = 1 << (node.0 % 64);
            // SAFETY: the mapping above, and a mask of as many bits as is said.
            let bound = unsafe {
                libc::syscall(libc::SYS_mbind, start.as_ptr(), bytes, libc::MPOL_BIND, mask.as_ptr(), bits, 0)
            };
            if bound != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        buffer.words_mut().iter_mut().step_by(Page::BYTES as usize / 8).for_each(|word| *word = 1);
        let pages: Vec<Page> = (0..bytes).step_by(HUGE).map(|at| Page::of(start.as_ptr() as u64 + at as u64)).collect();
        let mut homes = Vec::new();
        query_homes(0, &pages, &mut homes)?;
        match homes.iter().find(|home| bind && **home != PageHome::Node(node)) {
            Some(home) => Err(io::Error::other(format!("the kernel says {home:?} of a page bound to it"))),
            None => Ok(buffer),
        }
    }

    fn words(&self) -> &[u64] {
        // SAFETY: mapped, aligned to a page, written before, and unmapped with `self` only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes / 8) }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: the same; fresh pages hold zeros.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes / 8) }
    }

    fn is_huge(&self) -> io::Result<bool> {
        let start = self.start.as_ptr() as u64;
        let runs = crate::homes::page_map(std::process::id() as i32, start, start + self.bytes as u64)?;
        Ok(runs.iter().any(|run| run.huge))
    }

    /// Makes one cycle of all lines, by Sattolo's shuffle: the first word of each says where the next line is. The
    /// answer is where one of them is.
    fn make_cycle(&mut self) -> usize {
        let mut order: Vec<u32> = (0..(self.bytes / LINE) as u32).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, (mix(last as u64) % last as u64) as usize);
        }
        let words = self.words_mut();
        let word_of = |line: u32| line as usize * (LINE / 8);
        for (at, line) in order.iter().enumerate() {
            words[word_of(*line)] = word_of(order[(at + 1) % order.len()]) as u64;
        }
        word_of(order[0])
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which no reference is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Puts the calling thread on a CPU.
fn run_on(cpu: u32) -> io::Result<()> {
    let mut mask = [0u64; 1024];
    mask[cpu as usize / 64] = 1 << (cpu % 64);
    // SAFETY: a mask of as many bytes as is said.
    let set = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The size of the first CPU's largest cache.
fn largest_cache() -> usize {
    let sizes = (0..8).filter_map(|index| {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok()
    });
    sizes.max().unwrap_or(0) << 10
}

/// A node's free memory; none where the kernel does not say.
fn free_bytes(node: NodeId) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")).ok()?;
    let line = text.lines().find(|line| line.contains("MemFree:"))?;
    line.split_whitespace().rev().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_goes_through_every_line_once() {
        let mut buffer = Buffer::on(NodeId(0), HUGE, false).unwrap();
        let start = buffer.make_cycle();
        let words = buffer.words();
        let mut seen = vec![false; HUGE / LINE];
        let mut at = start;
        for _ in 0..HUGE / LINE {
            assert!(!std::mem::replace(&mut seen[at / (LINE / 8)], true), "a line twice");
            at = words[at] as usize;
        }
        assert!(at == start && seen.iter().all(|seen| *seen));
    }

    #[test]
    fn distances_are_latencies_over_that_of_the_own_memory() {
        let host = Machine::parse("2x2", &Machine::preset("togian").unwrap()).unwrap();
        let measured = Measured {
            nodes: vec![NodeId(0), NodeId(1)],
            latency_ns: vec![vec![Some(80.0), Some(132.0)], vec![Some(75.0), Some(100.0)]],
            bandwidth: vec![vec![Some(2e10), None], vec![Some(1e10), None]],
            bytes: LEAST,
            notes: Vec::new(),
        };
        let machine = measured.machine(&host);
        let distances: Vec<Vec<u32>> = machine.nodes.iter().map(|node| node.distances.clone()).collect();
        // What seems nearer than the own memory is not.
        assert_eq!(distances, [[10, 17], [10, 10]]);
        assert_eq!((machine.nodes[0].latency_ns, machine.nodes[0].bandwidth), (Some(75.0), Some(2e10)));
        assert_eq!((machine.nodes[1].latency_ns, machine.nodes[1].bandwidth), (Some(100.0), None));
    }
}
