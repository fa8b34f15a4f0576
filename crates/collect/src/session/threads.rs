//! The threads of a recording, their placement, and what became of them.

use super::stacks::Stacks;
use numalens_profile::ids::{ProcessId, ThreadId};
use numalens_profile::tables;
use numalens_topology::{CpuSet, NodeId};
use rustc_hash::FxHashMap;

/// Where a thread may run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadBinding {
    pub cpus: CpuSet,
    /// The node that it is bound to, by its CPUs or its memory policy; `None`: unpinned.
    pub node: Option<NodeId>,
    /// The kernel's word for its memory policy.
    pub policy: String,
}

/// A thread while it lives.
pub struct LiveThread {
    pub id: ThreadId,
    pub process: ProcessId,
    pub bound: ThreadBinding,
    pub last_cpu: u32,
    /// The stack pointer of its latest sample: says which mapping is its stack.
    pub sp: u64,
    /// It has ended by then, and not all is known yet that it has done.
    pub ends_ns: Option<u64>,
}

/// A thread is taken for one that has ended up to so much later: clocks of several sources are compared.
const AFTER_ITS_END_NS: u64 = 1_000_000;

/// All threads.
#[derive(Default)]
pub struct Threads {
    live: FxHashMap<u32, LiveThread>,
    /// The last thread of a tid that has ended.
    ended: FxHashMap<u32, ThreadId>,
    rows: Vec<tables::Thread>,
    placements: Vec<tables::Placement>,
    pub(super) stacks: Stacks,
}

impl Threads {
    /// Registers a thread that has begun. A live thread with the same tid has ended unnoticed.
    pub fn begin(
        &mut self,
        process: ProcessId,
        tid: u32,
        name: &str,
        time_ns: u64,
        bound: ThreadBinding,
        cause: &str,
    ) -> ThreadId {
        self.end(tid, time_ns);
        let id = ThreadId(self.rows.len() as u32);
        self.rows.push(tables::Thread {
            process,
            thread: id,
            tid,
            name: name.to_owned(),
            start_ns: time_ns,
            end_ns: None,
            switches: 0,
            migrations: 0,
        });
        self.log(process, id, &bound, time_ns, cause);
        self.live.insert(tid, LiveThread { id, process, bound, last_cpu: u32::MAX, sp: 0, ends_ns: None });
        id
    }

    pub fn get(&self, tid: u32) -> Option<&LiveThread> {
        self.live.get(&tid)
    }

    /// The thread of `process` that something was reported by at a time. What it has reported last may be read when it
    /// has ended, and when another one has its tid.
    pub fn at(&self, process: ProcessId, tid: u32, time_ns: u64) -> Option<ThreadId> {
        let live = self.live.get(&tid).filter(|thread| thread.process == process).map(|thread| thread.id);
        let row = |id: ThreadId| &self.rows[id.0 as usize];
        let was_there = |&id: &ThreadId| {
            let last = row(id).end_ns.map_or(u64::MAX, |end| end.saturating_add(AFTER_ITS_END_NS));
            row(id).process == process && row(id).start_ns <= time_ns && time_ns <= last
        };
        let ended = || self.ended.get(&tid).copied().filter(was_there);
        match live {
            Some(live) if row(live).start_ns <= time_ns => Some(live),
            Some(live) => Some(ended().unwrap_or(live)),
            None => ended(),
        }
    }

    pub fn get_mut(&mut self, tid: u32) -> Option<&mut LiveThread> {
        self.live.get_mut(&tid)
    }

    /// A thread's stack pointer is known.
    pub fn stack_seen(&mut self, tid: u32, sp: u64) {
        if let Some(thread) = self.live.get_mut(&tid) {
            thread.sp = sp;
            self.stacks.seen(thread.process, thread.id, sp);
        }
    }

    /// Tids of the threads that live.
    pub fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.live.keys().copied()
    }

    /// Threads of `process` that live.
    pub fn of_process(&self, process: ProcessId) -> impl Iterator<Item = &LiveThread> {
        self.live.values().filter(move |thread| thread.process == process)
    }

    pub fn end(&mut self, tid: u32, time_ns: u64) {
        if let Some(thread) = self.live.remove(&tid) {
            self.rows[thread.id.0 as usize].end_ns = Some(time_ns);
            self.ended.insert(tid, thread.id);
        }
    }

    /// All threads of a process have ended but one, or all.
    pub fn end_all_but(&mut self, process: ProcessId, survivor: Option<u32>, time_ns: u64) {
        let of_process = self.live.iter().filter(|(tid, thread)| thread.process == process && Some(**tid) != survivor);
        let ended: Vec<u32> = of_process.map(|(&tid, _)| tid).collect();
        ended.into_iter().for_each(|tid| self.end(tid, time_ns));
    }

    pub fn rename(&mut self, tid: u32, name: &str) {
        if let Some(thread) = self.live.get(&tid) {
            name.clone_into(&mut self.rows[thread.id.0 as usize].name);
        }
    }

    /// A context switch: `into` a CPU, or off it.
    pub fn switched(&mut self, tid: u32, cpu: u32, into: bool) {
        let Some(thread) = self.live.get_mut(&tid) else { return };
        let row = &mut self.rows[thread.id.0 as usize];
        if into {
            row.migrations += u64::from(thread.last_cpu != u32::MAX && thread.last_cpu != cpu);
            thread.last_cpu = cpu;
        } else {
            row.switches += 1;
            thread.last_cpu = cpu;
        }
    }

    /// Notes where a thread may run now; an entry of the pinning log if that is news.
    pub fn bind(&mut self, tid: u32, bound: ThreadBinding, time_ns: u64, cause: &str) {
        let Some(thread) = self.live.get_mut(&tid) else { return };
        if thread.bound == bound {
            return;
        }
        thread.bound = bound.clone();
        let (process, id) = (thread.process, thread.id);
        self.log(process, id, &bound, time_ns, cause);
    }

    /// The same for the thread `id` of a program that has bound it itself: it may have ended by now, when what
    /// it has reported before is read.
    pub fn rebind(&mut self, tid: u32, id: ThreadId, bound: ThreadBinding, time_ns: u64) {
        const BOUND: &str = "sched_setaffinity";
        match self.live.get(&tid).filter(|thread| thread.id == id) {
            Some(thread) if thread.bound.policy != bound.policy => self.bind(tid, bound, time_ns, "set_mempolicy"),
            Some(_) => self.bind(tid, bound, time_ns, BOUND),
            None => {
                let Some(process) = self.rows.get(id.0 as usize).map(|row| row.process) else { return };
                self.log(process, id, &bound, time_ns, BOUND);
            }
        }
    }

    fn log(&mut self, process: ProcessId, thread: ThreadId, bound: &ThreadBinding, time_ns: u64, cause: &str) {
        self.placements.push(tables::Placement {
            process,
            thread,
            time_ns,
            cpus: bound.cpus.to_string(),
            node: bound.node,
            policy: bound.policy.clone(),
            cause: cause.to_owned(),
        });
    }

    pub fn rows(&self) -> &[tables::Thread] {
        &self.rows
    }

    pub fn placement_rows(&self) -> &[tables::Placement] {
        &self.placements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_has_reported_is_its_own_when_it_has_ended() {
        let mut threads = Threads::default();
        let bound = || ThreadBinding { cpus: CpuSet::default(), node: None, policy: String::new() };
        let (one, other) = (ProcessId(0), ProcessId(1));
        let first = threads.begin(one, 7, "", 1000, bound(), "start");
        assert_eq!(threads.at(one, 7, 5000), Some(first));
        assert_eq!(threads.at(other, 7, 5000), None, "another process");
        threads.end(7, 6000);
        assert_eq!(threads.at(one, 7, 5000), Some(first));
        assert_eq!(threads.at(one, 7, 6100), Some(first), "by a clock that is ahead");
        assert_eq!(threads.at(one, 7, 6000 + 2 * AFTER_ITS_END_NS), None, "somebody who is not known yet");
        assert_eq!(threads.at(other, 7, 5000), None);
        let second = threads.begin(one, 7, "", 90_000_000, bound(), "start");
        assert_eq!(threads.at(one, 7, 5000), Some(first));
        assert_eq!(threads.at(one, 7, 90_000_000), Some(second));
        assert_eq!(threads.at(one, 7, 80_000_000), Some(second), "by a clock that is behind");
    }
}
