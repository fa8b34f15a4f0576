//! The search for an access around one sampled address, prepared once and resolved for many samples.

use crate::boundaries::{Code64, block_before, has_frame_pointer};
use crate::operand::Operands;
use crate::step::{State, Step};
use crate::{Found, RecoveredAccess, Registers};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use iced_x86::{ConditionCode, FlowControl, Instruction, InstructionInfoFactory};

/// Instructions looked at backwards.
const BACK: usize = 32;
/// Instructions decoded forwards.
const FORWARD: usize = 64;
/// Instructions emulated forwards.
const STEPS: u32 = 64;

/// What to try, in order, for a sample at one address.
///
/// Made by [`plan`]; a plan holds no code and stays valid as long as the code does not change.
#[derive(Clone, Debug)]
pub struct Plan {
    ip: u64,
    /// The basic block before the sampled instruction, nearest first.
    before: Vec<Node>,
    /// The sampled instruction and what may follow it; edges are indexes into this list.
    forward: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    ip: u64,
    step: Step,
    operands: Operands,
    flow: Flow,
}

/// An index into [`Plan::forward`]; `None` where the search ends.
type Edge = Option<u16>;

#[derive(Clone, Copy, Debug)]
enum Flow {
    To(Edge),
    Branch { condition: ConditionCode, taken: Edge, not_taken: Edge, likely: bool },
}

/// Prepares the search around `ip`.
///
/// `code` holds the bytes around `ip` and starts at the address `code_start`; more than 2 KiB before and 512 bytes
/// behind are not looked at, fewer find fewer jumps into the block and may lack the boundary: with 192 bytes on both
/// sides, one sample in twenty of a C compiler got another answer than with its whole functions, with 2 KiB one in
/// fifty. `boundary` is an address at or below `ip` where an instruction is known to start, the function's first byte:
/// it makes the search backwards exact, and tells whether rbp is a frame pointer. An `ip` outside of the code gives a
/// plan that resolves nothing.
pub fn plan(code: &[u8], code_start: u64, boundary: Option<u64>, ip: u64) -> Plan {
    let code = Code64::new(code, code_start);
    let mut reader = Reader { info: InstructionInfoFactory::new(), frame_pointer: has_frame_pointer(code, boundary) };
    let mut before: Vec<Node> =
        block_before(code, boundary, ip, BACK).iter().map(|instruction| reader.node(instruction)).collect();
    // What precedes the first instruction that accesses anything is all that is ever needed.
    let last = before.iter().rposition(|node| node.operands.any()).map_or(0, |last| last + 1);
    before.truncate(last);
    before.shrink_to_fit();
    let certain = before
        .iter()
        .position(|node| node.operands.any())
        .is_some_and(|nearest| resolves_backwards(&before[..=nearest]));
    if certain {
        before.truncate(before.iter().position(|node| node.operands.any()).map_or(0, |nearest| nearest + 1));
    }
    Plan { ip, before, forward: follow(code, &mut reader, ip, certain) }
}

/// [`plan`] and [`Plan::resolve`] in one, for a single sample.
pub fn recover(code: &[u8], code_start: u64, boundary: Option<u64>, regs: &Registers) -> Option<RecoveredAccess> {
    plan(code, code_start, boundary, regs.ip).resolve(regs)
}

impl Plan {
    /// The access that a sample with these registers stands for; `None` when none could be found, or when the
    /// registers belong to another address than the plan's.
    pub fn resolve(&self, registers: &Registers) -> Option<RecoveredAccess> {
        if registers.ip != self.ip {
            return None;
        }
        let under_way = self.forward.first().is_some_and(|node| node.step.is_repeated());
        let mut backwards = Backwards { nodes: &self.before, state: State::of(registers), done: 0 };
        let nearest = if under_way { None } else { backwards.next_access(registers, true) };
        nearest.or_else(|| self.forwards(registers)).or_else(|| backwards.next_access(registers, false))
    }

    fn forwards(&self, registers: &Registers) -> Option<RecoveredAccess> {
        let mut state = State::of(registers);
        let mut at = 0u16;
        for distance in 0..STEPS {
            let node = self.forward.get(usize::from(at))?;
            let found = if distance == 0 { Found::At } else { Found::After };
            if let Some(access) = node.access(&state, registers, found, distance) {
                return Some(access);
            }
            let next =
                match node.flow {
                    Flow::To(edge) => edge,
                    Flow::Branch { condition, taken, not_taken, likely } => {
                        if state.holds(condition).unwrap_or(likely) { taken } else { not_taken }
                    }
                };
            node.step.advance(&mut state);
            at = next?;
        }
        None
    }
}

/// A walk back through the block that can be continued.
struct Backwards<'a> {
    nodes: &'a [Node],
    state: State,
    done: usize,
}

impl Backwards<'_> {
    /// The next access backwards whose address is known; with `nearest` gives up at the first one that is not.
    fn next_access(&mut self, registers: &Registers, nearest: bool) -> Option<RecoveredAccess> {
        while let Some(node) = self.nodes.get(self.done) {
            self.done += 1;
            let after = self.state;
            node.step.undo(&mut self.state);
            if node.operands.any() {
                let distance = self.done as u32;
                let access = node.access_undone(&self.state, &after, registers, distance);
                if access.is_some() || nearest {
                    return access;
                }
            }
        }
        None
    }
}

impl Node {
    fn access(&self, state: &State, registers: &Registers, found: Found, distance: u32) -> Option<RecoveredAccess> {
        self.recovered(found, distance, |operand| {
            // A repeated string instruction whose count has run out accesses nothing.
            if self.step.is_repeated() && state.get(1) == Some(0) {
                return None;
            }
            operand.address(state, registers)
        })
    }

    /// `after` is the state behind the instruction: string instructions leave their pointers one element further.
    fn access_undone(
        &self,
        before: &State,
        after: &State,
        registers: &Registers,
        distance: u32,
    ) -> Option<RecoveredAccess> {
        self.recovered(Found::Before, distance, |operand| {
            if operand.string {
                Some(operand.address(after, registers)?.wrapping_sub(u64::from(operand.size)))
            } else {
                operand.address(before, registers)
            }
        })
    }

    fn recovered(
        &self,
        found: Found,
        distance: u32,
        address: impl Fn(&crate::operand::Operand) -> Option<u64>,
    ) -> Option<RecoveredAccess> {
        let operand = self.operands.list[0].as_ref()?;
        let also = self.operands.list[1].as_ref().and_then(|other| Some((address(other)?, other.kind)));
        Some(RecoveredAccess {
            ip: self.ip,
            address: address(operand)?,
            size: operand.size,
            kind: operand.kind,
            found,
            distance,
            stack: operand.stack,
            also,
        })
    }
}

/// Turns instructions into nodes.
struct Reader {
    info: InstructionInfoFactory,
    frame_pointer: bool,
}

impl Reader {
    fn node(&mut self, instruction: &Instruction) -> Node {
        let info = self.info.info(instruction);
        Node {
            ip: instruction.ip(),
            step: Step::of(instruction, info),
            operands: Operands::of(instruction, info, self.frame_pointer),
            flow: Flow::To(None),
        }
    }
}

/// Whether the last of `nodes` can be resolved from the general registers alone, whatever they hold.
fn resolves_backwards(nodes: &[Node]) -> bool {
    let registers = Registers::default();
    Backwards { nodes, state: State::of(&registers), done: 0 }.next_access(&registers, true).is_some()
}

/// Decodes what may be executed from `ip` on, until an access is sure to be resolved on every path.
///
/// A work list over (address, registers known there): an address reached again with fewer registers known is looked at
/// again, so that at the end every path is long enough. With `only_first`, nothing but the sampled instruction.
fn follow(code: Code64, reader: &mut Reader, ip: u64, only_first: bool) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut known: Vec<u16> = Vec::new();
    let mut index: BTreeMap<u64, u16> = BTreeMap::new();
    let mut queue = Vec::new();
    let Some(first) = code.instruction(ip) else { return nodes };
    nodes.push(reader.node(&first));
    known.push(u16::MAX);
    index.insert(ip, 0);
    if only_first {
        return nodes;
    }
    queue.push(0u16);
    let mut next = 0;
    while let Some(&at) = queue.get(next) {
        next += 1;
        let node = nodes[usize::from(at)];
        let registers = Registers::default();
        let mut state = State::of(&registers).with_known(known[usize::from(at)]);
        // Segment bases may be missing from a sample, so such an access is not sure.
        if node.access(&state, &registers, Found::After, 0).is_some() && !node.step.is_repeated() {
            continue;
        }
        let Some(instruction) = code.instruction(node.ip) else { continue };
        node.step.advance(&mut state);
        let mut edge = |target: u64| -> Edge {
            if let Some(&found) = index.get(&target) {
                let meet = known[usize::from(found)] & state.known();
                if meet != known[usize::from(found)] {
                    known[usize::from(found)] = meet;
                    queue.push(found);
                }
                return Some(found);
            }
            if nodes.len() >= FORWARD {
                return None;
            }
            let instruction = code.instruction(target)?;
            let new = nodes.len() as u16;
            nodes.push(reader.node(&instruction));
            known.push(state.known());
            index.insert(target, new);
            queue.push(new);
            Some(new)
        };
        let flow = match instruction.flow_control() {
            FlowControl::Next => Flow::To(edge(instruction.next_ip())),
            FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                // Loops go round more often than not.
                let likely = target <= node.ip;
                Flow::Branch {
                    condition: instruction.condition_code(),
                    taken: edge(target),
                    not_taken: edge(instruction.next_ip()),
                    likely,
                }
            }
            FlowControl::UnconditionalBranch | FlowControl::Call if is_near(&instruction) => {
                Flow::To(edge(instruction.near_branch_target()))
            }
            _ => Flow::To(None),
        };
        nodes[usize::from(at)].flow = flow;
    }
    nodes
}

/// A direct jump or call, not a system call.
fn is_near(instruction: &Instruction) -> bool {
    instruction.is_jmp_short_or_near() || instruction.is_call_near()
}
