//! The unwind tables of one module: .eh_frame with its binary-search table, else .debug_frame.
//!
//! A file without .eh_frame_hdr (static programs of some linkers) gets one built here, once per module and not once
//! per process that maps it. A file without section headers is found by its PT_GNU_EH_FRAME program header.

use std::ops::Range;

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    UnwindSection,
};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};

use super::module::{Module, SharedBytes};

pub(crate) type Bytes<'a> = EndianSlice<'a, LittleEndian>;
pub(crate) type Fde<'a> = FrameDescriptionEntry<Bytes<'a>>;

/// The unwind tables of a module; empty when it has none.
#[derive(Default)]
pub(crate) struct FrameTable {
    eh: Option<EhTable>,
    debug: Option<SharedBytes>,
    /// For .debug_frame: function start and entry, by address.
    debug_index: Vec<(u64, usize)>,
}

struct EhTable {
    frame: SharedBytes,
    frame_svma: u64,
    header: SharedBytes,
    header_svma: u64,
    text_svma: u64,
    got_svma: u64,
}

impl EhTable {
    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default()
            .set_eh_frame(self.frame_svma)
            .set_eh_frame_hdr(self.header_svma)
            .set_text(self.text_svma)
            .set_got(self.got_svma)
    }

    fn section(&self) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(&self.frame, LittleEndian);
        section.set_address_size(8);
        section
    }
}

impl FrameTable {
    pub(crate) fn load(module: &Module) -> Option<Self> {
        let by_sections = module.section_bytes(".eh_frame").map(|frame| (frame, module.section_bytes(".eh_frame_hdr")));
        let found = by_sections.or_else(|| by_program_header(module));
        if let Some(((frame_svma, frame), header)) = found {
            let section_start = |name: &str| {
                module.sections().iter().find(|section| section.name == name).map_or(0, |section| section.svma.start)
            };
            let (text_svma, got_svma) = (section_start(".text"), section_start(".got"));
            let empty = (0, SharedBytes([].into()));
            let (header_svma, header_bytes) = header.unwrap_or_else(|| empty.clone());
            let mut eh = EhTable { frame, frame_svma, header: header_bytes, header_svma, text_svma, got_svma };
            if EhFrameHdr::new(&eh.header, LittleEndian).parse(&eh.bases(), 8).ok().is_none_or(|h| h.table().is_none())
            {
                (eh.header_svma, eh.header) = (0, build_header(&eh));
            }
            return Some(Self { eh: Some(eh), ..Self::default() });
        }
        let (_, debug) = module.section_bytes(".debug_frame")?;
        let debug_index = index_debug_frame(&debug);
        Some(Self { debug: Some(debug), debug_index, eh: None })
    }

    /// What framehop wants to know.
    pub(crate) fn section_info(&self, base_svma: u64) -> framehop::ExplicitModuleSectionInfo<SharedBytes> {
        let mut info = framehop::ExplicitModuleSectionInfo { base_svma, ..Default::default() };
        if let Some(eh) = &self.eh {
            let range = |start: u64, bytes: &SharedBytes| Some(start..start.saturating_add(bytes.len() as u64));
            info.text_svma = Some(eh.text_svma..eh.text_svma);
            info.got_svma = Some(eh.got_svma..eh.got_svma);
            info.eh_frame_svma = range(eh.frame_svma, &eh.frame);
            info.eh_frame_hdr_svma = range(eh.header_svma, &eh.header);
            info.eh_frame = Some(eh.frame.clone());
            info.eh_frame_hdr = Some(eh.header.clone());
        } else {
            info.debug_frame = self.debug.clone();
        }
        info
    }

    /// The function that holds `svma`.
    pub(crate) fn function(&self, svma: u64) -> Option<Range<u64>> {
        self.with_entry(svma, |entry| entry.initial_address()..entry.end_address())
    }

    /// Calls `use_it` with the entry that covers `svma`.
    fn with_entry<T>(&self, svma: u64, use_it: impl FnOnce(&Fde<'_>) -> T) -> Option<T> {
        let mut result = None;
        if let Some(eh) = &self.eh {
            self.with_eh_entry(eh, svma, |_, _, entry| result = Some(use_it(entry)));
        } else if let Some(debug) = &self.debug {
            self.with_debug_entry(debug, svma, |_, _, entry| result = Some(use_it(entry)));
        }
        result
    }

    /// Calls `visit` with the section, its bases and the entry that covers `svma`; false when none does.
    pub(crate) fn visit<V: EntryVisitor>(&self, svma: u64, visit: V) -> Option<V::Output> {
        let mut visit = Some(visit);
        let mut result = None;
        if let Some(eh) = &self.eh {
            self.with_eh_entry(eh, svma, |section, bases, entry| {
                result = visit.take().and_then(|visit| visit.visit(section, bases, entry));
            });
        } else if let Some(debug) = &self.debug {
            self.with_debug_entry(debug, svma, |section, bases, entry| {
                result = visit.take().and_then(|visit| visit.visit(section, bases, entry));
            });
        }
        result
    }

    fn with_eh_entry(
        &self,
        eh: &EhTable,
        svma: u64,
        use_it: impl FnOnce(&EhFrame<Bytes<'_>>, &BaseAddresses, &Fde<'_>),
    ) -> Option<()> {
        let bases = eh.bases();
        let header = EhFrameHdr::new(&eh.header, LittleEndian).parse(&bases, 8).ok()?;
        let section = eh.section();
        let entry = header.table()?.fde_for_address(&section, &bases, svma, EhFrame::cie_from_offset).ok()?;
        use_it(&section, &bases, &entry);
        Some(())
    }

    fn with_debug_entry(
        &self,
        debug: &SharedBytes,
        svma: u64,
        use_it: impl FnOnce(&DebugFrame<Bytes<'_>>, &BaseAddresses, &Fde<'_>),
    ) -> Option<()> {
        let bases = BaseAddresses::default();
        let at = self.debug_index.partition_point(|&(start, _)| start <= svma).checked_sub(1)?;
        let (_, offset) = *self.debug_index.get(at)?;
        let mut section = DebugFrame::new(debug, LittleEndian);
        section.set_address_size(8);
        let entry =
            section.fde_from_offset(&bases, gimli::DebugFrameOffset(offset), DebugFrame::cie_from_offset).ok()?;
        if !entry.contains(svma) {
            return None;
        }
        use_it(&section, &bases, &entry);
        Some(())
    }
}

/// Something to do with an entry, whichever section it stands in.
pub(crate) trait EntryVisitor {
    type Output;
    fn visit<'a, S>(self, section: &S, bases: &BaseAddresses, entry: &Fde<'a>) -> Option<Self::Output>
    where
        S: UnwindSection<Bytes<'a>>;
}

fn index_debug_frame(bytes: &[u8]) -> Vec<(u64, usize)> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    let bases = BaseAddresses::default();
    let mut index = Vec::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(DebugFrame::cie_from_offset)
        {
            index.push((entry.initial_address(), entry.offset()));
        }
    }
    index.sort_unstable();
    index
}

/// A .eh_frame_hdr for a section that came without: version 1, all pointers absolute, eight bytes each.
fn build_header(eh: &EhTable) -> SharedBytes {
    let section = eh.section();
    let bases = eh.bases();
    let mut table = Vec::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(EhFrame::cie_from_offset)
        {
            table.push((entry.initial_address(), eh.frame_svma.wrapping_add(entry.offset() as u64)));
        }
    }
    table.sort_unstable();
    let absolute = gimli::DW_EH_PE_udata8.0;
    let mut header = vec![1, absolute, absolute, absolute];
    header.extend(eh.frame_svma.to_le_bytes());
    header.extend((table.len() as u64).to_le_bytes());
    for (start, entry) in table {
        header.extend(start.to_le_bytes());
        header.extend(entry.to_le_bytes());
    }
    SharedBytes(header.into())
}

type Tables = ((u64, SharedBytes), Option<(u64, SharedBytes)>);

/// The tables of a file without section headers: PT_GNU_EH_FRAME gives the search table, that gives .eh_frame, whose
/// end nobody states: it is read to the end of its segment.
fn by_program_header(module: &Module) -> Option<Tables> {
    let header_range = module.with_program_headers(|endian, headers| {
        let header = headers.iter().find(|header| header.p_type(endian) == elf::PT_GNU_EH_FRAME)?;
        Some((header.p_vaddr(endian), header.p_memsz(endian)))
    })??;
    let header = read_image(module, header_range.0, header_range.1)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(header_range.0);
    let parsed = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8).ok()?;
    let frame_svma = parsed.eh_frame_ptr().direct().ok()?;
    let segment = module.segments().iter().find(|s| s.svma <= frame_svma && frame_svma - s.svma < s.file_size)?;
    let frame = read_image(module, frame_svma, segment.file_size - (frame_svma - segment.svma))?;
    Some(((frame_svma, frame), Some((header_range.0, header.clone()))))
}

fn read_image(module: &Module, svma: u64, size: u64) -> Option<SharedBytes> {
    let size = usize::try_from(size).ok().filter(|&size| size <= 1 << 30)?;
    let length = usize::try_from(module.file().metadata().ok()?.len()).ok()?;
    let mut bytes = vec![0; size.min(length)];
    let read = module.read(svma, &mut bytes)?;
    bytes.truncate(read);
    Some(SharedBytes(bytes.into()))
}

/// Used by [`Module::with_program_headers`].
pub(crate) type ProgramHeaders<'a> = &'a [<elf::FileHeader64<object::Endianness> as FileHeader>::ProgramHeader];
