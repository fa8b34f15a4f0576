//! What the runtime knows of a program's own module, as far as the table does not say it itself: words of `moduledata`.
//!
//! ```text
//!   word  0        address of the table
//!         1 to 18  parts of it: address, bytes, room
//!        19 to 21  an index; the first and the last address of code
//!        22        where the code begins
//!        40        where inlined calls are told from (Go 1.20 and later)
//! ```
//! It has a section of its own from Go 1.26 on; before, it is somewhere in the data, and known by its first word.

use crate::{Table, word64};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable};
use object::{LittleEndian, ReadRef};

const TEXT: u64 = 22;
const CALLS: u64 = 40;

/// What else is known of a program.
#[derive(Clone, Copy, Default, Debug)]
pub struct Module<'a> {
    /// Where the code begins that the table speaks of.
    pub text: Option<u64>,
    /// Read-only data, from where inlined calls are told.
    pub calls: Option<&'a [u8]>,
}

/// The table of an executable file or a library, in the addresses of the file.
pub fn find<'a, R: ReadRef<'a>>(data: R) -> Option<Table<'a>> {
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = Sections { endian, data, table: header.sections(endian, data).ok()? };
    let table = sections.named(&[b".gopclntab", b".data.rel.ro.gopclntab"])?;
    Table::parse(table.bytes, &sections.module(table.address))
}

/// One that lies in the file.
#[derive(Clone, Copy)]
struct Section<'a> {
    address: u64,
    bytes: &'a [u8],
}

struct Sections<'a, R: ReadRef<'a>> {
    endian: LittleEndian,
    data: R,
    table: SectionTable<'a, FileHeader64<LittleEndian>, R>,
}

impl<'a, R: ReadRef<'a>> Sections<'a, R> {
    fn all(&self) -> impl Iterator<Item = (&'a [u8], Section<'a>)> {
        self.table.iter().filter(|section| section.sh_flags(self.endian).0 & elf::SHF_ALLOC.0 != 0).filter_map(
            |section| {
                let name = self.table.section_name(self.endian, section).ok()?;
                let bytes = section.data(self.endian, self.data).ok()?;
                Some((name, Section { address: section.sh_addr(self.endian), bytes }))
            },
        )
    }

    fn named(&self, names: &[&[u8]]) -> Option<Section<'a>> {
        names.iter().find_map(|wanted| self.all().find(|(name, _)| name == wanted)).map(|(_, section)| section)
    }

    fn module(&self, table: u64) -> Module<'a> {
        let at = self.in_data(table).or_else(|| self.relocation(|_, value| value == table).map(|(at, _)| at));
        let word = |index: u64| self.word(at?.checked_add(8 * index)?);
        let text = word(TEXT).or_else(|| Some(self.named(&[b".text"])?.address));
        Module { text, calls: word(CALLS).and_then(|at| self.behind(at)) }
    }

    /// Where `moduledata` is, by its first word in the file.
    fn in_data(&self, table: u64) -> Option<u64> {
        [b".go.module" as &[u8], b".noptrdata", b".data"].iter().find_map(|name| {
            let data = self.named(&[name])?;
            let at = data.bytes.chunks_exact(8).position(|word| word == table.to_le_bytes())?;
            Some(data.address + 8 * at as u64)
        })
    }

    /// The word at an address, as the file has it or the loader will make it.
    fn word(&self, at: u64) -> Option<u64> {
        let there = self.behind(at).and_then(|bytes| word64(bytes, 0)).filter(|&word| word != 0);
        there.or_else(|| self.relocation(|place, _| place == at).map(|(_, value)| value))
    }

    /// What the file has from an address to the end of its section.
    fn behind(&self, at: u64) -> Option<&'a [u8]> {
        let offset = |section: &Section| usize::try_from(at.checked_sub(section.address)?).ok();
        self.all().find_map(|(_, section)| section.bytes.get(offset(&section)?..).filter(|bytes| !bytes.is_empty()))
    }

    /// The first place that the loader is to fill of which `wanted` holds, and the address that it will have there.
    fn relocation(&self, wanted: impl Fn(u64, u64) -> bool) -> Option<(u64, u64)> {
        let tables = self.table.iter().filter_map(|section| section.rela(self.endian, self.data).ok()?);
        let mut all = tables.flat_map(|(relocations, _)| relocations);
        all.find_map(|one| {
            let (place, value) = (one.r_offset.get(self.endian), one.r_addend.get(self.endian) as u64);
            (one.r_type(self.endian, false) == elf::R_X86_64_RELATIVE && wanted(place, value)).then_some((place, value))
        })
    }
}
