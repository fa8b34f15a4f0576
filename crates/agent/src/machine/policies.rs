//! Calls about where pages go.

use super::cpus::NodeSet;
use super::nodes::{all_nodes, memory_nodes, number_of};
use super::policy::{self, Policy, mode};
use super::{placement, published_policies, shared_policies};
use crate::pages::{self, Exclusive, expected};
use crate::placement as places;
use crate::state::runtime::Runtime;
use crate::state::thread::Thread;
use crate::sys::user;
use crate::sys::{self, Errno, PAGE, raw};
use crate::syscalls::call::errno;
use core::ops::Range;
use linux_raw_sys::errno::{EFAULT, EINVAL, EIO, ENOENT, EOPNOTSUPP, EPERM};

const F_NODE: u64 = 1;
const F_ADDR: u64 = 2;
const F_MEMS_ALLOWED: u64 = 4;
const MF_STRICT: u64 = 1;
pub(super) const MF_MOVE: u64 = 2;
pub(super) const MF_MOVE_ALL: u64 = 4;
/// Nodes that the kernel is built for.
pub(crate) const MOST_NUMBERS: u64 = 1024;

pub(crate) type Result<T> = core::result::Result<T, u32>;

pub(super) fn word(result: Result<u64>) -> u64 {
    result.unwrap_or_else(errno)
}

pub(super) fn fault<T>(result: core::result::Result<T, Errno>) -> Result<T> {
    result.map_err(|Errno(error)| error as u32)
}

/// The nodes of a mask of the program's, of so many bits and one. What no machine can have is refused.
pub(crate) fn read_nodes(mask: u64, bits: u64) -> Result<NodeSet> {
    let bits = bits.wrapping_sub(1);
    if bits == 0 || mask == 0 {
        return Ok(NodeSet::EMPTY);
    }
    if bits > PAGE * 8 {
        return Err(EINVAL);
    }
    let mut words = [0u64; (PAGE / 8) as usize];
    let words = &mut words[..bits.div_ceil(64) as usize];
    fault(user::read_words(mask, words))?;
    if let (Some(last), 1..) = (words.last_mut(), bits % 64) {
        *last &= (1 << (bits % 64)) - 1;
    }
    let (nodes, beyond) = words.split_at(words.len().min(MOST_NUMBERS as usize / 64));
    if beyond.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    let mut found = NodeSet::EMPTY;
    found.0[..nodes.len()].copy_from_slice(nodes);
    Ok(found)
}

/// Fills a mask of the program's, of so many bits and one.
fn write_nodes(mask: u64, bits: u64, nodes: &NodeSet) -> Result<()> {
    let bytes = bits.wrapping_sub(1).next_multiple_of(64) / 8;
    if bytes > PAGE {
        return Err(EINVAL);
    }
    let mut words = [0u64; (PAGE / 8) as usize];
    words[..nodes.0.len()].copy_from_slice(&nodes.0);
    fault(user::write_words(mask, &words[..(bytes / 8) as usize]))
}

/// get_mempolicy.
pub fn get(runtime: &Runtime, thread: &Thread, [to, mask, bits, address, flags, _]: [u64; 6]) -> u64 {
    word(look(runtime, thread, [to, mask, bits, address, flags]))
}

fn look(runtime: &Runtime, thread: &Thread, [to, mask, bits, address, flags]: [u64; 5]) -> Result<u64> {
    // As many numbers as the machine's kernel has.
    let numbers = all_nodes(placement()).last().map_or(0, |last| u64::from(last) + 1);
    if flags & !(F_NODE | F_ADDR | F_MEMS_ALLOWED) != 0 || mask != 0 && bits < numbers {
        return Err(EINVAL);
    }
    let (reported, nodes) = if flags & F_MEMS_ALLOWED != 0 {
        if flags & (F_NODE | F_ADDR) != 0 {
            return Err(EINVAL);
        }
        (0, memory_nodes(placement()))
    } else if flags & F_ADDR != 0 {
        let mapping = runtime.code.lock().env.maps.find(address).copied().ok_or(EFAULT)?;
        let policy = shared_policies::of_page(&mapping, address / PAGE);
        let reported = if flags & F_NODE == 0 { policy.word() } else { node_at(runtime, thread, address)? };
        (reported, policy.reported())
    } else if address != 0 {
        return Err(EINVAL);
    } else {
        let policy = &thread.place.policy;
        let reported = match flags & F_NODE {
            0 => policy.word(),
            _ if policy.goes_round() => policy.next(thread.place.last.get()),
            _ => return Err(EINVAL),
        };
        (reported, policy.reported())
    };
    if to != 0 {
        fault(user::write_bytes(to, &reported.to_le_bytes()))?;
    }
    if mask != 0 {
        write_nodes(mask, bits, &nodes)?;
    }
    Ok(0)
}

/// The number of the node that has the page at `address`; like the kernel's answer, this brings a page there if there
/// is none.
fn node_at(runtime: &Runtime, thread: &Thread, address: u64) -> Result<u32> {
    let mut node = 0u32;
    let arguments = [&raw mut node as u64, 0, 0, address, F_NODE | F_ADDR, 0];
    // SAFETY: the program's own call, with a word of our own for the host's answer.
    let result = unsafe { sys::for_program(raw::__NR_get_mempolicy, arguments) };
    fault(sys::check(result))?;
    // The zero page of the kernel lies on the first node.
    let home = home_of(runtime, thread, address);
    Ok(home.or_else(|| all_nodes(placement()).first()).unwrap_or(0))
}

/// The number of the node that has the page at `address`, which is there.
pub(super) fn home_of(runtime: &Runtime, thread: &Thread, address: u64) -> Option<u32> {
    pages::fetched(&runtime.shadow, runtime.process(), thread, address);
    number_of(placement(), pages::home_of(&runtime.shadow, runtime.process(), address / PAGE)?)
}

/// set_mempolicy.
pub fn set(thread: &mut Thread, [kind, mask, bits, ..]: [u64; 6]) -> u64 {
    let policy = read_nodes(mask, bits).and_then(|named| Policy::new(kind as u32, named, &memory_nodes(placement())));
    word(policy.map(|policy| {
        places::settle(thread, thread.place.cpus.clone(), policy);
        thread.place.last.set(policy::NOBODY);
        0
    }))
}

/// The whole pages from `start` on.
fn range(start: u64, bytes: u64) -> Result<Range<u64>> {
    let end = start.wrapping_add(bytes.wrapping_add(PAGE - 1) & !(PAGE - 1));
    if !start.is_multiple_of(PAGE) || end < start { Err(EINVAL) } else { Ok(start..end) }
}

/// mbind.
pub fn bind(runtime: &Runtime, thread: &Thread, arguments: [u64; 6]) -> u64 {
    word(bind_to(runtime, thread, arguments))
}

fn bind_to(runtime: &Runtime, thread: &Thread, [start, bytes, kind, mask, bits, flags]: [u64; 6]) -> Result<u64> {
    let flags = flags & 0xffff_ffff;
    if flags & !(MF_STRICT | MF_MOVE | MF_MOVE_ALL) != 0 {
        return Err(EINVAL);
    }
    if flags & MF_MOVE_ALL != 0 && !sys::is_root() {
        return Err(EPERM);
    }
    let range = range(start, bytes)?;
    if range.is_empty() {
        return Ok(0);
    }
    let named = read_nodes(mask, bits)?;
    let policy = Policy::new(kind as u32, named, &memory_nodes(placement()))?;
    let moves = flags & (MF_MOVE | MF_MOVE_ALL) != 0;
    let memory = runtime.process();
    let mut code = runtime.code.lock();
    let maps = &mut code.env.maps;
    let mut next = range.start;
    let mut has_hole = false;
    for mapping in maps.overlapping(range.clone()) {
        has_hole |= mapping.start > next;
        next = mapping.end;
    }
    // To have no policy is all right wherever there is memory.
    let is_all_hole = next == range.start;
    if is_all_hole || (has_hole || next < range.end) && policy.mode != mode::DEFAULT {
        return Err(EFAULT);
    }
    let is_in_place = |home: u16| number_of(placement(), home).is_some_and(|node| named.contains(node));
    if flags & MF_STRICT != 0 && !moves && policy.mode != mode::DEFAULT {
        let mut elsewhere = false;
        pages::each_home(&runtime.shadow, memory, range.clone(), |_, home| elsewhere |= !is_in_place(home));
        if elsewhere {
            return Err(EIO);
        }
    }
    maps.change(range.clone(), |mapping| {
        mapping.policy = policy;
        mapping.bound = policy.binds_to_one();
    });
    let mut exclusive = Exclusive::of(thread.tid);
    for mapping in maps.overlapping(range.clone()) {
        let part = mapping.start.max(range.start)..mapping.end.min(range.end);
        shared_policies::set(runtime, mapping, part.clone(), policy);
        if moves {
            // Pages that are mapped several times stay, which is no failure.
            let mut may = |page| flags & MF_MOVE_ALL != 0 || exclusive.has(page);
            pages::migrate(
                &runtime.shadow,
                memory,
                |_| mapping.file,
                part,
                |page, home| {
                    if is_in_place(home) || !may(page) { None } else { expected(page, thread, mapping) }
                },
            );
        }
    }
    published_policies::begin();
    published_policies::publish(runtime, maps);
    drop(code);
    pages::catch_up(&runtime.shadow, runtime);
    Ok(0)
}

/// set_mempolicy_home_node.
pub fn set_home_node(runtime: &Runtime, [start, bytes, node, flags, ..]: [u64; 6]) -> u64 {
    word(set_home(runtime, start, bytes, node, flags))
}

fn set_home(runtime: &Runtime, start: u64, bytes: u64, node: u64, flags: u64) -> Result<u64> {
    let node = u32::try_from(node).map_err(|_| EINVAL)?;
    if flags != 0 || !all_nodes(placement()).contains(node) {
        return Err(EINVAL);
    }
    let range = range(start, bytes)?;
    if range.is_empty() {
        return Ok(0);
    }
    let maps = &mut runtime.code.lock().env.maps;
    let with = |mapping: &&crate::state::maps::Mapping| mapping.policy != Policy::NONE;
    let mut policies =
        maps.overlapping(range.clone()).iter().filter(with).map(|mapping| mapping.policy.mode).peekable();
    if policies.peek().is_none() {
        return Err(ENOENT);
    }
    if !policies.all(|kind| matches!(kind, mode::BIND | mode::PREFERRED_MANY)) {
        return Err(EOPNOTSUPP);
    }
    maps.change(range.clone(), |mapping| {
        if mapping.policy != Policy::NONE {
            mapping.policy.home = node;
        }
    });
    for mapping in maps.overlapping(range.clone()).iter().filter(with) {
        let part = mapping.start.max(range.start)..mapping.end.min(range.end);
        shared_policies::set(runtime, mapping, part, mapping.policy);
    }
    published_policies::publish(runtime, maps);
    Ok(0)
}
