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

/// The bytes from the load address on, and where the first instruction stands among them.
pub struct Image {
    pub bytes: Vec<u8>,
    pub entry: u64,
}

/// Lays the agent out.
///
/// # Errors
/// The file that was built in is not what the agent's first instructions can deal with: says what.
pub fn image() -> Result<Image, String> {
    lay_out(AGENT)
}

fn lay_out(file: &[u8]) -> Result<Image, String> {
    let bad = |what: &str| format!("the agent built into this program is damaged: {what}");
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes).ok_or(bad("too short"))
    };
    let half = |at: usize| word(file, at).map(|word| word as u32);
    let segments = usize::from(half(56)? as u16);
    let (entry, table) = (word(file, 24)?, word(file, 32)? as usize);
    let mut bytes: Vec<u8> = Vec::new();
    let mut dynamic = 0..0;
    for at in (0..segments).map(|number| table + number * 56) {
        let (offset, address) = (word(file, at + 8)? as usize, word(file, at + 16)? as usize);
        let (in_file, in_memory) = (word(file, at + 32)? as usize, word(file, at + 40)? as usize);
        match half(at)? {
            PT_LOAD => {
                let end = (address + in_memory).next_multiple_of(PAGE as usize);
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                let from = file.get(offset..offset + in_file).ok_or(bad("a segment is cut"))?;
                bytes[address..address + in_file].copy_from_slice(from);
            }
            PT_DYNAMIC => dynamic = address..address + in_memory,
            _ => {}
        }
    }
    check_relocations(&bytes, dynamic, &word).map_err(|what| bad(&what))?;
    Ok(Image { bytes, entry })
}

/// Reads the word at an offset.
type Word<'a> = dyn Fn(&[u8], usize) -> Result<u64, String> + 'a;

fn check_relocations(bytes: &[u8], dynamic: Range<usize>, word: &Word<'_>) -> Result<(), String> {
    let (mut table, mut length) = (0, 0);
    for at in dynamic.step_by(16) {
        let value = word(bytes, at + 8)? as usize;
        match word(bytes, at)? {
            DT_NULL => break,
            DT_NEEDED => return Err("it needs a library".to_owned()),
            DT_RELA => table = value,
            DT_RELASZ => length = value,
            _ => {}
        }
    }
    for at in (table..table + length).step_by(24) {
        let kind = word(bytes, at + 8)? & 0xffff_ffff;
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
        assert!((image.entry as usize) < image.bytes.len());
    }

    #[test]
    fn a_cut_file_is_refused() {
        // Within the header, the table of segments, the first segment. (Debug information at the end is not looked at.)
        for length in [0, 60, 200, 5000] {
            assert!(lay_out(&AGENT[..length]).is_err(), "{length}");
        }
    }
}
