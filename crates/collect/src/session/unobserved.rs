//! What the profile says was not observed: children that the user left out, heaps that nobody reported.
//!
//! Heap blocks are reported by a library that is preloaded. It is not in every program, and none of them says so:
//! static ones, those of another user or with more rights, in a container where the recorder's files are not, without
//! the environment that names it.

use numalens_profile::{Meta, tables};
use std::collections::BTreeMap;

/// How a child is marked that the user did not want.
const BY_CHOICE: &str = ": a child, left out by --no-follow";
/// How heaps are.
const HEAP: &str = "heap blocks of ";
/// Those named one by one.
const MOST: usize = 100;
/// Of a command line, to know it by.
const MOST_CHARACTERS: usize = 80;

/// What was not observed.
#[derive(Default)]
pub struct Unobserved {
    /// Children that are not recorded, as the user wanted, with what is known of their programs.
    left_out: BTreeMap<i32, String>,
    /// Why no program has the library that reports heap blocks, if none has.
    no_heap: Option<String>,
}

impl Unobserved {
    /// A child is not recorded; of its program nothing is known where `command` is empty.
    pub fn left_out(&mut self, pid: i32, command: String) {
        let known = self.left_out.entry(pid).or_default();
        if !command.is_empty() {
            *known = command;
        }
    }

    /// No program of this recording has the library; `why` is for people.
    pub fn without_heap(&mut self, why: String) {
        self.no_heap = Some(why);
    }

    /// Says it in `meta`, in place of what a checkpoint before has said.
    pub fn note(&self, processes: &[tables::Process], meta: &mut Meta) {
        meta.unobserved.retain(|line| !line.ends_with(BY_CHOICE) && !line.starts_with(HEAP));
        let left_out =
            self.left_out.iter().map(|(&pid, command)| format!("{}{BY_CHOICE}", process(pid as u32, command)));
        add(meta, left_out.collect(), |more| format!("{more} more processes{BY_CHOICE}"));
        match &self.no_heap {
            Some(why) => meta.unobserved.push(format!("{HEAP}all programs: {why}")),
            None => {
                let unseen = processes.iter().filter(|row| !row.heap_observed);
                let lines = unseen.map(|row| {
                    format!(
                        "{HEAP}{}: the library that tells of them was not loaded into it (a static program, one of another user, in a \
                         container, or without its environment)",
                        process(row.pid, &row.command)
                    )
                });
                add(meta, lines.collect(), |more| format!("{HEAP}{more} more processes, for such reasons"));
            }
        }
    }
}

/// The first lines, and how many more there are.
fn add(meta: &mut Meta, mut lines: Vec<String>, more: impl Fn(usize) -> String) {
    let rest = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    meta.unobserved.append(&mut lines);
    if rest > 0 {
        meta.unobserved.push(more(rest));
    }
}

fn process(pid: u32, command: &str) -> String {
    let space = if command.is_empty() { "" } else { " " };
    match command.char_indices().nth(MOST_CHARACTERS) {
        Some((at, _)) => format!("process {pid} {}...", &command[..at]),
        None => format!("process {pid}{space}{command}"),
    }
}
