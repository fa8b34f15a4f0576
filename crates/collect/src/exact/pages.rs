//! Pages as the agents found them: what the records say becomes rows of the profile.
//!
//! A record is read once, and again for its end. Where a new page landed on a real machine the agent may not know yet:
//! all new ones of a poll are asked for in one call. See `pending_homes.rs` for the accesses that placed them.

use super::attribution::SampledAccess;
use super::blocks::{heap_events, is_ready};
use super::drain::{Drain, POLLS_BEHIND, Process};
use super::file::SessionFile;
use super::heap::HeapEventQueue;
use super::known_pages::{Around, KnownPage};
use super::new_pages;
use super::page_owners::PageOwners;
use super::sites::read_sites;
use super::word_counts;
use crate::homes::{PageHome, query_homes};
use crate::session::{Owner, PlacedBy, PlacedPage, SeenAccess, Session};
use numalens_event::exact::{self, Extent, LogHeader, PageRecord, ProcessHeader, by, fault, log, site, touch};
use numalens_profile::ids::{Page, StackId, ThreadId};
use numalens_profile::words::{Access, Fault, SystemCall};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What happened to pages, in the order of time, ends first: a page that comes again has another number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An access is known to have placed a huge page.
    Huge(u32),
    End(u32),
    /// A range has gone: an index.
    Gone(usize),
    /// Something was mapped or unmapped: an index.
    Map(usize),
    Begin(u32),
    /// An access was logged: an index.
    Access(usize),
    /// Words changed hands: an index.
    Share(usize),
    /// A thread, by an index, counts no more.
    Ended(usize),
    /// What is accessed in a range from now on is another one's: an index.
    Rest(usize),
}

/// Reads what is new in a process's records, of the first `given` of them, until `until` (on the clock of the records),
/// in order with what the preloaded library reports.
///
/// # Errors
/// The session file cannot be mapped.
#[expect(clippy::too_many_arguments, reason = "both tellers, and the reader's state")]
pub fn read(
    drain: &Drain,
    queue: &mut HeapEventQueue,
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    given: u32,
    until: u64,
) -> io::Result<()> {
    let own = process.inherited_pages.max(1);
    let given = given.min(exact::MOST_PAGES);
    let now = until;
    session.ask_sizes(process.pid);
    // Whose pages and words are depends on each event before.
    let every = session.records_every_object();
    let until = queue.ready_until(process.pid, until, |note, open| is_ready(session, process, note, open, now));
    let size = size_of::<PageRecord>();
    let offset = (u64::from(own) * size as u64) & !4095;
    let skipped = (u64::from(own) * size as u64 - offset) as usize;
    let number = given.saturating_sub(own) as usize;
    // One at least is mapped, though there may be none yet.
    let map = file.extent(extent, exact::process::PAGES + offset, skipped + number.max(1) * size)?;
    let records = map.words::<PageRecord>(skipped, number);
    let header = process.header.clone();
    let header = &header.words::<ProcessHeader>(0, 1)[0];
    let class = |record: &PageRecord| meaning(header, record.class.load(Relaxed)).unwrap_or((None, false));
    let known = process.pages.given();
    let new = &records[known as usize..];
    // After the last instruction there is nothing to wait for.
    let (complete, until) = if process.last {
        (new.len(), until)
    } else {
        let is_known = |site| drain.site(process, site).is_some() || process.will_know(site);
        new_pages::readable(new, until, |site, thread| site.is_none_or(is_known) && drain.thread(thread).is_some())
    };
    process.known_until = until;
    let mut changes: Vec<(u64, Event)> = Vec::new();
    let live: Vec<u32> = process.live_pages.values().chain(process.resting_pages.values()).copied().collect();
    // The kernel may have placed pages where there were none: ever more seldom it is looked whether it has.
    process.polls = process.polls.saturating_add(1);
    let in_doubt = process.polls.is_power_of_two() && !process.last;
    let mut unwritten = Vec::new();
    for number in live {
        let record = &records[number as usize];
        let word = || header.classes.get(record.class.load(Relaxed) as usize).map(|word| word.load(Relaxed));
        if in_doubt && word() == Some(exact::READ_ONLY) {
            unwritten.push(Page(record.page.load(Relaxed)));
        }
        process.pages[number].class = class(record);
        let end = record.end_ns.load(Relaxed);
        if end != 0 && end <= until {
            changes.push((end, Event::End(number)));
        }
        if is_huge(record) && !process.pages[number].huge {
            changes.push((record.begin_ns.load(Relaxed), Event::Huge(number)));
        }
    }
    doubt(process, &unwritten);
    let by_number = |number: u32| records.get(number.checked_sub(own)? as usize);
    if !session.is_virtual() {
        for (number, record) in (own + known..).zip(&new[..complete]) {
            if record.how.load(Relaxed) == touch::FIRST {
                process.pending_homes.placed(number, record);
            }
        }
    }
    let homes = ask(session, process.pid, process.pending_homes.unresolved(header, by_number));
    for (number, record) in (known..).zip(&new[..complete]) {
        let (page, begin) = (Page(record.page.load(Relaxed)), record.begin_ns.load(Relaxed));
        // Killed while it was being filled.
        let filled = record.how.load(Relaxed) != touch::NONE;
        process.pages.push(KnownPage { ended: !filled, class: class(record), ..KnownPage::unfilled(page) });
        if filled {
            changes.push((begin, Event::Begin(number)));
            if is_huge(record) {
                changes.push((begin + 1, Event::Huge(number)));
            }
            let end = record.end_ns.load(Relaxed);
            if end != 0 && end <= until {
                changes.push((end.max(begin + 1), Event::End(number)));
            }
        }
    }
    let accesses = take_until(&mut process.logged_accesses, until, |access| access.time);
    changes.extend(accesses.iter().enumerate().map(|(index, access)| (access.time, Event::Access(index))));
    let logged_word_counts = take_until(&mut process.logged_word_counts, until, |share| share.time);
    changes.extend(logged_word_counts.iter().enumerate().map(|(index, share)| (share.time, Event::Share(index))));
    let ended = if every { drain.ended_threads(file, extent, process, until) } else { Vec::new() };
    changes.extend(ended.iter().enumerate().map(|(index, (time, _))| (*time, Event::Ended(index))));
    let gone = take_until(&mut process.gone, until, |(time, _)| *time);
    changes.extend(gone.iter().enumerate().map(|(index, (time, _))| (*time, Event::Gone(index))));
    let maps = take_until(&mut process.map_changes, until, |change| change.time);
    changes.extend(maps.iter().enumerate().map(|(index, change)| (change.time, Event::Map(index))));
    read_sites(file, session, extent, process, process.sites_before(&maps))?;
    let rests = take_until(&mut process.rests, until, |(time, _)| *time);
    changes.extend(rests.iter().enumerate().map(|(index, (time, _))| (*time, Event::Rest(index))));
    changes.sort_unstable();
    for (time, change) in changes {
        heap_events(queue, session, process, time, now);
        match change {
            Event::Begin(number) if goes_on(&records[number as usize]) => {
                let before = records[number as usize].origin.load(Relaxed);
                if every {
                    word_counts::of_pages(drain, file, session, extent, process, before..before + 1, time)?;
                }
                let is_generation = records[number as usize].how.load(Relaxed) == touch::NEXT_GENERATION;
                go_on(drain, session, process, number, before, is_generation, time);
            }
            Event::Begin(number) => {
                take_in(drain, file, session, extent, process, number, &records[number as usize], &homes);
            }
            Event::Huge(number) => {
                let known = &mut process.pages[number];
                known.huge = true;
                if let Some(touch) = known.touch {
                    session.page_is_huge(process.pid, known.page, touch);
                }
            }
            Event::Gone(index) => {
                let time_ns = session.advance(time);
                session.pages_gone(process.pid, gone[index].1.clone(), time_ns);
            }
            Event::Map(index) => {
                let pages = maps[index].apply(session, process.pid);
                owners_change(session, process, pages, time);
                read_sites(file, session, extent, process, process.sites_before(&maps[index + 1..]))?;
            }
            Event::Access(index) => look_at(drain, session, extent, process, &accesses[index]),
            Event::Share(index) => word_counts::take_in(session, process, &logged_word_counts[index]),
            Event::Rest(index) => process.rest(rests[index].1.clone()),
            Event::Ended(index) => word_counts::of_thread(drain, file, session, process, ended[index].1, time)?,
            Event::End(number) => {
                if every {
                    let pages = own + number..own + number + 1;
                    word_counts::of_pages(drain, file, session, extent, process, pages, time)?;
                }
                let time_ns = session.advance(time);
                let page = end(session, process, number, time_ns);
                for pages in [&mut process.live_pages, &mut process.resting_pages] {
                    if pages.get(&page) == Some(&number) {
                        pages.remove(&page);
                    }
                }
                session.page_gone(process.pid, page, time_ns);
            }
        }
    }
    heap_events(queue, session, process, until, now);
    let mut pending_homes = std::mem::take(&mut process.pending_homes);
    pending_homes.resolve(
        header,
        by_number,
        |page| homes.get(&page).copied(),
        process.last,
        |page, home| session.page_found(process.pid, page, home),
    );
    process.pending_homes = pending_homes;
    Ok(())
}

/// Whether an agent has seen that a huge page was placed by this access.
fn is_huge(record: &PageRecord) -> bool {
    record.fault.load(Relaxed) & fault::IS_HUGE != 0
}

/// Takes out what happened until then; what came later waits.
fn take_until<T>(waiting: &mut Vec<T>, until: u64, time: impl Fn(&T) -> u64) -> Vec<T> {
    let later = waiting.extract_if(.., |one| time(one) > until).collect();
    std::mem::replace(waiting, later)
}

/// An access that an agent has logged.
pub struct LoggedAccess {
    pub time: u64,
    /// Site, the thread's extent, address, how many from there on, the page's number: see [`log::ACCESS`].
    pub words: [u64; 5],
}

/// Takes in an access that was logged: it is a sample, and says whose part of its page was accessed.
fn look_at(drain: &Drain, session: &mut Session, extent: Extent, process: &mut Process, access: &LoggedAccess) {
    let [site, thread, address, count, number] = access.words;
    let Some((site, flags)) = drain.site(process, site as u32) else { return };
    let Some(thread) = drain.thread(Extent(thread as u32)) else { return };
    let (thread, node) = (thread.id, thread.node());
    let time_ns = session.advance(access.time);
    if !session.counted_at(time_ns) {
        return;
    }
    let Some(object) = session.holder_of(process.pid, address, time_ns) else { return };
    let own = (number as u32).checked_sub(process.inherited_pages.max(1));
    let known = own.and_then(|own| process.pages.get(own));
    let Some((home, pinned)) = known.map(|known| known.class) else { return };
    if let Some(came) = drain.came(extent, number as u32, access.time) {
        let class = (home, pinned);
        process
            .window
            .add_sample(number as u32, SampledAccess { time_ns, thread, class, object, accesses: count.max(1), came });
    }
    let access = match (flags & site::READ != 0, flags & site::WRITE != 0) {
        (true, true) => Access::ReadWrite,
        (false, _) => Access::Write,
        _ => Access::Read,
    };
    let process = process.id;
    let seen = SeenAccess { process, time_ns, thread, node, site, address, access, object, home, pinned };
    session.access_seen(&seen);
}

/// Where pages are, by the kernel's word: indices of nodes.
fn ask(session: &Session, pid: i32, pages: Vec<Page>) -> FxHashMap<Page, u16> {
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
pub fn meaning(header: &ProcessHeader, class: u32) -> Option<(Option<u16>, bool)> {
    header.classes.get(class as usize).and_then(|class| exact::class_meaning(class.load(Relaxed)))
}

#[expect(clippy::too_many_arguments, reason = "a record, and all that it refers to")]
fn take_in(
    drain: &Drain,
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    number: u32,
    record: &PageRecord,
    homes: &FxHashMap<Page, u16>,
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
    let (origin, with_origin, in_pieces) = match drain.known_page(process, origin_number) {
        // What was moved may have been split by that.
        Some(known) if how != touch::FIRST => (known.touch, known.huge, known.moved && !known.huge),
        _ => (None, false, false),
    };
    match how {
        // Where that is reported, it was placed elsewhere, and is one page all the same.
        touch::FIRST | touch::CALL | touch::UNSEEN if record.fault.load(Relaxed) & fault::ANOTHERS != 0 => {
            by = PlacedBy::Another
        }
        touch::FIRST | touch::ZERO => {
            let bits = record.fault.load(Relaxed);
            let kind = match bits & fault::KIND {
                _ if how == touch::ZERO => Fault::ZeroPage,
                fault::COPY_ON_WRITE => Fault::CopyOnWrite,
                fault::FILE => Fault::File,
                _ => Fault::Anonymous,
            };
            let thread = drain.thread(Extent(record.thread.load(Relaxed))).map(|thread| (thread.id, thread.node()));
            let site = drain.site(process, record.site.load(Relaxed)).map(|(site, _)| site);
            if let (Some((thread, node)), Some(site)) = (thread, site) {
                let stack = stack(file, session, extent, process, record.stack.load(Relaxed));
                let may_be_huge = bits & fault::MAY_BE_HUGE != 0 && how == touch::FIRST && end == 0;
                by = PlacedBy::Access { thread, node, site, stack, fault: kind, may_be_huge, call: None };
            }
        }
        touch::CALL => {
            let thread = drain.thread(Extent(record.thread.load(Relaxed))).map(|thread| (thread.id, thread.node()));
            if let Some((thread, node)) = thread {
                by = in_call(file, session, extent, process, record, (thread, node));
            }
        }
        touch::MOVED => by = PlacedBy::Moved(origin),
        touch::HUGE if end == 0 && !in_pieces => by = origin.map_or(PlacedBy::Unseen, PlacedBy::Part),
        touch::HUGE => by = origin.map_or(PlacedBy::Unseen, PlacedBy::Piece),
        _ => {}
    }
    let time_ns = session.advance(record.begin_ns.load(Relaxed));
    let address = page.address() + u64::from(record.fault.load(Relaxed) >> fault::OFFSET_SHIFT);
    let object = session.object_placed(process.pid, address, time_ns);
    let placed = match how {
        // The parent's page, with the parent's touch.
        touch::INHERITED => origin.map(|touch| (touch, false)),
        // It came with a huge page, which is in the profile.
        touch::HUGE if end != 0 && with_origin => origin.map(|touch| (touch, false)),
        _ => session.page_placed(process.pid, &PlacedPage { page, time_ns, by, home, inferred, pinned, object }),
    };
    let (touch, huge) = placed.map_or((None, false), |(touch, huge)| (Some(touch), huge));
    if let (true, Some(leader)) =
        (huge && how == touch::HUGE, origin_number.checked_sub(process.inherited_pages.max(1)))
        && let Some(leader) = process.pages.get_mut(leader)
    {
        leader.huge = true;
    }
    let moved = how == touch::MOVED;
    let class = if first.is_none() { (home, pinned) } else { now };
    let filled = Cell::default();
    let owner = Owner::Nobody;
    process.pages[number] =
        KnownPage { page, ended: false, touch, owner, class, begin_ns: time_ns, huge, moved, filled, around: None };
    process.lives(page, number);
    begins(session, process, number, time_ns);
}

/// A page that the kernel has placed in a call of a thread, bound to a node (index).
fn in_call(
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    record: &PageRecord,
    (thread, node): (ThreadId, Option<u16>),
) -> PlacedBy {
    let reference = record.stack.load(Relaxed);
    let site = match process.call_sites.get(&reference) {
        Some(&site) => site,
        None => {
            let instruction = reference.checked_sub(1).and_then(|at| read_stack(file, extent, u64::from(at) * 8));
            let Some(([ip, ..], _)) = instruction else { return PlacedBy::Unseen };
            *process.call_sites.entry(reference).or_insert(session.site_at(process.pid, ip))
        }
    };
    let stack = stack(file, session, extent, process, reference);
    let bits = record.fault.load(Relaxed);
    let fault = match bits & fault::KIND {
        fault::COPY_ON_WRITE => Fault::CopyOnWrite,
        fault::FILE => Fault::File,
        _ => Fault::Anonymous,
    };
    let may_be_huge = bits & fault::MAY_BE_HUGE != 0 && record.end_ns.load(Relaxed) == 0;
    let call = Some(system_call(record.site.load(Relaxed)));
    PlacedBy::Access { thread, node, site, stack, fault, may_be_huge, call }
}

/// What an agent calls by this number.
fn system_call(number: u32) -> SystemCall {
    match number {
        by::READ => SystemCall::Read,
        by::PREAD => SystemCall::Pread,
        by::READV => SystemCall::Readv,
        by::PREADV => SystemCall::Preadv,
        by::RECEIVE => SystemCall::Recv,
        by::MAP => SystemCall::Mmap,
        by::ADVICE => SystemCall::Madvise,
        by::LOCK => SystemCall::Mlock,
        by::RANDOM => SystemCall::Getrandom,
        by::DIRECTORY => SystemCall::Getdents,
        by::PROCESS_READ => SystemCall::ProcessVmReadv,
        by::PROCESS_WRITE => SystemCall::ProcessVmWritev,
        _ => SystemCall::Other,
    }
}

/// Whose a page is of which nothing has been counted under this number before: whoever is there has been there since it
/// began.
fn begins(session: &mut Session, process: &mut Process, number: u32, time_ns: u64) {
    let absolute = process.inherited_pages.max(1) + number;
    let known = &mut process.pages[number];
    let page = known.page;
    known.owner = session.owner_of(process.pid, page, time_ns);
    if known.owner == Owner::Several && !session.records_every_object() && !session.has_variables(process.pid, page) {
        let mut page_owners = PageOwners::default();
        page_owners.changed(&session.holders_on(process.pid, page), false, 0, 0);
        process.page_owners.insert(absolute, page_owners);
    } else {
        process.page_owners.remove(&absolute);
    }
}

/// Pages that may be another's now, of which that was not known when they began.
fn owners_change(session: &mut Session, process: &mut Process, pages: Range<Page>, time: u64) {
    let live: Vec<u32> = process.live_pages.range(pages).map(|(_, &number)| number).collect();
    for number in live {
        let time_ns = session.advance(time);
        let begin_ns = process.pages[number].begin_ns;
        begins(session, process, number, time_ns.max(begin_ns));
    }
}

/// Whether a record is that of a page that was known under another number.
fn goes_on(record: &PageRecord) -> bool {
    matches!(record.how.load(Relaxed), touch::MIGRATED | touch::NEXT_GENERATION)
}

/// Nothing more is counted of a page of the process's own, of this number among them. Returns which one it is.
fn end(session: &mut Session, process: &mut Process, number: u32, time_ns: u64) -> Page {
    let absolute = process.inherited_pages.max(1) + number;
    process.page_owners_ended[POLLS_BEHIND - 1].push(absolute);
    process.releasable.page(absolute);
    let known = &mut process.pages[number];
    known.ended = true;
    if let Owner::One(object) = known.owner {
        let object = session.stack_instead((process.id, process.pid), known.page, object, None, time_ns);
        known.owner = Owner::One(object);
    }
    if !matches!(known.owner, Owner::One(_)) || process.page_owners.contains_key(&absolute) {
        known.around = Some(Around::now(session, process.pid, known.page, time_ns));
    }
    known.page
}

/// A page was moved to another node, or begins a generation for another object: it goes on under `number`, one of the
/// process's own, as what it was as `before`.
fn go_on(
    drain: &Drain,
    session: &mut Session,
    process: &mut Process,
    number: u32,
    before: u32,
    is_generation: bool,
    time: u64,
) {
    let time_ns = session.advance(time);
    let own = process.inherited_pages.max(1);
    let class = process.pages[number].class;
    let Some(known) = drain.known_page(process, before) else { return };
    // What an allocator has filled it has filled before.
    let mut known = KnownPage { class, ended: false, filled: Cell::default(), around: None, ..*known };
    if is_generation {
        known.begin_ns = time_ns;
    } else {
        if let Some(home) = class.0 {
            known.touch = session.page_migrated(process.pid, known.page, home, class.1, time_ns).or(known.touch);
        }
        if let Some(page_owners) = process.page_owners.get(&before).cloned() {
            process.page_owners.insert(own + number, page_owners);
        }
    }
    if let Some(before) = before.checked_sub(own) {
        end(session, process, before, time_ns);
    }
    process.lives(known.page, number);
    process.pages[number] = known;
    if is_generation {
        begins(session, process, number, time_ns);
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
    // Read, not mapped: there are many, and to unmap one stops all threads of the recorder for a moment.
    let read = |from: u64, words: usize| file.read(extent, &(from..from + 8 * words as u64)).ok();
    let header = read(begin, WORDS)?;
    let (kind, bytes) = (header[0] as u32, (header[0] >> 32) as usize);
    let length = bytes.min(MOST_BYTES) / 8;
    if kind != log::STACK || length < WORDS + 4 {
        return None;
    }
    let words = read(begin + 8 * WORDS as u64, length - WORDS)?;
    // Words that were not logged lead nowhere, whatever they are.
    let mut bytes = vec![0; (words[3] as usize).min(MOST_BYTES)];
    for &word in &words[4..] {
        let place = (word >> log::STACK_PLACE) as usize * 8;
        if let Some(at) = bytes.get_mut(place..place + 8) {
            at.copy_from_slice(&(word & ((1 << log::STACK_PLACE) - 1)).to_le_bytes());
        }
    }
    Some(([words[0], words[1], words[2], words[3]], bytes))
}

/// Makes the agent ask for pages again before it counts their next accesses: takes their classes out of its table.
/// Whatever the agent does at the same moment, an entry without a class is one that it looks at.
pub fn doubt(process: &Process, pages: &[Page]) {
    const CLASS: usize = 4;
    const AT_ONCE: usize = 1024;
    let nothing = [0u8; CLASS * AT_ONCE];
    let header = &process.header.words::<ProcessHeader>(0, 1)[0];
    for pages in pages.chunks(AT_ONCE) {
        header.with_shadow(|table| {
            let from = [std::io::IoSlice::new(&nothing[..CLASS * pages.len()])];
            let word = |page: &Page| nix::sys::uio::RemoteIoVec { base: (table + page.0 * 8) as usize, len: CLASS };
            let to: Vec<_> = pages.iter().map(word).collect();
            // A process that is gone has no table.
            let _ = nix::sys::uio::process_vm_writev(nix::unistd::Pid::from_raw(process.pid), &from, &to);
        });
    }
}
