//! A function of the table: its name, and the lines of its code.

use crate::{Table, Version, text, values, word32};
use core::ops::Range;

/// Which of a function's runs of values say what is inlined where, and which of its data the inlined calls.
const INLINED: usize = 2;
const CALLS: usize = 3;
/// Bytes of an inlined call.
const CALL_BYTES: usize = 16;
/// Calls that are inlined into each other at most.
const MOST_LEVELS: usize = 64;

/// A function.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    table: Table<'a>,
    addresses: Range<u64>,
    record: &'a [u8],
}

/// One level of what an address is in: a function that is inlined, or the one that the address lies in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level<'a> {
    pub function: &'a [u8],
    pub file: Option<&'a [u8]>,
    pub line: Option<u32>,
}

impl<'a> Function<'a> {
    pub(crate) fn new(table: Table<'a>, addresses: Range<u64>, record: &'a [u8]) -> Self {
        Function { table, addresses, record }
    }

    /// Where its code is.
    pub fn addresses(&self) -> Range<u64> {
        self.addresses.clone()
    }

    /// Its name, with its package's path.
    pub fn name(&self) -> Option<&'a [u8]> {
        text(self.table.names, self.word(0)? as usize)
    }

    /// A word of its record behind the entry.
    fn word(&self, index: usize) -> Option<u32> {
        let entry = if self.table.version == Version::V16 { 8 } else { 4 };
        word32(self.record, entry + 4 * index)
    }

    /// The value of a table of runs at an address; a table at 0 is none.
    fn value(&self, runs: u32, address: u64) -> Option<i32> {
        if runs == 0 {
            return None;
        }
        let offset = address.checked_sub(self.addresses.start)?;
        values::at(self.table.values.get(runs as usize..)?, offset, self.table.quantum)
    }

    fn line(&self, address: u64) -> Option<u32> {
        u32::try_from(self.value(self.word(5)?, address)?).ok()
    }

    fn file(&self, address: u64) -> Option<&'a [u8]> {
        let number = u32::try_from(self.value(self.word(4)?, address)?).ok()?;
        let unit = self.word(7)?.checked_add(number)? as usize;
        let at = word32(self.table.units, unit.checked_mul(4)?)?;
        text(self.table.files, at as usize)
    }

    /// What an address is in, the innermost first. Without inlined calls (before 1.20, or not known where they are) the
    /// file and line are those of the innermost, and the function that which the address lies in.
    pub fn levels(&self, address: u64) -> impl Iterator<Item = Level<'a>> {
        let mut next = Some(address);
        (0..MOST_LEVELS).map_while(move |_| {
            let address = next.take()?;
            let inlined = self.inlined(address);
            next = inlined.map(|(_, caller)| caller);
            let function = inlined.map_or_else(|| self.name(), |(name, _)| Some(name))?;
            Some(Level { function, file: self.file(address), line: self.line(address).filter(|line| *line > 0) })
        })
    }

    /// The function that is inlined at an address, and an address of the call.
    fn inlined(&self, address: u64) -> Option<(&'a [u8], u64)> {
        if self.table.version < Version::V20 {
            return None;
        }
        // Behind the words: kinds, with the number of its data last; then runs of values, then data.
        let (runs, behind) = (self.word(6)? as usize, 10);
        let data = usize::from(*self.record.get(4 + 4 * 9 + 3)?);
        if runs <= INLINED || data <= CALLS {
            return None;
        }
        let index = usize::try_from(self.value(self.word(behind + INLINED)?, address)?).ok()?;
        let calls = self.word(behind + runs + CALLS).filter(|&at| at != u32::MAX)? as usize;
        let call = self.table.calls?.get(calls.checked_add(index.checked_mul(CALL_BYTES)?)?..)?;
        let name = text(self.table.names, word32(call, 4)? as usize)?;
        Some((name, self.addresses.start.checked_add(word32(call, 8)?.into())?))
    }
}
