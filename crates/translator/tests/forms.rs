//! Every form of operand, on random registers, flags and memory: run natively and translated, the whole state must
//! agree, and the counts must be the ones that arithmetic on the state before gives.

mod support;

use numalens_isa::Kind;
use numalens_translator::{Changes, Scheme};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rand_free::Random;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use support::assemble::assemble;
use support::expected::{Expected, by_page, reads, updates, writes};
use support::options::EACH;
use support::vectors::{Vectors, has_avx512};
use support::{Machine, Options, Registers, fs_base};

/// A generator of numbers that needs a seed only.
mod rand_free {
    pub struct Random(pub u64);

    impl Random {
        pub fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }

        pub fn below(&mut self, limit: u64) -> u64 {
            self.next() % limit
        }
    }
}

/// The state before a form.
struct S<'a>(&'a Registers);

#[rustfmt::skip]
impl S<'_> {
    fn rax(&self) -> u64 { self.0.general[0] }
    fn rcx(&self) -> u64 { self.0.general[1] }
    fn rbx(&self) -> u64 { self.0.general[3] }
    fn rsp(&self) -> u64 { self.0.general[4] }
    fn rbp(&self) -> u64 { self.0.general[5] }
    fn rsi(&self) -> u64 { self.0.general[6] }
    fn rdi(&self) -> u64 { self.0.general[7] }
    fn r8(&self) -> u64 { self.0.general[8] }
    fn r9(&self) -> u64 { self.0.general[9] }
    fn r10(&self) -> i64 { self.0.general[10] as i64 }
    fn backwards(&self) -> bool { self.0.flags & 0x400 != 0 }
}

impl S<'_> {
    fn string(&self, from: u64, size: u64, count: u64, kind: Kind) -> Vec<Expected> {
        (0..count)
            .map(|i| {
                let moved = i * size;
                let address = if self.backwards() { from - moved } else { from + moved };
                Expected { kind, address, count: 1 }
            })
            .collect()
    }

    fn mask(&self, k: usize) -> u64 {
        Vectors::mask(&self.0.vectors, k)
    }

    fn index32(&self, register: usize, lane: usize) -> i64 {
        let bytes = Vectors::get(&self.0.vectors, register);
        i64::from(i32::from_le_bytes(bytes[4 * lane..4 * lane + 4].try_into().expect("four bytes")))
    }

    fn index64(&self, register: usize, lane: usize) -> i64 {
        let bytes = Vectors::get(&self.0.vectors, register);
        i64::from_le_bytes(bytes[8 * lane..8 * lane + 8].try_into().expect("eight bytes"))
    }

    /// An image of the state at r8: so many bytes, and the components of a mask that the processor has.
    fn image(&self, kind: Kind, bytes: u64, mask: u32) -> Vec<Expected> {
        let enabled = Vectors::enabled();
        let components = (2..32).filter(|number| (mask & enabled) >> number & 1 == 1).map(Vectors::component);
        let all = [(0, bytes)].into_iter().chain(components);
        let at = |offset: u64| (self.r8() + offset) >> 12;
        let pages: BTreeSet<u64> = all.flat_map(|(start, bytes)| at(start)..=at(start + bytes - 1)).collect();
        pages.into_iter().map(|page| Expected { kind, address: page << 12, count: 1 }).collect()
    }

    fn words<const N: usize>(&self, offsets: [u64; N]) -> Vec<Expected> {
        offsets.map(|offset| writes(self.r8() + offset, 1)).to_vec()
    }

    /// Sign bits of the elements of a vector register.
    fn signs(&self, register: usize, size: usize, lanes: usize) -> u64 {
        let bytes = Vectors::get(&self.0.vectors, register);
        (0..lanes).fold(0, |mask, lane| mask | u64::from(bytes[size * lane + size - 1] >> 7) << lane)
    }
}

type Form = (&'static str, fn(&S) -> Vec<Expected>);

fn active(mask: u64, lanes: u32) -> impl Iterator<Item = usize> {
    (0..lanes as usize).filter(move |lane| mask >> lane & 1 == 1)
}

/// One access at the first active element, if any.
fn masked(kind: Kind, address: u64, size: u64, mask: u64, lanes: u32) -> Vec<Expected> {
    active(mask, lanes).take(1).map(|lane| Expected { kind, address: address + lane as u64 * size, count: 1 }).collect()
}

fn at(base: u64, offset: i64) -> u64 {
    base.wrapping_add_signed(offset)
}

/// rbx, rbp, rsi, rdi, r8 (aligned) point to data, r9 is a small index, r10 a small signed number, rcx small; forms
/// must leave them so, except that strings move rsi, rdi and rcx. rax, rdx, r11 to r15 are anything.
const FORMS: &[Form] = &[
    // Loads, stores, updates, every addressing mode.
    ("mov rax, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("mov eax, [rbp + 4]", |s| vec![reads(s.rbp() + 4, 1)]),
    ("mov al, [rbx + r9]", |s| vec![reads(s.rbx() + s.r9(), 1)]),
    ("mov dx, [rsi + r9*4 - 4096]", |s| vec![reads(s.rsi() + s.r9() * 4 - 4096, 1)]),
    ("movzx r11d, word ptr [r8 + r9*8 + 4095]", |s| vec![reads(s.r8() + s.r9() * 8 + 4095, 1)]),
    ("movsx r12, byte ptr [rdi + r10]", |s| vec![reads(at(s.rdi(), s.r10()), 1)]),
    ("mov [rdi + 16], rax", |s| vec![writes(s.rdi() + 16, 1)]),
    ("mov byte ptr [rsi], 7", |s| vec![writes(s.rsi(), 1)]),
    ("mov dword ptr [rbx + r9*2 + 0x1234], 0x12345678", |s| vec![writes(s.rbx() + s.r9() * 2 + 0x1234, 1)]),
    ("add [rdi], rax", |s| vec![updates(s.rdi(), 1)]),
    ("adc dword ptr [rsi], 5", |s| vec![updates(s.rsi(), 1)]),
    ("sbb rax, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("lock xadd [rbx], r11", |s| vec![updates(s.rbx(), 1)]),
    ("xchg [rbx + 8], r12", |s| vec![updates(s.rbx() + 8, 1)]),
    ("inc word ptr [rdi]", |s| vec![updates(s.rdi(), 1)]),
    ("not qword ptr [rdi]", |s| vec![updates(s.rdi(), 1)]),
    ("shl byte ptr [rsi], cl", |s| vec![updates(s.rsi(), 1)]),
    ("rcr qword ptr [rsi], 1", |s| vec![updates(s.rsi(), 1)]),
    ("shld [rdi], rdx, 5", |s| vec![updates(s.rdi(), 1)]),
    ("cmp [rdi], al", |s| vec![reads(s.rdi(), 1)]),
    ("test dword ptr [rdi], 0xff00ff", |s| vec![reads(s.rdi(), 1)]),
    ("cmovz r11, [rsi]", |s| vec![reads(s.rsi(), 1)]),
    ("cmovns r13d, [rsi + 3]", |s| vec![reads(s.rsi() + 3, 1)]),
    ("setb [rdi]", |s| vec![writes(s.rdi(), 1)]),
    ("lock cmpxchg [rdi], r14", |s| vec![updates(s.rdi(), 1)]),
    ("cmpxchg8b [rsi]", |s| vec![updates(s.rsi(), 1)]),
    ("push rbx\nmov rbx, rax\nlock cmpxchg16b [r8]\npop rbx", |s| {
        vec![writes(s.rsp() - 8, 1), updates(s.r8(), 1), reads(s.rsp() - 8, 1)]
    }),
    ("push rbx\npush rcx\nmov eax, 0x80000003\ncpuid\npop rcx\npop rbx", |s| {
        vec![writes(s.rsp() - 8, 1), writes(s.rsp() - 16, 1), reads(s.rsp() - 16, 1), reads(s.rsp() - 8, 1)]
    }),
    ("mov eax, 0x2b\nlsl r11d, eax\nlsl r12w, ax\nmov [rdi], r11", |s| vec![writes(s.rdi(), 1)]),
    ("imul rax, [rdi], 77", |s| vec![reads(s.rdi(), 1)]),
    ("mul qword ptr [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("movbe [rdi], r11d", |s| vec![writes(s.rdi(), 1)]),
    ("movnti [rdi], r11", |s| vec![writes(s.rdi(), 1)]),
    ("crc32 eax, byte ptr [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("popcnt rax, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("mulx r11, r12, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("pdep r11, r12, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("bextr rax, [rdi], rdx", |s| vec![reads(s.rdi(), 1)]),
    ("adcx rax, [rdi]\nadox rdx, [rsi]", |s| vec![reads(s.rdi(), 1), reads(s.rsi(), 1)]),
    // Addresses of 32 bits.
    ("mov rax, [edi + 8]", |s| vec![reads((s.rdi() + 8) & 0xffff_ffff, 1)]),
    ("mov [edi + r9d*4], edx", |s| vec![writes((s.rdi() + 4 * s.r9()) & 0xffff_ffff, 1)]),
    ("add dword ptr [esi + r10d], 3", |s| vec![updates(at(s.rsi(), s.r10()) & 0xffff_ffff, 1)]),
    ("lea r11d, [edi + 5]", |_| vec![]),
    // FS.
    ("mov rax, fs:[0]", |_| vec![reads(fs_base(), 1)]),
    ("mov r11, fs:[r9]", |s| vec![reads(fs_base() + s.r9(), 1)]),
    ("xor edx, fs:[r9*4 + 16]", |s| vec![reads(fs_base() + 4 * s.r9() + 16, 1)]),
    // Not accesses.
    ("lea rax, [rdi + r9*8 + 77]", |_| vec![]),
    ("prefetcht0 [rdi]", |_| vec![]),
    ("prefetchw [rdi]", |_| vec![]),
    ("nop word ptr [rax + rax*8 + 5]", |_| vec![]),
    ("clflush [rdi]", |_| vec![]),
    // The stack.
    ("push rax\npop rdx", |s| vec![writes(s.rsp() - 8, 1), reads(s.rsp() - 8, 1)]),
    ("push qword ptr [rdi]\npop qword ptr [rsi]", |s| {
        vec![reads(s.rdi(), 1), writes(s.rsp() - 8, 1), reads(s.rsp() - 8, 1), writes(s.rsi(), 1)]
    }),
    ("push rax\npop qword ptr [rsp + 8]", |s| {
        vec![writes(s.rsp() - 8, 1), reads(s.rsp() - 8, 1), writes(s.rsp() + 8, 1)]
    }),
    ("push 0x8d7\npopfq", |s| vec![writes(s.rsp() - 8, 1), reads(s.rsp() - 8, 1)]),
    ("pushfq\npop rax", |s| vec![writes(s.rsp() - 8, 1), reads(s.rsp() - 8, 1)]),
    ("push ax\npop dx", |s| vec![writes(s.rsp() - 2, 1), reads(s.rsp() - 2, 1)]),
    ("mov rax, [rsp - 4096]", |s| vec![reads(s.rsp() - 4096, 1)]),
    ("mov [rsp + r9*8], rdx", |s| vec![writes(s.rsp() + 8 * s.r9(), 1)]),
    ("enter 32, 0\nleave", |s| vec![writes(s.rsp() - 8, 1), reads(s.rsp() - 8, 1)]),
    // Far returns: lretq, and iretq. What they leave on the stack depends on where they are.
    (
        "mov eax, cs\npush rax\nlea rax, [rip + 1f]\npush rax\n.byte 0x48, 0xcb\nud2\n\
         1: mov eax, 5\nmov qword ptr [rsp - 16], 0",
        |s| {
            let words = [8, 16];
            let pushed = words.map(|word| writes(s.rsp() - word, 1));
            [&pushed[..], &words.map(|word| reads(s.rsp() - word, 1)), &[writes(s.rsp() - 16, 1)]].concat()
        },
    ),
    (
        "mov r11, rsp\nmov eax, ss\npush rax\npush r11\npush 0x8d7\nmov eax, cs\npush rax\n\
         lea rax, [rip + 1f]\npush rax\n.byte 0x48, 0xcf\nud2\n1: mov eax, 5\nmov qword ptr [rsp - 40], 0",
        |s| {
            let words = [8, 16, 24, 32, 40];
            let pushed = words.map(|word| writes(s.rsp() - word, 1));
            [&pushed[..], &words.map(|word| reads(s.rsp() - word, 1)), &[writes(s.rsp() - 40, 1)]].concat()
        },
    ),
    // Images of the state. What depends on where code is, and on what the processor takes for used, is overwritten.
    ("fxsave64 [r8]\nfxrstor64 [r8]\nmov qword ptr [r8 + 8], 0\nmov qword ptr [r8 + 16], 0", |s| {
        [s.image(Kind::Write, 464, 0), s.image(Kind::Read, 464, 0), s.words([8, 16])].concat()
    }),
    (
        "mov eax, 0xe7\nxor edx, edx\nxsave64 [r8]\nmov qword ptr [r8 + 8], 0\nmov qword ptr [r8 + 16], 0\n\
         mov qword ptr [r8 + 512], 0",
        |s| [s.image(Kind::ReadWrite, 576, 0xe7), s.words([8, 16, 512])].concat(),
    ),
    (
        "mov qword ptr [r8 + 512], 0\nmov qword ptr [r8 + 520], 0\nmov qword ptr [r8 + 528], 0\nmov qword ptr [r8 + 536], 0\n\
         mov qword ptr [r8 + 544], 0\nmov qword ptr [r8 + 552], 0\nmov qword ptr [r8 + 560], 0\n\
         mov qword ptr [r8 + 568], 0\nmov eax, 3\nxor edx, edx\nxsave64 [r8]\nxrstor64 [r8]\n\
         mov qword ptr [r8 + 8], 0\nmov qword ptr [r8 + 16], 0\nmov qword ptr [r8 + 512], 0",
        |s| {
            let header = s.words([512, 520, 528, 536, 544, 552, 560, 568]);
            let images = [s.image(Kind::ReadWrite, 576, 0), s.image(Kind::Read, 576, 0)].concat();
            [header, images, s.words([8, 16, 512])].concat()
        },
    ),
    // Bit strings: the bit number moves the address.
    ("bt qword ptr [rdi], 5", |s| vec![reads(s.rdi(), 1)]),
    ("bt [rdi], r10", |s| vec![reads(at(s.rdi(), (s.r10() >> 6) * 8), 1)]),
    ("bts dword ptr [rdi], r10d", |s| vec![updates(at(s.rdi(), (s.r10() >> 5) * 4), 1)]),
    ("lock btr word ptr [rsi], r10w", |s| vec![updates(at(s.rsi(), (s.r10() >> 4) * 2), 1)]),
    ("btc [rsi + r9], r10", |s| vec![updates(at(s.rsi() + s.r9(), (s.r10() >> 6) * 8), 1)]),
    // Strings.
    ("movsb", |s| vec![reads(s.rsi(), 1), writes(s.rdi(), 1)]),
    ("movsq", |s| vec![reads(s.rsi(), 1), writes(s.rdi(), 1)]),
    ("stosd", |s| vec![writes(s.rdi(), 1)]),
    ("lodsw", |s| vec![reads(s.rsi(), 1)]),
    ("scasb", |s| vec![reads(s.rdi(), 1)]),
    ("cmpsd", |s| vec![reads(s.rsi(), 1), reads(s.rdi(), 1)]),
    ("rep movsb", |s| [s.string(s.rsi(), 1, s.rcx(), Kind::Read), s.string(s.rdi(), 1, s.rcx(), Kind::Write)].concat()),
    ("rep movsq", |s| [s.string(s.rsi(), 8, s.rcx(), Kind::Read), s.string(s.rdi(), 8, s.rcx(), Kind::Write)].concat()),
    ("rep stosw", |s| s.string(s.rdi(), 2, s.rcx(), Kind::Write)),
    ("rep lodsd", |s| s.string(s.rsi(), 4, s.rcx(), Kind::Read)),
    ("addr32 rep stosd", |s| s.string(s.rdi(), 4, s.rcx() & 0xffff_ffff, Kind::Write)),
    ("xlatb", |s| vec![reads(s.rbx() + (s.rax() & 0xff), 1)]),
    // x87 and SSE.
    ("fld qword ptr [rdi]\nfstp qword ptr [rsi]", |s| vec![reads(s.rdi(), 1), writes(s.rsi(), 1)]),
    ("fild word ptr [rdi]\nfistp dword ptr [rsi + 2]", |s| vec![reads(s.rdi(), 1), writes(s.rsi() + 2, 1)]),
    ("fnstcw [rdi]", |s| vec![writes(s.rdi(), 1)]),
    ("stmxcsr [rdi]", |s| vec![writes(s.rdi(), 1)]),
    ("movups xmm4, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("movaps [r8 + 16], xmm5", |s| vec![writes(s.r8() + 16, 1)]),
    ("addsd xmm4, [rdi + r9*8]", |s| vec![reads(s.rdi() + 8 * s.r9(), 1)]),
    ("paddd xmm4, [r8]", |s| vec![reads(s.r8(), 1)]),
    ("movntdq [r8], xmm4", |s| vec![writes(s.r8(), 1)]),
    ("movhps xmm4, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("pextrb [rdi], xmm4, 3", |s| vec![writes(s.rdi(), 1)]),
    ("cvtsi2sd xmm4, qword ptr [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("comisd xmm4, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("maskmovdqu xmm4, xmm3", |s| masked(Kind::Write, s.rdi(), 1, s.signs(3, 1, 16), 16)),
    // AVX and AVX2.
    ("vmovdqu ymm4, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("vmovups [rsi], ymm5", |s| vec![writes(s.rsi(), 1)]),
    ("vfmadd231pd ymm4, ymm5, [rdi + r9]", |s| vec![reads(s.rdi() + s.r9(), 1)]),
    ("vbroadcastsd ymm4, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("vmaskmovps ymm4, ymm3, [rdi]", |s| masked(Kind::Read, s.rdi(), 4, s.signs(3, 4, 8), 8)),
    ("vmaskmovpd [rdi], xmm3, xmm5", |s| masked(Kind::Write, s.rdi(), 8, s.signs(3, 8, 2), 2)),
    ("vpmaskmovq ymm4, ymm3, [rsi + 5]", |s| masked(Kind::Read, s.rsi() + 5, 8, s.signs(3, 8, 4), 4)),
    ("vpmaskmovd [rsi], ymm3, ymm5", |s| masked(Kind::Write, s.rsi(), 4, s.signs(3, 4, 8), 8)),
    ("vmovdqa ymm6, ymm3\nvpgatherdd ymm4, [rdi + ymm1*4], ymm6", |s| {
        active(s.signs(3, 4, 8), 8).map(|lane| reads(at(s.rdi(), 4 * s.index32(1, lane)), 1)).collect()
    }),
    ("vmovdqa ymm6, ymm3\nvpgatherdq ymm4, [rdi + xmm1*8 + 16], ymm6", |s| {
        active(s.signs(3, 8, 4), 4).map(|lane| reads(at(s.rdi() + 16, 8 * s.index32(1, lane)), 1)).collect()
    }),
    ("vmovdqa ymm6, ymm3\nvgatherqps xmm4, [rdi + ymm2*2], xmm6", |s| {
        active(s.signs(3, 4, 4), 4).map(|lane| reads(at(s.rdi(), 2 * s.index64(2, lane)), 1)).collect()
    }),
    ("vmovdqa ymm6, ymm3\nvgatherqps xmm4, [rdi + xmm2*2], xmm6", |s| {
        active(s.signs(3, 4, 2), 2).map(|lane| reads(at(s.rdi(), 2 * s.index64(2, lane)), 1)).collect()
    }),
    ("vmovdqa ymm6, ymm3\nvgatherqpd ymm4, [rdi + ymm2], ymm6", |s| {
        active(s.signs(3, 8, 4), 4).map(|lane| reads(at(s.rdi(), s.index64(2, lane)), 1)).collect()
    }),
];

/// The same for AVX-512.
const FORMS_512: &[Form] = &[
    ("vmovdqu64 zmm4, [rdi]", |s| vec![reads(s.rdi(), 1)]),
    ("vmovdqu64 [rdi + 64], zmm20", |s| vec![writes(s.rdi() + 64, 1)]),
    ("vpaddd zmm4, zmm5, [rdi]{1to16}", |s| vec![reads(s.rdi(), 1)]),
    ("vmovups zmm4{k1}, [rdi]", |s| masked(Kind::Read, s.rdi(), 4, s.mask(1), 16)),
    ("vmovupd [rdi]{k2}, zmm21", |s| masked(Kind::Write, s.rdi(), 8, s.mask(2), 8)),
    ("vmovdqu8 [rsi]{k3}, zmm4", |s| masked(Kind::Write, s.rsi(), 1, s.mask(3), 64)),
    ("vmovdqu16 zmm4{k4}{z}, [rsi + 1]", |s| masked(Kind::Read, s.rsi() + 1, 2, s.mask(4), 32)),
    ("vaddpd ymm4{k5}, ymm5, [rdi]", |s| masked(Kind::Read, s.rdi(), 8, s.mask(5), 4)),
    ("vaddps zmm4{k6}, zmm5, [rdi]{1to16}", |s| masked(Kind::Read, s.rdi(), 0, s.mask(6), 16)),
    ("vmovss xmm4{k1}, [rdi]", |s| masked(Kind::Read, s.rdi(), 4, s.mask(1), 1)),
    ("vmulsd xmm4{k2}, xmm5, [rdi]", |s| masked(Kind::Read, s.rdi(), 8, s.mask(2), 1)),
    (
        "mov eax, 3\nxor edx, edx\nxsavec64 [r8]\nmov qword ptr [r8 + 8], 0\nmov qword ptr [r8 + 16], 0\n\
         mov qword ptr [r8 + 512], 0",
        |s| [s.image(Kind::Write, 576, 0), s.words([8, 16, 512])].concat(),
    ),
    ("vpcompressd [rdi]{k3}, zmm4", |s| masked(Kind::Write, s.rdi(), 0, s.mask(3), 16)),
    ("vexpandpd zmm4{k4}, [rdi]", |s| masked(Kind::Read, s.rdi(), 0, s.mask(4), 8)),
    ("vpbroadcastd zmm4{k5}, [rdi]", |s| masked(Kind::Read, s.rdi(), 0, s.mask(5), 16)),
    ("vbroadcastf32x4 zmm4{k6}, [rdi]", |s| masked(Kind::Read, s.rdi(), 0, s.mask(6), 16)),
    ("vpmovqb [rdi]{k1}, zmm4", |s| masked(Kind::Write, s.rdi(), 1, s.mask(1), 8)),
    ("vpmovzxbd zmm4{k2}, [rdi]", |s| masked(Kind::Read, s.rdi(), 1, s.mask(2), 16)),
    ("vpcmpd k7{k3}, zmm4, [rdi], 1", |s| masked(Kind::Read, s.rdi(), 4, s.mask(3), 16)),
    ("kmovq [rdi], k2", |s| vec![writes(s.rdi(), 1)]),
    ("kmovq k6, k1\nvpgatherdd zmm4{k6}, [rdi + zmm1*4]", |s| {
        active(s.mask(1), 16).map(|lane| reads(at(s.rdi(), 4 * s.index32(1, lane)), 1)).collect()
    }),
    ("kmovq k6, k2\nvgatherqps ymm4{k6}, [rdi + zmm2*4 + 8]", |s| {
        active(s.mask(2), 8).map(|lane| reads(at(s.rdi() + 8, 4 * s.index64(2, lane)), 1)).collect()
    }),
    ("kmovq k6, k3\nvgatherdpd zmm4{k6}, [rdi + ymm1*8]", |s| {
        active(s.mask(3), 8).map(|lane| reads(at(s.rdi(), 8 * s.index32(1, lane)), 1)).collect()
    }),
    ("kmovq k6, k4\nvscatterdps [rdi + zmm1*4]{k6}, zmm5", |s| {
        active(s.mask(4), 16).map(|lane| writes(at(s.rdi(), 4 * s.index32(1, lane)), 1)).collect()
    }),
    ("kmovq k6, k5\nvpscatterqq [rdi + ymm18*8]{k6}, ymm22", |s| {
        active(s.mask(5), 4).map(|lane| writes(at(s.rdi(), 8 * s.index64(18, lane)), 1)).collect()
    }),
];

/// The same for processors that store 64 bytes at once.
const FORMS_64: &[Form] = &[("movdir64b r8, [rdi]", |s| vec![reads(s.rdi(), 1), writes(s.r8(), 1)])];

fn has_direct_stores() -> bool {
    std::arch::x86_64::__cpuid_count(7, 0).ecx >> 28 & 1 == 1
}

/// What follows: nothing, so that everything is needed; or code that makes flags, or flags and registers, dead.
const ENDINGS: [&str; 3] =
    ["nop", "add r15, r14", "add r15, r14\nmov r11, r15\nmov r12, r15\nmov r13, r15\nmov edx, r15d"];

struct Code {
    forms: Vec<(Form, Vec<u8>)>,
    endings: Vec<Vec<u8>>,
}

fn code() -> &'static Code {
    static CODE: OnceLock<Code> = OnceLock::new();
    CODE.get_or_init(|| {
        let mut forms = FORMS.to_vec();
        if has_avx512() {
            forms.extend(FORMS_512);
        } else {
            eprintln!("this machine has no AVX-512: its forms are not tried");
        }
        if has_direct_stores() {
            forms.extend(FORMS_64);
        }
        let texts: Vec<&str> = forms.iter().map(|form| form.0).chain(ENDINGS).collect();
        let mut bytes = assemble(&texts);
        let endings = bytes.split_off(forms.len());
        Code { forms: forms.into_iter().zip(bytes).collect(), endings }
    })
}

const USED: usize = 0x2_0000;
const MARGIN: u64 = 0x4000;

/// Random registers of which the reserved ones are as [`FORMS`] wants them, and random memory.
fn state(machine: &mut Machine, seed: u64) -> Registers {
    let mut random = Random(seed);
    let base = machine.data.address();
    let mut general = [0; 16];
    general.fill_with(|| random.next());
    let mut pointer = || base + MARGIN + random.below(USED as u64 - 2 * MARGIN);
    let mut pointers = [0; 5];
    pointers.fill_with(&mut pointer);
    [general[3], general[5], general[6], general[7], general[8]] = pointers;
    general[8] &= !63;
    general[4] = base + USED as u64 + 0x8000 + 8 * random.below(64);
    general[1] = random.below(40);
    general[9] = random.below(200);
    general[10] = random.below(4000).wrapping_sub(2000);
    let flags = 0x202 | random.next() & 0x8d5 | if random.below(4) == 0 { 0x400 } else { 0 };
    let mut vectors = Vectors::new();
    let registers = if has_avx512() { 32 } else { 16 };
    for register in 0..registers {
        let mut bytes = vec![0u8; Vectors::width()];
        match register {
            1 => bytes
                .chunks_mut(4)
                .for_each(|lane| lane.copy_from_slice(&(random.below(500) as i32 - 100).to_le_bytes())),
            2 | 18 => bytes
                .chunks_mut(8)
                .for_each(|lane| lane.copy_from_slice(&(random.below(500) as i64 - 100).to_le_bytes())),
            _ => bytes.fill_with(|| random.next() as u8),
        }
        vectors.set(register, &bytes);
    }
    if has_avx512() {
        for k in 0..8 {
            let value = if random.below(5) == 0 { 0 } else { random.next() };
            vectors.set_mask(k, value);
        }
    }
    machine.data.bytes_mut()[..USED + 0x1_0000].iter_mut().for_each(|byte| *byte = random.next() as u8);
    Registers { general, flags, vectors: vectors.image }
}

/// What must agree: all but the addresses that x87 remembers of its last instruction.
fn comparable(registers: &Registers) -> (Vec<String>, String, Vec<u8>) {
    let mut vectors = registers.vectors.clone();
    vectors[6..24].fill(0);
    let general = registers.general.iter().map(|value| format!("{value:x}")).collect();
    (general, format!("{:x}", registers.flags), vectors)
}

/// Runs the forms one after the other natively, noting what each should count, then all of them translated.
fn check(machine: &mut Machine, numbers: &[usize], ending: usize, seed: u64) {
    let code = code();
    let texts: Vec<&str> = numbers.iter().map(|&number| code.forms[number].0.0).chain([ENDINGS[ending]]).collect();
    let start = state(machine, seed);
    let memory = machine.data.bytes()[..USED + 0x1_0000].to_vec();
    let mut now = start.clone();
    let mut expected = Vec::new();
    let mut all = Vec::new();
    for &number in numbers {
        let ((_, arithmetic), bytes) = &code.forms[number];
        expected.extend(arithmetic(&S(&now)));
        machine.load(bytes);
        now = machine.run_native(&now);
        all.extend_from_slice(bytes);
    }
    machine.load(&code.endings[ending]);
    now = machine.run_native(&now);
    all.extend_from_slice(&code.endings[ending]);
    let native_memory = machine.data.bytes()[..USED + 0x1_0000].to_vec();

    machine.load(&all);
    machine.data.bytes_mut()[..memory.len()].copy_from_slice(&memory);
    let translated = machine.run_translated(&start);
    assert_eq!(comparable(&now), comparable(&translated), "registers after {texts:#?}, seed {seed}");
    let differs = machine.data.bytes()[..memory.len()].iter().zip(&native_memory).position(|(a, b)| a != b);
    assert_eq!(differs, None, "memory after {texts:#?}, seed {seed}");
    let (pages, sites) = machine.take_counts();
    assert_eq!(pages, by_page(&expected), "pages of {texts:#?}, seed {seed}");
    let total: u64 = sites.iter().map(|(_, count)| count).sum();
    assert_eq!(total, expected.iter().map(|one| one.count).sum::<u64>(), "sites of {texts:#?}, seed {seed}");
    for (kind, count) in [Kind::Read, Kind::Write, Kind::ReadWrite]
        .map(|kind| (kind, sites.iter().filter(|(site, _)| site.kind == kind).map(|(_, count)| count).sum::<u64>()))
    {
        let wanted: u64 = expected.iter().filter(|one| one.kind == kind).map(|one| one.count).sum();
        assert_eq!(count, wanted, "{kind:?} sites of {texts:#?}, seed {seed}");
    }
    if let Some(kept) = &mut machine.env.kept {
        for table in kept.take(&machine.env.slots) {
            assert_eq!(table, pages, "what is kept of {texts:#?}, seed {seed}");
        }
    }
    if seed.is_multiple_of(3) {
        machine.forget_pages();
    }
}

const ONE: Options = Options { low_shadow: false, ..Options::USUAL };
const VARIANTS: [Options; 14] = [
    Options { low_shadow: true, ..ONE },
    ONE,
    Options { changes: Changes::Silently, instructions: 2, ..ONE },
    Options { scheme: Scheme::Flat, ..ONE },
    Options { scheme: Scheme::Loops, ..ONE },
    Options { changes: Changes::Silently, scheme: Scheme::Flat, instructions: 2, ..ONE },
    Options { each: Some(EACH[0]), ..ONE },
    Options { each: Some(EACH[1]), ..ONE },
    Options { each: Some(EACH[2]), ..ONE },
    Options { each: Some(EACH[3]), persists: true, ..ONE },
    Options { each: Some(EACH[4]), ..ONE },
    Options { own_processor: true, ..ONE },
    Options { changes: Changes::Silently, scheme: Scheme::Loops, instructions: 3, ..ONE },
    Options { persists: true, own_processor: true, scheme: Scheme::LongLoops, ..ONE },
];

#[test]
fn every_form_alone() {
    for options in VARIANTS {
        let mut machine = Machine::new(options);
        for number in 0..code().forms.len() {
            for ending in 0..ENDINGS.len() {
                for seed in 0..4 {
                    check(&mut machine, &[number], ending, seed);
                }
            }
            machine.renew_if_full(options);
        }
        if let Some(kept) =
            machine.env.kept.as_ref().filter(|_| options.each.is_some_and(|each| each.lines || each.words))
        {
            // Each check begins with pages that mostly are not known yet.
            let (here, apart) = (kept.in_place, kept.out_of_line);
            assert!(here > apart / 8, "{here} accesses in place, {apart} out of line: {:?}", options.each);
        }
        assert_eq!(options.persists, machine.env.records > 100, "fragments are made from records where asked for");
    }
}

#[test]
fn forms_in_sequence() {
    let numbers = prop::collection::vec(0..code().forms.len(), 1..8);
    let strategy = (numbers, 0..ENDINGS.len(), 0..VARIANTS.len(), any::<u64>());
    let machines = RefCell::new(VARIANTS.map(Machine::new));
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&strategy, |(numbers, ending, variant, seed)| {
        let machine = &mut machines.borrow_mut()[variant];
        machine.renew_if_full(VARIANTS[variant]);
        check(machine, &numbers, ending, seed);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
