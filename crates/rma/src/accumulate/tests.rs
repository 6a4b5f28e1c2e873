use std::ptr::NonNull;

use super::*;
use tutti_datatype::PairValue;
use tutti_shm::gate;

/// Memory with a gate of 4 slots.
struct Window {
    memory: Vec<u64>,
    words: Vec<[u64; 8]>,
}

#[repr(align(64))]
struct Line;

impl Window {
    fn new(bytes: usize) -> Self {
        // One line more, to begin at a multiple of one.
        Window { memory: vec![0; bytes / 8], words: vec![[0; 8]; gate::bytes(4) / 64 + 1] }
    }

    fn target(&self, slot: u32) -> Target {
        let base = NonNull::from(&self.memory[0]).cast();
        let words = self.words.as_ptr().cast::<u8>();
        let words = words.wrapping_add(words.align_offset(align_of::<Line>())).cast_mut();
        // SAFETY: both outlive the targets of a test, are used through them alone meanwhile, and each slot
        // has one thread.
        unsafe {
            let gate = Gate::new(NonNull::new(words).unwrap(), 4, slot);
            Target::new(Opened::new(base, self.memory.len() * 8), gate)
        }
    }
}

fn sum(element: Element) -> Change {
    Change::new(Update::Reduce(Operation::SUM), element).expect("a sum")
}

#[test]
fn accumulate_combines_and_fetches_at_any_length() {
    let change = sum(Element::Signed(4));
    for (offset, count) in [(0, 1), (400, 8), (4000, 9), (70_000, 100), (UNIT_BYTES - 40, 50_000)] {
        let window = Window::new(1 << 20);
        let target = window.target(0);
        let origin: Vec<i32> = (0..count).collect();
        let mut result = vec![-1_i32; count as usize];
        for round in 0..3 {
            // SAFETY: vectors of so many elements.
            unsafe {
                target
                    .accumulate(
                        offset,
                        count as usize,
                        change,
                        origin.as_ptr().cast(),
                        Some(result.as_mut_ptr().cast()),
                    )
                    .unwrap();
            }
            assert!(result.iter().zip(&origin).all(|(found, add)| *found == round * add), "round {round}");
        }
    }
}

#[test]
fn accumulate_replaces_keeps_and_refuses_without_meaning() {
    let window = Window::new(4096);
    let target = window.target(0);
    let (value, mut found) = (2.5_f64, 0.0_f64);
    let result = Some((&raw mut found).cast());
    let float = Element::Float(8);
    // SAFETY: one element each.
    unsafe {
        let replace = Change::new(Update::Replace, float).unwrap();
        target.accumulate(8, 1, replace, (&raw const value).cast(), None).unwrap();
        let maximum = Change::new(Update::Reduce(Operation::MAX), float).unwrap();
        target.accumulate(8, 1, maximum, (&raw const value).cast(), None).unwrap();
        let keep = Change::new(Update::Keep, float).unwrap();
        target.accumulate(8, 1, keep, std::ptr::null(), result).unwrap();
    }
    assert_eq!(found, 2.5);
    assert!(Change::new(Update::Reduce(Operation::BXOR), float).is_none());
}

#[test]
fn accumulate_outside_the_memory_changes_nothing() {
    let window = Window::new(64);
    let target = window.target(0);
    let origin = [1_u64; 9];
    for (offset, count) in [(0, 9), (64, 1), (60, 1), (usize::MAX, 1), (0, usize::MAX / 4)] {
        // SAFETY: nothing is read of what is out of range.
        let refused = unsafe {
            target.accumulate(offset, count, sum(Element::Unsigned(8)), origin.as_ptr().cast(), None)
        };
        assert_eq!(refused, Err(OutOfRange), "{count} at {offset}");
    }
    assert!(window.memory.iter().all(|word| *word == 0));
}

/// Threads change the same elements one by one, by long runs, unaligned and across units: nothing is lost.
#[test]
fn accumulate_loses_nothing_among_threads() {
    const ROUNDS: u64 = 3000;
    let window = Window::new(4 * UNIT_BYTES);
    let (first, long) = (UNIT_BYTES - 64, 64);
    std::thread::scope(|scope| {
        for slot in 0..4 {
            let target = window.target(slot);
            scope.spawn(move || {
                let ones = [1_u64; 64];
                let origin = ones.as_ptr().cast();
                for round in 0..ROUNDS {
                    let change = sum(Element::Unsigned(8));
                    // SAFETY: 64 elements of ours.
                    unsafe {
                        match (round + u64::from(slot)) % 3 {
                            0 => target.accumulate(first, long, change, origin, None).unwrap(),
                            1 => (0..8).for_each(|part| {
                                target.accumulate(first + part * 64, 8, change, origin, None).unwrap();
                            }),
                            _ => {
                                let mut kept = [0_u64; 64];
                                let keep = Change::new(Update::Keep, Element::Unsigned(8)).unwrap();
                                let result = Some(kept.as_mut_ptr().cast());
                                target.accumulate(first, long, keep, origin, result).unwrap();
                                target.accumulate(first, long, change, origin, None).unwrap();
                            }
                        }
                        // Nine bytes behind: no atomic reaches it.
                        let odd = 3 * UNIT_BYTES - 4;
                        target.accumulate(odd, 1, change, origin, None).unwrap();
                    }
                }
            });
        }
    });
    let begin = first / 8;
    assert!(window.memory[begin..begin + long].iter().all(|word| *word == 4 * ROUNDS));
    let odd = &window.memory[(3 * UNIT_BYTES - 8) / 8..][..2];
    let bytes = [odd[0].to_ne_bytes(), odd[1].to_ne_bytes()].concat();
    assert_eq!(u64::from_ne_bytes(bytes[4..12].try_into().unwrap()), 4 * ROUNDS);
}

#[test]
fn compare_and_swap_changes_only_what_is_equal() {
    let window = Window::new(256);
    let target = window.target(0);
    for (offset, bytes) in [(0, 1), (2, 2), (4, 4), (8, 8), (32, 16), (65, 8), (100, 16)] {
        let (zero, one, two) = ([0_u8; 16], [1_u8; 16], [2_u8; 16]);
        let mut found = [9_u8; 16];
        // SAFETY: 16 bytes each.
        unsafe {
            target.compare_and_swap(offset, bytes, one.as_ptr(), two.as_ptr(), found.as_mut_ptr()).unwrap();
            assert_eq!(found[..bytes], zero[..bytes], "it was zero, and stays");
            target.compare_and_swap(offset, bytes, zero.as_ptr(), two.as_ptr(), found.as_mut_ptr()).unwrap();
            assert_eq!(found[..bytes], zero[..bytes]);
            target.compare_and_swap(offset, bytes, zero.as_ptr(), one.as_ptr(), found.as_mut_ptr()).unwrap();
            assert_eq!(found[..bytes], two[..bytes], "{bytes} bytes at {offset}");
        }
    }
}

#[test]
fn accumulate_of_pairs_keeps_value_and_index_together() {
    let window = Window::new(256);
    let target = window.target(0);
    let pair = Element::Pair(PairValue::Int);
    let change = Change::new(Update::Reduce(Operation::MAXLOC), pair).unwrap();
    for origin in [[5_i32, 7], [9, 3], [6, 1]] {
        // SAFETY: one pair.
        unsafe { target.accumulate(16, 1, change, origin.as_ptr().cast(), None).unwrap() };
    }
    assert_eq!(window.memory[2].to_ne_bytes(), [9_i32, 3].map(i32::to_ne_bytes).concat()[..]);
}
