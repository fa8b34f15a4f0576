//! Python's tables of lines: which instructions of a function are of which line. The library reads the same
//! (`interpose/c/python.c`).

/// The number of an instruction, of two bytes each, from which on there is a line.
pub type Lines = Vec<(u32, u32)>;

/// Where lines begin.
struct Adding {
    found: Lines,
    line: i64,
}

impl Adding {
    fn add(&mut self, bytes: u64) {
        let line = self.line as u32;
        if self.found.last().is_none_or(|(_, before)| *before != line) {
            self.found.push((u32::try_from(bytes / 2).unwrap_or(u32::MAX), line));
        }
    }
}

/// Those of a table, as version 3.`minor` has it, of a function whose first line is `first`.
pub fn lines(minor: u64, table: &[u8], first: u32) -> Lines {
    let mut adding = Adding { found: Vec::new(), line: i64::from(first as i32) };
    match minor {
        ..=9 => oldest(&mut adding, table),
        10 => old(&mut adding, table),
        _ => new(&mut adding, table),
    }
    adding.found
}

/// Bytes and lines to the next (Objects/lnotab_notes.txt).
fn oldest(adding: &mut Adding, table: &[u8]) {
    let mut offset = 0;
    adding.add(0);
    for &[bytes, more] in table.as_chunks().0 {
        offset += u64::from(bytes);
        if more != 0 {
            adding.line += i64::from(more as i8);
            adding.add(offset);
        }
    }
}

/// Bytes of each, and its line (PEP 626).
fn old(adding: &mut Adding, table: &[u8]) {
    const NONE: i8 = -128;
    let mut offset = 0;
    for &[bytes, more] in table.as_chunks().0 {
        if more as i8 != NONE {
            adding.line += i64::from(more as i8);
            adding.add(offset);
        }
        offset += u64::from(bytes);
    }
}

/// A byte says what follows, and for how many instructions (Objects/locations.md, from 3.11 on).
fn new(adding: &mut Adding, table: &[u8]) {
    const NONE: u8 = 15;
    const FIRST: u8 = 1 << 7;
    let (mut offset, mut at) = (0, 0);
    while let Some(&head) = table.get(at) {
        let (kind, instructions) = (head >> 3 & 15, u64::from(head & 7) + 1);
        at += 1;
        match kind {
            13 | 14 => {
                let (mut value, mut shift) = (0u64, 0);
                while let Some(&byte) = table.get(at).filter(|_| shift < 60) {
                    value |= u64::from(byte & 63) << shift;
                    (at, shift) = (at + 1, shift + 6);
                    if byte & 64 == 0 {
                        break;
                    }
                }
                let more = (value >> 1) as i64;
                adding.line += if value & 1 == 1 { -more } else { more };
            }
            10..=12 => adding.line += i64::from(kind - 10),
            _ => {}
        }
        if kind != NONE {
            adding.add(offset);
        }
        while table.get(at).is_some_and(|byte| byte & FIRST == 0) {
            at += 1;
        }
        offset += 2 * instructions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CPython's `co_linetable` of `def f(a):\n  b = a\n\n  return b` is, and `dis.findlinestarts` says.
    #[test]
    fn lines_of_a_function() {
        let table = [0x80, 0x00, 0xd8, 0x06, 0x07, 0x80, 0x21, 0xe0, 0x09, 0x0a, 0x80, 0x28];
        assert_eq!(lines(11, &table, 1), [(0, 1), (1, 2), (3, 4)]);
        assert_eq!(lines(9, &[0, 1, 4, 2], 1), [(0, 1), (0, 2), (2, 4)]);
        assert_eq!(lines(10, &[4, 1, 4, 2], 1), [(0, 2), (2, 4)]);
        for minor in 8..14 {
            for length in 0..12 {
                let _ = lines(minor, &[0xff; 12][..length], u32::MAX);
            }
        }
    }
}
