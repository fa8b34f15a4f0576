//! Java's virtual machine in a process: its methods, and the code that it has made of them.
//!
//! ```text
//!   code:   start ......... place ........... place .... end
//!                  ^ an instruction belongs to the next place, which says what is executed up to there: the method
//!                    and bytecode, and those that it was inlined into
//! ```
//! The compiler tells places at calls, safepoints and accesses that may fault. Where code lay that is gone, other code
//! may lie: the latest counts.

use super::Level;
use super::log::{Fields, LogRecord};
use numalens_event::runtime_log::Told;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// What the interpreter is called by the machine, and here.
const INTERPRETER: (&str, &str) = ("Interpreter", "[Java interpreter]");

/// Methods that are inlined into each other at most, as compilers do it; what is deeper is no compiler's.
const MOST_LEVELS: usize = 64;

/// A bytecode of a method.
#[derive(Clone, Copy)]
struct At {
    method: u64,
    bytecode: u32,
}

struct Method {
    /// With its class, in the words of the language.
    name: String,
    file: Option<String>,
    /// The first bytecode of each, and the line, by bytecode.
    lines: Vec<(u32, u32)>,
}

/// Where in the code, and which frames, innermost first.
struct Place {
    address: u64,
    frames: Range<u32>,
}

/// Code in one piece.
enum Code {
    Compiled { end: u64, method: u64, places: Vec<Place>, frames: Vec<At> },
    Stub { end: u64, name: String },
}

/// One process's.
#[derive(Default)]
pub struct Jvm {
    methods: FxHashMap<u64, Method>,
    /// By where it begins.
    code: BTreeMap<u64, Code>,
}

/// The name of a class without what is of this run alone, of one that the machine made: a number and an address
/// (`Trades$$Lambda$15.0x00007faa10043cb0`, `LambdaForm$MH/0x0000000800c03000`).
fn without_made_up(class: &str) -> &str {
    const LAMBDA: &str = "$$Lambda";
    let lambda = class.find(LAMBDA).map(|at| at + LAMBDA.len());
    let address = [".0x", "/0x"].iter().filter_map(|begin| class.find(begin)).min();
    &class[..lambda.or(address).unwrap_or(class.len())]
}

impl Jvm {
    /// Takes in what was told. A record that does not hold what it says is passed over.
    pub fn take_in(&mut self, record: &LogRecord<'_>) {
        let fields = record.fields();
        let _ = match record.kind {
            Told::Method => self.method(fields),
            Told::Code => self.compiled(fields),
            Told::Stub => self.stub(fields),
            // Of another runtime.
            Told::Python | Told::PerfMap => None,
        };
    }

    /// Takes in a function that was read.
    pub fn function(&mut self, id: u64, name: String, file: String, lines: Vec<(u32, u32)>) {
        self.methods.insert(id, Method { name, file: Some(file), lines });
    }

    fn method(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let id = fields.next()?;
        let ((class_bytes, name_bytes), (file_bytes, lines)) = (fields.halves()?, fields.halves()?);
        let count = fields.count(lines.into(), 1)?;
        let mut lines: Vec<(u32, u32)> = (0..count).map_while(|_| fields.halves()).collect();
        lines.sort_unstable();
        let [class, name, file] = fields.texts([class_bytes, name_bytes, file_bytes])?;
        let class = class.strip_prefix('L').and_then(|class| class.strip_suffix(';')).unwrap_or(&class);
        let file = (!file.is_empty()).then(|| match class.rsplit_once('/') {
            Some((package, _)) => format!("{package}/{file}"),
            None => file,
        });
        let class = without_made_up(class);
        let name = if class.is_empty() { name } else { format!("{}.{name}", class.replace('/', ".")) };
        self.methods.insert(id, Method { name, file, lines });
        Some(())
    }

    fn compiled(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (start, bytes, method) = (fields.next()?, fields.next()?, fields.next()?);
        let count = fields.next()?;
        let count = fields.count(count, 2)?;
        let (mut places, mut frames) = (Vec::with_capacity(count), Vec::new());
        for _ in 0..count {
            let (address, of_place) = (fields.next()?, fields.next()?);
            let first = frames.len() as u32;
            for _ in 0..fields.count(of_place, 2)? {
                let (method, bytecode) = (fields.next()?, fields.next()? as u32);
                frames.push(At { method, bytecode });
            }
            places.push(Place { address, frames: first..frames.len() as u32 });
        }
        places.sort_by_key(|place| place.address);
        self.insert(start, Code::Compiled { end: start.checked_add(bytes)?, method, places, frames });
        Some(())
    }

    fn stub(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (start, bytes, length) = (fields.next()?, fields.next()?, fields.next()?);
        let [name] = fields.texts([u32::try_from(length).ok()?])?;
        let name = if name == INTERPRETER.0 { INTERPRETER.1.to_owned() } else { format!("[Java {name}]") };
        self.insert(start, Code::Stub { end: start.checked_add(bytes)?, name });
        Some(())
    }

    /// Puts code where other code may have been.
    fn insert(&mut self, start: u64, code: Code) {
        let over: Vec<u64> = self.code.range(start..code.end().max(start)).map(|(&start, _)| start).collect();
        over.iter().for_each(|start| drop(self.code.remove(start)));
        self.code.insert(start, code);
    }

    /// What an address is, innermost first: of code, or of a frame (see [`super::frame_address`]).
    pub fn levels(&self, address: u64) -> Vec<Level> {
        if address >> 63 != 0 {
            let at = At { method: (address & !(1 << 63)) >> 16, bytecode: address as u32 & 0xffff };
            return self.level(at).into_iter().collect();
        }
        let Some((_, code)) = self.code.range(..=address).next_back().filter(|(_, code)| address < code.end()) else {
            return Vec::new();
        };
        match code {
            Code::Stub { name, .. } => vec![Level { function: name.clone(), file: None, line: None }],
            Code::Compiled { method, places, frames, .. } => {
                let next = places.partition_point(|place| place.address < address);
                let place = places.get(next).or(places.last());
                let range = place.map_or(0..0, |place| place.frames.start as usize..place.frames.end as usize);
                let range = range.start..range.end.min(range.start + MOST_LEVELS);
                let levels: Vec<Level> =
                    frames.get(range).unwrap_or(&[]).iter().filter_map(|at| self.level(*at)).collect();
                if !levels.is_empty() {
                    return levels;
                }
                let alone = |method: &Method| Level { function: method.name.clone(), file: None, line: None };
                self.methods.get(method).map(alone).into_iter().collect()
            }
        }
    }

    fn level(&self, at: At) -> Option<Level> {
        let method = self.methods.get(&at.method)?;
        let before = method.lines.partition_point(|(first, _)| *first <= at.bytecode);
        let line = before.checked_sub(1).map(|index| method.lines[index].1);
        Some(Level { function: method.name.clone(), file: method.file.clone(), line })
    }
}

impl Code {
    fn end(&self) -> u64 {
        match self {
            Code::Compiled { end, .. } | Code::Stub { end, .. } => *end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame_address;
    use super::*;

    fn method(jvm: &mut Jvm, id: u64, texts: [&str; 3], lines: &[(u32, u32)]) {
        let [class, name, file] = texts.map(|text| text.len() as u64);
        let mut words = vec![id, class | name << 32, file | (lines.len() as u64) << 32];
        words.extend(lines.iter().map(|&(bytecode, line)| u64::from(bytecode) | u64::from(line) << 32));
        let text = texts.concat().into_bytes();
        let word = |bytes: &[u8]| {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(eight)
        };
        words.extend(text.chunks(8).map(word));
        jvm.take_in(&LogRecord { kind: Told::Method, pid: 1, words: &words });
    }

    fn told(jvm: &mut Jvm, kind: Told, words: &[u64]) {
        jvm.take_in(&LogRecord { kind, pid: 1, words });
    }

    fn at(jvm: &Jvm, address: u64) -> Vec<String> {
        let show = |level: Level| {
            format!("{} {}:{}", level.function, level.file.unwrap_or_default(), level.line.unwrap_or_default())
        };
        jvm.levels(address).into_iter().map(show).collect()
    }

    #[test]
    fn classes_that_the_machine_made_have_the_same_names_in_each_run() {
        assert_eq!(without_made_up("Trades$$Lambda$15.0x00007faa10043cb0"), "Trades$$Lambda");
        assert_eq!(without_made_up("Trades$$Lambda/0x0000000800c03000"), "Trades$$Lambda");
        assert_eq!(
            without_made_up("java/lang/invoke/LambdaForm$MH.0x00007faa10041c00"),
            "java/lang/invoke/LambdaForm$MH"
        );
        assert_eq!(without_made_up("java/util/List"), "java/util/List");
    }

    #[test]
    fn instructions_have_the_methods_and_lines_that_they_were_compiled_from() {
        let mut jvm = Jvm::default();
        method(&mut jvm, 10, ["LMain;", "run", "Main.java"], &[(0, 5), (8, 6)]);
        method(&mut jvm, 11, ["Ljava/util/List;", "add", "List.java"], &[(0, 90)]);
        // At 0x1010 `add` inlined into line 6 of `run`, at 0x1020 line 5 of `run` itself.
        told(&mut jvm, Told::Code, &[0x1000, 0x40, 10, 2, 0x1010, 2, 11, 3, 10, 9, 0x1020, 1, 10, 0]);
        let inlined = ["java.util.List.add java/util/List.java:90", "Main.run Main.java:6"];
        assert_eq!(at(&jvm, 0x1000), inlined);
        assert_eq!(at(&jvm, 0x1010), inlined);
        assert_eq!(at(&jvm, 0x1011), ["Main.run Main.java:5"]);
        assert_eq!(at(&jvm, 0x103f), ["Main.run Main.java:5"], "behind the last place");
        assert_eq!(at(&jvm, 0x1040), [""; 0]);
        assert_eq!(at(&jvm, frame_address(10, 8)), ["Main.run Main.java:6"]);
        assert_eq!(at(&jvm, frame_address(12, 0)), [""; 0], "never told");
    }

    #[test]
    fn the_latest_code_counts() {
        let mut jvm = Jvm::default();
        method(&mut jvm, 10, ["LMain;", "run", ""], &[]);
        let name = u64::from_ne_bytes(*b"stub\0\0\0\0");
        told(&mut jvm, Told::Stub, &[0x1000, 0x100, 4, name]);
        assert_eq!(at(&jvm, 0x1080), ["[Java stub] :0"]);
        told(&mut jvm, Told::Code, &[0x1000, 0x40, 10, 0]);
        assert_eq!(at(&jvm, 0x1000), ["Main.run :0"]);
        assert_eq!(at(&jvm, 0x1080), [""; 0]);
    }

    #[test]
    fn records_that_lie_are_passed_over() {
        let mut jvm = Jvm::default();
        for kind in Told::ALL {
            for words in
                [&[][..], &[1], &[1, 2, 99, u64::MAX, 5], &[1, u64::MAX, u64::MAX, 1, 0, u64::MAX], &[u64::MAX; 9]]
            {
                told(&mut jvm, *kind, words);
            }
        }
        assert!(jvm.methods.is_empty() && jvm.code.is_empty());
    }
}
