//! Memory that is locked, or made what cannot be changed any more.

use crate::code::Code;
use crate::pages::in_call;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, raw};
use crate::syscalls::call::{Call, EINVAL, ENOMEM, Verdict};
use crate::syscalls::own_memory;
use crate::syscalls::written;

const MCL_CURRENT: u32 = 1;
const MCL_FUTURE: u32 = 2;
const MCL_ONFAULT: u32 = 4;

/// mlock and the like: not of the agent's memory.
pub fn guard(_: &mut Thread, call: &Call) -> Option<Verdict> {
    let [address, bytes, ..] = call.arguments;
    own_memory::names_own(address, bytes).then(|| Verdict::Done(own_memory::refused("mlock", address, bytes)))
}

/// The program's mlockall: for the program's mappings only. The agent's tables are reservations.
pub fn lock_all(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let flags = call.arguments[0] as u32;
    let result = in_call::around(thread, call.ip, written::of_mlockall(call.arguments), |_| (lock(flags), None));
    Some(Verdict::Done(result))
}

fn lock(flags: u32) -> u64 {
    if flags == 0 || flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0 {
        return EINVAL;
    }
    let mut code = runtime().code.lock();
    code.env.lock_new = flags & MCL_FUTURE != 0;
    if flags & MCL_CURRENT == 0 {
        return 0;
    }
    each_mapping(&code, raw::__NR_mlock2, u64::from(flags & MCL_ONFAULT != 0))
}

/// The program's munlockall.
pub fn unlock_all(_: &mut Thread, _: &Call) -> Option<Verdict> {
    let mut code = runtime().code.lock();
    code.env.lock_new = false;
    Some(Verdict::Done(each_mapping(&code, raw::__NR_munlock, 0)))
}

/// Makes a call for every mapping. The kernel's word.
fn each_mapping(code: &Code, number: u32, flags: u64) -> u64 {
    for mapping in code.env.maps.iter() {
        let arguments = [mapping.start, mapping.end - mapping.start, flags, 0, 0, 0];
        // SAFETY: the program's own wish for the program's own mappings.
        let result = unsafe { sys::for_program(number, arguments) };
        // Mappings without access cannot be filled: mlockall locks them all the same.
        if result != ENOMEM && sys::check(result).is_err() {
            return result;
        }
    }
    0
}

/// Whether what is mapped is locked at once, as mlockall has asked for.
pub fn locks_new() -> bool {
    runtime().code.lock().env.lock_new
}
