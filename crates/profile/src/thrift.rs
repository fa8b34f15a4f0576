//! What a file says of itself, as far as memory is taken for it: the headers of pages and the shape of the schema,
//! before `parquet` believes them.
//!
//! `parquet` takes as much memory as a header states, or as a group has children, and goes as deep as groups stand in
//! groups; it has no way to ask beforehand. So this reads the few fields that matter from their Thrift form (the
//! compact protocol; `parquet.thrift`, structs PageHeader, FileMetaData, SchemaElement), and is stricter than a reader
//! need be: a field that stands twice or has another type than it should is refused, so that both read the same.

/// A page, as its header states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageHeader {
    pub(crate) is_dictionary: bool,
    pub(crate) values: u64,
    /// Bytes when it is unpacked.
    pub(crate) unpacked: u64,
    pub(crate) is_encoded_as_ours: bool,
}

/// PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BINARY_PACKED, RLE_DICTIONARY.
const OUR_ENCODINGS: [i32; 5] = [0, 2, 3, 5, 8];
/// Structs within structs, at most.
const DEPTH: u32 = 8;

/// The headers of all pages of a chunk.
///
/// # Errors
/// What is wrong with a page, to stand behind `a page of its column ...`.
pub(crate) fn pages(chunk: &[u8]) -> Result<Vec<PageHeader>, &'static str> {
    let mut pages = Vec::new();
    let mut left = chunk;
    while !left.is_empty() {
        let mut input = Input { left };
        let (page, packed) = input.page().ok_or("has a header that cannot be read")?;
        left = input.left.get(packed..).ok_or("is longer than its column")?;
        pages.push(page);
    }
    Ok(pages)
}

/// Refuses a footer whose columns do not all stand in one list.
///
/// # Errors
/// So it is, or it cannot be read.
pub(crate) fn check_schema(footer: &[u8]) -> Result<(), &'static str> {
    let mut schemas = 0;
    let read = Input { left: footer }.fields(|input, number, kind| match number {
        2 if kind == kind::LIST => {
            schemas += 1;
            input.flat_schema()
        }
        2 => None,
        _ => input.pass(kind, DEPTH),
    });
    match (read, schemas) {
        (Some(()), 1) => Ok(()),
        _ => Err("its schema is no list of columns"),
    }
}

struct Input<'a> {
    left: &'a [u8],
}

/// Types of the compact protocol.
mod kind {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const STRUCT: u8 = 12;
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.left = self.left.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn i32(&mut self) -> Option<i32> {
        let value = u32::try_from(self.varint()?).ok()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// The fields of a struct, each handed to `each` with its number and type; that reads it.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, u16, u8) -> Option<()>) -> Option<()> {
        let (mut number, mut seen) = (0u16, 0u64);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            number = match head >> 4 {
                0 => u16::try_from(self.i32()?).ok()?,
                delta => number.checked_add(u16::from(delta))?,
            };
            let bit = 1u64.checked_shl(u32::from(number))?;
            if seen & bit != 0 {
                return None;
            }
            seen |= bit;
            each(self, number, head & 15)?;
        }
    }

    /// Passes over a value.
    fn pass(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            // Of a field; in a list they take a byte, and are not passed over one by one.
            kind::TRUE | kind::FALSE => Some(()),
            kind::BYTE => self.skip(1),
            kind::I16 | kind::I32 | kind::I64 => self.varint().map(drop),
            kind::DOUBLE => self.skip(8),
            kind::BINARY => {
                let length = self.varint()?;
                self.skip(length)
            }
            kind::LIST | kind::SET => {
                let (count, element) = self.list()?;
                match element {
                    kind::TRUE | kind::FALSE | kind::BYTE => self.skip(count),
                    // Each takes a byte at least, so this ends with the chunk.
                    element => (0..count).try_for_each(|_| self.pass(element, depth)),
                }
            }
            kind::STRUCT if depth > 0 => self.fields(|input, _, kind| input.pass(kind, depth - 1)),
            // A map: no header has one.
            _ => None,
        }
    }

    /// How many elements a list has, and of which type.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((count, head & 15))
    }

    /// A schema whose first element has all others as its children, and they have none.
    fn flat_schema(&mut self) -> Option<()> {
        let (count, element) = self.list()?;
        if element != kind::STRUCT {
            return None;
        }
        for index in 0..count {
            let mut children = 0;
            self.fields(|input, number, kind| match number {
                5 if kind == kind::I32 => {
                    children = u64::try_from(input.i32()?).ok()?;
                    Some(())
                }
                5 => None,
                _ => input.pass(kind, DEPTH),
            })?;
            let expected = if index == 0 { count - 1 } else { 0 };
            if children != expected {
                return None;
            }
        }
        Some(())
    }

    /// A page's header and the bytes of the page behind it.
    fn page(&mut self) -> Option<(PageHeader, usize)> {
        let (mut kind_of_page, mut unpacked, mut packed) = (None, None, None);
        let (mut values, mut encoding) = (None, None);
        self.fields(|input, number, kind| match number {
            1..=3 if kind == kind::I32 => {
                let value = Some(input.i32()?);
                match number {
                    1 => kind_of_page = value,
                    2 => unpacked = value,
                    _ => packed = value,
                }
                Some(())
            }
            5 | 7 | 8 if kind == kind::STRUCT && values.is_none() => {
                let place = if number == 8 { 4 } else { 2 };
                input.fields(|input, field, kind| match field {
                    1 if kind == kind::I32 => {
                        values = Some(input.i32()?);
                        Some(())
                    }
                    _ if field == place && kind == kind::I32 => {
                        encoding = Some(input.i32()?);
                        Some(())
                    }
                    1 => None,
                    _ if field == place => None,
                    _ => input.pass(kind, DEPTH),
                })
            }
            // An index between the pages, a second page in one: nobody writes that.
            1..=3 | 5..=8 => None,
            _ => input.pass(kind, DEPTH),
        })?;
        let whole = |number: Option<i32>| u64::try_from(number?).ok();
        let header = PageHeader {
            is_dictionary: kind_of_page? == 2,
            values: whole(values)?,
            unpacked: whole(unpacked)?,
            is_encoded_as_ours: OUR_ENCODINGS.contains(&encoding?),
        };
        Some((header, usize::try_from(whole(packed)?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// type 0, 100 bytes unpacked, 3 packed, a data page of 7 values in RLE_DICTIONARY.
    const PAGE: [u8; 17] = [0x15, 0, 0x15, 200, 1, 0x15, 6, 0x2c, 0x15, 14, 0x15, 16, 0x15, 6, 0x15, 6, 0];

    fn page() -> Vec<u8> {
        // The end of the inner struct stands before that of the outer.
        [&PAGE[..], &[0, 1, 2, 3]].concat()
    }

    #[test]
    fn a_page_says_what_it_is() {
        let expected = PageHeader { is_dictionary: false, values: 7, unpacked: 100, is_encoded_as_ours: true };
        assert_eq!(pages(&page()), Ok(vec![expected]));
        assert_eq!(pages(&[page(), page()].concat()), Ok(vec![expected; 2]));
        assert_eq!(pages(&page()[..20]), Err("is longer than its column"));
        assert_eq!(pages(&page()[..10]), Err("has a header that cannot be read"));
        let mut other = page();
        other[11] = 14;
        assert!(!pages(&other).unwrap()[0].is_encoded_as_ours);
    }

    /// Version 1; a list of a root with so many children, and a column.
    fn footer(children: u8) -> Vec<u8> {
        vec![0x15, 2, 0x19, 0x2c, 0x55, children << 1, 0, 0x15, 2, 0, 0]
    }

    #[test]
    fn columns_stand_in_one_list() {
        assert_eq!(check_schema(&footer(1)), Ok(()));
        for children in [0, 2, 63] {
            assert!(check_schema(&footer(children)).is_err(), "{children}");
        }
        // Two thousand million of them, for which memory would be taken.
        let many = [&[0x15, 2, 0x19, 0x2c, 0x55, 0xfe, 0xff, 0xff, 0xff, 0x0f][..], &[0, 0x15, 2, 0, 0]].concat();
        assert!(check_schema(&many).is_err());
        // A group in the group.
        assert!(check_schema(&[0x15, 2, 0x19, 0x2c, 0x55, 2, 0, 0x55, 2, 0, 0]).is_err());
        assert!(check_schema(&[]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..17) {
            let _ = (pages(&bytes), check_schema(&bytes));
            let mut near = page();
            near[at] = *bytes.first().unwrap_or(&0);
            let _ = pages(&near);
        }
    }
}
