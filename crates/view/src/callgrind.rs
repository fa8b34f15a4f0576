//! Callgrind's format, for kcachegrind and callgrind_annotate: costs by function and line, and calls between functions
//! with what they cost.
//!
//! Only what has a call stack has calls: samples and first touches. How often a function was called nobody has counted,
//! so `calls=` has the number of paths that were seen there.

use numalens_analyze::paths::{self, COSTS, CallPaths, Costs, Place};
use numalens_analyze::report::Location;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A function: module, file, name.
type Function = (String, String, String);
/// A line: file, number.
type Line = (String, u32);

#[derive(Default)]
struct Body {
    own: BTreeMap<Line, Costs>,
    calls: BTreeMap<(Line, Function), (u64, Costs)>,
}

/// The document.
pub fn document(paths: &CallPaths) -> String {
    let mut functions: BTreeMap<Function, Body> = BTreeMap::new();
    let mut total = Costs::default();
    for path in &paths.paths {
        paths::add(&mut total, &path.costs);
        let places: Vec<&Place> = path.places.iter().filter_map(|place| paths.places.get(*place as usize)).collect();
        let Some(leaf) = places.first() else { continue };
        let body = functions.entry(function(leaf)).or_default();
        paths::add(body.own.entry(line(leaf)).or_default(), &path.costs);
        // A function that calls itself costs once, however deep.
        let mut seen: Vec<(Function, Line, Function)> = Vec::new();
        for pair in places.windows(2) {
            let [callee, caller] = pair else { continue };
            let edge = (function(caller), line(caller), function(callee));
            if seen.contains(&edge) {
                continue;
            }
            let body = functions.entry(edge.0.clone()).or_default();
            let (calls, costs) = body.calls.entry((edge.1.clone(), edge.2.clone())).or_default();
            *calls += 1;
            paths::add(costs, &path.costs);
            seen.push(edge);
        }
    }
    write(paths, &functions, &total)
}

fn function(place: &Place) -> Function {
    let outer = place.lines.last().cloned().unwrap_or_default();
    (place.module.clone().unwrap_or_default(), file(&outer), outer.function)
}

fn line(place: &Place) -> Line {
    let inner = place.lines.first().cloned().unwrap_or_default();
    (file(&inner), inner.line.unwrap_or(0))
}

fn file(location: &Location) -> String {
    location.file.clone().unwrap_or_else(|| "???".to_owned())
}

/// What is named by number once its name has been told.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Object,
    File,
    Function,
}

#[derive(Default)]
struct Names(FxHashMap<(Name, String), usize>, [usize; 3]);

impl Names {
    fn of(&mut self, kind: Name, name: &str) -> String {
        if let Some(number) = self.0.get(&(kind, name.to_owned())) {
            return format!("({number})");
        }
        self.1[kind as usize] += 1;
        let number = self.1[kind as usize];
        self.0.insert((kind, name.to_owned()), number);
        // A line break in a name would end the entry.
        format!("({number}) {}", name.replace(['\n', '\r'], " "))
    }
}

fn write(paths: &CallPaths, functions: &BTreeMap<Function, Body>, total: &Costs) -> String {
    let used: Vec<usize> = (0..COSTS.len()).filter(|cost| *cost == 0 || total[*cost] > 0).collect();
    let numbers = |costs: &Costs| used.iter().map(|cost| costs[*cost].to_string()).collect::<Vec<_>>().join(" ");
    let mut text = String::from("# callgrind format\nversion: 1\n");
    let mut head = |key: &str, value: &str| {
        let _ = writeln!(text, "{key}: {}", value.replace(['\n', '\r'], " "));
    };
    head("creator", concat!("numalens-", env!("CARGO_PKG_VERSION")));
    if let [process] = paths.processes.as_slice() {
        head("pid", &process.pid.to_string());
    }
    head("cmd", &paths.about.meta.command.join(" "));
    head("desc", &format!("Unit: {}", paths.about.unit_words()));
    head("positions", "line");
    head("events", &used.iter().map(|cost| COSTS[*cost].name).collect::<Vec<_>>().join(" "));
    head("summary", &numbers(total));
    let mut names = Names::default();
    let distinct = distinct(functions);
    let called = |function: &Function| distinct.get(function).cloned().unwrap_or_else(|| function.2.clone());
    for (function, body) in functions {
        let (module, file, _) = function;
        let _ = write!(text, "\nob={}\nfl={}\n", names.of(Name::Object, module), names.of(Name::File, file));
        let _ = writeln!(text, "fn={}", names.of(Name::Function, &called(function)));
        let mut current = file.clone();
        let mut enter = |text: &mut String, names: &mut Names, to: &str| {
            if current != to {
                let word = if to == file { "fe" } else { "fi" };
                let _ = writeln!(text, "{word}={}", names.of(Name::File, to));
                to.clone_into(&mut current);
            }
        };
        for ((from, number), costs) in &body.own {
            enter(&mut text, &mut names, from);
            let _ = writeln!(text, "{number} {}", numbers(costs));
        }
        for (((from, number), callee), (calls, costs)) in &body.calls {
            enter(&mut text, &mut names, from);
            let _ =
                writeln!(text, "cob={}\ncfi={}", names.of(Name::Object, &callee.0), names.of(Name::File, &callee.1));
            let name = names.of(Name::Function, &called(callee));
            let _ = writeln!(text, "cfn={name}\ncalls={calls} 0\n{number} {}", numbers(costs));
        }
    }
    let _ = writeln!(text, "\ntotals: {}", numbers(total));
    text
}

/// Names of functions as readers can tell them apart, which is by file and name: where several modules have one of a
/// name in a file, those after the first get their module's name.
fn distinct(functions: &BTreeMap<Function, Body>) -> BTreeMap<&Function, String> {
    let mut first: FxHashMap<(&str, &str), &str> = FxHashMap::default();
    let name = |function: &'_ Function, first: &str| match function.0 == first {
        true => function.2.clone(),
        false => format!("{} [{}]", function.2, function.0.rsplit('/').next().unwrap_or_default()),
    };
    let mut names = BTreeMap::new();
    for function in functions.keys() {
        let module = *first.entry((function.1.as_str(), function.2.as_str())).or_insert(function.0.as_str());
        names.insert(function, name(function, module));
    }
    names
}
