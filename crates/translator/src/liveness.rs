//! Which registers and flags are still needed: exact data flow over a bounded piece of the program's control flow.
//!
//! Look-ahead starts at an address, follows jumps both ways, and stops at calls, returns, indirect jumps, system calls, at code that
//! cannot be read, and when it has seen enough; beyond that everything is needed. Wrong answers are only ever too
//! cautious, with one convention: flags are dead at calls and returns.

use crate::Env;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic};
use numalens_isa::{STATUS_FLAGS, Usage};

/// Look-ahead instructions outside and inside of loops. In a loop it pays: what is dead there is dead on every iteration.
const AHEAD: usize = 24;
const AHEAD_IN_LOOPS: usize = 200;
/// Remembered answers; all are forgotten when there are more.
const REMEMBERED: usize = 1 << 16;

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

    /// From after an instruction to before it.
    pub fn before(self, usage: &Usage) -> Live {
        Live {
            registers: self.registers & !usage.kills | usage.reads | 1 << crate::emit::RSP,
            flags: self.flags & !usage.flags_killed | usage.flags_read,
        }
    }
}

/// A piece of the program's code at hand.
#[derive(Debug)]
pub(crate) struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    const SIZE: usize = 512;

    pub fn new() -> Self {
        Window { start: 0, bytes: Vec::new() }
    }

    /// Code may have changed.
    pub fn forget(&mut self) {
        self.bytes.clear();
    }

    /// The readable bytes at `ip`, at least one instruction's if that many are readable.
    pub fn code(&mut self, env: &mut impl Env, ip: u64) -> &[u8] {
        let offset = ip.wrapping_sub(self.start);
        if offset.saturating_add(15) > self.bytes.len() as u64 {
            self.start = ip;
            self.bytes.resize(Self::SIZE, 0);
            let length = env.read_code(ip, &mut self.bytes).min(Self::SIZE);
            self.bytes.truncate(length);
            return &self.bytes;
        }
        &self.bytes[offset as usize..]
    }

    /// The instruction at `ip`; `None` when it cannot be read. An instruction that is not valid has length 1 or more.
    pub fn instruction(&mut self, env: &mut impl Env, ip: u64) -> Option<Instruction> {
        let code = self.code(env, ip);
        let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
        if !decoder.can_decode() {
            return None;
        }
        let instruction = decoder.decode();
        (decoder.last_error() != iced_x86::DecoderError::NoMoreBytes).then_some(instruction)
    }
}

/// Answers what is live at an address.
pub(crate) struct Liveness {
    factory: InstructionInfoFactory,
    window: Window,
    known: HashMap<u64, (Live, usize)>,
    flags_dead_at_calls: bool,
}

struct Node {
    usage: Usage,
    successors: [Option<u32>; 2],
    /// What is needed beyond, apart from the successors.
    beyond: Live,
    live: Live,
}

impl Liveness {
    pub fn new(flags_dead_at_calls: bool) -> Self {
        Liveness {
            factory: InstructionInfoFactory::new(),
            window: Window::new(),
            known: HashMap::new(),
            flags_dead_at_calls,
        }
    }

    pub fn forget(&mut self) {
        self.known.clear();
        self.window.forget();
    }

    pub fn usage(&mut self, instruction: &Instruction) -> Usage {
        Usage::of(instruction, self.factory.info(instruction))
    }

    /// After a call or return.
    pub fn at_call(&self) -> Live {
        if self.flags_dead_at_calls { Live { flags: 0, ..Live::ALL } } else { Live::ALL }
    }

    /// What is needed at `ip`.
    pub fn at(&mut self, env: &mut impl Env, ip: u64, in_loop: bool) -> Live {
        let budget = if in_loop { AHEAD_IN_LOOPS } else { AHEAD };
        if let Some(&(live, looked)) = self.known.get(&ip)
            && looked >= budget
        {
            return live;
        }
        let mut nodes = self.explore(env, ip, budget);
        fixpoint(&mut nodes);
        let live = nodes.first().map_or(Live::ALL, |node| node.live);
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(ip, (live, budget));
        live
    }

    fn explore(&mut self, env: &mut impl Env, start: u64, budget: usize) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::with_capacity(budget);
        let mut numbers: HashMap<u64, u32> = HashMap::with_capacity(budget);
        // Where to look, and whose successor it is.
        let mut work: Vec<(u64, Option<(u32, usize)>)> = vec![(start, None)];
        let mut next = 0;
        while let Some(&(mut ip, mut from)) = work.get(next) {
            next += 1;
            loop {
                let connect = |nodes: &mut Vec<Node>, to: Option<u32>| {
                    if let Some((node, slot)) = from {
                        match to {
                            Some(to) => nodes[node as usize].successors[slot] = Some(to),
                            None => nodes[node as usize].beyond = Live::ALL,
                        }
                    }
                };
                if let Some(&number) = numbers.get(&ip) {
                    connect(&mut nodes, Some(number));
                    break;
                }
                let instruction = if nodes.len() < budget { self.window.instruction(env, ip) } else { None };
                let Some(instruction) = instruction else {
                    connect(&mut nodes, None);
                    break;
                };
                let number = nodes.len() as u32;
                connect(&mut nodes, Some(number));
                numbers.insert(ip, number);
                let usage = Usage::of(&instruction, self.factory.info(&instruction));
                nodes.push(Node { usage, successors: [None; 2], beyond: Live::NONE, live: Live::NONE });
                from = Some((number, 0));
                match instruction.flow_control() {
                    FlowControl::Next if instruction.mnemonic() != Mnemonic::Syscall => ip = instruction.next_ip(),
                    FlowControl::UnconditionalBranch => ip = instruction.near_branch64(),
                    FlowControl::ConditionalBranch => {
                        work.push((instruction.near_branch64(), Some((number, 1))));
                        ip = instruction.next_ip();
                    }
                    FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return => {
                        nodes[number as usize].beyond = self.at_call();
                        break;
                    }
                    _ => {
                        nodes[number as usize].beyond = Live::ALL;
                        break;
                    }
                }
            }
        }
        nodes
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
