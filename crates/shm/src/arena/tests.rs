use std::os::fd::AsFd;

use super::*;
use crate::layout::Geometry;
use crate::segment::Segment;

fn segment(local_ranks: u32) -> Segment {
    Segment::create(Geometry { world_ranks: local_ranks, local_ranks, cores: 2, ..Geometry::default() })
        .unwrap()
}

#[test]
fn arena_ranges_are_apart_aligned_and_reused() {
    let segment = segment(3);
    let mut arena = segment.arena(1).expect("an arena");
    let small = arena.allocate(1).unwrap();
    let large = arena.allocate(5 << 20).unwrap();
    let next = arena.allocate(4097).unwrap();
    assert_eq!((small.bytes, large.bytes, next.bytes), (4096, 5 << 20, 8192));
    assert!(large.offset.is_multiple_of(LARGE_BYTES));
    let mut all = [small, large, next];
    all.sort_by_key(|range| range.offset);
    assert!(all.windows(2).all(|pair| pair[0].offset + pair[0].bytes <= pair[1].offset));
    assert!(all.iter().all(|&range| arena.has(range) && !segment.arena(2).unwrap().has(range)));
    for range in all {
        arena.free(range).unwrap();
    }
    assert_eq!(arena.free.len(), 1, "neighbours have become one: {:?}", arena.free);
    assert_eq!(arena.allocate(1), Some(small));
}

#[test]
fn arena_range_given_back_is_zero_again() {
    let segment = segment(1);
    let mut arena = segment.arena(0).unwrap();
    let range = arena.allocate(100).unwrap();
    let here = Mapping::new(segment.descriptor(), range).unwrap();
    let mate = Mapping::new(segment.descriptor().try_clone_to_owned().unwrap().as_fd(), range).unwrap();
    // SAFETY: both mappings are alive, and this thread alone uses them.
    unsafe {
        here.base().write(7);
        assert_eq!(mate.base().read(), 7, "it is the same memory");
    }
    arena.free(range).unwrap();
    let again = Mapping::new(segment.descriptor(), arena.allocate(100).unwrap()).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { again.base().read() }, 0);
}

#[test]
#[should_panic(expected = "is no taken range")]
fn arena_range_given_back_twice_is_refused() {
    let mut arena = segment(1).arena(0).unwrap();
    let range = arena.allocate(100).unwrap();
    arena.free(range).unwrap();
    let _ = arena.free(range);
}

#[test]
fn arena_without_room_gives_nothing() {
    let mut arena = segment(2).arena(0).unwrap();
    assert_eq!(arena.allocate(u64::MAX), None);
    assert_eq!(arena.allocate(ARENA_BYTES), None, "its share is the half");
    let all = arena.allocate(ARENA_BYTES / 2).expect("its share");
    assert_eq!(arena.allocate(1), None);
    arena.free(all).unwrap();
}

#[test]
fn mapping_beyond_the_file_is_refused() {
    let segment = segment(1);
    let beyond = Range { offset: 1 << 60, bytes: 4096 };
    assert!(Mapping::new(segment.descriptor(), beyond).is_err());
    assert!(Mapping::new(segment.descriptor(), Range::default()).is_err());
}
