//! Writing code: the encoder, and the code of a fragment as it grows.

pub(crate) mod calls;
pub(crate) mod code;
pub(crate) mod emitter;
pub(crate) mod pages;
pub(crate) mod scratch;

pub(crate) use calls::{call_out, describe};
pub(crate) use code::{Code, Field, Memory};
pub(crate) use emitter::{Emitter, Progress};
pub(crate) use pages::{address, count_in_page, in_row, load_entry, operand, reads_and_writes};
pub(crate) use scratch::Scratch;
