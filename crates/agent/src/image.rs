//! The image that is injected: the first instructions, and what a freestanding program must bring along.
#![no_std]
#![no_main]

use core::arch::global_asm;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};
use numalens_agent::state::failure;
use numalens_agent::{boot, say, sys};

// rdi = descriptor of the session file, rsi = the program's first instruction, rdx = extent of the parent, and above it
// of the thread that called exec, rsp = the program's stack, which must stay as it is: not even a page below it may be
// touched.
global_asm!(
    ".globl _start",
    "_start:",
    "mov rcx, rsp",
    "lea rsp, [rip + {stack} + {stack_bytes}]",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "lea rdi, [rip + __ehdr_start]",
    "lea rsi, [rip + _DYNAMIC]",
    "call {relocate}",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "lea r8, [rip + __ehdr_start]",
    "lea r9, [rip + _end]",
    "call {start}",
    "ud2",
    stack = sym STACK,
    stack_bytes = const STACK_BYTES,
    relocate = sym relocate,
    start = sym start,
);

// Copies for everything in the image. What the compiler brings for a target without vector registers begins with `rep
// movs`, which takes longer than a short copy itself; and translating is made of short copies.
global_asm!(
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 3f",
    "cmp rdx, 1024",
    "ja 7f",
    "2:",
    "mov r8, [rsi]",
    "mov r9, [rsi + 8]",
    "mov [rdi], r8",
    "mov [rdi + 8], r9",
    "add rsi, 16",
    "add rdi, 16",
    "sub rdx, 16",
    "cmp rdx, 16",
    "jae 2b",
    "test rdx, rdx",
    "je 6f",
    // The last 16 bytes, some of them again.
    "mov r8, [rsi + rdx - 16]",
    "mov r9, [rsi + rdx - 8]",
    "mov [rdi + rdx - 16], r8",
    "mov [rdi + rdx - 8], r9",
    "ret",
    "3:",
    "cmp edx, 8",
    "jb 4f",
    "mov r8, [rsi]",
    "mov r9, [rsi + rdx - 8]",
    "mov [rdi], r8",
    "mov [rdi + rdx - 8], r9",
    "ret",
    "4:",
    "cmp edx, 4",
    "jb 5f",
    "mov r8d, [rsi]",
    "mov r9d, [rsi + rdx - 4]",
    "mov [rdi], r8d",
    "mov [rdi + rdx - 4], r9d",
    "ret",
    "5:",
    "test edx, edx",
    "je 6f",
    "movzx r8d, byte ptr [rsi]",
    "movzx r9d, byte ptr [rsi + rdx - 1]",
    "mov [rdi + rdx - 1], r9b",
    "shr edx, 1",
    "movzx r9d, byte ptr [rsi + rdx]",
    "mov [rdi], r8b",
    "mov [rdi + rdx], r9b",
    "6:",
    "ret",
    "7:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
);

const STACK_BYTES: usize = 64 << 10;

#[repr(C, align(64))]
struct Stack([u8; STACK_BYTES]);

static mut STACK: Stack = Stack([0; STACK_BYTES]);

const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const R_X86_64_RELATIVE: u64 = 8;

/// Adds the load address to every absolute pointer in the image. The only kind of relocation that a static
/// position-independent image has; the collector checks that when it lays the image out.
///
/// # Safety
/// `base` is where the image was mapped, writable, and `dynamic` its dynamic section.
unsafe extern "C" fn relocate(base: u64, mut dynamic: *const [u64; 2]) {
    let (mut table, mut bytes) = (0u64, 0u64);
    // SAFETY: the section ends with an entry of tag 0; the table has `bytes` bytes of 24-byte entries.
    unsafe {
        loop {
            let [tag, value] = dynamic.read();
            match tag {
                0 => break,
                DT_RELA => table = value,
                DT_RELASZ => bytes = value,
                _ => {}
            }
            dynamic = dynamic.add(1);
        }
        let mut entry = (base + table) as *const [u64; 3];
        let end = (base + table + bytes) as *const [u64; 3];
        while entry < end {
            let [offset, kind, addend] = entry.read();
            if kind & 0xffff_ffff == R_X86_64_RELATIVE {
                ((base + offset) as *mut u64).write_unaligned(base.wrapping_add(addend));
            }
            entry = entry.add(1);
        }
    }
}

unsafe extern "C" fn start(descriptor: i32, entry: u64, parents: u64, stack: u64, base: u64, end: u64) -> ! {
    let (parent, caller) = (parents as u32, (parents >> 32) as u32);
    // SAFETY: called once, at the exec of the program, with what the injector put into the registers.
    unsafe { boot::boot(&boot::Start { descriptor, entry, parent, caller, stack, image: base..end }) }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    static AGAIN: AtomicBool = AtomicBool::new(false);
    if !AGAIN.swap(true, Ordering::Relaxed) {
        say!("numalens: a mistake in the agent: {info}");
    }
    sys::exit_group(failure::FAILED)
}
