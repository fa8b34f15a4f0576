//! Sites as faults need them: there are hundreds of thousands, and a fault is rare, so what they do is packed into 16
//! bytes.

use crate::call;
use crate::sys::arch;
use numalens_isa::{Address, Kind, Shape};
use numalens_translator::Site;

/// What the operand of a site does, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    displacement: i64,
    base: u8,
    index: u8,
    /// Kind, log2 of the scale, whether the address follows from registers.
    what: u8,
    /// Bits of [`Address`].
    flags: u8,
}

const NO_REGISTER: u8 = u8::MAX;
const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::ReadWrite];

impl Operand {
    /// Of a site.
    pub fn new(site: &Site) -> Self {
        let Address { base, index, scale, displacement, fs, gs, narrow, byte_index } = site.address;
        let kind = KINDS.iter().position(|&kind| kind == site.kind).unwrap_or(0) as u8;
        let plain = u8::from(site.shape == Shape::Plain);
        Operand {
            displacement,
            base: base.unwrap_or(NO_REGISTER),
            index: index.unwrap_or(NO_REGISTER),
            what: kind | (scale.max(1).trailing_zeros() as u8) << 2 | plain << 4,
            flags: u8::from(fs) | u8::from(gs) << 1 | u8::from(narrow) << 2 | u8::from(byte_index) << 3,
        }
    }

    /// What one access does.
    pub fn kind(&self) -> Kind {
        KINDS[usize::from(self.what & 3).min(2)]
    }

    /// The address of a plain operand; none of others.
    fn address(&self) -> Option<Address> {
        let register = |number: u8| (number != NO_REGISTER).then_some(number);
        let flag = |bit: u8| self.flags >> bit & 1 != 0;
        (self.what >> 4 & 1 != 0).then(|| Address {
            base: register(self.base),
            index: register(self.index),
            scale: 1 << (self.what >> 2 & 3),
            displacement: self.displacement,
            fs: flag(0),
            gs: flag(1),
            narrow: flag(2),
            byte_index: flag(3),
        })
    }

    /// The address of a plain operand, from the registers before its instruction; none where it does not follow from
    /// those.
    pub fn effective_address(&self, registers: &[u64; 16]) -> Option<u64> {
        let address = self.address()?;
        let mut segment = 0u64;
        if address.fs {
            // SAFETY: a word for the answer.
            unsafe { call!(__NR_arch_prctl, arch::GET_FS, &raw mut segment) }.ok()?;
        }
        let site = Site { ip: 0, kind: self.kind(), size: 0, shape: Shape::Plain, stack: false, address };
        site.effective_address(registers, segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_loses_nothing_that_addresses_need() {
        let address = Address {
            base: Some(5),
            index: Some(12),
            scale: 8,
            displacement: i64::MIN + 77,
            fs: false,
            gs: false,
            narrow: true,
            byte_index: true,
        };
        for kind in KINDS {
            let site = Site { ip: 0x1234, kind, size: 16, shape: Shape::Plain, stack: true, address };
            let operand = Operand::new(&site);
            assert_eq!((operand.kind(), operand.address()), (kind, Some(address)));
            let registers = core::array::from_fn(|number| number as u64 * 0x1_0000_1001);
            assert_eq!(operand.effective_address(&registers), site.effective_address(&registers, 0));
            let gather = Operand::new(&Site { shape: Shape::Elements, ..site });
            assert_eq!(gather.effective_address(&registers), None);
        }
        let constant = Address { displacement: -1, scale: 1, ..Address::default() };
        let site = Site { ip: 0, kind: Kind::Read, size: 8, shape: Shape::Plain, stack: false, address: constant };
        assert_eq!(Operand::new(&site).effective_address(&[7; 16]), Some(u64::MAX));
        assert_eq!(size_of::<Operand>(), 16);
    }
}
