//! Whatever the bytes are, recovery answers; what it answers is consistent.

use numalens_isa::{Found, Registers, access_at, plan, recover};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(
        code in proptest::collection::vec(any::<u8>(), 0..400),
        start in prop_oneof![Just(0x40_0000u64), Just(0u64), Just(u64::MAX - 100), any::<u64>()],
        offset in 0u64..420,
        boundary in proptest::option::of(0u64..420),
        gpr in any::<[u64; 16]>(),
        fault in any::<u64>(),
        fs_base in any::<Option<u64>>(),
    ) {
        let ip = start.wrapping_add(offset);
        let registers = Registers { gpr, ip, fs_base, gs_base: None };
        let boundary = boundary.map(|offset| start.wrapping_add(offset));
        let plan = plan(&code, start, boundary, ip);
        let access = plan.resolve(&registers);
        prop_assert_eq!(access, recover(&code, start, boundary, &registers));
        prop_assert_eq!(access, plan.resolve(&registers));
        if let Some(access) = access {
            prop_assert!(access.ip >= start);
            prop_assert_eq!(access.found == Found::At, access.distance == 0);
            if access.found == Found::Before {
                prop_assert!(access.ip < ip);
            }
        }
        if let Some(access) = access_at(&code, start, &registers, fault) {
            prop_assert_eq!(access.address, fault);
        }
        let elsewhere = Registers { ip: ip.wrapping_add(1), ..registers };
        prop_assert!(plan.resolve(&elsewhere).is_none());
    }

    /// Real code entered in the middle of an instruction: without a boundary the vote must find the load before the
    /// sampled `ret`.
    #[test]
    fn votes_fall_into_step(
        before in proptest::collection::vec(0..INSTRUCTIONS.len(), 16..60),
        cut in 0usize..12,
        base in any::<u32>(),
    ) {
        let mut code: Vec<u8> = before.into_iter().flat_map(|number| INSTRUCTIONS[number]).copied().skip(cut).collect();
        let load = code.len() as u64;
        // mov rax, [rdi+rdx*8+16]; add rcx, rax; ret
        code.extend([0x48, 0x8b, 0x44, 0xd7, 0x10, 0x48, 0x01, 0xc1]);
        let ip = code.len() as u64;
        code.push(0xc3);
        let mut registers = Registers { ip, ..Registers::default() };
        registers.gpr[7] = u64::from(base);
        registers.gpr[2] = 4;
        let access = recover(&code, 0, None, &registers).expect("the load");
        prop_assert_eq!((access.ip, access.address, access.found), (load, u64::from(base) + 48, Found::Before));
    }
}

const INSTRUCTIONS: &[&[u8]] = &[
    &[0x48, 0x8b, 0x05, 0x10, 0x20, 0x30, 0x00], // mov rax, [rip+0x302010]
    &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],       // mov rax, 0x807060504030201
    &[0xc7, 0x84, 0x24, 0x80, 0, 0, 0, 0x48, 0x8b, 0, 0], // mov dword [rsp+0x80], 0x8b48
    &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],    // nop word [rax+rax]
    &[0xf2, 0x42, 0x0f, 0x10, 0x44, 0xc7, 0x08], // movsd xmm0, [rdi+r8*8+8]
    &[0x41, 0x54],                               // push r12
    &[0x0f, 0xb6, 0x04, 0x0e],                   // movzx eax, byte [rsi+rcx]
    &[0x62, 0xf1, 0xfd, 0x48, 0x10, 0x04, 0xc7], // vmovupd zmm0, [rdi+rax*8]
    &[0x48, 0x83, 0xc0, 0x01],                   // add rax, 1
    &[0x90],                                     // nop
];
