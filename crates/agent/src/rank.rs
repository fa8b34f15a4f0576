//! The rank of the program in its MPI program, by the variables on its first stack. The collector could look at the
//! process instead, but many are gone by the time it does.

use crate::sys::user;
use numalens_event::rank::{LONGEST, RankSource};

/// Variables that are looked at, at most.
const MOST: u64 = 1 << 16;

/// That of a program that has not begun, whose first stack pointer is `stack`.
pub fn of_program(stack: u64) -> Option<u32> {
    let mut source = RankSource::default();
    let first = user::variables_of_program(stack)?;
    for number in 0..MOST {
        let variable: u64 = user::read(first.checked_add(8 * number)?).ok()?;
        if variable == 0 {
            break;
        }
        let mut room = [0u8; LONGEST];
        if let Some(text) = user::read_text(variable, &mut room) {
            source.look_at(text);
        }
    }
    source.rank()
}
