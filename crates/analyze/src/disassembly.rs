//! The instructions of functions, each with its accesses and the line that it is of. Whoever asks brings the
//! instructions: where a program's code is on a disk is nothing that a profile knows.

use crate::dataset::Dataset;
use crate::facts::code::Code;
use crate::facts::fold::Need;
use crate::model::counts::{self, Counts};
use crate::model::report::{Column, Report, Shape, Table, Value};
use numalens_profile::ids::{ModuleId, SiteId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// An instruction as somebody found it in a file.
pub struct Instruction {
    pub module: ModuleId,
    /// In the module's own numbering.
    pub address: u64,
    pub text: String,
    /// Its number in the code that has its names.
    pub site: SiteId,
}

/// Instructions with their names, and what is to be known about them.
#[derive(Default)]
pub struct MachineCode {
    pub instructions: Vec<Instruction>,
    /// What the instructions' sites are called.
    pub code: Code,
    pub doubts: Vec<String>,
}

/// What a dataset must have been loaded with.
pub const NEEDS: &[Need] = &[Need::Sites, Need::Names];

/// The instructions of a line that were seen to access memory, those with most accesses first: module, and address in
/// it.
pub fn wanted(dataset: &Dataset, file: &str, line: u32) -> Vec<(ModuleId, u64)> {
    let mut counts: FxHashMap<SiteId, u64> = dataset.code.sites_at(file, line).map(|site| (site, 0)).collect();
    for ((site, _), tally) in dataset.facts.sites.by_site() {
        if let Some(n) = counts.get_mut(&site) {
            *n += tally.accesses();
        }
    }
    let mut sites: Vec<(SiteId, u64)> = counts.into_iter().collect();
    sites.sort_by_key(|(site, n)| (Reverse(*n), *site));
    sites.into_iter().filter_map(|(site, _)| dataset.code.module_of(site)).collect()
}

/// The reports, `meta` first. `file` is the source beside which the instructions will stand: `at` is the line in it
/// that an instruction was made of, or that it was inlined into.
pub fn reports(dataset: &Dataset, found: &MachineCode, file: &str) -> Vec<Report> {
    let MachineCode { instructions, code, doubts } = found;
    let mut counts: FxHashMap<(ModuleId, u64), Counts> = FxHashMap::default();
    for ((site, class), tally) in dataset.facts.sites.by_site() {
        if let Some(place) = dataset.code.module_of(site) {
            counts.entry(place).or_default().add(class, tally);
        }
    }
    let total = dataset.facts.total();
    let rows = instructions.iter().map(|instruction| {
        let of_it = counts.get(&(instruction.module, instruction.address)).copied().unwrap_or_default();
        let lines = code.lines(instruction.site);
        let at = lines.iter().find(|place| place.file.as_deref() == Some(file)).and_then(|place| place.line);
        let function = lines.last().map(|place| place.function.clone());
        let mut row = counts::values(&of_it, &total);
        row.extend([
            Value::Address(instruction.address),
            Value::Text(instruction.text.clone()),
            Value::maybe(at, |line| Value::Count(u64::from(line))),
            Value::maybe(function, Value::Text),
            Value::maybe(lines.into_iter().next(), Value::Location),
        ]);
        row
    });
    let mut columns = counts::columns(dataset.about.count_noun());
    columns.extend([
        Column::new("address", "address"),
        Column::new("instruction", "instruction"),
        Column::new("at", "line here"),
        Column::new("inside", "function"),
        Column::new("", "line"),
    ]);
    let table = Table { rows: rows.collect(), columns, omitted: 0 };
    let mut doubts = doubts.clone();
    if instructions.is_empty() && doubts.is_empty() {
        doubts.push("no instruction of this line was seen to access memory".to_string());
    }
    let report = Report::new("disassembly", "disassembly", "machine code", Shape::Table(table));
    vec![dataset.about.report(), report.doubting(doubts)]
}
