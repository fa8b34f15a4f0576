//! `simulate` against the kernel: what it predicts from a recording under one policy, and what recordings of the same
//! program count under others, placed by the kernel itself.
//!
//! The case leaves `TARGET.POLICY.numalens` of several targets and policies. Every prediction is compared thread by
//! thread and node by node: they must agree within [`TOLERANCE`] of all accesses. Which page of an array is on which
//! node is not compared for `interleave`: where the kernel begins depends on what the process allocated before, so only
//! an array of many pages is spread alike. Pages that no policy moves (of files that were in memory before) stay below
//! the tolerance.

use super::Context;
use miette::{IntoDiagnostic, Result, WrapErr, bail, miette};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Part of all accesses that may lie elsewhere than predicted.
const TOLERANCE: f64 = 0.01;

/// What is recorded, and what is predicted from it. A policy that binds memory gives threads the node of their memory
/// (docs/reference/metrics.md), so from such a recording nothing is predicted.
const PREDICTIONS: &[(&str, &[&str])] =
    &[("first-touch", &["first-touch", "interleave", "bind:2"]), ("interleave", &["first-touch", "interleave"])];

/// Compares every prediction with the recording that it is about.
pub fn check(context: &Context) -> Result<Vec<String>> {
    let mut targets = BTreeSet::new();
    for entry in std::fs::read_dir(context.directory).into_diagnostic()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        targets.extend(name.strip_suffix(".first-touch.numalens").map(str::to_owned));
    }
    if targets.is_empty() {
        bail!("the case left no recordings");
    }
    let mut wrong = Vec::new();
    for target in targets {
        let profile = |policy: &str| context.directory.join(format!("{target}.{policy}.numalens"));
        for (recorded, predicted) in PREDICTIONS {
            for policy in *predicted {
                let doubts = compare(context, &profile(recorded), policy, &profile(policy))?;
                wrong.extend(doubts.into_iter().map(|doubt| format!("{target}, {policy} from {recorded}: {doubt}")));
            }
        }
    }
    Ok(wrong)
}

/// Accesses by the home of what is accessed; none: pages without one.
type Homes = BTreeMap<Option<usize>, f64>;

/// What `policy` makes of `recording`, thread by thread, against what was counted `under` it.
fn compare(context: &Context, recording: &Path, policy: &str, under: &Path) -> Result<Vec<String>> {
    let threads = threads(context, recording)?;
    if threads != self::threads(context, under)? || threads.len() < 2 {
        return Ok(vec![format!("other threads: {threads:?}")]);
    }
    let mut both = Vec::new();
    for thread in &threads {
        let id = thread.to_string();
        let of = |command: &[&str], path: &Path, matrix: &str| -> Result<Homes> {
            let report = numalens(context, command, path, &["--thread", &id])?;
            homes(&report["matrix"][matrix])
        };
        let predicted = of(&["simulate", "--policy", policy], recording, "simulated")?;
        both.push((predicted, of(&["report", "--section", "matrix"], under, "access")?));
    }
    let all: f64 = both.iter().flat_map(|(_, counted)| counted.values()).sum();
    let doubts = threads.iter().zip(&both).filter_map(|(thread, (predicted, counted))| {
        differing(predicted, counted, all).map(|doubt| format!("thread {thread}: {doubt}"))
    });
    Ok(doubts.collect())
}

/// What is wrong when the two differ at a node by more than they may, of `all` accesses of the recording.
fn differing(predicted: &Homes, counted: &Homes, all: f64) -> Option<String> {
    let at = |homes: &Homes, node: &Option<usize>| homes.get(node).copied().unwrap_or(0.0);
    let mut nodes = predicted.keys().chain(counted.keys());
    let far = |node: &Option<usize>| (at(predicted, node) - at(counted, node)).abs() > all * TOLERANCE;
    (all == 0.0 || nodes.any(far)).then(|| format!("predicted {predicted:?}, counted {counted:?}, of {all}"))
}

/// Numbers of the profile's threads, in order.
fn threads(context: &Context, path: &Path) -> Result<Vec<u64>> {
    let report = numalens(context, &["report", "--section", "threads", "--top", "100"], path, &[])?;
    let rows = report["threads"].as_array().ok_or_else(|| miette!("no threads in {}", path.display()))?;
    let mut threads: Vec<u64> = rows.iter().filter_map(|row| row["thread"].as_u64()).collect();
    threads.sort_unstable();
    Ok(threads)
}

/// The columns of a matrix, summed over the nodes of threads.
fn homes(matrix: &Value) -> Result<Homes> {
    let rows = matrix["rows"].as_array().ok_or_else(|| miette!("no matrix: {matrix}"))?;
    let mut homes = Homes::new();
    for row in rows.iter().chain([&matrix["unpinned"]]) {
        for (node, cell) in row.as_array().into_iter().flatten().enumerate() {
            *homes.entry(Some(node)).or_default() += cell.as_f64().unwrap_or(0.0);
        }
    }
    let unplaced = &matrix["unplaced"];
    let cells = unplaced["rows"].as_array().into_iter().flatten().chain([&unplaced["unpinned"]]);
    homes.insert(None, cells.filter_map(Value::as_f64).sum());
    Ok(homes)
}

/// What the host's numalens says of a profile, as JSON.
fn numalens(context: &Context, command: &[&str], path: &Path, more: &[&str]) -> Result<Value> {
    let mut run = Command::new(&context.places.numalens);
    let output = run.args(command).arg(path).args(more).args(["--format", "json"]).output().into_diagnostic()?;
    if !output.status.success() {
        bail!("{run:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).into_diagnostic().wrap_err_with(|| format!("{run:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_hundredth_may_lie_elsewhere() {
        let homes = |cells: [u64; 2]| {
            homes(&json!({"rows": [cells, [0, 0]], "unpinned": [0, 0], "unplaced": {"rows": [0, 0], "unpinned": 0}}))
                .unwrap()
        };
        assert_eq!(differing(&homes([500, 500]), &homes([505, 495]), 1000.0), None);
        assert!(differing(&homes([500, 500]), &homes([520, 480]), 1000.0).is_some());
        assert!(differing(&homes([0, 0]), &homes([0, 0]), 0.0).is_some());
    }
}
