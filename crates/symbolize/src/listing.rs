//! The machine code of a function, as text: from the module's own file, and only from the build that was recorded.
//!
//! ```text
//!   module, address --(find)--> file --(symbols)--> where the function begins and ends --(iced-x86)--> instructions
//! ```

use crate::Options;
use crate::doubt::Cause;
use crate::elf::{self, Bytes};
use crate::find;
use crate::go;
use crate::module::{WITHOUT_FILE, contain};
use crate::symbols;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use numalens_profile::tables::{Module, PERF_MAP};
use object::{Architecture, Object, ObjectSection};
use std::ops::Range;

/// The most bytes of one function that are listed: beyond them nobody reads.
const LONGEST: u64 = 256 << 10;

/// One instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// In the module's own numbering, as in the table of sites.
    pub address: u64,
    /// In Intel's syntax.
    pub text: String,
}

/// The instructions of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// Addresses from its first byte to behind its last.
    pub range: Range<u64>,
    /// In the order of addresses; those that begin in the first 256 KiB.
    pub instructions: Vec<Instruction>,
    /// Why it may not be what was executed.
    pub doubt: Option<String>,
}

/// The function around an address of a module.
///
/// # Errors
/// Why there is none, in one sentence: the file is gone, is another build, is for another processor; no symbol covers
/// the address.
pub fn listing(module: &Module, address: u64, options: &Options) -> Result<Listing, String> {
    let path = module.path.as_str();
    let generated = path.starts_with(PERF_MAP);
    if generated || path.is_empty() || path != "[vdso]" && WITHOUT_FILE.iter().any(|start| path.starts_with(start)) {
        return Err("this code was made at run time, or lies in no file: it is not there any more".to_string());
    }
    let files = find::locate(path, &module.build_id, None, options);
    let Some(image) = &files.image else {
        let cause = files.causes.first().map(Cause::to_string);
        return Err(cause.unwrap_or_else(|| format!("of {path} only the debug information is here, which has no code")));
    };
    let tables: Vec<&Bytes> = [Some(image), files.debug.as_ref()].into_iter().flatten().collect();
    let range = contain(|| symbols::extent(address, &tables).or_else(|| go::extent(address, image)))?
        .ok_or_else(|| Cause::NoSymbols(image.path.clone()).to_string())?;
    let instructions = contain(|| decode(image, &range))??;
    Ok(Listing { range, instructions, doubt: doubt(image, module) })
}

/// A file without a build id is taken at its word.
fn doubt(image: &Bytes, module: &Module) -> Option<String> {
    module.build_id.is_empty().then(|| {
        format!(
            "{} has no build id: if it was changed since, these are other instructions than those that were executed",
            image.path.display()
        )
    })
}

fn decode(image: &Bytes, range: &Range<u64>) -> Result<Vec<Instruction>, String> {
    let file = image.parse()?;
    if file.architecture() != Architecture::X86_64 {
        return Err(format!("{} is not for x86-64: its code is not shown", image.path.display()));
    }
    let size = (range.end - range.start).min(LONGEST);
    let code = file
        .sections()
        .filter(elf::is_code)
        .find_map(|section| section.data_range(range.start, size).ok().flatten())
        .ok_or_else(|| {
            Cause::Damaged { file: image.path.clone(), why: "its code is not where its symbols say".into() }.to_string()
        })?;
    let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let style = formatter.options_mut();
    style.set_hex_prefix("0x");
    style.set_hex_suffix("");
    style.set_uppercase_hex(false);
    style.set_small_hex_numbers_in_decimal(true);
    style.set_space_after_operand_separator(true);
    style.set_branch_leading_zeros(false);
    style.set_rip_relative_addresses(true);
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        instructions.push(Instruction { address: instruction.ip(), text });
    }
    Ok(instructions)
}
