//! The registers that generated code names, by their numbers.

use numalens_isa::Register;

pub(crate) const RAX: u8 = Register::Rax.number();
pub(crate) const RCX: u8 = Register::Rcx.number();
pub(crate) const RDX: u8 = Register::Rdx.number();
pub(crate) const RSP: u8 = Register::Rsp.number();
pub(crate) const RSI: u8 = Register::Rsi.number();
pub(crate) const RDI: u8 = Register::Rdi.number();
