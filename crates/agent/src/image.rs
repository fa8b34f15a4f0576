//! The image that is injected: the first instructions, and what a freestanding program must bring along.
#![no_std]
#![no_main]

use core::arch::global_asm;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};
use numalens_agent::{boot, say, sys};

// rdi = descriptor of the session file, rsi = the program's first instruction, rdx = extent of the parent, rsp = the
// program's stack, which must stay as it is: not even a page below it may be touched.
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

unsafe extern "C" fn start(descriptor: i32, entry: u64, parent: u32, stack: u64, base: u64, end: u64) -> ! {
    // SAFETY: called once, at the exec of the program, with what the injector put into the registers.
    unsafe { boot::boot(&boot::Start { descriptor, entry, parent, stack, image: base..end }) }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    static AGAIN: AtomicBool = AtomicBool::new(false);
    if !AGAIN.swap(true, Ordering::Relaxed) {
        say!("numalens: a mistake in the agent: {info}");
    }
    sys::exit_group(boot::FAILED)
}
