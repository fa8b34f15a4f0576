//! Names for the stubs through which a program calls its libraries: `memcpy@plt`.
//!
//! Stubs have no symbols. On x86-64 one either jumps through a slot of the global offset table (`jmp *slot(%rip)`, `ff
//! 25` and the distance), or, in the first table of a program with two of them, pushes the number of its relocation
//! (`push $n`, `68`). Slot and number lead to a relocation, which names the symbol. Other processors: no names. The
//! forms are those of the x86-64 psABI, section "Procedure Linkage Table", with and without `endbr64`.

use crate::elf::Bytes;
use object::{Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};
use rustc_hash::FxHashMap;

const JUMP_THROUGH_SLOT: [u8; 2] = [0xff, 0x25];
const PUSH: u8 = 0x68;

/// Names and starts of stubs, sought by address.
pub(crate) struct Stubs<'data> {
    sections: Vec<Section<'data>>,
    /// Symbol by address of the slot.
    slots: FxHashMap<u64, String>,
    /// Symbols by number, of the relocations that stubs push.
    numbered: Vec<Option<String>>,
}

struct Section<'data> {
    start: u64,
    code: &'data [u8],
    /// Bytes of one stub.
    stub: u64,
}

impl<'data> Stubs<'data> {
    /// The stubs of `image`; none for a file that has none, or of another processor.
    pub(crate) fn of(image: &'data Bytes) -> Option<Self> {
        let file = image.parse().ok()?;
        if file.architecture() != Architecture::X86_64 {
            return None;
        }
        let sections = [(".plt.sec", 16), (".plt", 16), (".plt.got", 8)].into_iter().filter_map(|(name, usual)| {
            let section = file.section_by_name(name)?;
            let code = section.data().ok()?;
            // The entry size that linkers state for `.plt.got` is 8, or 16 with endbr64.
            let stub = if name == ".plt.got" && code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 16 } else { usual };
            Some(Section { start: section.address(), code, stub })
        });
        let sections: Vec<_> = sections.collect();
        if sections.is_empty() {
            return None;
        }
        let symbols = file.dynamic_symbol_table()?;
        let name = |target| match target {
            RelocationTarget::Symbol(index) => {
                symbols.symbol_by_index(index).ok()?.name().ok().filter(|name| !name.is_empty()).map(String::from)
            }
            _ => None,
        };
        let slots = file
            .dynamic_relocations()
            .into_iter()
            .flatten()
            .filter_map(|(at, relocation)| Some((at, name(relocation.target())?)));
        let slots: FxHashMap<_, _> = slots.collect();
        let numbered = file.section_by_name(".rela.plt").map_or_else(Vec::new, |section| {
            let entries = section.data().unwrap_or_default().chunks_exact(24);
            entries.map(|entry| slots.get(&u64::from_le_bytes(*entry.first_chunk()?)).cloned()).collect()
        });
        Some(Stubs { sections, slots, numbered })
    }

    /// `name@plt` and the start of the stub that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<(String, u64)> {
        let section =
            self.sections.iter().find(|s| address.checked_sub(s.start).is_some_and(|at| at < s.code.len() as u64))?;
        let at = (address - section.start) / section.stub * section.stub;
        let code = section.code.get(usize::try_from(at).ok()?..)?;
        let code = &code[..code.len().min(section.stub as usize)];
        let start = section.start + at;
        let operand = |at: usize| code.get(at..)?.first_chunk::<4>().copied();
        let through_slot = code.windows(2).position(|window| window == JUMP_THROUGH_SLOT).and_then(|jump| {
            let next = start.checked_add(jump as u64 + 6)?;
            self.slots.get(&next.checked_add_signed(i32::from_le_bytes(operand(jump + 2)?).into())?)
        });
        let pushed = || {
            let push = code.iter().position(|byte| *byte == PUSH)?;
            self.numbered.get(u32::from_le_bytes(operand(push + 1)?) as usize)?.as_ref()
        };
        let name = through_slot.or_else(pushed)?;
        Some((format!("{name}@plt"), start))
    }
}
