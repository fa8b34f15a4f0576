//! Assembly in, the code made of it out. After a wanted change: `INSTA_UPDATE=always cargo test -p numalens-translator
//! --test golden`, and read the difference.

#[path = "support/assemble.rs"]
mod assemble;
#[path = "support/paper.rs"]
mod paper;

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use numalens_translator::{Cache, Changes, Config, Scheme, Shadow};
use paper::{COLD, CONFIG, HOT, Paper};
use std::fmt::Write;

const PROGRAM: u64 = 0x40_0000;

/// The fragment at the start of `text`.
fn translate(text: &str, config: Config, base: u64, changes: Changes) -> String {
    let program = assemble::assemble(&[text]).remove(0);
    let mut paper = Paper { changes, ..Paper::new(program, base) };
    let mut cache = Cache::new(config);
    cache.entry(&mut paper, base).expect("it can be translated");
    let mut out = String::new();
    for (name, start, bytes) in [("hot", HOT, &paper.hot), ("cold", COLD, &paper.cold)] {
        let _ = writeln!(out, "{name}:");
        for line in disassemble(start, bytes) {
            let state = cache.locate(line.0).map_or(String::new(), |position| {
                let spilled = if position.spilled == 0 { String::new() } else { format!(" {:#x}", position.spilled) };
                format!("{:x} {:?}{spilled}", position.ip, position.state)
            });
            let _ = writeln!(out, "{:x}  {:<44}; {state}", line.0, line.1);
        }
    }
    for site in &paper.sites {
        let _ = writeln!(out, "site {:x} {:?} {:?} {}", site.ip, site.kind, site.shape, site.size);
    }
    out
}

/// Up to the padding.
fn disassemble(start: u64, bytes: &[u8]) -> Vec<(u64, String)> {
    let end = bytes.iter().rposition(|&byte| byte != 0xcc).map_or(0, |last| last + 1);
    let mut formatter = IntelFormatter::new();
    Decoder::with_ip(64, &bytes[..end], start, DecoderOptions::NONE)
        .into_iter()
        .map(|instruction| {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            (instruction.ip(), text)
        })
        .collect()
}

macro_rules! golden {
    ($($name:ident: $text:expr;)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(translate($text, CONFIG, PROGRAM, Changes::Never));
        })*
    };
}

golden! {
    load_with_flags_and_registers_dead: "mov rax, [rdi + 8]\nmov r11d, 1\nmov r10d, 2\nadd rax, r11\nret";
    store_with_flags_live: "mov [rdi + rcx*4], eax\njz 1f\n1: ret";
    update_with_everything_live: "not qword ptr [rsi]\njmp r8";
    constant_operands: "mov rax, [rip + 0x1000]\nadd dword ptr fs:[0x28], 3\nmov [edi + 4], eax\nret";
    loop_of_a_triad: "1: movsd xmm0, [rsi + rax*8]\naddsd xmm0, [rdx + rax*8]\nmovsd [rdi + rax*8], xmm0\ninc rax\ncmp rax, rcx\njb 1b\nret";
    known_distances: "mov rbx, rdi\nmov rax, [rdi + 8]\nadd rdi, 16\nadd rax, [rbx]\nadd rax, [rdi - 16]\nret";
    repeated_string: "rep movsb\nret";
    gather: "vpgatherdd ymm0, [rdi + ymm1*4], ymm2\nret";
    masked_store: "vmovdqu32 [rdi]{k1}, zmm4\nret";
    calls_push_the_program_s_address: "call 1f\n1: ret";
    indirect_call_through_memory: "call [rax + rcx*8]";
    system_call: "mov eax, 60\nsyscall";
    loop_instruction: "1: loop 1b";
    gs_is_left_to_others: "mov rax, gs:[8]";
}

#[test]
fn a_loop_that_is_not_long_yet() {
    let config = Config { scheme: Scheme::LongLoops, ..CONFIG };
    let text = "1: mov r8, [rsi + rax*8]\ninc rax\ncmp rax, rcx\njb 1b\nret";
    insta::assert_snapshot!(translate(text, config, PROGRAM, Changes::Never));
}

#[test]
fn shadow_anywhere() {
    let config = Config { shadow: Shadow::FromContext, ..CONFIG };
    insta::assert_snapshot!(translate(
        "mov rax, [rdi]\nadd rax, [rsi]\njz 1f\n1: ret",
        config,
        PROGRAM,
        Changes::Never
    ));
}

#[test]
fn code_that_may_change_is_compared() {
    insta::assert_snapshot!(translate("mov rax, [rdi]\nxor eax, eax\nret", CONFIG, PROGRAM, Changes::Silently));
}

#[test]
fn operands_out_of_reach_go_through_a_register() {
    // The code cache is 1.9 GiB below the program, the operand 1 GiB above it.
    let text = "vmovdqu ymm9, [rip + 0x40000000]\nlea rax, [rip + 0x40000000]\nret";
    insta::assert_snapshot!(translate(text, CONFIG, HOT + 0x7800_0000, Changes::Never));
}

#[test]
fn the_stack_on_demand() {
    let config = Config { stack_operands: true, stack_operations: true, ..CONFIG };
    insta::assert_snapshot!(translate("push rbx\nmov [rsp + 8], rbx\npop rbx\nret", config, PROGRAM, Changes::Never));
}

#[test]
fn without_counting_instructions_are_copied() {
    let config = Config { count: false, ..CONFIG };
    insta::assert_snapshot!(translate("mov rax, [rdi]\nadd [rsi], rax\nret", config, PROGRAM, Changes::Never));
}

#[test]
fn executed_instructions() {
    let config = Config { code: true, ..CONFIG };
    let text = "
        cmp rdi, rsi
        jae 1f
        mov rax, [rdi]
        jnz 1f
        setb cl
        adc rdx, rax
    1:  ret";
    insta::assert_snapshot!(translate(text, config, PROGRAM, Changes::Never));
}
