//! The log of runtimes: what a runtime within the target says of the code and objects that it makes (Java's virtual
//! machine). Records of any length, each written once by any thread of any process, read at the collector's leisure.
//!
//! ```text
//!  +------+--------------------+--------------------+------------
//!  | head | record | record .. | reserved, not yet  | free
//!  |      |                    | written: word 0 = 0|
//!  +------+--------------------+--------------------+------------
//!         ^ START              head: where the next record will be
//! ```
//! A writer takes the room of its record from `head`, which only grows, says how much it has taken ([`word`] without
//! [`PUBLISHED`]), writes, and publishes. A writer that died in between leaves room whose length is known, which the
//! reader passes over; one that died between its first two instructions ends the log for the reader.
//!
//! | word | all records |
//! |---|---|
//! | 0 | bytes, a multiple of 8 (32 bits), kind (16 bits), published (highest bit) |
//! | 1 | pid (32), tid (32) |
//! | 2 | time, ns of CLOCK_MONOTONIC |
//! | 3- | see [`Told`] |

/// Bytes from the start of the file to the first record. The first word is the head, counted from there; the second
/// counts bytes that found no room.
pub const START: usize = 4096;
/// The third word of the file, by which a writer knows it: "runtimes" in ASCII, little endian.
pub const MAGIC: u64 = 0x7365_6d69_746e_7572;
/// Bytes of the whole file. They become memory as they are written.
pub const BYTES: usize = 256 << 20;
/// Words that all records have.
pub const HEAD_WORDS: usize = 3;
/// In word 0: the record is complete.
pub const PUBLISHED: u64 = 1 << 63;

crate::numbered! {
    /// What a record tells, and what stands in it behind the first words.
    Told: u16 {
        /// A method: its id; bytes of its class's signature (32 bits), of its name (32); of its file's name (32),
        /// number of lines (32); for each line the first bytecode (32) and the line (32); the three texts, one behind
        /// the other.
        Method = 1,
        /// Code was compiled: where it begins, bytes, the method, number of places; for each place its address,
        /// number of frames, and for each frame, innermost first, method and bytecode.
        Code = 2,
        /// Code that is no method's: where it begins, bytes, bytes of its name; the name.
        Stub = 3,
        /// CPython runs: the second number of its version, the state of one of its threads, the type of code objects.
        Python = 4,
        /// The library has asked a runtime (Node.js) to write the names of its code to `/tmp/perf-PID.map`.
        PerfMap = 5,
    }
}

/// Word 0 of a record of so many bytes, before it is published.
pub const fn word(kind: Told, bytes: u32) -> u64 {
    (kind as u64) << 32 | bytes as u64
}

/// A record's kind, bytes and whether it is published, by its word 0; none: there is none.
pub fn parse(word: u64) -> Option<(Option<Told>, usize, bool)> {
    let bytes = word as u32 as usize;
    let is_whole = bytes >= HEAD_WORDS * 8 && bytes.is_multiple_of(8);
    is_whole.then(|| (Told::from_number((word >> 32) as u16), bytes, word & PUBLISHED != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_is_none() {
        assert_eq!(parse(0), None);
        assert_eq!(parse(8), None);
        assert_eq!(parse(word(Told::Code, 33)), None);
        assert_eq!(parse(word(Told::Code, 40)), Some((Some(Told::Code), 40, false)));
        assert_eq!(parse(PUBLISHED | 77 << 32 | 24), Some((None, 24, true)));
    }
}
