//! How the iterations of a loop follow from a register.

/// How the iterations of a loop follow from its induction variable: `(variable - grown + bias) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivedCount {
    /// The induction variable.
    pub(crate) register: u8,
    /// What an iteration adds to it, as a power of two.
    pub(crate) shift: u8,
    /// How much of that the present iteration has added already.
    pub(crate) grown: i64,
    /// Offsets from GS: of the bias, of the execution counter.
    pub(crate) bias: u32,
    pub(crate) executions: u32,
}
