//! Of what a rule speaks.

use crate::size::SizeRange;
use std::fmt;

/// Of what a rule speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Matcher {
    /// Blocks that a place in the program allocates.
    Allocation(Allocation),
    /// Other objects by their names, as reports have them; `*` stands for any text.
    Object {
        /// What kind it is.
        kind: ObjectKind,
        /// The name.
        name: String,
    },
    /// Threads by name; `*` stands for any text.
    Thread(String),
    /// The whole process.
    Process,
}

/// Objects that rules can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// A variable.
    Global,
    /// A mapped file.
    File,
    /// The text of a module.
    Code,
}

impl ObjectKind {
    pub(crate) const ALL: [ObjectKind; 3] = [ObjectKind::Global, ObjectKind::File, ObjectKind::Code];

    /// As files and reports write it.
    pub fn word(self) -> &'static str {
        match self {
            ObjectKind::Global => "global",
            ObjectKind::File => "file",
            ObjectKind::Code => "code",
        }
    }
}

/// A place that allocates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// Calls, innermost first: who called the allocator, who called that, as far as it takes to tell the place.
    pub frames: Vec<Frame>,
    /// `file:line`, where the program was built anew and frames are others.
    pub at: Option<String>,
    /// Blocks of which sizes.
    pub size: SizeRange,
}

/// A call in a module: `app@3f2a91+0x11d9`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The file's name, without folders.
    pub module: String,
    /// The linker's mark of the file, in hexadecimal digits; empty: it has none.
    pub build_id: String,
    /// Where the call is, in the module's own addresses: a byte of the call instruction.
    pub address: u64,
}

impl Frame {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no call (one looks like app@3f2a91+0x11d9: file, build id, address)");
        let (place, address) = text.rsplit_once("+0x").ok_or_else(wrong)?;
        let (module, build_id) = place.rsplit_once('@').unwrap_or((place, ""));
        let is_hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_right = !module.is_empty() && is_hexadecimal(build_id) && !address.is_empty() && is_hexadecimal(address);
        let address = u64::from_str_radix(address, 16).ok().filter(|_| is_right).ok_or_else(wrong)?;
        Ok(Frame { module: module.to_owned(), build_id: build_id.to_ascii_lowercase(), address })
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frame { module, build_id, address } = self;
        match build_id.as_str() {
            "" if !module.contains('@') => write!(f, "{module}+{address:#x}"),
            _ => write!(f, "{module}@{build_id}+{address:#x}"),
        }
    }
}
