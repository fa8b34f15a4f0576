//! How code leaves for what is counted out of line, and comes back.

use super::code::{Code, Field, Memory};
use super::emitter::Emitter;
use crate::abi::what::What;
use crate::{Error, SiteId, context};

impl Emitter<'_> {
    /// `registers` hold the first arguments; `last` is lost.
    pub fn call_out_inline(&mut self, what: &What, site: SiteId, registers: &[u8], last: u8) -> Result<(), Error> {
        for (number, &register) in (0..).zip(registers) {
            self.hot.store(register, Memory::context(context::COUNT_ARGUMENTS + 8 * number));
        }
        describe(&mut self.hot, what, &[site]);
        self.leave_to_count(last)
    }

    /// Leaves through COUNT and goes on behind; the register is lost.
    pub fn leave_to_count(&mut self, register: u8) -> Result<(), Error> {
        // lea register, [rip + ...]: what follows the jump
        let field = self.hot.load_address(register);
        self.hot.store(register, Memory::context(context::COUNT_RETURN));
        self.hot.jump_context(None, context::COUNT);
        let here = self.hot.here();
        self.resolve_hot(field, here)
    }

    /// Ends a cold path.
    pub fn return_to(&mut self, register: u8, back: u64) -> Result<(), Error> {
        let field = Field(self.cold.bytes.len() - 4);
        self.resolve_cold(field, back)?;
        self.cold.store(register, Memory::context(context::COUNT_RETURN));
        self.cold.jump_context(None, context::COUNT);
        Ok(())
    }

    /// Calls a routine for a group whose lowest operand is in `r1`, from the cold half; `r1` is lost. Where the address
    /// of its descriptor is to be filled in.
    pub fn call_with_operand(&mut self, r1: u8, routine: u32) -> Field {
        self.cold.store(r1, Memory::context(context::COUNT_ARGUMENTS));
        let field = self.cold.load_address(r1);
        self.cold.store(r1, Memory::context(context::COUNT_ARGUMENTS + 8));
        self.cold.jump_context(None, routine);
        field
    }
}

/// Stores what is to be counted, and for which sites.
pub(crate) fn describe(code: &mut Code, what: &What, sites: &[SiteId]) {
    code.store_constant(context::COUNT_WHAT, what.pack());
    for (number, site) in sites.iter().enumerate() {
        code.memory(false, &[0xc7], 0, Memory::context(context::COUNT_SITES + 4 * number as u32));
        code.imm32(site.0);
    }
}

/// Stores the description and arguments and begins `lea last, [rip + ..]`, whose displacement is left to be filled.
pub(crate) fn call_out(code: &mut Code, what: &What, sites: &[SiteId], arguments: &[(u32, u8)], last: u8) {
    for &(number, register) in arguments {
        code.store(register, Memory::context(context::COUNT_ARGUMENTS + 8 * number));
    }
    describe(code, what, sites);
    code.load_address(last);
}
