//! Assembly text to bytes, by the system's assembler.

use object::{Object, ObjectSection, ObjectSymbol};
use std::process::Command;

/// The bytes of each piece of Intel-syntax text, assembled apart.
pub fn assemble(pieces: &[&str]) -> Vec<Vec<u8>> {
    let directory = tempfile::tempdir().expect("a directory for the assembler");
    let (source, object) = (directory.path().join("a.s"), directory.path().join("a.o"));
    let mut text = String::from(".intel_syntax noprefix\n");
    for (number, piece) in pieces.iter().enumerate() {
        text += &format!("piece_{number}:\n{piece}\n");
    }
    text += &format!("piece_{}:\n", pieces.len());
    std::fs::write(&source, text).expect("the source can be written");
    let output = Command::new("as")
        .arg("-mmnemonic=intel")
        .arg("-msyntax=intel")
        .arg("-mnaked-reg")
        .arg("-o")
        .arg(&object)
        .arg(&source)
        .output();
    let output = output.expect("the assembler `as` (Debian: binutils) runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&object).expect("the assembler wrote its output");
    let file = object::File::parse(&*bytes).expect("an object file");
    let section = file.section_by_name(".text").expect("code");
    assert!(section.relocations().next().is_none(), "the pieces must not need a linker");
    let code = section.data().expect("code");
    let mut starts = vec![0; pieces.len() + 1];
    for symbol in file.symbols() {
        if let Some(number) =
            symbol.name().ok().and_then(|name| name.strip_prefix("piece_")).and_then(|n| n.parse::<usize>().ok())
        {
            starts[number] = symbol.address() as usize;
        }
    }
    starts.windows(2).map(|pair| code[pair[0]..pair[1]].to_vec()).collect()
}
