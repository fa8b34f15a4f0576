//! From the program's code at an address to a fragment.
//!
//! Three passes: decode up to the end of the fragment, find what is live before each instruction, write the code. The
//! writer keeps the program's registers in place except for those that [`crate::scratch`] has spilled, and puts all
//! back before control leaves the fragment.

use crate::decode::{Decoded, LONGEST, Source, decode, find_live, is_loop};
use crate::derived::DerivedCount;
use crate::emit::{Code, Field, Memory, RAX, RCX, RSP};
use crate::far::{FarReturn, is_old_call, is_privileged};
use crate::fetch::{self, Piece, Planned};
use crate::fragment::{Ahead, Drafts, Exit, ExitKind, Fragment, Rare, State};
use crate::hoisted::LoopBody;
use crate::links::Chain;
use crate::liveness::Liveness;
use crate::metadata::FragmentMetadata;
use crate::plan::{Plan, sets_fs_base};
use crate::scratch::Scratch;
use crate::tier_up::free_register;
use crate::translation_map::MapEntry;
use crate::{
    Changes, Config, CpuQuery, Env, Error, ExitId, FragmentId, LastPageId, Room, Scheme, Shape, Site, SiteId, context,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use hashbrown::{HashMap, HashSet};
use iced_x86::{FlowControl, Mnemonic, Register};
use numalens_isa::{Access, is_request};

/// Numbers given so far.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub last_pages: u32,
    pub executions: u32,
    pub direct: u32,
}

/// What is kept from fragment to fragment.
pub(crate) struct Tools {
    pub source: Source,
    pub liveness: Liveness,
    pub plan: Plan,
    pub segments: Vec<Planned>,
    /// Of the fragment that was made last, both halves of its code among it.
    pub drafts: Drafts,
    pub numbers: Numbers,
    /// Instructions of the program whose groups are megamorphic.
    pub megamorphic: HashSet<u64>,
    /// Those of them whose classes change too often as well.
    pub any_class: HashSet<u64>,
    /// And those that have no direct table.
    pub no_direct: HashSet<u64>,
    /// Fragments that are loops of few iterations, each time that they are entered.
    pub short: HashSet<u64>,
    /// Fragments that have had many iterations altogether.
    pub long: HashSet<u64>,
}

/// A fragment in the making.
pub(crate) struct Builder<'a, E: Env> {
    pub config: &'a Config,
    pub env: &'a mut E,
    pub hot: Code,
    pub cold: Code,
    pub scratch: Scratch,
    pub start: u64,
    pub first_exit: ExitId,
    pub exits: Vec<Exit>,
    pub hot_map: Vec<MapEntry>,
    pub cold_map: Vec<MapEntry>,
    /// Room to pack both in.
    pub packed: Vec<u8>,
    pub sites: Vec<SiteId>,
    pub site_instructions: Vec<u32>,
    /// The current instruction, as an offset from the start, and how many of its sites are counted.
    pub current: u32,
    pub counted: u8,
    pub plan: &'a Plan,
    /// Of all instructions.
    pub accesses: &'a [Access],
    pub numbers: &'a mut Numbers,
    pub ahead: Vec<Ahead>,
    /// Sites that are counted by themselves, once whenever their instruction (by its offset) is executed.
    pub once: Vec<(u32, SiteId)>,
    /// Segments and their execution counters.
    pub counted_segments: Vec<(u16, u32)>,
    /// A segment whose execution is counted when the fragment is left, and the offset of its counter from GS.
    pub count_on_the_way: Option<(u16, u32)>,
    /// The segment whose executions are counted by the counter `executions`.
    pub segment: Option<u16>,
    pub executions: u32,
    /// The same plus 1, once they are counted in this execution.
    pub begun: u16,
    /// Groups checked so far.
    pub checked: u16,
    /// Where the fragment goes back to its start.
    pub loop_start: Option<u64>,
    /// How executions follow from the induction variable of the loop, and where in the hot half that ends.
    pub derived: Option<(DerivedCount, u32)>,
    /// The records of the page limits of segments.
    pub page_limits: Vec<(u16, LastPageId)>,
    /// The segments, now that it is known what counts them.
    pub pieces: Vec<Piece>,
    /// The exit that goes back.
    pub goes_back: Option<ExitId>,
    /// Where a return comes from the call that ends the fragment.
    pub returns_at: Option<u64>,
    /// The fragment begins by comparing its code.
    pub compares: bool,
}

/// Translates the fragment at `ip` into `room`. The fragment's code is complete but not yet placed. None, where the
/// fragment shows that others were translated in a wrong belief ([`crate::flags_abi`]): they are to be invalidated, and
/// then this is to be translated.
pub(crate) fn translate(
    config: &Config,
    tools: &mut Tools,
    env: &mut impl Env,
    room: &Room,
    known: &HashMap<u64, FragmentId>,
    ip: u64,
    first_exit: ExitId,
) -> Result<Option<Fragment>, Error> {
    let Tools { source, liveness, plan, segments, drafts, numbers, megamorphic, any_class, no_direct, short, long } =
        tools;
    let as_it_is = Config { count: false, ..*config };
    let config = if env.is_counted(ip) { config } else { &as_it_is };
    decode(config, env, known, ip, liveness, source)?;
    if liveness.learn(env, &source.list) {
        return Ok(None);
    }
    let end = ip + source.bytes.len() as u64;
    let changes = env.changes(ip, end);
    let Source { list, bytes, accesses, .. } = source;
    let in_loop = is_loop(ip, list);
    let may_be_short = config.scheme == Scheme::LongLoops && in_loop && !long.contains(&ip);
    find_live(list, liveness, env, end, changes, in_loop && !may_be_short);
    let tier_up = if may_be_short { free_register(list) } else { None };
    if may_be_short && tier_up.is_none() {
        find_live(list, liveness, env, end, changes, true);
    }
    if config.count && config.scheme != Scheme::Flat && !config.each {
        let last_pages = config.scheme == Scheme::LastPage || in_loop && tier_up.is_none() || long.contains(&ip);
        plan.make(list, accesses, !last_pages, [megamorphic, any_class]);
        if in_loop {
            plan.direct(config, numbers, no_direct);
        }
        // Page limits take room that last pages may need.
        let roomy = numbers.last_pages < config.most_sites / 2;
        let wanted = !plan.immediate && changes == Changes::Never && roomy && !short.contains(&ip);
        if wanted && let Some(body) = LoopBody::of(list) {
            plan.advance(list, &body);
        }
        plan.sort();
    } else {
        plan.clear();
    }
    segments.clear();
    if config.code && config.count {
        fetch::segments(list, accesses, plan, segments);
    }
    let mut builder = Builder::new(config, env, room, (ip, first_exit), (plan, accesses), drafts.take(), numbers);
    builder.scratch.uses.extend(list.iter().map(|one| one.usage.reads | one.usage.kills));
    builder.map_hot(State::Before);
    builder.compares = changes == Changes::Silently;
    if builder.compares {
        builder.compare_code(bytes)?;
    }
    if builder.env.is_watched(ip) {
        builder.reached()?;
    }
    if let Some(register) = tier_up.filter(|_| !plan.groups.is_empty()) {
        builder.count_until_tier_up(register)?;
    }
    builder.begin_loop(list.first().map_or(u16::MAX, |one| one.before.registers))?;
    let mut closed = false;
    for (number, one) in list.iter().enumerate() {
        let at = (one.instruction.ip() - ip) as usize;
        builder.begin(number, one);
        builder.end_derived(number, one.before.registers);
        builder.count_execution(segments, number, one)?;
        builder.check_groups(number, one.before.registers)?;
        closed = builder.instruction(number, one, &bytes[at..])?;
        if one.instruction.flow_control() == FlowControl::ConditionalBranch {
            builder.begun = 0;
        }
    }
    if !closed {
        builder.current = (end - ip) as u32;
        builder.counted = 0;
        builder.map_hot(State::Before);
        builder.end_derived(list.len(), list.last().map_or(u16::MAX, |one| one.before.registers));
        builder.scratch.restore(&mut builder.hot, u16::MAX);
        builder.leave_to(&[0xe9], end)?;
    }
    builder.register_segments(list, segments);
    let fragment;
    (fragment, *drafts) = builder.finish(end)?;
    Ok(Some(fragment))
}

/// A fragment without instructions: where returns to `ip` come that no call was translated for.
pub(crate) fn relay(
    config: &Config,
    tools: &mut Tools,
    env: &mut impl Env,
    room: &Room,
    ip: u64,
    first_exit: ExitId,
) -> Result<Fragment, Error> {
    let Tools { plan, drafts, numbers, .. } = tools;
    plan.clear();
    let mut builder = Builder::new(config, env, room, (ip, first_exit), (plan, &[]), drafts.take(), numbers);
    builder.return_site(ip)?;
    let fragment;
    (fragment, *drafts) = builder.finish(ip)?;
    Ok(fragment)
}

impl<'a, E: Env> Builder<'a, E> {
    fn new(
        config: &'a Config,
        env: &'a mut E,
        room: &Room,
        (start, first_exit): (u64, ExitId),
        (plan, accesses): (&'a Plan, &'a [Access]),
        drafts: Drafts,
        numbers: &'a mut Numbers,
    ) -> Self {
        let Drafts { hot, cold, hot_map, cold_map, packed, exits, sites, site_instructions, ahead, .. } = drafts;
        let Drafts { uses, once, counted_segments, page_limits, pieces, .. } = drafts;
        Builder {
            config,
            env,
            hot: Code { base: room.hot, bytes: hot },
            cold: Code { base: room.cold, bytes: cold },
            scratch: Scratch { uses, ..Scratch::default() },
            start,
            first_exit,
            exits,
            hot_map,
            cold_map,
            packed,
            sites,
            site_instructions,
            current: 0,
            counted: 0,
            plan,
            accesses,
            numbers,
            ahead,
            once,
            counted_segments,
            count_on_the_way: None,
            segment: None,
            executions: 0,
            begun: 0,
            checked: 0,
            loop_start: None,
            derived: None,
            page_limits,
            pieces,
            goes_back: None,
            returns_at: None,
            compares: false,
        }
    }
}

impl<E: Env> Builder<'_, E> {
    /// The fragment, and the code of its halves among the rest of what it was made in.
    fn finish(mut self, end: u64) -> Result<(Fragment, Drafts), Error> {
        let (hot_length, cold_length) = (self.hot.offset(), self.cold.offset());
        let (ip, hot, target) = (self.start, self.hot.base, self.cold.base);
        let cold = i32::try_from(target.wrapping_sub(hot) as i64).map_err(|_| Error::OutOfReach { ip, target })?;
        self.hot.align(8, 0xcc);
        self.cold.align(8, 0xcc);
        self.ahead.sort_by_key(|one| (one.segment, one.instruction));
        let rare = Rare {
            sites: self.sites[..].into(),
            site_instructions: self.site_instructions[..].into(),
            steps: if self.plan.needs_steps { self.plan.steps[..].into() } else { Box::default() },
            loop_start: self.loop_start,
            derived: self.derived,
        };
        let has_rare = !rare.sites.is_empty() || !rare.steps.is_empty() || rare.loop_start.is_some();
        let mut drafts = Drafts {
            hot: self.hot.bytes,
            cold: self.cold.bytes,
            hot_map: self.hot_map,
            cold_map: self.cold_map,
            packed: self.packed,
            exits: self.exits,
            goes_back: self.goes_back,
            sites: self.sites,
            site_instructions: self.site_instructions,
            ahead: self.ahead,
            uses: self.scratch.uses,
            once: self.once,
            counted_segments: self.counted_segments,
            page_limits: self.page_limits,
            pieces: self.pieces,
        };
        let fragment = Fragment {
            ip,
            hot,
            metadata: FragmentMetadata::pack(&mut drafts, ip, hot, target),
            rare: has_rare.then(|| Box::new(rare)),
            landing: None,
            returns_at: self.returns_at.and_then(|at| NonZeroU32::new((at - hot) as u32 + 1)),
            incoming: Chain::EMPTY,
            length: (end - ip) as u32,
            hot_length,
            cold,
            cold_length,
            first_exit: self.first_exit,
            compares: self.compares,
            dead: false,
        };
        Ok((fragment, drafts))
    }

    fn begin(&mut self, number: usize, one: &Decoded) {
        self.scratch.current = number;
        // The values of dead registers need not come back.
        self.scratch.spilled &= one.before.registers;
        self.current = (one.instruction.ip() - self.start) as u32;
        self.counted = 0;
        self.map_hot(State::Before);
    }

    pub(crate) fn new_site(&mut self, site: &Site) -> Result<SiteId, Error> {
        let id = self.env.new_site(site);
        self.sites.push(id);
        self.site_instructions.push(self.current);
        Ok(id)
    }

    pub(crate) fn map_entry(&self, offset: u32, state: State) -> MapEntry {
        let state = if state == State::Before && self.counted > 0 { State::Counting } else { state };
        MapEntry {
            offset,
            instruction: self.current,
            spilled: self.scratch.spilled,
            saved: 0,
            state,
            counted: self.counted,
            begun: self.begun,
            checked: self.checked,
        }
    }

    #[inline(never)]
    pub(crate) fn map_hot(&mut self, state: State) {
        let entry = self.map_entry(self.hot.offset(), state);
        push_entry(&mut self.hot_map, entry);
    }

    /// The same state with other registers spilled.
    pub(crate) fn map_spilled(&mut self) {
        let state = self.hot_map.last().map_or(State::Before, |entry| entry.state);
        self.map_hot(state);
    }

    #[inline(never)]
    pub(crate) fn map_cold(&mut self, state: State) {
        let entry = self.map_entry(self.cold.offset(), state);
        push_entry(&mut self.cold_map, entry);
    }

    pub(crate) fn resolve_hot(&mut self, field: Field, target: u64) -> Result<(), Error> {
        let ok = self.hot.resolve(field, target);
        if ok { Ok(()) } else { Err(Error::OutOfReach { ip: self.start, target }) }
    }

    pub(crate) fn resolve_cold(&mut self, field: Field, target: u64) -> Result<(), Error> {
        let ok = self.cold.resolve(field, target);
        if ok { Ok(()) } else { Err(Error::OutOfReach { ip: self.start, target }) }
    }

    /// Writes one instruction of the program, which `code` begins with, with its counting. `true`: control does not go
    /// on after it.
    fn instruction(&mut self, number: usize, one: &Decoded, code: &[u8]) -> Result<bool, Error> {
        let instruction = &one.instruction;
        if instruction.is_invalid() {
            self.scratch.restore(&mut self.hot, u16::MAX);
            self.hot.raw(&[0x0f, 0x0b]);
            return Ok(true);
        }
        if let Some(obstacle) = one.obstacle {
            self.scratch.restore(&mut self.hot, u16::MAX);
            let field = self.hot.relative(&[0xe9]);
            let stub = self.cold.here();
            self.resolve_hot(field, stub)?;
            self.exit_stub(ExitKind::Unsupported(obstacle), instruction.ip())?;
            return Ok(true);
        }
        let list = one.accesses_in(self.accesses);
        // What the instruction itself looks at, and with it what addresses are computed from, must be in place.
        let needs = list.iter().fold(one.usage.reads, |set, access| set | access.address.registers(access.shape));
        self.scratch.restore(&mut self.hot, needs);
        self.map_hot(State::Before);
        if list.first().is_some_and(|access| access.shape == Shape::String) {
            self.string(one, code, list)?;
            return Ok(false);
        }
        let grouped = self.plan.grouped.get(number).copied().unwrap_or(0);
        for (index, access) in list.iter().enumerate() {
            if grouped >> index.min(7) & 1 != 0 && index < 8 {
                continue;
            }
            self.count_access(instruction, access, one.before)?;
            self.counted = self.counted.saturating_add(1);
            self.map_hot(State::Counting);
            self.scratch.restore(&mut self.hot, needs);
        }
        if one.leaves {
            self.scratch.restore(&mut self.hot, u16::MAX);
        }
        // With nothing counted here, the thread still stands before the instruction.
        self.map_hot(if self.counted == 0 { State::Before } else { State::Counted });
        let closed = self.original(one, code)?;
        self.scratch.spilled &= !one.usage.kills;
        if sets_fs_base(instruction) {
            self.note_fs_base();
        }
        Ok(closed)
    }

    /// Behind an instruction that has changed the base of FS: a thread that stops here goes on to the next one first.
    fn note_fs_base(&mut self) {
        self.counted = self.counted.max(1);
        self.map_hot(State::Counted);
        let register = self.scratch.pick(&mut self.hot, u16::MAX, 0);
        self.map_hot(State::Counted);
        self.hot.read_fs(register);
        self.hot.store(register, Memory::context(context::FS_BASE));
    }

    /// The instruction itself.
    fn original(&mut self, one: &Decoded, code: &[u8]) -> Result<bool, Error> {
        let instruction = &one.instruction;
        let next = instruction.ip() + one.length as u64;
        let is_own = |mnemonic| matches!(mnemonic, Mnemonic::Rdpid | Mnemonic::Rdtscp);
        if !one.leaves && !is_own(instruction.mnemonic()) {
            self.copy(one, code)?;
            return Ok(false);
        }
        match instruction.flow_control() {
            _ if instruction.mnemonic() == Mnemonic::Syscall => self.system_call(next)?,
            _ if is_old_call(instruction) => self.old_system_call(next, &code[..one.length])?,
            _ if let Some(how) = FarReturn::of(instruction) => self.hand_over(ExitKind::Returns(how))?,
            _ if is_request(instruction) => self.hand_over(ExitKind::Request)?,
            _ if let Some(query) = CpuQuery::of(self.config, instruction) => {
                self.hand_over(ExitKind::CpuQuery(query))?;
            }
            _ if instruction.mnemonic() == Mnemonic::Xbegin => {
                // A transaction that always aborts, for no particular reason: allowed, and what follows is the
                // program's other path.
                self.hot.constant(RAX, 0);
                self.map_hot(State::Counted);
                self.leave_to(&[0xe9], instruction.near_branch64())?;
            }
            _ if self.config.own_processor && is_own(instruction.mnemonic()) => {
                self.processor(instruction);
                return Ok(false);
            }
            FlowControl::Next | FlowControl::XbeginXabortXend => {
                self.copy(one, code)?;
                return Ok(false);
            }
            flow if matches!(flow, FlowControl::Interrupt | FlowControl::Exception) || is_privileged(instruction) => {
                self.copy(one, code)?;
                self.current = (next - self.start) as u32;
                self.counted = 0;
                self.map_hot(State::Before);
                self.leave_to(&[0xe9], next)?;
            }
            FlowControl::ConditionalBranch => {
                self.conditional(instruction, &code[..one.length])?;
                return Ok(false);
            }
            FlowControl::UnconditionalBranch => self.leave_to(&[0xe9], instruction.near_branch64())?,
            FlowControl::Call => {
                self.push_return(next)?;
                self.leave_to(&[0xe9], instruction.near_branch64())?;
            }
            FlowControl::IndirectBranch | FlowControl::IndirectCall => self.indirect(one, next)?,
            _ => self.give_back(instruction),
        }
        Ok(true)
    }

    /// Copies an instruction that goes on to the next one, pointing a RIP-relative operand to where it pointed.
    fn copy(&mut self, one: &Decoded, code: &[u8]) -> Result<(), Error> {
        let instruction = &one.instruction;
        if !instruction.is_ip_rel_memory_operand() {
            self.hot.copy(code, one.length);
            return Ok(());
        }
        let code = &code[..one.length];
        let target = instruction.ip_rel_memory_address();
        let distance = target.wrapping_sub(self.hot.here() + one.length as u64) as i64;
        let reachable = i32::try_from(distance).ok().filter(|_| instruction.memory_base() == Register::RIP);
        let at = one.displacement_offset;
        if let Some(short) = reachable {
            self.hot.raw(&code[..at]);
            self.hot.imm32(short as u32);
            self.hot.raw(&code[at + 4..]);
            return Ok(());
        }
        // Too far, or relative to eip: through a register. One of the lower eight, so that no prefix changes; the
        // operand has room for it, as its ModRM byte is followed by 32 bits of displacement either way.
        let used = one.usage.reads | one.usage.kills;
        let low = 0xff & !(1 << RSP);
        let register = self.scratch.pick(&mut self.hot, one.before.registers, used | !low);
        self.map_spilled();
        self.hot.constant(register, target);
        let mut copy = [0u8; LONGEST];
        let copy = &mut copy[..code.len()];
        copy.copy_from_slice(code);
        copy[at - 1] = copy[at - 1] & 0x38 | 0x80 | register;
        copy[at..at + 4].fill(0);
        self.hot.raw(copy);
        Ok(())
    }

    /// Compares the program's code with what is translated here, and has it translated afresh where it differs. The
    /// flags are left alone even if they are dead here: the new code may look at them.
    fn compare_code(&mut self, bytes: &[u8]) -> Result<(), Error> {
        const VALUE: u8 = 11;
        self.scratch.take(&mut self.hot, VALUE, u16::MAX);
        self.scratch.take(&mut self.hot, RCX, u16::MAX);
        self.map_spilled();
        let stale = self.cold.here();
        let mut at = 0;
        while at < bytes.len() {
            let (size, opcode): (usize, &[u8]) = match bytes.len() - at {
                8.. => (8, &[0x4c, 0x8b, 0x1d]),       // mov r11, [rip + ..]
                4.. => (4, &[0x44, 0x8b, 0x1d]),       // mov r11d, [rip + ..]
                2.. => (2, &[0x44, 0x0f, 0xb7, 0x1d]), // movzx r11d, word [rip + ..]
                _ => (1, &[0x44, 0x0f, 0xb6, 0x1d]),   // movzx r11d, byte [rip + ..]
            };
            let field = self.hot.relative(opcode);
            self.resolve_hot(field, self.start + at as u64)?;
            let mut expected = [0u8; 8];
            expected[..size].copy_from_slice(&bytes[at..at + size]);
            self.hot.constant(RCX, u64::from_le_bytes(expected).wrapping_neg());
            self.hot.lea(RCX, Memory::Flat { base: Some(RCX), index: Some(VALUE), scale: 1, displacement: 0 });
            self.hot.raw(&[0xe3, 5]); // jrcxz past the next
            let field = self.hot.relative(&[0xe9]);
            self.resolve_hot(field, stale)?;
            at += size;
        }
        self.map_cold(State::Before);
        for register in [VALUE, RCX] {
            self.cold.load(register, Memory::context(context::spill(register)));
        }
        self.exit_stub(ExitKind::Stale, self.start)
    }
}

/// Adds an entry to a map, in place of one that covers nothing.
pub(crate) fn push_entry(entries: &mut Vec<MapEntry>, entry: MapEntry) {
    if let Some(last) = entries.last_mut() {
        if last.offset == entry.offset {
            *last = entry;
            return;
        }
        if (MapEntry { offset: entry.offset, ..*last }) == entry {
            return;
        }
    }
    entries.push(entry);
}
