//! The table of functions and lines that Go's linker puts into every program, stripped ones too: `.gopclntab`.
//!
//! The runtime needs it for its own stack traces, so neither `-ldflags=-s -w` nor `strip` takes it away.
//!
//! ```text
//!   header   magic, number of functions, where the parts below begin
//!   names    texts, each with a NUL                      <- a function's name
//!   cutab    u32: where the names of a unit's files are  <- unit + number of a file
//!   files    texts, each with a NUL
//!   pctab    runs of (change of value, bytes of code)    <- a function's files, its lines, its inlined calls
//!   pcln     pairs (entry, where its record is), sorted by entry, and the end of the last; the records
//! ```
//! Formats of Go 1.16 to 1.26 (the magic tells): 1.16 has addresses, later ones what is added to where the code begins.
//! Up to 1.25 the header has that; then only the runtime's own `moduledata` does, which also says where inlined calls
//! begin ([`Module`]).
//!
//! Every number is of a file that anybody may have made: none is believed, and what leads nowhere has no answer.

#![no_std]
#![forbid(unsafe_code)]

mod function;
mod module;
mod values;

pub use function::{Function, Level};
pub use module::{Module, find};

/// Layouts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Version {
    /// 1.16 and 1.17.
    V16,
    /// 1.18 and 1.19.
    V18,
    /// 1.20 and later.
    V20,
}

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    version: Version,
    /// Instructions are multiples of so many bytes.
    quantum: u64,
    /// Where the code begins that entries are told from.
    text: u64,
    /// Bytes of read-only data from where inlined calls are told, if known.
    calls: Option<&'a [u8]>,
    count: usize,
    names: &'a [u8],
    units: &'a [u8],
    files: &'a [u8],
    values: &'a [u8],
    functions: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table that these bytes are; `module`: what else is known of the program.
    pub fn parse(bytes: &'a [u8], module: &Module<'a>) -> Option<Self> {
        let version = match word32(bytes, 0)? {
            0xffff_fffa => Version::V16,
            0xffff_fff0 => Version::V18,
            0xffff_fff1 => Version::V20,
            _ => return None,
        };
        let [quantum, pointer] = [*bytes.get(6)?, *bytes.get(7)?];
        if quantum == 0 || pointer != 8 {
            return None;
        }
        let word = |index: usize| word64(bytes, 8 + 8 * index);
        let first_part = if version == Version::V16 { 2 } else { 3 };
        let part = |index: usize| bytes.get(usize::try_from(word(first_part + index)?).ok()?..);
        let in_header = (version > Version::V16).then(|| word(2)).flatten().filter(|&text| text != 0);
        Some(Table {
            version,
            quantum: quantum.into(),
            text: in_header.or(module.text).unwrap_or_default(),
            calls: module.calls,
            count: usize::try_from(word(0)?).ok()?,
            names: part(0)?,
            units: part(1)?,
            files: part(2)?,
            values: part(3)?,
            functions: part(4)?,
        })
    }

    /// Where the function of an index begins, and where its record is; that of the number of functions: the end.
    fn entry(&self, index: usize) -> Option<(u64, usize)> {
        if self.version == Version::V16 {
            let at = index.checked_mul(16)?;
            let record = if index < self.count { word64(self.functions, at + 8)? } else { 0 };
            return Some((word64(self.functions, at)?, usize::try_from(record).ok()?));
        }
        let at = index.checked_mul(8)?;
        let record = if index < self.count { word32(self.functions, at + 4)? } else { 0 };
        Some((self.text.checked_add(word32(self.functions, at)?.into())?, record as usize))
    }

    fn function(&self, index: usize) -> Option<Function<'a>> {
        let (start, record) = self.entry(index)?;
        let (end, _) = self.entry(index + 1)?;
        Some(Function::new(*self, start..end, self.functions.get(record..)?))
    }

    /// All functions, by their addresses.
    pub fn functions(&self) -> impl Iterator<Item = Function<'a>> {
        (0..self.count).map_while(|index| self.function(index))
    }

    /// The function at an address.
    pub fn find(&self, address: u64) -> Option<Function<'a>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.0 <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.function(low.checked_sub(1)?).filter(|function| function.addresses().contains(&address))
    }
}

/// The text that begins there, without its NUL.
fn text(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    rest.get(..rest.iter().position(|&byte| byte == 0)?)
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
