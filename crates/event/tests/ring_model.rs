//! The ring under every interleaving, up to two preemptions, that loom can make of two writers and the reader.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use numalens_event::ring::{self, Found, Position, Word};

struct Shared(AtomicU64);

impl Word for Shared {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    fn swap_if(&self, current: u64, new: u64) -> Result<(), u64> {
        self.0.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }
}

/// A ring of two slots; loom reports any unordered access to a payload as a data race.
struct Ring {
    head: Shared,
    claims: [Shared; 2],
    payloads: [UnsafeCell<u64>; 2],
    lost: AtomicU64,
}

impl Ring {
    fn new() -> Arc<Ring> {
        let word = || Shared(AtomicU64::new(0));
        Arc::new(Ring {
            head: word(),
            claims: [word(), word()],
            payloads: [UnsafeCell::new(0), UnsafeCell::new(0)],
            lost: AtomicU64::new(0),
        })
    }

    /// Writes one record, or dies where it is told to.
    fn write(&self, tid: u32, dies: bool) {
        let Some(position) = ring::reserve(1, &self.head, |slot| &self.claims[slot], tid) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if dies {
            return;
        }
        // SAFETY: the slot is this writer's until it publishes; loom fails the test if that is not so.
        self.payloads[position.slot(1)].with_mut(|payload| unsafe { *payload = u64::from(tid) * 10 });
        assert!(ring::publish(1, position, &self.claims[position.slot(1)], tid));
    }

    /// Reads what is there; slots of `dead` are taken back.
    fn read(&self, position: &mut Position, dead: u32, seen: &mut Vec<u64>) {
        loop {
            let slot = position.slot(1);
            match ring::look(1, *position, &self.claims[slot]) {
                Found::Published => {
                    // SAFETY: a published slot is the reader's until it releases; loom checks it.
                    seen.push(self.payloads[slot].with(|payload| unsafe { *payload }));
                    ring::release(1, *position, &self.claims[slot]);
                }
                Found::Owned { tid } if tid == dead && ring::abandon(1, *position, &self.claims[slot], tid) => {}
                Found::Empty | Found::Owned { .. } => return,
                Found::Damaged => panic!("the protocol damaged its own ring"),
            }
            *position = position.next();
        }
    }
}

fn run(first: usize, second: usize, dead: u32) {
    // Two forced switches between threads, wherever they may fall, besides those at blocking points: without a bound
    // the search takes hours.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let ring = Ring::new();
        let writers = [(1u32, first), (2, second)].map(|(tid, records)| {
            let ring = ring.clone();
            thread::spawn(move || (0..records).for_each(|_| ring.write(tid, tid == dead)))
        });
        let (mut position, mut seen) = (Position::default(), Vec::new());
        ring.read(&mut position, dead, &mut seen);
        for writer in writers {
            writer.join().expect("writer");
        }
        ring.read(&mut position, dead, &mut seen);
        let lost = ring.lost.load(Ordering::Relaxed) as usize;
        let count = |tid: u64| seen.iter().filter(|&&value| value == tid * 10).count();
        let dying = if dead == 0 { 0 } else { position.0 as usize - seen.len() };
        assert_eq!(count(1) + count(2), seen.len(), "a record was torn: {seen:?}");
        assert_eq!(seen.len() + lost + dying, first + second);
        assert_eq!(ring.head.load(), position.0, "the reader stopped short");
        assert!(count(1) <= first && count(2) <= second);
    });
}

#[test]
fn two_writers_and_the_reader() {
    run(1, 1, 0);
}

#[test]
fn writers_that_fill_the_ring() {
    run(2, 1, 0);
}

#[test]
fn a_writer_that_dies_with_its_slot() {
    run(1, 1, 2);
}

#[test]
fn a_dead_writer_in_a_full_ring() {
    run(2, 1, 2);
}
