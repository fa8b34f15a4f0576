//! Memory that the program names in its system calls: read and written so that a bad pointer is an error, not a fault.

use crate::call;
use crate::sys::{self, Errno, PAGE};
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use linux_raw_sys::errno::EFAULT;

/// Values that any bytes make.
///
/// # Safety
/// No padding matters, no bit pattern is invalid.
pub unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl<const N: usize> Plain for [u64; N] {}

/// Copies a value out of the program's memory.
///
/// # Errors
/// EFAULT.
pub fn read<T: Plain>(address: u64) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: as many bytes of our own.
    unsafe { copy_in(address, value.as_mut_ptr().cast(), size_of::<T>()) }?;
    // SAFETY: filled above; any bytes are a `T`.
    Ok(unsafe { value.assume_init() })
}

/// Copies a word of the calling thread's own stack: several times quicker than [`read`], which looks pages up as if
/// they were another process's. Nobody else may unmap it meanwhile, which would be the end of the thread without us
/// too.
///
/// # Errors
/// EFAULT.
pub fn read_own_stack(address: u64) -> Result<u64, Errno> {
    if !sys::is_readable(address) {
        return Err(Errno(EFAULT as i32));
    }
    // SAFETY: it was found readable a moment ago, and is this thread's.
    Ok(unsafe { (address as *const u64).read_unaligned() })
}

/// Copies a value into the program's memory.
///
/// # Errors
/// EFAULT.
pub fn write<T: Plain>(address: u64, value: &T) -> Result<(), Errno> {
    // SAFETY: as many bytes of our own.
    unsafe { copy_out(address, (&raw const *value).cast(), size_of::<T>()) }
}

/// Fills bytes of our own from the program's memory.
///
/// # Errors
/// EFAULT.
pub fn read_bytes(address: u64, into: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: as many bytes of our own.
    unsafe { copy_in(address, into.as_mut_ptr(), into.len()) }
}

/// Copies bytes of our own into the program's memory.
///
/// # Errors
/// EFAULT.
pub fn write_bytes(address: u64, from: &[u8]) -> Result<(), Errno> {
    // SAFETY: as many bytes of our own.
    unsafe { copy_out(address, from.as_ptr(), from.len()) }
}

/// Fills words of our own from the program's memory.
///
/// # Errors
/// EFAULT.
pub fn read_words(address: u64, into: &mut [u64]) -> Result<(), Errno> {
    // SAFETY: as many bytes of our own.
    unsafe { copy_in(address, into.as_mut_ptr().cast(), size_of_val(into)) }
}

/// Copies words of our own into the program's memory.
///
/// # Errors
/// EFAULT.
pub fn write_words(address: u64, from: &[u64]) -> Result<(), Errno> {
    // SAFETY: as many bytes of our own.
    unsafe { copy_out(address, from.as_ptr().cast(), size_of_val(from)) }
}

/// Pieces of memory that the kernel takes in one call.
pub const MOST_PIECES: u64 = 1024;

/// Address and length of each piece of memory that a list of the program's names (`struct iovec`); none where it cannot
/// be read.
pub fn pieces(list: u64, count: u64) -> Vec<[u64; 2]> {
    let mut words = vec![0u64; 2 * count.min(MOST_PIECES) as usize];
    match read_words(list, &mut words) {
        Ok(()) => words.as_chunks().0.to_vec(),
        Err(_) => Vec::new(),
    }
}

/// Where the variables of a program are that has not begun, whose first stack pointer is `stack`: behind the number of
/// arguments come these and a 0.
pub fn variables_of_program(stack: u64) -> Option<u64> {
    let arguments: u64 = read(stack).ok()?;
    stack.checked_add(arguments.checked_add(2)?.checked_mul(8)?)
}

/// Where a program begins that has not begun, whose first stack pointer is `stack`: its own code, not its loader's.
pub fn entry_of_program(stack: u64) -> Option<u64> {
    /// Words behind the arguments that are looked at, at most.
    const MOST: u64 = 1 << 16;
    const AT_NULL: u64 = 0;
    const AT_ENTRY: u64 = 9;
    let first = variables_of_program(stack)?;
    let variables = (0..MOST).find(|number| read::<u64>(first.wrapping_add(8 * number)).unwrap_or(0) == 0)?;
    // Behind them and a 0 come pairs.
    let at = first.checked_add(8 * (variables + 1))?;
    for number in 0..MOST {
        match read::<[u64; 2]>(at.checked_add(16 * number)?).ok()? {
            [AT_ENTRY, entry] => return Some(entry),
            [AT_NULL, _] => break,
            _ => {}
        }
    }
    None
}

/// The text at `address` up to its NUL, without it; none where there is no such text, or it does not fit.
pub fn read_text(address: u64, into: &mut [u8]) -> Option<&[u8]> {
    let copied = copy_text(address, into);
    let end = into[..copied].iter().position(|&byte| byte == 0)?;
    Some(&into[..end])
}

/// The same, or as much of it as fits, or as can be read.
pub fn read_beginning(address: u64, into: &mut [u8]) -> &[u8] {
    let copied = copy_text(address, into);
    let end = into[..copied].iter().position(|&byte| byte == 0).unwrap_or(copied);
    &into[..end]
}

/// Copies what can be read at `address`, as far as a NUL at least, or as much as fits: how many bytes.
fn copy_text(address: u64, into: &mut [u8]) -> usize {
    let room = into.len() as u64;
    let first = (PAGE - address % PAGE).min(room);
    let local = [into.as_mut_ptr() as u64, room];
    // Two pieces, so that the end of what is mapped ends the copy between them.
    let remote = [address, first, address.wrapping_add(first), room - first];
    // SAFETY: a range of our own to fill; the kernel checks the program's.
    let copied =
        unsafe { call!(__NR_process_vm_readv, sys::process_id(), &raw const local, 1, &raw const remote, 2, 0) };
    match copied {
        Ok(copied) => (copied as usize).min(into.len()),
        // Where a filter forbids the call, the pointer is believed, byte by byte.
        Err(Errno(error)) if error != EFAULT as i32 && address != 0 => {
            let mut length = 0;
            while length < into.len() {
                // SAFETY: none but the program's word that a NUL follows.
                into[length] = unsafe { (address as *const u8).add(length).read() };
                length += 1;
                if into[length - 1] == 0 {
                    break;
                }
            }
            length
        }
        Err(_) => 0,
    }
}

/// # Safety
/// `to` has room for so many bytes.
unsafe fn copy_in(address: u64, to: *mut u8, bytes: usize) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    let (local, remote) = ([to as u64, bytes as u64], [address, bytes as u64]);
    // SAFETY: one range of our own to fill, one of the program's that the kernel checks.
    let copied =
        unsafe { call!(__NR_process_vm_readv, sys::process_id(), &raw const local, 1, &raw const remote, 1, 0) };
    match copied {
        Ok(copied) if copied == bytes as u64 => Ok(()),
        // Where a filter forbids the call, the pointer is believed.
        Err(Errno(error)) if error != EFAULT as i32 && address != 0 => {
            // SAFETY: none but the program's word.
            unsafe { core::ptr::copy_nonoverlapping(address as *const u8, to, bytes) };
            Ok(())
        }
        _ => Err(Errno(EFAULT as i32)),
    }
}

/// # Safety
/// `from` has so many bytes.
unsafe fn copy_out(address: u64, from: *const u8, bytes: usize) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    let (local, remote) = ([from as u64, bytes as u64], [address, bytes as u64]);
    // SAFETY: one range of our own to read, one of the program's that the kernel checks.
    let copied =
        unsafe { call!(__NR_process_vm_writev, sys::process_id(), &raw const local, 1, &raw const remote, 1, 0) };
    match copied {
        Ok(copied) if copied == bytes as u64 => Ok(()),
        Err(Errno(error)) if error != EFAULT as i32 && address != 0 => {
            // SAFETY: none but the program's word.
            unsafe { core::ptr::copy_nonoverlapping(from, address as *mut u8, bytes) };
            Ok(())
        }
        _ => Err(Errno(EFAULT as i32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_where_it_ends() {
        let page = sys::map_private(2 * PAGE, sys::raw::PROT_READ | sys::raw::PROT_WRITE).unwrap();
        sys::unmap(page + PAGE, PAGE);
        write_bytes(page + PAGE - 5, b"/sys\0").unwrap();
        let mut into = [0u8; 64];
        assert_eq!(read_text(page + PAGE - 5, &mut into), Some(&b"/sys"[..]));
        assert_eq!(read_text(page + PAGE - 5, &mut into[..4]), None, "it does not fit");
        write_bytes(page + PAGE - 1, b"x").unwrap();
        assert_eq!(read_text(page + PAGE - 5, &mut into), None, "it does not end");
        assert_eq!(read_text(8, &mut into), None);
        assert_eq!(read_beginning(page + PAGE - 5, &mut into), b"/sysx", "as far as it can be read");
        assert_eq!(read_beginning(page + PAGE - 5, &mut into[..3]), b"/sy", "as far as it fits");
        assert_eq!(read_beginning(8, &mut into), b"");
        assert_eq!(read_bytes(page + PAGE - 1, &mut into[..2]), Err(Errno(EFAULT as i32)));
    }
}
