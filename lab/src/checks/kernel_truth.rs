//! The targets' truth against the kernel's other accounts of the same pages: before it is used to judge a recording,
//! the oracle itself is put to the test.

use super::Context;
use miette::{IntoDiagnostic, Result, WrapErr};
use numalens_lab::truth::{Array, Truth};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Judges every NAME.json that the case left, with its NAME.json.numa_maps and NAME.json.maps.
pub fn check(context: &Context) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut files: Vec<PathBuf> =
        fs::read_dir(context.directory).into_diagnostic()?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().contains(".json") && !path.to_string_lossy().ends_with("maps"));
    files.sort();
    if files.is_empty() {
        wrong.push("no target left a truth".into());
    }
    for path in files {
        let truth = Truth::read(&path)?;
        let maps = Maps::read(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut says = |what: String| wrong.push(format!("{name}: {what}"));
        if truth.pid == 0 || truth.threads.is_empty() {
            says(format!("{} knows no threads", truth.target));
        }
        for thread in &truth.threads {
            let Some(node) = thread.node else { continue };
            let cpus = context.machine.cpus_of(node as usize);
            if !thread.cpus.split(['-', ',']).all(|cpu| cpu.parse().is_ok_and(|cpu| cpus.contains(&cpu))) {
                says(format!("thread {} calls CPUs {} node {node}", thread.tid, thread.cpus));
            }
        }
        for array in &truth.arrays {
            if array.disagreeing > 0 {
                says(format!("{}: get_mempolicy and move_pages differ on {} pages", array.name, array.disagreeing));
            }
            for doubt in maps.compare(array) {
                says(doubt);
            }
            for doubt in first_touch(&truth, array, context) {
                says(doubt);
            }
        }
        for accesses in truth.accesses.iter().filter(|accesses| accesses.reads + accesses.writes <= 0.0) {
            says(format!("thread {} made no accesses at {}", accesses.thread, accesses.tag));
        }
    }
    Ok(wrong)
}

/// Under the default policy a page lies on the node that its first toucher is bound to.
fn first_touch(truth: &Truth, array: &Array, context: &Context) -> Vec<String> {
    let homes: BTreeMap<u64, Option<u16>> = array.pages().filter(|(page, _)| array.whole(*page)).collect();
    let mut strays = 0u64;
    let mut seen = 0u64;
    for touch in truth.touches.iter().filter(|touch| touch.array == array.name) {
        let Some(node) = truth.node_of(touch.thread) else { continue };
        let (from, to) =
            ((array.base + touch.from).div_ceil(array.page_size), (array.base + touch.to) / array.page_size);
        for (_, home) in homes.range(from..to.max(from)) {
            seen += 1;
            let bound_elsewhere = home.is_some_and(|home| context.machine.cpus.get(home as usize) == Some(&0));
            strays += u64::from(*home != Some(node) && !bound_elsewhere);
        }
    }
    match strays {
        0 => Vec::new(),
        strays => vec![format!(
            "{}: {strays} of {seen} pages are not on the node of the thread that touched them first",
            array.name
        )],
    }
}

/// /proc/PID/maps and numa_maps: ranges and, for each, pages by node.
struct Maps {
    areas: Vec<(u64, u64, BTreeMap<u16, u64>)>,
}

impl Maps {
    fn read(truth: &Path) -> Result<Maps> {
        let text = |suffix: &str| {
            let path = PathBuf::from(format!("{}{suffix}", truth.display()));
            fs::read_to_string(&path).into_diagnostic().wrap_err_with(|| path.display().to_string())
        };
        let ends = text(".maps")?;
        let ends: BTreeMap<u64, u64> = ends
            .lines()
            .filter_map(|line| {
                let (from, to) = line.split_ascii_whitespace().next()?.split_once('-')?;
                Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
            })
            .collect();
        let areas = text(".numa_maps")?.lines().filter_map(|line| area(line, &ends)).collect();
        Ok(Maps { areas })
    }

    /// Each area of the kernel's account holds at least the pages that the truth sees in it, and no others where the
    /// array fills it.
    fn compare(&self, array: &Array) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut covered = 0;
        for (from, to, counts) in &self.areas {
            let mut homes: BTreeMap<u16, u64> = BTreeMap::new();
            let mut pages = 0;
            for (_, home) in array.pages().filter(|(page, _)| (*from..*to).contains(&(page * array.page_size))) {
                pages += 1;
                if let Some(home) = home {
                    *homes.entry(home).or_default() += 1;
                }
            }
            covered += pages;
            let fills = pages * array.page_size == to - from;
            let agrees = homes.iter().all(|(node, count)| counts.get(node).is_some_and(|most| most >= count));
            if !agrees || (fills && homes != *counts) {
                wrong.push(format!(
                    "{} in area {from:x}-{to:x}: move_pages counts {homes:?}, numa_maps {counts:?}",
                    array.name
                ));
            }
        }
        if covered != array.pages().count() as u64 {
            wrong.push(format!("{}: numa_maps lacks some of its pages", array.name));
        }
        wrong
    }
}

/// A line of numa_maps: `7f00 default anon=3 N0=1 N2=2 kernelpagesize_kB=4`.
fn area(line: &str, ends: &BTreeMap<u64, u64>) -> Option<(u64, u64, BTreeMap<u16, u64>)> {
    let mut words = line.split_ascii_whitespace();
    let from = u64::from_str_radix(words.next()?, 16).ok()?;
    let counts = words.filter_map(|word| {
        let (node, count) = word.strip_prefix('N')?.split_once('=')?;
        Some((node.parse().ok()?, count.parse().ok()?))
    });
    Some((from, *ends.get(&from)?, counts.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_numa_maps() {
        let ends = BTreeMap::from([(0x7f00_0000, 0x7f00_4000)]);
        let read = area("7f000000 default anon=3 dirty=3 N0=1 N2=2 kernelpagesize_kB=4", &ends);
        assert_eq!(read, Some((0x7f00_0000, 0x7f00_4000, BTreeMap::from([(0, 1), (2, 2)]))));
        assert_eq!(area("Null default", &ends), None);
    }
}
