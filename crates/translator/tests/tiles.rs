//! Loads and stores of tiles (AMX), on whatever processor: what is counted follows from a configuration, and what is
//! generated asks for it.

mod support;

use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};
use numalens_isa::Kind;
use numalens_translator::count::{Operation, What, settle};
use numalens_translator::{Shape, context};
use support::expected::{by_page, reads, writes};
use support::{Machine, Options};

/// tileloadd tmm1, [rdi + rsi*4 + 0x40]; tilestored [rax + rcx], tmm6; tileloaddt1 tmm2, [r8]
const CODE: &[u8] = b"\xc4\xe2\x7b\x4b\x4c\xb7\x40\xc4\xe2\x7a\x4b\x34\x08\xc4\xc2\x79\x4b\x14\x20";

#[test]
fn each_row_of_a_tile_is_an_access() {
    let mut machine = Machine::new(Options::default());
    // Sites of the program, in its order.
    let program = machine.load(CODE);
    machine.cache.entry(&mut machine.env, program).expect("it can be translated");
    let sites: Vec<(Kind, Shape)> = machine.env.sites.iter().map(|site| (site.kind, site.shape)).collect();
    assert_eq!(sites, [(Kind::Read, Shape::Tile), (Kind::Write, Shape::Tile), (Kind::Read, Shape::Tile)]);
    let mut configuration = [0u8; 64];
    configuration[0] = 1;
    for (number, columns, rows) in [(1, 64u16, 16), (6, 300, 5)] {
        configuration[16 + 2 * number..][..2].copy_from_slice(&columns.to_le_bytes());
        configuration[48 + number] = rows;
    }
    let base = machine.data.address();
    let at = context::COUNT_VECTOR as usize;
    machine.context.bytes_mut()[at..at + 64].copy_from_slice(&configuration);
    let (pointer, config) = (machine.context.pointer(), *machine.cache.config());
    let mut expected = Vec::new();
    let downwards = (-100i64) as u64;
    for (site, kind, tile, from, stride) in
        [(0, Kind::Read, 1, base, 4096), (1, Kind::Write, 6, base + 0x9000, downwards), (2, Kind::Read, 2, base, 64)]
    {
        let what = What { operation: Operation::Tile, lanes: tile, ..What::one(kind) };
        machine.context.set(context::COUNT_WHAT as usize, what.pack() as u64);
        machine.context.set(context::COUNT_SITES as usize, site);
        machine.context.set(context::COUNT_ARGUMENTS as usize, from);
        machine.context.set(context::COUNT_ARGUMENTS as usize + 8, stride);
        // SAFETY: the context of the machine, laid out by its configuration, whose code does not run.
        unsafe { settle(pointer, &config, &mut machine.env) };
        // The third has no configuration: it faults.
        let rows = [16, 5, 0][site as usize];
        let access = if kind == Kind::Read { reads } else { writes };
        expected.extend((0..rows).map(|row: u64| access(from.wrapping_add(row.wrapping_mul(stride)), 1)));
    }
    let (pages, counted) = machine.take_counts();
    assert_eq!(pages, by_page(&expected), "sixteen pages, and one or two");
    assert_eq!(counted.iter().map(|(_, count)| count).sum::<u64>(), 21);
}

#[test]
fn what_is_generated_asks_for_the_configuration() {
    let mut machine = Machine::new(Options::default());
    let program = machine.load(CODE);
    let entry = machine.cache.entry(&mut machine.env, program).expect("it can be translated");
    // SAFETY: the arena goes on for longer.
    let code = unsafe { std::slice::from_raw_parts(entry as *const u8, 1024) };
    let all = Decoder::with_ip(64, code, entry, DecoderOptions::NONE);
    let all: Vec<_> = all.into_iter().take_while(|one| one.mnemonic() != Mnemonic::Tileloaddt1).collect();
    let asks = all.iter().filter(|one| one.mnemonic() == Mnemonic::Sttilecfg).collect::<Vec<_>>();
    assert_eq!(asks.len(), 3);
    let is_ours = |one: &&iced_x86::Instruction| {
        one.memory_segment() == Register::GS && one.memory_displacement64() == u64::from(context::COUNT_VECTOR)
    };
    assert!(asks.iter().all(is_ours));
    // The distance between rows: the scaled index alone, and none.
    let strides = all.iter().filter(|one| one.mnemonic() == Mnemonic::Lea && one.memory_base() == Register::None);
    let strides: Vec<_> = strides.map(|one| (one.memory_index(), one.memory_index_scale())).collect();
    assert!(strides.starts_with(&[(Register::RSI, 4), (Register::RCX, 1)]), "{strides:?}");
    assert_eq!(
        What::unpack(What { operation: Operation::Tile, ..What::one(Kind::Read) }.pack() as u64)
            .map(|what| what.operation),
        Some(Operation::Tile)
    );
}
