//! The table is whole, and the page of the documentation is made from it.

extern crate std;

use super::*;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/system-calls.md");
const HEAD: &str = "# System calls

The system calls that the exact engine looks at; all others pass as they are.
The table is made from `crates/agent/src/syscalls/table/rows.rs` by
`NUMALENS_WRITE=1 cargo test -p numalens-agent table`.

- *Looked at*: the agent makes the call itself, changes it, or learns from it.
- *Virtual machine*: with `--machine` the agent may answer
  ([what the program sees](../guide/virtual-machines.md#what-the-program-sees)).
- *Kernel fills*: pages that the call brings in are the caller's
  ([pages that the kernel makes](../internals/exact/page-homes.md#pages-that-the-kernel-makes-in-a-call)).
- *By `int 0x80`*: the numbers of the same call in 32-bit form, where its arguments are the same.
";

const COLUMNS: &str = "| call | looked at | virtual machine | kernel fills | by `int 0x80` |\n|---|---|---|---|---|\n";

#[test]
fn rows_are_found_by_their_numbers() {
    for wanted in &ROWS[1..] {
        assert_eq!(row(wanted.number).name, wanted.name);
        for &old in wanted.old {
            assert_eq!(old_row(old).name, wanted.name);
        }
    }
    for number in [NO_CALL, 335, MOST as u32, 1 << 20] {
        assert_eq!((row(number).number, old_row(number).number), (NO_CALL, NO_CALL));
    }
    let common = [437, 439, 450, 453, 462].map(|number| old_row(number).name);
    assert_eq!(common, ["openat2", "faccessat2", "set_mempolicy_home_node", "map_shadow_stack", "mseal"]);
}

#[test]
fn rows_stand_together_by_subject() {
    let mut subjects: Vec<Subject> = ROWS[1..].iter().map(|row| row.subject).collect();
    subjects.dedup();
    for subject in [Subject::Memory, Subject::Placement, Subject::Paths, Subject::Other] {
        assert_eq!(subjects.iter().filter(|&&found| found == subject).count(), 1, "{subject:?}");
    }
}

#[test]
fn the_documentation_has_all_rows() {
    let made = page();
    if std::env::var_os("NUMALENS_WRITE").is_some() {
        std::fs::write(PAGE, &made).unwrap();
    }
    assert_eq!(std::fs::read_to_string(PAGE).unwrap(), made, "NUMALENS_WRITE=1 makes it anew");
}

fn page() -> String {
    let mut page = HEAD.to_string();
    let mut subject = None;
    for row in ROWS[1..].iter().filter(|row| row.is_seen()) {
        if subject != Some(row.subject) {
            subject = Some(row.subject);
            let _ = write!(page, "\n## {}\n{COLUMNS}", row.subject.title());
        }
        let yes = |is: bool| if is { "yes" } else { "" };
        let old: Vec<String> = row.old.iter().map(u32::to_string).collect();
        let looks = yes(!matches!(row.handler, Handler::Nobody));
        let cells = [&std::format!("`{}`", row.name), looks, yes(row.machine.is_some()), row.fills(), &old.join(", ")];
        for cell in cells {
            let _ = write!(page, "| {cell}{}", if cell.is_empty() { "" } else { " " });
        }
        page.push_str("|\n");
    }
    page
}

impl Row {
    /// Whether it has anything to say beyond what the preloaded library does.
    fn is_seen(&self) -> bool {
        let fills = !matches!(self.writes, Writes::Nothing);
        !matches!(self.handler, Handler::Nobody) || self.machine.is_some() || fills
    }

    fn fills(&self) -> &'static str {
        match self.writes {
            Writes::Nothing => "",
            Writes::Buffer { .. } => "a buffer",
            Writes::Vector { .. } => "a vector of buffers",
            Writes::Other(_) => "what its arguments lead to",
        }
    }
}

impl Subject {
    fn title(self) -> &'static str {
        match self {
            Subject::Memory => "Memory",
            Subject::Placement => "Placement",
            Subject::Tasks => "Threads and processes",
            Subject::Signals => "Signals",
            Subject::Control => "Control of the process",
            Subject::Descriptors => "Descriptors",
            Subject::Paths => "Paths",
            Subject::Content => "Content of files and messages",
            Subject::Other => "Others",
        }
    }
}
