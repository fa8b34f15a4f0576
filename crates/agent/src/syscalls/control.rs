//! What a process or thread asks for itself: prctl, arch_prctl, seccomp, and its signals.

use super::call::{Call, EINVAL, Verdict, errno};
use super::seccomp as filters;
use crate::signals;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, arch};
use linux_raw_sys::prctl as names;

/// The `ARCH_SHSTK_*` calls: returns are jumps here.
const SHADOW_STACKS: core::ops::RangeInclusive<u64> = 0x5001..=0x5005;

/// The program's arch_prctl.
pub fn processor(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    match call.arguments[0] {
        // GS is the agent's.
        arch::SET_GS | arch::GET_GS => Some(Verdict::Done(EINVAL)),
        what if SHADOW_STACKS.contains(&what) => Some(Verdict::Done(EINVAL)),
        arch::SET_FS => {
            // SAFETY: the program's own call.
            let result = unsafe { call.make() };
            thread.context.log_fs_base(runtime().process());
            Some(Verdict::Done(result))
        }
        _ => None,
    }
}

/// The program's arch_prctl on a virtual machine: there `cpuid` is always answered, as on processors that cannot refuse
/// it.
pub fn cpuid_faults(_: &mut Thread, call: &Call) -> Option<u64> {
    (call.arguments[0] == arch::SET_CPUID).then(|| errno(linux_raw_sys::errno::ENODEV))
}

/// The program's prctl.
pub fn process(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let [what, value, third, ..] = call.arguments;
    match what as u32 {
        names::PR_SET_SECCOMP if value == filters::STRICT => Some(Verdict::Done(filters::restrict())),
        names::PR_SET_SECCOMP if value == filters::FILTER => {
            Some(Verdict::Done(filters::install(third, |longer| {
                let call = Call { arguments: [what, value, longer, 0, 0, 0], ..*call };
                // SAFETY: the program's own call with a filter of ours that ends with the program's.
                unsafe { call.make() }
            })))
        }
        names::PR_SET_NAME => {
            // SAFETY: the program's own call, which reads a name.
            let done = unsafe { call.make() };
            runtime().session.take_name(thread.first);
            Some(Verdict::Done(done))
        }
        names::PR_SET_TSC => {
            sys::forget_clock();
            None
        }
        _ => None,
    }
}

/// The program's seccomp.
pub fn seccomp(_: &mut Thread, call: &Call) -> Option<Verdict> {
    let [what, flags, program, ..] = call.arguments;
    match what {
        0 => Some(Verdict::Done(filters::restrict())),
        1 => Some(Verdict::Done(filters::install(program, |longer| {
            let call = Call { arguments: [what, flags, longer, 0, 0, 0], ..*call };
            // SAFETY: the program's own call with a filter of ours that ends with the program's.
            unsafe { call.make() }
        }))),
        _ => None,
    }
}

/// The program's rt_sigaction.
pub fn action(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let [signal, new, old, size, ..] = call.arguments;
    Some(Verdict::Done(signals::action(thread, signal, new, old, size)))
}

/// The program's rt_sigprocmask.
pub fn mask(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let [how, new, old, size, ..] = call.arguments;
    Some(Verdict::Done(signals::mask(thread, how, new, old, size)))
}

/// The program's rt_sigpending.
pub fn pending(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let [set, size, ..] = call.arguments;
    Some(Verdict::Done(signals::pending(thread, set, size)))
}

/// The program's sigaltstack.
pub fn alternate_stack(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let [new, old, ..] = call.arguments;
    Some(Verdict::Done(signals::alternate_stack(thread, new, old)))
}
