//! What a process says: records of a header and a payload, which is 64-bit words, then text. Their kinds and payloads:

use core::sync::atomic::{AtomicU32, AtomicU64};

/// start, end, offset in the file, PROT bits, 1 if it is a file's or shared memory's with a name plus what tells shared
/// memory from other such (even; 0: none), the number of the next site that is given: instructions with lower ones lay
/// where the memory map had them before; path.
pub const MAPPED: u32 = 1;
/// start, end, the number of the next site, as above.
pub const UNMAPPED: u32 = 2;
/// A mapping, [`MAPPED`] as it may be, begins elsewhere, or ends elsewhere: start until now; start, end from now on;
/// the number of the next site, as above. What it leaves is logged as [`UNMAPPED`] after that.
pub const REMAPPED: u32 = 5;
/// A program that will run unobserved: pid; why.
pub const UNOBSERVED: u32 = 3;
/// Something worth a line in the profile's notes; text.
pub const NOTE: u32 = 4;
/// A call stack: instruction pointer, stack pointer, frame pointer, bytes of the stack that were looked through; the
/// words in these that lead into code or into the stack, each with its place, in words above the stack pointer, shifted
/// left by [`STACK_PLACE`].
pub const STACK: u32 = 6;
/// Where the place of a word of a [`STACK`] begins: above all addresses of programs.
pub const STACK_PLACE: u32 = 48;
/// An access that was counted for [`super::PENDING_HOME`] besides those that its page's record says: the page's number,
/// the site, the thread's extent.
pub const EARLY: u32 = 7;
/// start, end of memory whose contents were given up while huge pages were in it.
pub const GONE: u32 = 8;
/// An access that the collector wanted logged: its site, the thread's extent, the address, how many there are from
/// there on, the page's number.
pub const ACCESS: u32 = 9;
/// A phase begins or ends, or something happens: the number of the [`crate::request::Request`], the thread's extent;
/// the name.
pub const MARK: u32 = 10;
/// Accesses to words of a page that are another object's, or nobody's, from now on: the thread's extent, the address of
/// the first word, reads, writes, the page's number.
pub const SHARE: u32 = 12;
/// Memory in which a block begins, or is about to end: start, end, of whole pages. Those that are accessed again begin
/// a generation then ([`super::touch::NEXT_GENERATION`]).
pub const NEXT_GENERATION: u32 = 13;
/// A call of the program's that was refused, as it would have taken memory of the agent's: pid; what it was.
pub const REFUSED: u32 = 14;
/// A child that shares memory with its parent executes a program, and is not to be recorded: pid.
pub const LEFT_OUT: u32 = 11;
/// A thread may run elsewhere from now on: its first extent, the index of the node that it is bound to, as a signed
/// number (negative: unpinned), then the words of the
/// [`super::ThreadPlace`], as far as these are not 0.
pub const PLACED: u32 = 15;
/// A thread has its thread-local variables below an address from now on: the base of FS.
pub const THREAD_POINTER: u32 = 16;
/// A file of code is executed: its key; its path.
pub const CODE_FILE: u32 = 17;
/// Fragments were translated that are not persisted: the key of their file, where in it they begin.
pub const TRANSLATED: u32 = 18;

/// A thread's part in a collection of garbage is over: the thread's extent, the index of the node that it was on then,
/// plus 1 (0: not known), the number of the generation that is collected, when the part began, 1 if the thread leads
/// the collection; then, of the objects that it has processed, pairs: the area (0: static, else the number of the
/// generation, plus 1) shifted left by [`COLLECTED_AREA`] and the index of the node that has them, plus 1; how many.
pub const COLLECTED: u32 = 19;
/// See [`COLLECTED`].
pub const COLLECTED_AREA: u32 = 32;

/// The header of a log record. Records are padded to 8 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct LogHeader {
    /// One of the kinds above; 0 until the record is complete: whoever reads stops there.
    pub kind: AtomicU32,
    /// Bytes, header and padding included.
    pub bytes: AtomicU32,
    /// When.
    pub time_ns: AtomicU64,
}

/// Most phases and marks that the programs of a recording may declare: the log is for more than these.
pub const MOST_MARKS: u32 = 1 << 20;
