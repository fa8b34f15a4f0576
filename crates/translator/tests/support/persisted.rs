//! Fragments of the program as records.

use numalens_translator::Config;
use numalens_translator::persist::{CodeFile, Maker, ProgramCode};

/// The program, for whoever makes records of it.
struct ProgramText {
    start: u64,
    bytes: usize,
}

impl ProgramCode for ProgramText {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let left = (self.bytes as u64).saturating_sub(address);
        let length = into.len().min(left as usize);
        // SAFETY: within the program, which is mapped as long as the machine is.
        unsafe { std::ptr::copy_nonoverlapping((self.start + address) as *const u8, into.as_mut_ptr(), length) };
        length
    }
}

/// The record of the fragment at `ip` of a program of so many bytes.
pub fn record(config: Config, start: u64, bytes: usize, ip: u64) -> Option<&'static [u8]> {
    let mut file = CodeFile::new(ProgramText { start, bytes }, false);
    let record = Maker::new(config).make(&mut file, ip.checked_sub(start)?);
    record.map(|record| &*record.leak())
}
