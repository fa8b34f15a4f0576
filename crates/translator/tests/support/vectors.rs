//! The image of the vector registers that `xsave` makes, in its standard form.

use super::switch::COMPONENTS;
use std::arch::x86_64::__cpuid_count;

/// An image under construction or inspection.
pub struct Vectors {
    pub image: Vec<u8>,
}

/// Where a component lies in the image, and its size; size 0 where the machine lacks it.
fn component(number: u32) -> (usize, usize) {
    let found = __cpuid_count(0xd, number);
    (found.ebx as usize, found.eax as usize)
}

const AVX: u32 = 2;
const OPMASK: u32 = 5;
const UPPER_HALVES: u32 = 6;
const UPPER_REGISTERS: u32 = 7;

pub fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl")
}

impl Vectors {
    /// The initial state.
    pub fn new() -> Vectors {
        let components = [AVX, OPMASK, UPPER_HALVES, UPPER_REGISTERS].map(component);
        let size = components.into_iter().map(|(start, size)| start + size).max().unwrap_or(0).max(576);
        let mut image = vec![0; size];
        image[0..2].copy_from_slice(&0x037fu16.to_le_bytes());
        image[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        Self::of(&image)
    }

    /// What `xsave` has written. It marks the components that hold something, and a processor may find after any
    /// interrupt that one of nothing but zeros holds nothing (AMD's do), so here all are marked.
    pub fn of(image: &[u8]) -> Vectors {
        let mut image = image.to_vec();
        let present = if has_avx512() { COMPONENTS } else { 7 };
        image[512..516].copy_from_slice(&present.to_le_bytes());
        Vectors { image }
    }

    /// The components that the kernel has switched on.
    pub fn enabled() -> u32 {
        let (low, _high): (u32, u32);
        // SAFETY: AVX, which all of this needs, comes with the instruction and with a kernel that has switched it on.
        unsafe { std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _high, options(nomem, nostack)) };
        low
    }

    /// Where in an image a component begins, and its bytes.
    pub fn component(number: u32) -> (u64, u64) {
        let (start, bytes) = component(number);
        (start as u64, bytes as u64)
    }

    fn pieces(register: usize) -> Vec<(usize, usize)> {
        if register < 16 {
            let (avx, upper) = (component(AVX).0, component(UPPER_HALVES));
            let mut pieces = vec![(160 + 16 * register, 16), (avx + 16 * register, 16)];
            if upper.1 > 0 {
                pieces.push((upper.0 + 32 * register, 32));
            }
            pieces
        } else {
            vec![(component(UPPER_REGISTERS).0 + 64 * (register - 16), 64)]
        }
    }

    /// The bytes of a vector register, as many as the machine has.
    pub fn get(image: &[u8], register: usize) -> Vec<u8> {
        Self::pieces(register)
            .into_iter()
            .flat_map(|(start, size)| image[start..start + size].iter().copied())
            .collect()
    }

    pub fn set(&mut self, register: usize, bytes: &[u8]) {
        let mut rest = bytes;
        for (start, size) in Self::pieces(register) {
            let (now, later) = rest.split_at(size);
            self.image[start..start + size].copy_from_slice(now);
            rest = later;
        }
    }

    /// Bytes of a vector register.
    pub fn width() -> usize {
        if has_avx512() { 64 } else { 32 }
    }

    pub fn mask(image: &[u8], k: usize) -> u64 {
        let at = component(OPMASK).0 + 8 * k;
        u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"))
    }

    pub fn set_mask(&mut self, k: usize, value: u64) {
        let at = component(OPMASK).0 + 8 * k;
        self.image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}
