//! Images of the processor's state (`fxsave`, `xsave` and their kin): how much of memory they take is said by
//! registers, by the image itself and by the processor, not by the operand.
//!
//! After the manual's chapter "Managing state using the XSAVE feature set":
//!
//! | | bytes 0 to 575 | components from number 2 on |
//! |---|---|---|
//! | `fxsave`, `fxrstor` | the first 464 | none |
//! | `xsave` | all | asked for |
//! | `xsaveopt` | all | asked for and in use (and changed since it was restored, which nobody can know) |
//! | `xsavec` | all | asked for and in use, compacted: those that are asked for lie side by side |
//! | `xrstor` | all | asked for and in the image, as its header says; compacted if it says so |
//!
//! *Asked for* are the bits of edx:eax that XCR0 has as well. `xsaves` and `xrstors` are the kernel's.

use core::ops::Range;

/// Which instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ImageForm {
    /// `fxsave`, `fxrstor`.
    Legacy,
    /// `xsave`.
    Whole,
    /// `xsaveopt`.
    InUse,
    /// `xsavec`.
    Compact,
    /// `xrstor`.
    Restore,
}

impl ImageForm {
    /// All of them, by number.
    pub const ALL: [ImageForm; 5] =
        [ImageForm::Legacy, ImageForm::Whole, ImageForm::InUse, ImageForm::Compact, ImageForm::Restore];
}

/// What it saves or restores, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Which instruction.
    pub form: ImageForm,
    /// Components that are asked for: the bits of edx:eax that XCR0 has.
    pub wanted: u64,
    /// Components in use (XINUSE), for those that save.
    pub in_use: u64,
    /// The words at 512 and 520 of the image, XSTATE_BV and XCOMP_BV, for those that restore.
    pub header: [u64; 2],
}

/// A component as CPUID leaf 0xD tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Component {
    /// Bytes.
    pub bytes: u32,
    /// Where it is in an image that is not compacted.
    pub offset: u32,
    /// In a compacted one it begins at a multiple of 64.
    pub aligned: bool,
}

const LEGACY: u64 = 464;
const HEADER_END: u64 = 576;
const COMPACTED: u64 = 1 << 63;

impl Image {
    /// Calls `found` with the pieces of memory that the image takes, from its start on: in order, touching ones
    /// together.
    pub fn pieces(&self, component: impl Fn(u32) -> Component, mut found: impl FnMut(Range<u64>)) {
        let (present, order) = match self.form {
            ImageForm::Legacy => return found(0..LEGACY),
            ImageForm::Whole => (self.wanted, None),
            ImageForm::InUse => (self.wanted & self.in_use, None),
            ImageForm::Compact => (self.wanted & self.in_use, Some(self.wanted)),
            ImageForm::Restore => {
                let [present, compaction] = self.header;
                (self.wanted & present, (compaction & COMPACTED != 0).then_some(compaction))
            }
        };
        let (mut piece, mut next) = (0..HEADER_END, HEADER_END);
        for number in (2..63).filter(|number| (order.unwrap_or(present) | present) >> number & 1 != 0) {
            let Component { bytes, offset, aligned } = component(number);
            let start = match order {
                Some(_) if aligned => next.next_multiple_of(64),
                Some(_) => next,
                None => offset.into(),
            };
            let end = start + u64::from(bytes);
            next = end;
            if present >> number & 1 == 0 {
                continue;
            }
            if start == piece.end {
                piece.end = end;
            } else {
                found(core::mem::replace(&mut piece, start..end));
            }
        }
        found(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// As processors with AVX-512 and tiles tell it.
    fn component(number: u32) -> Component {
        let of = |bytes, offset, aligned| Component { bytes, offset, aligned };
        match number {
            2 => of(256, 576, false),
            5 => of(64, 1088, false),
            6 => of(512, 1152, false),
            7 => of(1024, 1664, false),
            9 => of(8, 2688, false),
            17 => of(64, 2752, false),
            18 => of(8192, 2816, true),
            _ => Component::default(),
        }
    }

    fn pieces(form: ImageForm, wanted: u64, in_use: u64, header: [u64; 2]) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        Image { form, wanted, in_use, header }.pieces(component, |piece| all.push(piece));
        all
    }

    // Ranges are what is meant.
    #[allow(clippy::single_range_in_vec_init)]
    #[test]
    fn images_take_what_is_asked_for_and_there() {
        use ImageForm::*;
        const ALL: u64 = 0x6_02e7;
        assert_eq!(pieces(Legacy, 0, 0, [0; 2]), [0..464]);
        assert_eq!(pieces(Whole, 3, 0, [0; 2]), [0..576]);
        assert_eq!(pieces(Whole, ALL, 0, [0; 2]), [0..832, 1088..2696, 2752..11008], "with gaps");
        assert_eq!(pieces(InUse, ALL, 0x7, [0; 2]), [0..832]);
        assert_eq!(pieces(InUse, 1 << 9, !0, [0; 2]), [0..576, 2688..2696]);
        // 576 + 256 + 64 + 512 + 1024 + 8 + 64 = 2504, and tile data from 2560 on.
        assert_eq!(pieces(Compact, ALL, !0, [0; 2]), [0..2504, 2560..10752]);
        assert_eq!(pieces(Compact, ALL, 1 << 18, [0; 2]), [0..576, 2560..10752], "what is not in use has its room");
        assert_eq!(pieces(Compact, 1 << 18, 1 << 18, [0; 2]), [0..8768]);
        assert_eq!(pieces(Restore, ALL, 0, [0x7, 0]), [0..832]);
        assert_eq!(pieces(Restore, ALL, 0, [1 << 18, 0]), [0..576, 2816..11008]);
        assert_eq!(pieces(Restore, ALL, 0, [1 << 18, COMPACTED | 1 << 2 | 1 << 18]), [0..576, 832..9024], "compacted");
        assert_eq!(pieces(Restore, 3, 0, [1 << 18, 0]), [0..576], "not asked for");
    }
}
