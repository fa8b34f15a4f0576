//! Images of the processor's state (`xsave` and the like): an access in each page that they reach into.

use super::strategy::{AccessAt, CountStrategy};
use crate::abi::registers::{RAX, RDX};
use crate::abi::what::{Operation, What};
use crate::emit::{Emitter, Memory, address};
use crate::{Config, Error, Shape, Way, context};

/// Leaves with the address of the image and what of it is asked for.
pub(crate) struct ImageApart;

impl CountStrategy<AccessAt<'_>> for ImageApart {
    const WAY: Way = Way::Apart;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        matches!(of.access.shape, Shape::Image(_))
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { access, site, live, .. } = of;
        let Shape::Image(form) = access.shape else { return Ok(()) };
        let avoid = access.address.registers(access.shape) | 1 << RAX | 1 << RDX;
        let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid);
        let r2 = out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << r1);
        out.map_spilled();
        address(&mut out.hot, r1, r2, &access.address, access.shape);
        for (half, register) in [(0, RAX), (4, RDX)] {
            // mov gs:[..], register
            out.hot.memory(false, &[0x89], register, Memory::context(context::COUNT_ARGUMENTS + 8 + half));
        }
        let narrow = access.address.narrow;
        let what = What { operation: Operation::Image, lanes: form as u8, narrow, ..What::one(access.kind) };
        out.call_out_inline(&what, site, &[r1], r1)
    }
}
