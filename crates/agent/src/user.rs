//! Memory that the program names in its system calls: read and written so that a bad pointer is an error, not a fault.

use crate::call;
use crate::sys::{self, Errno};
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
// SAFETY: integers.
unsafe impl Plain for crate::thread::AlternateStack {}

/// Copies a value out of the program's memory.
///
/// # Errors
/// EFAULT.
pub fn read<T: Plain>(address: u64) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::uninit();
    let bytes = size_of::<T>();
    let (local, remote) = ([value.as_mut_ptr() as u64, bytes as u64], [address, bytes as u64]);
    // SAFETY: one range of our own to fill, one of the program's that the kernel checks.
    let copied =
        unsafe { call!(__NR_process_vm_readv, sys::process_id(), &raw const local, 1, &raw const remote, 1, 0) };
    match copied {
        Ok(copied) if copied == bytes as u64 => {}
        // Where a filter forbids the call, the pointer is believed.
        Err(Errno(error)) if error != EFAULT as i32 && address != 0 => {
            // SAFETY: none but the program's word.
            unsafe { core::ptr::copy_nonoverlapping(address as *const u8, value.as_mut_ptr().cast(), bytes) };
        }
        _ => return Err(Errno(EFAULT as i32)),
    }
    // SAFETY: filled above; any bytes are a `T`.
    Ok(unsafe { value.assume_init() })
}

/// Copies a text that ends with 0, as far as it can be read and fits. Returns its length.
pub fn read_text(address: u64, into: &mut [u8]) -> usize {
    let bytes = into.len() as u64;
    // In two pieces, of which the second may lie beyond what is mapped.
    let first = (sys::PAGE - address % sys::PAGE).min(bytes);
    let (local, remote) =
        ([into.as_mut_ptr() as u64, bytes], [address, first, address.wrapping_add(first), bytes - first]);
    let copied =
        // SAFETY: memory of our own to fill; the kernel checks the other.
        unsafe { call!(__NR_process_vm_readv, sys::process_id(), &raw const local, 1, &raw const remote, 2, 0) };
    let there = &into[..copied.unwrap_or(0).min(bytes) as usize];
    there.iter().position(|&byte| byte == 0).unwrap_or(there.len())
}

/// Copies a value into the program's memory.
///
/// # Errors
/// EFAULT.
pub fn write<T: Plain>(address: u64, value: &T) -> Result<(), Errno> {
    let bytes = size_of::<T>();
    let (local, remote) = ([&raw const *value as u64, bytes as u64], [address, bytes as u64]);
    // SAFETY: one range of our own to read, one of the program's that the kernel checks.
    let copied =
        unsafe { call!(__NR_process_vm_writev, sys::process_id(), &raw const local, 1, &raw const remote, 1, 0) };
    match copied {
        Ok(copied) if copied == bytes as u64 => Ok(()),
        Err(Errno(error)) if error != EFAULT as i32 && address != 0 => {
            // SAFETY: none but the program's word.
            unsafe { core::ptr::copy_nonoverlapping((&raw const *value).cast(), address as *mut u8, bytes) };
            Ok(())
        }
        _ => Err(Errno(EFAULT as i32)),
    }
}
