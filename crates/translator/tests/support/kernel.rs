//! Small programs in assembly, run natively and translated.

use super::assemble::assemble;
use super::expected::{Expected, by_page};
use super::vectors::Vectors;
use super::{Machine, Options, Registers, SCHEMES};
use numalens_translator::Changes;

/// Registers for a kernel: rdi, rsi, rdx point into the data, 64 KiB apart, rsp to its end; r15 to the program; the
/// rest is a pattern.
pub fn registers(machine: &Machine) -> Registers {
    let mut general: [u64; 16] = std::array::from_fn(|number| 0x0101_0101_0101_0101 * number as u64);
    let data = machine.data.address();
    general[7] = data;
    general[6] = data + 0x1_0000;
    general[2] = data + 0x2_0000;
    general[4] = data + super::DATA as u64 - 0x1000;
    Registers { general, flags: 0x202, vectors: Vectors::new().image }
}

/// Runs `text` both ways with rcx = `count`, under every variant of the translator, and compares.
pub fn check(text: &str, count: u64, expected: impl Fn(&Registers) -> Vec<Expected>) {
    use Changes::{Never, Notified, Silently};
    let variants = [
        (true, Never, 64, 4),
        (false, Never, 64, 4),
        (true, Silently, 64, 4),
        (true, Never, 1, 0),
        (false, Silently, 3, 1),
        (true, Notified, 64, 4),
    ];
    for ((low_shadow, changes, instructions, side_exits), scheme) in
        variants.into_iter().flat_map(|variant| SCHEMES.map(|scheme| (variant, scheme)))
    {
        let options = Options {
            low_shadow,
            changes,
            instructions,
            side_exits,
            stack: true,
            scheme,
            persists: !low_shadow,
            ..Options::default()
        };
        let mut machine = Machine::new(options);
        let program = machine.load(&assemble(&[text])[0]);
        let mut registers = registers(&machine);
        registers.general[1] = count;
        registers.general[15] = program;
        fill(machine.data.bytes_mut());
        let native = machine.run_native(&registers);
        let native_data = machine.data.bytes().to_vec();
        fill(machine.data.bytes_mut());
        let translated = machine.run_translated(&registers);
        let wanted = expected(&registers);
        assert_eq!(hex(&native), hex(&translated), "registers after\n{text}");
        // Below the stack pointer is what returns have left there.
        let (stack, end) = (super::DATA - 0x2000, super::DATA - 0x1000);
        let translated_data = machine.data.bytes();
        assert!(native_data[..stack] == translated_data[..stack], "memory after\n{text}");
        assert!(native_data[end..] == translated_data[end..], "memory above the stack after\n{text}");
        let (pages, sites) = machine.take_counts();
        assert_eq!(pages, by_page(&wanted), "pages of\n{text}");
        let total: u64 = sites.iter().map(|(_, count)| count).sum();
        assert_eq!(total, wanted.iter().map(|one| one.count).sum::<u64>(), "sites of\n{text}");
        // Once more, with everything translated and every page known.
        fill(machine.data.bytes_mut());
        machine.run_translated(&registers);
        assert_eq!(machine.take_counts().0, by_page(&wanted), "pages the second time of\n{text}");
    }
}

pub fn fill(data: &mut [u8]) {
    for (number, byte) in data.iter_mut().enumerate() {
        *byte = (number * 7 + number / 256) as u8;
    }
}

pub fn hex(registers: &Registers) -> (Vec<String>, String, &[u8]) {
    // Reserved and control bits of the flags are the same anyway.
    (
        registers.general.iter().map(|value| format!("{value:x}")).collect(),
        format!("{:x}", registers.flags),
        &registers.vectors,
    )
}
