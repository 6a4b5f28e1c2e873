use std::ptr::NonNull;
use std::rc::Rc;

use super::*;
use crate::Process;
use crate::accumulate::Update;
use tutti_datatype::node::Node;
use tutti_datatype::reduce::Operation;
use tutti_datatype::transfer::{Map, Program};
use tutti_datatype::{Element, PairValue};
use tutti_shm::gate;

/// Memory with a gate, reached in one way or the other.
struct Window {
    memory: Vec<u64>,
    words: Vec<[u64; 8]>,
}

#[repr(align(64))]
struct Line;

impl Window {
    fn new(bytes: usize) -> Self {
        Window { memory: vec![0; bytes / 8], words: vec![[0; 8]; gate::bytes(1) / 64 + 1] }
    }

    fn part(&mut self, is_mapped: bool) -> Part {
        let base = NonNull::from(&mut self.memory[0]).cast::<u8>();
        let bytes = self.memory.len() * 8;
        let words = self.words.as_mut_ptr().cast::<u8>();
        let words = words.wrapping_add(words.align_offset(align_of::<Line>()));
        // SAFETY: both outlive the part of a test, and are used through it alone meanwhile.
        unsafe {
            let gate = Gate::new(NonNull::new(words).unwrap(), 1, 0);
            let remote = Remote {
                process: Process::of(std::process::id()),
                address: base.as_ptr().expose_provenance() as u64,
            };
            let reach =
                if is_mapped { Reach::Mapped(Opened::new(base, bytes)) } else { Reach::Other(remote, bytes) };
            Part::new(reach, gate)
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.memory.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// `count` runs of `run` bytes, `stride` bytes apart, from an address on.
fn strided(at: *mut u8, run: usize, stride: isize, count: usize) -> Buffer {
    let node = Node::run(0, run).repeat(count, stride).expect("it fits memory");
    let program = Rc::new(Program::new(&node, stride * count as isize));
    Buffer { at, bytes: run * count, map: Some(Map::new(program)) }
}

fn offset(offset: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(offset)
}

#[test]
fn part_moves_typed_data_both_ways() {
    const RUN: usize = 12;
    for is_mapped in [true, false] {
        for (count, has_gaps_here, has_gaps_there) in
            [(1, false, false), (5, true, false), (700, false, true), (3000, true, true)]
        {
            let mut window = Window::new(1 << 17);
            let part = window.part(is_mapped);
            let mut here: Vec<u8> = (0..count * 40).map(|index| (index % 251) as u8).collect();
            let before = here.clone();
            let side = |has_gaps, at, stride| match has_gaps {
                true => strided(at, RUN, stride, count),
                false => Buffer::contiguous(at, RUN * count),
            };
            let origin = side(has_gaps_here, here.as_mut_ptr(), 40);
            let target = side(has_gaps_there, offset(64), 20);
            // SAFETY: both sides have room for the data.
            unsafe { part.put(&target, &origin).unwrap() };
            let run_at = |has_gaps: bool, index: usize, stride: usize| match has_gaps {
                true => index * stride,
                false => index * RUN,
            };
            let bytes = window.bytes();
            for index in 0..count {
                let from = run_at(has_gaps_here, index, 40);
                let to = 64 + run_at(has_gaps_there, index, 20);
                assert_eq!(bytes[to..to + RUN], before[from..from + RUN], "run {index}");
            }
            let written = bytes.iter().filter(|byte| **byte != 0).count();
            assert!(written <= RUN * count, "nothing else is written");
            here.fill(0);
            // SAFETY: as above.
            unsafe { part.get(&target, &origin).unwrap() };
            for index in 0..count {
                let at = run_at(has_gaps_here, index, 40);
                assert_eq!(here[at..at + RUN], before[at..at + RUN], "run {index}");
            }
        }
    }
}

#[test]
fn part_changes_elements_in_runs() {
    let sum = Change::new(Update::Reduce(Operation::SUM), Element::Signed(8)).unwrap();
    let keep = Change::new(Update::Keep, Element::Signed(8)).unwrap();
    for is_mapped in [true, false] {
        let mut window = Window::new(1 << 18);
        let part = window.part(is_mapped);
        // Runs of two elements with one between them, across several units.
        let target = strided(offset(8), 16, 24, 9000);
        let operand: Vec<i64> = (0..18_000).collect();
        let mut found = vec![-1_i64; 18_000];
        for round in 0..3 {
            let result = Some(found.as_mut_ptr().cast());
            // SAFETY: vectors of so many elements; the target lies inside.
            unsafe { part.accumulate(&target, 8, sum, operand.as_ptr().cast(), result).unwrap() };
            assert!(found.iter().zip(&operand).all(|(found, add)| *found == round * add), "round {round}");
        }
        // SAFETY: as above; nothing is read of an origin.
        unsafe {
            let result = Some(found.as_mut_ptr().cast());
            part.accumulate(&target, 8, keep, std::ptr::null(), result).unwrap();
        }
        assert!(found.iter().zip(&operand).all(|(found, add)| *found == 3 * add));
        assert!(window.memory[3..27_000].iter().step_by(3).all(|between| *between == 0));
    }
}

#[test]
fn part_changes_runs_that_fall_meet_or_are_long_in_their_order() {
    let sum = Change::new(Update::Reduce(Operation::SUM), Element::Signed(8)).unwrap();
    // Words of the target in the order of the data; runs of 1,000 words are changed by themselves.
    let falling: Vec<usize> = (0..5000).map(|run| 30_000 - 3 * run).collect();
    // Each run has a word of the next one: both change it.
    let meeting: Vec<usize> = (0..3000).flat_map(|run| [10 + run, 11 + run]).collect();
    let long: Vec<usize> = (0..3).flat_map(|run| 4000 * run..4000 * run + 1000).collect();
    let buffers = [
        (strided(offset(8 * 30_000), 8, -24, 5000), falling),
        (strided(offset(80), 16, 8, 3000), meeting),
        (strided(offset(0), 8000, 32_000, 3), long),
    ];
    for is_mapped in [true, false] {
        for (at, (target, words)) in buffers.iter().enumerate() {
            let mut window = Window::new(1 << 18);
            let part = window.part(is_mapped);
            let operand: Vec<i64> = (1..=words.len() as i64).collect();
            let mut found = vec![-1_i64; words.len()];
            let result = Some(found.as_mut_ptr().cast());
            // SAFETY: vectors of so many elements; the target lies inside.
            unsafe { part.accumulate(target, 8, sum, operand.as_ptr().cast(), result).unwrap() };
            let mut expected = vec![0_i64; window.memory.len()];
            for ((word, add), found) in words.iter().zip(&operand).zip(&found) {
                assert_eq!(*found, expected[*word], "word {word} of buffer {at}");
                expected[*word] += add;
            }
            let memory: Vec<i64> = window.memory.iter().map(|word| *word as i64).collect();
            assert_eq!(memory, expected, "buffer {at}, mapped {is_mapped}");
        }
    }
}

#[test]
fn part_changes_runs_before_one_that_is_outside() {
    let change = Change::new(Update::Replace, Element::Signed(8)).unwrap();
    let operand = [7_u64; 100];
    for is_mapped in [true, false] {
        let mut window = Window::new(4096);
        let part = window.part(is_mapped);
        let target = strided(offset(0), 8, 64, 100);
        // SAFETY: 100 elements; places outside of the memory are refused.
        let changed = unsafe { part.accumulate(&target, 8, change, operand.as_ptr().cast(), None) };
        assert!(matches!(changed, Err(Fault::OutOfRange)), "{changed:?}");
        assert_eq!(window.memory.iter().filter(|word| **word == 7).count(), 64);
    }
}

#[test]
fn part_changes_elements_that_have_more_than_their_data() {
    // A value of 2 bytes and an index of 4, in 8 bytes.
    let change = Change::new(Update::Replace, Element::Pair(PairValue::Short)).unwrap();
    for is_mapped in [true, false] {
        let mut window = Window::new(4096);
        let part = window.part(is_mapped);
        let items = Node::concat([Node::run(0, 2), Node::run(4, 4)].into_iter()).expect("two runs");
        let node = items.repeat(3, 24).expect("it fits memory");
        let map = Some(Map::new(Rc::new(Program::new(&node, 72))));
        let target = Buffer { at: offset(16), bytes: 18, map };
        let operand: Vec<u64> = vec![u64::MAX - 1, u64::MAX - 2, u64::MAX - 3];
        // SAFETY: three elements; the target lies inside.
        unsafe { part.accumulate(&target, 6, change, operand.as_ptr().cast(), None).unwrap() };
        for (word, value) in window.memory.iter().enumerate() {
            let expected = if [2, 5, 8].contains(&word) { operand[word / 3] } else { 0 };
            assert_eq!(*value, expected, "word {word}");
        }
    }
}

#[test]
fn part_compares_and_swaps() {
    for is_mapped in [true, false] {
        let mut window = Window::new(1 << 17);
        let part = window.part(is_mapped);
        let swap = |at: usize, compare: u64, origin: u64, bytes| {
            let mut result = 0_u64;
            let (compare, origin) = ((&raw const compare).cast(), (&raw const origin).cast());
            // SAFETY: three elements of 8 bytes at most.
            let swapped =
                unsafe { part.compare_and_swap(at, bytes, compare, origin, (&raw mut result).cast()) };
            swapped.map(|()| result)
        };
        // Aligned, and across the border of two units.
        for at in [16, UNIT_BYTES - 4] {
            assert_eq!(swap(at, 0, 7, 8).unwrap(), 0);
            assert_eq!(swap(at, 0, 9, 8).unwrap(), 7);
            assert_eq!(swap(at, 7, 9, 8).unwrap(), 7);
            assert_eq!(swap(at, 9, 9, 8).unwrap(), 9);
        }
        assert!(matches!(swap((1 << 17) - 4, 0, 0, 8), Err(Fault::OutOfRange)));
    }
}

#[test]
fn part_refuses_what_is_not_inside() {
    for is_mapped in [true, false] {
        let mut window = Window::new(4096);
        let part = window.part(is_mapped);
        let mut bytes = [0_u8; 16];
        let origin = Buffer::contiguous(bytes.as_mut_ptr(), 16);
        let change = Change::new(Update::Replace, Element::Byte).unwrap();
        for at in [4081, 4096, usize::MAX - 3, usize::MAX] {
            let target = Buffer::contiguous(offset(at), 16);
            // SAFETY: the origin has 16 bytes.
            unsafe {
                assert!(matches!(part.put(&target, &origin), Err(Fault::OutOfRange)));
                assert!(matches!(part.get(&target, &origin), Err(Fault::OutOfRange)));
                let changed = part.accumulate(&target, 1, change, bytes.as_ptr(), None);
                assert!(matches!(changed, Err(Fault::OutOfRange)));
            }
        }
    }
}

#[test]
fn part_of_a_process_that_is_gone_is_the_kernels_error() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let mut window = Window::new(4096);
    let gate = window.part(true).gate;
    let part =
        Part::new(Reach::Other(Remote { process: Process::of(child.id()), address: 4096 }, 4096), gate);
    let mut bytes = [0_u8; 16];
    let origin = Buffer::contiguous(bytes.as_mut_ptr(), 16);
    // SAFETY: the origin has 16 bytes.
    let refused = unsafe { part.put(&Buffer::contiguous(offset(0), 16), &origin) };
    assert!(matches!(refused, Err(Fault::Kernel(_))), "{refused:?}");
}
