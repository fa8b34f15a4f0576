//! Programs are stepped through instruction by instruction; the calls and returns seen give the true stack at each.

mod trace;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::homes::read_maps;
use trace::Traced;

/// Compiles a program of tests/programs.
fn compile(name: &str, flags: &[&str], directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let program = directory.join("program");
    let status = Command::new("cc").arg(source).args(flags).arg("-o").arg(&program).status().unwrap();
    assert!(status.success(), "cc {flags:?}");
    program
}

/// The executable mappings of a process as they are now.
fn space_of(pid: i32, cache: &mut ModuleCache) -> AddressSpace {
    let mut space = AddressSpace::of_process(pid);
    for mapping in read_maps(pid).unwrap().iter().filter(|mapping| mapping.permissions.execute) {
        space.add_mapping(cache, mapping.start, mapping.end, mapping.offset, &mapping.path);
    }
    space
}

/// Steps from breakpoint to breakpoint; hands over the true frames and those found at each instruction.
fn each_step(program: &Path, mut compare: impl FnMut(&AddressSpace, Vec<u64>, Stack)) -> usize {
    let mut traced = Traced::start(program);
    traced.run_to_breakpoint();
    let mut cache = ModuleCache::new();
    let mut space = space_of(traced.pid, &mut cache);
    let at = traced.registers();
    let first = space.unwind(at.rip, at.rsp, at.rbp, &traced.stack(1 << 16), 64).0;
    // From main to the entry point: the truth that all others are built on.
    assert_eq!(first.end, StackEnd::Root, "{:x?}", first.frames);
    assert!(first.frames.len() >= 3, "{:x?}", first.frames);
    let mut truth = trace::Truth::new(&first.frames);
    let mut steps = 0;
    while traced.step(&mut truth) {
        let at = traced.registers();
        let found = space.unwind_registers(at.rip, &trace::general(&at), &traced.stack(1 << 14), 64).0;
        compare(&space, truth.frames(at.rip), found);
        steps += 1;
    }
    assert!(steps > 1000, "only {steps} steps");
    steps
}

/// Compares every stack with the truth; at most `allowed` may be wrong.
fn steps_are_unwound(program: &Path, allowed: usize) {
    let mut wrong = Vec::new();
    let steps = each_step(program, |space, expected, found| {
        if found.frames != expected || found.end != StackEnd::Root {
            let place = space.find(expected[0]).map(|mapping| mapping.svma(expected[0]));
            wrong.push(format!("at {place:x?}: {found:x?}, expected {expected:x?}"));
        }
    });
    assert!(wrong.len() <= allowed, "{} of {steps} stacks are wrong; {}", wrong.len(), wrong[0]);
}

fn every_instruction_is_unwound(flags: &[&str], allowed: usize) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("stacks.c", flags, directory.path());
    steps_are_unwound(&program, allowed);
}

#[test]
fn optimised_dynamic() {
    every_instruction_is_unwound(&["-O2", "-Wl,-z,lazy"], 0);
}

#[test]
fn optimised_bound_at_start() {
    every_instruction_is_unwound(&["-O3", "-Wl,-z,now", "-no-pie"], 0);
}

#[test]
fn frame_pointers() {
    // GCC's unwind information says that rbp is still saved on the stack for two instructions of `realigned` that have
    // restored it; nothing can be had from rbp then.
    every_instruction_is_unwound(&["-O1", "-fno-omit-frame-pointer", "-Wl,-z,now"], 2);
}

#[test]
fn static_program() {
    every_instruction_is_unwound(&["-O2", "-static"], 0);
}

#[test]
fn static_position_independent_program() {
    every_instruction_is_unwound(&["-O2", "-static-pie"], 0);
}

#[test]
fn without_the_search_table() {
    every_instruction_is_unwound(&["-O2", "-Wl,--no-eh-frame-hdr,-z,now"], 0);
}

/// A file whose section headers are gone is read by its program headers.
#[test]
fn without_section_headers() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("stacks.c", &["-O2"], directory.path());
    let mut image = std::fs::read(&program).unwrap();
    // e_shoff, e_shnum, e_shstrndx of the 64-bit header.
    image[0x28..0x30].fill(0);
    image[0x3c..0x40].fill(0);
    std::fs::write(&program, image).unwrap();
    let mut cache = ModuleCache::new();
    let module = cache.open(None, 0, 0, &program).unwrap();
    assert!(module.sections().is_empty());
    let code = module.segments().iter().find(|segment| segment.executable).unwrap();
    let covered = (0..code.memory_size).filter(|offset| module.function_range(code.svma + offset).is_some()).count();
    assert!(covered > 100, "{covered} bytes of code are covered");
    steps_are_unwound(&program, 0);
}

/// Without unwind information frame pointers remain, and a frame is missing only while one is being set up.
#[test]
fn frame_pointers_alone() {
    let directory = tempfile::tempdir().unwrap();
    let flags =
        ["-O1", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,-z,now"];
    let program = compile("stacks.c", &flags, directory.path());
    let (mut right, mut wrong) = (0, 0);
    let mut strange = Vec::new();
    each_step(&program, |space, expected, found| {
        if found.frames == expected {
            right += 1;
        } else {
            wrong += 1;
            // Frames may be missing, invented ones must not be there.
            if !found.frames.iter().all(|frame| expected.contains(frame)) {
                strange.push((space.find(found.frames[0]).map(|m| m.svma(found.frames[0])), found));
            }
        }
    });
    assert!(right > 10 * wrong, "{right} right, {wrong} wrong");
    assert!(strange.is_empty(), "invented frames: {strange:x?}");
}

#[test]
fn a_deleted_program_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("stacks.c", &["-O2"], directory.path());
    let mut traced = Traced::start(&program);
    traced.run_to_breakpoint();
    std::fs::remove_file(&program).unwrap();
    let mut cache = ModuleCache::new();
    let mut space = space_of(traced.pid, &mut cache);
    let at = traced.registers();
    assert!(space.find(at.rip).unwrap().module.as_ref().unwrap().path().to_str().unwrap().ends_with("(deleted)"));
    let stack = space.unwind(at.rip, at.rsp, at.rbp, &traced.stack(1 << 14), 64).0;
    assert_eq!(stack.end, StackEnd::Root);
    let known = cache.modules().len();
    // The same files in another process are the same modules, whatever process asks.
    let again = space_of(traced.pid, &mut cache);
    assert_eq!(cache.modules().len(), known);
    assert_eq!(again.mappings().len(), space.mappings().len());
}

#[test]
fn a_short_copy_is_completed_by_the_kernels_chain() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("stacks.c", &["-O1", "-fno-omit-frame-pointer"], directory.path());
    let mut traced = Traced::start(&program);
    traced.run_to_breakpoint();
    let mut cache = ModuleCache::new();
    let mut space = space_of(traced.pid, &mut cache);
    let at = traced.registers();
    let full = space.unwind(at.rip, at.rsp, at.rbp, &traced.stack(1 << 14), 64).0;
    assert!(full.frames.len() >= 4 && full.end == StackEnd::Root);
    let mut shortest = usize::MAX;
    for bytes in (0..2048).step_by(8) {
        let short = space.unwind(at.rip, at.rsp, at.rbp, &traced.stack(1 << 14)[..bytes], 64).0;
        assert_eq!(short.frames, full.frames[..short.frames.len()], "{bytes} bytes");
        assert_eq!(short.truncated(), short.frames.len() < full.frames.len(), "{bytes} bytes: {short:x?}");
        shortest = shortest.min(short.frames.len());
        // What the kernel would deliver, had every function a frame pointer.
        let chain: Vec<u64> = [u64::MAX - 511, full.frames[0]]
            .into_iter()
            .chain(full.frames[1..].iter().map(|frame| frame + 1))
            .collect();
        assert_eq!(combine(short, &chain), full.frames);
    }
    assert_eq!(shortest, 1);
}

#[test]
fn a_chain_is_joined_only_where_it_meets_the_stack() {
    let short = |frames: &[u64]| Stack { frames: frames.to_vec(), end: StackEnd::CopyEnded };
    assert_eq!(combine(short(&[10, 19, 29]), &[10, 30, 40, 50]), [10, 19, 29, 39, 49]);
    // Only the leaf in common: the chain wandered.
    assert_eq!(combine(short(&[10, 19, 29]), &[10, 77, 88]), [10, 19, 29]);
    // Nothing better than the chain.
    assert_eq!(combine(short(&[10]), &[10, 20, 30]), [10, 19, 29]);
    assert_eq!(combine(short(&[10]), &[]), [10]);
    let whole = Stack { frames: vec![10, 19], end: StackEnd::Root };
    assert_eq!(combine(whole, &[10, 20, 30]), [10, 19]);
}

/// Registers and stacks of any content, in a real address space: no panic, no endless walk.
#[test]
fn garbage_is_survived() {
    let mut cache = ModuleCache::new();
    let mut space = space_of(std::process::id() as i32, &mut cache);
    let code: Vec<(u64, u64)> = space.mappings().iter().map(|mapping| (mapping.start, mapping.end)).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let mut somewhere = |near: u64| match random() % 5 {
            0 => random(),
            1 => u64::MAX - random() % 4096,
            2 => near.wrapping_add(random() % 4096),
            _ => {
                let (start, end) = code[(random() % code.len() as u64) as usize];
                start + random() % (end - start)
            }
        };
        let sp = somewhere(0x7fff_0000_0000);
        let general: [u64; 16] = std::array::from_fn(|at| if at == 4 { sp } else { somewhere(sp) });
        let words: Vec<u8> = (0..64).flat_map(|_| somewhere(sp).to_le_bytes()).collect();
        let ip = somewhere(0);
        let max = (ip % 40) as usize;
        let found = space.unwind_registers(ip, &general, &words[..words.len() - (ip % 8) as usize], max).0;
        assert_eq!(found.frames[0], ip);
        assert!(found.frames.len() <= max.max(1));
    }
}

#[test]
fn mappings_are_cut_and_replaced() {
    let mut cache = ModuleCache::new();
    let mut space = AddressSpace::new();
    let exe = std::env::current_exe().unwrap();
    space.add_mapping(&mut cache, 0x10000, 0x20000, 0, &exe);
    assert!(space.find(0x10000).is_some() && space.find(0x20000).is_none());
    space.remove(0x14000, 0x18000);
    let pieces: Vec<_> = space.mappings().iter().map(|m| (m.start, m.end, m.file_offset)).collect();
    assert_eq!(pieces, [(0x10000, 0x14000, 0), (0x18000, 0x20000, 0x8000)]);
    space.add_mapping(&mut cache, 0x13000, 0x19000, 0, Path::new(""));
    let pieces: Vec<_> = space.mappings().iter().map(|m| (m.start, m.end, m.module.is_some())).collect();
    assert_eq!(pieces, [(0x10000, 0x13000, true), (0x13000, 0x19000, false), (0x19000, 0x20000, true)]);
    let child = space.fork();
    space.remove(0, u64::MAX);
    assert!(space.mappings().is_empty());
    assert_eq!(child.mappings().len(), 3);
}

/// Paths that would have side effects when opened, or that are no program.
#[test]
fn only_regular_files_are_opened() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let truncated = directory.path().join("truncated");
    std::fs::write(&truncated, &std::fs::read(std::env::current_exe().unwrap()).unwrap()[..4096]).unwrap();
    let mut cache = ModuleCache::new();
    for path in
        [&fifo, &text, &directory.path().join("absent"), Path::new("/dev/zero"), Path::new("//anon"), Path::new("")]
    {
        assert!(cache.open(None, 0x1000, 0x2000, path).is_none(), "{}", path.display());
    }
    if let Some(module) = cache.open(None, 0x1000, 0x2000, &truncated) {
        assert_eq!(module.function_range(0x1000), None);
    }
    assert!(cache.open(None, 0, 0, Path::new("[vdso]")).unwrap().function_range(0).is_none());
}
