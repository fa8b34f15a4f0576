//! What the lab knows, apart from booting machines: which machines there are, what a target says about itself, and what
//! a recording of it must show. Used by the lab and by the tests of the command line on hosts of one node.

pub mod expectation;
pub mod machine;
pub mod truth;
