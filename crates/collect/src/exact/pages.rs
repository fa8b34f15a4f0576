//! Pages as the agents found them: what the records say becomes rows of the profile.
//!
//! A record is read once, and again for its end. Where a new page landed on a real machine the agent may not know yet: all new ones
//! of a look are asked for in one call. See `undecided.rs` for the accesses that placed them.

use super::drain::{Drain, Process};
use super::file::SessionFile;
use crate::homes::{PageHome, query_homes};
use crate::sample::session::{PlacedBy, PlacedPage, Session, TouchId};
use numalens_event::exact::{self, Extent, LogHeader, PageRecord, ProcessHeader, fault, log, touch};
use numalens_profile::ids::{Page, StackId};
use numalens_profile::words::Fault;
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// A page incarnation that has been read.
pub struct KnownPage {
    pub page: Page,
    /// Its end has been read too.
    ended: bool,
    touch: Option<TouchId>,
    /// All of a huge page was placed with it.
    huge: bool,
}

/// Reads what is new in a process's records, the first `given` of them.
///
/// # Errors
/// The session file cannot be mapped.
pub fn read(
    drain: &Drain,
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    given: u32,
) -> io::Result<()> {
    let own = process.inherited_pages.max(1);
    let given = given.min(exact::MOST_PAGES);
    if given <= own {
        return Ok(());
    }
    let size = size_of::<PageRecord>();
    let offset = (u64::from(own) * size as u64) & !4095;
    let skipped = (u64::from(own) * size as u64 - offset) as usize;
    let map = file.extent(extent, exact::process::PAGES + offset, skipped + (given - own) as usize * size)?;
    let records = map.words::<PageRecord>(skipped, (given - own) as usize);
    // Ends come first: a page that came again has a number above.
    for (record, known) in records.iter().zip(&mut process.pages) {
        let end = record.end_ns.load(Relaxed);
        if end != 0 && !known.ended {
            known.ended = true;
            let time_ns = session.advance(end);
            session.pages_gone(process.pid, known.page..Page(known.page.0 + 1), time_ns);
        }
    }
    let new = &records[process.pages.len()..];
    // What refers to sites and threads that have not been read yet waits for the next look, and all behind it, as pages are known by
    // their places. After the last instruction there is nothing to wait for.
    let is_complete = |record: &PageRecord| match record.how.load(Acquire) {
        touch::NONE => false,
        touch::FIRST | touch::ZERO => {
            drain.site(process, record.site.load(Relaxed)).is_some()
                && drain.thread(Extent(record.thread.load(Relaxed))).is_some()
        }
        _ => true,
    };
    let complete = if process.last { None } else { new.iter().position(|record| !is_complete(record)) };
    let complete = complete.unwrap_or(new.len());
    let header = process.header.clone();
    let header = &header.words::<ProcessHeader>(0, 1)[0];
    let by_number = |number: u32| records.get(number.checked_sub(own)? as usize);
    if !session.is_virtual() {
        for (number, record) in (own + process.pages.len() as u32..).zip(&new[..complete]) {
            if record.how.load(Relaxed) == touch::FIRST {
                process.undecided.placed(number, record);
            }
        }
    }
    let homes = ask(session, process.pid, process.undecided.questions(header, by_number));
    for record in &new[..complete] {
        take_in(drain, file, session, extent, process, record, &homes);
    }
    let mut undecided = std::mem::take(&mut process.undecided);
    undecided.look(
        header,
        by_number,
        |page| homes.get(&page).copied(),
        process.last,
        |page, home| session.page_found(process.pid, page, home),
    );
    process.undecided = undecided;
    Ok(())
}

/// Where pages are, by the kernel's word: indices of nodes.
fn ask(session: &Session, pid: i32, pages: Vec<Page>) -> FxHashMap<Page, u8> {
    let mut homes = Vec::new();
    if pages.is_empty() || query_homes(pid, &pages, &mut homes).is_err() {
        return FxHashMap::default();
    }
    let index = |(page, home)| match home {
        PageHome::Node(node) => session.node_index(node).map(|index| (page, index)),
        _ => None,
    };
    pages.into_iter().zip(homes).filter_map(index).collect()
}

/// Home and whether a pinned thread placed it, of a class of a process.
pub fn meaning(header: &ProcessHeader, class: u32) -> Option<(Option<u8>, bool)> {
    header.classes.get(class as usize).and_then(|class| exact::class_meaning(class.load(Relaxed)))
}

fn take_in(
    drain: &Drain,
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    record: &PageRecord,
    homes: &FxHashMap<Page, u8>,
) {
    let page = Page(record.page.load(Relaxed));
    let how = record.how.load(Relaxed);
    let header = &process.header.words::<ProcessHeader>(0, 1)[0];
    let now = meaning(header, record.class.load(Relaxed)).unwrap_or((None, false));
    // Undecided: as the policy has it, or as the kernel says.
    let first = meaning(header, record.first_class.load(Acquire));
    let asked = if first.is_none() { homes.get(&page).copied() } else { None };
    let (home, pinned) = first.unwrap_or((asked.or(now.0), now.1));
    let inferred = first.is_none() && asked.is_none();
    let end = record.end_ns.load(Relaxed);
    let mut by = PlacedBy::Unseen;
    let origin_number = record.origin.load(Relaxed);
    let (origin, with_origin) = match drain.known_page(process, origin_number) {
        Some(known) if how != touch::FIRST => (known.touch, known.huge),
        _ => (None, false),
    };
    match how {
        touch::FIRST | touch::ZERO => {
            let bits = record.fault.load(Relaxed);
            let kind = match bits & !fault::MAY_BE_HUGE {
                _ if how == touch::ZERO => Fault::ZeroPage,
                fault::COPY_ON_WRITE => Fault::CopyOnWrite,
                fault::FILE => Fault::File,
                _ => Fault::Anonymous,
            };
            let thread = drain.thread(Extent(record.thread.load(Relaxed))).map(|thread| thread.id);
            let site = drain.site(process, record.site.load(Relaxed)).map(|(site, _)| site);
            if let (Some(thread), Some(site)) = (thread, site) {
                let stack = stack(file, session, extent, process, record.stack.load(Relaxed));
                let may_be_huge = bits & fault::MAY_BE_HUGE != 0 && how == touch::FIRST && end == 0;
                by = PlacedBy::Access { thread, site, stack, fault: kind, may_be_huge };
            }
        }
        touch::MOVED => by = PlacedBy::Moved(origin),
        // Killed while it was being filled.
        touch::NONE => {
            process.pages.push(KnownPage { page, ended: true, touch: None, huge: false });
            return;
        }
        touch::HUGE if end == 0 => by = origin.map_or(PlacedBy::Unseen, PlacedBy::Part),
        touch::HUGE => by = origin.map_or(PlacedBy::Unseen, PlacedBy::Piece),
        _ => {}
    }
    let time_ns = session.advance(record.begin_ns.load(Relaxed));
    let placed = match how {
        // The parent's page, with the parent's touch.
        touch::INHERITED => origin.map(|touch| (touch, false)),
        // It came with a huge page, which is in the profile.
        touch::HUGE if end != 0 && with_origin => origin.map(|touch| (touch, false)),
        _ => session.page_placed(process.pid, &PlacedPage { page, time_ns, by, home, inferred, pinned }),
    };
    let (touch, huge) = placed.map_or((None, false), |(touch, huge)| (Some(touch), huge));
    if let (true, Some(leader)) =
        (huge && how == touch::HUGE, origin_number.checked_sub(process.inherited_pages.max(1)))
        && let Some(leader) = process.pages.get_mut(leader as usize)
    {
        leader.huge = true;
    }
    // Moved before it was looked at.
    if let ((Some(was), _), (Some(home), on_purpose)) = (first.unwrap_or(now), now)
        && was != home
    {
        session.page_rehomed(process.pid, page, home, on_purpose);
    }
    process.pages.push(KnownPage { page, ended: end != 0, touch, huge });
    if end != 0 {
        let time_ns = session.advance(end);
        session.pages_gone(process.pid, page..Page(page.0 + 1), time_ns);
    }
}

/// The call stack that a process's log holds at `reference`, as page records refer to it.
fn stack(
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    reference: u32,
) -> Option<StackId> {
    let at = u64::from(reference.checked_sub(1)?) * 8;
    if let Some(&known) = process.stacks.get(&reference) {
        return known;
    }
    let stack = read_stack(file, extent, at).and_then(|(words, bytes)| {
        let [ip, sp, bp, ..] = words;
        session.stack_from(process.pid, ip, sp, bp, &bytes)
    });
    process.stacks.insert(reference, stack);
    stack
}

fn read_stack(file: &SessionFile, extent: Extent, at: u64) -> Option<([u64; 4], Vec<u8>)> {
    const WORDS: usize = size_of::<LogHeader>() / 8;
    const MOST_BYTES: usize = 1 << 16;
    let begin = exact::process::LOG + at;
    let page = begin & !4095;
    let map = file.extent(extent, page, (begin - page) as usize + MOST_BYTES).ok()?;
    let from = (begin - page) as usize;
    let header = &map.words::<LogHeader>(from, 1)[0];
    let length = (header.bytes.load(Relaxed) as usize).min(MOST_BYTES) / 8;
    if header.kind.load(Acquire) != log::STACK || length < WORDS + 4 {
        return None;
    }
    let words: Vec<u64> = map.words::<AtomicU64>(from, length)[WORDS..].iter().map(|word| word.load(Relaxed)).collect();
    let mut bytes: Vec<u8> = words[4..].iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(words[3] as usize);
    Some(([words[0], words[1], words[2], words[3]], bytes))
}

/// The agent found the page `number` elsewhere than it was.
pub fn rehomed(drain: &Drain, session: &mut Session, process: &Process, number: u32, class: u32) {
    let header = &process.header.words::<ProcessHeader>(0, 1)[0];
    let meaning = meaning(header, class);
    if let (Some((Some(home), pinned)), Some(known)) = (meaning, drain.known_page(process, number)) {
        session.page_rehomed(process.pid, known.page, home, pinned);
    }
}

/// Makes the agent ask for pages again before it counts their next accesses: takes their classes out of its table. Whatever the agent
/// does at the same moment, an entry without a class is one that it looks at.
pub fn doubt(process: &Process, pages: &[Page]) {
    let table = process.header.words::<ProcessHeader>(0, 1)[0].shadow.load(Relaxed);
    if table == 0 {
        return;
    }
    let nothing = [0u8; 4];
    for page in pages {
        let from = [std::io::IoSlice::new(&nothing)];
        let to = nix::sys::uio::RemoteIoVec { base: (table + page.0 * 8) as usize, len: nothing.len() };
        // A process that is gone has no table.
        let _ = nix::sys::uio::process_vm_writev(nix::unistd::Pid::from_raw(process.pid), &from, &[to]);
    }
}
