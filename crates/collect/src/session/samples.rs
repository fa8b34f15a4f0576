//! Samples and page faults: which access, by whom, to which object.

use super::Session;
use super::page_map::CHUNK;
use super::pending::{PendingAccess, PendingFault, PendingFetch};
use super::remembered::Caller;
use super::touches::Touch;
use crate::perf::{Batch, EventKind, Record, Sampled};
use numalens_isa as isa;
use numalens_isa::convention::function::{FRAME_POINTER, STACK_POINTER};
use numalens_isa::convention::system_call;
use numalens_profile::ids::*;
use numalens_profile::words::{Access, Fault, Found, SystemCall};
use numalens_topology::NodeId;

/// Bytes; longer ones the processor refuses.
const LONGEST_INSTRUCTION: u64 = 15;
/// A fault that reads a page of a file maps all pages of its aligned 64 KiB that are in the page cache, so that one in
/// 16 is seen. The kernel's `fault_around_bytes` is hardly ever set to something else; a page that it did not map has
/// no home.
const FAULT_AROUND: u64 = 16;
/// Bytes of the instruction.
const SYSCALL_BYTES: u64 = system_call::INSTRUCTION.len() as u64;

/// Takes in samples and page faults.
pub struct SampleHandler<'a> {
    pub session: &'a mut Session,
}

impl SampleHandler<'_> {
    pub fn sampled(&mut self, batch: &Batch, record: &Record, sampled: &Sampled, time_ns: u64) {
        let (pid, tid) = (record.pid as i32, record.tid as i32);
        self.session.known(pid);
        let Some(process) = self.session.processes.get(pid).map(|process| process.id) else { return };
        if self.session.threads.get(record.tid).is_none() {
            self.session.begin_thread(process, (pid, tid), None, time_ns, "observed");
        }
        let Some(gpr) = sampled.registers else { return };
        // What the kernel touches of itself.
        if sampled.in_call && sampled.address >> 47 != 0 {
            return;
        }
        let ip = if sampled.in_call { sampled.ip.wrapping_sub(SYSCALL_BYTES) } else { sampled.ip };
        let registers = isa::Registers { gpr, ip, fs_base: None, gs_base: None };
        let (sp, bp) = (registers.general(STACK_POINTER), registers.general(FRAME_POINTER));
        self.session.threads.stack_seen(record.tid, sp);
        let Some(thread) = self.session.threads.get(record.tid) else { return };
        let (thread, node, policy) = (thread.id, thread.bound.node, thread.bound.policy.clone());
        let Some(live) = self.session.processes.get_mut(pid) else { return };
        // The loader relocates the interposer's data like any library's.
        let of_own_memory = sampled.kind == EventKind::Fault && live.own.has_page(Page::of(sampled.address));
        if live.own.has_code(sampled.ip) || of_own_memory {
            self.session.tally.own += 1;
            return;
        }
        let caller = Caller { ip, sp, bp, registers: Some(&gpr) };
        if sampled.kind != EventKind::Fault && !self.session.observed.at(time_ns) {
            return;
        }
        let stack = live.stack(&mut self.session.images, &caller, batch.stack(sampled), batch.chain(sampled));
        match sampled.kind {
            EventKind::Fault => {
                let site = live.executed(&mut self.session.images, ip);
                let stack = self.session.languages.stack_near(&mut self.session.images, record.tid, time_ns, stack);
                let call = sampled.in_call.then(|| live.system_call(&mut self.session.images, ip));
                let fault = Touched { thread, node, policy, site, stack, call };
                self.faulted(pid, record.cpu, &registers, sampled.address, fault, time_ns);
            }
            EventKind::Clock => {
                self.session.tally.samples += 1;
                let place = live.place(sampled.ip);
                let fetch = PendingFetch {
                    pid,
                    process,
                    thread,
                    time_ns,
                    node,
                    page: Page::of(sampled.ip),
                    module: place.module,
                };
                let access = live.recover(&mut self.session.images, &registers);
                self.session.pending.fetches.push(fetch);
                let Some(access) = access else {
                    self.session.tally.no_access += 1;
                    return;
                };
                if access.stack && !self.session.options.stack {
                    self.session.tally.stack += 1;
                    return;
                }
                self.accessed(record, time_ns, thread, node, stack, &access, sampled.period);
            }
            EventKind::Hardware => self.hardware_sampled(record, sampled, time_ns, thread, node, stack),
            EventKind::Side => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the dimensions of an access")]
    fn accessed(
        &mut self,
        record: &Record,
        time_ns: u64,
        thread: ThreadId,
        node: Option<NodeId>,
        stack: Option<StackId>,
        access: &isa::RecoveredAccess,
        period: u64,
    ) {
        let pid = record.pid as i32;
        let Some(live) = self.session.processes.get(pid) else { return };
        let site = live.executed(&mut self.session.images, access.ip);
        let process = live.id;
        let Some(object) = self.object_at(pid, access.address, time_ns) else {
            // Not an address of this process: the registers had changed after all.
            self.session.tally.no_access += 1;
            return;
        };
        let site = self.session.line_near(record.tid, time_ns, site);
        self.session.tally.resolved += 1;
        self.session.pending.accesses.push(PendingAccess {
            pid,
            process,
            thread,
            time_ns,
            cpu: record.cpu,
            node,
            site,
            stack,
            object,
            address: access.address,
            found: match access.found {
                isa::Found::Before => Found::Before,
                isa::Found::At => Found::At,
                isa::Found::After => Found::After,
            },
            access: word(access.kind),
            latency: None,
            source: None,
            period,
        });
    }

    fn hardware_sampled(
        &mut self,
        record: &Record,
        sampled: &Sampled,
        time_ns: u64,
        thread: ThreadId,
        node: Option<NodeId>,
        stack: Option<StackId>,
    ) {
        let pid = record.pid as i32;
        self.session.tally.samples += 1;
        let Some(seen) = sampled.access else { return };
        // The operation that was picked need not be one on memory.
        let Some(access) = seen.access else { return };
        let address = seen.address.unwrap_or(sampled.address);
        let Some(live) = self.session.processes.get(pid) else { return };
        let (process, site) = (live.id, live.executed(&mut self.session.images, sampled.ip));
        let Some(object) = self.object_at(pid, address, time_ns) else {
            self.session.tally.no_access += 1;
            return;
        };
        let site = self.session.line_near(record.tid, time_ns, site);
        self.session.tally.resolved += 1;
        self.session.pending.accesses.push(PendingAccess {
            pid,
            process,
            thread,
            time_ns,
            cpu: record.cpu,
            node,
            site,
            stack,
            object,
            address,
            found: Found::Hardware,
            access,
            latency: seen.latency_cycles,
            source: Some(seen.source),
            period: sampled.period,
        });
    }

    /// The object that holds `address`; `None` when nothing is mapped there.
    fn object_at(&mut self, pid: i32, address: u64, time_ns: u64) -> Option<ObjectId> {
        let process = self.session.processes.get_mut(pid)?;
        if let Some(object) = self.session.objects.block_or_variable_at(process, address, time_ns) {
            return Some(object);
        }
        let vma = process.vma(&mut self.session.images, address)?;
        Some(self.session.objects.of_memory(process, &self.session.threads, &vma, time_ns))
    }

    fn faulted(&mut self, pid: i32, cpu: u32, registers: &isa::Registers, address: u64, by: Touched, time_ns: u64) {
        self.session.tally.faults += 1;
        let Some(live) = self.session.processes.get_mut(pid) else { return };
        let page = Page::of(address);
        let kind = match by.call {
            Some((_, true)) => Some(isa::Kind::Write),
            // Whether it has written is seen by what is there afterwards.
            Some((_, false)) => Some(isa::Kind::Read),
            None => live.fault_kind(&mut self.session.images, registers, address),
        };
        // Where no operand is at the address, it may be the instruction itself that was not there.
        let fetched = kind.is_none() && (registers.ip..=registers.ip + LONGEST_INSTRUCTION).contains(&address);
        let read_only = fetched || kind == Some(isa::Kind::Read);
        // Maps are read by that, where they do not explain the address.
        if live.vma(&mut self.session.images, address).is_none() {
            return;
        }
        let object = self.session.objects.placed_for(live, &self.session.threads, address, time_ns);
        let Some(vma) = live.vma(&mut self.session.images, address) else { return };
        let process = live.id;
        let known = live.pages.get(page);
        let private_write = !read_only && !vma.is_shared();
        let fault = match known {
            // A page of a file that is not written to belongs to the file.
            _ if vma.is_file() && !private_write => Fault::File,
            _ if vma.is_shared() => Fault::File,
            _ if vma.is_file() => Fault::CopyOnWrite,
            Some(state) if self.session.pages.touches.get(state.touch).process != process => Fault::CopyOnWrite,
            _ => Fault::Anonymous,
        };
        let pinned = by.node.is_some();
        let touch = Touch::first(process, by.thread, by.node, by.site, by.stack, Bin(0), pinned, fault, object);
        let touch = Touch { call: by.call.map(|(call, _)| call), ..touch };
        let block = address & !(CHUNK * Page::BYTES - 1);
        let may_be_huge = vma.start <= block && block + CHUNK * Page::BYTES <= vma.end;
        let around = if read_only && vma.is_file() {
            let first = page.0 / FAULT_AROUND * FAULT_AROUND;
            first.max(Page::of(vma.start).0)..(first + FAULT_AROUND).min(Page::of(vma.end - 1).0 + 1)
        } else {
            0..0
        };
        self.session.pending.faults.push(PendingFault {
            pid,
            time_ns,
            page,
            cpu,
            touch,
            node: by.node,
            policy: by.policy,
            read_only,
            may_be_huge,
            around,
        });
    }
}

/// Who touched a page.
struct Touched {
    thread: ThreadId,
    node: Option<NodeId>,
    policy: String,
    site: SiteId,
    stack: Option<StackId>,
    /// The kernel, in this system call, which is known to write the memory that it names.
    call: Option<(SystemCall, bool)>,
}

fn word(kind: isa::Kind) -> Access {
    match kind {
        isa::Kind::Read => Access::Read,
        isa::Kind::Write => Access::Write,
        isa::Kind::ReadWrite => Access::ReadWrite,
    }
}
