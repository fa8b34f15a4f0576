//! A fragment of the program before its code is written: its instructions, what is live, which accesses are counted
//! together, and what stands behind each piece of what will be written.

pub(crate) mod cpu_query;
pub(crate) mod decode;
pub(crate) mod exit;
pub(crate) mod far;
pub(crate) mod flags_abi;
mod forms;
pub(crate) mod liveness;
pub(crate) mod loops;
pub(crate) mod mark;
pub(crate) mod member;
pub(crate) mod numbers;
pub(crate) mod plan;
pub(crate) mod segments;
pub(crate) mod values;
