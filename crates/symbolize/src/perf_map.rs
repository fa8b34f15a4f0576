//! `/tmp/perf-PID.map`: names that a runtime gives to the code that it makes (Java, Node.js, Python, Julia, ...).
//!
//! One line is `START SIZE NAME`, numbers hexadecimal (tools/perf/Documentation/jit-interface.txt in Linux). Runtimes
//! append: where ranges overlap, the later line describes the later code.

use crate::symbols::Symbol;
use rustc_hash::FxHashMap;

/// The functions of `addresses` (sorted) in the map `text`. A line that is not of the form is passed over (a
/// runtime that was killed leaves half a line).
pub(crate) fn look_up(addresses: &[u64], text: &[u8]) -> Vec<Option<Symbol>> {
    let mut names: FxHashMap<usize, (u64, &[u8])> = FxHashMap::default();
    for line in text.split(|byte| *byte == b'\n') {
        let Some((start, size, name)) = fields(line) else { continue };
        let first = addresses.partition_point(|address| *address < start);
        let last = addresses.partition_point(|address| *address < start.saturating_add(size));
        for index in first..last {
            names.insert(index, (start, name));
        }
    }
    let symbol = |(start, name): &(u64, &[u8])| Symbol { name: String::from_utf8_lossy(name).into(), start: *start };
    (0..addresses.len()).map(|index| names.get(&index).map(symbol)).collect()
}

fn fields(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut parts = line.trim_ascii().splitn(3, |byte| *byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(parts.next()?).ok()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = parts.next()?.trim_ascii();
    (!name.is_empty()).then_some((start, size, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_lines_win_and_damaged_ones_are_passed_over() {
        let map = b"7f00 100 Interpreter\n\nnonsense\n0x8000 10 LMain;::work with spaces\n\
            7f40 10 LMain;::sum\nffffffffffffffff ff edge\n9000 2";
        let found = look_up(&[0x7eff, 0x7f00, 0x7f40, 0x7f4f, 0x7f50, 0x8000, 0x8010, 0x9000], map);
        let names: Vec<_> = found.iter().map(|symbol| symbol.as_ref().map_or("-", |symbol| &*symbol.name)).collect();
        assert_eq!(
            names,
            ["-", "Interpreter", "LMain;::sum", "LMain;::sum", "Interpreter", "LMain;::work with spaces", "-", "-"]
        );
        assert_eq!(found[3].as_ref().map(|symbol| symbol.start), Some(0x7f40));
    }
}
