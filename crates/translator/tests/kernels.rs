//! Small programs in assembly whose accesses follow from arithmetic: run natively and translated, the registers and
//! memory must agree, and the counts must be the ones expected.

mod support;

use numalens_translator::Scheme;
use support::assemble::assemble;
use support::expected::{Expected, by_page, reads, updates, writes};
use support::kernel::{check, fill, hex, registers};
use support::{Machine, Options, SCHEMES};

#[test]
fn straight_line() {
    check("mov rax, [rdi]\nadd [rsi + 8], rax\nmov [rdx], eax", 0, |r| {
        vec![reads(r.general[7], 1), updates(r.general[6] + 8, 1), writes(r.general[2], 1)]
    });
}

#[test]
fn triad_over_pages() {
    // 3000 elements of 8 bytes: six pages each.
    let text = "
        xor eax, eax
    1:  movsd xmm0, [rsi + rax*8]
        addsd xmm0, [rdx + rax*8]
        movsd [rdi + rax*8], xmm0
        inc rax
        cmp rax, rcx
        jb 1b";
    check(text, 3000, |r| {
        (0..3000)
            .flat_map(|i| {
                [reads(r.general[6] + 8 * i, 1), reads(r.general[2] + 8 * i, 1), writes(r.general[7] + 8 * i, 1)]
            })
            .collect()
    });
}

#[test]
fn a_loop_that_turns_out_long_is_translated_again() {
    const EXECUTIONS: u64 = 150_000;
    const WORDS: u64 = 0x4000 / 8;
    let text = "
        xor eax, eax
    1:  mov ebx, eax
        and ebx, 0x3ff8
        mov r8, [rdi + rbx]
        add [rsi + rbx], r8
        mov [rdx], r8
        add eax, 8
        dec rcx
        jnz 1b";
    check(text, EXECUTIONS, |r| {
        let words = (0..WORDS).map(|word| (8 * word, (EXECUTIONS - word).div_ceil(WORDS)));
        let each = words.flat_map(|(at, count)| [reads(r.general[7] + at, count), updates(r.general[6] + at, count)]);
        each.chain([writes(r.general[2], EXECUTIONS)]).collect()
    });
    let mut machine = Machine::new(Options { scheme: Scheme::LongLoops, ..Options::default() });
    // All pages have been written: those that have not make their groups megamorphic, and the fragment translated once
    // more.
    machine.load(&assemble(&["mov rax, rcx\nrep stosq\nnop"])[0]);
    let mut filling = registers(&machine);
    filling.general[1] = WORDS;
    machine.run_translated(&filling);
    machine.load(&assemble(&[text])[0]);
    for (executions, retranslations) in [(1 << 15, 0), (1 << 16, 1)] {
        let mut registers = registers(&machine);
        registers.general[1] = executions;
        machine.run_translated(&registers);
        assert_eq!(machine.retranslations, retranslations);
    }
}

#[test]
fn operands_that_advance_together() {
    // Four streams: by an index, by pointers that grow before and after, and backwards; across the ends of pages.
    let text = "
        lea r8, [rdi + rcx*8]
        lea r9, [rsi + 0xf84]
        lea r10, [rdx + rcx*4]
        xor eax, eax
    1:  mov rbx, [rdi + rax*8]
        add rbx, [rdi + rax*8 + 8]
        sub r10, 4
        add [r9], rbx
        lea r9, [r9 + 16]
        mov [r10 + 4], ebx
        add [r9 - 8], bl
        add rax, 1
        dec rcx
        jnz 1b";
    check(text, 2500, |r| {
        let [rdi, rsi, rdx] = [7, 6, 2].map(|register| r.general[register]);
        let pass = |i: u64| {
            let r9 = rsi + 0xf84 + 16 * i;
            let backwards = rdx + 10000 - 4 * i;
            let own = [updates(r9, 1), updates(r9 + 8, 1), writes(backwards, 1)];
            [reads(rdi + 8 * i, 1), reads(rdi + 8 * i + 8, 1)].into_iter().chain(own)
        };
        (0..2500).flat_map(pass).collect()
    });
}

#[test]
fn short_loops_begin_again_elsewhere() {
    // Rows of seven, far apart, with a way out in the middle of the last iteration and operands that stand still.
    let text = "
        mov r11, rdi
    1:  mov r8, r11
        mov r9, rsi
        mov eax, 7
    2:  mov rbx, [r8]
        add r8, 8
        mov [r9], rbx
        cmp eax, 1
        je 3f
        add qword ptr [rdx], 1
        add r9, 24
        add [r8 + 64], rbx
        dec eax
        jmp 2b
    3:  add r11, 0x1a8
        dec rcx
        jnz 1b";
    check(text, 100, |r| {
        let [rdi, rsi, rdx] = [7, 6, 2].map(|register| r.general[register]);
        let mut all = Vec::new();
        for row in 0..100 {
            for i in 0..7 {
                let r8 = rdi + 0x1a8 * row + 8 * i;
                all.extend([reads(r8, 1), writes(rsi + 24 * i, 1)]);
                if i < 6 {
                    all.extend([updates(rdx, 1), updates(r8 + 72, 1)]);
                }
            }
        }
        all
    });
}

#[test]
fn random_updates_are_looked_up_in_place() {
    // A linear congruence spreads over sixteen pages; two neighbours, which lie across the end of a page now and then.
    let text = "
        mov eax, 1
    1:  imul eax, eax, 1103515245
        add eax, 12345
        mov ebx, eax
        shr ebx, 16
        add byte ptr [rdi + rbx], 1
        mov bl, byte ptr [rsi + rcx]
        dec rcx
        jnz 1b
        mov ecx, 300
    2:  imul eax, eax, 1103515245
        add eax, 12345
        mov ebx, eax
        shr ebx, 17
        add [rdi + rbx], eax
        add [rdi + rbx + 7], eax
        dec rcx
        jnz 2b";
    check(text, 3000, |r| {
        let mut x = 1u32;
        let mut next = |shift: u32| {
            x = x.wrapping_mul(1103515245).wrapping_add(12345);
            r.general[7] + u64::from(x >> shift)
        };
        let mut all: Vec<Expected> = Vec::new();
        for i in 0..3000 {
            all.extend([updates(next(16), 1), reads(r.general[6] + 3000 - i, 1)]);
        }
        for _ in 0..300 {
            let at = next(17);
            all.extend([updates(at, 1), updates(at + 7, 1)]);
        }
        all
    });
}

#[test]
fn flags_live_across_accesses() {
    // The carry runs through loads and stores.
    let text = "
        clc
    1:  mov rax, [rsi]
        adc rax, [rdx]
        mov [rdi], rax
        lea rsi, [rsi + 8]
        lea rdx, [rdx + 8]
        lea rdi, [rdi + 8]
        dec rcx
        jnz 1b
        setc al";
    check(text, 600, |r| {
        (0..600)
            .flat_map(|i| {
                [reads(r.general[6] + 8 * i, 1), reads(r.general[2] + 8 * i, 1), writes(r.general[7] + 8 * i, 1)]
            })
            .collect()
    });
}

#[test]
fn calls_returns_and_the_stack() {
    let text = "
        jmp 3f
    1:  push rbx
        mov rbx, [rdi]
        add rdi, 8
        cmp rcx, 1
        jbe 2f
        dec rcx
        call 1b
    2:  pop rbx
        ret 8
    3:  sub rsp, 8
        mov rbp, rsp
    4:  call 1b
        lea rsp, [rbp]
        test ecx, ecx";
    // `ret 8` drops a word that nobody pushed, so the stack walks up: recursion of depth 1 only.
    check(text, 1, |r| {
        let top = r.general[4] - 8;
        vec![writes(top - 8, 1), writes(top - 16, 1), reads(r.general[7], 1), reads(top - 16, 1), reads(top - 8, 1)]
    });
}

#[test]
fn returns_leave_the_flags_alone() {
    // To where no call has come from, into the middle of what looks at flags; then the same entry for another address.
    let text = "
        xor ebx, ebx
    1:  lea rax, [rip + 2f]
        push rax
        cmp rcx, 2
        ret
    2:  adc rbx, rbx
        sets dl
        call 3f
        add rbx, rdx
        dec rcx
        jnz 1b
        jmp 4f
    3:  stc
        ret
    4:  nop";
    let mut machine = Machine::new(Options { low_shadow: false, stack: false, ..Options::default() });
    let program = machine.load(&assemble(&[text])[0]);
    let mut registers = registers(&machine);
    (registers.general[1], registers.general[2]) = (5, 0);
    let native = machine.run_native(&registers);
    for _ in 0..2 {
        assert_eq!(machine.run_translated(&registers).general, native.general);
    }
    let code = assemble(&[text]).remove(0);
    let mut sites: Vec<u64> =
        (program..program + code.len() as u64).filter(|&ip| machine.return_entry(ip).is_some()).collect();
    // Neighbours share an entry.
    sites.dedup_by_key(|ip| *ip >> 3);
    assert!(sites.len() >= 2, "{} addresses that are returned to", sites.len());
    for [one, other] in [[sites[0], sites[1]], [sites[1], sites[0]]] {
        machine.confuse_returns(one, other);
        assert_eq!(machine.run_translated(&registers).general, native.general);
    }
}

#[test]
fn flags_that_functions_hand_over() {
    // The function is called, and so translated, before anybody wants its flags. There are two iterations: in the
    // second one all is linked.
    let by_a_comparison = "
        mov ecx, 2
        jmp 2f
    1:  cmp rcx, [rdi]
        mov rax, [rdi + 8]
        mov [rdi + 16], rax
        ret
    2:  call 1b
        xor ebx, ebx
        call 1b
        mov rdx, rcx
        jae 3f
        inc ebx
    3:  dec rcx
        jnz 2b";
    // Who wants them does so on a way that is not straight.
    let on_purpose = "
        mov ecx, 2
        xor ebx, ebx
        jmp 2f
    1:  stc
        mov rax, [rdi + 8]
        mov [rdi + 16], rax
        ret
    2:  call 1b
        jrcxz 3f
    3:  adc ebx, ebx
        dec rcx
        jnz 2b";
    for (text, calls, compares) in [(by_a_comparison, 4, true), (on_purpose, 2, false)] {
        check(text, 1, |r| {
            let (at, stack) = (r.general[7], r.general[4] - 8);
            let call = [writes(stack, 1), reads(at + 8, 1), writes(at + 16, 1), reads(stack, 1)];
            let call = call.into_iter().chain(compares.then(|| reads(at, 1)));
            (0..calls).flat_map(|_| call.clone()).collect()
        });
    }
}

#[test]
fn recursion() {
    let text = "
        jmp 3f
    1:  push rcx
        dec rcx
        jz 2f
        call 1b
    2:  pop rcx
        add [rdi], rcx
        ret
    3:  call 1b
        test ecx, ecx";
    check(text, 100, |r| {
        let top = r.general[4];
        let stack = |depth: u64| top - 8 * (depth + 1);
        (0..200)
            .flat_map(|depth| [writes(stack(depth), 1), reads(stack(depth), 1)])
            .chain([updates(r.general[7], 100)])
            .collect()
    });
}

#[test]
fn indirect_calls_and_jump_tables() {
    let text = "
        jmp 4f
        .balign 8
    5:  .quad 1f - 5b, 2f - 5b, 3f - 5b
    1:  add [rdi], rcx
        ret
    2:  add [rsi], rcx
        ret
    3:  add [rdx], rcx
        ret
    4:  lea r8, [rip + 5b]
        xor r9d, r9d
    6:  mov r10, [r8 + r9*8]
        add r10, r8
        test cl, 1
        jz 7f
        call r10
        jmp 8f
    7:  mov [rsp - 64], r10
        call [rsp - 64]
    8:  inc r9
        cmp r9, 3
        jb 9f
        xor r9d, r9d
    9:  dec rcx
        jnz 6b
        lea r10, [rip + 10f]
        jmp r10
        ud2
    10: nop";
    let text = text.replace("10f", "20f").replace("10:", "20:");
    check(&text, 999, |r| {
        let stack = r.general[4];
        let odd = 500;
        let even = 499;
        let mut all = vec![
            writes(stack - 64, even),
            reads(stack - 64, even),
            writes(stack - 8, odd + even),
            reads(stack - 8, odd + even),
        ];
        all.extend([7, 6, 2].map(|register| updates(r.general[register], 333)));
        // The table is in the program.
        all.push(reads(r.general[15], 999));
        all
    })
}

#[test]
fn loops_by_rcx() {
    check(
        "1: add byte ptr [rdi], 3\nloop 1b\njrcxz 2f\nud2\n2: loopne 3f\n3: jecxz 4f\nmov al, [rsi]\n4: nop",
        77,
        |r| vec![updates(r.general[7], 77), reads(r.general[6], 1)],
    );
}

#[test]
fn repeated_strings() {
    check("mov rbx, rdi\nadd rdi, 0xff8\nrep stosq\nmov rdi, rbx", 1025, |r| {
        (0..1025).map(|i| writes(r.general[7] + 0xff8 + 8 * i, 1)).collect()
    });
    check("rep movsb", 10_000, |r| {
        (0..10_000).flat_map(|i| [reads(r.general[6] + i, 1), writes(r.general[7] + i, 1)]).collect()
    });
    check("rep movsd\nrep lodsw", 0, |_| vec![]);
    check("std\nadd rdi, 0x3004\nadd rsi, 0x3004\nrep movsd\ncld", 2000, |r| {
        (0..2000)
            .flat_map(|i| [reads(r.general[6] + 0x3004 - 4 * i, 1), writes(r.general[7] + 0x3004 - 4 * i, 1)])
            .collect()
    });
    check("rep lodsw", 3000, |r| (0..3000).map(|i| reads(r.general[6] + 2 * i, 1)).collect());
}

#[test]
fn repeated_comparisons_stop_early() {
    // A zero that the fill puts nowhere but where it is stored.
    let text = "
        push rcx
        push rdi
        mov al, 0x55
        rep stosb
        pop rdi
        pop rcx
        mov byte ptr [rdi + 4999], 0x56
        mov al, 0x56
        repne scasb
        mov rbx, rcx";
    check(text, 9000, |r| {
        let (data, stack) = (r.general[7], r.general[4]);
        let mut all: Vec<Expected> = (0..9000).map(|i| writes(data + i, 1)).collect();
        all.push(writes(data + 4999, 1));
        all.extend((0..5000).map(|i| reads(data + i, 1)));
        all.extend([writes(stack - 8, 1), writes(stack - 16, 1), reads(stack - 8, 1), reads(stack - 16, 1)]);
        all
    });
    check("mov rdi, rsi\nadd rdi, 0x8000\nxor eax, eax\nrepe cmpsb\nsete al", 300, |r| {
        // The fill repeats itself with a period that shifts: the first bytes differ.
        let same = (0..300).take_while(|i| pattern(0x1_0000 + i) == pattern(0x1_8000 + i)).count() as u64;
        let done = (same + 1).min(300);
        (0..done).flat_map(|i| [reads(r.general[6] + i, 1), reads(r.general[6] + 0x8000 + i, 1)]).collect()
    });
}

fn pattern(number: usize) -> u8 {
    (number * 7 + number / 256) as u8
}

#[test]
fn transactions_always_abort() {
    // Natively it is up to the processor: many do not know them at all.
    for scheme in SCHEMES {
        let mut machine = Machine::new(Options { scheme, ..Options::default() });
        machine.load(&assemble(&["xbegin 1f\nmov [rdi], rax\nxend\njmp 2f\n1: mov [rsi], rcx\n2: nop"])[0]);
        let mut registers = registers(&machine);
        registers.general[1] = 5;
        fill(machine.data.bytes_mut());
        let mut wanted = machine.data.bytes().to_vec();
        let at = (registers.general[6] - registers.general[7]) as usize;
        wanted[at..at + 8].copy_from_slice(&5u64.to_le_bytes());
        let after = machine.run_translated(&registers);
        // No reason is given, and so none to try again.
        assert_eq!(after.general[0] as u32, 0, "{scheme:?}");
        assert!(machine.data.bytes() == wanted, "{scheme:?}");
        assert_eq!(machine.take_counts().0, by_page(&[writes(registers.general[6], 1)]), "{scheme:?}");
    }
}

#[test]
fn classes_sum_to_accesses_and_follow_the_page() {
    let mut machine = Machine::new(Options::default());
    machine.load(&assemble(&["1: add qword ptr [rdi], 1\nadd rdi, 8\ndec rcx\njnz 1b"])[0]);
    let mut registers = registers(&machine);
    registers.general[1] = 2048;
    machine.run_translated(&registers);
    let mut wanted = [0; 8];
    for i in 0..2048 {
        wanted[support::class_of((registers.general[7] + 8 * i) >> 12) as usize] += 1;
    }
    let counted: Vec<u64> = (0..machine.env.sites.len()).fold(vec![0; 8], |mut sum, site| {
        machine.classes_of(site).iter().enumerate().for_each(|(class, count)| sum[class] += count);
        sum
    });
    assert_eq!(counted, wanted);
    // Two fragments hold the instruction (entered at the top and in the loop), each asked once for each page it saw
    // first.
    assert!(machine.env.cold_runs >= 4 && machine.env.cold_runs <= 8, "{} cold runs", machine.env.cold_runs);
}

/// What comes to a watched address is reported with the program's registers, whichever way it comes, and nothing else
/// changes.
#[test]
fn watched_addresses_are_reported_each_time() {
    // A function that is called in a loop, whose second half is fallen into there and jumped to at the end.
    let pieces = assemble(&[
        "mov eax, 3\n 1: call 2f",
        "mov [rdi + rax*8], rdx\n dec eax\n jnz 1b\n lea r10, [rip + 4f]\n push r10\n jmp 3f",
        "2: mov rdx, [rsi + rax*8]\n mov rcx, rax",
        "3: add rdx, [rsi]\n ret",
        "4: cmp rax, 1\n mov rcx, [rdi]\n adc rax, 5",
    ]);
    let starts = pieces.iter().scan(0, |at, piece| Some(std::mem::replace(at, *at + piece.len() as u64)));
    let [_, after, whole, half, _] = starts.collect::<Vec<u64>>()[..] else { panic!("five pieces") };
    for scheme in SCHEMES {
        let options = Options { stack: true, scheme, ..Options::default() };
        let mut machine = Machine::new(options);
        let program = machine.load(&pieces.concat());
        let mut registers = registers(&machine);
        registers.general[15] = program;
        fill(machine.data.bytes_mut());
        let native = machine.run_native(&registers);
        machine.env.watched = [after, whole, half].map(|offset| program + offset).to_vec();
        let sp = registers.general[4];
        let call = [(whole, sp - 8), (half, sp - 8), (after, sp)];
        let wanted = [call, call, call].concat().into_iter().chain([(half, sp - 8)]);
        let wanted = wanted.map(|(offset, sp)| (program + offset, sp)).collect::<Vec<_>>();
        for round in 0..2 {
            fill(machine.data.bytes_mut());
            let translated = machine.run_translated(&registers);
            assert_eq!(hex(&native), hex(&translated), "registers, round {round}");
            assert_eq!(std::mem::take(&mut machine.env.reached), wanted, "round {round}");
        }
    }
}

/// The word that a register points to is handed over whenever the program comes to an address. Nothing else changes:
/// neither the flags, which an instruction there reads, nor any register, all of which are needed.
#[test]
fn words_that_registers_point_to_are_handed_over() {
    let pieces = assemble(&[
        "mov ecx, 3\n 1: lea r10, [rsi + rcx*8]\n cmp rcx, 2\n call 2f\n dec ecx\n jnz 1b\n jmp 3f",
        "2: adc rax, rbx\n mov [rdi + rcx*8], rax\n ret",
        "3: mov rdx, rax",
    ]);
    let function = pieces[0].len() as u64;
    for scheme in SCHEMES {
        let mut machine = Machine::new(Options { stack: true, scheme, ..Options::default() });
        let program = machine.load(&pieces.concat());
        let registers = registers(&machine);
        fill(machine.data.bytes_mut());
        let read = registers.general[6] as usize;
        // SAFETY: the words that the program itself takes the addresses of.
        let wanted: Vec<u64> = (1..=3).rev().map(|at| unsafe { ((read + 8 * at) as *const u64).read() }).collect();
        let native = machine.run_native(&registers);
        fill(machine.data.bytes_mut());
        machine.env.probed = Some((program + function, 10));
        let translated = machine.run_translated(&registers);
        assert_eq!(hex(&native), hex(&translated), "registers");
        assert_eq!(machine.env.words, wanted);
    }
}
