//! The frame of perf.data (tools/perf/Documentation/perf.data-file-format.txt): header, attributes of the events,
//! records, further sections.
//!
//! Read by hand: it is a few tables of offsets, and the crate that reads them (and drops the data source of samples,
//! which is what this is about) brings a protobuf library for files of another tool.
//!
//! ```text
//! header:  "PERFILE2"  size  attr_size  attrs{offset, size}  data{..}  event types{..}  flags[4]
//! attrs:   perf_event_attr, then ids{offset, size}; one for each event
//! data:    records: type u32, misc u16, size u16, body
//! behind:  {offset, size} of a section for each flag that is set, in the order of their numbers
//! ```
//! There are other frames:
//! - In a pipe (`perf record -o -`) the header is `"PERFILE2" size`, and events and sections are records of perf's own.
//! - A folder (`perf record --threads`, `--kcore`) has such a file, `data`, and further records in `data.0`, `data.1`,
//!   ...
//! - A recorder that was killed leaves a header that knows of no records: they are all that follows, without sections.

use std::ops::Range;

/// Numbers of sections.
pub const HOST: usize = 3;
pub const KERNEL: usize = 4;
pub const COMMAND: usize = 11;
pub const EVENTS: usize = 12;
pub const NODES: usize = 14;
pub const MEMORY: usize = 22;

/// The beginning of `perf_event_attr`, as far as it decides how records are laid out.
#[derive(Clone, Debug, Default)]
pub struct Attribute {
    pub kind: u32,
    pub config: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_regs_intr: u64,
    pub ids: Vec<u64>,
}

/// `PERF_SAMPLE_IDENTIFIER`.
const IDENTIFIER: u64 = 1 << 16;
/// Bit of `sample_id_all` in the flags of an attribute.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// `PERF_RECORD_SAMPLE`.
pub const SAMPLE: u32 = 9;
/// From here on records are perf's own, not the kernel's: in a pipe an event, and a section; bytes that follow the
/// record; others, compressed.
const OWN: u32 = 64;
const HEADER_ATTR: u32 = 64;
const HEADER_FEATURE: u32 = 80;
const TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;
const COMPRESSED: [u32; 2] = [81, 83];
/// Bytes of a pipe's header, and the least of any other.
const PIPE_HEADER: u64 = 16;
const HEADER: u64 = 104;

impl Attribute {
    /// Whether all records tell when they were made.
    pub fn tells_all(&self) -> bool {
        self.flags & SAMPLE_ID_ALL != 0
    }
}

/// A file, its frame understood.
pub struct File<'a> {
    pub attributes: Vec<Attribute>,
    /// Records: of each part where they stand in it, and they.
    data: Vec<(usize, &'a [u8])>,
    sections: Vec<(usize, &'a [u8])>,
    /// Records may end anywhere: nobody has finished the file.
    is_unfinished: bool,
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// `{offset, size}` at a place; none where it leaves the file.
fn section(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let (offset, size) =
        (usize::try_from(word(bytes, at)?).ok()?, usize::try_from(word(bytes, at.checked_add(8)?)?).ok()?);
    let end = offset.checked_add(size).filter(|end| *end <= bytes.len())?;
    Some(offset..end)
}

impl<'a> File<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &'a [u8]) -> Result<File<'a>, String> {
        match bytes.get(..8) {
            Some(b"PERFILE2") => {}
            Some(b"2ELIFREP") => return Err("it comes from a big-endian machine".to_owned()),
            Some(b"PERFFILE") => return Err("it has the format of perf before Linux 3.6: record anew".to_owned()),
            _ => return Err("it does not begin with PERFILE2".to_owned()),
        }
        if word(bytes, 8) == Some(PIPE_HEADER) {
            return File::of_pipe(bytes);
        }
        let cut =
            |what: &str| format!("{what} lies outside of the file: it is damaged, or its recording was not finished");
        if word(bytes, 8).is_none_or(|size| size < HEADER) {
            return Err(cut("its header"));
        }
        let size = word(bytes, 16).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let attrs = section(bytes, 24).ok_or_else(|| cut("the table of events"))?;
        let mut data = section(bytes, 40).ok_or_else(|| cut("the table of records"))?;
        let is_unfinished = data.is_empty() && data.end < bytes.len();
        if is_unfinished {
            data.end = bytes.len();
        }
        // The first version of the attribute has 64 bytes, and the place of its ids comes behind it.
        if size < 64 + 16 {
            return Err(format!("it states {size} bytes for the description of an event"));
        }
        let attributes: Option<Vec<Attribute>> =
            bytes[attrs].chunks_exact(size).map(|chunk| attribute_of_table(bytes, chunk)).collect();
        let attributes = attributes.filter(|attributes| !attributes.is_empty());
        let attributes = attributes.ok_or_else(|| cut("the description of an event"))?;
        let mut sections = Vec::new();
        let flags: Vec<u64> = (0..4).filter_map(|index| word(bytes, 72 + 8 * index)).collect();
        let set = (0..256).filter(|bit| flags.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1));
        for (index, number) in set.enumerate().filter(|_| !is_unfinished) {
            // A damaged section is a missing one: none of them is needed to read samples.
            if let Some(place) = section(bytes, data.end.saturating_add(16 * index)) {
                sections.push((number, &bytes[place]));
            }
        }
        Ok(File { attributes, data: vec![(data.start, &bytes[data])], sections, is_unfinished })
    }

    /// Reads what came through a pipe.
    fn of_pipe(bytes: &'a [u8]) -> Result<File<'a>, String> {
        let start = PIPE_HEADER as usize;
        let records = bytes.get(start..).unwrap_or_default();
        let mut file =
            File { attributes: Vec::new(), data: vec![(start, records)], sections: Vec::new(), is_unfinished: false };
        let (mut attributes, mut sections) = (Vec::new(), Vec::new());
        file.all_records(|kind, record| {
            let body = record.get(8..).unwrap_or_default();
            match kind {
                HEADER_ATTR => {
                    let size = half(body, 4).filter(|size| *size > 0).map_or(64, |size| size as usize);
                    let parts = body.split_at_checked(size);
                    attributes.extend(parts.and_then(|(attr, ids)| attribute(attr, ids)));
                }
                HEADER_FEATURE => {
                    let number = word(body, 0).and_then(|number| usize::try_from(number).ok());
                    sections.extend(number.zip(body.get(8..)));
                }
                _ => {}
            }
        })?;
        if attributes.is_empty() {
            return Err("it came through a pipe, and describes no event: its beginning is missing".to_owned());
        }
        (file.attributes, file.sections) = (attributes, sections);
        Ok(file)
    }

    /// Adds the records of another file of the folder.
    pub fn add(&mut self, records: &'a [u8]) {
        self.data.push((0, records));
    }

    /// The bytes of a section.
    pub fn section(&self, number: usize) -> Option<&'a [u8]> {
        self.sections.iter().find(|(found, _)| *found == number).map(|(_, section)| *section)
    }

    /// A section that is one text.
    pub fn text(&self, number: usize) -> String {
        self.section(number).and_then(|mut section| text(&mut section)).unwrap_or_default()
    }

    /// A section that is a number of texts.
    pub fn texts(&self, number: usize) -> Vec<String> {
        let Some(mut section) = self.section(number) else { return Vec::new() };
        let count = half(section, 0).unwrap_or(0);
        section = section.get(4..).unwrap_or_default();
        (0..count).map_while(|_| text(&mut section)).collect()
    }

    /// Names of the events, in the order of the attributes.
    pub fn event_names(&self) -> Vec<String> {
        let Some(section) = self.section(EVENTS) else { return Vec::new() };
        let (count, size) = (half(section, 0).unwrap_or(0), half(section, 4).unwrap_or(0) as usize);
        let mut rest = section.get(8..).unwrap_or_default();
        let one = |_| {
            let ids = half(rest, size)? as usize;
            rest = rest.get(size.checked_add(4)?..)?;
            let name = text(&mut rest)?;
            rest = rest.get(ids.checked_mul(8)?..)?;
            Some(name)
        };
        (0..count).map_while(one).collect()
    }

    /// Every record of the kernel, whole, with the event that it belongs to.
    ///
    /// # Errors
    /// To the callback's account: a record that does not end in the file ends the reading.
    pub fn records(&self, mut each: impl FnMut(&'a [u8], &Attribute)) -> Result<(), String> {
        self.all_records(|kind, record| {
            if kind < OWN {
                each(record, self.event_of(record, kind));
            }
        })
    }

    /// Every record, with its kind.
    fn all_records(&self, mut each: impl FnMut(u32, &'a [u8])) -> Result<(), String> {
        for (start, records) in &self.data {
            let mut rest = *records;
            while !rest.is_empty() {
                let at = start + records.len() - rest.len();
                let size = rest.get(6..8).map_or(0, |size| usize::from(u16::from_le_bytes([size[0], size[1]])));
                let kind = half(rest, 0).unwrap_or(0);
                // Behind some records stand bytes of which they tell the number.
                let more = match kind {
                    TRACING_DATA => half(rest, 8).map_or(0, u64::from).next_multiple_of(8),
                    AUXTRACE => word(rest, 8).unwrap_or(0),
                    _ => 0,
                };
                let whole = usize::try_from(more).ok().and_then(|more| size.checked_add(more));
                let Some(whole) = whole.filter(|whole| size >= 8 && *whole <= rest.len()) else {
                    if self.is_unfinished {
                        break;
                    }
                    return Err(format!("the record at byte {at} does not end within the file"));
                };
                if COMPRESSED.contains(&kind) {
                    return Err("its records are compressed: record without -z".to_owned());
                }
                each(kind, &rest[..size]);
                rest = &rest[whole..];
            }
        }
        Ok(())
    }

    /// With several events a record tells its own by an id: first in a sample, last in any other.
    fn event_of(&self, record: &[u8], kind: u32) -> &Attribute {
        let first = &self.attributes[0];
        if self.attributes.len() == 1 || first.sample_type & IDENTIFIER == 0 {
            return first;
        }
        let id = if kind == SAMPLE { word(record, 8) } else { word(record, record.len().saturating_sub(8)) };
        self.attributes.iter().find(|attribute| id.is_some_and(|id| attribute.ids.contains(&id))).unwrap_or(first)
    }
}

/// An entry of the table of events.
fn attribute_of_table(bytes: &[u8], chunk: &[u8]) -> Option<Attribute> {
    let place = chunk.len() - 16;
    let (offset, size) = (usize::try_from(word(chunk, place)?).ok()?, usize::try_from(word(chunk, place + 8)?).ok()?);
    attribute(&chunk[..place], bytes.get(offset..offset.checked_add(size)?)?)
}

fn attribute(attr: &[u8], ids: &[u8]) -> Option<Attribute> {
    // Later fields are absent in files of older kernels, and 0 then.
    let field = |at: usize| word(attr, at).unwrap_or(0);
    Some(Attribute {
        kind: half(attr, 0)?,
        config: field(8),
        sample_type: field(24),
        read_format: field(32),
        flags: field(40),
        branch_sample_type: field(72),
        sample_regs_user: field(80),
        sample_regs_intr: field(96),
        ids: ids.chunks_exact(8).filter_map(|id| word(id, 0)).collect(),
    })
}

/// Length, text, zeros; taken off the section.
fn text(section: &mut &[u8]) -> Option<String> {
    let length = half(section, 0)? as usize;
    let all = section.get(4..length.checked_add(4)?)?;
    *section = &section[length + 4..];
    Some(String::from_utf8_lossy(all.split(|byte| *byte == 0).next()?).into_owned())
}
