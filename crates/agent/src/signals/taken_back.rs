//! What was counted and has not happened, because a signal came between: it is taken back.

use super::frame::UserContext;
use crate::code::Code;
use crate::pages::AccessHandler;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use numalens_translator::count::{self, Pages, Run};
use numalens_translator::{SiteId, Unexecuted, Unmade};

/// Takes back what the executions have counted of the rest of the fragment: the thread comes to it through another one.
pub(super) fn abandon(thread: &Thread, ucontext: &UserContext, unmade: &Unmade) {
    if unmade.is_empty() {
        return;
    }
    let runtime = runtime();
    let registers = ucontext.general();
    let run = |site: SiteId, registers: &[u64; 16]| {
        let known = runtime.code.lock().env.site(site.0)?;
        let address = known.effective_address(registers)?;
        Some(Run { site, kind: known.kind(), address, size: 0, count: 1, done: false })
    };
    let mut handler = AccessHandler::new(thread, true);
    // SAFETY: the context of this thread, which is stopped.
    unsafe { count::abandon(thread.context.0 as *mut u8, &runtime.config, &mut handler, unmade, &registers, run) };
}

/// Corrects how many instructions were executed: the rest of the fragment is counted when the thread comes to it
/// through another one.
pub(super) fn correct(thread: &Thread, unexecuted: &[Unexecuted]) {
    let runtime = runtime();
    for one in unexecuted.iter().filter(|one| one.instructions != 0) {
        let counter = {
            let mut code = runtime.code.lock();
            let Code { cache, env, .. } = &mut *code;
            cache.correction(env, one.page)
        };
        if let Some(counter) = counter {
            // SAFETY: the context of this thread, which is stopped.
            unsafe { count::correct(thread.context.0 as *mut u8, &runtime.config, counter, one.instructions) };
        }
    }
}

/// Takes back what was counted for an instruction that faulted: it will be counted when it succeeds.
pub(super) fn take_back(thread: &Thread, ucontext: &UserContext, sites: &[SiteId]) {
    let runtime = runtime();
    let registers = ucontext.general();
    for &site in sites {
        let Some(known) = runtime.code.lock().env.site(site.0) else { continue };
        let Some(address) = known.effective_address(&registers) else { continue };
        let count = 1u64.wrapping_neg();
        let run = Run { site, kind: known.kind(), address, size: 0, count, done: false };
        let mut handler = AccessHandler::new(thread, true);
        if let Some(entry) = handler.entry(&run) {
            // SAFETY: the context of this thread, which counted this access before.
            unsafe { count::adjust(thread.context.0 as *mut u8, &runtime.config, &run, entry) };
            if runtime.config.each.is_some() {
                handler.counted(&run, entry);
            }
        }
    }
}
