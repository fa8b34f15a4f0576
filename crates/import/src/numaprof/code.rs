//! Code: instructions with the names that NUMAPROF has found for them.

use super::PROCESS;
use super::format::{Document, Instruction, address};
use numalens_profile::ids::{FunctionId, ModuleId, SiteId};
use numalens_profile::tables::{Frame, Function, Mapping, Module, Site};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Rows of the code of a file.
#[derive(Default)]
pub struct Code {
    pub modules: Vec<Module>,
    pub mappings: Vec<Mapping>,
    pub sites: Vec<Site>,
    pub frames: Vec<Frame>,
    pub functions: Vec<Function>,
    by_address: FxHashMap<u64, SiteId>,
}

/// The address under which NUMAPROF sums up what it leaves out of a file.
const OTHERS: u64 = 2;
/// Programs that are not position independent lie below; their own addresses are absolute.
const FIXED_END: u64 = 1 << 28;

impl Code {
    /// The site of an address in the file.
    pub fn site_of(&self, address: u64) -> Option<SiteId> {
        self.by_address.get(&address).copied()
    }
}

/// Reads symbols of everything that has counts.
pub fn read(document: &Document) -> Code {
    let symbols = &document.symbols;
    let mut code = Code::default();
    let mut modules: FxHashMap<&str, ModuleId> = FxHashMap::default();
    let mut functions: FxHashMap<(Option<ModuleId>, &str), FunctionId> = FxHashMap::default();
    let mut ranges: Vec<(u64, u64, &str)> = Vec::new();
    for row in &symbols.map {
        let (Some(start), Some(end), offset) = (address(&row.lower), address(&row.upper), address(&row.offset)) else {
            continue;
        };
        if start >= end {
            continue;
        }
        let module = (!row.file.is_empty()).then(|| code.module(&mut modules, &row.file));
        code.mappings.push(Mapping {
            process: PROCESS,
            time_ns: 0,
            start,
            end,
            offset: offset.unwrap_or(0),
            perms: String::new(),
            module,
            name: row.file.clone(),
        });
        ranges.push((start, end, row.file.as_str()));
    }
    ranges.sort_unstable();
    let addresses: BTreeSet<u64> =
        document.instructions.keys().chain(document.allocs.keys()).filter_map(|text| address(text)).collect();
    let named: FxHashMap<u64, &Instruction> =
        symbols.instr.iter().filter_map(|(text, instruction)| Some((address(text)?, instruction))).collect();
    let unknown = Instruction::default();
    for at in addresses {
        let instruction = named.get(&at).copied().unwrap_or(&unknown);
        let text = |index: Option<i64>| {
            let text = symbols.strings.get(usize::try_from(index?).ok()?)?.as_str();
            (!text.is_empty() && text != "??").then_some(text)
        };
        let mapped = || {
            let (_, end, file) = ranges[..ranges.partition_point(|range| range.0 <= at)].last()?;
            (at < *end && !file.is_empty()).then_some(*file)
        };
        let path = text(instruction.binary).or_else(mapped);
        let module = path.map(|path| code.module(&mut modules, path));
        let site = SiteId(code.sites.len() as u32);
        let low = path.and_then(|path| symbols.low_addr_map.get(path)).copied().unwrap_or(0);
        let own = if low < FIXED_END { at } else { at.saturating_sub(low) };
        code.sites.push(Site { site, module, address: own });
        code.by_address.insert(at, site);
        let name = if at == OTHERS { Some("[left out of the file]") } else { text(instruction.function) };
        let Some(name) = name else { continue };
        let function = *functions.entry((module, name)).or_insert_with(|| {
            let function = FunctionId(code.functions.len() as u32);
            code.functions.push(Function { function, module, name: name.to_owned() });
            function
        });
        code.frames.push(Frame {
            site,
            depth: 0,
            function,
            file: text(instruction.file).map(str::to_owned),
            line: instruction.line.and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0),
        });
    }
    code
}

impl Code {
    fn module<'a>(&mut self, known: &mut FxHashMap<&'a str, ModuleId>, path: &'a str) -> ModuleId {
        *known.entry(path).or_insert_with(|| {
            let module = ModuleId(self.modules.len() as u32);
            self.modules.push(Module { module, path: path.to_owned(), build_id: String::new() });
            module
        })
    }
}
