//! `/tmp/perf-PID.map`: names that a runtime gives to the code that it makes (Node.js, .NET, Julia, Python, ...).
//!
//! One line is `START SIZE NAME`, numbers hexadecimal (tools/perf/Documentation/jit-interface.txt in Linux). Runtimes
//! append: where ranges overlap, the later line describes the later code.

use rustc_hash::FxHashMap;
use std::path::PathBuf;

/// A function of such a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    pub function: String,
    /// Where it begins in the source, of JavaScript.
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Where its code begins.
    pub start: u64,
}

/// Where the map of a process is.
pub fn path_of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

/// The functions of `addresses` (sorted) in the map `text`. A line that is not of the form is passed over (a
/// runtime that was killed leaves half a line).
pub fn look_up(addresses: &[u64], text: &[u8]) -> Vec<Option<Named>> {
    let mut names: FxHashMap<usize, (u64, &[u8])> = FxHashMap::default();
    for line in text.split(|byte| *byte == b'\n') {
        let Some((start, size, name)) = fields(line) else { continue };
        let first = addresses.partition_point(|address| *address < start);
        let last = addresses.partition_point(|address| *address < start.saturating_add(size));
        for index in first..last {
            names.insert(index, (start, name));
        }
    }
    (0..addresses.len()).map(|index| names.get(&index).map(|(start, name)| named(*start, name))).collect()
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

/// What V8 calls functions: a kind, how they are executed, the name if there is one, and where they begin:
/// `JS:*scan /home/me/app.js:4:14`.
const JAVASCRIPT: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];

fn named(start: u64, name: &[u8]) -> Named {
    let text = String::from_utf8_lossy(name);
    let whole = || Named { function: text.to_string(), file: None, line: None, start };
    let Some(rest) = JAVASCRIPT.iter().find_map(|kind| text.strip_prefix(kind)) else { return whole() };
    let rest = rest.trim_start_matches(['~', '^', '*', '+']);
    // A path may have spaces; what comes before it begins with none of these.
    let begins = [" /", " file:", " node:"].iter().filter_map(|start| rest.find(start)).min();
    let Some((function, place)) = begins.or_else(|| rest.rfind(' ')).map(|at| (&rest[..at], &rest[at + 1..])) else {
        return whole();
    };
    let mut backwards = place.rsplitn(3, ':');
    let (_, line, file) = (backwards.next(), backwards.next(), backwards.next());
    let Some((line, file)) = line.and_then(|line| line.parse().ok()).zip(file) else { return whole() };
    let function = if function.is_empty() { "[anonymous]" } else { function };
    let file = file.strip_prefix("file://").unwrap_or(file).to_owned();
    Named { function: function.to_owned(), file: Some(file), line: Some(line), start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_lines_win_and_damaged_ones_are_passed_over() {
        let map = b"7f00 100 Interpreter\n\nnonsense\n0x8000 10 LMain;::work with spaces\n\
            7f40 10 LMain;::sum\nffffffffffffffff ff edge\n9000 2";
        let found = look_up(&[0x7eff, 0x7f00, 0x7f40, 0x7f4f, 0x7f50, 0x8000, 0x8010, 0x9000], map);
        let names: Vec<_> = found.iter().map(|named| named.as_ref().map_or("-", |named| &*named.function)).collect();
        assert_eq!(
            names,
            ["-", "Interpreter", "LMain;::sum", "LMain;::sum", "Interpreter", "LMain;::work with spaces", "-", "-"]
        );
        assert_eq!(found[3].as_ref().map(|named| named.start), Some(0x7f40));
    }

    #[test]
    fn functions_of_javascript_have_a_place() {
        let of = |name: &str| {
            let Named { function, file, line, .. } = named(0, name.as_bytes());
            (function, file, line)
        };
        let at = |function: &str, file: &str, line| (function.to_owned(), Some(file.to_owned()), Some(line));
        assert_eq!(of("JS:*scan /home/me/app.js:4:14"), at("scan", "/home/me/app.js", 4));
        assert_eq!(of("JS:~ file:///a b/x.mjs:12:21"), at("[anonymous]", "/a b/x.mjs", 12));
        assert_eq!(of("LazyCompile:~get once node:internal/event:498:11"), at("get once", "node:internal/event", 498));
        for name in ["JS:*scan", "Builtin:ArrayMap", "JS:*f /x.js:y:1", "JS:"] {
            assert_eq!(of(name), (name.to_owned(), None, None));
        }
    }
}
