//! What code for x86-64 is made with: general registers, and pages.

/// Bytes of a page.
pub const PAGE: u64 = 1 << PAGE_BITS;

/// log2 of the bytes of a page.
pub const PAGE_BITS: u8 = 12;

/// A general register. Its number is how instructions encode it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "their names are all there is to say")]
pub enum Register {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

impl Register {
    /// In the order of their numbers.
    pub const ALL: [Register; 16] = [
        Register::Rax,
        Register::Rcx,
        Register::Rdx,
        Register::Rbx,
        Register::Rsp,
        Register::Rbp,
        Register::Rsi,
        Register::Rdi,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];

    /// How instructions encode it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The register that instructions encode as `number`, of which the low four bits count.
    pub const fn of_number(number: u8) -> Self {
        Self::ALL[(number & 15) as usize]
    }

    /// Its bit in a set of registers.
    pub const fn bit(self) -> u16 {
        1 << self.number()
    }

    /// Its number in DWARF, which has the first eight in another order.
    pub const fn dwarf(self) -> u16 {
        const NUMBERS: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
        let number = self.number() as u16;
        if number < 8 { NUMBERS[number as usize] } else { number }
    }

    /// The register that has this number in DWARF; none: it is no general one.
    pub const fn of_dwarf(number: u16) -> Option<Self> {
        const REGISTERS: [Register; 8] = [
            Register::Rax,
            Register::Rdx,
            Register::Rcx,
            Register::Rbx,
            Register::Rsi,
            Register::Rdi,
            Register::Rbp,
            Register::Rsp,
        ];
        match number {
            0..8 => Some(REGISTERS[number as usize]),
            8..16 => Some(Self::ALL[number as usize]),
            _ => None,
        }
    }
}

// As numbers, for what computes with those of any instruction.
pub(crate) const RAX: u8 = Register::Rax.number();
pub(crate) const RCX: u8 = Register::Rcx.number();
pub(crate) const RSP: u8 = Register::Rsp.number();
pub(crate) const RBP: u8 = Register::Rbp.number();
pub(crate) const RSI: u8 = Register::Rsi.number();
pub(crate) const RDI: u8 = Register::Rdi.number();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_numbers_of_their_places() {
        for (number, register) in (0..).zip(Register::ALL) {
            assert_eq!(register.number(), number);
            assert_eq!(register.bit(), 1 << number);
            assert_eq!(Register::of_number(number), register);
        }
    }

    #[test]
    fn dwarf_has_its_own_order() {
        // System V ABI, figure 3.36.
        let order = "Rax Rdx Rcx Rbx Rsi Rdi Rbp Rsp R8 R9 R10 R11 R12 R13 R14 R15";
        for (number, name) in (0..).zip(order.split(' ')) {
            let register = Register::of_dwarf(number).expect("a general register");
            assert_eq!((alloc::format!("{register:?}").as_str(), register.dwarf()), (name, number));
        }
        assert_eq!(Register::of_dwarf(16), None, "the return address");
    }
}
