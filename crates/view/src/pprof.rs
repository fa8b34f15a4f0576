//! The profile of pprof: `google/pprof/proto/profile.proto`, not compressed, which its readers take as well.
//!
//! Its seven messages are written by hand: [`Message`] is all of protobuf that they need, while a library that derives
//! them brings ten crates, and with them another build of all that shares their procedural macros. The format never
//! changes, and `go tool pprof` reads what is written in a test.

use numalens_analyze::paths::{COSTS, CallPaths, Place};
use rustc_hash::FxHashMap;

/// A protobuf message: fields one after the other, each a key (its number and how it is written) and a value.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Seven bits a byte, the lowest first; the eighth bit says that more follow.
    fn varint(&mut self, mut n: u64) {
        while n > 0x7f {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    /// A number; 0 is what an absent one means.
    fn number(mut self, field: u64, n: u64) -> Self {
        if n != 0 {
            self.varint(field << 3);
            self.varint(n);
        }
        self
    }

    /// Bytes with their length before them: texts, messages, packed numbers.
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(mut self, field: u64, message: &Message) -> Self {
        self.bytes(field, &message.0);
        self
    }

    /// A list of numbers.
    fn packed(mut self, field: u64, numbers: impl Iterator<Item = u64>) -> Self {
        let mut list = Message::default();
        numbers.for_each(|n| list.varint(n));
        self.bytes(field, &list.0);
        self
    }
}

/// Addresses in modules begin at 0 each; here each module has a part of the address space to itself.
const PART: u64 = 1 << 36;

#[derive(Default)]
struct Builder {
    /// Everything but the strings.
    profile: Message,
    texts: Vec<String>,
    strings: FxHashMap<String, u64>,
    functions: FxHashMap<(String, String), u64>,
    mappings: FxHashMap<String, u64>,
}

/// The document: every class of accesses and both kinds of first touches are a type of sample; remote accesses are the
/// one shown first.
pub fn document(paths: &CallPaths) -> Vec<u8> {
    let mut builder = Builder::default();
    builder.string("");
    let unit = builder.string("count");
    for metric in COSTS {
        let kind = builder.string(metric.name);
        builder.add(1, &Message::default().number(1, kind).number(2, unit));
    }
    for (id, place) in (1..).zip(&paths.places) {
        builder.location(id, place);
    }
    let thread = builder.string("thread");
    for path in &paths.paths {
        let places = path.places.iter().map(|place| u64::from(*place) + 1);
        let mut sample = Message::default().packed(1, places).packed(2, path.costs.iter().map(|cost| signed(*cost)));
        if let Some(id) = path.thread {
            let name = match paths.threads.get(&id) {
                Some(thread) if !thread.name.is_empty() => builder.string(&format!("{id} {}", thread.name)),
                _ => builder.string(&id.to_string()),
            };
            sample = sample.message(3, &Message::default().number(1, thread).number(2, name));
        }
        builder.add(2, &sample);
    }
    let shown_first = builder.string(numalens_analyze::metrics::REMOTE.name);
    let comment = builder.string(&format!("numalens: unit {}", paths.about.unit_words()));
    let mut profile = std::mem::take(&mut builder.profile).number(10, signed(paths.about.meta.duration_ns));
    profile = profile.packed(13, std::iter::once(comment)).number(14, shown_first);
    builder.texts.iter().for_each(|text| profile.bytes(6, text.as_bytes()));
    profile.0
}

/// Numbers are signed in the format.
fn signed(n: u64) -> u64 {
    n.min(i64::MAX as u64)
}

impl Builder {
    fn add(&mut self, field: u64, message: &Message) {
        self.profile.bytes(field, &message.0);
    }

    fn string(&mut self, text: &str) -> u64 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.strings.insert(text.to_owned(), index);
        index
    }

    fn location(&mut self, id: u64, place: &Place) {
        let mapping = place.module.as_deref().map_or(0, |module| self.mapping(module));
        let address = match mapping {
            0 => place.address,
            part => part * PART + place.address % PART,
        };
        let mut location = Message::default().number(1, id).number(2, mapping).number(3, address);
        for line in &place.lines {
            let function = self.function(&line.function, line.file.as_deref().unwrap_or(""));
            let line = Message::default().number(1, function).number(2, line.line.map_or(0, u64::from));
            location = location.message(4, &line);
        }
        self.add(4, &location);
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let key = (name.to_owned(), file.to_owned());
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.functions.len() as u64 + 1;
        let (text, file) = (self.string(name), self.string(file));
        // The name as people and as linkers know it are one here.
        self.add(5, &Message::default().number(1, id).number(2, text).number(3, text).number(4, file));
        self.functions.insert(key, id);
        id
    }

    fn mapping(&mut self, module: &str) -> u64 {
        if let Some(id) = self.mappings.get(module) {
            return *id;
        }
        let id = self.mappings.len() as u64 + 1;
        let file = self.string(module);
        // With names in place (the last four: functions, files, lines, inlined calls) nobody looks them up in the file,
        // which may be another one by now.
        let mapping = Message::default().number(1, id).number(2, id * PART).number(3, (id + 1) * PART).number(5, file);
        self.add(3, &(7..=10).fold(mapping, |mapping, field| mapping.number(field, 1)));
        self.mappings.insert(module.to_owned(), id);
        id
    }
}
