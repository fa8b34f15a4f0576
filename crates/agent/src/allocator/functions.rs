//! The functions that give memory, or begin parallel regions, and are part of the program: found by their names, in the
//! symbols or, Go's, in the table of its runtime; what they are asked for by their arguments.

use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use numalens_event::record::Call;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Sym};
use object::{LittleEndian, ReadRef};
use rustc_hash::FxBuildHasher;

/// What a function does, and where its arguments (the first is 0) and its result say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// Returns a block of so many bytes: this argument.
    Bytes(Call, usize),
    /// Returns a block: the first two arguments multiplied.
    Product(Call),
    /// Returns a block of whole pages: the first argument.
    Pages,
    /// Stores where the first argument says, and returns 0, a block of so many bytes: the third.
    Stores,
    /// Returns what became of the block that the first argument is: bytes are the second, multiplied by the third if
    /// so.
    Resizes(bool),
    /// Takes back the block that the first argument is.
    Releases,
    /// Returns a mapping: arguments as mmap has them.
    Maps,
    /// Gives or takes access to memory, from the first argument on, of so many bytes: the second. The third says what.
    Protects,
    /// Takes back mappings, from the first argument on, of so many bytes: the second.
    Unmaps,
    /// Returns what became of a mapping: the first argument, the second its bytes, the third the new ones.
    Remaps,
    /// Makes a thread. What it maps is that thread's stack.
    Starts,
    /// Of Go's runtime.
    Go(GoFunction),
    /// Executes a parallel region of OpenMP; whether the first argument is the region's code, as with GNU's compilers
    /// (LLVM's hand over data of theirs first).
    Region(bool),
}

/// A function of Go's runtime (see `go.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoFunction {
    /// Returns a span for objects.
    Alloc,
    /// Returns a span for something else.
    AllocManual,
    /// Takes back a span.
    Free,
    /// A collection begins to mark.
    Marks,
    /// It has marked all.
    Sweeps,
}

impl GoFunction {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name.strip_prefix(b"runtime.")? {
            b"(*mheap).alloc" => GoFunction::Alloc,
            b"(*mheap).allocManual" => GoFunction::AllocManual,
            b"(*mheap).freeSpanLocked" => GoFunction::Free,
            b"gcBgMarkStartWorkers" => GoFunction::Marks,
            b"gcSweep" => GoFunction::Sweeps,
            _ => return None,
        })
    }
}

pub type Functions = HashMap<u64, Function, FxBuildHasher>;

impl Function {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"malloc" => Function::Bytes(Call::Malloc, 0),
            b"calloc" => Function::Product(Call::Calloc),
            b"realloc" => Function::Resizes(false),
            b"reallocarray" => Function::Resizes(true),
            b"posix_memalign" => Function::Stores,
            b"aligned_alloc" | b"memalign" => Function::Bytes(Call::Aligned, 1),
            b"valloc" => Function::Bytes(Call::Aligned, 0),
            b"pvalloc" => Function::Pages,
            b"free" | b"cfree" | b"free_sized" | b"free_aligned_sized" => Function::Releases,
            // C++: new and delete, of one or of many, that throw or do not, with a size, with an alignment.
            b"_Znwm"
            | b"_Znam"
            | b"_ZnwmRKSt9nothrow_t"
            | b"_ZnamRKSt9nothrow_t"
            | b"_ZnwmSt11align_val_t"
            | b"_ZnamSt11align_val_t"
            | b"_ZnwmSt11align_val_tRKSt9nothrow_t"
            | b"_ZnamSt11align_val_tRKSt9nothrow_t" => Function::Bytes(Call::New, 0),
            b"_ZdlPv"
            | b"_ZdaPv"
            | b"_ZdlPvm"
            | b"_ZdaPvm"
            | b"_ZdlPvRKSt9nothrow_t"
            | b"_ZdaPvRKSt9nothrow_t"
            | b"_ZdlPvSt11align_val_t"
            | b"_ZdaPvSt11align_val_t"
            | b"_ZdlPvmSt11align_val_t"
            | b"_ZdaPvmSt11align_val_t"
            | b"_ZdlPvSt11align_val_tRKSt9nothrow_t"
            | b"_ZdaPvSt11align_val_tRKSt9nothrow_t" => Function::Releases,
            b"mmap" | b"mmap64" | b"__mmap" | b"__mmap64" => Function::Maps,
            b"mprotect" | b"__mprotect" | b"pkey_mprotect" => Function::Protects,
            b"munmap" | b"__munmap" => Function::Unmaps,
            b"mremap" | b"__mremap" => Function::Remaps,
            b"pthread_create" | b"__pthread_create" => Function::Starts,
            b"GOMP_parallel"
            | b"GOMP_parallel_sections"
            | b"GOMP_parallel_loop_static"
            | b"GOMP_parallel_loop_dynamic"
            | b"GOMP_parallel_loop_guided"
            | b"GOMP_parallel_loop_nonmonotonic_dynamic"
            | b"GOMP_parallel_loop_nonmonotonic_guided"
            | b"GOMP_parallel_loop_runtime"
            | b"GOMP_parallel_loop_nonmonotonic_runtime"
            | b"GOMP_parallel_loop_maybe_nonmonotonic_runtime"
            | b"GOMP_parallel_reductions" => Function::Region(true),
            b"__kmpc_fork_call" => Function::Region(false),
            _ => return None,
        })
    }

    /// The bytes of a block that it is asked for; none: more than there can be.
    pub fn bytes(self, arguments: &[u64; 6]) -> Option<u64> {
        match self {
            Function::Bytes(_, at) => Some(arguments[at]),
            Function::Product(_) => arguments[0].checked_mul(arguments[1]),
            Function::Pages => arguments[0].checked_next_multiple_of(crate::sys::PAGE),
            Function::Stores => Some(arguments[2]),
            Function::Resizes(false) => Some(arguments[1]),
            Function::Resizes(true) => arguments[1].checked_mul(arguments[2]),
            Function::Releases
            | Function::Maps
            | Function::Protects
            | Function::Unmaps
            | Function::Remaps
            | Function::Starts
            | Function::Go(_)
            | Function::Region(_) => Some(0),
        }
    }

    /// The call that a block is told to come from.
    pub fn call(self) -> Call {
        match self {
            Function::Bytes(call, _) | Function::Product(call) => call,
            Function::Resizes(_) => Call::Realloc,
            Function::Maps | Function::Unmaps | Function::Remaps | Function::Starts => Call::Mmap,
            Function::Protects => Call::Protect,
            Function::Pages | Function::Stores | Function::Releases | Function::Region(_) => Call::Aligned,
            Function::Go(_) => Call::Declared,
        }
    }
}

/// How far an executable file, which begins at `entry` in memory, is moved there.
fn moved_by<'a>(data: impl ReadRef<'a>, entry: u64) -> Option<u64> {
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    Some(entry.wrapping_sub(header.e_entry(header.endian().ok()?)))
}

/// The functions of Go's runtime in an executable file, which begins at `entry` in memory, by their addresses there.
/// Their table is there in stripped ones too.
pub fn find_go<'a>(data: impl ReadRef<'a>, entry: u64) -> Functions {
    let (Some(table), Some(moved_by)) = (numalens_pclntab::find(data), moved_by(data, entry)) else {
        return Functions::default();
    };
    let named = table.functions().filter_map(|function| {
        let at = function.addresses().start.wrapping_add(moved_by);
        Some((at, Function::Go(GoFunction::named(function.name()?)?)))
    });
    named.collect()
}

/// The functions of an executable file, which begins at `entry` in memory, by their addresses there.
pub fn find<'a>(data: impl ReadRef<'a>, entry: u64) -> Functions {
    let mut found = find_go(data, entry);
    found.extend(find_by_symbols(data, entry).unwrap_or_default());
    found
}

fn find_by_symbols<'a>(data: impl ReadRef<'a>, entry: u64) -> Option<Functions> {
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let moved_by = moved_by(data, entry)?;
    let symbols = header.sections(endian, data).ok()?.symbols(endian, data, elf::SHT_SYMTAB).ok()?;
    let (mut found, mut local) = (Functions::default(), Vec::new());
    let mut global: HashSet<&[u8], FxBuildHasher> = HashSet::default();
    for symbol in symbols.iter() {
        if symbol.st_type() != elf::STT_FUNC || symbol.is_undefined(endian) {
            continue;
        }
        let Some(name) = symbols.symbol_name(endian, symbol).ok() else { continue };
        let Some(function) = Function::named(name) else { continue };
        let address = symbol.st_value(endian).wrapping_add(moved_by);
        if symbol.st_bind() == elf::STB_LOCAL {
            local.push((name, address, function));
        } else {
            global.insert(name);
            found.insert(address, function);
        }
    }
    // What a linker has hidden is local as well. But beside a function that all may call, one of its name is some
    // file's own.
    found.extend(local.into_iter().filter(|(name, ..)| !global.contains(name)).map(|(_, at, function)| (at, function)));
    Some(found)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::path::Path;
    use std::process::Command;
    use std::vec;

    const ENTRY: &str =
        "void *malloc(long n) { return (void *)n; } void *calloc(long n, long m) { return (void *)(n * m); }
        static __attribute__((used, noinline)) void free(void *block) { __asm__ volatile(\"\" : : \"r\"(block)); }
        void other(void) {} void _start(void) { free(malloc(1)); }";
    const SECOND: &str = "static __attribute__((used)) void *calloc(long n) { return (void *)n; }";

    /// The bytes of a program without the system's libraries, made with these flags.
    fn program(directory: &Path, flags: &[&str]) -> Vec<u8> {
        let [first, second, made] = ["first.c", "second.c", "made"].map(|name| directory.join(name));
        std::fs::write(&first, ENTRY).unwrap();
        std::fs::write(&second, SECOND).unwrap();
        let status = Command::new("cc")
            .args(["-nostdlib", "-fno-builtin", "-o"])
            .args([&made, &first, &second])
            .args(flags)
            .status()
            .expect("the C compiler runs");
        assert!(status.success());
        std::fs::read(made).unwrap()
    }

    fn entry(program: &[u8]) -> u64 {
        FileHeader64::<LittleEndian>::parse(program).unwrap().e_entry(LittleEndian)
    }

    #[test]
    fn known_by_name_where_they_are_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), &["-static-pie"]);
        let at = entry(&program);
        let [here, moved] = [at, at + 0x5555_0000].map(|entry| find(&*program, entry));
        let mut kinds: Vec<Function> = here.values().copied().collect();
        kinds.sort_by_key(|function| std::format!("{function:?}"));
        // One calloc: the one that another file keeps to itself is its own affair. That free is local matters to
        // nobody: there is no other.
        let wanted = vec![Function::Bytes(Call::Malloc, 0), Function::Product(Call::Calloc), Function::Releases];
        assert_eq!(kinds, wanted);
        assert!(here.iter().all(|(at, function)| moved.get(&(at + 0x5555_0000)) == Some(function)));
    }

    #[test]
    fn none_without_symbols_nor_in_what_is_no_program() {
        let directory = tempfile::tempdir().unwrap();
        let stripped = program(directory.path(), &["-static", "-s"]);
        assert!(find(&*stripped, entry(&stripped)).is_empty());
        let whole = program(directory.path(), &["-static"]);
        for length in [0, 3, 63, 200, whole.len() / 2, whole.len() - 1] {
            let _ = find(&whole[..length], 0);
        }
    }
}
