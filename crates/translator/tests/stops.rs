//! A thread may be stopped anywhere in translated code: the program's state must be had from there.

mod support;

use numalens_translator::{Changes, CpuQuery, Scheme, State};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use support::assemble::assemble;
use support::expected::{Expected, by_page, reads, updates, writes};
use support::stops::{CAPACITY, TRAP_FLAG, prepare, restored, run_to_its_fault};
use support::vectors::Vectors;
use support::{Machine, Options, Registers, SCHEMES};

const KERNEL: &str = "
        jmp 3f
    1:  push rbx
        mov rbx, [rdi]
        add [rsi + rcx*8], rbx
        adc rbx, [rdx]
        mov [rdx + 8], rbx
        movzx eax, byte ptr [rdi + rcx]
        pop rbx
        ret
    2:  mov r9, [rdi + 64]
        mov r10, [rsi + 64]
        mov r11, [rdx + 64]
        lea rax, [rip + 1b]
        call rax
        call 1b
        dec rcx
        jnz 2b
        jmp 4f
    3:  mov r8, rdi
        jmp 2b
    4:  mov rdi, r8
        mov ecx, 5
        rep stosb
        mov al, 3
        std
        mov ecx, 3
        repne scasb
        cld
        bts [rsi], rcx
        add fs:[0x2b0 - 0x2b0 + 16], eax
        sub fs:[16], eax
        xlatb";

fn registers(machine: &Machine) -> Registers {
    let mut general: [u64; 16] = std::array::from_fn(|number| 0x0102_0304_0506_0708 * (number as u64 + 1));
    let data = machine.data.address();
    general[7] = data;
    general[6] = data + 0x1_0000;
    general[2] = data + 0x2_0000;
    general[3] = data + 0x3_0000;
    general[4] = data + support::DATA as u64 - 0x1000;
    general[1] = 6;
    Registers { general, flags: 0x202, vectors: Vectors::new().image }
}

#[test]
fn every_instruction_begins_in_a_state_that_can_be_had() {
    prepare();
    use Changes::{Never, Notified, Silently};
    let kinds = [
        (KERNEL, Never, 64),
        (KERNEL, Notified, 64),
        (KERNEL, Silently, 64),
        (KERNEL, Silently, 2),
        (CPU_QUERIES, Never, 64),
        (CPU_QUERIES, Silently, 64),
    ];
    for (text, changes, instructions) in kinds {
        let own_processor = text == CPU_QUERIES;
        let options = Options { low_shadow: false, changes, instructions, own_processor, ..Options::default() };
        let mut machine = Machine::new(options);
        machine.load(&assemble(&[text])[0]);
        let mut start = registers(&machine);
        start.flags |= TRAP_FLAG;
        machine.trace.reserve(CAPACITY);
        machine.run_native(&start);
        let mut native = std::mem::take(&mut machine.trace);
        // An instruction that repeats stops after every element.
        native.dedup_by_key(|stop| stop.rip);
        machine.data.bytes_mut().fill(0);
        machine.trace.reserve(CAPACITY);
        machine.run_translated(&start);
        let translated = std::mem::take(&mut machine.trace);
        let mut at = 0;
        let mut begun = 0;
        for stop in &translated {
            let position = machine.cache.locate(stop.rip).expect("every address in the cache is known");
            if position.state != State::Before {
                continue;
            }
            // The first stops are before and after the first instruction.
            if position.ip != native[at].rip {
                at += 1;
                begun += 1;
            }
            let wanted = &native[at];
            assert_eq!(position.ip, wanted.rip, "after {begun} instructions");
            let registers = restored(stop, &position);
            if changes == Silently {
                assert_eq!(
                    registers, wanted.general,
                    "at {:x} of the program, {:x} of the cache",
                    position.ip, stop.rip
                );
            } else {
                assert_eq!(registers[4], wanted.general[4], "rsp at {:x}", position.ip);
            }
        }
        assert_eq!(at, native.len() - 1, "every instruction of the program began");
    }
}

/// With counted accesses before and after them, and flags and registers that are looked at behind them. The first and
/// the last selector are those of the stack of 64-bit programs, the one in between is none.
const CPU_QUERIES: &str = "
        mov eax, 0x80000002
        xor ecx, ecx
        cmp rdi, rsi
        mov r11, [rdi]
        cpuid
        adc [rsi], rbx
        mov [rsi + 0x800], eax
        mov r9d, 0x2b
        lsl r10d, r9d
        jnz 1f
        mov [rdi + 8], r10
    1:  mov r12d, 0xfff8
        lsl r13d, r12d
        jz 2f
        lsl r14w, r9w
        mov [rdi + 16], r14
    2:  cpuid";

#[test]
fn queries_about_the_processor_are_the_owner_s() {
    prepare();
    for own_processor in [true, false] {
        let mut machine = Machine::new(Options { low_shadow: false, own_processor, ..Options::default() });
        machine.load(&assemble(&[CPU_QUERIES])[0]);
        let start = registers(&machine);
        let native = machine.run_native(&start);
        let memory = machine.data.bytes().to_vec();
        machine.data.bytes_mut().fill(0);
        let translated = machine.run_translated(&start);
        assert_eq!((translated.general, translated.flags), (native.general, native.flags));
        assert!(machine.data.bytes() == memory, "memory");
        let limit = |to, bytes, selector| CpuQuery::Limit { to, bytes, selector };
        use numalens_isa::Register::{R9, R10, R12, R13, R14};
        let all = [CpuQuery::Cpuid, limit(R10, 8, R9), limit(R13, 8, R12), limit(R14, 2, R9), CpuQuery::Cpuid];
        assert_eq!(machine.env.asked, if own_processor { &all[..] } else { &[] });
        let counted: u64 = machine.take_counts().0.values().map(|(reads, writes)| reads + writes).sum();
        assert_eq!(counted, 6);
    }
}

/// With flags that are looked at behind the second call.
const CALLS: &str = "
        mov eax, 39
        syscall
        mov [rdi], rax
        mov eax, 39
        cmp rdi, rsi
        syscall
        adc rax, rcx
        mov [rdi + 8], r11";

#[test]
fn the_owner_hears_of_news_behind_system_calls() {
    static NEWS: AtomicU64 = AtomicU64::new(0);
    prepare();
    let mut machine = Machine::new(Options { low_shadow: false, own_processor: true, ..Options::default() });
    machine.load(&assemble(&[CALLS])[0]);
    machine.context.set(numalens_translator::context::NEWS as usize, NEWS.as_ptr() as u64);
    let start = registers(&machine);
    let native = machine.run_native(&start);
    let memory = machine.data.bytes().to_vec();
    // At first exits are linked.
    let left = [0, 0, 0, 1].map(|news| {
        NEWS.store(news, Relaxed);
        machine.data.bytes_mut().fill(0);
        machine.env.left = 0;
        let translated = machine.run_translated(&start);
        assert_eq!((translated.general, translated.flags), (native.general, native.flags));
        assert!(machine.data.bytes() == memory, "memory");
        machine.env.left
    });
    assert_eq!(left[3], left[2] + 2);
}

#[test]
fn a_fault_belongs_to_its_instruction() {
    prepare();
    for (text, sites) in [
        ("mov r9, [rdi]\nmov rax, [rbx]\nmov rcx, [rdi]", 1),
        ("cmp rax, rcx\nadd [rbx + 8], rcx\njz 1f\n1: nop", 1),
        ("call [rbx]", 2),
        ("push [rbx]", 2),
        ("mov rsi, rbx\nmovsq", 2),
        ("mov rsp, rbx\ncall 1f\n1: nop", 1),
        ("mov rsp, rbx\nret", 1),
    ] {
        let options =
            Options { low_shadow: false, changes: Changes::Silently, scheme: Scheme::Flat, ..Options::default() };
        let mut machine = Machine::new(options);
        machine.load(&assemble(&[text])[0]);
        let mut start = registers(&machine);
        let hole = support::memory::Mapping::hole();
        start.general[3] = hole.address() + 0x800;
        machine.trace.reserve(CAPACITY);
        machine.run_native(&start);
        let native = machine.trace.pop().expect("a fault");
        machine.run_translated(&start);
        let translated = machine.trace.pop().expect("a fault");
        let position = machine.cache.locate(translated.rip).expect("it is in the cache");
        assert_eq!((position.state, position.ip), (State::Counted, native.rip), "{text}");
        assert_eq!((position.counted.len(), position.sites.len()), (sites, sites), "{text}");
        assert_eq!(restored(&translated, &position), native.general, "{text}");
    }
}

/// These accesses have been counted, one each, and no others.
fn assert_counted(machine: &mut Machine, wanted: &[Expected], what: &str) {
    let (pages, sites) = machine.take_counts_of_a_stop();
    assert_eq!(pages, by_page(wanted), "pages, {what}");
    assert_eq!(sites, wanted.len() as u64, "sites, {what}");
}

/// Runs into a hole in the middle of the 200th iteration: what the accesses before and after the fault were counted as
/// members of their groups must be right, by last pages, megamorphic (`stride` of a page), immediately and by the flat
/// tables.
#[test]
fn an_iteration_that_breaks_off_counts_what_it_did() {
    prepare();
    let text = "
    1:  mov r9, [rdi]
        mov [rsi + 8], r9
        cmp rcx, 1
        cmove rbx, r12
        add [rsi], r9
        mov r10, [rbx]
        add [rsi], r10
        mov r11, [rdi + 8]
        mov [rip + 1b - 4096], r11
        lea rdi, [rdi + r13]
        mov r8, [rdi - 8]
        dec rcx
        jnz 1b";
    let text = text.replace("[rip + 1b - 4096]", "[rdx + 16]");
    for (scheme, stride) in SCHEMES.into_iter().flat_map(|scheme| [8, 0x200, 0xf00].map(|stride| (scheme, stride))) {
        let options = Options { low_shadow: false, scheme, persists: true, ..Options::default() };
        let mut machine = Machine::new(options);
        machine.load(&assemble(&[&text])[0]);
        let mut start = registers(&machine);
        let hole = support::memory::Mapping::hole();
        (start.general[1], start.general[12], start.general[13]) = (200, hole.address(), stride);
        let [rdx, rbx, rsi, rdi] = [2, 3, 6, 7].map(|register| start.general[register]);
        run_to_its_fault(&mut machine, &start);
        let mut wanted = Vec::new();
        for pass in 0..200 {
            let rdi = rdi + pass * stride;
            wanted.extend([reads(rdi, 1), writes(rsi + 8, 1), updates(rsi, 1)]);
            if pass < 199 {
                wanted.extend([reads(rbx, 1), updates(rsi, 1), reads(rdi + 8, 1), writes(rdx + 16, 1)]);
                wanted.push(reads(rdi + stride - 8, 1));
            }
        }
        assert_counted(&mut machine, &wanted, &format!("{scheme:?}, stride {stride}"));
    }
}

/// The same in a loop whose operands advance together, in the middle of a page and where a group lies across the end of
/// one, behind an increment that is not made any more.
#[test]
fn a_hoisted_check_that_breaks_off_counts_what_it_did() {
    prepare();
    let text = "
    1:  mov r9, [rdi]
        add r9, [rdi + 8]
        cmp rcx, 1
        cmove rbx, r12
        mov r10, [rbx]
        add rsi, 8
        mov [rsi - 8], r9
        add [rsi], r10
        add rdi, 8
        dec rcx
        jnz 1b";
    for (scheme, offset) in [(Scheme::LastPage, 0), (Scheme::Loops, 0), (Scheme::Loops, 8), (Scheme::Flat, 8)] {
        let options = Options { low_shadow: false, scheme, persists: true, ..Options::default() };
        let mut machine = Machine::new(options);
        machine.load(&assemble(&[text])[0]);
        let mut start = registers(&machine);
        let hole = support::memory::Mapping::hole();
        (start.general[1], start.general[12]) = (200, hole.address());
        // The last iteration begins right before the end of a page, or not.
        start.general[7] += 0x1000 - 200 * 8 + offset;
        start.general[6] += 0x1000 - 200 * 8 + offset;
        let [rbx, rsi, rdi] = [3, 6, 7].map(|register| start.general[register]);
        run_to_its_fault(&mut machine, &start);
        let mut wanted = Vec::new();
        for pass in 0..200 {
            let (rsi, rdi) = (rsi + pass * 8, rdi + pass * 8);
            wanted.extend([reads(rdi, 1), reads(rdi + 8, 1)]);
            if pass < 199 {
                wanted.extend([reads(rbx, 1), writes(rsi, 1), updates(rsi + 8, 1)]);
            }
        }
        assert_counted(&mut machine, &wanted, &format!("{scheme:?}, offset {offset}"));
    }
}

/// The same wherever an iteration breaks off, among accesses whose registers are copies of each other and go back and
/// forth.
#[test]
fn an_iteration_among_registers_at_known_distances_counts_what_it_did() {
    prepare();
    // With each line: how far from where an iteration begins it accesses memory, and whether it writes.
    let lines: [(&str, Option<(i64, bool)>); 14] = [
        ("mov r9, [rdi]", Some((0, false))),
        ("lea r11, [rdi + 24]", None),
        ("mov r14, rdi", None),
        ("add rdi, 16", None),
        ("mov [rdi - 8], r9", Some((8, true))),
        ("mov r10, [r14 + 16]", Some((16, false))),
        ("sub r11, 8", None),
        ("mov [r11 + 1], r10", Some((17, true))),
        ("inc rdi", None),
        ("mov r8, [rdi + 3]", Some((20, false))),
        ("mov rdi, r14", None),
        ("mov [rdi + 2], r8", Some((2, true))),
        ("lea rdi, [rdi + r13]", None),
        ("mov r8, [rdi - 8]", None),
    ];
    for (place, (scheme, stride)) in (0..lines.len()).flat_map(|place| {
        SCHEMES.into_iter().flat_map(|scheme| [8, 0xf00].map(|stride| (scheme, stride))).map(move |kind| (place, kind))
    }) {
        let mut text: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
        text.insert(place, "cmp rcx, 1\ncmove rbx, r12\nmov r15, [rbx]");
        let text = format!("1: {}\ndec rcx\njnz 1b", text.join("\n"));
        let mut machine = Machine::new(Options { low_shadow: false, scheme, ..Options::default() });
        machine.load(&assemble(&[&text])[0]);
        let mut start = registers(&machine);
        let hole = support::memory::Mapping::hole();
        (start.general[1], start.general[12], start.general[13]) = (200, hole.address(), stride);
        let [rbx, rdi] = [3, 7].map(|register| start.general[register]);
        run_to_its_fault(&mut machine, &start);
        let mut wanted = Vec::new();
        for pass in 0..200 {
            let begin = rdi + pass * stride;
            let done = if pass < 199 { lines.len() } else { place };
            for (_, access) in &lines[..done] {
                let access = access.map(|(offset, writes)| (begin.wrapping_add_signed(offset), writes));
                wanted.extend(access.map(|(at, is_write)| if is_write { writes(at, 1) } else { reads(at, 1) }));
            }
            if pass < 199 {
                wanted.extend([reads(rbx, 1), reads(begin + stride - 8, 1)]);
            }
        }
        assert_counted(&mut machine, &wanted, &format!("{scheme:?}, stride {stride}, before line {place}"));
    }
}

#[test]
fn code_that_changes_is_translated_again() {
    let mut machine = Machine::new(Options { low_shadow: false, changes: Changes::Silently, ..Options::default() });
    let [first, second] = ["mov eax, 1\ncmp rcx, 5", "mov eax, 2\ncmp rcx, 5"].map(|text| assemble(&[text]).remove(0));
    machine.load(&first);
    let start = registers(&machine);
    assert_eq!(machine.run_translated(&start).general[0], 1);
    machine.poke(0, &second);
    assert_eq!(machine.run_translated(&start).general[0], 2);
    assert_eq!(machine.run_native(&start).general, machine.run_translated(&start).general);
}

#[test]
fn a_fragment_finds_its_own_code_changed_without_losing_flags() {
    // The second instruction of the loop is overwritten on the first iteration, by code that looks at flags that were
    // dead.
    let text = "
        xor ebx, ebx
    1:  nop
        jmp 2f
    2:  mov al, 7
        cmp rcx, rcx
        setz bl
        lea r8, [rip + 2b]
        mov word ptr [r8], 0xc094
        dec rcx
        jnz 1b";
    // 0f 94 c0: setz al, in the place of mov al, 7 with its first byte.
    let text = text
        .replace("mov al, 7", ".byte 0xb0, 0x07, 0x90")
        .replace("mov word ptr [r8], 0xc094", "mov word ptr [r8], 0x940f\nmov byte ptr [r8 + 2], 0xc0");
    let mut machine = Machine::new(Options { low_shadow: false, changes: Changes::Silently, ..Options::default() });
    let code = assemble(&[text.as_str()]).remove(0);
    let mut start = registers(&machine);
    start.general[1] = 3;
    machine.load(&code);
    let native = machine.run_native(&start);
    machine.load(&code);
    machine.take_counts();
    let translated = machine.run_translated(&start);
    assert_eq!(native.general, translated.general);
}

#[test]
fn the_stack_is_left_out_on_demand() {
    let mut machine = Machine::new(Options { low_shadow: false, stack: false, ..Options::default() });
    machine.load(&assemble(&["push rax\nmov [rsp - 8], rax\npop rax\nadd rax, [rdi]\ncall 1f\n1: pop rcx"])[0]);
    let start = registers(&machine);
    machine.run_translated(&start);
    let (pages, sites) = machine.take_counts();
    assert_eq!(pages, by_page(&[reads(start.general[7], 1)]));
    assert_eq!(sites.len(), 1);
}

#[test]
fn fragments_that_are_invalid_are_not_entered_again() {
    // An indirect and a direct way into the same code, changed between two runs, announced.
    let text = "
        lea rax, [rip + 2f]
        call rax
        call 2f
        jmp 3f
    2:  add ebx, 1
        ret
    3:  nop";
    let [first, second] =
        [text.to_string(), text.replace("ebx, 1", "ebx, 5")].map(|text| assemble(&[text.as_str()]).remove(0));
    let mut machine = Machine::new(Options { low_shadow: false, ..Options::default() });
    machine.load(&first);
    let mut start = registers(&machine);
    start.general[3] = 0;
    assert_eq!(machine.run_translated(&start).general[3], 2);
    assert_eq!(machine.run_translated(&start).general[3], 2);
    machine.load(&second);
    assert_eq!(machine.run_translated(&start).general[3], 10);
    // Only the called code changes: its callers stay, unlinked.
    machine.poke(0, &first);
    let at = machine.program_address();
    let called = first.iter().zip(&second).position(|(a, b)| a != b).expect("they differ") as u64;
    machine.cache.invalidate(&mut machine.env, at + called..at + called + 1);
    assert_eq!(machine.run_translated(&start).general[3], 2);
}

#[test]
fn jumps_to_fragments_that_are_there_need_no_dispatcher() {
    let mut machine = Machine::new(Options { low_shadow: false, ..Options::default() });
    machine.load(&assemble(&["call 2f\ncall 2f\ncall 2f\njmp 3f\n2: inc ebx\nret\n3: nop"])[0]);
    let start = registers(&machine);
    let native = machine.run_native(&start);
    assert_eq!(machine.run_translated(&start).general, native.general);
    // Each fragment but the first is translated when it is first jumped to. The last jump leads out of the program.
    assert_eq!(machine.env.left, machine.cache.size().0);
}

#[test]
fn evicted_code_is_translated_again() {
    let text = "
        xor ebx, ebx
    1:  lea rax, [rip + 2f]
        call rax
        call 2f
        lea rax, [rip + 4f]
        push rax
        ret
    4:  dec rcx
        jnz 1b
        jmp 3f
    2:  add [rdi], rbx
        ret
    3:  nop";
    let mut machine = Machine::new(Options { low_shadow: false, instructions: 3, ..Options::default() });
    machine.load(&assemble(&[text])[0]);
    let start = registers(&machine);
    let native = machine.run_native(&start);
    assert_eq!(machine.run_translated(&start).general, native.general);
    let (fragments, _) = machine.cache.size();
    // Jumps that are not linked any more link themselves again.
    machine.cache.unlink(&mut machine.env);
    assert_eq!(machine.run_translated(&start).general, native.general);
    assert_eq!(machine.cache.size().0, fragments);
    machine.evict();
    assert_eq!(machine.run_translated(&start).general, native.general);
    assert_eq!(machine.cache.size().0, 2 * fragments);
    // What was evicted is not patched any more, and what came after still is.
    let program = machine.program_address();
    machine.cache.invalidate(&mut machine.env, program..program + 4096);
    assert_eq!(machine.run_translated(&start).general, native.general);
}
