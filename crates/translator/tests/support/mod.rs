//! A machine that runs code natively and translated, on the same registers and memory, and counts.
#![allow(dead_code)]

pub mod assemble;
pub mod counts;
mod cpu_identity;
pub mod expected;
mod kept;
pub mod kernel;
pub mod memory;
pub mod options;
mod pages;
mod persisted;
pub mod stops;
pub mod switch;
pub mod vectors;

use kept::Kept;
use memory::Mapping;
use numalens_translator::count::{Pages, Run, abandon, adjust, correct, settle};
use numalens_translator::{
    Cache, Changes, Config, CpuQuery, DirectTable, Env, ExitId, FetchCounter, FragmentLimits, Group, LastPage, Leave,
    PageEntry, Room, Segment, Shadow, Site, SiteId, Watch, context, settle_derived,
};
pub use options::{Options, SCHEMES};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const LOOKUP: u32 = 0x10000;
const LOOKUP_BITS: u8 = 14;
const SITES: u32 = 0x40000;
const CLASSES_LOG2: u8 = 3;
const PAGES: u32 = 0x80_0000;
/// Below the context.
const UPDATES: usize = 0x8_0000;
const CONTEXT: usize = 0x90_0000;
/// Less than the data has, so that groups leave them.
const DIRECT_PAGES: u32 = 32;
/// Below the updates.
const DIRECT: usize = DirectTable::bytes(DIRECT_PAGES) as usize;
const MOST_SITES: u32 = 0xc000;
const LAST_PAGES: u32 = 0x50_0000;
const EXECUTIONS: u32 = 0x70_0000;
const TOUCHED: u32 = 0x78_0000;
const ARENA: usize = 16 << 20;
const PROGRAM: usize = 1 << 20;
pub const DATA: usize = 1 << 20;
const SHADOW: usize = 1 << 38;

/// The general registers and flags, and an image of the vector registers.
#[derive(Clone, PartialEq, Eq)]
pub struct Registers {
    pub general: [u64; 16],
    pub flags: u64,
    pub vectors: Vec<u8>,
}

/// What the translator sees of the machine.
pub struct TestEnv {
    config: Config,
    pub sites: Vec<Site>,
    /// With the row that each is counted in.
    pub groups: Vec<(Group, SiteId)>,
    pub segments: Vec<Segment>,
    /// Where the program's code is, and how long.
    program: (u64, usize),
    arena: Mapping,
    hot: usize,
    cold: usize,
    shadow: Mapping,
    /// Page numbers by slot / 2.
    pub slots: Vec<u64>,
    pub changes: Changes,
    /// Fragments are made into records first, and come from these; how many did.
    persists: bool,
    pub records: usize,
    pub cold_runs: usize,
    pub kept: Option<Kept>,
    /// How often it came to the dispatcher.
    pub left: usize,
    /// Addresses that are watched, and where it came with which stack pointer.
    pub watched: Vec<u64>,
    /// An address of which the word is wanted that a register points to.
    pub probed: Option<(u64, u8)>,
    /// Those words.
    pub words: Vec<u64>,
    pub reached: Vec<(u64, u64)>,
    /// What the program has asked about its processor.
    pub asked: Vec<CpuQuery>,
    /// The first site of the program that is loaded.
    first_site: usize,
}

/// There is one low address to put a shadow table at: tests that do take turns.
static LOW: Mutex<()> = Mutex::new(());

pub struct Machine {
    pub cache: Cache,
    pub env: TestEnv,
    program: Mapping,
    pub data: Mapping,
    pub context: Mapping,
    updates: Mapping,
    direct: Mapping,
    end: u64,
    /// Where the code was stopped, see [`stops`].
    pub trace: Vec<stops::Stop>,
    /// What is done at the stop with this number, from 1.
    pub at_stop: Option<(usize, stops::Act)>,
    /// How often code was found that would be better translated in another manner.
    pub retranslations: usize,
    /// Given back after the mappings are gone.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Machine {
    pub fn new(options: Options) -> Box<Machine> {
        let turn = options.low_shadow.then(|| LOW.lock().unwrap_or_else(PoisonError::into_inner));
        let shadow = if options.low_shadow {
            Mapping::new(SHADOW, Some(0x7fff_0000), false)
        } else {
            Mapping::new(SHADOW, None, false)
        };
        let config = Config {
            count: true,
            code: true,
            stack_operands: options.stack,
            stack_operations: options.stack,
            shadow: if options.low_shadow { Shadow::At(shadow.address() as u32) } else { Shadow::FromContext },
            lookup: LOOKUP,
            lookup_bits: LOOKUP_BITS,
            sites: SITES,
            pages: PAGES,
            updates: -(UPDATES as i32),
            fragments: FragmentLimits {
                instructions: options.instructions,
                in_a_row: options.instructions,
                side_exits: options.side_exits,
            },
            flags_dead_at_calls: true,
            own_processor: options.own_processor,
            scheme: options.scheme,
            each: options.each,
            most_sites: MOST_SITES,
            last_pages: LAST_PAGES,
            executions: EXECUTIONS,
            touched: TOUCHED,
            direct: -((UPDATES + DIRECT) as i32),
            direct_pages: if options.direct { DIRECT_PAGES } else { 0 },
        };
        let both = Mapping::new(PROGRAM + ARENA, None, true);
        let (program, arena) = both.split(PROGRAM);
        let (direct, rest) = Mapping::new(DIRECT + UPDATES + CONTEXT, None, false).split(DIRECT);
        let (updates, context) = rest.split(UPDATES);
        let mut machine = Box::new(Machine {
            cache: Cache::new(config),
            env: TestEnv {
                config,
                sites: Vec::new(),
                groups: Vec::new(),
                segments: Vec::new(),
                program: (0, 0),
                hot: 0,
                cold: ARENA / 2,
                arena,
                shadow,
                slots: vec![u64::MAX],
                changes: options.changes,
                persists: options.persists && options.changes == Changes::Never,
                records: 0,
                cold_runs: 0,
                kept: options.each.map(Kept::new),
                left: 0,
                watched: Vec::new(),
                probed: None,
                words: Vec::new(),
                reached: Vec::new(),
                asked: Vec::new(),
                first_site: 0,
            },
            program,
            data: Mapping::low(DATA),
            updates,
            direct,
            context,
            end: 0,
            trace: Vec::new(),
            at_stop: None,
            retranslations: 0,
            _turn: turn,
        });
        let base = machine.context.address();
        let this = &raw mut *machine as u64;
        let mut set = |offset: u32, value: u64| machine.context.set(offset as usize, value);
        set(context::SELF, base);
        set(context::DISPATCH, switch::dispatch as *const () as u64);
        set(context::LOOKUP_MISS, switch::lookup_miss as *const () as u64);
        set(context::RETURN_MISS, switch::return_miss as *const () as u64);
        set(context::COUNT, switch::count as *const () as u64);
        set(switch::MACHINE, this);
        set(switch::FINISH, switch::finish as *const () as u64);
        for entry in 0..1 << LOOKUP_BITS {
            set(LOOKUP + 8 * entry, switch::lookup_miss as *const () as u64);
        }
        for entry in 0..1 << context::RETURNS_BITS {
            set(context::RETURNS + 8 * entry, switch::return_miss as *const () as u64);
        }
        let shadow = machine.env.shadow.address();
        for (offset, value) in config.constants(shadow) {
            machine.context.set(offset as usize, value);
        }
        machine.env.kept.iter().for_each(|kept| kept.note(&mut machine.context, PAGES));
        machine
    }

    /// Sets the program: `code`, followed by a jump out. Forgets all translations of the program before it. Returns its
    /// address.
    pub fn load(&mut self, code: &[u8]) -> u64 {
        let address = self.program.address();
        let mut bytes = code.to_vec();
        self.end = address + bytes.len() as u64;
        bytes.extend([0x65, 0xff, 0x24, 0x25]); // jmp gs:[FINISH]
        bytes.extend(switch::FINISH.to_le_bytes());
        assert!(bytes.len() + 16 <= PROGRAM);
        let old = std::mem::replace(&mut self.env.program, (address, bytes.len()));
        self.program.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        self.env.first_site = self.env.sites.len();
        let longest = old.1.max(bytes.len()) as u64;
        self.cache.invalidate(&mut self.env, address..address + longest);
        address
    }

    /// Changes the program where it runs, telling nobody.
    pub fn poke(&mut self, offset: usize, bytes: &[u8]) {
        self.program.bytes_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn put(&mut self, registers: &Registers) {
        for (number, &value) in registers.general.iter().enumerate() {
            self.context.set(context::register(number as u8) as usize, value);
        }
        self.context.set(context::FLAGS as usize, registers.flags);
        let at = switch::VECTORS as usize;
        self.context.bytes_mut()[at..at + registers.vectors.len()].copy_from_slice(&registers.vectors);
    }

    fn take(&self, size: usize) -> Registers {
        let mut general = [0; 16];
        for (number, value) in general.iter_mut().enumerate() {
            *value = self.context.get(context::register(number as u8) as usize);
        }
        let at = switch::VECTORS as usize;
        Registers {
            general,
            flags: self.context.get(context::FLAGS as usize),
            vectors: vectors::Vectors::of(&self.context.bytes()[at..at + size]).image,
        }
    }

    fn run_at(&mut self, address: u64, registers: &Registers) -> Registers {
        self.put(registers);
        self.context.set(switch::NEXT as usize, address);
        self.context.set(context::FS_BASE as usize, fs_base());
        // SAFETY: the context is set up by `new`; `address` is the program's code or its translation, which end in
        // FINISH; the code works on the machine's own mappings.
        unsafe { switch::enter(self.context.pointer()) };
        self.take(registers.vectors.len())
    }

    pub fn run_native(&mut self, registers: &Registers) -> Registers {
        self.run_at(self.program.address(), registers)
    }

    pub fn run_translated(&mut self, registers: &Registers) -> Registers {
        let entry = self.cache.entry(&mut self.env, self.program.address()).expect("the program can be translated");
        self.run_at(entry, registers)
    }

    /// Takes back what is counted for accesses that are not made, as whoever delivers a signal does at `rip` with these
    /// registers.
    pub fn give_up_at(&mut self, rip: u64, registers: &[u64; 16]) {
        let config = *self.cache.config();
        let position = self.cache.locate(rip).expect("every address in the cache is known");
        let (counted, unmade) = (position.counted.to_vec(), position.unmade());
        let (derived, unexecuted) = (position.derived, position.unexecuted);
        let sites = self.env.sites.clone();
        let run = |site: SiteId, registers: &[u64; 16], count| {
            let known = sites[site.0 as usize];
            Some(Run {
                site,
                kind: known.kind,
                address: known.effective_address(registers, 0)?,
                size: 0,
                count,
                done: false,
            })
        };
        let context = self.context.pointer();
        if let Some(derived) = derived {
            // SAFETY: the context of this machine, whose code does not run.
            unsafe { settle_derived(context, &derived, registers) };
        }
        for site in counted {
            let run = run(site, registers, 1u64.wrapping_neg()).expect("a plain operand");
            let entry = self.env.entry(&run).expect("a page that was counted");
            // SAFETY: the context of this machine, whose code does not run.
            unsafe { adjust(context, &config, &run, entry) };
        }
        // SAFETY: as above.
        unsafe { abandon(context, &config, &mut self.env, &unmade, registers, |site, found| run(site, found, 1)) };
        for one in unexecuted.into_iter().filter(|one| one.instructions != 0) {
            let counter = self.cache.correction(&mut self.env, one.page).expect("a counter");
            // SAFETY: as above.
            unsafe { correct(context, &config, counter, one.instructions) };
        }
    }

    /// How many instructions of the program were executed, by page, since the last call. Before
    /// [`Machine::take_counts`].
    pub fn take_fetches(&mut self) -> BTreeMap<u64, u64> {
        let mut pages = BTreeMap::new();
        self.settle_last_pages();
        let config = *self.cache.config();
        let segments = self.env.segments.clone();
        for segment in &segments {
            let runs = match segment.counter {
                FetchCounter::Executions(number) | FetchCounter::Correction(number) => {
                    self.context.get(config.execution_counter(number).expect("a counter") as usize)
                }
                FetchCounter::Site(site) => self.classes_of(site.0 as usize).into_iter().fold(0, u64::wrapping_add),
            };
            let total: &mut u64 = pages.entry(segment.ip >> 12).or_default();
            *total = total.wrapping_add(runs.wrapping_mul(segment.instructions.into()));
        }
        for segment in &segments {
            if let FetchCounter::Executions(number) | FetchCounter::Correction(number) = segment.counter {
                self.context.set(config.execution_counter(number).expect("a counter") as usize, 0);
            }
        }
        for last_page in self.env.groups.iter().filter_map(|(group, _)| group.last_page) {
            self.context.set((config.last_page_record(last_page.id).expect("a record") + LastPage::SINCE) as usize, 0);
        }
        pages.retain(|_, &mut total| total != 0);
        pages
    }

    /// Has all of the program translated anew: whoever is inside leaves at the next way out.
    pub fn give_up_translations(&mut self) {
        let program = self.program.address();
        self.cache.invalidate(&mut self.env, program..program + PROGRAM as u64);
    }

    /// Forgets pages and classes: the next access to each page takes the cold path.
    pub fn forget_pages(&mut self) {
        for page in std::mem::replace(&mut self.env.slots, vec![u64::MAX]).into_iter().skip(1) {
            self.env.shadow.set(page as usize * 8, 0);
        }
        let config = *self.cache.config();
        for last_page in self.env.groups.iter().filter_map(|(group, _)| group.last_page) {
            let record = config.last_page_record(last_page.id).expect("a record");
            self.context.set((record + LastPage::PAGE) as usize, 0);
            self.context.set((record + LastPage::ENTRY) as usize, 0);
        }
        for direct in 0..DirectTable::MOST {
            self.direct.set((direct * DirectTable::BYTES + DirectTable::BASE) as usize, DirectTable::NOWHERE);
        }
    }

    /// Empties the code cache and fills it with traps.
    pub fn evict(&mut self) {
        let base = self.env.arena.address();
        for unlinked in self.cache.close(&mut self.env, base..base + ARENA as u64) {
            let miss = if unlinked.is_return { switch::return_miss } else { switch::lookup_miss } as *const () as u64;
            if self.context.get(unlinked.entry as usize) == unlinked.code {
                self.context.set(unlinked.entry as usize, miss);
            }
        }
        self.cache.evict(base..base + ARENA as u64);
        self.env.arena.bytes_mut().fill(0xcc);
        (self.env.hot, self.env.cold) = (0, ARENA / 2);
        // Nothing else leads there.
        let arena = base..base + ARENA as u64;
        let tables = [(LOOKUP as usize, 1 << LOOKUP_BITS), (context::RETURNS as usize, 1 << context::RETURNS_BITS)];
        let left = tables.iter().flat_map(|&(table, entries)| (0..entries).map(move |entry| table + 8 * entry));
        assert_eq!(left.filter(|&entry| arena.contains(&self.context.get(entry))).count(), 0);
    }

    /// A new machine in the place of one whose tables are nearly used up.
    pub fn renew_if_full(self: &mut Box<Self>, options: Options) {
        let env = &self.env;
        if env.sites.len() > 40_000 || env.hot > ARENA / 4 || env.cold > ARENA * 3 / 4 {
            // There is room for one low table only.
            assert!(!options.low_shadow, "more code than a machine with a low table can hold");
            *self = Machine::new(options);
        }
    }

    /// Where a return to `ip` goes; `None` if that has to be asked for.
    pub fn return_entry(&self, ip: u64) -> Option<u64> {
        let entry = self.context.get(self.cache.config().return_entry(ip) as usize);
        (entry != switch::return_miss as *const () as u64).then_some(entry)
    }

    /// Makes returns to `ip` go where those to `other` do.
    pub fn confuse_returns(&mut self, ip: u64, other: u64) {
        let entry = self.return_entry(other).expect("a return to it has been seen");
        let config = *self.cache.config();
        self.context.set(config.return_entry(ip) as usize, entry);
        self.context.set_half(config.return_tag(ip).0 as usize, config.return_tag(other).1);
    }

    /// The code in the arena so far: hot and cold half.
    pub fn code(&self) -> [(u64, &[u8]); 2] {
        let arena = &self.env.arena;
        let cold = ARENA / 2;
        [
            (arena.address(), &arena.bytes()[..self.env.hot]),
            (arena.address() + cold as u64, &arena.bytes()[cold..self.env.cold]),
        ]
    }

    pub fn program_address(&self) -> u64 {
        self.program.address()
    }
}

impl Env for TestEnv {
    fn read_code(&mut self, address: u64, into: &mut [u8]) -> usize {
        let (start, size) = self.program;
        let Some(left) = (start + size as u64).checked_sub(address).filter(|&left| left <= size as u64) else {
            return 0;
        };
        let length = into.len().min(left as usize);
        // SAFETY: within the program, which is mapped as long as the machine is.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), length) };
        length
    }

    fn changes(&mut self, _: u64, _: u64) -> Changes {
        self.changes
    }

    fn watch(&mut self, ip: u64) -> Option<Watch> {
        let probe = self.probed.filter(|&(at, _)| at == ip).map(|(_, register)| Watch::Pointee(register));
        probe.or_else(|| self.watched.contains(&ip).then_some(Watch::Reached))
    }

    fn new_site(&mut self, site: &Site) -> SiteId {
        self.sites.push(*site);
        SiteId(self.sites.len() as u32 - 1)
    }

    fn new_group(&mut self, group: &Group) -> SiteId {
        let row =
            if group.members == 1 { group.first } else { self.new_site(&self.sites[group.first.0 as usize].clone()) };
        self.groups.push((*group, row));
        row
    }

    fn next_site(&self) -> SiteId {
        SiteId(self.sites.len() as u32)
    }

    fn persisted(&mut self, ip: u64) -> Option<&'static [u8]> {
        let (start, bytes) = self.program;
        if !self.persists || self.watched.iter().any(|at| (start..start + bytes as u64).contains(at)) {
            return None;
        }
        let record = persisted::record(self.config, start, bytes, ip);
        self.records += usize::from(record.is_some());
        record
    }

    fn new_segment(&mut self, segment: &Segment) {
        self.segments.push(*segment);
    }

    fn room(&mut self, _: u64) -> Option<Room> {
        if self.hot + Cache::ROOM > ARENA / 2 || self.cold + Cache::ROOM > ARENA {
            return None;
        }
        let base = self.arena.address();
        Some(Room {
            hot: base + self.hot as u64,
            hot_size: ARENA / 2 - self.hot,
            cold: base + self.cold as u64,
            cold_size: ARENA - self.cold,
        })
    }

    fn place(&mut self, room: &Room, hot: &[u8], cold: &[u8]) {
        let base = self.arena.address();
        assert_eq!((room.hot, room.cold), (base + self.hot as u64, base + self.cold as u64));
        assert!(hot.len() <= Cache::ROOM && cold.len() <= Cache::ROOM);
        self.arena.bytes_mut()[self.hot..self.hot + hot.len()].copy_from_slice(hot);
        self.arena.bytes_mut()[self.cold..self.cold + cold.len()].copy_from_slice(cold);
        self.hot += hot.len();
        self.cold += cold.len();
    }

    fn patch(&mut self, address: u64, displacement: i32) {
        assert!(address & 7 <= 4, "a patch at {address:#x} cannot be stored at once");
        let offset = (address - self.arena.address()) as usize;
        self.arena.bytes_mut()[offset..offset + 4].copy_from_slice(&displacement.to_le_bytes());
    }
}

/// Classes of pages in these tests.
pub fn class_of(page: u64) -> u32 {
    1 + PageEntry::READ_ONLY + (page % 3) as u32
}

fn machine_of(context: *mut u8) -> &'static mut Machine {
    // SAFETY: `new` stored the address of a boxed machine, which is alive while its code runs, and `run_at` does not
    // touch it meanwhile.
    unsafe { &mut **context.add(switch::MACHINE as usize).cast::<*mut Machine>() }
}

extern "C" fn on_dispatch(context: *mut u8) -> u64 {
    let machine = machine_of(context);
    let id = ExitId(machine.context.get(switch::ARGUMENT as usize) as u32);
    machine.env.left += 1;
    match machine.cache.leave(&mut machine.env, id).expect("what comes next can be translated") {
        Leave::Enter(address)
        | Leave::Syscall { execute: address, .. }
        | Leave::OldSyscall { execute: address, .. } => address,
        Leave::Reached { ip, execute } => {
            let sp = machine.context.get(context::register(4) as usize);
            machine.env.reached.push((ip, sp));
            execute
        }
        Leave::CpuQuery { query, next } => {
            machine.env.asked.push(query);
            cpu_identity::answer(&mut machine.context, query);
            machine.cache.entry(&mut machine.env, next).expect("it can be translated")
        }
        Leave::Request { next } => machine.cache.entry(&mut machine.env, next).expect("it can be translated"),
        Leave::Returns { how, .. } => {
            let stack = machine.context.get(context::register(4) as usize);
            let frame: Vec<u8> = (0..how.words() as u64 * u64::from(how.bytes))
                // SAFETY: the program is about to read its stack itself.
                .map(|at| unsafe { ((stack + at) as *const u8).read() })
                .collect();
            let flags = machine.context.get(context::FLAGS as usize);
            let target = how.target(stack, &frame, flags).expect("a whole frame");
            machine.context.set(context::register(4) as usize, target.stack);
            machine.context.set(context::FLAGS as usize, target.interrupt.map_or(flags, |(flags, _)| flags));
            machine.cache.entry(&mut machine.env, target.ip).expect("it can be translated")
        }
        Leave::Unsupported { ip, why } => {
            assert_eq!(ip, machine.end, "an unsupported instruction: {why}");
            switch::finish as *const () as u64
        }
    }
}

extern "C" fn on_lookup_miss(context: *mut u8) -> u64 {
    let machine = machine_of(context);
    let ip = machine.context.get(switch::ARGUMENT as usize);
    let landing = machine.cache.landing(&mut machine.env, ip).expect("what comes next can be translated");
    let entry = machine.cache.config().lookup_entry(ip);
    machine.context.set(entry as usize, landing.checked);
    landing.entry
}

extern "C" fn on_return_miss(context: *mut u8) -> u64 {
    let machine = machine_of(context);
    let ip = machine.context.get(context::RETURN_IP as usize);
    let landing = machine.cache.returning(&mut machine.env, ip).expect("what comes next can be translated");
    let config = *machine.cache.config();
    machine.context.set(config.return_entry(ip) as usize, landing.checked);
    let (at, tag) = config.return_tag(ip);
    machine.context.set_half(at as usize, tag);
    landing.entry
}

extern "C" fn on_count(context: *mut u8) {
    let machine = machine_of(context);
    let config = *machine.cache.config();
    // SAFETY: this is the context of the calling thread, laid out by this configuration.
    let retranslation = unsafe { settle(context, &config, &mut machine.env) };
    if let Some(retranslation) = retranslation {
        machine.cache.retranslate(&mut machine.env, retranslation);
        machine.retranslations += 1;
    }
}

/// The base of FS of this thread.
pub fn fs_base() -> u64 {
    let base: u64;
    // SAFETY: reads a register; the translator needs the instruction anyway.
    unsafe { std::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack)) };
    base
}
