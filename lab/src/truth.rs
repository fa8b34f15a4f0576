//! What a target knows about itself (targets/target.h says how it writes it), and what follows from it: the home and
//! first toucher of every page, the class of every access. Worked out here from the definitions of
//! docs/reference/metrics.md, without any of numalens' own code.

use crate::machine::Machine;
use miette::{IntoDiagnostic, Result, WrapErr, miette};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Deserialize)]
pub struct Truth {
    pub target: String,
    pub pid: u32,
    pub threads: Vec<Thread>,
    pub arrays: Vec<Array>,
    pub touches: Vec<Touch>,
    pub accesses: Vec<Accesses>,
}

#[derive(Deserialize)]
pub struct Thread {
    pub thread: u32,
    pub tid: u32,
    pub cpus: String,
    pub node: Option<u16>,
}

#[derive(Deserialize)]
pub struct Array {
    pub name: String,
    pub base: u64,
    pub size: u64,
    pub page_size: u64,
    /// Bound or moved to nodes explicitly.
    pub bound: bool,
    /// Pages for which get_mempolicy and move_pages disagreed.
    pub disagreeing: u64,
    /// (page, count, node), node negative where there is no page.
    homes: Vec<(u64, u64, i32)>,
}

#[derive(Deserialize)]
pub struct Touch {
    pub array: String,
    pub thread: u32,
    pub from: u64,
    pub to: u64,
    pub tag: String,
}

/// Accesses of one thread to the part of an array that has one home, at one tagged line.
#[derive(Deserialize)]
pub struct Accesses {
    pub array: String,
    pub thread: u32,
    pub tag: String,
    pub home: Option<u16>,
    pub reads: f64,
    pub writes: f64,
    /// CPU time of the thread in that loop.
    pub seconds: f64,
}

impl Array {
    /// Every page that the array touches, with its home.
    pub fn pages(&self) -> impl Iterator<Item = (u64, Option<u16>)> + '_ {
        self.homes
            .iter()
            .flat_map(|&(page, count, node)| (page..page + count).map(move |page| (page, u16::try_from(node).ok())))
    }

    /// Whether the page belongs to the array alone (malloc's own data may share the first and last).
    pub fn whole(&self, page: u64) -> bool {
        page * self.page_size >= self.base && (page + 1) * self.page_size <= self.base + self.size
    }
}

impl Truth {
    /// Reads one truth file.
    pub fn read(path: &Path) -> Result<Truth> {
        let text = fs::read_to_string(path).into_diagnostic().wrap_err_with(|| path.display().to_string())?;
        serde_json::from_str(&text).into_diagnostic().wrap_err_with(|| path.display().to_string())
    }

    /// The truth files of one directory whose name starts with `stem`: one per process.
    pub fn read_all(directory: &Path, stem: &str) -> Result<Vec<Truth>> {
        let mut paths: Vec<_> =
            fs::read_dir(directory).into_diagnostic()?.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with(stem) && !name.ends_with("maps")
        });
        paths.sort();
        if paths.is_empty() {
            return Err(miette!("the target left no truth"));
        }
        paths.iter().map(|path| Truth::read(path)).collect()
    }

    pub fn node_of(&self, slot: u32) -> Option<u16> {
        self.threads.iter().find(|thread| thread.thread == slot)?.node
    }

    /// Whether the pages of `array` were placed by a bound thread, or bound or moved explicitly. Targets place each
    /// array in one way.
    fn placed_pinned(&self, array: &str) -> bool {
        self.arrays.iter().any(|other| other.name == array && other.bound)
            || self
                .touches
                .iter()
                .filter(|touch| touch.array == array)
                .all(|touch| self.node_of(touch.thread).is_some())
    }

    /// The same run as a virtual machine of so many nodes sees it: thread i on node i mod N, or on none, and every page
    /// on the node of its first toucher (of one array only one thread may be it).
    pub fn place(&mut self, nodes: u16, spread: bool) {
        for thread in &mut self.threads {
            thread.node = spread.then_some((thread.thread % u32::from(nodes)) as u16);
        }
        for i in 0..self.accesses.len() {
            let array = &self.accesses[i].array;
            let toucher =
                self.touches.iter().find(|touch| touch.array == *array).and_then(|touch| self.node_of(touch.thread));
            self.accesses[i].home = Some(toucher.unwrap_or(0));
        }
    }

    /// The class of accesses, by the definitions.
    pub fn class(&self, accesses: &Accesses, machine: &Machine) -> &'static str {
        let Some(home) = accesses.home else { return "unplaced" };
        let node = self.node_of(accesses.thread);
        let bare = |node: usize| machine.cpus[node] == 0;
        if bare(home as usize) {
            let nearest = |from: u16| {
                let distances = machine.distances[from as usize];
                (0..distances.len()).filter(|&to| bare(to)).map(|to| distances[to]).min()
                    == Some(distances[home as usize])
            };
            return if node.is_some_and(nearest) { "memory_tier_local" } else { "memory_tier_remote" };
        }
        match (node, self.placed_pinned(&accesses.array)) {
            (Some(node), true) if node == home => "local",
            (Some(_), true) => "remote",
            (Some(_), false) => "unpinned_page",
            (None, true) => "unpinned_thread",
            (None, false) => "unpinned_both",
        }
    }

    /// Seconds of CPU time in each class at the line of `tag`.
    pub fn seconds(truths: &[Truth], tag: &str, machine: &Machine) -> BTreeMap<&'static str, f64> {
        let mut seconds = BTreeMap::new();
        for truth in truths {
            for accesses in truth.accesses.iter().filter(|accesses| accesses.tag == tag) {
                *seconds.entry(truth.class(accesses, machine)).or_insert(0.0) += accesses.seconds;
            }
        }
        seconds
    }
}

/// The number of the line of a source that is tagged `EXPECT tag`.
pub fn line_of(source: &Path, tag: &str) -> Result<u32> {
    let text = fs::read_to_string(source).into_diagnostic().wrap_err_with(|| source.display().to_string())?;
    let at = text.lines().position(|line| {
        line.split("EXPECT ").nth(1).is_some_and(|rest| rest.split_ascii_whitespace().next() == Some(tag))
    });
    at.map(|line| line as u32 + 1).ok_or_else(|| miette!("{} has no line tagged EXPECT {tag}", source.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(node: Option<u16>) -> Truth {
        Truth {
            target: "t".into(),
            pid: 1,
            threads: vec![
                Thread { thread: 0, tid: 1, cpus: "0".into(), node },
                Thread { thread: 1, tid: 2, cpus: "2".into(), node: Some(1) },
                Thread { thread: 2, tid: 3, cpus: "0-3".into(), node: None },
            ],
            arrays: vec![],
            touches: vec![Touch { array: "a".into(), thread: 0, from: 0, to: 8, tag: "first-touch".into() }],
            accesses: vec![],
        }
    }

    fn access(thread: u32, home: Option<u16>) -> Accesses {
        Accesses { array: "a".into(), thread, tag: "remote".into(), home, reads: 1.0, writes: 0.0, seconds: 1.0 }
    }

    #[test]
    fn classes_follow_their_definitions() {
        let tier = Machine::find("tier").unwrap();
        let (pinned, unpinned) = (truth(Some(0)), truth(None));
        let class = |truth: &Truth, thread, home| truth.class(&access(thread, home), tier);
        assert_eq!(class(&pinned, 1, Some(1)), "local");
        assert_eq!(class(&pinned, 1, Some(0)), "remote");
        assert_eq!(class(&unpinned, 1, Some(1)), "unpinned_page");
        assert_eq!(class(&pinned, 2, Some(0)), "unpinned_thread");
        assert_eq!(class(&unpinned, 2, Some(0)), "unpinned_both");
        assert_eq!(class(&pinned, 1, Some(2)), "memory_tier_local");
        assert_eq!(class(&pinned, 2, Some(2)), "memory_tier_remote");
        assert_eq!(class(&pinned, 1, None), "unplaced");
    }

    #[test]
    fn seconds_add_up_by_class() {
        let mut truth = truth(Some(0));
        truth.accesses = vec![access(0, Some(0)), Accesses { seconds: 3.0, ..access(1, Some(0)) }];
        let seconds = Truth::seconds(&[truth], "remote", Machine::find("sym2").unwrap());
        assert_eq!(seconds, BTreeMap::from([("local", 1.0), ("remote", 3.0)]));
    }
}
