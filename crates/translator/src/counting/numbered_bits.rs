//! Bits by number (`bt` and the like with a register): the number says which word is accessed.

use super::strategy::{AccessAt, CountStrategy};
use crate::abi::what::{Operation, What};
use crate::emit::{Emitter, address};
use crate::{Config, Error, Shape, Way};

/// Leaves with the address of the operand and the bit number.
pub(crate) struct BitsApart;

impl CountStrategy<AccessAt<'_>> for BitsApart {
    const WAY: Way = Way::Apart;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        of.access.shape == Shape::Bits
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { instruction, access, site, live } = of;
        let avoid = access.address.registers(access.shape) | 1 << instruction.op1_register().full_register().number();
        let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid);
        let r2 = out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << r1);
        out.map_spilled();
        address(&mut out.hot, r1, r2, &access.address, access.shape);
        out.hot.move64(r2, instruction.op1_register().full_register().number() as u8);
        let index_size = instruction.op1_register().size() as u8;
        let what =
            What { operation: Operation::Bits, index_size, narrow: access.address.narrow, ..What::one(access.kind) };
        out.call_out_inline(&what, site, &[r1, r2], r1)
    }
}
