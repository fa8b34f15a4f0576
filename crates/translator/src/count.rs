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
//!
//! A repeated string instruction is counted when it is done, from what its registers were and are: it may stop early,
//! by a hit or by a fault, and what it did not do is not counted. Where it writes, it is reported once more before it
//! begins ([`Pages::before_string_write`], with rcx and rdi as they are then), as nobody can tell afterwards which
//! pages were there already.

use crate::fragment::Unmade;
use crate::last_page::{LastPage, descriptor};
use crate::{Config, PageEntry, SiteId, context, direct, image};
use numalens_isa::{Kind, Tile};

/// What the operands in the context mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// One access.
    One = 0,
    /// The elements that a repeated string instruction has done.
    String = 1,
    /// One access at the first active element.
    FirstActive = 2,
    /// One access at the address if any element is active.
    AnyActive = 3,
    /// One access per active element, each at its own index.
    Elements = 4,
    /// One access at the address plus the bit number.
    Bits = 5,
    /// One access of each member of a group; the descriptor says what they do.
    Group = 6,
    /// The fragment of the site's group is to be translated again, and there is nothing to count; or, with
    /// [`RetranslateReason::Direct`], its direct table is to be looked at, and the arguments are those of
    /// [`Operation::Group`] but for the third: the number of a counter, plus 1, or 0. The second site is the number of
    /// a [`RetranslateReason`].
    Again = 7,
    /// One access for each row of a tile; the lanes are the tile's number.
    Tile = 8,
    /// An access in each page that an image of the processor's state reaches into; the lanes are the number of an
    /// [`numalens_isa::ImageForm`].
    Image = 9,
}

/// Why a fragment is to be translated again: see [`crate::Cache::retranslate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RetranslateReason {
    /// The group changes its page too often.
    Page = 0,
    /// The loop has too few iterations.
    ShortLoop = 1,
    /// The group is megamorphic, and the class of its pages changes too often as well.
    Class = 2,
    /// The loop has had many iterations: see [`crate::tier_up`].
    LongLoop = 3,
    /// The direct table of the group must be looked at; or it has none any more, as it does not pay.
    Direct = 4,
}

/// A description of accesses, packed in 31 bits so that it is an immediate operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct What {
    /// How the arguments are to be read.
    pub operation: Operation,
    /// What each access does.
    pub kind: Kind,
    /// Bytes of one element, a power of two up to 64.
    pub size: u8,
    /// Elements of a mask, or of a gather: 1 to 64; the number of a tile, or of an [`numalens_isa::ImageForm`]. Of one
    /// access: how many times `size` it has, up to 127.
    pub lanes: u8,
    /// Bytes of an index: 4 or 8; of a bit number: 2, 4, 8.
    pub index_size: u8,
    /// Scale of an index.
    pub scale: u8,
    /// Addresses are modulo 2^32.
    pub narrow: bool,
    /// A string instruction reads at rsi, by the first site.
    pub source: bool,
    /// A string instruction does `kind` at rdi, by the second site, or the first when there is no source.
    pub destination: bool,
    /// The source of a string instruction is relative to FS.
    pub has_fs: bool,
    /// A string instruction is about to begin: see [`Pages::before_string_write`].
    pub before: bool,
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::ReadWrite];
const OPERATIONS: [Operation; 10] = [
    Operation::One,
    Operation::String,
    Operation::FirstActive,
    Operation::AnyActive,
    Operation::Elements,
    Operation::Bits,
    Operation::Group,
    Operation::Again,
    Operation::Tile,
    Operation::Image,
];

impl What {
    /// One access of `kind`.
    pub fn one(kind: Kind) -> What {
        What {
            operation: Operation::One,
            kind,
            size: 1,
            lanes: 1,
            index_size: 1,
            scale: 1,
            narrow: false,
            source: false,
            destination: false,
            has_fs: false,
            before: false,
        }
    }

    /// One access of `kind` and so many bytes; 0: unknown.
    pub fn sized(kind: Kind, bytes: u32) -> What {
        let shift = bytes.trailing_zeros().min(6);
        What { size: 1 << shift, lanes: (bytes >> shift).min(127) as u8, ..What::one(kind) }
    }

    /// For an immediate operand.
    pub fn pack(self) -> i32 {
        (self.operation as i32 & 7)
            | (self.operation as i32 >> 3) << 24
            | i32::from(kind_bits(self.kind)) << 3
            | (self.size.trailing_zeros() as i32) << 5
            | i32::from(self.lanes) << 8
            | (self.index_size.trailing_zeros() as i32) << 15
            | (self.scale.trailing_zeros() as i32) << 17
            | i32::from(self.narrow) << 19
            | i32::from(self.source) << 20
            | i32::from(self.destination) << 21
            | i32::from(self.has_fs) << 22
            | i32::from(self.before) << 23
    }

    /// The inverse of [`What::pack`]; `None` for what it cannot have made.
    pub fn unpack(packed: u64) -> Option<What> {
        let bits = |from: u32, count: u32| packed >> from & ((1 << count) - 1);
        Some(What {
            operation: *OPERATIONS.get((bits(0, 3) | bits(24, 1) << 3) as usize)?,
            kind: *KINDS.get(bits(3, 2) as usize)?,
            size: 1 << bits(5, 3),
            lanes: bits(8, 7) as u8,
            index_size: 1 << bits(15, 2),
            scale: 1 << bits(17, 2),
            narrow: bits(19, 1) == 1,
            source: bits(20, 1) == 1,
            destination: bits(21, 1) == 1,
            has_fs: bits(22, 1) == 1,
            before: bits(23, 1) == 1,
        })
    }
}

pub(crate) fn kind_bits(kind: Kind) -> u16 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::ReadWrite => 2,
    }
}

/// Accesses of one site within one page, or, with [`Config::each`], one line of [`LINE`] bytes: as far as they begin
/// there. They lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose.
    pub site: SiteId,
    /// What each of them does.
    pub kind: Kind,
    /// The lowest of their addresses.
    pub address: u64,
    /// Bytes of each; 0: unknown. Only with [`Config::each`].
    pub size: u32,
    /// How many.
    pub count: u64,
    /// They have been executed already: those of a repeated string instruction.
    pub done: bool,
}

/// The owner of the shadow table.
pub trait Pages {
    /// The entry to count `run` with, or `None` when the owner counts it itself, now or later, or knows that it cannot
    /// succeed.
    fn entry(&mut self, run: &Run) -> Option<PageEntry>;

    /// A repeated string instruction is about to write `run`, upwards or downwards as the direction flag has it; how
    /// much of it, it may find out on the way.
    fn before_string_write(&mut self, run: &Run) {
        let _ = run;
    }

    /// The word of the program's memory at an address, if it can be read.
    fn peek(&mut self, address: u64) -> Option<u64> {
        let _ = address;
        None
    }

    /// `run` was counted with `entry`. With [`Config::each`] only.
    fn counted(&mut self, run: &Run, entry: PageEntry) {
        let _ = (run, entry);
    }
}

/// Bytes of the lines that [`Run`]s do not leave with [`Config::each`].
pub const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// Access to a thread context.
#[derive(Clone, Copy)]
pub(crate) struct ThreadContext(*mut u8);

impl ThreadContext {
    pub fn new(context: *mut u8) -> Self {
        ThreadContext(context)
    }

    pub fn load(self, offset: u32) -> u64 {
        // SAFETY: the callers of this module promise a thread context with its tables; all offsets are below its end
        // and multiples of 8.
        unsafe { self.0.add(offset as usize).cast::<u64>().read() }
    }

    pub fn argument(self, number: u32) -> u64 {
        self.load(context::COUNT_ARGUMENTS + 8 * number)
    }

    /// A part of a table, which may lie below the context.
    pub fn at<T>(self, offset: i64) -> *mut T {
        // SAFETY: as for `load`; offsets are multiples of the size.
        unsafe { self.0.offset(offset as isize).cast() }
    }

    pub fn add(self, offset: u64, count: u64) {
        // SAFETY: as for `load`.
        let before = unsafe { self.at::<u64>(offset as i64).read_volatile() };
        self.set(offset, before.wrapping_add(count));
    }

    pub fn set(self, offset: u64, count: u64) {
        // SAFETY: as for `load`; only the thread itself writes its counters. A reader in another process or thread sees
        // either value, since the store is one aligned instruction.
        unsafe { self.at::<u64>(offset as i64).write_volatile(count) };
    }
}

/// A fragment would be better translated in another manner: for [`crate::Cache::retranslate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retranslation {
    /// The address in the cache where the group's fragment goes on.
    pub(crate) at: u64,
    /// The first of its sites.
    pub(crate) site: SiteId,
    pub(crate) why: RetranslateReason,
}

/// Counts what the context describes.
///
/// # Safety
/// `context` is the context of the calling thread, laid out as `config` has it, just left through `context::COUNT`.
pub unsafe fn settle(context: *mut u8, config: &Config, pages: &mut impl Pages) -> Option<Retranslation> {
    let context = ThreadContext(context);
    let what = What::unpack(context.load(context::COUNT_WHAT))?;
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
    let context = ThreadContext(context);
    if let Some(what) = What::unpack(context.load(context::COUNT_WHAT)) {
        count(context, config, pages, &what, [rcx, rsi, rdi, if what.has_fs { fs } else { 0 }]);
    }
}

fn count(context: ThreadContext, config: &Config, pages: &mut impl Pages, what: &What, arguments: [u64; 4]) {
    let sites = context.load(context::COUNT_SITES);
    let first = SiteId(sites as u32);
    let limit = if what.narrow { u64::from(u32::MAX) } else { u64::MAX };
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
            if config.each {
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
        Operation::FirstActive | Operation::AnyActive | Operation::Again => {}
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
            let configuration = configuration(context);
            if let Some(tile) = Tile::of(&configuration, what.lanes) {
                tile.addresses(address, mask).for_each(|row| access(first, what.kind, row & limit, tile.bytes, 1));
            }
        }
        Operation::Image => {
            if let Some(image) = image {
                image::by_page(&image, address & limit, |at, bytes| access(first, what.kind, at & limit, bytes, 1));
            }
        }
        Operation::Bits => {
            let bits = 8 * u32::from(what.index_size);
            let number = ((arguments[1] << (64 - bits)) as i64) >> (64 - bits);
            let moved = (number >> bits.trailing_zeros()).wrapping_mul(i64::from(what.index_size));
            access(first, what.kind, address.wrapping_add_signed(moved) & limit, what.index_size.into(), 1);
        }
        Operation::String => {
            let before = [0, 1, 2].map(|number| context.load(context::STRING_BEFORE + 8 * number));
            let done = before[0].wrapping_sub(arguments[0]) & limit;
            let granule = if config.each { LINE } else { PAGE };
            let mut run = |site, kind, from: u64, to: u64, base: u64| {
                // The base of FS need not be a multiple of it.
                let base = (base, base & (granule - 1));
                let (from, to) = (from.wrapping_add(base.1) & limit, to.wrapping_add(base.1) & limit);
                elements_by(granule, from, to, done, size.into(), limit, |address, count| {
                    access(site, kind, address.wrapping_add(base.0 - base.1), size, count);
                });
            };
            if what.source {
                run(first, Kind::Read, before[1], arguments[1], arguments[3]);
            }
            if what.destination {
                let site = if what.source { SiteId((sites >> 32) as u32) } else { first };
                run(site, what.kind, before[2], arguments[2], 0);
            }
        }
    }
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
    let context = ThreadContext(context);
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
        ThreadContext(context).add(u64::from(counter), instructions as u64);
    }
}

/// Adds `run.count`, modulo 2^64, to the counters of a run: `1u64.wrapping_neg()` takes back an access that was counted
/// but did not happen.
///
/// # Safety
/// As for [`settle`].
pub unsafe fn adjust(context: *mut u8, config: &Config, run: &Run, entry: PageEntry) {
    add(ThreadContext(context), config, run, entry);
}
