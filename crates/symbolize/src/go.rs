//! Functions, lines and inlined calls of Go's code, from the table that its runtime needs: stripped programs have it.

use crate::elf::Bytes;
use crate::module::RawFrame;
use numalens_pclntab::{Function, Level, Table, find};
use std::ops::Range;
use std::sync::Arc;

/// The frames of `addresses` (sorted), innermost first; none: the file has no such table.
pub(crate) fn look_up(addresses: &[u64], image: &Bytes) -> Option<Vec<Vec<RawFrame>>> {
    let table = find(&**image)?;
    let mut function: Option<Function<'_>> = None;
    let frames = addresses.iter().map(|address| {
        if !function.as_ref().is_some_and(|function| function.addresses().contains(address)) {
            function = table.find(*address);
        }
        function.as_ref().map(|function| frames_of(function, *address)).unwrap_or_default()
    });
    Some(frames.collect())
}

/// Where the function at an address begins and ends.
pub(crate) fn extent(address: u64, image: &Bytes) -> Option<Range<u64>> {
    find(&**image).as_ref().and_then(|table: &Table<'_>| table.find(address)).map(|function| function.addresses())
}

fn frames_of(function: &Function<'_>, address: u64) -> Vec<RawFrame> {
    let start = function.addresses().start;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut frames: Vec<RawFrame> = function
        .levels(address)
        .map(|Level { function, file, line }| RawFrame {
            function: Some(Arc::from(text(function))),
            file: file.map(text),
            line,
            start: None,
        })
        .collect();
    if let Some(outermost) = frames.last_mut() {
        outermost.start = Some(start);
    }
    frames
}
