//! Which memory of the caller's a system call has the kernel write, or bring in: a part of its row in the
//! [`super::table`].
//!
//! Calls that write a few words where the caller has just been (`stat`, `clock_gettime`, a futex) are left out: the
//! page is there.

use crate::sys::user;
use crate::sys::{self, raw};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::by;

/// How much of it is written, by the call's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// So many bytes as the result says, from the first range on.
    Result,
    /// Nobody says how much: all of it at most.
    Unknown,
    /// All of it is brought in: pages that could be written are, as by a write, or never are.
    Populated {
        /// As by a write, where the memory can be written.
        writes: bool,
    },
}

/// What a call writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// One of [`by`].
    pub by: u32,
    /// The memory, in the order in which it is filled.
    pub ranges: Ranges,
    /// How much of that.
    pub amount: Amount,
}

/// One range, as a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ranges {
    /// One.
    One(Range<u64>),
    /// Several.
    Many(Vec<Range<u64>>),
}

impl Ranges {
    /// All of them.
    pub fn all(&self) -> &[Range<u64>] {
        match self {
            Ranges::One(one) => core::slice::from_ref(one),
            Ranges::Many(many) => many,
        }
    }
}

/// Bytes at an address, as far as a program can have memory.
fn range(address: u64, bytes: u64) -> Range<u64> {
    let end = address.saturating_add(bytes).min(sys::USER_END);
    address.min(end)..end
}

/// Bytes at an address, as a call's only range.
fn one(by: u32, address: u64, bytes: u64, amount: Amount) -> Option<Written> {
    Some(Written { by, ranges: Ranges::One(range(address, bytes)), amount })
}

/// Pieces of memory: address and bytes of each.
fn many(by: u32, pieces: impl IntoIterator<Item = [u64; 2]>, amount: Amount) -> Option<Written> {
    let ranges = pieces.into_iter().map(|[address, bytes]| range(address, bytes)).collect();
    Some(Written { by, ranges: Ranges::Many(ranges), amount })
}

/// Which memory of the caller's a call has the kernel write, or bring in.
pub enum Writes {
    /// None to speak of.
    Nothing,
    /// A buffer: the places of its address and bytes among the arguments.
    Buffer {
        /// One of [`by`].
        by: u32,
        /// Of the address.
        at: usize,
        /// Of the bytes.
        bytes: usize,
    },
    /// A vector of buffers (`struct iovec`): the places of its address and length.
    Vector {
        /// One of [`by`].
        by: u32,
        /// Of the address.
        list: usize,
        /// Of the length.
        count: usize,
    },
    /// What this finds.
    Other(fn([u64; 6]) -> Option<Written>),
}

impl Writes {
    /// What the program's call writes.
    pub fn of(&self, arguments: [u64; 6]) -> Option<Written> {
        match *self {
            Writes::Nothing => None,
            Writes::Buffer { by, at, bytes } => one(by, arguments[at], arguments[bytes], Amount::Result),
            Writes::Vector { by, list, count } => {
                many(by, user::pieces(arguments[list], arguments[count]), Amount::Result)
            }
            Writes::Other(find) => find(arguments),
        }
    }

    /// Says where the pieces of memory begin that are not arguments themselves.
    pub fn each_piece(&self, arguments: [u64; 6], mut say: impl FnMut(u64)) {
        match *self {
            Writes::Nothing | Writes::Buffer { .. } => {}
            Writes::Vector { list, count, .. } => {
                user::pieces(arguments[list], arguments[count]).into_iter().for_each(|[base, _]| say(base));
            }
            Writes::Other(find) => {
                let written = find(arguments);
                written.iter().flat_map(|written| written.ranges.all()).for_each(|range| say(range.start));
            }
        }
    }
}

/// Whether the program has ever locked memory.
static LOCKS: AtomicBool = AtomicBool::new(false);
/// Memory that is brought in as by writes, where it can be written.
const POPULATED: Amount = Amount::Populated { writes: true };

/// Whether the program has ever locked memory: then what is locked stays so as it grows.
pub fn has_locked() -> bool {
    LOCKS.load(Relaxed)
}

/// Of mmap before it is made: nothing, but it may lock.
pub fn of_mmap([_, _, _, flags, ..]: [u64; 6]) -> Option<Written> {
    if flags as u32 & raw::MAP_LOCKED != 0 {
        LOCKS.store(true, Relaxed);
    }
    None
}

/// Of mlock.
pub fn of_mlock([address, bytes, ..]: [u64; 6]) -> Option<Written> {
    LOCKS.store(true, Relaxed);
    one(by::LOCK, address & !(sys::PAGE - 1), bytes + address % sys::PAGE, POPULATED)
}

/// Of mlock2.
pub fn of_mlock2(arguments: [u64; 6]) -> Option<Written> {
    const MLOCK_ONFAULT: u64 = 1;
    let written = of_mlock(arguments);
    written.filter(|_| arguments[2] & MLOCK_ONFAULT == 0)
}

/// Of mlockall.
pub fn of_mlockall(_: [u64; 6]) -> Option<Written> {
    LOCKS.store(true, Relaxed);
    one(by::LOCK, 0, sys::USER_END, POPULATED)
}

/// Of madvise.
pub fn of_madvise([address, bytes, advice, ..]: [u64; 6]) -> Option<Written> {
    match advice as u32 {
        raw::MADV_POPULATE_READ => one(by::ADVICE, address, bytes, Amount::Populated { writes: false }),
        raw::MADV_POPULATE_WRITE => one(by::ADVICE, address, bytes, POPULATED),
        _ => None,
    }
}

/// Of process_vm_writev into the process itself.
pub fn of_process_vm_writev([pid, _, _, list, count, _]: [u64; 6]) -> Option<Written> {
    let is_own = pid as u32 == sys::process_id();
    is_own.then(|| many(by::PROCESS_WRITE, user::pieces(list, count), Amount::Result)).flatten()
}

/// Of recvmsg.
pub fn of_recvmsg([_, head, ..]: [u64; 6]) -> Option<Written> {
    many(by::RECEIVE, message(head)?, Amount::Result)
}

/// Of recvmmsg.
pub fn of_recvmmsg([_, heads, count, ..]: [u64; 6]) -> Option<Written> {
    let messages = 0..count.min(MOST_MESSAGES);
    let messages = messages.map_while(|number| message(heads.wrapping_add(number * MESSAGE_BYTES)));
    many(by::RECEIVE, messages.flatten(), Amount::Unknown)
}

/// Of ioctl on a descriptor of userfaultfd: the structure begins with where to, where from, how much.
pub fn of_ioctl([_, request, structure, ..]: [u64; 6]) -> Option<Written> {
    if request != UFFDIO_COPY {
        return None;
    }
    let [to, _, bytes] = user::read::<[u64; 3]>(structure).ok()?;
    one(OTHER, to, bytes, Amount::Unknown)
}

/// Of a call that has changed the map and brought new memory in with it.
pub fn brought_in(address: u64, bytes: u64) -> Option<Written> {
    one(by::MAP, address, bytes, POPULATED)
}

/// Not one of [`by`].
const OTHER: u32 = 0;
/// Of userfaultfd: pages are placed with this content.
const UFFDIO_COPY: u64 = 0xc028_aa03;
/// `struct mmsghdr`.
const MESSAGE_BYTES: u64 = 64;
/// Messages that the kernel takes in one call.
const MOST_MESSAGES: u64 = 1024;

/// The pieces of memory of a `struct msghdr`.
fn message(at: u64) -> Option<Vec<[u64; 2]>> {
    let [_, _, pieces, count] = user::read::<[u64; 4]>(at).ok()?;
    Some(user::pieces(pieces, count))
}
