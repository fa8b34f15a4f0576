//! What was counted and has not happened, because a signal came between: it is taken back.

use super::frame::Context;
use crate::pages::Toucher;
use crate::runtime::{Code, runtime};
use crate::thread::Thread;
use numalens_translator::count::{self, Pages, Run};
use numalens_translator::{SiteId, Unexecuted, Unmade};

/// Takes back what the executions have counted of the rest of the fragment: the thread comes to it through another one.
pub(super) fn abandon(thread: &Thread, context: &Context, unmade: &Unmade) {
    if unmade.is_empty() {
        return;
    }
    let runtime = runtime();
    let registers = core::array::from_fn(|number| context.register(number));
    let run = |site: SiteId, registers: &[u64; 16]| {
        let known = runtime.code.lock().world.site(site.0)?;
        let address = known.effective_address(registers)?;
        Some(Run { site, kind: known.kind(), address, size: 0, count: 1, done: false })
    };
    let mut toucher = Toucher::new(thread, true);
    // SAFETY: the area of this thread, which is stopped.
    unsafe { count::abandon(thread.area.0 as *mut u8, &runtime.config, &mut toucher, unmade, &registers, run) };
}

/// Corrects how many instructions were executed: the rest of the fragment is counted when the thread comes to it through another one.
pub(super) fn correct(thread: &Thread, unexecuted: &[Unexecuted]) {
    let runtime = runtime();
    for one in unexecuted.iter().filter(|one| one.instructions != 0) {
        let counter = {
            let mut code = runtime.code.lock();
            let Code { cache, world, .. } = &mut *code;
            cache.correction(world, one.page)
        };
        if let Some(counter) = counter {
            // SAFETY: the area of this thread, which is stopped.
            unsafe { count::correct(thread.area.0 as *mut u8, &runtime.config, counter, one.instructions) };
        }
    }
}

/// Takes back what was counted for an instruction that faulted: it will be counted when it succeeds.
pub(super) fn take_back(thread: &Thread, context: &Context, sites: alloc::vec::Vec<u32>) {
    let runtime = runtime();
    let mut registers = [0u64; 16];
    for (number, register) in registers.iter_mut().enumerate() {
        *register = context.register(number);
    }
    for site in sites {
        let Some(known) = runtime.code.lock().world.site(site) else { continue };
        let Some(address) = known.effective_address(&registers) else { continue };
        let count = 1u64.wrapping_neg();
        let run = Run { site: SiteId(site), kind: known.kind(), address, size: 0, count, done: false };
        let mut toucher = Toucher::new(thread, true);
        if let Some(entry) = toucher.entry(&run) {
            // SAFETY: the area of this thread, which counted this access before.
            unsafe { count::adjust(thread.area.0 as *mut u8, &runtime.config, &run, entry) };
            if runtime.config.each {
                toucher.counted(&run, entry);
            }
        }
    }
}
