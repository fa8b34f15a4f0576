//! Fault: one thread initialises, all use their own block (Rust, scoped threads).
//!
//! As serial_init_pthreads.c. Expected: first-touch names the line below with all of the array's pages; the line of the
//! update is on top of `lines`, (N-1)/N of its accesses remote on N nodes; remedy: initialise in parallel. With
//! `--cfg fixed` every thread initialises its block.

use std::ffi::{CStr, c_char, c_double, c_int, c_long, c_void};
use std::mem::MaybeUninit;

// SAFETY: the signatures are those of foreign.c.
unsafe extern "C" {
    fn tgx_start(name: *const c_char, mib: c_double, rounds: c_long);
    safe fn tgx_threads() -> c_int;
    safe fn tgx_bytes() -> c_long;
    safe fn tgx_rounds() -> c_long;
    safe fn tgx_enter(slot: c_int, index: c_int);
    fn tgx_array(name: *const c_char, base: *mut c_void, bytes: c_long) -> c_int;
    fn tgx_touched(array: c_int, slot: c_int, from: c_long, to: c_long, tag: *const c_char);
    fn tgx_accessed(
        array: c_int,
        slot: c_int,
        from: c_long,
        to: c_long,
        reads: c_double,
        writes: c_double,
        seconds: c_double,
        tag: *const c_char,
    );
    safe fn tgx_seconds() -> c_double;
    safe fn tgx_finish();
}

fn accessed(array: c_int, slot: usize, bytes: std::ops::Range<usize>, reads: f64, writes: f64, seconds: f64, tag: &CStr) {
    // SAFETY: `tag` is a C string that the callee copies.
    unsafe { tgx_accessed(array, slot as c_int, bytes.start as c_long, bytes.end as c_long, reads, writes, seconds, tag.as_ptr()) }
}

/// Fills a block whose first element is number `from`.
#[inline(never)]
fn initialise(block: &mut [MaybeUninit<u64>], from: usize) {
    for (i, value) in block.iter_mut().enumerate() {
        let i = (from + i) as u64;
        value.write(i.wrapping_mul(i)); // EXPECT first-touch
    }
}

#[inline(never)]
fn update(block: &mut [u64], rounds: i64) {
    for round in 0..rounds as u64 {
        for value in &mut *block {
            *value = value.wrapping_mul(3).wrapping_add(round); // EXPECT remote
        }
    }
}

fn main() {
    // SAFETY: the name is a C string that the callee copies.
    unsafe { tgx_start(c"serial_init_rust".as_ptr(), 64.0, 100) };
    let (threads, bytes, rounds) = (tgx_threads() as usize, tgx_bytes() as usize, tgx_rounds());
    tgx_enter(0, 0);
    let count = bytes / 8;
    let mut data = Vec::<u64>::with_capacity(count); // EXPECT object
    let start = tgx_seconds();
    let space = &mut data.spare_capacity_mut()[..count];
    if cfg!(fixed) {
        std::thread::scope(|scope| {
            for (i, block) in space.chunks_mut(count / threads).enumerate() {
                scope.spawn(move || {
                    tgx_enter(i as c_int + 1, i as c_int + 1);
                    initialise(block, i * (count / threads));
                });
            }
        });
    } else {
        initialise(space, 0);
    }
    // SAFETY: all of it has been initialised.
    unsafe { data.set_len(count) };
    // SAFETY: the vector lives, and does not grow, until after tgx_finish.
    let array = unsafe { tgx_array(c"data".as_ptr(), data.as_mut_ptr().cast(), bytes as c_long) };
    accessed(array, 0, 0..bytes, 0.0, count as f64, tgx_seconds() - start, c"first-touch");
    // SAFETY: the tag is a C string that the callee copies.
    unsafe { tgx_touched(array, 0, 0, bytes as c_long, c"first-touch".as_ptr()) };

    std::thread::scope(|scope| {
        for (i, block) in data.chunks_mut(count / threads).enumerate() {
            scope.spawn(move || {
                tgx_enter(i as c_int + 1, i as c_int + 1);
                let start = tgx_seconds();
                update(block, rounds);
                let (from, accesses) = (i * block.len() * 8, rounds as f64 * block.len() as f64);
                accessed(array, i + 1, from..from + block.len() * 8, accesses, accesses, tgx_seconds() - start, c"remote");
            });
        }
    });

    let total = data.iter().fold(0u64, |sum, value| sum.wrapping_add(*value));
    println!("serial_init_rust: {total}");
    tgx_finish();
}
