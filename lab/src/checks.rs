//! What is compared after a case has run. A check returns everything that is wrong, in words; nothing means passed.

mod kernel_truth;
mod recording;
mod simulate;
mod topology;

use crate::boot::Ran;
use crate::case::Case;
use crate::places::Places;
use miette::Result;
use numalens_lab::machine::Machine;
use std::fs;
use std::path::Path;

/// What a check has to go by.
pub struct Context<'a> {
    pub case: &'a Case,
    pub machine: &'a Machine,
    /// Where the case's files from the guest are.
    pub directory: &'a Path,
    pub places: &'a Places,
}

type Check = fn(&Context) -> Result<Vec<String>>;

/// Checks by the name that case.toml uses.
const CHECKS: &[(&str, Check)] = &[
    // The guest's script compared by itself: its status is the verdict, its error output the reason.
    ("status", |_| Ok(Vec::new())),
    ("topology", topology::check),
    ("kernel-truth", kernel_truth::check),
    ("recording", recording::check),
    ("virtual", recording::check_virtual),
    ("short-processes", recording::check_short_processes),
    ("simulate", simulate::check),
];

/// Everything that is wrong with how the case ended.
pub fn check(case: &Case, machine: &Machine, directory: &Path, ran: &Ran, places: &Places) -> Vec<String> {
    if ran.code != 0 {
        let why = if ran.code == 137 {
            format!("did not end within {} s", case.limit)
        } else {
            format!("exit status {}", ran.code)
        };
        let errors = fs::read_to_string(directory.join("stderr")).unwrap_or_default();
        return std::iter::once(why).chain(errors.lines().rev().take(10).map(str::to_owned)).collect();
    }
    let Some((_, check)) = CHECKS.iter().find(|(name, _)| *name == case.check) else {
        return vec![format!("case.toml asks for check {}, which there is not", case.check)];
    };
    check(&Context { case, machine, directory, places }).unwrap_or_else(|error| vec![in_one_line(&error)])
}

/// What went wrong and why, unbroken: a log may be all that is left of it.
fn in_one_line(error: &miette::Report) -> String {
    error.chain().map(|cause| cause.to_string().replace('\n', " ")).collect::<Vec<_>>().join(": ")
}
