//! Does a call instruction end here?

/// The longest call with a ModRM byte, less prefixes: opcode, ModRM, SIB, disp32.
pub(crate) const LONGEST_CALL: usize = 7;

/// True when some encoding of an x86-64 near call ends exactly at the end of `code`: `e8 rel32` or `ff /2`.
/// Data may look like it; a return address always does.
pub(crate) fn ends_with_call(code: &[u8]) -> bool {
    let from_end = |back: usize| code.len().checked_sub(back).and_then(|at| code.get(at).copied());
    if from_end(5) == Some(0xe8) {
        return true;
    }
    (2..=LONGEST_CALL).any(|length| {
        let (Some(0xff), Some(mod_rm)) = (from_end(length), from_end(length - 1)) else {
            return false;
        };
        if mod_rm & 0x38 != 0x10 {
            return false;
        }
        let sib = usize::from(mod_rm >> 6 != 3 && mod_rm & 7 == 4);
        let displacement = match (mod_rm >> 6, mod_rm & 7) {
            (0, 5) | (2, _) => 4,
            (0, 4) if from_end(length - 2).is_some_and(|sib| sib & 7 == 5) => 4,
            (1, _) => 1,
            _ => 0,
        };
        length == 2 + sib + displacement
    })
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_CALL, ends_with_call};

    #[test]
    fn calls_are_recognised_at_their_end_only() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],                      // call *%rax
            &[0x41, 0xff, 0xd4],                // call *%r12
            &[0xff, 0x50, 0x18],                // call *0x18(%rax)
            &[0xff, 0x15, 1, 0, 0, 0],          // call *1(%rip)
            &[0xff, 0x14, 0xc5, 0, 0, 0x40, 0], // call *0x400000(,%rax,8)
            &[0xff, 0x94, 0x24, 0x80, 0, 0, 0], // call *0x80(%rsp)
        ] {
            assert!(ends_with_call(call), "{call:x?}");
            assert!(!ends_with_call(&[call, &[0x90]].concat()), "{call:x?} then nop");
        }
        for other in [&[0x90; 8][..], &[], &[0xe8], &[0xff], &[0xff, 0xe0], &[0x48, 0x89, 0xe5]] {
            assert!(!ends_with_call(other), "{other:x?}");
        }
    }

    /// Data that looks like the beginning of a call: every opcode and ModRM, and where they name a SIB byte that is
    /// not there.
    #[test]
    fn any_last_bytes_have_an_answer() {
        for opcode in [0xe8, 0xff] {
            for mod_rm in 0..=u8::MAX {
                let found = (0..=LONGEST_CALL).any(|rest| {
                    let code = [&[opcode, mod_rm][..], &vec![0; rest]].concat();
                    ends_with_call(&code)
                });
                let call = [opcode, mod_rm].contains(&0xe8) || mod_rm & 0x38 == 0x10;
                assert_eq!(found, call, "{opcode:x} {mod_rm:x}");
            }
        }
        assert!(!ends_with_call(&[0xff, 0x14]), "the SIB byte is missing");
    }
}
