//! Rounded sums do not depend on where ranks are: schedules of messages combine operands as the members of a
//! node do, from the last rank to the first. The schedules of all ranks run here, one beside the other.

use std::collections::{HashMap, VecDeque};

use super::super::super::op::Reducer;
use super::super::super::schedule::{Schedule, Step, copy};
use super::super::super::work::Reduction;
use super::*;
use tutti_datatype::Buffer;

/// Messages on their way, by sender and receiver.
type Wire = HashMap<(u32, u32), VecDeque<Vec<u8>>>;

/// A schedule that runs: receives that are posted, by their number; none for sends and what is done.
struct Runner {
    schedule: Schedule,
    next: usize,
    posted: Vec<Option<(u32, Buffer)>>,
}

impl Runner {
    /// Fills posted receives up to this one, in the order in which they were posted; whether it is done.
    fn settle(&mut self, me: u32, wire: &mut Wire, operation: usize) -> bool {
        for posted in &mut self.posted[..=operation] {
            let Some((from, buffer)) = posted else { continue };
            let Some(data) = wire.entry((*from, me)).or_default().pop_front() else { continue };
            assert_eq!(data.len(), buffer.bytes, "the lengths of send and receive match");
            // SAFETY: memory of the schedule or of the test, as long as the buffer says.
            unsafe { buffer.store(0, data.as_ptr(), data.len()) };
            *posted = None;
        }
        self.posted[operation].is_none()
    }

    /// Takes all steps that can be taken; whether all are done.
    fn advance(&mut self, me: u32, wire: &mut Wire) -> bool {
        while self.next < self.schedule.steps.len() {
            let awaited = match &self.schedule.steps[self.next] {
                Step::Send { to, buffer } => {
                    let mut data = vec![0; buffer.bytes];
                    // SAFETY: as in `settle`.
                    unsafe { buffer.load(0, data.as_mut_ptr(), data.len()) };
                    wire.entry((me, *to)).or_default().push_back(data);
                    self.posted.push(None);
                    0..0
                }
                Step::Receive { from, buffer } => {
                    self.posted.push(Some((*from, buffer.clone())));
                    0..0
                }
                Step::Await(operation) => *operation..*operation + 1,
                Step::AwaitAll => 0..self.posted.len(),
                Step::Copy { from, to } => {
                    // SAFETY: as in `settle`.
                    unsafe { copy(from, to) };
                    0..0
                }
                Step::Combine { reducer, input, inout, count } => {
                    let kernel = reducer.kernel().expect("a predefined operation");
                    // SAFETY: as in `settle`.
                    unsafe { kernel(*input, *inout, *count) };
                    0..0
                }
                other => panic!("a reduction has no such step: {other:?}"),
            };
            for operation in awaited {
                if !self.settle(me, wire, operation) {
                    return false;
                }
            }
            self.next += 1;
        }
        true
    }
}

/// Numbers whose sum depends on the grouping.
fn contribution(rank: usize, count: usize) -> Vec<f64> {
    let value = |i: usize| match (rank * 7 + i * 3) % 5 {
        0 => 1e16,
        1 => -1e16,
        2 => 1.0 + i as f64,
        3 => 0.1 * (rank + 1) as f64,
        _ => -3.7,
    };
    (0..count).map(value).collect()
}

/// The sum from the last rank to the first.
fn expected(size: usize, count: usize) -> Vec<f64> {
    let mut sum = contribution(size - 1, count);
    for rank in (0..size - 1).rev() {
        for (sum, number) in sum.iter_mut().zip(contribution(rank, count)) {
            *sum += number;
        }
    }
    sum
}

/// Results at all ranks when `count` numbers of each are added, to all or to a root.
fn added(size: usize, count: usize, in_place: bool, root: Option<usize>) -> Vec<Vec<f64>> {
    let types = Predefined::new();
    let double = types.find(MPI_DOUBLE).expect("a predefined type");
    let mut receive: Vec<Vec<f64>> = vec![vec![f64::NAN; count]; size];
    let mut send: Vec<Vec<f64>> = (0..size).map(|rank| contribution(rank, count)).collect();
    let mut runners: Vec<Runner> = (0..size)
        .map(|me| {
            let gets = root.is_none_or(|root| root == me);
            if in_place && gets {
                receive[me].copy_from_slice(&send[me]);
            }
            let to: *mut u8 = if gets { receive[me].as_mut_ptr().cast() } else { std::ptr::null_mut() };
            let from: *mut u8 = if in_place && gets { to } else { send[me].as_mut_ptr().cast() };
            let reduction = Reduction {
                reducer: Reducer::predefined(MPI_SUM, double, true),
                send: from,
                receive: to,
                count,
                bytes: count * size_of::<f64>(),
                is_in_place: in_place && gets,
            };
            let work = match root {
                None => Work::Allreduce(reduction),
                Some(root) => Work::Reduce(reduction, Root::Local(root)),
            };
            Runner { schedule: place(me, size, None).plan(&work), next: 0, posted: Vec::new() }
        })
        .collect();
    let mut wire = Wire::new();
    // In each turn some rank takes a step, and no schedule has more messages than this.
    for _ in 0..8 * size + 8 {
        let done = runners.iter_mut().enumerate().map(|(me, runner)| runner.advance(me as u32, &mut wire));
        if done.fold(true, |all, done| all & done) {
            assert!(wire.values().all(VecDeque::is_empty), "every message has been received");
            return receive;
        }
    }
    panic!("{size} ranks, {count} numbers: the schedules do not end");
}

/// Beside each size at which the algorithm changes: 2, 4, 16 and 64 KiB.
const NUMBERS: [usize; 12] = [0, 1, 2, 7, 255, 256, 257, 511, 512, 513, 2049, 9000];

#[test]
fn rounded_sums_to_all_are_grouped_as_inside_a_node() {
    for size in (3..=9).chain([17, 40]) {
        for count in NUMBERS {
            let expected = expected(size, count);
            for in_place in [false, true] {
                for (rank, sum) in added(size, count, in_place, None).iter().enumerate() {
                    assert_eq!(sum, &expected, "rank {rank} of {size}, {count}, in place: {in_place}");
                }
            }
        }
    }
    // The numbers tell one grouping from another.
    let other = |size, i: usize| (0..size).map(|rank| contribution(rank, 7)[i]).sum::<f64>();
    assert!((3..=9).all(|size| (0..7).any(|i| other(size, i) != expected(size, 7)[i])));
}

#[test]
fn rounded_sums_to_a_root_are_grouped_as_inside_a_node_up_to_a_slot() {
    for size in (3..=9).chain([17, 40]) {
        for count in [0, 1, 7, 255, 512] {
            let expected = expected(size, count);
            for root in [0, 1, size / 2, size - 1] {
                for in_place in [false, true] {
                    let sums = added(size, count, in_place, Some(root));
                    assert_eq!(sums[root], expected, "root {root} of {size}, {count}, {in_place}");
                }
            }
        }
    }
}

/// The same message count at each rank, which grows with the logarithm of ranks.
#[test]
fn small_rounded_sums_take_as_many_rounds_as_the_logarithm_of_ranks() {
    let types = Predefined::new();
    let double = types.find(MPI_DOUBLE).expect("a predefined type");
    let numbers = [0.0_f64; 2];
    let at: *mut u8 = numbers.as_ptr().cast_mut().cast();
    for size in 3..=130_usize {
        let rounds = size.next_power_of_two().ilog2() as usize;
        for me in 0..size {
            let reduction = || Reduction {
                reducer: Reducer::predefined(MPI_SUM, double, true),
                send: at,
                receive: at.wrapping_add(8),
                count: 1,
                bytes: 8,
                is_in_place: false,
            };
            let all = place(me, size, None).plan(&Work::Allreduce(reduction()));
            assert_eq!(all.messages(), 2 * rounds, "rank {me} of {size}");
            let one = place(me, size, None).plan(&Work::Reduce(reduction(), Root::Local(size / 2)));
            assert!(one.messages() <= rounds, "rank {me} of {size}: {}", one.messages());
        }
    }
}

/// Sums of which not all contributions fit a message that is sent at once: portions, no message for each
/// pair.
#[test]
fn rounded_sums_to_a_root_take_few_messages_at_many_ranks() {
    let types = Predefined::new();
    let double = types.find(MPI_DOUBLE).expect("a predefined type");
    let (count, root) = (500, 5);
    let numbers = vec![0.0_f64; 2 * count];
    let at: *mut u8 = numbers.as_ptr().cast_mut().cast();
    for me in 0..64 {
        let reduction = Reduction {
            reducer: Reducer::predefined(MPI_SUM, double, true),
            send: at,
            receive: at.wrapping_add(8 * count),
            count,
            bytes: 8 * count,
            is_in_place: false,
        };
        let plan = place(me, 64, None).plan(&Work::Reduce(reduction, Root::Local(root)));
        assert!(plan.messages() <= 4 * 6, "rank {me}: {}", plan.messages());
        // The memory of a portion serves all.
        let bytes: usize = plan.memory.iter().map(crate::collective::memory::Memory::bytes).sum();
        assert!(bytes <= 64 * 8 * count / 2, "rank {me}: {bytes}");
    }
    let sums = added(64, count, false, Some(root));
    assert_eq!(sums[root], expected(64, count));
}
