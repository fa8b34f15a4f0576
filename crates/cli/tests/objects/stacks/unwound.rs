//! A block of 7777 bytes, of a closure that a trait object calls while a panic unwinds.
use std::hint::black_box;
struct Last;
impl Drop for Last {
    #[inline(never)]
    fn drop(&mut self) {
        step_calls(&|| drop(black_box(Vec::<u8>::with_capacity(black_box(7777)))));
        black_box(());
    }
}
#[inline(never)]
fn step_calls(how: &dyn Fn()) {
    how();
    black_box(());
}
#[inline(never)]
fn step_again(depth: u32) {
    if depth > 0 {
        step_again(black_box(depth - 1));
    } else {
        let _last = Last;
        std::panic::resume_unwind(Box::new(1));
    }
    black_box(());
}
fn main() {
    let _ = std::panic::catch_unwind(|| step_again(3));
}
