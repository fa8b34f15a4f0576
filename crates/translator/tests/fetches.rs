//! Executed instructions are counted exactly, in code with and without accesses to memory.

mod support;

use numalens_translator::Changes;
use std::collections::BTreeMap;
use support::assemble::assemble;
use support::stops::{CAPACITY, TRAP_FLAG, prepare, run_to_its_fault};
use support::vectors::Vectors;
use support::{Machine, Options, Registers, SCHEMES};

/// Loops with and without accesses, code that needs its flags everywhere, side exits, calls, indirect jumps, string
/// instructions.
const KERNEL: &str = "
        mov ecx, 7
        xor eax, eax
    1:  imul rax, rax, 3
        add rax, rcx
        dec rcx
        jnz 1b
        mov ecx, 20
    2:  mov rbx, [rdi + rcx*8]
        test rcx, 1
        jz 3f
        lea rax, [rax + rbx]
        jmp 4f
    3:  add [rsi], rax
    4:  jnc 5f
        jns 5f
        nop
    5:  lea r8, [rip + 6f]
        call r8
        call 7f
        lea r11, [rip + 11f]
        xchg rcx, r11
        jmp rcx
    11: mov rcx, r11
        dec rcx
        jnz 2b
        jmp 8f
    6:  xor edx, edx
        ret
    7:  mov r9, [rdi]
        mov r10, [rdi + 8]
        cmp r9, r10
        cmovb r9, r10
        je 9f
        inc r9
    9:  push rbx
        pop rbx
        ret
    8:  mov ecx, 5
        rep stosb
        stc
        adc rax, 0
        jrcxz 10f
        ud2
    10: nop";

fn registers(machine: &Machine) -> Registers {
    let mut general = [0u64; 16];
    let data = machine.data.address();
    general[7] = data;
    general[6] = data + 0x1_0000;
    general[4] = data + support::DATA as u64 - 0x1000;
    Registers { general, flags: 0x202, vectors: Vectors::new().image }
}

#[test]
fn every_instruction_is_counted_once_whenever_it_is_executed() {
    prepare();
    // Code at the end of a page goes on in the next one.
    for padding in [0, 4096 - 40] {
        let text = format!(".fill {padding}, 1, 0x90\n{KERNEL}");
        for (scheme, instructions) in SCHEMES.into_iter().flat_map(|scheme| [64, 5].map(|length| (scheme, length))) {
            for changes in [Changes::Never, Changes::Notified, Changes::Silently] {
                let options =
                    Options { low_shadow: false, stack: false, scheme, instructions, changes, ..Options::default() };
                let mut machine = Machine::new(options);
                machine.load(&assemble(&[&text])[0]);
                let mut start = registers(&machine);
                start.flags |= TRAP_FLAG;
                machine.trace.reserve(CAPACITY);
                machine.run_native(&start);
                let mut native = std::mem::take(&mut machine.trace);
                // An instruction that repeats stops after every element.
                native.dedup_by_key(|stop| stop.rip);
                let mut wanted = BTreeMap::new();
                native.iter().for_each(|stop| *wanted.entry(stop.rip >> 12).or_default() += 1);
                start.flags &= !TRAP_FLAG;
                for _ in 0..3 {
                    machine.data.bytes_mut().fill(0);
                    machine.run_translated(&start);
                    assert_eq!(machine.take_fetches(), wanted, "{scheme:?}, {instructions}, {changes:?}, {padding}");
                    machine.take_counts();
                }
            }
        }
    }
}

/// Breaks off at each place of a segment, whatever counts it: only what was executed before the fault is counted.
#[test]
fn a_run_that_breaks_off_counts_what_it_did() {
    prepare();
    let fault = "mov r14, [rbx]";
    let kernels = [
        // No accesses but the one that faults; flags are live in the second half of the third.
        ["add rax, 1", "add rax, 2", "add rax, 3", "add rax, 4"],
        ["add rax, 1", "mov r9, [rdi]", "add rax, 3", "mov [rdi], rax"],
        ["mov r9, [rdi]", "lea rax, [rax + 1]", "mov r10, [rdi + 8]", "lea rax, [rax + 4]"],
        ["cmp rax, 5", "lea rax, [rax + 1]", "setc r9b", "lea rax, [rax + 4]"],
    ];
    for (kernel, place) in kernels.iter().flat_map(|kernel| (0..=4).map(move |place| (kernel, place))) {
        let mut lines = kernel.to_vec();
        lines.insert(place, fault);
        let text = format!(
            "mov ecx, 3\n1: mov rdx, rdi\n{}\ndec rcx\ncmovz rbx, r12\njnz 1b\n{}",
            lines.join("\n"),
            lines.join("\n")
        );
        for scheme in SCHEMES {
            let options = Options { low_shadow: false, stack: false, scheme, ..Options::default() };
            let mut machine = Machine::new(options);
            machine.load(&assemble(&[&text])[0]);
            let mut start = registers(&machine);
            let hole = support::memory::Mapping::hole();
            (start.general[3], start.general[12]) = (start.general[7], hole.address());
            run_to_its_fault(&mut machine, &start);
            // Three iterations of nine instructions and the one before them, then those before the fault.
            let wanted = 1 + 3 * 9 + place as u64;
            assert_eq!(machine.take_fetches().into_values().sum::<u64>(), wanted, "{scheme:?}:\n{text}");
        }
    }
}
