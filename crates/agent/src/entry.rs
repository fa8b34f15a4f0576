//! The border between the cache and the agent, in assembly.
//!
//! Generated code jumps here through pointers in the context (`numalens_translator::context`), with the program's
//! registers still in place. What is saved is the general registers and the flags; vector registers are never touched
//! by the agent.
//!
//! # Signals at the border
//!
//! A signal that finds the thread in the agent is put off: the handler ([`crate::signals`]) keeps it, blocks all others
//! and sets `PENDING`. It must then be noticed before the program goes on. The check stands right before the registers
//! are restored; a signal that comes after the check, while they are being restored, finds its interrupted address
//! between `resume_checked` and `resume_end` and sends the thread back to `resume_again`. Restoring only reads the
//! context, so it can begin again. The way out of `count` works the same with its own saved registers:
//!
//! ```text
//!   resume:          NEXT = rax
//!   resume_checked:  PENDING? --yes--> resume_again: NEXT = deliver_trap, DELIVER_AT = old NEXT
//!                    restore registers
//!                    jmp NEXT
//!   resume_end:
//!   deliver_trap:    int3       the program's registers are complete: the kernel's frame of this trap is what
//!                               the frame of the signal would have been
//! ```

use crate::state::own;
use crate::sys::{arch, raw};
use core::arch::global_asm;
use numalens_isa::{Register, flags};
use numalens_translator::context as fixed;

/// What the assembly calls: by their names, as they know all of the agent ([`crate::dispatch`]).
mod handlers {
    unsafe extern "C" {
        #[link_name = "numalens_on_dispatch"]
        pub fn on_dispatch();
        #[link_name = "numalens_on_lookup_miss"]
        pub fn on_lookup_miss();
        #[link_name = "numalens_on_return_miss"]
        pub fn on_return_miss();
        #[link_name = "numalens_on_pending"]
        pub fn on_pending();
        #[link_name = "numalens_on_count"]
        pub fn on_count();
        #[link_name = "numalens_on_signal"]
        pub fn on_signal();
        #[link_name = "numalens_on_new_thread"]
        pub fn on_new_thread();
    }
}

unsafe extern "C" {
    /// Through `context::DISPATCH`.
    pub fn dispatch();
    /// Through `context::LOOKUP_MISS`.
    pub fn lookup_miss();
    /// Through `context::RETURN_MISS`.
    pub fn return_miss();
    /// Through `context::COUNT`.
    pub fn count();
    /// Goes on in the cache at rax, from any stack.
    pub fn resume();
    /// From here to `resume_end` a signal must send the thread to `resume_again`.
    pub fn resume_checked();
    /// The end of that piece.
    pub fn resume_end();
    /// Begins to restore again.
    pub fn resume_again();
    /// From here to `count_end` a signal must send the thread to `count_again`.
    pub fn count_checked();
    /// The end of that piece.
    pub fn count_end();
    /// Begins to restore again, with the trap flag set.
    pub fn count_again();
    /// Executed with the program's registers where a signal is to be delivered.
    pub fn deliver_trap();
    /// The handler of all signals, as the kernel calls it.
    pub fn signal_entry();
    /// Never called: the kernel wants an address to return to.
    pub fn signal_return();
    /// Makes a `clone` system call whose child is a new thread (or borrows the memory, as vfork does) and goes on in
    /// the cache with the context `context`: see [`crate::syscalls::tasks`].
    pub fn clone_thread(flags: u64, stack: u64, parent_tid: u64, child_tid: u64, tls: u64, context: u64) -> u64;
    /// The same by `clone3`, with so many bytes of its structure.
    pub fn clone3_thread(arguments: *const u64, bytes: u64, context: u64) -> u64;
    /// Executes rt_sigreturn with the frame whose `ucontext` begins at `ucontext`.
    pub fn sigreturn(ucontext: u64) -> !;
    /// Calls `body(argument)` in a new process that shares the memory, on the stack that ends at `stack`; returns its
    /// pid or an error as the kernel's word. `child_tid` goes with CLONE_CHILD_CLEARTID.
    pub fn spawn_helper(
        flags: u64,
        stack: u64,
        body: unsafe extern "C" fn(u64) -> !,
        argument: u64,
        child_tid: u64,
    ) -> u64;
}

/// Where in the context a register of the program is saved.
const fn saved(register: Register) -> u32 {
    fixed::register(register.number())
}

/// Saved by `count` on the agent's stack, from the top down: flags, rax, rcx, rdx, rsi, rdi, r8 to r11.
const COUNT_SAVED: u32 = 10 * 8;

global_asm!(
    r#"
    .macro COUNT_LOAD
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    .endm

    .macro AGENT_SAVE
        mov gs:[{rdx}], rdx
        mov gs:[{rbx}], rbx
        mov gs:[{rsp_}], rsp
        mov gs:[{rbp_}], rbp
        mov gs:[{rsi_}], rsi
        mov gs:[{rdi_}], rdi
        mov gs:[{r8_}], r8
        mov gs:[{r9_}], r9
        mov gs:[{r10_}], r10
        mov gs:[{r11_}], r11
        mov gs:[{r12_}], r12
        mov gs:[{r13_}], r13
        mov gs:[{r14_}], r14
        mov gs:[{r15_}], r15
        mov rsp, gs:[{stack}]
        pushfq
        pop qword ptr gs:[{flags}]
        push {no_flags}
        popfq
        mov rdi, gs:[{self_}]
    .endm

    .globl dispatch, lookup_miss, return_miss, count, resume, resume_checked, resume_end, resume_again
    .globl count_checked, count_end, count_again, deliver_trap, signal_entry, signal_return
    .globl clone_thread, clone3_thread, sigreturn, spawn_helper

dispatch:
    mov gs:[{next}], rax
    mov gs:[{rcx_}], rcx
    AGENT_SAVE
    mov esi, gs:[{next}]
    call {on_dispatch}
    jmp resume

lookup_miss:
    mov gs:[{next}], rax
    AGENT_SAVE
    mov rsi, gs:[{next}]
    call {on_lookup_miss}
    jmp resume

return_miss:
    mov gs:[{rax_}], rax
    mov gs:[{rcx_}], rcx
    AGENT_SAVE
    mov rsi, gs:[{return_ip}]
    call {on_return_miss}
    jmp resume

resume_again:
    mov rsp, gs:[{stack}]
    push {no_flags}
    popfq
    mov rdi, gs:[{self_}]
    mov rsi, gs:[{next}]
    call {on_pending}
resume:
    mov gs:[{next}], rax
    mov rsp, gs:[{stack}]
resume_checked:
    cmp qword ptr gs:[{pending}], 0
    jne resume_pending
resume_restore:
    push qword ptr gs:[{flags}]
    popfq
    mov rax, gs:[{rax_}]
    mov rcx, gs:[{rcx_}]
    mov rdx, gs:[{rdx}]
    mov rbx, gs:[{rbx}]
    mov rbp, gs:[{rbp_}]
    mov rsi, gs:[{rsi_}]
    mov rdi, gs:[{rdi_}]
    mov r8, gs:[{r8_}]
    mov r9, gs:[{r9_}]
    mov r10, gs:[{r10_}]
    mov r11, gs:[{r11_}]
    mov r12, gs:[{r12_}]
    mov r13, gs:[{r13_}]
    mov r14, gs:[{r14_}]
    mov r15, gs:[{r15_}]
    mov rsp, gs:[{rsp_}]
    jmp qword ptr gs:[{next}]
resume_end:
resume_pending:
    lea rax, [rip + deliver_trap]
    cmp gs:[{next}], rax
    je resume_restore
    jmp resume_again

deliver_trap:
    int3
    ud2

count:
    mov gs:[{count_stack}], rsp
    mov gs:[{count_frame}], rbp
    mov rsp, gs:[{stack}]
    pushfq
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    # popfq takes longer than what it is for, nearly always.
    test dword ptr [rsp + {count_saved} - 8], {other_flags}
    jnz count_clean
count_clear:
    mov rdi, gs:[{self_}]
    call {on_count}
count_checked:
    cmp qword ptr gs:[{pending}], 0
    jne count_again
    jmp count_restore
count_again:
    mov rsp, gs:[{stack}]
    sub rsp, {count_saved}
    or qword ptr [rsp + {count_saved} - 8], {trap_flag}
count_restore:
    mov rax, [rsp + {count_saved} - 8]
    test eax, {other_flags}
    jnz count_restore_all
    # The overflow flag by an addition, the others from ah.
    mov ecx, eax
    shr ecx, 11
    and ecx, 1
    mov ah, al
    add cl, 127
    sahf
    COUNT_LOAD
    mov rsp, gs:[{count_stack}]
    jmp qword ptr gs:[{count_return}]
count_restore_all:
    COUNT_LOAD
    popfq
    mov rsp, gs:[{count_stack}]
    jmp qword ptr gs:[{count_return}]
count_end:
count_clean:
    push {no_flags}
    popfq
    jmp count_clear

signal_entry:
    mov rcx, rsp
    push {no_flags}
    popfq
    mov r8, rdi
    mov rdi, gs:[{self_}]
    and rsp, -64
    push rcx
    push rcx
    call {on_signal}
    pop rsp
    lea rsp, [rsp + 8]
signal_return:
    mov eax, {rt_sigreturn}
    syscall
    ud2

sigreturn:
    mov rsp, rdi
    mov eax, {rt_sigreturn}
    syscall
    ud2

clone_thread:
    mov r10, rcx
    mov eax, {clone}
    syscall
    test rax, rax
    jz 2f
    ret
2:
    # The child: registers as in the parent, GS still the parent's, all signals blocked.
    mov rbx, r9
    mov eax, {arch_prctl}
    mov edi, {set_gs}
    mov rsi, r9
    syscall
    mov rsp, [rbx + {stack}]
    mov rdi, rbx
    call {on_new_thread}
    jmp resume

clone3_thread:
    mov r9, rdx
    mov eax, {clone3}
    syscall
    test rax, rax
    jz 2b
    ret

spawn_helper:
    push r12
    push r13
    mov r12, rdx
    mov r13, rcx
    xor edx, edx
    mov r10, r8
    xor r8d, r8d
    mov eax, {clone}
    syscall
    test rax, rax
    jz 3f
    pop r13
    pop r12
    ret
3:
    mov rdi, r13
    call r12
    ud2
    "#,
    rax_ = const saved(Register::Rax),
    rcx_ = const saved(Register::Rcx),
    rdx = const saved(Register::Rdx),
    rbx = const saved(Register::Rbx),
    rsp_ = const saved(Register::Rsp),
    rbp_ = const saved(Register::Rbp),
    rsi_ = const saved(Register::Rsi),
    rdi_ = const saved(Register::Rdi),
    r8_ = const saved(Register::R8),
    r9_ = const saved(Register::R9),
    r10_ = const saved(Register::R10),
    r11_ = const saved(Register::R11),
    r12_ = const saved(Register::R12),
    r13_ = const saved(Register::R13),
    r14_ = const saved(Register::R14),
    r15_ = const saved(Register::R15),
    flags = const fixed::FLAGS,
    self_ = const fixed::SELF,
    count_return = const fixed::COUNT_RETURN,
    return_ip = const fixed::RETURN_IP,
    stack = const own::STACK,
    next = const own::NEXT,
    pending = const own::PENDING,
    count_stack = const own::COUNT_STACK,
    count_frame = const own::COUNT_FRAME,
    count_saved = const COUNT_SAVED,
    other_flags = const flags::TRAP | flags::DIRECTION | flags::NESTED | flags::ALIGNMENT,
    no_flags = const flags::NONE,
    trap_flag = const flags::TRAP,
    rt_sigreturn = const raw::__NR_rt_sigreturn,
    clone = const raw::__NR_clone,
    clone3 = const raw::__NR_clone3,
    arch_prctl = const raw::__NR_arch_prctl,
    set_gs = const arch::SET_GS,
    on_dispatch = sym handlers::on_dispatch,
    on_lookup_miss = sym handlers::on_lookup_miss,
    on_return_miss = sym handlers::on_return_miss,
    on_pending = sym handlers::on_pending,
    on_count = sym handlers::on_count,
    on_signal = sym handlers::on_signal,
    on_new_thread = sym handlers::on_new_thread,
);
