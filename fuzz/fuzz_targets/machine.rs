//! Any text as a machine: a word of `--machine`, or a file of lstopo.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numalens_topology::{CpuSet, Machine};

fuzz_target!(|text: &str| {
    let _ = CpuSet::parse(text);
    let Some(host) = Machine::preset("cxl2") else { return };
    // A word with a slash would be looked up as a file of this machine's.
    if !text.contains('/') && !text.ends_with(".xml") {
        let _ = Machine::parse(text, &host);
    }
    let Ok(scratch) = tempfile::tempdir() else { return };
    let path = scratch.path().join("a.xml");
    if std::fs::write(&path, text).is_ok() {
        let _ = Machine::parse(&path.to_string_lossy(), &host);
    }
});
