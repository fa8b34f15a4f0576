pub mod globals;
pub mod homes;
pub mod unwind;
