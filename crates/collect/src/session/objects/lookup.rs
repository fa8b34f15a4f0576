//! Which object holds an address, or a page.

use super::{Objects, Owner};
use crate::session::process::LiveProcess;
use crate::session::stacks::{StackAccess, may_be_stack, stack_place};
use crate::session::threads::Threads;
use crate::session::vmas::Vma;
use numalens_profile::ids::*;
use numalens_profile::words::ObjectKind;
use std::ops::Range;

/// The farthest that a stack grows below what was seen of it.
const LARGEST_STACK: u64 = 64 << 20;

impl Objects {
    /// The heap block or the variable that holds `address`.
    pub fn block_or_variable_at(&mut self, process: &LiveProcess, address: u64, time_ns: u64) -> Option<ObjectId> {
        if let Some((_, block)) = process.blocks.find(address) {
            return Some(block.object);
        }
        self.variable_at(process, address, time_ns).map(|(object, _)| object)
    }

    /// Whose a page is that is placed at `address`: what holds it, or the file or shared memory that is mapped there.
    pub fn placed_for(
        &mut self,
        process: &LiveProcess,
        threads: &Threads,
        address: u64,
        time_ns: u64,
    ) -> Option<ObjectId> {
        self.block_or_variable_at(process, address, time_ns).or_else(|| {
            let vma = process.vmas.find(address).filter(|vma| vma.is_file() || vma.is_shared())?;
            Some(self.of_memory(process, threads, vma, time_ns))
        })
    }

    /// The variable that holds `address`, with its addresses.
    pub fn variable_at(&mut self, process: &LiveProcess, address: u64, time_ns: u64) -> Option<(ObjectId, Range<u64>)> {
        if let Some((module, image, bias)) = process.variables.data_of(address) {
            return self.global(process.id, module, image, bias, address, time_ns);
        }
        let (module, image, copy) = process.variables.thread_locals.at(address)?;
        self.thread_local(process.id, module, image, copy, address, time_ns)
    }

    /// The object that holds `address` now.
    pub fn holder_of(
        &mut self,
        process: &LiveProcess,
        threads: &Threads,
        address: u64,
        time_ns: u64,
    ) -> Option<ObjectId> {
        let known = self.block_or_variable_at(process, address, time_ns);
        known.or_else(|| self.of_mapping_at(process, threads, address, time_ns))
    }

    /// What stands for memory that is nobody's more closely.
    pub fn of_mapping_at(
        &mut self,
        process: &LiveProcess,
        threads: &Threads,
        address: u64,
        time_ns: u64,
    ) -> Option<ObjectId> {
        let vma: &Vma = match process.vmas.find(address) {
            Some(vma) => vma,
            // A stack that has grown.
            None => {
                let above = process.vmas.above(address)?;
                let is_stack = above.path.as_os_str() == "[stack]" && above.start - address < LARGEST_STACK;
                is_stack.then_some(above)?
            }
        };
        Some(self.of_memory(process, threads, vma, time_ns))
    }

    /// What stands for a mapping: a thread's stack, or what it is itself.
    pub fn of_memory(&mut self, process: &LiveProcess, threads: &Threads, vma: &Vma, time_ns: u64) -> ObjectId {
        match threads.stack_owner(process, vma, time_ns) {
            Some((thread, tid)) => self.stack_of(process.id, thread, tid, vma.start..vma.end, time_ns),
            None if process.variables.is_in_gos_heap(vma.start) => self.go_heap(process.id, vma, time_ns),
            None if vma.is_plain() && process.blocks.is_arena(vma.start..vma.end) => {
                self.small_blocks(process.id, vma, time_ns)
            }
            None => self.of_mapping(process.id, vma, time_ns),
        }
    }

    /// Whose a page is now.
    pub fn owner_of(&mut self, process: &LiveProcess, threads: &Threads, page: Page, time_ns: u64) -> Owner {
        let by_blocks = process.blocks.owner_of(page);
        if by_blocks != Owner::Nobody {
            return by_blocks;
        }
        let (start, end) = (page.address(), page.addresses().end);
        let has_data = process.variables.has_data_in(start..end);
        match self.variable_at(process, start, time_ns) {
            Some((object, range)) if range.start <= start && end <= range.end => return Owner::One(object),
            _ if has_data => return Owner::Several,
            _ => {}
        }
        self.of_mapping_at(process, threads, start, time_ns).map_or(Owner::Nobody, Owner::One)
    }

    /// Whose a page is that was accessed: the thread's that had it as its stack then, or the object's as which it is
    /// known.
    pub fn stack_instead(
        &mut self,
        process: Option<&LiveProcess>,
        threads: &Threads,
        accessed: &StackAccess,
    ) -> ObjectId {
        let &StackAccess { process: id, page, object, time_ns, .. } = accessed;
        let row = &self.rows()[object.0 as usize];
        let (whole, place) = match row.kind {
            ObjectKind::Stack => {
                let whole = row.base..row.base.saturating_add(row.size);
                (whole.clone(), whole)
            }
            ObjectKind::Heap if self.is_anonymous(id, object) => {
                let of_vma = |process: &LiveProcess| {
                    let vma = process.vmas.find(page.address()).filter(|vma| may_be_stack(vma))?;
                    Some((vma.start..vma.end, stack_place(process, vma)))
                };
                let Some(places) = process.and_then(of_vma) else { return object };
                places
            }
            _ => return object,
        };
        match threads.stack_of_another(accessed, &place) {
            Some((thread, tid)) => self.stack_of(id, thread, tid, whole, time_ns),
            None => object,
        }
    }
}
