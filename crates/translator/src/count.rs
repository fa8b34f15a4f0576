//! Counting out of line: what inline code leaves to a call.
//!
//! Generated code describes the accesses in the context of the thread and leaves through `context::COUNT`; [`settle`]
//! turns the description into pages and numbers of accesses and counts them. The arguments at
//! `context::COUNT_ARGUMENTS`, by operation:
//!
//! | operation | 0 | 1 | 2 | 3 |
//! |---|---|---|---|---|
//! | [`Operation::One`] | address | | | |
//! | [`Operation::String`] | rcx after | rsi after | rdi after | base of FS, or 0 |
//! | [`Operation::FirstActive`], [`Operation::AnyActive`] | address of element 0 | mask, a bit per element | | |
//! | [`Operation::Elements`] | address without the index | mask; the indices stand at `context::COUNT_VECTOR` | | |
//! | [`Operation::Tile`] | address without the stride | stride; the configuration stands at `context::COUNT_VECTOR` | | |
//! | [`Operation::Image`] | address | edx:eax | | |
//! | [`Operation::Bits`] | address of the operand | bit number | | |
//! | [`Operation::Group`] | address of the lowest operand | address of the group's descriptor | members that have been counted | |
//! | [`Operation::Again`] | (direct tables: as above) | | a counter | |
//! | [`Operation::Probe`] | the word | | | |
//!
//! A repeated string instruction is counted when it is done, from what its registers were and are: it may stop early,
//! by a hit or by a fault, and what it did not do is not counted. Where it writes, it is reported once more before it
//! begins ([`Pages::before_string_write`], with rcx and rdi as they are then), as nobody can tell afterwards which
//! pages were there already.

mod derived;
mod direct;
mod image;
mod pages;
mod thread_context;

pub use crate::abi::what::{Operation, Retranslation, What};
pub use derived::settle_derived;
pub use pages::{LINE, Pages, Run};

use crate::abi::descriptor::group as descriptor;
use crate::abi::what::{KINDS, RetranslateReason};
use crate::ir::member::Unmade;
use crate::{Config, LastPage, PageEntry, SiteId, context};
use numalens_isa::{Kind, PAGE, Tile};
use thread_context::ThreadContext;

/// Counts what the context describes.
///
/// # Safety
/// `context` is the context of the calling thread, laid out as `config` has it, just left through `context::COUNT`.
pub unsafe fn settle(context: *mut u8, config: &Config, pages: &mut impl Pages) -> Option<Retranslation> {
    let context = ThreadContext::new(context);
    let what = What::unpack(context.load(context::COUNT_WHAT))?;
    if what.operation == Operation::Probe {
        pages.probed(context.argument(0));
        return None;
    }
    if what.operation == Operation::Again {
        let sites = context.load(context::COUNT_SITES);
        let all = [
            RetranslateReason::ShortLoop,
            RetranslateReason::Class,
            RetranslateReason::LongLoop,
            RetranslateReason::Direct,
        ];
        let why = all.into_iter().find(|&why| why as u64 == sites >> 32).unwrap_or(RetranslateReason::Page);
        let site = SiteId(sites as u32);
        if why == RetranslateReason::Direct {
            let retranslation = direct::settle(context, config, site);
            let what = What { operation: Operation::Group, ..what };
            count(context, config, pages, &what, [context.argument(0), context.argument(1), 0, 0]);
            return retranslation;
        }
        return Some(Retranslation { at: context.load(context::COUNT_RETURN), site, why });
    }
    count(
        context,
        config,
        pages,
        &what,
        [context.argument(0), context.argument(1), context.argument(2), context.argument(3)],
    );
    None
}

/// Counts what a repeated string instruction has done when it is stopped in its middle; see [`crate::State::String`].
/// The registers are those of the stopped thread. It starts afresh afterwards: its remaining elements are counted when
/// they are done.
///
/// # Safety
/// As for [`settle`], for the thread that was stopped.
pub unsafe fn finish_string(
    context: *mut u8,
    config: &Config,
    pages: &mut impl Pages,
    rcx: u64,
    rsi: u64,
    rdi: u64,
    fs: u64,
) {
    let context = ThreadContext::new(context);
    if let Some(what) = What::unpack(context.load(context::COUNT_WHAT)) {
        count(context, config, pages, &what, [rcx, rsi, rdi, if what.has_fs { fs } else { 0 }]);
    }
}

fn count(context: ThreadContext, config: &Config, pages: &mut impl Pages, what: &What, arguments: [u64; 4]) {
    let sites = context.load(context::COUNT_SITES);
    let first = SiteId(sites as u32);
    let limit = address_limit(what);
    let size = u32::from(what.size);
    if what.before {
        let (count, address) = (arguments[0] & limit, arguments[1] & limit);
        return pages.before_string_write(&Run { site: first, kind: what.kind, address, size, count, done: false });
    }
    let image = match what.operation {
        Operation::Image => image::asked(pages, arguments, what.lanes),
        _ => None,
    };
    let mut access = |site: SiteId, kind: Kind, address: u64, size: u32, count: u64| {
        let run = Run { site, kind, address, size, count, done: what.operation == Operation::String };
        if let Some(entry) = pages.entry(&run) {
            add(context, config, &run, entry);
            if config.each.is_some() {
                pages.counted(&run, entry);
            }
        }
    };
    let [address, mask, ..] = arguments;
    let lanes = u32::from(what.lanes);
    let active = if lanes >= 64 { mask } else { mask & ((1 << lanes) - 1) };
    match what.operation {
        Operation::One => access(first, what.kind, address, size * lanes, 1),
        Operation::FirstActive if active != 0 => {
            let (from, to) = (active.trailing_zeros(), 64 - active.leading_zeros());
            access(first, what.kind, address.wrapping_add(u64::from(from * size)), (to - from) * size, 1);
        }
        Operation::AnyActive if active != 0 => access(first, what.kind, address, size, 1),
        Operation::FirstActive | Operation::AnyActive | Operation::Again | Operation::Probe => {}
        Operation::Group => {
            for (site, kind, offset) in members(mask).skip(arguments[2] as usize) {
                access(site, kind, address.wrapping_add(offset), 0, 1);
            }
        }
        Operation::Elements => {
            for lane in (0..lanes).filter(|lane| active >> lane & 1 == 1) {
                let index = index(context, what.index_size, lane);
                let offset = index.wrapping_mul(u64::from(what.scale));
                access(first, what.kind, address.wrapping_add(offset) & limit, size, 1);
            }
        }
        Operation::Tile => {
            if let Some(tile) = Tile::of(&configuration(context), what.lanes) {
                tile.addresses(address, mask).for_each(|row| access(first, what.kind, row & limit, tile.bytes, 1));
            }
        }
        Operation::Image => {
            if let Some(image) = image {
                image::by_page(&image, address & limit, |at, bytes| access(first, what.kind, at & limit, bytes, 1));
            }
        }
        Operation::Bits => {
            access(first, what.kind, word_of_bit(what, address, arguments[1]) & limit, what.index_size.into(), 1);
        }
        Operation::String => {
            let run = StringRun::new(context, config, what, arguments);
            if what.source {
                run.source(|address, count| access(first, Kind::Read, address, size, count));
            }
            if what.destination {
                let site = if what.source { SiteId((sites >> 32) as u32) } else { first };
                run.destination(|address, count| access(site, what.kind, address, size, count));
            }
        }
    }
}

/// What a repeated string instruction has done.
struct StringRun {
    /// rsi and rdi before it, and after it.
    before: [u64; 2],
    after: [u64; 2],
    /// The base of FS, or 0.
    base: u64,
    done: u64,
    size: u64,
    /// Addresses have so many bits, all set.
    limit: u64,
    /// Bytes that a run does not leave.
    granule: u64,
}

impl StringRun {
    fn new(context: ThreadContext, config: &Config, what: &What, [rcx, rsi, rdi, base]: [u64; 4]) -> Self {
        let limit = address_limit(what);
        let before = [0, 1, 2].map(|number| context.load(context::STRING_BEFORE + 8 * number));
        StringRun {
            before: [before[1], before[2]],
            after: [rsi, rdi],
            base,
            done: before[0].wrapping_sub(rcx) & limit,
            size: what.size.into(),
            limit,
            granule: if config.each.is_some() { LINE } else { PAGE },
        }
    }

    fn source(&self, found: impl FnMut(u64, u64)) {
        self.elements(self.before[0], self.after[0], self.base, found);
    }

    fn destination(&self, found: impl FnMut(u64, u64)) {
        self.elements(self.before[1], self.after[1], 0, found);
    }

    fn elements(&self, from: u64, to: u64, base: u64, mut found: impl FnMut(u64, u64)) {
        // The base of FS need not be a multiple of it.
        let within = base & (self.granule - 1);
        let (from, to) = (from.wrapping_add(within) & self.limit, to.wrapping_add(within) & self.limit);
        elements_by(self.granule, from, to, self.done, self.size, self.limit, |address, count| {
            found(address.wrapping_add(base - within), count);
        });
    }
}

/// The largest address that an instruction can have.
fn address_limit(what: &What) -> u64 {
    if what.narrow { u64::from(u32::MAX) } else { u64::MAX }
}

/// The address of the word that a numbered bit is in.
fn word_of_bit(what: &What, address: u64, number: u64) -> u64 {
    let bits = 8 * u32::from(what.index_size);
    let number = ((number << (64 - bits)) as i64) >> (64 - bits);
    address.wrapping_add_signed((number >> bits.trailing_zeros()).wrapping_mul(i64::from(what.index_size)))
}

/// The members of the group whose descriptor the generated code has named: sites, kinds, offsets.
fn members(descriptor: u64) -> impl Iterator<Item = (SiteId, Kind, u64)> {
    let at = descriptor as *const u8;
    // SAFETY: the stub that left through COUNT put the address of its own descriptor there, which lies in the code
    // cache beside it and has one entry for each member. It is not evicted while a thread is inside.
    let (first, members) = unsafe {
        (at.add(descriptor::SITE as usize).cast::<u32>().read(), at.add(descriptor::MEMBERS as usize).read())
    };
    (0..u32::from(members)).map(move |number| {
        // SAFETY: as above.
        let word = unsafe { at.add(descriptor::OFFSETS as usize).cast::<u16>().add(number as usize).read() };
        let kind = KINDS[usize::from(word & 3).min(2)];
        (SiteId(first + number), kind, u64::from(word >> 2))
    })
}

/// Takes back what a thread has counted for accesses that it will not make: it was stopped within an execution and goes
/// on elsewhere, or comes back to the instruction through another fragment. `unmade` is the [`crate::Position`]'s;
/// `registers` are those that the thread was stopped with; `run` gives the kind of a site and its address by the
/// registers before its instruction.
///
/// # Safety
/// As for [`settle`], for the thread that was stopped.
pub unsafe fn abandon(
    context: *mut u8,
    config: &Config,
    pages: &mut impl Pages,
    unmade: &Unmade,
    registers: &[u64; 16],
    mut run: impl FnMut(SiteId, &[u64; 16]) -> Option<Run>,
) {
    let context = ThreadContext::new(context);
    for one in &unmade.ahead {
        let Some(run) = run(one.site, &unmade.registers_at(one, registers)) else { continue };
        let run = Run { count: 1u64.wrapping_neg(), ..run };
        let tables = one.last_page.and_then(|last_page| {
            config.last_page_record(last_page.id).zip(config.execution_counter(last_page.executions))
        });
        let entry = tables.map_or(0, |(record, _)| context.load(record + LastPage::ENTRY));
        let entry = config.page_of(entry);
        let begun = |(record, executions)| context.load(record + LastPage::SINCE) < context.load(executions);
        let is_cached = entry.class != 0 && tables.is_some_and(begun);
        let counted = if one.group < unmade.checked { pages.entry(&run) } else { None };
        if is_cached {
            // The record stands for this execution; the page of a megamorphic group was counted at the check.
            add_to_row(context, config, &run, entry.class);
            let page = if entry.slot != 0 { Some(entry) } else { counted };
            page.into_iter().for_each(|page| add_to_page(context, config, &run, page.slot));
        } else if let Some(entry) = counted {
            add(context, config, &run, entry);
        }
    }
}

/// Splits `done` elements of `size` bytes, from `from` on towards `to`, into runs that begin within one `granule`: the
/// lowest address of each, and how many they are.
fn elements_by(granule: u64, from: u64, to: u64, done: u64, size: u64, limit: u64, mut found: impl FnMut(u64, u64)) {
    if done == 0 {
        return;
    }
    // What the direction flag was can be seen from where the pointer went.
    let upwards = from.wrapping_add(done.wrapping_mul(size)) & limit == to;
    let (mut address, mut left) = (from, done);
    while left > 0 {
        let offset = address & (granule - 1);
        // Elements whose first byte lies in it.
        let here = if upwards { (granule - 1 - offset) / size + 1 } else { offset / size + 1 }.min(left);
        found(if upwards { address } else { address.wrapping_sub((here - 1) * size) & limit }, here);
        let step = here.wrapping_mul(size);
        address = if upwards { address.wrapping_add(step) } else { address.wrapping_sub(step) } & limit;
        left -= here;
    }
}

/// What `sttilecfg` has stored.
fn configuration(context: ThreadContext) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (offset, word) in (0..).step_by(8).zip(bytes.chunks_exact_mut(8)) {
        word.copy_from_slice(&context.load(context::COUNT_VECTOR + offset).to_le_bytes());
    }
    bytes
}

fn index(context: ThreadContext, size: u8, lane: u32) -> u64 {
    let offset = u32::from(size) * lane;
    let word = context.load(context::COUNT_VECTOR + (offset & !7));
    match (size, offset & 7) {
        (8, _) => word,
        (_, 0) => i64::from(word as u32 as i32) as u64,
        _ => i64::from((word >> 32) as u32 as i32) as u64,
    }
}

fn add(context: ThreadContext, config: &Config, run: &Run, entry: PageEntry) {
    add_to_page(context, config, run, entry.slot);
    add_to_row(context, config, run, entry.class);
}

fn add_to_page(context: ThreadContext, config: &Config, run: &Run, slot: u32) {
    let page = u64::from(config.pages) + u64::from(slot) * 8;
    if run.kind != Kind::Write {
        context.add(page, run.count);
    }
    if run.kind != Kind::Read {
        context.add(page + 8, run.count);
    }
}

fn add_to_row(context: ThreadContext, config: &Config, run: &Run, class: u32) {
    if let Some(counter) = config.site_counter(run.site, class) {
        context.add(u64::from(counter), run.count);
    }
}

/// Adds `instructions`, modulo 2^64, to an execution counter: [`crate::Cache::correction`].
///
/// # Safety
/// As for [`settle`].
pub unsafe fn correct(context: *mut u8, config: &Config, executions: u32, instructions: i64) {
    if let Some(counter) = config.execution_counter(executions) {
        ThreadContext::new(context).add(u64::from(counter), instructions as u64);
    }
}

/// Adds `run.count`, modulo 2^64, to the counters of a run: `1u64.wrapping_neg()` takes back an access that was counted
/// but did not happen.
///
/// # Safety
/// As for [`settle`].
pub unsafe fn adjust(context: *mut u8, config: &Config, run: &Run, entry: PageEntry) {
    add(ThreadContext::new(context), config, run, entry);
}
