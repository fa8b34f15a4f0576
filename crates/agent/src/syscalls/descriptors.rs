//! The session file's descriptor is open in the program, and the program must not know.

use super::call::{Call, Verdict, errno};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, raw};

const EBADF: u64 = errno(linux_raw_sys::errno::EBADF);

/// A call that names descriptors.
pub fn guard(_: &mut Thread, call: &Call) -> Option<Verdict> {
    Some(examine(runtime().session.descriptor, call.number, call.arguments))
}

/// Looks at a call that names descriptors, of which `ours` must stay what it is.
fn examine(ours: i32, number: u32, arguments: [u64; 6]) -> Verdict {
    let [first, second, third, ..] = arguments;
    let ours = ours as u64;
    match number {
        raw::__NR_close_range => {
            let (from, to) = (first & 0xffff_ffff, second & 0xffff_ffff);
            if !(from..=to).contains(&ours) {
                return Verdict::Execute;
            }
            let part = |from: u64, to: u64| {
                if from > to {
                    return 0;
                }
                // SAFETY: the program's own call, with our descriptor left out.
                unsafe { sys::for_program(raw::__NR_close_range, [from, to, third, 0, 0, 0]) }
            };
            let below = if from < ours { part(from, ours - 1) } else { 0 };
            let above = part(ours + 1, to);
            Verdict::Done(if below == 0 { above } else { below })
        }
        raw::__NR_dup2 | raw::__NR_dup3 if second & 0xffff_ffff == ours => Verdict::Done(EBADF),
        _ if first & 0xffff_ffff == ours => Verdict::Done(EBADF),
        _ => Verdict::Execute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_descriptor_is_not_there() {
        let call = |number, first, second| examine(1000, number, [first, second, 0, 0, 0, 0]);
        assert_eq!(call(raw::__NR_close, 1000, 0), Verdict::Done(EBADF));
        assert_eq!(call(raw::__NR_close, 5, 0), Verdict::Execute);
        assert_eq!(call(raw::__NR_dup2, 1, 1000), Verdict::Done(EBADF));
        assert_eq!(call(raw::__NR_fcntl, 1000, 1), Verdict::Done(EBADF));
        assert_eq!(call(raw::__NR_close_range, 3, 999), Verdict::Execute);
    }
}
