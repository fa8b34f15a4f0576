//! A process while it lives: its memory map, its code, its pages, its heap blocks.

use super::bindings::Bindings;
use super::code_bytes::CodeBytes;
use super::intern::{Code, Place};
use super::objects::Blocks;
use super::pages::{PageMap, TouchId};
use super::remembered::RememberedStacks;
use super::thread_locals::ThreadLocals;
use super::vmas::{Vma, Vmas};
use crate::globals::{DataRange, data_ranges};
use crate::homes::{Permissions, read_maps};
use crate::unwind::{AddressSpace, Module, ModuleCache, combine};
use numalens_isa as isa;
use numalens_profile::ids::{ModuleId, Page, ProcessId, StackId};
use numalens_profile::tables::{self, PERF_MAP};
use numalens_profile::words::SystemCall;
use rangemap::{RangeMap, RangeSet};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the kernel names the interposer's file.
const INTERPOSER: &[u8] = b"/memfd:numalens-interpose";
/// How the names of all files begin that a recording maps into the program.
const OUR_FILES: &[u8] = b"/memfd:numalens-";
/// Frames of a call stack at most.
const MOST_FRAMES: usize = 128;
/// Remembered instructions and plans before they are forgotten.
const MOST_REMEMBERED: usize = 1 << 14;
/// Code around an instruction that is decoded.
const BEFORE: usize = 2048;
const AFTER: usize = 512;

/// A process.
pub struct LiveProcess {
    pub id: ProcessId,
    pub pid: i32,
    pub vmas: Vmas,
    pub space: AddressSpace,
    pub pages: PageMap,
    pub blocks: Blocks,
    /// Addresses that it has reserved by private memory without access, and that are no allocation before they have
    /// some.
    pub reserved: RangeSet<u64>,
    /// Policies of its memory.
    pub bindings: Bindings,
    /// Memory that a thread has had brought in as it mapped it, and how.
    pub brought_in: RangeMap<u64, TouchId>,
    /// Data of its modules, .bss included, by address.
    data: Vec<(DataRange, ModuleId, Arc<Module>, u64)>,
    /// Go's runtime is in it.
    pub is_go: bool,
    /// Those variables of its modules of which each thread has a copy.
    pub thread_locals: ThreadLocals,
    remembered: RememberedStacks,
    plans: FxHashMap<u64, Option<Arc<isa::Plan>>>,
    fault_kinds: FxHashMap<u64, Option<isa::Kind>>,
    system_calls: FxHashMap<u64, (SystemCall, bool)>,
    /// Code of the interposer: not the program's.
    own_code: Range<u64>,
    /// Pages of the interposer and of what it shares with the collector: not the program's.
    own_memory: RangeSet<u64>,
    /// /proc/PID/maps was read since the last address that it did not explain.
    pub maps_fresh: bool,
    /// Its memory is gone.
    pub ended: bool,
    /// Where the slow walk over all pages for migrations goes on.
    pub reread_from: Page,
    /// Somebody moved pages on purpose, from this time on, in ns since the start of the recording, and no walk has seen
    /// all of them since: what is found elsewhere counts as placed by a pinned thread.
    pub moved_since: Option<u64>,
    /// Pages that the kernel did not have yet when it was told that they are accessed: they may be huge.
    pub unsized_pages: Vec<Page>,
    /// When what is mapped was last compared with what had been seen, since the start of the recording.
    pub reconciled_ns: u64,
}

/// Where a thread was when it was sampled.
pub struct Caller<'a> {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    /// All general registers, in the order of the encoding, where they are known.
    pub registers: Option<&'a [u64; 16]>,
}

/// What is shared by all processes when code is looked at.
#[derive(Default)]
pub struct Images {
    pub modules: ModuleCache,
    pub bytes: CodeBytes,
    pub code: Code,
    /// The file of each module that has one, as it was mapped first.
    files: FxHashMap<ModuleId, (PathBuf, Arc<Module>)>,
    /// How far the recording has come.
    pub now_ns: u64,
    /// Rows that the profile does not have yet.
    pub new_mappings: Vec<tables::Mapping>,
}

impl Images {
    /// Modules whose path leads to another file than the one that was executed, or to none: it was unlinked or
    /// replaced, never had a name, or had it in another mount namespace.
    pub fn out_of_reach(&self) -> impl Iterator<Item = (ModuleId, Arc<Module>)> {
        let gone = self.files.iter().filter(|(_, (path, image))| !image.is_at(path));
        gone.map(|(module, (_, image))| (*module, image.clone()))
    }
}

fn mapping_row(process: ProcessId, vma: &Vma, time_ns: u64) -> tables::Mapping {
    let flag = |on: bool, letter: char| if on { letter } else { '-' };
    let Permissions { read, write, execute, shared } = vma.permissions;
    let perms = [flag(read, 'r'), flag(write, 'w'), flag(execute, 'x'), if shared { 's' } else { 'p' }];
    tables::Mapping {
        process,
        time_ns,
        start: vma.start,
        end: vma.end,
        offset: vma.offset,
        perms: perms.into_iter().collect(),
        module: vma.image.as_ref().map(|(module, ..)| *module),
        name: vma.path.to_string_lossy().into_owned(),
    }
}

impl LiveProcess {
    pub fn new(id: ProcessId, pid: i32) -> Self {
        LiveProcess {
            id,
            pid,
            vmas: Vmas::default(),
            space: AddressSpace::of_process(pid),
            pages: PageMap::default(),
            blocks: Blocks::default(),
            reserved: RangeSet::new(),
            bindings: Bindings::default(),
            brought_in: RangeMap::default(),
            data: Vec::new(),
            is_go: false,
            thread_locals: ThreadLocals::default(),
            remembered: RememberedStacks::default(),
            plans: FxHashMap::default(),
            fault_kinds: FxHashMap::default(),
            system_calls: FxHashMap::default(),
            own_code: 0..0,
            own_memory: RangeSet::new(),
            maps_fresh: false,
            ended: false,
            reread_from: Page(0),
            moved_since: None,
            unsized_pages: Vec::new(),
            reconciled_ns: 0,
        }
    }

    /// The child of a fork: the same memory, shared until someone writes.
    pub fn fork(&self, id: ProcessId, pid: i32) -> Self {
        let mut space = self.space.fork();
        space.set_pid(pid);
        LiveProcess {
            vmas: self.vmas.clone(),
            space,
            pages: self.pages.clone(),
            blocks: self.blocks.clone(),
            reserved: self.reserved.clone(),
            bindings: self.bindings.clone(),
            brought_in: self.brought_in.clone(),
            data: self.data.clone(),
            is_go: self.is_go,
            thread_locals: self.thread_locals.clone(),
            own_code: self.own_code.clone(),
            own_memory: self.own_memory.clone(),
            ..LiveProcess::new(id, pid)
        }
    }

    /// Another program has taken the process over.
    pub fn exec(&mut self) {
        *self = LiveProcess::new(self.id, self.pid);
    }

    /// Those of a range of addresses that are reserved get access, and are not any longer: each as far as it is in the
    /// range.
    pub fn take_reserved(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        if range.is_empty() {
            return Vec::new();
        }
        let parts = self.reserved.overlapping(&range);
        let taken: Vec<_> = parts.map(|part| part.start.max(range.start)..part.end.min(range.end)).collect();
        taken.iter().for_each(|part| self.reserved.remove(part.clone()));
        taken
    }

    /// A mapping lies elsewhere now: what was reserved of it is so there. Of `old`, nothing: it is there as well.
    pub fn move_reserved(&mut self, old: Range<u64>, new: Range<u64>) {
        let was = self.reserved.contains(&old.start);
        for range in [old, new.clone()].into_iter().filter(|range| !range.is_empty()) {
            self.reserved.remove(range);
        }
        if was && !new.is_empty() {
            self.reserved.insert(new);
        }
    }

    /// Pages were moved on purpose, from `since` on: looks at all of them again.
    pub fn moved_on_purpose(&mut self, since: u64) {
        self.reread_from = Page(0);
        self.moved_since = Some(self.moved_since.map_or(since, |earlier| earlier.min(since)));
    }

    /// Adds a mapping to all that follow the memory map.
    pub fn map(&mut self, images: &mut Images, mut vma: Vma) {
        let named = !vma.path.as_os_str().is_empty() && !vma.path.as_os_str().as_encoded_bytes().starts_with(b"//anon");
        // The interposer is no module of the program's.
        let ours = vma.path.as_os_str().as_encoded_bytes().starts_with(INTERPOSER);
        if !ours && (vma.permissions.execute || vma.is_file() || vma.path.as_os_str() == "[vdso]") {
            self.attach_image(images, &mut vma);
        }
        if vma.permissions.execute && vma.image.is_none() && !ours {
            vma.made = Some(images.code.module(&format!("{PERF_MAP}{}", self.pid)));
        }
        if vma.permissions.execute {
            self.space.add_mapping(&mut images.modules, vma.start, vma.end, vma.offset, &vma.path);
            self.forget_code();
            if ours {
                self.own_code = vma.start..vma.end;
                if let Some(image) = images.modules.open(Some(self.pid), vma.start, vma.end, &vma.path) {
                    self.thread_locals.loaded(None, &image);
                }
            }
        }
        // The loader maps the whole span of a library first, with the data that no file stands behind.
        if vma.path.as_os_str().as_encoded_bytes().starts_with(OUR_FILES) {
            self.own_memory.insert(Page::of(vma.start).0..Page::of(vma.end - 1).0 + 1);
        }
        if named && !ours {
            images.new_mappings.push(mapping_row(self.id, &vma, images.now_ns));
        }
        self.vmas.insert(vma);
    }

    fn attach_image(&mut self, images: &mut Images, vma: &mut Vma) {
        let Some(image) = images.modules.open(Some(self.pid), vma.start, vma.end, &vma.path) else { return };
        let Some(bias) = image.bias(vma.start, vma.offset, vma.permissions.execute) else { return };
        let build_id: String = image.build_id().unwrap_or(&[]).iter().map(|byte| format!("{byte:02x}")).collect();
        // Files of one path are told apart by what the linker wrote into them, or by what the file system says.
        let unmarked = build_id.is_empty().then(|| image.serial());
        let module = images.code.module_of(&vma.path.to_string_lossy(), &build_id, unmarked);
        images.files.entry(module).or_insert_with(|| (vma.path.clone(), image.clone()));
        if vma.permissions.execute {
            self.thread_locals.loaded(Some(module), &image);
            self.is_go |= image.sections().iter().any(|section| section.name == ".gopclntab");
            for range in data_ranges(&image, bias) {
                if !self.data.iter().any(|(known, ..)| known.addresses == range.addresses) {
                    self.data.push((range, module, image.clone(), bias));
                }
            }
        }
        vma.image = Some((module, image, bias));
    }

    /// Memory was unmapped.
    pub fn unmap(&mut self, start: u64, end: u64) {
        self.vmas.remove(start, end);
        self.space.remove(start, end);
        self.thread_locals.unmap(start..end);
        self.data.retain(|(range, ..)| range.addresses.end <= start || range.addresses.start >= end);
        self.forget_code();
    }

    fn forget_code(&mut self) {
        self.remembered.clear();
        self.plans.clear();
        self.fault_kinds.clear();
        self.system_calls.clear();
    }

    /// Reads the memory map from the kernel. `false` when the process is gone.
    pub fn read_maps(&mut self, images: &mut Images) -> bool {
        let Ok(mappings) = read_maps(self.pid) else { return false };
        self.maps_fresh = true;
        let mut fresh = Vmas::default();
        for mapping in &mappings {
            let vma = Vma::from(mapping);
            let known = self.vmas.find(vma.start).filter(|known| {
                (known.start, known.end, &known.path, known.permissions.execute)
                    == (vma.start, vma.end, &vma.path, vma.permissions.execute)
            });
            match known {
                Some(known) => fresh.insert(known.clone()),
                None => {
                    self.map(images, vma.clone());
                    if let Some(mapped) = self.vmas.find(vma.start) {
                        fresh.insert(mapped.clone());
                    }
                }
            }
        }
        self.vmas = fresh;
        true
    }

    /// The mapping of `address`, after another look at the kernel's map if it is not known.
    pub fn vma(&mut self, images: &mut Images, address: u64) -> Option<Vma> {
        if self.vmas.find(address).is_none() && !self.maps_fresh && !self.ended {
            self.read_maps(images);
        }
        self.vmas.find(address).cloned()
    }

    /// The module whose data (variables, constants) `address` belongs to.
    pub fn data_of(&self, address: u64) -> Option<(ModuleId, &Module, u64)> {
        self.data
            .iter()
            .find(|(range, ..)| range.addresses.contains(&address))
            .map(|(_, module, image, bias)| (*module, &**image, *bias))
    }

    /// Whether any of a range belongs to the data of a module, or to thread-local variables of the executable.
    /// (Every program has a few of the C library, on the same pages as stacks.)
    pub fn has_data_in(&self, addresses: Range<u64>) -> bool {
        self.data
            .iter()
            .any(|(range, ..)| range.addresses.start < addresses.end && addresses.start < range.addresses.end)
            || self.thread_locals.has_own_in(&addresses)
    }

    /// Whether a page is the recording's own.
    pub fn is_own_memory(&self, page: Page) -> bool {
        self.own_memory.contains(&page.0)
    }

    /// Whether an instruction is the interposer's.
    pub fn is_own_code(&self, address: u64) -> bool {
        self.own_code.contains(&address)
    }

    /// The instruction at `address` in terms of its module.
    pub fn place(&self, address: u64) -> Place {
        let Some(vma) = self.vmas.find(address) else { return Place { module: None, address } };
        match &vma.image {
            Some((module, _, bias)) => Place { module: Some(*module), address: address.wrapping_sub(*bias) },
            None => Place { module: vma.made, address },
        }
    }

    /// The call stack of a sample: one of before, where nothing that this followed from is other than then. A loop that
    /// touches a million pages is unwound once.
    pub fn stack(&mut self, images: &mut Images, caller: &Caller<'_>, bytes: &[u8], chain: &[u64]) -> Option<StackId> {
        let &Caller { ip, sp, bp, registers } = caller;
        if let Some(known) = self.remembered.find(caller, bytes, chain) {
            return known;
        }
        let (stack, basis) = match registers {
            Some(registers) => self.space.unwind_registers(ip, registers, bytes, MOST_FRAMES),
            None => self.space.unwind(ip, sp, bp, bytes, MOST_FRAMES),
        };
        let completed = stack.truncated().then_some(chain);
        let frames = combine(stack, chain);
        let own = self.own_code.clone();
        let theirs = frames.iter().filter(|&&frame| !own.contains(&frame));
        let places: Vec<Place> = theirs.map(|&frame| self.place(frame)).collect();
        let stack = images.code.stack(&places);
        self.remembered.insert(caller, bytes, basis, completed, stack);
        stack
    }

    /// The access that a clock sample stands for.
    pub fn recover(&mut self, images: &mut Images, registers: &isa::Registers) -> Option<isa::RecoveredAccess> {
        let ip = registers.ip;
        if self.plans.len() >= MOST_REMEMBERED {
            self.plans.clear();
        }
        let known = self.plans.get(&ip).cloned();
        let plan = known.unwrap_or_else(|| {
            let plan = images
                .bytes
                .around(self.pid, &self.space, ip, BEFORE, AFTER)
                .map(|window| Arc::new(isa::plan(&window.bytes, window.start, window.boundary, ip)));
            self.plans.insert(ip, plan.clone());
            plan
        });
        plan?.resolve(registers)
    }

    /// What the instruction at the registers' `ip` did at `address` when it faulted: read, write, both, or unknown.
    pub fn fault_kind(&mut self, images: &mut Images, registers: &isa::Registers, address: u64) -> Option<isa::Kind> {
        if let Some(&known) = self.fault_kinds.get(&registers.ip) {
            return known;
        }
        let window = images.bytes.around(self.pid, &self.space, registers.ip, 0, 16)?;
        let access = isa::access_at(&window.bytes, window.start, registers, address);
        let kind = access.map(|access| access.kind);
        // An instruction with two memory operands can be one or the other each time.
        if access.is_none_or(|access| access.also.is_none()) {
            if self.fault_kinds.len() >= MOST_REMEMBERED {
                self.fault_kinds.clear();
            }
            self.fault_kinds.insert(registers.ip, kind);
        }
        kind
    }

    /// The system call made by the instruction at `ip`, and whether it writes the memory that it names: by the number
    /// that is loaded right before it.
    pub fn system_call(&mut self, images: &mut Images, ip: u64) -> (SystemCall, bool) {
        if let Some(&known) = self.system_calls.get(&ip) {
            return known;
        }
        let window = images.bytes.around(self.pid, &self.space, ip, 8, 2);
        let before = window.and_then(|window| {
            let length = usize::try_from(ip - window.start).ok()?;
            Some(window.bytes.get(..length)?.to_vec())
        });
        let number = match before.as_deref() {
            // mov eax, NUMBER
            Some([.., 0xb8, a, b, c, d]) => Some(i64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
            // xor eax, eax
            Some([.., 0x31, 0xc0]) => Some(libc::SYS_read),
            _ => None,
        };
        let call = match number {
            Some(libc::SYS_read) => (SystemCall::Read, true),
            Some(libc::SYS_pread64) => (SystemCall::Pread, true),
            Some(libc::SYS_readv) => (SystemCall::Readv, true),
            Some(libc::SYS_preadv | libc::SYS_preadv2) => (SystemCall::Preadv, true),
            // They read a little as well.
            Some(libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg) => (SystemCall::Recv, false),
            Some(libc::SYS_getrandom) => (SystemCall::Getrandom, true),
            Some(libc::SYS_getdents | libc::SYS_getdents64) => (SystemCall::Getdents, true),
            Some(libc::SYS_process_vm_readv) => (SystemCall::ProcessVmReadv, false),
            Some(libc::SYS_process_vm_writev) => (SystemCall::ProcessVmWritev, false),
            _ => (SystemCall::Other, false),
        };
        if self.system_calls.len() >= MOST_REMEMBERED {
            self.system_calls.clear();
        }
        self.system_calls.insert(ip, call);
        call
    }

    /// A mapping as perf or the interposer tells it.
    pub fn vma_of(start: u64, end: u64, offset: u64, prot: u32, shared: bool, inode: u64, path: &Path) -> Vma {
        let has = |bit: i32| prot & bit as u32 != 0;
        Vma {
            start,
            end,
            permissions: Permissions {
                read: has(libc::PROT_READ),
                write: has(libc::PROT_WRITE),
                execute: has(libc::PROT_EXEC),
                shared,
            },
            offset,
            inode,
            segment: Vma::segment_of(shared, inode, path),
            path: if path.as_os_str() == "//anon" { PathBuf::new() } else { path.to_owned() },
            image: None,
            made: None,
        }
    }
}
