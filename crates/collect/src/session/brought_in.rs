//! Memory whose pages the kernel brings in as it is mapped (MAP_POPULATE, MAP_LOCKED): no fault tells of them, but the call that maps them does.

use super::Session;
use super::touches::Touch;
use numalens_profile::ids::{ObjectId, SiteId, StackId, ThreadId};
use numalens_profile::words::{Fault, SystemCall};
use std::ops::Range;

impl Session {
    /// Fresh memory, brought in at once by a thread's call from this site and stack, or not.
    pub(super) fn remaps(
        &mut self,
        pid: i32,
        range: Range<u64>,
        brought_in: Option<(Option<SiteId>, Option<StackId>)>,
        time_ns: u64,
        (thread, object): (ThreadId, ObjectId),
    ) {
        if range.is_empty() {
            return;
        }
        let touch = brought_in.and_then(|(site, stack)| {
            let process = self.processes.get(pid)?.id;
            let node = self.threads.of_process(process).find(|known| known.id == thread)?.bound.node;
            let (bin, pinned) = (self.bin(time_ns), node.is_some());
            let touch = Touch::first(process, thread, node, site?, stack, bin, pinned, Fault::Anonymous, Some(object));
            Some(self.pages.touches.intern(Touch { call: Some(SystemCall::Mmap), ..touch }))
        });
        let Some(live) = self.processes.get_mut(pid) else { return };
        match touch {
            Some(touch) => live.policies.brought_in.insert(range, touch),
            None => live.policies.brought_in.remove(range),
        }
    }
}
