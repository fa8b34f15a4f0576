//! Which registers and flags are still needed: exact data flow over a bounded piece of the program's control flow.
//!
//! Look-ahead starts at an address, follows jumps both ways, and stops at calls, returns, indirect jumps, system calls,
//! at code that cannot be read, and when it has seen enough; beyond that everything is needed. Wrong answers are only
//! ever too cautious, with one convention: flags are dead at calls, returns, and jumps through pointers that were
//! loaded ([`super::flags_abi`] finds out where it does not hold).

use super::decode::LONGEST;
use super::flags_abi::Pointers;
use super::forms::{Encoded, Forms};
use crate::abi::registers::RSP;
use crate::{Config, Env};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use numalens_isa::{PAGE, STATUS_FLAGS, Usage};

/// Look-ahead instructions outside and inside of loops. In a loop it pays: what is dead there is dead on every
/// iteration.
const AHEAD: u16 = 16;
const AHEAD_IN_LOOPS: u16 = 100;
/// Outside of loops, while nothing has told whether flags are needed: floating point leaves them alone, and long pieces
/// of it (block solvers, unrolled kernels) would be counted access by access.
const AHEAD_FOR_FLAGS: u16 = 1024;
/// Places for remembered answers: a power of two.
const REMEMBERED: usize = 1 << 14;
/// Places for the nodes of an exploration: more than twice as many as there can be.
const NUMBERED: usize = 256;

/// Registers and flags whose value is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub registers: u16,
    pub flags: u8,
}

impl Live {
    pub const ALL: Live = Live { registers: u16::MAX, flags: STATUS_FLAGS };
    const NONE: Live = Live { registers: 0, flags: 0 };

    pub fn or(self, other: Live) -> Live {
        Live { registers: self.registers | other.registers, flags: self.flags | other.flags }
    }

    fn without(self, other: Live) -> Live {
        Live { registers: self.registers & !other.registers, flags: self.flags & !other.flags }
    }

    fn with_stack(self) -> Live {
        Live { registers: self.registers | 1 << RSP, ..self }
    }

    /// From after an instruction to before it.
    pub fn before(self, usage: &Usage) -> Live {
        Live {
            registers: self.registers & !usage.kills | usage.reads | 1 << RSP,
            flags: self.flags & !usage.flags_killed | usage.flags_read,
        }
    }
}

/// A piece of the program's code at hand.
#[derive(Debug)]
pub(crate) struct Window {
    start: u64,
    bytes: [u8; Self::SIZE],
    /// How many of them are the program's.
    length: usize,
}

impl Window {
    const SIZE: usize = 192;

    pub fn new() -> Self {
        Window { start: 0, bytes: [0; Self::SIZE], length: 0 }
    }

    /// Code may have changed.
    pub fn forget(&mut self) {
        self.length = 0;
    }

    /// The readable bytes at `ip`, at least one instruction's if that many are readable.
    pub fn code(&mut self, env: &mut impl Env, ip: u64) -> &[u8] {
        let offset = ip.wrapping_sub(self.start);
        if offset.saturating_add(LONGEST as u64) > self.length as u64 {
            self.start = ip;
            self.length = env.read_code(ip, &mut self.bytes).min(Self::SIZE);
            return &self.bytes[..self.length];
        }
        &self.bytes[offset as usize..self.length]
    }
}

/// The next instruction of `code`, which is what `decoder` decodes, and what it needs and overwrites; `None` when it
/// cannot be read, when it is not within `bounds`, or when somebody looks at the registers before it. An instruction
/// that is not valid has length 1 or more.
fn next(
    decoder: &mut Decoder,
    code: &[u8],
    bounds: &Range<u64>,
    forms: &mut Forms,
    env: &mut impl Env,
) -> Option<(Instruction, Usage)> {
    if !bounds.contains(&decoder.ip()) || env.watch(decoder.ip()).is_some() || !decoder.can_decode() {
        return None;
    }
    let bytes = &code[decoder.position()..];
    let start = decoder.ip();
    let instruction = decoder.decode();
    if decoder.last_error() == DecoderError::NoMoreBytes || instruction.next_ip() > bounds.end {
        return None;
    }
    if *bounds != EVERYTHING {
        env.looked_at(start, instruction.next_ip());
    }
    let usage = forms.of(Encoded { instruction: &instruction, bytes }).usage;
    Some((instruction, usage))
}

/// Answers what is live at an address.
pub(crate) struct Liveness {
    pub forms: Forms,
    pub window: Window,
    known: Answers,
    pub flags_dead_at_calls: bool,
    /// The code that an answer may depend on.
    bounds: Range<u64>,
    /// Of one exploration; kept for their memory.
    nodes: Vec<Node>,
    numbers: [u8; NUMBERED],
    work: Vec<(u64, Edge)>,
    /// The nodes of jumps through a register, each behind that of its load, with only straight code in between.
    loaded_jumps: Vec<(u32, u32)>,
}

/// An answer, and how many instructions it looks ahead: `EXACT` where it saw every way to its end.
#[derive(Clone, Copy)]
struct Known {
    ip: u64,
    live: Live,
    looked: u16,
}

/// The last answer for each of many sets of addresses.
struct Answers {
    places: Box<[Known]>,
}

impl Answers {
    const NONE: Known = Known { ip: 0, live: Live::ALL, looked: 0 };

    fn new() -> Self {
        Answers { places: Box::default() }
    }

    fn forget(&mut self) {
        self.places.fill(Self::NONE);
    }

    fn place(&mut self, ip: u64) -> &mut Known {
        // A process whose code is persisted never asks.
        if self.places.is_empty() {
            self.places = alloc::vec![Self::NONE; REMEMBERED].into();
        }
        &mut self.places[place(ip, REMEMBERED)]
    }

    /// One that looks ahead by at least this much.
    fn get(&mut self, ip: u64, looked: u16) -> Option<Known> {
        let known = *self.place(ip);
        (known.ip == ip && known.looked >= looked).then_some(known)
    }

    /// In place of another, unless it is for the same address and has looked farther.
    fn put(&mut self, known: Known) {
        let place = self.place(known.ip);
        if place.ip != known.ip || place.looked < known.looked {
            *place = known;
        }
    }
}

/// Where something with this key belongs among `places`, a power of two.
pub(crate) fn place(key: u64, places: usize) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - places.ilog2())) as usize
}

const EXACT: u16 = u16::MAX;
/// No bounds.
const EVERYTHING: Range<u64> = 0..u64::MAX;

/// From a node, through its first or second successor; `None` for the start.
type Edge = Option<(u32, usize)>;

struct Node {
    ip: u64,
    usage: Usage,
    successors: [Option<u32>; 2],
    /// What is needed beyond, apart from the successors.
    beyond: Live,
    live: Live,
}

impl Liveness {
    pub fn new(config: &Config) -> Self {
        Liveness {
            forms: Forms::new(config),
            window: Window::new(),
            known: Answers::new(),
            flags_dead_at_calls: config.flags_dead_at_calls,
            bounds: EVERYTHING,
            nodes: Vec::new(),
            numbers: [0; NUMBERED],
            work: Vec::new(),
            loaded_jumps: Vec::new(),
        }
    }

    /// Code has changed.
    pub fn forget(&mut self) {
        self.known.forget();
        self.window.forget();
    }

    /// After a call or return.
    pub fn at_call(&self) -> Live {
        if self.flags_dead_at_calls { Live { flags: 0, ..Live::ALL } } else { Live::ALL }
    }

    /// What is needed at `ip`, as far as its own page tells.
    pub fn within_page(&mut self, env: &mut impl Env, ip: u64, in_loop: bool) -> Live {
        let page = ip & !(PAGE - 1);
        self.bounds = page..page.saturating_add(PAGE);
        let live = self.at(env, ip, in_loop);
        self.bounds = EVERYTHING;
        live
    }

    /// What is needed at `ip`.
    pub fn at(&mut self, env: &mut impl Env, ip: u64, in_loop: bool) -> Live {
        let budget = if in_loop { AHEAD_IN_LOOPS } else { AHEAD };
        if let Some(known) = self.known.get(ip, budget) {
            return known.live;
        }
        if !in_loop {
            let live = self.scan(env, ip);
            self.known.put(Known { ip, live, looked: AHEAD });
            return live;
        }
        let whole = self.explore(env, ip, budget);
        self.doubt_loaded_jumps();
        fixpoint(&mut self.nodes);
        // Each node is an answer of its own, the better the earlier it was seen; but for those between a load and the
        // jump through it, to which one may come on another way.
        for (number, node) in self.nodes.iter().enumerate() {
            if self.loaded_jumps.iter().any(|&(load, jump)| (load + 1..=jump).contains(&(number as u32))) {
                continue;
            }
            let looked = if whole { EXACT } else { budget - number as u16 };
            self.known.put(Known { ip: node.ip, live: node.live, looked });
        }
        self.nodes.first().map_or(Live::ALL, |node| node.live)
    }

    /// Straight on from `start`: for code that is not in a loop, where looking further costs more than it saves. At a
    /// conditional jump whose target is not known yet, everything is needed that has not been overwritten by then.
    fn scan(&mut self, env: &mut impl Env, start: u64) -> Live {
        let (mut needed, mut overwritten) = (Live::NONE, Live::NONE);
        let at_call = self.at_call();
        let Liveness { window, forms, known, bounds, .. } = self;
        let (mut ip, mut looked, mut pointers) = (start, 0, Pointers::default());
        let goes_on = |looked, needed: Live, overwritten: Live| {
            let decided = (needed.flags | overwritten.flags) == STATUS_FLAGS;
            looked < if decided { AHEAD } else { AHEAD_FOR_FLAGS }
        };
        'look: while goes_on(looked, needed, overwritten) {
            let code = window.code(env, ip);
            let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
            // Straight on, as far as the code at hand goes.
            while goes_on(looked, needed, overwritten)
                && (decoder.position() == 0 || code.len() - decoder.position() >= LONGEST)
            {
                let Some((instruction, usage)) = next(&mut decoder, code, bounds, forms, env) else { break 'look };
                looked += 1;
                needed.registers |= usage.reads & !overwritten.registers;
                needed.flags |= usage.flags_read & !overwritten.flags;
                overwritten.registers |= usage.kills;
                overwritten.flags |= usage.flags_killed;
                ip = instruction.next_ip();
                let beyond = match instruction.flow_control() {
                    FlowControl::Next if instruction.mnemonic() != Mnemonic::Syscall => {
                        pointers.pass(&instruction, &usage);
                        continue;
                    }
                    FlowControl::UnconditionalBranch => {
                        ip = instruction.near_branch64();
                        continue 'look;
                    }
                    FlowControl::ConditionalBranch => match known.get(instruction.near_branch64(), 1) {
                        Some(known) if bounds.contains(&known.ip) => {
                            needed = needed.or(known.live.without(overwritten));
                            continue;
                        }
                        _ => Live::ALL,
                    },
                    FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return => at_call,
                    FlowControl::IndirectBranch if pointers.lead(&instruction) => at_call,
                    _ => Live::ALL,
                };
                return needed.or(beyond.without(overwritten)).with_stack();
            }
        }
        needed.or(Live::ALL.without(overwritten)).with_stack()
    }

    /// Fills `nodes` from `start` on. `true` when every way was followed to an end.
    fn explore(&mut self, env: &mut impl Env, start: u64, budget: u16) -> bool {
        self.nodes.clear();
        self.numbers = [0; NUMBERED];
        self.work.clear();
        self.loaded_jumps.clear();
        self.work.push((start, None));
        let mut whole = true;
        while let Some((mut ip, mut from)) = self.work.pop() {
            let mut pointers = Pointers::default();
            loop {
                let (place, node) = self.node(ip);
                if let Some(number) = node {
                    self.connect(from, number);
                    break;
                }
                // An answer that is as good as what would be found now.
                if from.is_some()
                    && self.bounds.contains(&ip)
                    && let Some(Known { live, looked, .. }) = self.known.get(ip, (budget - self.seen()).max(1))
                {
                    whole &= looked == EXACT;
                    self.end(from, live);
                    break;
                }
                let found = if self.seen() < budget { self.instruction(env, ip) } else { None };
                let Some((instruction, usage)) = found else {
                    whole = false;
                    self.end(from, Live::ALL);
                    break;
                };
                let number = self.nodes.len() as u32;
                self.connect(from, number);
                self.numbers[place] = number as u8 + 1;
                self.nodes.push(Node { ip, usage, successors: [None; 2], beyond: Live::NONE, live: Live::NONE });
                from = Some((number, 0));
                match instruction.flow_control() {
                    FlowControl::Next if instruction.mnemonic() != Mnemonic::Syscall => {
                        pointers.pass(&instruction, &usage);
                        ip = instruction.next_ip();
                    }
                    FlowControl::UnconditionalBranch => ip = instruction.near_branch64(),
                    FlowControl::ConditionalBranch => {
                        self.work.push((instruction.near_branch64(), Some((number, 1))));
                        ip = instruction.next_ip();
                    }
                    FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return => {
                        self.end(from, self.at_call());
                        break;
                    }
                    FlowControl::IndirectBranch if pointers.lead(&instruction) => {
                        if instruction.op0_kind() == OpKind::Register {
                            let register = instruction.op0_register().number() as u32 & 15;
                            let is_load = |node: &Node| node.usage.writes >> register & 1 != 0;
                            let load = self.nodes.iter().rposition(is_load).unwrap_or_default();
                            self.loaded_jumps.push((load as u32, number));
                        }
                        self.end(from, self.at_call());
                        break;
                    }
                    _ => {
                        self.end(from, Live::ALL);
                        break;
                    }
                }
            }
        }
        whole
    }

    /// All is needed behind a jump through a register to which another way comes, past its load.
    fn doubt_loaded_jumps(&mut self) {
        for &(load, jump) in &self.loaded_jumps {
            let comes = |(number, node): (usize, &Node)| {
                let mut successors = node.successors.iter().flatten();
                successors.any(|&to| (load + 1..=jump).contains(&to) && number as u32 + 1 != to)
            };
            if self.nodes.iter().enumerate().any(comes) {
                self.nodes[jump as usize].beyond = Live::ALL;
            }
        }
    }

    /// The instruction at `ip`, as of [`next`].
    pub fn instruction(&mut self, env: &mut impl Env, ip: u64) -> Option<(Instruction, Usage)> {
        let code = self.window.code(env, ip);
        next(&mut Decoder::with_ip(64, code, ip, DecoderOptions::NONE), code, &self.bounds, &mut self.forms, env)
    }

    /// Instructions that were seen so far, at most the budget.
    fn seen(&self) -> u16 {
        self.nodes.len() as u16
    }

    /// Where the number of the node at `ip` is or is to be noted, and what it is.
    fn node(&self, ip: u64) -> (usize, Option<u32>) {
        let mut place = place(ip, NUMBERED);
        loop {
            let number = self.numbers[place].checked_sub(1);
            match number.map(|number| (number, self.nodes[usize::from(number)].ip)) {
                None => return (place, None),
                Some((number, known)) if known == ip => return (place, Some(number.into())),
                _ => place = (place + 1) % NUMBERED,
            }
        }
    }

    fn connect(&mut self, from: Edge, to: u32) {
        if let Some((node, slot)) = from {
            self.nodes[node as usize].successors[slot] = Some(to);
        }
    }

    fn end(&mut self, from: Edge, live: Live) {
        if let Some((node, _)) = from {
            let beyond = &mut self.nodes[node as usize].beyond;
            *beyond = beyond.or(live);
        }
    }
}

fn fixpoint(nodes: &mut [Node]) {
    loop {
        let mut changed = false;
        for number in (0..nodes.len()).rev() {
            let node = &nodes[number];
            let mut after = node.beyond;
            for &successor in node.successors.iter().flatten() {
                after = after.or(nodes[successor as usize].live);
            }
            let live = after.before(&node.usage);
            changed |= live != node.live;
            nodes[number].live = live;
        }
        if !changed {
            return;
        }
    }
}
