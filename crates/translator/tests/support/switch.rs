//! Between the test and the code under test: one side's registers out, the other's in.
//!
//! The program's registers stand in the context: general ones and flags where the translator's layout has them, vector
//! ones in an image of `xsave`. The same code enters and leaves native and translated code, so that both start and end
//! alike.

use numalens_translator::context;
use std::arch::global_asm;

/// In the owner's part of the context.
pub const MACHINE: u32 = context::OWNER;
/// Where [`enter`] goes.
pub const NEXT: u32 = context::OWNER + 0x08;
const HOST_STACK: u32 = context::OWNER + 0x10;
/// What the code under test jumps to at its end.
pub const FINISH: u32 = context::OWNER + 0x18;
/// eax or rax at the time of an exit.
pub const ARGUMENT: u32 = context::OWNER + 0x20;
/// The image of the vector registers.
pub const VECTORS: u32 = 0x1000;
/// The components of `xsave` that the image has: x87, SSE, AVX, AVX-512.
pub const COMPONENTS: u32 = 0xe7;

global_asm!(
    r#"
    .macro NL_SAVE
        mov gs:[{registers} + 2*8], rdx
        mov gs:[{registers} + 3*8], rbx
        mov gs:[{registers} + 4*8], rsp
        mov gs:[{registers} + 5*8], rbp
        mov gs:[{registers} + 6*8], rsi
        mov gs:[{registers} + 7*8], rdi
        mov gs:[{registers} + 8*8], r8
        mov gs:[{registers} + 9*8], r9
        mov gs:[{registers} + 10*8], r10
        mov gs:[{registers} + 11*8], r11
        mov gs:[{registers} + 12*8], r12
        mov gs:[{registers} + 13*8], r13
        mov gs:[{registers} + 14*8], r14
        mov gs:[{registers} + 15*8], r15
        mov rsp, gs:[{host_stack}]
        pushfq
        pop qword ptr gs:[{flags}]
        push 2
        popfq
        mov eax, {components}
        xor edx, edx
        xsave64 gs:[{vectors}]
        mov rdi, gs:[0]
    .endm
    .macro NL_LOAD
        mov eax, {components}
        xor edx, edx
        xrstor64 gs:[{vectors}]
        push qword ptr gs:[{flags}]
        popfq
        mov rax, gs:[{registers} + 0*8]
        mov rcx, gs:[{registers} + 1*8]
        mov rdx, gs:[{registers} + 2*8]
        mov rbx, gs:[{registers} + 3*8]
        mov rsp, gs:[{registers} + 4*8]
        mov rbp, gs:[{registers} + 5*8]
        mov rsi, gs:[{registers} + 6*8]
        mov rdi, gs:[{registers} + 7*8]
        mov r8, gs:[{registers} + 8*8]
        mov r9, gs:[{registers} + 9*8]
        mov r10, gs:[{registers} + 10*8]
        mov r11, gs:[{registers} + 11*8]
        mov r12, gs:[{registers} + 12*8]
        mov r13, gs:[{registers} + 13*8]
        mov r14, gs:[{registers} + 14*8]
        mov r15, gs:[{registers} + 15*8]
    .endm

    .globl nl_enter, nl_finish, nl_dispatch, nl_lookup_miss, nl_return_miss, nl_count

    // Runs what NEXT points to with the program's registers, until it jumps to FINISH.
    nl_enter:
        push rbx
        push rbp
        push r12
        push r13
        push r14
        push r15
        sub rsp, 24
        stmxcsr [rsp + 16]
        fnstcw [rsp + 20]
        wrgsbase rdi
        mov gs:[{host_stack}], rsp
        NL_LOAD
        jmp gs:[{next}]

    // The end of the code under test.
    nl_finish:
        mov gs:[{registers}], rax
        mov gs:[{registers} + 8], rcx
        NL_SAVE
        ldmxcsr [rsp + 16]
        fldcw [rsp + 20]
        add rsp, 24
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbp
        pop rbx
        vzeroupper
        ret

    nl_dispatch:
        mov gs:[{argument}], rax
        mov gs:[{registers} + 8], rcx
        NL_SAVE
        call {on_dispatch}
        mov gs:[{next}], rax
        NL_LOAD
        jmp gs:[{next}]

    nl_lookup_miss:
        mov gs:[{argument}], rax
        NL_SAVE
        call {on_lookup_miss}
        mov gs:[{next}], rax
        NL_LOAD
        jmp gs:[{next}]

    nl_return_miss:
        mov gs:[{registers}], rax
        mov gs:[{registers} + 8], rcx
        NL_SAVE
        call {on_return_miss}
        mov gs:[{next}], rax
        NL_LOAD
        jmp gs:[{next}]

    nl_count:
        mov gs:[{registers}], rax
        mov gs:[{registers} + 8], rcx
        NL_SAVE
        call {on_count}
        NL_LOAD
        jmp gs:[{back}]
    "#,
    registers = const context::REGISTERS,
    flags = const context::FLAGS,
    host_stack = const HOST_STACK,
    components = const COMPONENTS,
    vectors = const VECTORS,
    next = const NEXT,
    argument = const ARGUMENT,
    back = const context::COUNT_RETURN,
    on_dispatch = sym super::on_dispatch,
    on_lookup_miss = sym super::on_lookup_miss,
    on_return_miss = sym super::on_return_miss,
    on_count = sym super::on_count,
);

unsafe extern "C" {
    /// Runs what NEXT points to with the program's registers, until it jumps to FINISH.
    #[link_name = "nl_enter"]
    pub fn enter(context: *mut u8);
    #[link_name = "nl_finish"]
    pub fn finish();
    #[link_name = "nl_dispatch"]
    pub fn dispatch();
    #[link_name = "nl_lookup_miss"]
    pub fn lookup_miss();
    #[link_name = "nl_return_miss"]
    pub fn return_miss();
    #[link_name = "nl_count"]
    pub fn count();
}
