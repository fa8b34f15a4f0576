//! Images of the processor's state, as the accesses that they are: [`numalens_isa::Image`] says how much of memory they
//! take, this what the processor says to that.

use super::Pages;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use numalens_isa::{Component, Image, ImageForm, PAGE};

/// CPUID's leaf of the components.
const LEAF: u32 = 0xd;
/// In its part 1, eax: `xgetbv` tells what is in use.
const TELLS_IN_USE: u32 = 1 << 2;
/// Where the header of an image begins.
const HEADER: u64 = 512;
/// In [`known`]: the component was asked for.
const ASKED: u64 = 1 << 63;

/// What an instruction of this form wants of the image at `arguments[0]`, with `arguments[1]` in edx:eax.
pub(crate) fn asked(pages: &mut impl Pages, arguments: [u64; 4], form: u8) -> Option<Image> {
    let form = *ImageForm::ALL.get(usize::from(form))?;
    let [at, mask, ..] = arguments;
    if form == ImageForm::Legacy {
        return Some(Image { form, wanted: 0, in_use: 0, header: [0; 2] });
    }
    let tells = known(&IN_USE, || u64::from(__cpuid_count(LEAF, 1).eax & TELLS_IN_USE)) != 0;
    let in_use = if tells { control(1) } else { u64::MAX };
    let header = match form {
        // An image that cannot be read faults.
        ImageForm::Restore => [pages.peek(at.wrapping_add(HEADER))?, pages.peek(at.wrapping_add(HEADER + 8))?],
        _ => [0; 2],
    };
    Some(Image { form, wanted: mask & control(0), in_use, header })
}

/// Calls `found` with where an image at an address begins in each page that it reaches into, and how many bytes from
/// there on.
pub(crate) fn by_page(image: &Image, at: u64, mut found: impl FnMut(u64, u32)) {
    let mut last = None;
    image.pieces(component, |piece| {
        let (mut from, to) = (at.wrapping_add(piece.start), at.wrapping_add(piece.end));
        while from < to {
            let end = to.min((from & !(PAGE - 1)).saturating_add(PAGE));
            if last != Some(from / PAGE) {
                found(from, (end - from) as u32);
            }
            last = Some(from / PAGE);
            from = end;
        }
    });
}

/// An extended control register. (The instruction that asks is there, as the one that the program is about to execute
/// is.)
fn control(number: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a register; of 1, where CPUID says that there is one.
    unsafe {
        asm!("xgetbv", in("ecx") number, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    u64::from(low) | u64::from(high) << 32
}

static IN_USE: AtomicU64 = AtomicU64::new(0);
static COMPONENTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// What CPUID says, which takes tens of microseconds in a virtual machine, kept.
fn known(place: &AtomicU64, ask: impl FnOnce() -> u64) -> u64 {
    let mut word = place.load(Relaxed);
    if word & ASKED == 0 {
        word = ask() | ASKED;
        place.store(word, Relaxed);
    }
    word & !ASKED
}

fn component(number: u32) -> Component {
    let Some(place) = COMPONENTS.get(number as usize) else { return Component::default() };
    const ALIGNED: u64 = 1 << 62;
    let word = known(place, || {
        let told = __cpuid_count(LEAF, number);
        let aligned = if told.ecx & 2 != 0 { ALIGNED } else { 0 };
        u64::from(told.eax) | u64::from(told.ebx & 0xff_ffff) << 32 | aligned
    });
    Component { bytes: word as u32, offset: (word >> 32) as u32 & 0xff_ffff, aligned: word & ALIGNED != 0 }
}
