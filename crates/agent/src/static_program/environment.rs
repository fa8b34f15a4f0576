//! The two variables that bring the preloaded library into programs: hidden from a static one, given to what it
//! executes.
//!
//! The recorder starts the command with `LD_PRELOAD=library[:theirs]` and `NUMALENS_CHANNEL=channel:library`. The
//! library takes both out of its program's sight and passes them on (`crates/interpose/c/environment.c`). A static
//! program does not load it, so here is its twin:
//!
//! ```text
//!  first stack, from low to high:   arguments, 0, [variable, variable, ..., 0], [type, value, ..., 0, 0]
//!                                                  |<-- those behind a hidden one move down, with what follows
//! ```

use crate::call;
use crate::sys::raw;
use crate::sys::user;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

const CHANNEL: &[u8] = b"NUMALENS_CHANNEL=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Longest text of a variable that is looked at.
const LONGEST: usize = 4096;
/// Words of a first stack at most: the kernel allows 2 MiB of texts by default, and 6 MiB at most.
const MOST_WORDS: usize = 1 << 20;

/// What was hidden.
pub struct Environment {
    /// `NUMALENS_CHANNEL=channel:library`, with a NUL.
    entry: Vec<u8>,
    /// Where the colon is.
    colon: usize,
    /// The library, when the program began.
    file: Identity,
}

/// Which file is at a path, and whose.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Identity {
    device: u64,
    inode: u64,
    owner: u32,
}

/// Variables for the kernel's exec.
pub struct Passed {
    /// The last of them is 0. They point to texts of the program's, of [`Environment`], and of `preload`.
    pointers: Vec<u64>,
    #[expect(dead_code, reason = "the kernel reads it")]
    preload: Vec<u8>,
}

impl Environment {
    /// Hides the variables of a program that has not begun, whose first stack pointer is `stack`. None: they are not
    /// there, or their library is not.
    pub fn take(stack: u64) -> Option<Self> {
        let start = user::variables_of_program(stack)?;
        let mut words = Vec::new();
        loop {
            let word: u64 = user::read(start + 8 * words.len() as u64).ok()?;
            words.push(word);
            if word == 0 {
                break;
            }
        }
        let count = words.len();
        // What follows: pairs, of which the last is of type 0.
        loop {
            let pair: [u64; 2] = user::read(start + 8 * words.len() as u64).ok()?;
            words.extend(pair);
            if pair[0] == 0 || words.len() > MOST_WORDS {
                break;
            }
        }
        let place = |prefix: &[u8]| words[..count].iter().position(|&at| begins(at, prefix));
        let channel_at = place(CHANNEL)?;
        let entry = text(words[channel_at])?;
        let colon = entry.iter().position(|&byte| byte == b':')?;
        let file = identity(&entry[colon + 1..])?;
        let hidden = Environment { entry, colon, file };
        let mut gone = [Some(channel_at), None];
        if let Some(preload_at) = place(PRELOAD) {
            let value = words[preload_at] + PRELOAD.len() as u64;
            match text(value).as_deref().and_then(|value| hidden.theirs(value)) {
                Some([0]) => gone[1] = Some(preload_at),
                Some(theirs) => user::write_bytes(value, theirs).ok()?,
                None => {}
            }
        }
        let kept = words.iter().enumerate().filter(|(at, _)| !gone.contains(&Some(*at)));
        user::write_words(start, &kept.map(|(_, &word)| word).collect::<Vec<_>>()).ok()?;
        Some(hidden)
    }

    /// The path of the channel, of a program that loads the library, with the first stack pointer `stack`.
    pub fn channel_of(stack: u64) -> Option<CString> {
        let start = user::variables_of_program(stack)?;
        let words = (0..MOST_WORDS as u64).map_while(|at| user::read(start + 8 * at).ok().filter(|&at: &u64| at != 0));
        let entry = text(words.into_iter().find(|&at| begins(at, CHANNEL))?)?;
        CString::new(entry[CHANNEL.len()..].split(|&byte| byte == b':').next()?).ok()
    }

    /// The path of the channel.
    pub fn channel(&self) -> Option<CString> {
        CString::new(&self.entry[CHANNEL.len()..self.colon]).ok()
    }

    /// The path of the library, with a NUL.
    fn library(&self) -> &[u8] {
        &self.entry[self.colon + 1..]
    }

    /// What follows our library in a value of LD_PRELOAD, with the NUL; none: ours does not come first.
    fn theirs<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        let rest = value.strip_prefix(self.library().strip_suffix(&[0])?)?;
        match rest.first()? {
            b':' | b' ' => Some(&rest[1..]),
            0 => Some(rest),
            _ => None,
        }
    }

    /// The variables at `from`, an array that ends with 0, with the two. None: they cannot be read, which the kernel
    /// will say; or the library is gone or another user's, and then the program's loader would complain.
    pub fn pass(&self, from: u64) -> Option<Passed> {
        // SAFETY: no arguments.
        let user = unsafe { call!(__NR_geteuid) }.ok()? as u32;
        let library = self.library();
        if identity(library) != Some(self.file) || (user != 0 && user != self.file.owner) {
            return None;
        }
        let (mut pointers, mut preload) = (Vec::new(), [PRELOAD, library].concat());
        let mut at = from;
        while at != 0 && pointers.len() < MOST_WORDS {
            let variable: u64 = user::read(at).ok()?;
            at = if variable == 0 { 0 } else { at + 8 };
            if variable == 0 || begins(variable, CHANNEL) {
                continue;
            }
            if begins(variable, PRELOAD) {
                let value = text(variable + PRELOAD.len() as u64)?;
                let theirs = self.theirs(&value).unwrap_or(&value);
                let colon: &[u8] = if theirs.len() > 1 { b":" } else { b"" };
                preload = [PRELOAD, &library[..library.len() - 1], colon, theirs].concat();
                continue;
            }
            pointers.push(variable);
        }
        pointers.extend([preload.as_ptr() as u64, self.entry.as_ptr() as u64, 0]);
        Some(Passed { pointers, preload })
    }
}

impl Passed {
    /// The address of the array.
    pub fn array(&self) -> u64 {
        self.pointers.as_ptr() as u64
    }
}

/// Whether the text at an address begins so.
fn begins(at: u64, prefix: &[u8]) -> bool {
    let mut head = [0u8; CHANNEL.len()];
    let head = &mut head[..prefix.len()];
    // One that is shorter ends before; what follows it is another.
    at != 0 && user::read_bytes(at, head).is_ok() && head == prefix
}

/// The text at an address, with its NUL.
fn text(at: u64) -> Option<Vec<u8>> {
    let mut room = [0u8; LONGEST];
    let found = user::read_text(at, &mut room)?;
    Some([found, &[0]].concat())
}

/// Of the file at `path`, which ends with a NUL.
fn identity(path: &[u8]) -> Option<Identity> {
    let path = CStr::from_bytes_with_nul(path).ok()?;
    // SAFETY: integers.
    let mut status: raw::stat = unsafe { core::mem::zeroed() };
    // SAFETY: NUL-terminated; room for the answer.
    unsafe { call!(__NR_newfstatat, raw::AT_FDCWD, path.as_ptr(), &raw mut status, 0) }.ok()?;
    Some(Identity { device: status.st_dev, inode: status.st_ino, owner: status.st_uid })
}
