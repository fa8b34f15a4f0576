//! The C header says what the Rust crate says, and the library depends on nothing.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::Command;

use numalens_event::layout::*;
use numalens_event::page::PAGE;
use numalens_event::record::{Call, FLAG_ASK, FRAME_BYTES, Kind};
use numalens_event::request::{MOST_NAME_BYTES, Request};
use numalens_event::ring::ATTEMPTS;
use numalens_event::runtime_log::{self, Told};
use object::elf::{DT_NEEDED, DT_VERNEED, FileHeader64};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, Object, ObjectSymbol};

/// What both sides must agree on: an expression of C, and its value in Rust.
fn agreements() -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = [
        ("NUMALENS_MAGIC", MAGIC),
        ("NUMALENS_VERSION", u64::from(VERSION)),
        ("NUMALENS_PAGE", PAGE),
        ("NUMALENS_HEADER_BYTES", HEADER_BYTES as u64),
        ("NUMALENS_ACKNOWLEDGEMENTS", ACKNOWLEDGEMENTS as u64),
        ("NUMALENS_NOTE_WORDS", NOTE_WORDS as u64),
        ("NUMALENS_WIDE_WORDS", WIDE_WORDS as u64),
        ("NUMALENS_PAYLOAD_WORD", PAYLOAD_WORD as u64),
        ("NUMALENS_PAYLOAD_BYTES", PAYLOAD_BYTES as u64),
        ("NUMALENS_ATTEMPTS", ATTEMPTS as u64),
        ("NUMALENS_FLAG_ASK", u64::from(FLAG_ASK)),
        ("NUMALENS_RUNTIME_LOG_START", runtime_log::START as u64),
        ("NUMALENS_RUNTIME_LOG_BYTES", runtime_log::BYTES as u64),
        ("NUMALENS_RUNTIME_LOG_MAGIC", runtime_log::MAGIC),
        ("NUMALENS_PUBLISHED", runtime_log::PUBLISHED),
        ("NUMALENS_MOST_NAME_BYTES", MOST_NAME_BYTES as u64),
        ("sizeof(struct numalens_header)", size_of::<Header>() as u64),
        ("sizeof(struct numalens_control)", size_of::<Control>() as u64),
        ("offsetof(struct numalens_control, head)", offset_of!(Control, head) as u64),
        ("offsetof(struct numalens_control, lost)", offset_of!(Control, lost) as u64),
        ("offsetof(struct numalens_note, kind)", 8),
        ("offsetof(struct numalens_note, call)", 10),
        ("offsetof(struct numalens_note, flags)", 11),
        ("offsetof(struct numalens_note, payload_bytes)", 12),
        ("offsetof(struct numalens_note, time_ns)", 16),
        ("offsetof(struct numalens_note, pid)", 24),
        ("offsetof(struct numalens_note, tid)", 28),
        ("offsetof(struct numalens_note, operands)", 32),
        ("offsetof(struct numalens_wide, ip)", 64),
        ("offsetof(struct numalens_wide, sp)", 72),
        ("offsetof(struct numalens_wide, bp)", 80),
        ("offsetof(struct numalens_wide, mean)", 88),
        ("offsetof(struct numalens_wide, frames)", 96),
        ("sizeof(struct numalens_frame)", FRAME_BYTES as u64),
    ]
    .map(|(expression, value)| (expression.to_owned(), value))
    .into();
    macro_rules! header_fields {
        ($($field:ident)*) => {$(
            all.push((concat!("offsetof(struct numalens_header, ", stringify!($field), ")").to_owned(), offset_of!(Header, $field) as u64));
        )*};
    }
    header_fields!(magic version open lanes_log2 note_slots_log2 wide_slots_log2 collector_pid large mean large_mean large_credit
        handshake handshake_ms doorbell reader_waiting ticket untracked unpassed unwrapped late every patience_ms runtime_log acknowledged clock_in_force clock);
    let constant = |name: String| {
        let upper = |(index, letter): (usize, char)| {
            let separator = if letter.is_uppercase() && index > 0 { "_" } else { "" };
            format!("{separator}{}", letter.to_ascii_uppercase())
        };
        name.char_indices().map(upper).collect::<String>()
    };
    all.extend(Kind::ALL.iter().map(|&kind| (format!("NUMALENS_{}", constant(format!("{kind:?}"))), kind as u64)));
    all.extend(Call::ALL.iter().map(|&call| (format!("NUMALENS_CALL_{}", constant(format!("{call:?}"))), call as u64)));
    all.extend(Told::ALL.iter().map(|&told| (format!("NUMALENS_TOLD_{}", constant(format!("{told:?}"))), told as u64)));
    let request =
        |&request: &Request| (format!("NUMALENS_REQUEST_{}", constant(format!("{request:?}"))), request as u64);
    all.extend(Request::ALL.iter().map(request));
    all
}

#[test]
fn header_and_crate_agree() {
    let directory = tempfile::tempdir().expect("scratch directory");
    let mut program =
        String::from("#include <stdio.h>\n#include \"numalens_event.h\"\n#include \"numalens.h\"\nint main(void) {\n");
    for (expression, _) in agreements() {
        writeln!(program, "    printf(\"%llu\\n\", (unsigned long long)({expression}));").expect("a string");
    }
    program.push_str("    return 0;\n}\n");
    let [source, executable] = ["agree.c", "agree"].map(|name| directory.path().join(name));
    std::fs::write(&source, program).expect("scratch directory");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-I", env!("CARGO_MANIFEST_DIR"), "-I"])
        .args([concat!(env!("CARGO_MANIFEST_DIR"), "/../../include"), "-o"])
        .args([&executable, &source])
        .status()
        .expect("cc, which built the library");
    assert!(compiled.success());
    let output = Command::new(&executable).output().expect("the program just built");
    let numbers: Vec<u64> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(numbers.len(), agreements().len());
    for ((expression, rust), c) in agreements().into_iter().zip(numbers) {
        assert_eq!(rust, c, "{expression}");
    }
}

#[test]
fn the_library_loads_into_any_libc() {
    let library = numalens_interpose::LIBRARY;
    if library.is_empty() {
        println!("skipped: the library is built for x86-64 Linux only");
        return;
    }
    let header = FileHeader64::<Endianness>::parse(library).expect("an ELF file");
    let endian = header.endian().expect("little endian");
    let sections = header.sections(endian, library).expect("sections");
    let (entries, _) = sections.dynamic(endian, library).expect("readable").expect("a dynamic section");
    let tags: Vec<_> = entries.iter().map(|entry| entry.d_tag(endian)).collect();
    assert!(!tags.contains(&DT_NEEDED), "it needs another library");
    assert!(!tags.contains(&DT_VERNEED), "it needs versions of symbols");
    let file = object::File::parse(library).expect("an ELF file");
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_undefined()) {
        assert!(symbol.is_weak(), "{:?} must exist", symbol.name());
    }
    let interposed = "malloc calloc realloc reallocarray free posix_memalign aligned_alloc memalign valloc pvalloc mmap mmap64 munmap \
        mprotect pkey_mprotect \
        mremap sched_setaffinity pthread_setaffinity_np pthread_create set_mempolicy mbind migrate_pages move_pages syscall prctl execve execv \
        execvp execvpe execl execlp execle fexecve execveat posix_spawn posix_spawnp system popen fork _exit _Exit quick_exit numalens_hook numalens_ask getenv \
        GOMP_parallel GOMP_parallel_sections GOMP_parallel_reductions GOMP_parallel_loop_static GOMP_parallel_loop_dynamic \
        GOMP_parallel_loop_guided GOMP_parallel_loop_runtime GOMP_parallel_loop_nonmonotonic_dynamic \
        GOMP_parallel_loop_nonmonotonic_guided GOMP_parallel_loop_nonmonotonic_runtime \
        GOMP_parallel_loop_maybe_nonmonotonic_runtime ompt_start_tool \
        _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t \
        _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t \
        _ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t \
        _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t dlsym";
    let mut expected: Vec<&str> = interposed.split_whitespace().collect();
    let mut exported: Vec<&str> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    expected.sort_unstable();
    exported.sort_unstable();
    assert_eq!(exported, expected, "it shadows exactly these names");
}
