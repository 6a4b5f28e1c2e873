//! The targets of a multicast, as they travel in a record and are divided among nodes; pure.
//!
//! Ranks of a program that open the same regions in the same order have handles that differ in their rank
//! and in the port of its starter alone. Such targets of ranks in a row are one run: their number and the
//! handle of the first, without the port. The check of a handle is not in it: who sends has checked, and who
//! reads makes it anew.

use crate::handle::{Handle, WORDS};

/// Bytes of a run.
pub(crate) const RUN_BYTES: usize = 8 + 8 * WORDS;
/// Runs of a record, at most: more than half of the shortest is left for the bytes.
pub(crate) const RUNS_MAX: usize = 8;

/// The handle of the same region of another rank, as far as it is opened alike.
fn of_rank(handle: &Handle, rank: u32) -> Handle {
    Handle { rank, port: 0, check: 0, ..*handle }
}

/// Number of targets from the first on that are one run.
fn run_length(targets: &[Handle]) -> usize {
    let Some(first) = targets.first() else { return 0 };
    let is_next = |(place, target): (u32, &Handle)| {
        first.rank.checked_add(place).is_some_and(|rank| of_rank(first, rank) == of_rank(target, target.rank))
    };
    (0..).zip(targets).take_while(|numbered| is_next(*numbered)).count()
}

/// The lengths of the runs that targets are, in their order.
fn run_lengths(mut targets: &[Handle]) -> impl Iterator<Item = usize> + '_ {
    std::iter::from_fn(move || {
        let length = run_length(targets);
        targets = &targets[length..];
        (length > 0).then_some(length)
    })
}

/// The runs as they travel.
pub(crate) fn encode(targets: &[Handle]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut first = 0;
    for length in run_lengths(targets) {
        bytes.extend((length as u64).to_ne_bytes());
        let handle = of_rank(&targets[first], targets[first].rank);
        bytes.extend(handle.words().into_iter().flat_map(u64::to_ne_bytes));
        first += length;
    }
    bytes
}

/// The targets of these runs, in a job of so many ranks; none: they are none that we would send.
pub(crate) fn decode(bytes: &[u8], job: u64, ranks: usize) -> Option<Vec<Handle>> {
    let mut targets = Vec::new();
    if bytes.len() > RUNS_MAX * RUN_BYTES {
        return None;
    }
    for run in bytes.chunks(RUN_BYTES) {
        let (words, rest) = run.as_chunks::<8>();
        if words.len() != 1 + WORDS || !rest.is_empty() {
            return None;
        }
        let words: [u64; 1 + WORDS] = std::array::from_fn(|at| u64::from_ne_bytes(words[at]));
        let first = Handle::from_words(std::array::from_fn(|at| words[1 + at]));
        let end = u64::from(first.rank).checked_add(words[0]).filter(|end| *end <= ranks as u64)?;
        for rank in first.rank..end as u32 {
            let mut handle = of_rank(&first, rank);
            handle.check = handle.sum(job);
            targets.push(handle);
        }
    }
    Some(targets)
}

/// Divides targets into parts for the ranks that hand them on, each the first of its part: nodes in a row, at
/// most `fanout` parts unless the targets of one do not fit a record.
pub(crate) fn parts(
    mut targets: Vec<Handle>,
    fanout: usize,
    node_of: impl Fn(&Handle) -> usize,
) -> Vec<Vec<Handle>> {
    targets.sort_by_key(|target| (node_of(target), target.rank));
    let nodes: Vec<&[Handle]> = targets.chunk_by(|one, other| node_of(one) == node_of(other)).collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    // The first parts have one node more where they do not come out even.
    let (count, mut first) = (nodes.len().min(fanout), 0);
    for part in 0..count {
        let length = (nodes.len() - first).div_ceil(count - part);
        push_fitting(&nodes[first..first + length], &mut parts);
        first += length;
    }
    parts
}

/// A part of these nodes, or several, each of which fits a record.
fn push_fitting(nodes: &[&[Handle]], parts: &mut Vec<Vec<Handle>>) {
    let all = nodes.concat();
    if run_lengths(&all).count() <= RUNS_MAX {
        parts.push(all);
    } else if nodes.len() > 1 {
        let (front, back) = nodes.split_at(nodes.len() / 2);
        push_fitting(front, parts);
        push_fitting(back, parts);
    } else {
        let mut rest = &all[..];
        while !rest.is_empty() {
            let length = run_lengths(rest).take(RUNS_MAX).sum();
            let (part, behind) = rest.split_at(length);
            parts.push(part.to_vec());
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JOB: u64 = 77;

    fn handle(rank: u32, slot: u16) -> Handle {
        let mut handle = Handle {
            rank,
            slot,
            port: 0,
            generation: 3,
            directory: 4,
            id: 5,
            id_generation: 6,
            bytes: 7,
            check: 0,
        };
        handle.check = handle.sum(JOB);
        handle
    }

    #[test]
    fn targets_opened_alike_are_one_run() {
        let alike: Vec<Handle> = (0..64).map(|rank| handle(rank, 1)).collect();
        assert_eq!(encode(&alike).len(), RUN_BYTES);
        assert_eq!(decode(&encode(&alike), JOB, 64), Some(alike.clone()));
        assert_eq!(decode(&encode(&alike), JOB, 63), None, "the job has fewer ranks");
        assert_eq!(decode(&encode(&alike)[1..], JOB, 64), None);
    }

    #[test]
    fn targets_of_nodes_are_divided_evenly() {
        for nodes in [1_u32, 3, 4, 63, 1000] {
            let targets: Vec<Handle> = (0..2 * nodes).rev().map(|rank| handle(rank, 1)).collect();
            let parts = parts(targets, 4, |target| target.rank as usize / 2);
            assert_eq!(parts.len(), nodes.min(4) as usize, "{nodes} nodes");
            let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
            assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 2, "{lengths:?}");
        }
        assert!(parts(Vec::new(), 4, |_| 0).is_empty());
    }

    proptest! {
        /// Whatever is opened by whom: each target is in one part, whose runs fit a record and come back.
        #[test]
        fn targets_are_each_in_one_part_that_fits(
            given in proptest::collection::vec((0_u32..40, 0_u16..3), 0..200), ranks_of_a_node in 1_usize..50,
        ) {
            let targets: Vec<Handle> = given.iter().map(|(rank, slot)| handle(*rank, *slot)).collect();
            let key = |target: &Handle| (target.rank, target.slot);
            let mut found = Vec::new();
            for part in parts(targets.clone(), 4, |target| target.rank as usize / ranks_of_a_node) {
                let bytes = encode(&part);
                prop_assert!(!part.is_empty() && bytes.len() <= RUNS_MAX * RUN_BYTES);
                prop_assert_eq!(decode(&bytes, JOB, 40), Some(part.clone()));
                found.extend(part);
            }
            let mut expected = targets;
            expected.sort_by_key(key);
            found.sort_by_key(key);
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn targets_of_any_bytes_are_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..RUN_BYTES * 9)) {
            if let Some(targets) = decode(&bytes, JOB, 100) {
                prop_assert!(targets.len() <= RUNS_MAX * 100);
                prop_assert!(targets.iter().all(|target| target.rank < 100 && target.check == target.sum(JOB)));
            }
        }
    }
}
