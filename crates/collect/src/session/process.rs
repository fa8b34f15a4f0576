//! A process while it lives: its memory map, its code, its pages, its heap blocks.

mod instructions;
mod own_memory;
mod page_walk;
mod reserved;
mod variables;

use super::bindings::Bindings;
use super::images::Images;
use super::intern::Place;
use super::objects::Blocks;
use super::page_map::PageMap;
use super::remembered::{Caller, RememberedStacks};
use super::touches::TouchId;
use super::vmas::{Vma, Vmas};
use crate::homes::{Permissions, read_maps};
use crate::unwind::{AddressSpace, combine};
use instructions::{CodeAt, Instructions};
use numalens_isa as isa;
use numalens_profile::ids::{ProcessId, SiteId, StackId};
use numalens_profile::tables;
use numalens_profile::words::SystemCall;
use own_memory::OwnMemory;
use page_walk::PageWalk;
use rangemap::RangeMap;
use reserved::Reserved;
use variables::Variables;

/// How the kernel names the interposer's file.
const INTERPOSER: &[u8] = b"/memfd:numalens-interpose";
/// How the names of all files begin that a recording maps into the program.
const OUR_FILES: &[u8] = b"/memfd:numalens-";
/// Frames of a call stack at most.
const MOST_FRAMES: usize = 128;

/// A process.
pub struct LiveProcess {
    pub id: ProcessId,
    pub pid: i32,
    /// Its memory is gone.
    pub ended: bool,
    pub vmas: Vmas,
    /// /proc/PID/maps was read since the last address that it did not explain.
    pub maps_fresh: bool,
    space: AddressSpace,
    remembered: RememberedStacks,
    instructions: Instructions,
    pub own: OwnMemory,
    pub variables: Variables,
    pub pages: PageMap,
    pub walk: PageWalk,
    pub blocks: Blocks,
    pub reserved: Reserved,
    /// Policies of its memory, and memory that a thread has had brought in as it mapped it.
    pub policies: RangePolicies,
}

/// What calls have said of ranges of a process's memory.
#[derive(Clone, Default)]
pub struct RangePolicies {
    pub bindings: Bindings,
    /// How it was brought in.
    pub brought_in: RangeMap<u64, TouchId>,
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
            ended: false,
            vmas: Vmas::default(),
            maps_fresh: false,
            space: AddressSpace::of_process(pid),
            remembered: RememberedStacks::default(),
            instructions: Instructions::default(),
            own: OwnMemory::default(),
            variables: Variables::default(),
            pages: PageMap::default(),
            walk: PageWalk::default(),
            blocks: Blocks::default(),
            reserved: Reserved::default(),
            policies: RangePolicies::default(),
        }
    }

    /// The child of a fork: the same memory, shared until someone writes.
    pub fn fork(&self, id: ProcessId, pid: i32) -> Self {
        let mut space = self.space.fork();
        space.set_pid(pid);
        LiveProcess {
            space,
            vmas: self.vmas.clone(),
            own: self.own.clone(),
            variables: self.variables.clone(),
            pages: self.pages.clone(),
            blocks: self.blocks.clone(),
            reserved: self.reserved.clone(),
            policies: self.policies.clone(),
            ..LiveProcess::new(id, pid)
        }
    }

    /// Another program has taken the process over.
    pub fn exec(&mut self) {
        *self = LiveProcess::new(self.id, self.pid);
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
            vma.made = Some(images.made_code(self.pid));
        }
        if vma.permissions.execute {
            self.space.add_mapping(&mut images.modules, vma.start, vma.end, vma.offset, &vma.path);
            self.forget_code();
            if ours {
                self.own.code = vma.start..vma.end;
                if let Some(image) = images.modules.open(Some(self.pid), vma.start, vma.end, &vma.path) {
                    self.variables.thread_locals.loaded(None, &image);
                }
            }
        }
        // The loader maps the whole span of a library first, with the data that no file stands behind.
        if vma.path.as_os_str().as_encoded_bytes().starts_with(OUR_FILES) {
            self.own.mapped(vma.start..vma.end);
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
        images.mapped(module, &vma.path, &image);
        if vma.permissions.execute {
            self.variables.loaded(module, &image, bias);
        }
        vma.image = Some((module, image, bias));
    }

    /// Memory was unmapped.
    pub fn unmap(&mut self, start: u64, end: u64) {
        self.vmas.remove(start, end);
        self.space.remove(start, end);
        self.variables.unmap(start..end);
        self.forget_code();
    }

    fn forget_code(&mut self) {
        self.remembered.clear();
        self.instructions.clear();
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

    /// The instruction at `address` in terms of its module.
    pub fn place(&self, address: u64) -> Place {
        let Some(vma) = self.vmas.find(address) else { return Place { module: None, address } };
        match &vma.image {
            Some((module, _, bias)) => Place { module: Some(*module), address: address.wrapping_sub(*bias) },
            None => Place { module: vma.made, address },
        }
    }

    /// The site of an instruction that was executed: where no file is, a runtime has made it. (V8 makes memory
    /// executable after it was mapped.)
    pub fn executed(&self, images: &mut Images, address: u64) -> SiteId {
        let mut place = self.place(address);
        if place.module.is_none() && self.vmas.find(address).is_some_and(|vma| vma.image.is_none()) {
            place.module = Some(images.made_code(self.pid));
        }
        images.code.site(place)
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
        let theirs = frames.iter().filter(|&&frame| !self.own.has_code(frame));
        let places: Vec<Place> = theirs.map(|&frame| self.place(frame)).collect();
        let stack = images.code.stack(&places);
        self.remembered.insert(caller, bytes, basis, completed, stack);
        stack
    }

    /// The access that a clock sample stands for.
    pub fn recover(&mut self, images: &mut Images, registers: &isa::Registers) -> Option<isa::RecoveredAccess> {
        let mut at = CodeAt { bytes: &mut images.bytes, pid: self.pid, space: &self.space };
        self.instructions.recover(&mut at, registers)
    }

    /// What the instruction at the registers' `ip` did at `address` when it faulted: read, write, both, or unknown.
    pub fn fault_kind(&mut self, images: &mut Images, registers: &isa::Registers, address: u64) -> Option<isa::Kind> {
        let mut at = CodeAt { bytes: &mut images.bytes, pid: self.pid, space: &self.space };
        self.instructions.fault_kind(&mut at, registers, address)
    }

    /// The system call made by the instruction at `ip`, and whether it writes the memory that it names.
    pub fn system_call(&mut self, images: &mut Images, ip: u64) -> (SystemCall, bool) {
        let mut at = CodeAt { bytes: &mut images.bytes, pid: self.pid, space: &self.space };
        self.instructions.system_call(&mut at, ip)
    }
}
