//! Golden tests of address recovery: a listing with the sampled instruction marked `>`, the sampled registers, and the
//! access that must be found. The bytes stand beside what an assembler made them from; `+N` is the offset of the access
//! instruction.

use numalens_isa::{Found, Kind, RecoveredAccess, Registers, access_at, recover};

const START: u64 = 0x40_0000;
const NAMES: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// Code bytes of a listing and the offset of the marked line.
fn parse(listing: &str) -> (Vec<u8>, u64) {
    let (mut code, mut sampled) = (Vec::new(), 0);
    for line in listing.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('>') {
            sampled = code.len() as u64;
        }
        let bytes = line.trim_start_matches('>').trim().split("  ").next().expect("a line has bytes");
        code.extend(bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits")));
    }
    (code, sampled)
}

fn registers(values: &[(&str, u64)], ip: u64) -> Registers {
    let mut registers = Registers { ip, ..Registers::default() };
    for &(name, value) in values {
        match name {
            "fs" => registers.fs_base = Some(value),
            "gs" => registers.gs_base = Some(value),
            _ => registers.gpr[NAMES.iter().position(|known| *known == name).expect("a register")] = value,
        }
    }
    registers
}

fn show(access: Option<RecoveredAccess>) -> String {
    let Some(access) = access else { return "none".into() };
    let found = match access.found {
        Found::Before => "before",
        Found::At => "at",
        Found::After => "after",
    };
    let kind = |kind| match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::ReadWrite => "readwrite",
    };
    let stack = if access.stack { " stack" } else { "" };
    let also = access.also.map_or(String::new(), |(address, how)| format!(" also {address:#x} {}", kind(how)));
    format!(
        "{found} {:#x} {} {} at +{} distance {}{stack}{also}",
        access.address,
        kind(access.kind),
        access.size,
        access.ip - START,
        access.distance
    )
}

/// Recovers with the first line as the function's start.
fn check(listing: &str, values: &[(&str, u64)], expect: &str) {
    let (code, sampled) = parse(listing);
    let registers = registers(values, START + sampled);
    assert_eq!(show(recover(&code, START, Some(START), &registers)), expect);
}

/// Resolves a page fault of the marked instruction.
fn check_fault(listing: &str, values: &[(&str, u64)], fault: u64, expect: &str) {
    let (code, sampled) = parse(listing);
    let registers = registers(values, START + sampled);
    assert_eq!(show(access_at(&code, START, &registers, fault)), expect);
}

#[test]
fn load_just_retired() {
    // The registers of the load before are unchanged.
    check(
        "
              48 83 c2 08     add rdx, 8
              48 8b 44 d7 10  mov rax, [rdi+rdx*8+16]
            > 48 01 c1        add rcx, rax
              c3              ret
        ",
        &[("rdi", 0x1000), ("rdx", 0x4)],
        "before 0x1030 read 8 at +4 distance 1",
    );
}

#[test]
fn a_jump_back_tells_code_from_data() {
    // GHC's info table stands before the loop: decoded from the symbol on, its end swallows the beginning of the load.
    check(
        "
              eb 2a                    jmp +44
              66 90                    xchg ax, ax
              c0 ff ff ff 00 00 00     data
              00 84 03 00 00 00 00     data
              00 00 00 00 00 00 04 00  data
              00 00 00 00 00 00 00 00  data
              00 00 0e 00 00 00        data
              00 00 00 00              data
              eb 08                    jmp +10
              4d 03 44 f6 10           add r8, [r14+rsi*8+16]
            > 48 ff c6                 inc rsi
              48 39 fe                 cmp rsi, rdi
              75 f3                    jne -13
              4c 89 c3                 mov rbx, r8
              ff 65 00                 jmp [rbp]
        ",
        &[("r14", 0x5000), ("rsi", 0x3), ("rdi", 0x9), ("rbp", 0x7000), ("rax", 0x10)],
        "before 0x5028 read 8 at +46 distance 1",
    );
}

#[test]
fn store_just_retired() {
    check(
        "
              c7 04 8e 07 00 00 00  mov dword ptr [rsi+rcx*4], 7
            > 90                    nop
              c3                    ret
        ",
        &[("rsi", 0x2000), ("rcx", 0x3)],
        "before 0x200c write 4 at +0 distance 1",
    );
}

#[test]
fn read_modify_write() {
    check(
        "
              f0 48 83 03 01  lock add qword ptr [rbx], 1
            > c3              ret
        ",
        &[("rbx", 0x3000)],
        "before 0x3000 readwrite 8 at +0 distance 1",
    );
}

#[test]
fn arithmetic_is_undone() {
    // The pointer moved by a constant, by a register, by lea and by inc since the access.
    check(
        "
              48 8b 04 37  mov rax, [rdi+rsi]
              48 83 c7 40  add rdi, 64
              48 29 ce     sub rsi, rcx
              48 8d 7f 08  lea rdi, [rdi+8]
              48 ff c6     inc rsi
            > 90           nop
              c3           ret
        ",
        &[("rdi", 0x1048), ("rsi", 0x11), ("rcx", 0x10)],
        "before 0x1020 read 8 at +0 distance 5",
    );
}

#[test]
fn undone_32_bit_index() {
    // A 32-bit index is undone in 32 bits.
    check(
        "
              8b 04 8f  mov eax, [rdi+rcx*4]
              83 c1 01  add ecx, 1
            > 39 d1     cmp ecx, edx
              c3        ret
        ",
        &[("rdi", 0x1000), ("rcx", 0x0)],
        "before 0x400000ffc read 4 at +0 distance 2",
    );
}

#[test]
fn moved_register() {
    // The base was overwritten, but its value lives on in the register it came from.
    check(
        "
              48 8b 1f  mov rbx, [rdi]
              48 89 f8  mov rax, rdi
              48 89 cf  mov rdi, rcx
            > 90        nop
              c3        ret
        ",
        &[("rax", 0x5000), ("rdi", 0x9999), ("rcx", 0x9999)],
        "before 0x5000 read 8 at +0 distance 3",
    );
}

#[test]
fn nothing_known_of_an_overwritten_base() {
    // The base was overwritten by another load and no later access follows.
    check(
        "
              48 8b 07     mov rax, [rdi]
              48 8b 3c 24  mov rdi, [rsp]
            > c3           ret
        ",
        &[("rdi", 0x9999), ("rsp", 0x7000)],
        "before 0x7000 read 8 at +3 distance 1 stack",
    );
}

#[test]
fn pointer_chase_goes_to_the_next_execution() {
    // The load destroyed its own address; around the loop its next one is known.
    check(
        "
              48 8b 00  mov rax, [rax]
            > 48 ff c9  dec rcx
              75 f8     jne 0x0
              c3        ret
        ",
        &[("rax", 0x4000), ("rcx", 0x64)],
        "after 0x4000 read 8 at +0 distance 2",
    );
}

#[test]
fn loop_left_by_computed_flags() {
    // The counter says that the loop ends here: the access behind it is next.
    check(
        "
              48 8b 00  mov rax, [rax]
            > 48 ff c9  dec rcx
              75 f8     jne 0x0
              48 8b 16  mov rdx, [rsi]
              c3        ret
        ",
        &[("rax", 0x4000), ("rcx", 0x1), ("rsi", 0x6000)],
        "after 0x6000 read 8 at +8 distance 2",
    );
}

#[test]
fn at() {
    // Nothing before: the sampled instruction itself.
    check(
        "
            > 48 89 07  mov [rdi], rax
              c3        ret
        ",
        &[("rdi", 0x8000)],
        "at 0x8000 write 8 at +0 distance 0",
    );
}

#[test]
fn before_wins_over_at() {
    check(
        "
              48 8b 06  mov rax, [rsi]
            > 48 89 07  mov [rdi], rax
              c3        ret
        ",
        &[("rsi", 0x7000), ("rdi", 0x8000)],
        "before 0x7000 read 8 at +0 distance 1",
    );
}

#[test]
fn after_by_emulation() {
    // A pointer that moves on before it is used.
    check(
        "
            > 48 83 c7 08  add rdi, 8
              48 c1 e1 03  shl rcx, 3
              48 8d 14 0f  lea rdx, [rdi+rcx]
              31 c0        xor eax, eax
              48 8b 1c 02  mov rbx, [rdx+rax]
              c3           ret
        ",
        &[("rdi", 0x1000), ("rcx", 0x2)],
        "after 0x1018 read 8 at +14 distance 4",
    );
}

#[test]
fn after_skips_loaded_base() {
    // A base that comes from memory is unknown; the next access with known registers is taken.
    check(
        "
            > eb 01                       jmp 0x3
              90                          nop
              65 48 8b 04 25 00 00 00 00  mov rax, gs:[0]
              48 8b 08                    mov rcx, [rax]
              48 8b 16                    mov rdx, [rsi]
              c3                          ret
        ",
        &[("rsi", 0x3300)],
        "after 0x3300 read 8 at +15 distance 3",
    );
}

#[test]
fn after_follows_calls() {
    check(
        "
            > 48 89 df        mov rdi, rbx
              e8 02 00 00 00  call 0xa
              0f 0b           ud2
              48 8b 47 08     mov rax, [rdi+8]
              c3              ret
        ",
        &[("rbx", 0x100)],
        "after 0x108 read 8 at +10 distance 2",
    );
}

#[test]
fn stack_flag() {
    check(
        "
              48 8b 44 24 08  mov rax, [rsp+8]
            > c3              ret
        ",
        &[("rsp", 0x7f00)],
        "before 0x7f08 read 8 at +0 distance 1 stack",
    );
}

#[test]
fn frame_pointer() {
    // rbp is a frame pointer where the prologue made it one.
    check(
        "
              f3 0f 1e fa  endbr64
              55           push rbp
              48 89 e5     mov rbp, rsp
              8b 45 fc     mov eax, [rbp-4]
            > 83 c0 01     add eax, 1
              c3           ret
        ",
        &[("rbp", 0x7f10)],
        "before 0x7f0c read 4 at +8 distance 1 stack",
    );
}

#[test]
fn rbp_as_a_base() {
    // rbp is a register like others where no prologue was seen.
    check(
        "
              55        push rbp
              8b 45 fc  mov eax, [rbp-4]
            > 83 c0 01  add eax, 1
              c3        ret
        ",
        &[("rbp", 0x7f10)],
        "before 0x7f0c read 4 at +1 distance 1",
    );
}

#[test]
fn pushes_and_pops_are_no_accesses() {
    // Their stack operands do not count, but rsp moves: the older load is found.
    check(
        "
              48 8b 44 24 08  mov rax, [rsp+8]
              50              push rax
              59              pop rcx
              48 83 ec 10     sub rsp, 16
            > c3              ret
        ",
        &[("rsp", 0x7ef0)],
        "before 0x7f08 read 8 at +0 distance 4 stack",
    );
}

#[test]
fn push_of_memory() {
    // Only the explicit operand counts.
    check(
        "
              ff 37  push [rdi]
            > 90     nop
              c3     ret
        ",
        &[("rdi", 0x1000), ("rsp", 0x7000)],
        "before 0x1000 read 8 at +0 distance 1",
    );
}

#[test]
fn no_accesses() {
    // lea, prefetches and nops with memory operands are none.
    check(
        "
              48 8d 07     lea rax, [rdi]
              0f 18 0f     prefetcht0 [rdi]
              0f 1f 04 00  nop dword ptr [rax+rax]
            > 90           nop
              c3           ret
        ",
        &[("rdi", 0x1000)],
        "none",
    );
}

#[test]
fn rip_relative() {
    check(
        "
              8b 05 00 01 00 00  mov eax, [rip+0x100]
            > c3                 ret
        ",
        &[],
        "before 0x400106 read 4 at +0 distance 1",
    );
}

#[test]
fn fs_base() {
    check(
        "
              64 48 8b 04 25 28 00 00 00  mov rax, fs:[0x28]
            > 90                          nop
              c3                          ret
        ",
        &[("fs", 0x7000)],
        "before 0x7028 read 8 at +0 distance 1",
    );
}

#[test]
fn fs_base_unknown() {
    check(
        "
              64 48 8b 04 25 28 00 00 00  mov rax, fs:[0x28]
            > 90                          nop
              c3                          ret
        ",
        &[],
        "none",
    );
}

#[test]
fn narrow_address() {
    // A 32-bit address wraps at 4 GiB.
    check(
        "
              67 8b 04 0f  mov eax, [edi+ecx]
            > c3           ret
        ",
        &[("rdi", 0x1ffffff00), ("rcx", 0x200)],
        "before 0x100 read 4 at +0 distance 1",
    );
}

#[test]
fn gather_is_passed_over() {
    // Its addresses stand in a vector register.
    check(
        "
              48 8b 06           mov rax, [rsi]
              c4 e2 69 90 04 8f  vpgatherdd xmm0, [rdi+xmm1*4], xmm2
            > 48 8b 0a           mov rcx, [rdx]
              c3                 ret
        ",
        &[("rdx", 0x9000)],
        "at 0x9000 read 8 at +9 distance 0",
    );
}

#[test]
fn repeated_string_under_way() {
    // rsi and rdi hold the position, whatever stands before.
    check(
        "
              48 8b 03  mov rax, [rbx]
            > f3 a4     rep movsb
              c3        ret
        ",
        &[("rsi", 0x1234), ("rdi", 0x5678), ("rcx", 0xa)],
        "at 0x1234 read 1 at +3 distance 0 also 0x5678 write",
    );
}

#[test]
fn repeated_string_done() {
    // Behind it, the pointers stand one element past the last.
    check(
        "
              f3 48 ab  rep stosq
            > c3        ret
        ",
        &[("rdi", 0x2000), ("rcx", 0x0)],
        "before 0x1ff8 write 8 at +0 distance 1",
    );
}

#[test]
fn string_without_repeat() {
    check(
        "
              a5  movsd
            > c3  ret
        ",
        &[("rdi", 0x2004), ("rsi", 0x1004)],
        "before 0x1000 read 4 at +0 distance 1 also 0x2000 write",
    );
}

#[test]
fn block_ends_at_jump_target() {
    // The sampled instruction is jumped to: what precedes it may not have been executed.
    check(
        "
              48 8b 07     mov rax, [rdi]
            > 48 83 c1 01  add rcx, 1
              48 83 f9 0a  cmp rcx, 10
              75 f6        jne 0x3
              c3           ret
        ",
        &[("rdi", 0x1000), ("rcx", 0x5)],
        "none",
    );
}

#[test]
fn block_ends_at_call() {
    // What a call did is unknown.
    check(
        "
              48 8b 03  mov rax, [rbx]
              ff d2     call 0xrdx
            > 48 8b 0e  mov rcx, [rsi]
              c3        ret
        ",
        &[("rbx", 0x1000), ("rsi", 0x2000)],
        "at 0x2000 read 8 at +5 distance 0",
    );
}

#[test]
fn block_ends_at_syscall() {
    check(
        "
              48 8b 03  mov rax, [rbx]
              0f 05     syscall
            > c3        ret
        ",
        &[("rbx", 0x1000)],
        "none",
    );
}

#[test]
fn not_taken_jump_is_crossed() {
    // A conditional jump backwards in the block was not taken.
    check(
        "
              48 8b 03     mov rax, [rbx]
              48 85 c0     test rax, rax
              74 04        je 0xc
            > 48 83 c0 01  add rax, 1
              c3           ret
        ",
        &[("rbx", 0x1000)],
        "before 0x1000 read 8 at +0 distance 3",
    );
}

#[test]
fn conditional_move() {
    // Its flags can be computed, so its result is known.
    check(
        "
            > 48 39 d8     cmp rax, rbx
              48 0f 4c c3  cmovl rax, rbx
              48 8b 08     mov rcx, [rax]
              c3           ret
        ",
        &[("rax", 0xffffffffffffffff), ("rbx", 0x1000)],
        "after 0x1000 read 8 at +7 distance 2",
    );
}

#[test]
fn further_back() {
    // The nearest access lost its address and nothing follows: the one before it.
    check(
        "
              48 8b 0e  mov rcx, [rsi]
              48 8b 00  mov rax, [rax]
            > c3        ret
        ",
        &[("rsi", 0x1000)],
        "before 0x1000 read 8 at +0 distance 2",
    );
}

#[test]
fn indirect_call_through_memory() {
    check(
        "
            > ff 50 18  call [rax+0x18]
              c3        ret
        ",
        &[("rax", 0x1000)],
        "at 0x1018 read 8 at +0 distance 0",
    );
}

#[test]
fn broadcast_and_wide_vectors() {
    check(
        "
              62 f1 fd 48 11 04 c7  vmovupd zmmword ptr [rdi+rax*8], zmm0
            > 48 83 c0 08           add rax, 8
              c3                    ret
        ",
        &[("rdi", 0x1000), ("rax", 0x8)],
        "before 0x1040 write 64 at +0 distance 1",
    );
}

#[test]
fn fault_of_a_store() {
    check_fault("> 89 47 08  mov [rdi+8], eax", &[("rdi", 0xff8)], 0x1000, "at 0x1000 write 4 at +0 distance 0");
}

#[test]
fn fault_on_the_second_page_of_an_operand() {
    check_fault("> 48 8b 07  mov rax, [rdi]", &[("rdi", 0xffc)], 0x1000, "at 0x1000 read 8 at +0 distance 0");
}

#[test]
fn fault_beside_the_operand() {
    check_fault("> 48 8b 07  mov rax, [rdi]", &[("rdi", 0xff8)], 0x1000, "none");
}

#[test]
fn fault_of_a_push() {
    check_fault("> 50  push rax", &[("rsp", 0x2000)], 0x1ff8, "at 0x1ff8 write 8 at +0 distance 0 stack");
}

#[test]
fn fault_of_a_call() {
    check_fault("> ff d0  call 0xrax", &[("rsp", 0x2000)], 0x1ff8, "at 0x1ff8 write 8 at +0 distance 0 stack");
}

#[test]
fn fault_of_pushed_memory() {
    check_fault(
        "> ff 37  push [rdi]",
        &[("rsp", 0x2000), ("rdi", 0x5000)],
        0x5000,
        "at 0x5000 read 8 at +0 distance 0",
    );
}

#[test]
fn fault_of_a_copy() {
    check_fault(
        "> f3 a4  rep movsb",
        &[("rsi", 0x5000), ("rdi", 0x6000), ("rcx", 0x3000)],
        0x7000,
        "at 0x7000 readwrite 1 at +0 distance 0",
    );
}

#[test]
fn fault_of_a_fill() {
    check_fault(
        "> f3 48 ab  rep stosq",
        &[("rdi", 0x6000), ("rcx", 0x300)],
        0x7000,
        "at 0x7000 write 8 at +0 distance 0",
    );
}

#[test]
fn fault_of_a_gather() {
    check_fault(
        "> c4 e2 69 90 04 8f  vpgatherdd xmm0, [rdi+xmm1*4], xmm2",
        &[("rdi", 0x6000)],
        0x9000,
        "at 0x9000 read 4 at +0 distance 0",
    );
}

#[test]
fn fault_of_an_instruction_fetch() {
    check_fault("> c3  ret", &[("rsp", 0x2000)], 0x400000, "none");
}

#[test]
fn fault_of_an_atomic() {
    check_fault(
        "> f0 0f c1 07  lock xadd [rdi], eax",
        &[("rdi", 0x1000)],
        0x1000,
        "at 0x1000 readwrite 4 at +0 distance 0",
    );
}

#[test]
fn fault_of_a_state_save() {
    check_fault("> 0f ae 07  fxsave [rdi]", &[("rdi", 0xf80)], 0x1000, "at 0x1000 write 512 at +0 distance 0");
}
