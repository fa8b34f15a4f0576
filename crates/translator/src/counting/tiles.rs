//! Tiles: an access for each row.

use super::strategy::{AccessAt, CountStrategy};
use crate::abi::what::{Operation, What};
use crate::emit::{Emitter, Memory, address};
use crate::{Address, Config, Error, Shape, Way, context};
use iced_x86::Register;

/// Leaves with the address of the first row, the distance between rows, and the thread's configuration of tiles.
pub(crate) struct TileApart;

impl CountStrategy<AccessAt<'_>> for TileApart {
    const WAY: Way = Way::Apart;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        of.access.shape == Shape::Tile
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { instruction, access, site, live } = of;
        let avoid = access.address.registers(access.shape);
        let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid);
        let r2 = out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << r1);
        out.map_spilled();
        out.hot.raw(&[0x65, 0xc4, 0xe2, 0x79, 0x49, 0x04, 0x25]); // sttilecfg gs:[..]
        out.hot.imm32(context::COUNT_VECTOR);
        let Address { index, scale, narrow, .. } = access.address;
        address(&mut out.hot, r1, r2, &access.address, access.shape);
        match index {
            Some(_) => {
                let stride = Memory::Flat { base: None, index, scale: scale.max(1), displacement: 0 };
                out.hot.memory(!narrow, &[0x8d], r2, stride);
            }
            None => out.hot.constant(r2, 0),
        }
        let is_tile = |register: &Register| register.is_tmm();
        let tile = [instruction.op0_register(), instruction.op1_register()].into_iter().find(is_tile);
        let lanes = tile.map_or(0, |tile| tile.number() as u8);
        let what = What { operation: Operation::Tile, lanes, narrow, ..What::one(access.kind) };
        out.call_out_inline(&what, site, &[r1, r2], r1)
    }
}
