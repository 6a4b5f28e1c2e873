//! Rings with both ends in one process: what is written is read, in order, whatever its lengths, also while
//! both run.

use std::collections::VecDeque;
use std::thread;

use tutti_shm::layout::Geometry;
use tutti_shm::segment::Segment;
use tutti_testkit::Random;

use super::*;

fn memory() -> Mapping {
    let segment =
        Segment::create(Geometry { world_ranks: 2, local_ranks: 2, cores: 2, ..Geometry::default() })
            .expect("a segment");
    let mut arena = segment.arena(0).expect("files may be as large as that");
    let range = arena.allocate(RING_BYTES as u64).expect("it is empty");
    Mapping::new(segment.descriptor(), range).expect("a range of the arena")
}

fn again(mapping: &Rc<Mapping>) -> Rc<Mapping> {
    Rc::clone(mapping)
}

/// Data of `count` partitions from `first` on.
fn data(first: u32, count: u32, each: usize) -> Vec<u8> {
    (0..count as usize * each).map(|i| (first as usize * each + i) as u8 ^ 0x5a).collect()
}

#[test]
fn records_are_read_in_order_whatever_their_lengths() {
    let mut random = Random::new(tutti_testkit::seed());
    for each in [0, 1, 7, 8, 40, 2040] {
        let mapping = Rc::new(memory());
        let (mut out, mut into) = (RingOut::new(again(&mapping)), RingIn::new(mapping, 0));
        let (mut expected, mut was_full, mut first) = (VecDeque::new(), 0, 0_u32);
        for _ in 0..3000 {
            if random.chance(850) {
                let most = DATA_BYTES_MAX.checked_div(each).unwrap_or(50) as u64;
                let count = 1 + random.below(most.min(40)) as u32;
                let is_bulk = random.chance(100);
                let mut bytes = data(first, count, each);
                let buffer = Buffer::contiguous(bytes.as_mut_ptr(), bytes.len());
                let run = first..first + count;
                let given = (!is_bulk).then_some((&buffer, 0..bytes.len()));
                // SAFETY: the data are a vector.
                if unsafe { out.try_write(&run, given) } {
                    expected.push_back((run, is_bulk));
                    first += count;
                } else {
                    was_full += 1;
                }
            } else {
                for _ in 0..random.below(8) {
                    let found = into.peek(each);
                    let Some((run, is_bulk)) = expected.pop_front() else {
                        assert!(found.is_none(), "{found:?}");
                        break;
                    };
                    match found.expect("a record") {
                        Record::Bulk(read) => assert!(is_bulk && read == run),
                        Record::Data(read, at) => {
                            assert!(!is_bulk && read == run);
                            let expected = data(run.start, run.len() as u32, each);
                            // SAFETY: as many bytes as the record has, until it is taken.
                            let bytes = unsafe { std::slice::from_raw_parts(at, expected.len()) };
                            assert_eq!(bytes, expected);
                        }
                    }
                    into.take();
                }
                into.publish();
            }
        }
        assert!(was_full > 0 || each < 7, "a ring of {each} bytes each was never full");
    }
}

/// The sender is told of room now and then only: all the same it has some when everything has been taken.
#[test]
fn records_of_any_length_find_room_behind_a_receiver_that_has_taken_all() {
    let mut random = Random::new(tutti_testkit::seed());
    let mapping = Rc::new(memory());
    let (mut out, mut into) = (RingOut::new(again(&mapping)), RingIn::new(mapping, 0));
    let mut data = vec![7_u8; DATA_BYTES_MAX];
    let buffer = Buffer::contiguous(data.as_mut_ptr(), data.len());
    let (mut records, mut told) = (0, 0);
    for _ in 0..300 {
        let mut written = Vec::new();
        while !random.chance(1) {
            // The first one behind a ring that is empty is as long as can be.
            let bytes = if written.is_empty() { DATA_BYTES_MAX } else { 1 + random.below(60) as usize };
            let number = written.len() as u32;
            // SAFETY: the data are a vector, and as long.
            if !unsafe { out.try_write(&(number..number + 1), Some((&buffer, 0..bytes))) } {
                assert!(number > 0, "an empty ring has no room for a record");
                break;
            }
            written.push(bytes);
        }
        records += written.len();
        for (number, bytes) in (0..).zip(written) {
            assert!(matches!(into.peek(bytes), Some(Record::Data(run, _)) if run == (number..number + 1)));
            into.take();
            told += usize::from(into.publish_much());
        }
    }
    assert!(told > 0 && told < records / 20, "{told} of {records}");
}

#[test]
fn records_are_whole_while_both_ends_run() {
    const RECORDS: u32 = 20_000;
    let mapping = memory();
    let range = mapping.range();
    assert!(range.bytes as usize >= RING_BYTES);
    // Both ends have the mapping; each end is of one thread.
    let base = Rc::new(mapping);
    let (mut out, into) = (RingOut::new(again(&base)), RingIn::new(base, 0));
    struct Carried(RingIn);
    // SAFETY: the count of the mapping is changed by nobody while the thread runs.
    unsafe impl Send for Carried {}
    let carried = Carried(into);
    thread::scope(|scope| {
        scope.spawn(move || {
            let carried = carried;
            let Carried(mut into) = carried;
            let mut next = 0;
            while next < RECORDS {
                match into.peek(8) {
                    None => thread::yield_now(),
                    Some(Record::Bulk(run)) => panic!("{run:?}"),
                    Some(Record::Data(run, at)) => {
                        assert_eq!(run, next..next + 1);
                        // SAFETY: a record of one partition of 8 bytes.
                        assert_eq!(unsafe { at.cast::<u64>().read() }, u64::from(next) * 3);
                        next += 1;
                        into.take();
                        into.publish();
                    }
                }
            }
            std::mem::forget(into);
        });
        for number in 0..RECORDS {
            let mut word = u64::from(number) * 3;
            let buffer = Buffer::contiguous((&raw mut word).cast(), 8);
            // SAFETY: a word.
            while !unsafe { out.try_write(&(number..number + 1), Some((&buffer, 0..8))) } {
                thread::yield_now();
            }
        }
    });
}

#[test]
fn a_ring_of_another_send_is_not_read() {
    let mapping = Rc::new(memory());
    let mut out = RingOut::new(again(&mapping));
    assert!(out.try_assign(4));
    let (mut old, mut new) = (RingIn::new(again(&mapping), 3), RingIn::new(mapping, 4));
    let mut word = 7_u64;
    let buffer = Buffer::contiguous((&raw mut word).cast(), 8);
    // SAFETY: a word.
    assert!(unsafe { out.try_write(&(0..1), Some((&buffer, 0..8))) });
    assert!(old.peek(8).is_none());
    assert!(matches!(new.peek(8), Some(Record::Data(run, _)) if run == (0..1)));
    assert!(!out.try_assign(5), "a record is left");
    new.take();
    new.publish();
    assert!(out.try_assign(5));
}
