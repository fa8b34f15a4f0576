//! The seal: checksums by which every changed byte of a table's file is found before a decoder sees it.
//!
//! Parquet's own page checksums leave out page headers and the footer, and its decoders trust both: a flipped bit
//! there can become wrong numbers, a panic or an absurd allocation. So each file carries, inside its footer's key-value
//! metadata where every Parquet reader ignores it,
//!
//! ```text
//! | PAR1 | row group | row group | ... | footer: schema, chunks, key-values      | length | PAR1 |
//! |<----------- body: blocks of 64 KiB --------->|<---------------- footer ------------------->|
//!          CRC-32 of each block --------------------> numalens.body
//!                                                  CRC-32 of all of this ------> numalens.footer
//! ```
//!
//! `numalens.footer` cannot hold a checksum of itself: it is computed with its eight hexadecimal digits as zeros and
//! then patched in. A reader verifies the footer when it opens a file (a few KiB), and of the body only the blocks that
//! it is going to decode. CRC-32 runs at several GB/s, so this costs nothing that one could notice.
//!
//! This guards against accidents. Against a file made on purpose with right checksums, `file` contains the decoder's
//! panics.

use crate::error::Error;
use std::io::{self, Write};
use std::path::Path;

/// Bytes per checksum of the body.
pub(crate) const BLOCK: u64 = 64 << 10;
/// Key of the body's checksums: eight hexadecimal digits a block.
pub(crate) const BODY_KEY: &str = "numalens.body";
/// Key of the footer's checksum.
pub(crate) const FOOTER_KEY: &str = "numalens.footer";
/// What stands before the eight digits.
const MARK: &str = "numalens-crc32:";
const ZEROS: &str = "00000000";
/// Footer length and `PAR1`.
pub(crate) const TAIL: usize = 8;

/// The value to give [`FOOTER_KEY`]; [`seal_footer`] fills in the digits.
pub(crate) fn unsealed() -> String {
    format!("{MARK}{ZEROS}")
}

/// A file being written whose body is checksummed as it passes.
pub(crate) struct SealingFile<W: Write> {
    file: W,
    block: crc32fast::Hasher,
    in_block: u64,
    blocks: String,
    /// The footer, held back until it is sealed.
    footer: Option<Vec<u8>>,
    pub(crate) written: u64,
}

impl<W: Write> SealingFile<W> {
    pub(crate) fn new(file: W) -> Self {
        SealingFile {
            file,
            block: crc32fast::Hasher::new(),
            in_block: 0,
            blocks: String::new(),
            footer: None,
            written: 0,
        }
    }

    fn close_block(&mut self) {
        let crc = std::mem::take(&mut self.block).finalize();
        self.blocks.push_str(&format!("{crc:08x}"));
        self.in_block = 0;
    }

    /// Ends the body: what is written from here on is the footer. Returns the value for [`BODY_KEY`].
    pub(crate) fn begin_footer(&mut self) -> String {
        if self.in_block > 0 {
            self.close_block();
        }
        self.footer = Some(Vec::new());
        std::mem::take(&mut self.blocks)
    }

    /// Seals the footer, writes it, and gives the file back.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64)> {
        let mut footer = self.footer.take().unwrap_or_default();
        seal_footer(&mut footer)?;
        self.file.write_all(&footer)?;
        Ok((self.file, self.written + footer.len() as u64))
    }
}

impl<W: Write> Write for SealingFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(footer) = &mut self.footer {
            footer.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        // At most up to the block's end: the caller comes back with the rest.
        let room = (BLOCK - self.in_block).min(bytes.len() as u64) as usize;
        let written = self.file.write(&bytes[..room])?;
        self.block.update(&bytes[..written]);
        self.in_block += written as u64;
        self.written += written as u64;
        if self.in_block == BLOCK {
            self.close_block();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Where the digits stand. The last mark: Parquet writes the key-values after everything that a program's own strings
/// can get into.
fn digits(footer: &[u8]) -> Option<std::ops::Range<usize>> {
    let mark = footer.windows(MARK.len()).rposition(|window| window == MARK.as_bytes())?;
    let start = mark + MARK.len();
    (start + ZEROS.len() <= footer.len()).then_some(start..start + ZEROS.len())
}

fn footer_crc(footer: &[u8], digits: &std::ops::Range<usize>) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&footer[..digits.start]);
    crc.update(ZEROS.as_bytes());
    crc.update(&footer[digits.end..]);
    crc.finalize()
}

/// Writes the checksum into a footer that has the value [`unsealed`] in it. The footer must be exactly what Parquet
/// calls one, its length and `PAR1` included: with anything before it (an index of pages), readers would look for it
/// elsewhere.
fn seal_footer(footer: &mut [u8]) -> io::Result<()> {
    let broken = |what: &str| io::Error::other(format!("the Parquet writer left {what}"));
    let tail = footer.len().checked_sub(TAIL).ok_or_else(|| broken("no footer"))?;
    let length = u32::from_le_bytes([footer[tail], footer[tail + 1], footer[tail + 2], footer[tail + 3]]);
    if length as usize != tail {
        return Err(broken("something between row groups and footer"));
    }
    let digits = digits(footer).ok_or_else(|| broken("no place for the checksum"))?;
    let crc = footer_crc(footer, &digits);
    footer[digits].copy_from_slice(format!("{crc:08x}").as_bytes());
    Ok(())
}

/// Checks a footer as [`seal_footer`] left it, before anything in it is decoded.
pub(crate) fn verify_footer(footer: &[u8], path: &Path) -> Result<(), Error> {
    let damaged = |damage: String| Error::Damaged { path: path.to_owned(), damage };
    let digits = digits(footer).ok_or_else(|| damaged("its footer has no checksum".to_owned()))?;
    let stated =
        std::str::from_utf8(&footer[digits.clone()]).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let found = footer_crc(footer, &digits);
    match stated {
        // Upper case would be a changed byte too, if a harmless one; the comparison of text finds it.
        Some(stated) if stated == found && footer[digits] == *format!("{stated:08x}").as_bytes() => Ok(()),
        Some(stated) => Err(damaged(format!("the checksum of its footer is {found:08x}, written was {stated:08x}"))),
        None => Err(damaged("the checksum of its footer is unreadable".to_owned())),
    }
}

/// The checksums of a body of `length` bytes.
pub(crate) fn parse_blocks(value: &str, length: u64, path: &Path) -> Result<Vec<u32>, Error> {
    let expected = length.div_ceil(BLOCK);
    let blocks = value
        .as_bytes()
        .chunks(8)
        .map(|digits| std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok()))
        .collect::<Option<Vec<_>>>()
        .filter(|blocks| blocks.len() as u64 == expected);
    blocks.ok_or_else(|| Error::Damaged {
        path: path.to_owned(),
        damage: format!("it has no checksums for its {expected} blocks"),
    })
}

/// Checks `bytes`, read from offset `start` of the body, a multiple of [`BLOCK`], up to a block's or the body's end.
pub(crate) fn verify_blocks(bytes: &[u8], start: u64, blocks: &[u32], path: &Path) -> Result<(), Error> {
    for (index, block) in bytes.chunks(BLOCK as usize).enumerate() {
        let number = start / BLOCK + index as u64;
        let stated = usize::try_from(number).ok().and_then(|number| blocks.get(number)).copied();
        let found = crc32fast::hash(block);
        if stated != Some(found) {
            let from = number * BLOCK;
            let to = from + block.len() as u64;
            return Err(Error::Damaged {
                path: path.to_owned(),
                damage: format!("bytes {from} to {to} are not what was written (checksum {found:08x})"),
            });
        }
    }
    Ok(())
}
