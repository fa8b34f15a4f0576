//! The agent's image, laid out as it will stand in memory.

use numalens_event::page::PAGE;
use std::ops::Range;

/// The agent as the build script made it: a static position-independent ELF file.
static AGENT: &[u8] = include_bytes!(env!("NUMALENS_AGENT_IMAGE"));

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const R_X86_64_RELATIVE: u64 = 8;

/// What stands in memory from the load address on, and where the first instruction is among it.
pub struct Image {
    /// All that is not zero, by its distance from the load address.
    pub pieces: Vec<(usize, &'static [u8])>,
    /// Whole pages.
    pub bytes: u64,
    pub entry: u64,
}

/// Lays the agent out.
///
/// # Errors
/// The file that was built in is not what the agent's first instructions can deal with: says what.
pub fn image() -> Result<Image, String> {
    lay_out(AGENT)
}

fn lay_out(file: &'static [u8]) -> Result<Image, String> {
    let bad = |what: &str| format!("the agent built into this program is damaged: {what}");
    let word = |at: usize| word(file, at).ok_or(bad("too short"));
    let half = |at: usize| word(at).map(|word| word as u32);
    let segments = usize::from(half(56)? as u16);
    let (entry, table) = (word(24)?, word(32)? as usize);
    let mut image = Image { pieces: Vec::new(), bytes: 0, entry };
    let mut dynamic = 0..0;
    for at in (0..segments).map(|number| table + number * 56) {
        let (offset, address) = (word(at + 8)? as usize, word(at + 16)? as usize);
        let (in_file, in_memory) = (word(at + 32)? as usize, word(at + 40)? as usize);
        match half(at)? {
            PT_LOAD => {
                let end = (address + in_memory).next_multiple_of(PAGE as usize);
                image.bytes = image.bytes.max(end as u64);
                image.pieces.push((address, file.get(offset..offset + in_file).ok_or(bad("a segment is cut"))?));
            }
            PT_DYNAMIC => dynamic = address..address + in_memory,
            _ => {}
        }
    }
    check_relocations(&image, dynamic).map_err(|what| bad(&what))?;
    Ok(image)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes)
}

impl Image {
    /// The word at a distance from the load address.
    fn word(&self, at: usize) -> Result<u64, String> {
        let found = self.pieces.iter().find_map(|(start, content)| word(content, at.checked_sub(*start)?));
        found.ok_or_else(|| "its tables are no part of it".to_owned())
    }
}

fn check_relocations(image: &Image, dynamic: Range<usize>) -> Result<(), String> {
    let (mut table, mut length) = (0, 0);
    for at in dynamic.step_by(16) {
        let value = image.word(at + 8)? as usize;
        match image.word(at)? {
            DT_NULL => break,
            DT_NEEDED => return Err("it needs a library".to_owned()),
            DT_RELA => table = value,
            DT_RELASZ => length = value,
            _ => {}
        }
    }
    for at in (table..table + length).step_by(24) {
        let kind = image.word(at + 8)? & 0xffff_ffff;
        if kind != R_X86_64_RELATIVE {
            return Err(format!("relocation of kind {kind}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_needs_no_more_than_its_load_address() {
        let image = image().unwrap();
        assert!(image.entry < image.bytes && !image.pieces.is_empty());
    }

    #[test]
    fn a_cut_file_is_refused() {
        // Within the header, the table of segments, the first segment. (Debug information at the end is not looked at.)
        for length in [0, 60, 200, 5000] {
            assert!(lay_out(&AGENT[..length]).is_err(), "{length}");
        }
    }
}
