//! Persisted fragments: translations that outlive the process they were made for.
//!
//! Problem: the start of any program translates the same tens of thousands of instructions of the loader and the C
//! library again. But translated code knows where it lies, where the program's code lies, and the numbers of its
//! sites, records, counters and exits, all of which differ from process to process.
//!
//! Mechanism: a *record* is a fragment whose code has a list of *relocations*, one for each field that depends on
//! these. The writer of code does not know of them. They are found by translating twice, at two places that have
//! nothing in common: where the bytes differ is a field, and by how much it differs says what it depends on. A third
//! translation, at a third place, must be what the relocated record is, byte for byte, or the fragment is not
//! persisted:
//!
//! ```text
//!   place A:  inc qword gs:[rax + 0x9a0120]        place B:  inc qword gs:[rax + 0x9b2d98]
//!             8 * (site A) + ..                              8 * (site B) + ..        a row of site counters
//!   record:   inc qword gs:[rax + 0x980000], and "row" for the field
//! ```
//! So whatever comes to the translator is persisted without further ado, or at worst is translated again.
//!
//! 1. A record is for one [`Config`] ([`config_key`]), and for the code of one file: what is live behind the fragment
//!    was looked up there. Whoever offers it ([`crate::Env::persisted`]) sees to both.
//! 2. It has the code that it is a translation of, and is for no other.
//! 3. It was made as the first translation of its fragment: what executions have shown is not in it, and a fragment of
//!    which they have shown something is translated.
//! 4. A damaged one is refused: it has a sum of its bytes.

mod field;
mod make;
mod place;
mod record;
pub(crate) mod relocate;
mod told;

use crate::Config;
use alloc::format;
use core::hash::Hasher;
pub use make::{CodeFile, Maker, ProgramCode};
use rustc_hash::FxHasher;

/// Tells configurations apart: a record is for those with the same key.
pub fn config_key(config: &Config) -> u64 {
    sum(format!("{config:?}").as_bytes())
}

/// Tells files of code apart, by what the kernel says of one: device, inode, bytes, the times at which its contents and
/// its inode were changed last (seconds and nanoseconds). Never 0.
pub fn file_key(stat: [u64; 7]) -> u64 {
    let mut hasher = FxHasher::default();
    stat.iter().for_each(|&word| hasher.write_u64(word));
    hasher.finish() | 1
}

/// Of bytes, against damage.
fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
