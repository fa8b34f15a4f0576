//! Accesses and usage of single instructions, written down by hand.

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use numalens_isa::{Access, Kind, STATUS_FLAGS, Shape, Usage, accesses};

const RAX: u16 = 1;
const RCX: u16 = 1 << 1;
const RSP: u8 = 4;
const RSI: u8 = 6;
const RDI: u8 = 7;

fn look(code: &[u8]) -> (Vec<Access>, Usage) {
    let instruction = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode();
    assert_eq!(instruction.len(), code.len(), "{code:x?}");
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let mut list = Vec::new();
    accesses(&instruction, info, |access| list.push(access));
    (list, Usage::of(&instruction, info))
}

fn brief(code: &[u8]) -> Vec<(Kind, u32, Shape, Option<u8>, i64)> {
    look(code).0.iter().map(|a| (a.kind, a.size, a.shape, a.address.base, a.address.displacement)).collect()
}

#[test]
fn repeated_copy_has_two_operands() {
    let copy = brief(&[0xf3, 0xa4]); // rep movsb
    assert_eq!(copy, [(Kind::Read, 1, Shape::String, Some(RSI), 0), (Kind::Write, 1, Shape::String, Some(RDI), 0)]);
}

#[test]
fn gathers_access_elements() {
    let (list, _) = look(&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f]); // vpgatherdd ymm0, [rdi + ymm1*4], ymm2
    let [gather] = list[..] else { panic!("{list:?}") };
    assert_eq!((gather.kind, gather.size, gather.shape), (Kind::Read, 4, Shape::Elements));
    assert_eq!((gather.address.base, gather.address.index, gather.address.scale), (Some(RDI), Some(1), 4));
    assert_eq!(gather.address.registers(gather.shape), 1 << RDI);
}

#[test]
fn bit_strings_move_with_a_register_only() {
    assert_eq!(brief(&[0x48, 0x0f, 0xab, 0x07]), [(Kind::ReadWrite, 8, Shape::Bits, Some(RDI), 0)]); // bts [rdi], rax
    assert_eq!(brief(&[0x48, 0x0f, 0xba, 0x27, 5]), [(Kind::Read, 8, Shape::Plain, Some(RDI), 0)]); // bt qword [rdi], 5
}

#[test]
fn stack_operations_are_marked() {
    // push qword [rdi]
    assert_eq!(
        brief(&[0xff, 0x37]),
        [(Kind::Read, 8, Shape::Plain, Some(RDI), 0), (Kind::Write, 8, Shape::Plain, Some(RSP), -8)]
    );
    // pop qword [rsp + 8]: read first, and the address is computed afterwards
    let (list, _) = look(&[0x8f, 0x44, 0x24, 0x08]);
    assert_eq!(
        list.iter().map(|a| (a.kind, a.implied, a.stack, a.address.displacement)).collect::<Vec<_>>(),
        [(Kind::Read, true, true, 0), (Kind::Write, false, true, 16)]
    );
    assert_eq!(brief(&[0xc3]), [(Kind::Read, 8, Shape::Plain, Some(RSP), 0)]); // ret
}

#[test]
fn hints_and_addresses_are_no_accesses() {
    for code in [
        &[0x48, 0x8d, 0x07][..],               // lea rax, [rdi]
        &[0x0f, 0x18, 0x0f],                   // prefetcht0 [rdi]
        &[0x0f, 0x0d, 0x0f],                   // prefetchw [rdi]
        &[0x0f, 0xae, 0x3f],                   // clflush [rdi]
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00], // nop word [rax + rax]
    ] {
        assert_eq!(look(code).0, [], "{code:x?}");
    }
}

#[test]
fn what_is_written_only_sometimes_is_not_killed() {
    let (_, mov) = look(&[0x48, 0x89, 0xc8]); // mov rax, rcx
    assert_eq!((mov.reads, mov.kills, mov.flags_killed), (RCX, RAX, 0));
    let (_, cmov) = look(&[0x48, 0x0f, 0x44, 0xc1]); // cmovz rax, rcx
    assert_eq!((cmov.reads & (RAX | RCX), cmov.kills), (RAX | RCX, 0));
    let (_, low) = look(&[0x88, 0xc8]); // mov al, cl
    assert_eq!((low.reads & RAX, low.kills), (RAX, 0));
    let (_, by_cl) = look(&[0x48, 0xd3, 0xe0]); // shl rax, cl
    assert_eq!(by_cl.flags_killed, 0);
    let (_, add) = look(&[0x48, 0x01, 0xc8]); // add rax, rcx
    assert_eq!((add.flags_read, add.flags_killed), (0, STATUS_FLAGS));
    let (_, scan) = look(&[0xf2, 0xae]); // repne scasb
    assert_eq!((scan.kills, scan.flags_killed), (0, 0));
}
