//! The processes of a recording: those that live, and the rows of all.

use super::process::LiveProcess;
use super::slots::Slots;
use crate::rank;
use numalens_profile::ids::ProcessId;
use numalens_profile::tables;
use std::collections::BTreeMap;

/// How a process is said to end until that is known.
const RUNNING: &str = "running";
const UNKNOWN: &str = "unknown";

/// All processes.
pub struct Processes {
    live: BTreeMap<i32, LiveProcess>,
    rows: Vec<tables::Process>,
    /// The places of their threads, where the session gives them.
    pub slots: Slots,
    first_pid: Option<i32>,
    /// Children are recorded too.
    follow: bool,
    /// The collector's.
    own_pid: i32,
}

impl Processes {
    /// None yet; whether children are recorded too.
    pub fn new(follow: bool) -> Self {
        Processes {
            live: BTreeMap::new(),
            rows: Vec::new(),
            slots: Slots::default(),
            first_pid: None,
            follow,
            own_pid: std::process::id() as i32,
        }
    }

    /// The one of a pid that lives.
    pub fn get(&self, pid: i32) -> Option<&LiveProcess> {
        self.live.get(&pid)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, pid: i32) -> Option<&mut LiveProcess> {
        self.live.get_mut(&pid)
    }

    /// The id of the one of a pid that lives.
    pub fn id_of(&self, pid: i32) -> Option<ProcessId> {
        self.get(pid).map(|process| process.id)
    }

    /// Those that live.
    pub fn live(&self) -> impl Iterator<Item = &LiveProcess> {
        self.live.values()
    }

    /// The same, to change them.
    pub fn live_mut(&mut self) -> impl Iterator<Item = &mut LiveProcess> {
        self.live.values_mut()
    }

    /// The pids of those that live.
    pub fn pids(&self) -> Vec<i32> {
        self.live.keys().copied().collect()
    }

    /// The rows of the table.
    pub fn rows(&self) -> &[tables::Process] {
        &self.rows
    }

    /// The row of one.
    pub fn row(&self, id: ProcessId) -> Option<&tables::Process> {
        self.rows.get(id.0 as usize)
    }

    /// Whether children are recorded too.
    pub fn follows_children(&self) -> bool {
        self.follow
    }

    /// Whether one is to be recorded: every one, or only the first.
    pub fn follows(&self, pid: i32) -> bool {
        self.follow || self.first_pid.is_none_or(|first| first == pid)
    }

    /// Whether a pid is nobody's, or the collector's own, which is met when the whole system is watched.
    pub fn is_none_of_them(&self, pid: i32) -> bool {
        pid <= 0 || pid == self.own_pid
    }

    /// One begins: by a fork of `parent`, or else as one of which nothing is known.
    pub fn begin(&mut self, pid: i32, parent: Option<ProcessId>, command: String, time_ns: u64) -> ProcessId {
        self.first_pid.get_or_insert(pid);
        let id = ProcessId(self.rows.len() as u32);
        let parent_row = parent.and_then(|id| self.row(id));
        let row = tables::Process {
            process: id,
            pid: pid as u32,
            parent,
            // A forked child has its parent's environment.
            rank: if parent.is_some() { parent_row.and_then(|row| row.rank) } else { rank::of_process(pid) },
            host: host_name(),
            command,
            start_ns: time_ns,
            end_ns: None,
            end: RUNNING.to_owned(),
            // What a forked child's parent had loaded, it has.
            heap_observed: parent_row.is_some_and(|row| row.heap_observed),
        };
        self.rows.push(row);
        let process = match parent.and_then(|parent| self.live().find(|process| process.id == parent)) {
            Some(parent) => parent.fork(id, pid),
            None => LiveProcess::new(id, pid),
        };
        self.live.insert(pid, process);
        id
    }

    /// Another program has taken one over; its memory has been closed.
    pub fn exec(&mut self, pid: i32, command: Option<String>) {
        let Some(process) = self.live.get_mut(&pid) else { return };
        process.exec();
        self.slots.executed(pid);
        let row = &mut self.rows[process.id.0 as usize];
        row.heap_observed = false;
        if let Some(command) = command {
            row.command = command;
        }
        row.rank = rank::of_process(pid).or(row.rank);
    }

    /// One has ended; `end` says how, where that is known. Its memory has been closed.
    pub fn end(&mut self, pid: i32, time_ns: u64, end: Option<String>) {
        let Some(process) = self.live.remove(&pid) else { return };
        self.slots.ended(pid);
        let row = &mut self.rows[process.id.0 as usize];
        row.end_ns = Some(time_ns);
        if row.end == RUNNING {
            row.end = end.unwrap_or_else(|| UNKNOWN.to_owned());
        }
    }

    /// How the latest one of a pid, which was launched, has ended.
    pub fn ended(&mut self, pid: i32, end: String) {
        if let Some(row) = self.rows.iter_mut().rev().find(|row| row.pid == pid as u32) {
            row.end = end;
        }
    }

    /// One has said its rank.
    pub fn ranked(&mut self, id: ProcessId, rank: u32) {
        if let Some(row) = self.rows.get_mut(id.0 as usize) {
            row.rank = Some(rank);
        }
    }

    /// One that lives has the library that reports heap blocks.
    pub fn heap_observed(&mut self, pid: i32) {
        if let Some(process) = self.live.get(&pid) {
            self.rows[process.id.0 as usize].heap_observed = true;
        }
    }
}

fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
