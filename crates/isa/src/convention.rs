//! Calling conventions: which register holds what where code of two authors meets.

/// Calls of functions (System V).
pub mod function {
    use crate::Register;

    /// Integer arguments, the first one first.
    pub const ARGUMENTS: [Register; 6] =
        [Register::Rdi, Register::Rsi, Register::Rdx, Register::Rcx, Register::R8, Register::R9];
    /// The result.
    pub const RESULT: Register = Register::Rax;
    /// The stack; at the entry of a function it points to the return address.
    pub const STACK_POINTER: Register = Register::Rsp;
    /// The frame, in functions that have one. Calls preserve it.
    pub const FRAME_POINTER: Register = Register::Rbp;
    /// What calls preserve beside the frame pointer.
    pub const PRESERVED: [Register; 5] = [Register::Rbx, Register::R12, Register::R13, Register::R14, Register::R15];
}

/// Calls of functions of Go, from version 1.17 on (ABIInternal).
pub mod go_function {
    use crate::Register;

    /// Integer arguments, the first one first: a method's receiver is the first. As many as are asked for.
    pub const ARGUMENTS: [Register; 3] = [Register::Rax, Register::Rbx, Register::Rcx];
    /// The result.
    pub const RESULT: Register = Register::Rax;
}

/// System calls of Linux by `syscall`.
pub mod system_call {
    use crate::Register;

    /// The instruction.
    pub const INSTRUCTION: [u8; 2] = [0x0f, 0x05];
    /// Which call.
    pub const NUMBER: Register = Register::Rax;
    /// The arguments, the first one first.
    pub const ARGUMENTS: [Register; 6] =
        [Register::Rdi, Register::Rsi, Register::Rdx, Register::R10, Register::R8, Register::R9];
    /// The result, or an error number, negated.
    pub const RESULT: Register = Register::Rax;
    /// Behind the call the processor has put the address after the instruction here.
    pub const NEXT: Register = Register::Rcx;
    /// Behind the call the processor has put the flags here.
    pub const FLAGS: Register = Register::R11;
}

/// System calls of Linux by `int 0x80`, in 32 bits each. No other register changes.
pub mod old_system_call {
    use crate::Register;

    /// Which call.
    pub const NUMBER: Register = Register::Rax;
    /// The arguments, the first one first.
    pub const ARGUMENTS: [Register; 6] =
        [Register::Rbx, Register::Rcx, Register::Rdx, Register::Rsi, Register::Rdi, Register::Rbp];
    /// The result, or an error number, negated.
    pub const RESULT: Register = Register::Rax;
}

/// What a program says by `include/numalens.h`: see [`crate::REQUEST`].
pub mod request {
    use crate::Register;

    /// Which request.
    pub const KIND: Register = Register::Rdi;
    /// An address, or a name that ends with 0.
    pub const FIRST: Register = Register::Rsi;
    /// A number of bytes, or an address.
    pub const SECOND: Register = Register::Rdx;
    /// 0 before; what has become of the request behind it.
    pub const RESULT: Register = Register::Rax;
    /// Where the answer to some requests is a time.
    pub const TIME: Register = SECOND;
}
