//! Code that nobody chose: all of this executable's own, and bytes without meaning.

#[path = "support/paper.rs"]
mod paper;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use numalens_translator::{Cache, Changes, Config, Error, State};
use object::{Object, ObjectSection};
use paper::{CONFIG, Paper};
use proptest::prelude::*;

/// Translates a fragment at every address after a jump or call, and looks at what is in the cache.
#[test]
fn all_code_of_this_executable() {
    let file = std::fs::read("/proc/self/exe").expect("the executable can be read");
    let file = object::File::parse(&*file).expect("an ELF file");
    let section = file.section_by_name(".text").expect("code");
    // Both halves of the cache within reach of the code and its data, wherever the linker put them.
    let base = 0x4000_0000;
    let code = section.uncompressed_data().expect("code").into_owned();
    let mut starts = vec![base];
    for instruction in Decoder::with_ip(64, &code, base, DecoderOptions::NONE).iter() {
        if !matches!(instruction.flow_control(), FlowControl::Next) && instruction.next_ip() < base + code.len() as u64
        {
            starts.push(instruction.next_ip());
        }
    }
    let (instructions, bytes) = (starts.len(), code.len());
    let mut paper = Paper::new(code, base);
    let mut cache = Cache::new(Config { code: true, ..CONFIG });
    let started = std::time::Instant::now();
    for &start in &starts {
        let entry = cache.entry(&mut paper, start).expect("code can be translated");
        let position = cache.locate(entry).expect("an entry is in the cache");
        assert_eq!((position.ip, position.state, position.spilled), (start, State::Before, 0));
    }
    let (fragments, exits) = cache.size();
    let each = started.elapsed().as_nanos() / fragments as u128;
    println!("{bytes} bytes, {instructions} starts, {fragments} fragments, {exits} exits, {} sites", paper.sites.len());
    println!("{} hot and {} cold bytes, {each} ns a fragment", paper.hot.len(), paper.cold.len());
    assert!(fragments > 1000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64), changes in 0..3usize, stack: bool) {
        let length = bytes.len();
        let base = 0x4000_0000;
        let mut paper = Paper { changes: [Changes::Never, Changes::Notified, Changes::Silently][changes], ..Paper::new(bytes, base) };
        let mut cache = Cache::new(Config { code: true, stack_operands: stack, stack_operations: stack, ..CONFIG });
        match cache.entry(&mut paper, base) {
            Ok(entry) => {
                for offset in 0..paper.hot.len() as u64 {
                    if let Some(position) = cache.locate(entry + offset) {
                        prop_assert!(position.ip == 0 || position.state == State::Leaving || position.ip - base <= length as u64);
                        prop_assert!(position.counted.len() <= position.sites.len());
                    }
                }
            }
            Err(error) => prop_assert!(matches!(error, Error::Unreadable { .. } | Error::OutOfReach { .. }), "{error}"),
        }
    }
}
