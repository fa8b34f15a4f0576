//! Groups that are anywhere are counted page by page, and code that counts much with more effort: the counts are those
//! of arithmetic.

mod support;

use numalens_translator::{Scheme, SiteId};
use support::assemble::assemble;
use support::expected::{Expected, by_page, reads, updates, writes};
use support::kernel::{check, fill, registers};
use support::{Machine, Options, Registers, SCHEMES};

#[test]
fn code_that_has_counted_much_keeps_last_pages_and_counts_the_same() {
    // A function that is called all the time, with operands in the page of the last time, and from 4096 bytes to the
    // next.
    let text = "
        jmp 2f
    1:  mov r8, [rdi + rax*8]
        add [rsi + rax*8], r8
        mov [rdx], r8
        ret
    2:  mov eax, 511
    3:  call 1b
        sub eax, 1
        jns 3b
        add rdi, 0x1000
        sub rcx, 1
        jnz 2b";
    for scheme in SCHEMES {
        let mut machine = Machine::new(Options { scheme, ..Options::default() });
        machine.load(&assemble(&[text])[0]);
        let mut registers = registers(&machine);
        registers.general[1] = 8;
        let wanted: Vec<Expected> = (0..8 * 512)
            .flat_map(|i| {
                let r = &registers.general;
                let stack = r[4] - 8;
                let own = [reads(r[7] + 8 * i, 1), updates(r[6] + 8 * (i % 512), 1), writes(r[2], 1)];
                own.into_iter().chain([writes(stack, 1), reads(stack, 1)])
            })
            .collect();
        for round in 0..4 {
            fill(machine.data.bytes_mut());
            machine.run_translated(&registers);
            let (pages, sites) = machine.take_counts();
            assert_eq!(pages, by_page(&wanted), "{scheme:?}, round {round}");
            assert_eq!(sites.iter().map(|(_, count)| count).sum::<u64>(), wanted.len() as u64, "{scheme:?}");
            let with_last_pages =
                |machine: &Machine| machine.env.groups.iter().filter(|(group, _)| group.last_page.is_some()).count();
            let before = with_last_pages(&machine);
            for site in 0..machine.env.sites.len() as u32 {
                machine.cache.tier_up(&mut machine.env, SiteId(site));
            }
            machine.run_translated(&registers);
            machine.take_counts();
            let new = with_last_pages(&machine) > before;
            assert!(round > 0 || new == (scheme == Scheme::LongLoops), "{scheme:?}");
        }
    }
}

/// A loop that is at another place in each iteration: writes `[rdi + ..]` and updates `[rsi + ..]`.
const SCATTERED: &str = "
    xor eax, eax
1:  imul eax, eax, 0x19660d
    add eax, 0x3c6ef35f
    mov ebx, eax
    shr ebx, 16
    and ebx, 0xfff8
    mov [rdi + rbx], rcx
    shr ebx, 1
    and ebx, 0x7ff8
    add [rsi + rbx], rcx
    dec rcx
    jnz 1b";

/// What `eax` is in so many iterations of these loops.
fn random(iterations: u64) -> impl Iterator<Item = u64> {
    let next = |x: &u32| Some(x.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f));
    std::iter::successors(next(&0), next).take(iterations as usize).map(u64::from)
}

/// What it accesses in so many iterations.
fn scattered(r: &Registers, iterations: u64) -> Vec<Expected> {
    let places = random(iterations).map(|x| (x >> 16) & 0xfff8);
    places.flat_map(|at| [writes(r.general[7] + at, 1), updates(r.general[6] + ((at / 2) & 0x7ff8), 1)]).collect()
}

#[test]
fn a_group_that_is_anywhere_has_direct_counters() {
    check(SCATTERED, 20_000, |r| scattered(r, 20_000));
}

#[test]
fn direct_counters_begin_again_when_pages_change_and_ask_when_they_are_full_or_asked_about() {
    for scheme in [Scheme::LastPage, Scheme::Loops] {
        let mut machine = Machine::new(Options { scheme, ..Options::default() });
        machine.load(&assemble(&[SCATTERED])[0]);
        let mut registers = registers(&machine);
        let mut run = |machine: &mut Machine, iterations: u64| {
            registers.general[1] = iterations;
            machine.run_translated(&registers);
            scattered(&registers, iterations)
        };
        let mut wanted = run(&mut machine, 5000);
        let begun = machine.direct_in_use();
        assert!(begun.len() >= 2 && begun.iter().any(|one| one.counters > 12), "{scheme:?}: {begun:?}");
        // Others found that pages have changed; the collector asks; and some have counted all that they can.
        let retranslations = machine.retranslations;
        let cold_runs = machine.env.cold_runs;
        wanted.extend(run(&mut machine, 1000));
        assert_eq!(machine.env.cold_runs, cold_runs, "{scheme:?}: every page is known");
        machine.direct_counters_look_again();
        wanted.extend(run(&mut machine, 5000));
        assert!(machine.query_direct() > 20);
        let cold_runs = machine.env.cold_runs;
        wanted.extend(run(&mut machine, 5000));
        let asked = machine.env.cold_runs - cold_runs;
        assert_eq!(asked, 16 + 8, "{scheme:?}: each page once");
        let (counted, sites) = machine.take_counts();
        assert_eq!(counted, by_page(&wanted), "{scheme:?}");
        assert_eq!(sites.iter().map(|(_, count)| count).sum::<u64>(), 2 * 16_000, "{scheme:?}");
        let full = machine.fill_direct();
        assert!(full > 20);
        let wanted = run(&mut machine, 5000);
        let (counted, _) = machine.take_counts();
        let plain = by_page(&wanted);
        for (page, counts) in counted {
            let plain = plain.get(&page).copied().unwrap_or_default();
            for full in [counts.0 - plain.0, counts.1 - plain.1] {
                assert_eq!(full % u64::from(support::counts::FULL), 0, "{scheme:?}");
            }
        }
        assert_eq!(machine.retranslations, retranslations, "{scheme:?}: they go on");
    }
}

#[test]
fn direct_counters_whose_group_leaves_its_pages_are_given_up() {
    // From end to end of the data, of which there are counters for an eighth at a time.
    let text = "
        xor eax, eax
    1:  imul eax, eax, 0x19660d
        add eax, 0x3c6ef35f
        mov ebx, eax
        shr ebx, 12
        and ebx, 0xfeff8
        mov [rdi + rbx], rcx
        sub rcx, 1
        jnz 1b";
    const ITERATIONS: u64 = 30_000;
    check(text, ITERATIONS, |r| random(ITERATIONS).map(|x| writes(r.general[7] + ((x >> 12) & 0xf_eff8), 1)).collect());
    let mut machine = Machine::new(Options { scheme: Scheme::Loops, ..Options::default() });
    machine.load(&assemble(&[text])[0]);
    let mut registers = registers(&machine);
    let mut retranslations = [ITERATIONS, ITERATIONS].map(|iterations| {
        registers.general[1] = iterations;
        machine.run_translated(&registers);
        std::mem::take(&mut machine.retranslations)
    });
    // Megamorphic, then without a direct table, and perhaps of any class: in the fragment that is entered at the top as
    // well.
    assert!((2..=6).contains(&retranslations[0]), "{retranslations:?}");
    retranslations[0] = 0;
    assert_eq!(retranslations, [0, 0]);
}
