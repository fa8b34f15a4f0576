//! How code is counted that should not be counted access by access.

#[path = "support/assemble.rs"]
mod assemble;
#[path = "support/paper.rs"]
mod paper;

use numalens_translator::{Cache, Way};
use paper::{CONFIG, Paper};
use std::fmt::Write;

const PROGRAM: u64 = 0x40_0000;

/// Fragments of floating point end where nothing tells whether flags are needed, for hundreds of instructions on.
#[test]
fn long_straight_line_code_is_grouped() {
    let mut text = String::new();
    for number in 0..100 {
        let _ = writeln!(text, "movsd xmm0, [rdi + {}]", 8 * (number * 7 % 25));
        let _ = writeln!(text, "mulsd xmm0, xmm1\nmovsd [rdi + {}], xmm0", 8 * (number % 25));
    }
    let program = assemble::assemble(&[&(text + "ret")]).remove(0);
    let mut paper = Paper::new(program, PROGRAM);
    Cache::new(CONFIG).entry(&mut paper, PROGRAM).expect("it can be translated");
    let alone: Vec<_> = paper.ways.iter().filter(|(_, way)| !way.is_grouped()).collect();
    assert!(alone.is_empty(), "{alone:?}");
    assert!(paper.ways.iter().map(|(sites, _)| sites).sum::<u32>() >= 10, "{:?}", paper.ways);
    assert!(Way::ALL.windows(2).all(|pair| (pair[0] as u32) + 1 == pair[1] as u32));
}

/// An interpreter's piece ends with a jump to the next one, through an address that it has loaded: flags are dead
/// there, and not at a jump to an address that was computed.
#[test]
fn flags_are_dead_where_interpreters_go_on() {
    let alone = |text: &str| {
        let mut paper = Paper::new(assemble::assemble(&[text]).remove(0), PROGRAM);
        Cache::new(CONFIG).entry(&mut paper, PROGRAM).expect("it can be translated");
        paper.ways.iter().filter(|(_, way)| *way == Way::SingleQuietly).count()
    };
    let piece = "movzx eax, byte ptr [rsi]\ninc rsi\nor ebx, eax\nmovzx eax, bl\nmov rax, [r12 + rax*8]\n";
    assert_eq!(alone(&format!("{piece}jmp rax")), 0);
    assert_eq!(alone(&format!("{piece}lea rax, [rax + r12]\njmp rax")), 1);
    // Another register's.
    assert_eq!(alone(&format!("{piece}jmp rdx")), 1);
}
