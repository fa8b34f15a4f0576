//! System calls by `int 0x80` in 64-bit code: those of 32-bit programs, by numbers and structures of their own.
//!
//! They are made as the program makes them, by `int 0x80`, so that the kernel does what it does natively (memory goes
//! below 4 GiB). What changes what the agent knows of the program is looked at as the call of the same name by
//! `syscall`, with its structures brought into that one's shape; all others pass. Two kinds cannot be followed, and end
//! the program with a message: handlers of signals, which the kernel would begin in 32-bit code, and the return from
//! them; and threads with a segment of their own for thread-local data.

use super::call::{Call, EFAULT, EINVAL, Gate, LEAST_CODE, Verdict, errno};
use super::old_numbers as numbers;
use super::{examine_call, limits, memory, seccomp, table};
use crate::pages;
use crate::signals::{self, Action, AlternateStack};
use crate::state::failure::give_up;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::user;
use crate::sys::{self, PAGE, arch, raw};
use alloc::vec::Vec;
use numalens_isa::convention::old_system_call;

/// Most strings of an exec, and pages of `move_pages`.
const MOST: usize = 1 << 20;

/// Looks at the call at `ip` before it is executed.
pub fn examine(thread: &mut Thread, ip: u64, next: u64) -> Verdict {
    let context = thread.context;
    let old = context.register(old_system_call::NUMBER) as u32;
    let arguments = old_system_call::ARGUMENTS.map(|register| context.register(register) & 0xffff_ffff);
    let row = table::old_row(old);
    if !row.strict && seccomp::is_strict(thread.tid) {
        signals::kill_process();
    }
    if let Some(answer) = seccomp::judged_by_old_rules() {
        return Verdict::Done(answer);
    }
    let call = Call { ip, next, number: row.number, arguments, gate: Gate::Syscall };
    if let Some(verdict) = in_another_shape(thread, old, &call) {
        return verdict;
    }
    let mut arguments = arguments;
    if old == numbers::MMAP2 {
        arguments[5] *= PAGE;
    }
    examine_call(thread, &Call { arguments, gate: Gate::Old(old), ..call })
}

/// Calls whose arguments or structures have another shape here; `call` has them as they are. None: those of all others
/// are the same, or nobody looks at them.
fn in_another_shape(thread: &mut Thread, old: u32, call: &Call) -> Option<Verdict> {
    let [a, b, c, _, e, _] = call.arguments;
    match old {
        numbers::EXECVE | numbers::EXECVEAT => {
            let (at, number) = if old == numbers::EXECVE { (1, raw::__NR_execve) } else { (2, raw::__NR_execveat) };
            let [Ok(strings), Ok(variables)] = [at, at + 1].map(|list| pointers(call.arguments[list])) else {
                return Some(Verdict::Done(EFAULT));
            };
            let mut arguments = call.arguments;
            for (argument, list) in [(at, &strings), (at + 1, &variables)] {
                arguments[argument] = list.as_ref().map_or(0, |list| list.as_ptr() as u64);
            }
            Some(examine_call(thread, &Call { number, arguments, ..*call }))
        }
        numbers::CLONE if a as u32 & raw::CLONE_SETTLS != 0 => {
            cannot(call, "clone", "its thread would have a segment of its own")
        }
        // Its last two arguments the other way round.
        numbers::CLONE => {
            let (number, arguments) = (raw::__NR_clone, [a, b, c, e, 0, 0]);
            Some(examine_call(thread, &Call { number, arguments, gate: Gate::Old(old), ..*call }))
        }
        // Of all that is asked here only this is answered.
        numbers::ARCH_PRCTL if a == arch::SET_CPUID => {
            Some(examine_call(thread, &Call { number: raw::__NR_arch_prctl, ..*call }))
        }
        numbers::PRCTL | numbers::SECCOMP if is_filter(old, a, b) => {
            let Ok([length, instructions]) = halves::<2>(c) else { return Some(Verdict::Done(EFAULT)) };
            let program = [length & 0xffff, instructions];
            let number = if old == numbers::PRCTL { raw::__NR_prctl } else { raw::__NR_seccomp };
            let mut arguments = call.arguments;
            arguments[2] = program.as_ptr() as u64;
            Some(examine_call(thread, &Call { number, arguments, ..*call }))
        }
        numbers::SETRLIMIT | numbers::OLD_GETRLIMIT | numbers::GETRLIMIT if a == limits::ADDRESS_SPACE => {
            Some(Verdict::Done(address_space(old == numbers::SETRLIMIT, b)))
        }
        _ => of_memory(thread, old, call).or_else(|| of_signals(thread, old, call).map(Verdict::Done)),
    }
}

fn cannot(call: &Call, name: &str, why: &str) -> ! {
    let ip = call.ip;
    give_up(format_args!(
        "the program makes the 32-bit system call {name} by int 0x80 at {ip:#x}, which cannot be observed: {why}"
    ))
}

/// Those that map memory, or write it.
fn of_memory(thread: &mut Thread, old: u32, call: &Call) -> Option<Verdict> {
    let [a, b, c, d, e, _] = call.arguments;
    match old {
        numbers::OLD_MMAP => {
            let Ok(arguments) = halves::<6>(a) else { return Some(Verdict::Done(EFAULT)) };
            if !arguments[5].is_multiple_of(PAGE) {
                return Some(Verdict::Done(EINVAL));
            }
            let gate = Gate::Old(numbers::MMAP2);
            Some(examine_call(thread, &Call { number: raw::__NR_mmap, arguments, gate, ..*call }))
        }
        numbers::IPC => shared_memory(thread, call),
        numbers::READV | numbers::PREADV | numbers::PREADV2 => {
            let pieces = (0..c.min(user::MOST_PIECES)).map_while(|piece| halves::<2>(b + 8 * piece).ok());
            pieces.for_each(|[address, bytes]| pages::written_by_kernel(&runtime().shadow, address, bytes));
            Some(Verdict::Execute)
        }
        numbers::PWRITE64 => {
            let at = d | e << 32;
            if at >= LEAST_CODE {
                memory::written_at(at, c);
            }
            Some(Verdict::Execute)
        }
        numbers::MOVE_PAGES => {
            let mut pages = alloc::vec![0u64; (b as usize).min(MOST)];
            for (number, page) in pages.iter_mut().enumerate() {
                let Ok([address]) = halves::<1>(c + 4 * number as u64) else { return Some(Verdict::Done(EFAULT)) };
                *page = address;
            }
            let mut arguments = call.arguments;
            (arguments[1], arguments[2]) = (pages.len() as u64, pages.as_ptr() as u64);
            Some(examine_call(thread, &Call { number: raw::__NR_move_pages, arguments, ..*call }))
        }
        _ => None,
    }
}

/// Those about signals. The kernel's word.
fn of_signals(thread: &mut Thread, old: u32, call: &Call) -> Option<u64> {
    let [a, b, ..] = call.arguments;
    Some(match old {
        numbers::SIGNAL | numbers::SIGACTION | numbers::RT_SIGACTION => {
            let Ok((new, to)) = wanted_action(old, call.arguments) else { return Some(EFAULT) };
            if new.is_some_and(|new| new.handler > 1) {
                cannot(call, "sigaction", "the kernel would begin the handler in 32-bit code");
            }
            action(thread, old, a, new, to)
        }
        numbers::SIGRETURN | numbers::RT_SIGRETURN => {
            cannot(call, "sigreturn", "it returns from a handler in 32-bit code")
        }
        numbers::SGETMASK | numbers::SSETMASK | numbers::SIGPENDING | numbers::SIGPROCMASK => {
            mask(thread, old, call.arguments)
        }
        numbers::SIGALTSTACK => alternate_stack(thread, a, b),
        _ => return None,
    })
}

/// Words of 32 bits at an address.
fn halves<const N: usize>(address: u64) -> Result<[u64; N], sys::Errno> {
    let mut words = [0u64; N];
    for (number, word) in words.iter_mut().enumerate() {
        let mut bytes = [0u8; 4];
        user::read_bytes(address + 4 * number as u64, &mut bytes)?;
        *word = u32::from_le_bytes(bytes).into();
    }
    Ok(words)
}

/// Writes words of 32 bits to an address. The kernel's word.
fn put<const N: usize>(address: u64, words: [u64; N]) -> u64 {
    let to = words
        .iter()
        .enumerate()
        .all(|(number, &word)| user::write_bytes(address + 4 * number as u64, &(word as u32).to_le_bytes()).is_ok());
    if to { 0 } else { EFAULT }
}

/// A list of pointers that ends with 0, as 64-bit programs have it; none where there is none.
fn pointers(address: u64) -> Result<Option<Vec<u64>>, sys::Errno> {
    if address == 0 {
        return Ok(None);
    }
    let mut list = Vec::new();
    while list.len() < MOST {
        let [pointer] = halves::<1>(address + 4 * list.len() as u64)?;
        list.push(pointer);
        if pointer == 0 {
            break;
        }
    }
    Ok(Some(list))
}

/// `ipc`: of its calls those that attach and detach memory.
fn shared_memory(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    const ATTACH: u64 = 21;
    const DETACH: u64 = 22;
    let [what, id, flags, to, at, _] = call.arguments;
    let (number, old, arguments) = match what {
        ATTACH => (raw::__NR_shmat, numbers::SHMAT, [id, at, flags, 0, 0, 0]),
        DETACH => (raw::__NR_shmdt, numbers::SHMDT, [at, 0, 0, 0, 0, 0]),
        _ => return None,
    };
    let verdict = examine_call(thread, &Call { number, arguments, gate: Gate::Old(old), ..*call });
    match verdict {
        Verdict::Done(result) if what == ATTACH && sys::check(result).is_ok() => Some(Verdict::Done(put(to, [result]))),
        verdict => Some(verdict),
    }
}

/// Whether `prctl` or `seccomp` installs a filter.
fn is_filter(old: u32, a: u64, b: u64) -> bool {
    match old {
        numbers::PRCTL => a == u64::from(linux_raw_sys::prctl::PR_SET_SECCOMP) && b == seccomp::FILTER,
        _ => a == 1,
    }
}

/// getrlimit and setrlimit of the address space.
fn address_space(sets: bool, at: u64) -> u64 {
    const INFINITY: u64 = 0xffff_ffff;
    if sets {
        let Ok(words) = halves::<2>(at) else { return EFAULT };
        let limits = words.map(|word| if word == INFINITY { u64::MAX } else { word });
        return limits::exchange(runtime(), limits.as_ptr() as u64, 0);
    }
    let mut limits = [0u64; 2];
    match limits::exchange(runtime(), 0, limits.as_mut_ptr() as u64) {
        0 => put(at, core::hint::black_box(limits).map(|word| word.min(INFINITY))),
        error => error,
    }
}

/// What `signal`, `sigaction` and `rt_sigaction` want done, and where they want to be told what was.
fn wanted_action(old: u32, [_, b, c, ..]: [u64; 6]) -> Result<(Option<Action>, u64), sys::Errno> {
    let new = match old {
        numbers::SIGNAL => {
            Some(Action { handler: b, flags: u64::from(raw::SA_RESETHAND | raw::SA_NODEFER), ..Action::default() })
        }
        _ if b == 0 => None,
        numbers::SIGACTION => {
            let [handler, mask, flags, restorer] = halves(b)?;
            Some(Action { handler, flags, restorer, mask })
        }
        _ => {
            let [handler, flags, restorer, low, high] = halves(b)?;
            Some(Action { handler, flags, restorer, mask: low | high << 32 })
        }
    };
    Ok((new, if old == numbers::SIGNAL { 0 } else { c }))
}

fn action(thread: &Thread, old: u32, signal: u64, new: Option<Action>, to: u64) -> u64 {
    let mut was = Action::default();
    let new = new.as_ref().map_or(0, |new| &raw const *new as u64);
    let result = signals::action(thread, signal, new, &raw mut was as u64, 8);
    let was = core::hint::black_box(was);
    match old {
        _ if result != 0 => result,
        numbers::SIGNAL => was.handler,
        _ if to == 0 => 0,
        numbers::SIGACTION => put(to, [was.handler, was.mask, was.flags, was.restorer]),
        _ => put(to, [was.handler, was.flags, was.restorer, was.mask, was.mask >> 32]),
    }
}

/// `sgetmask`, `ssetmask`, `sigpending` and `sigprocmask`: of the first 32 signals.
fn mask(thread: &mut Thread, old: u32, [a, b, c, ..]: [u64; 6]) -> u64 {
    const LOW: u64 = 0xffff_ffff;
    let mut was = 0u64;
    let at = &raw mut was as u64;
    if old == numbers::SIGPENDING {
        let result = signals::pending(thread, at, 8);
        return if result == 0 { put(a, [core::hint::black_box(was)]) } else { result };
    }
    let result = signals::mask(thread, raw::SIG_BLOCK.into(), 0, at, 8);
    let was = core::hint::black_box(was);
    if result != 0 || old == numbers::SGETMASK {
        return if result != 0 { result } else { was & LOW };
    }
    let wanted = match (old, a as u32) {
        (numbers::SSETMASK, _) => Some(a),
        _ if b == 0 => None,
        _ => {
            let Ok([set]) = halves::<1>(b) else { return EFAULT };
            match a as u32 {
                raw::SIG_BLOCK => Some(was | set),
                raw::SIG_UNBLOCK => Some(was & !set),
                raw::SIG_SETMASK => Some(was & !LOW | set),
                _ => return EINVAL,
            }
        }
    };
    if let Some(wanted) = wanted {
        signals::mask(thread, raw::SIG_SETMASK.into(), &raw const wanted as u64, 0, 8);
    }
    match old {
        numbers::SSETMASK => was & LOW,
        _ if c == 0 => 0,
        _ => put(c, [was]),
    }
}

fn alternate_stack(thread: &mut Thread, new: u64, old: u64) -> u64 {
    let wanted = match (new != 0).then(|| halves::<3>(new)).transpose() {
        Ok(wanted) => {
            wanted.map(|[base, flags, bytes]| AlternateStack { base, flags: flags as i32, padding: 0, bytes })
        }
        Err(error) => return errno(error.0 as u32),
    };
    let mut was = AlternateStack::NONE;
    let new = wanted.as_ref().map_or(0, |wanted| &raw const *wanted as u64);
    let result = signals::alternate_stack(thread, new, &raw mut was as u64);
    let was = core::hint::black_box(was);
    if result != 0 || old == 0 {
        return result;
    }
    put(old, [was.base, u64::from(was.flags as u32), was.bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_32_bits_arrive() {
        let words = [1u32, 0xffff_fff0, 3, 0];
        let at = words.as_ptr() as u64;
        assert_eq!(halves::<3>(at), Ok([1, 0xffff_fff0, 3]));
        assert_eq!(pointers(at), Ok(Some(alloc::vec![1, 0xffff_fff0, 3, 0])));
        assert_eq!((pointers(0), pointers(8).is_err()), (Ok(None), true));
        let mut to = [0u32; 2];
        assert_eq!(put(to.as_mut_ptr() as u64, [7, 1 << 32 | 9]), 0);
        assert_eq!(core::hint::black_box(to), [7, 9]);
    }
}
