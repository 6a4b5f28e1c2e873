//! Collective operations post receives before sends, so that a sender finds them posted.

use super::super::op::Reducer;
use super::super::work::{Pieces, Reduction};
use super::*;
use crate::abi::*;
use crate::comm::Group;
use crate::datatype::Predefined;
use std::rc::Rc;

/// Sizes on both sides of every threshold of the algorithms.
const COUNTS: [usize; 4] = [0, 3, 3000, 300_000];
const RANKS_MAX: usize = 9;

/// Memory that schedules may point to; no test here moves data.
struct Memory(Vec<i32>);

impl Memory {
    fn at(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }
}

fn place(me: usize, size: usize, remote: Option<usize>) -> Place {
    let ranks =
        |first: usize, size: usize| Rc::new(Group::new((first..first + size).map(|r| r as u32).collect()));
    Place { context: 1, tag: 0, me, local: ranks(0, size), remote: remote.map(|other| ranks(size, other)) }
}

/// Every operation, as the process `me` of `size` is asked for it, with `count` elements for each rank.
/// `peers` are the ranks that data come from and go to, `root` is a root among the own ranks.
fn every_work(
    memory: &Memory,
    count: usize,
    size: usize,
    peers: usize,
    root: Root,
    is_root: bool,
) -> Vec<Work> {
    let types = Predefined::new();
    let int = types.find(MPI_INT).expect("a predefined type");
    let one = || int.buffer(memory.at(), count).expect("it fits");
    let each = || Pieces::Uniform { at: memory.at(), count, datatype: int.elements() };
    let reduction = |commutative, in_place| Reduction {
        reducer: Reducer::predefined(MPI_SUM, int, commutative),
        send: if in_place { memory.at() } else { memory.at().wrapping_add(64) },
        receive: memory.at(),
        count,
        bytes: count * 4,
        is_in_place: in_place,
    };
    let gives = !matches!(root, Root::Myself | Root::NoRank);
    let mut all = vec![
        Work::Barrier,
        Work::Broadcast { buffer: one(), root },
        Work::Gather { own: gives.then(one), all: is_root.then(each), root, each: None },
        Work::Scatter { all: is_root.then(each), own: gives.then(one), root, each: None },
        Work::Allgather { own: Some(one()), all: each(), each: None },
        Work::Alltoall { send: Some(each()), receive: each(), each: None },
    ];
    for (commutative, in_place) in [(true, false), (true, true), (false, false), (false, true)] {
        all.push(Work::Reduce(reduction(commutative, in_place), root));
        all.push(Work::Allreduce(reduction(commutative, in_place)));
        if peers == size {
            let whole = Reduction {
                count: count * size,
                bytes: count * size * 4,
                ..reduction(commutative, in_place)
            };
            all.push(Work::ReduceScatter { reduction: whole, counts: vec![count; size] });
        }
    }
    all
}

#[test]
fn collective_schedule_posts_receives_before_sends() {
    let memory = Memory(vec![0; 16]);
    let mut messages = 0;
    for size in 1..=RANKS_MAX {
        for me in 0..size {
            for count in COUNTS {
                for root in [0, size / 2, size - 1] {
                    let place = place(me, size, None);
                    let mut works = every_work(&memory, count, size, size, Root::Local(root), me == root);
                    let scan = |exclusive| {
                        let types = Predefined::new();
                        let int = types.find(MPI_INT).expect("a predefined type");
                        let reducer = Reducer::predefined(MPI_SUM, int, true);
                        let (send, receive) = (memory.at().wrapping_add(64), memory.at());
                        let reduction =
                            Reduction { reducer, send, receive, count, bytes: count * 4, is_in_place: false };
                        Work::Scan { reduction, exclusive }
                    };
                    works.extend([scan(false), scan(true)]);
                    for work in &works {
                        let schedule = place.plan(work);
                        messages += schedule.messages();
                        assert!(
                            schedule.posts_receives_first(),
                            "rank {me} of {size}, root {root}: {work:?}: {schedule:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(messages > 50_000, "the schedules have messages: {messages}");
}

#[test]
fn collective_schedule_of_intercommunicators_posts_receives_first() {
    let memory = Memory(vec![0; 16]);
    for (size, other) in [(1, 1), (1, 4), (3, 2), (4, 4)] {
        for me in 0..size {
            for root in [Root::Myself, Root::NoRank, Root::Remote(other - 1)] {
                let place = place(me, size, Some(other));
                for work in &every_work(&memory, 100, size, other, root, root == Root::Myself) {
                    let schedule = place.plan(work);
                    assert!(
                        schedule.posts_receives_first(),
                        "rank {me} of {size} with {other}, {root:?}: {work:?}: {schedule:?}"
                    );
                }
            }
        }
    }
}

mod grouping;
