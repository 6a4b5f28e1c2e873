//! The Distributed Queue Tree: SCore-D's scheduler, as far as it is known, and what we decided where it is
//! not.
//!
//! A buddy tree over the nodes: a tree node of level l is a partition of 2^l nodes and has a queue of jobs.
//! All of a queue's jobs are run, a slice each, then the two halves of the partition go on by themselves, at
//! the same time, until both are through.
//!
//! ```text
//!   level 2          [ A ]                 rows:  A A A A
//!   level 1     [ B ]     [ - ]                   B B C D      cycle(q) = rows of q + max of the halves' cycles
//!   level 0   [ - ] [E] [C] [D]                   . E . .
//! ```
//!
//! Decided here, since the papers at hand do not say:
//! - A job of p nodes belongs to the smallest partitions that have at least p nodes. If none of them has p
//!   nodes that admit it (lost, full, exclusive), the partitions twice as large are asked. A job with given
//!   nodes belongs to the smallest partition around them.
//! - **Load** of a queue is the length of the cycle that a job in it would be part of, in weights: what
//!   stands above it and the longest way below. The job goes where that is least; among equals, where the
//!   partition has the least work in all; then to the left. This counts what a job waits for, not how many
//!   jobs stand in one place.
//! - Jobs of one queue that fit side by side (slots left over in the nodes, half-used partitions) share a row
//!   of the queue.
//! - The halves' rows are paired by weight, heaviest with heaviest. Where one half is through earlier, its
//!   columns are holes; the matrix fills them with jobs that fit ([`crate::Config::fill_holes`]), so the
//!   shorter half's jobs begin anew, as their cycle would.
//! - A job never moves to another queue: its processes are where they are. New jobs even the tree out.
//! - Connected jobs are brought to one row if they are of one queue. If each is of another half of a
//!   partition, their rows are paired where that makes the cycle no longer. If the partition of one lies in
//!   that of the other they have turns of their own: a queue's rows are over before the halves' begin.

use std::collections::BTreeMap;

use crate::connected::Connected;
use crate::demand::{Demand, Part, Place};
use crate::machine::Machine;
use crate::space::{Resident, Residents, Rows};
use crate::types::{JobId, NodeId};

/// The queues that are not empty, by level and place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dqt {
    queues: BTreeMap<(u32, u32), Rows>,
}

/// A row of a partition, and its weight: that of its heaviest job.
type WeighedRow = (u32, Vec<JobId>);

/// The lengths of cycles and the work of all partitions, level by level.
struct Lengths {
    own: Vec<Vec<u64>>,
    cycle: Vec<Vec<u64>>,
    work: Vec<Vec<u64>>,
}

impl Dqt {
    /// Puts the job into the least loaded queue of its size class; None if no partition can take it.
    pub(crate) fn place(
        &mut self,
        machine: &Machine,
        residents: &Residents,
        job: JobId,
        demand: &Demand,
    ) -> Option<Vec<Part>> {
        let top = levels(machine.len());
        let lengths = self.lengths(top, residents);
        let (level, only) = match &demand.place {
            Place::Given(parts) => {
                let (level, index) = around(parts.iter().map(|part| part.0));
                (level, Some(index))
            }
            place => {
                let split = place.split().expect("Machine::settle has made it Any");
                (levels(split.nodes), None)
            }
        };
        for level in level..=top {
            let indices = match only {
                Some(index) => index..index + 1,
                None => 0..machine.len().div_ceil(1 << level),
            };
            let best = indices
                .filter_map(|index| self.try_queue(machine, &lengths, level, index, demand))
                .min_by_key(|(load, index, ..)| {
                    (*load, lengths.work[level as usize][*index as usize], *index)
                });
            if let Some((_, index, row, parts)) = best {
                self.queue(level, index).put(row, job, &parts);
                return Some(parts);
            }
            if only.is_some() {
                return None;
            }
        }
        None
    }

    /// The load of this queue with the job in it, its place, the row and the parts.
    fn try_queue(
        &self,
        machine: &Machine,
        lengths: &Lengths,
        level: u32,
        index: u32,
        demand: &Demand,
    ) -> Option<(u64, u32, usize, Vec<Part>)> {
        let fresh = Rows::new(index << level, 1 << level);
        let rows = self.queues.get(&(level, index)).unwrap_or(&fresh);
        let (row, parts) = rows.choose(machine, demand)?;
        let added = if row < rows.len() { 0 } else { u64::from(demand.weight) };
        Some((lengths.seen_from(level, index) + added, index, row, parts))
    }

    fn queue(&mut self, level: u32, index: u32) -> &mut Rows {
        self.queues.entry((level, index)).or_insert_with(|| Rows::new(index << level, 1 << level))
    }

    /// Puts back a job whose nodes are settled, into the smallest partition around them.
    pub(crate) fn put_back(&mut self, machine: &Machine, job: JobId, resident: &mut Resident) {
        let (level, index) = around(resident.parts.iter().map(|part| part.node));
        self.queue(level, index).put_back(machine, job, resident);
    }

    /// Takes the job out.
    pub(crate) fn remove(&mut self, job: JobId, parts: &[Part]) {
        for queue in self.queues.values_mut() {
            queue.remove(job, parts);
        }
        self.queues.retain(|_, queue| queue.len() > 0);
    }

    /// Unifies the rows of each queue.
    pub(crate) fn compact(&mut self, machine: &Machine, residents: &mut Residents, connected: &Connected) {
        for queue in self.queues.values_mut() {
            queue.compact(machine, residents, connected);
        }
    }

    /// Brings connected jobs of one queue to one row.
    pub(crate) fn unite(&mut self, machine: &Machine, residents: &mut Residents, connected: &Connected) {
        for queue in self.queues.values_mut() {
            queue.unite(machine, residents, connected);
        }
    }

    /// The rows of the whole matrix.
    pub(crate) fn home_rows(
        &self,
        machine: &Machine,
        residents: &Residents,
        connected: &Connected,
    ) -> Vec<Vec<JobId>> {
        let top = levels(machine.len());
        let lengths = self.lengths(top, residents);
        self.rows_of(&lengths, residents, connected, (top, 0)).into_iter().map(|row| row.1).collect()
    }

    /// The rows of a partition with their weights, heaviest first in each queue.
    fn rows_of(
        &self,
        lengths: &Lengths,
        residents: &Residents,
        connected: &Connected,
        (level, index): (u32, u32),
    ) -> Vec<WeighedRow> {
        if lengths.cycle[level as usize].get(index as usize).is_none_or(|&cycle| cycle == 0) {
            return Vec::new();
        }
        let own = self.queues.get(&(level, index)).map(Rows::home_rows).unwrap_or_default();
        let mut rows: Vec<_> = own.into_iter().map(|jobs| (weight_of(&jobs, residents), jobs)).collect();
        if level > 0 {
            let half = |index| self.rows_of(lengths, residents, connected, (level - 1, index));
            let (mut left, mut right) = (half(2 * index), half(2 * index + 1));
            for half in [&mut left, &mut right] {
                half.sort_by_key(|row| std::cmp::Reverse(row.0));
            }
            if left.len() < right.len() {
                std::mem::swap(&mut left, &mut right);
            }
            right.resize(left.len(), (0, Vec::new()));
            pair_connected(&left, &mut right, connected);
            for (row, other) in left.iter_mut().zip(right) {
                row.0 = row.0.max(other.0);
                row.1.extend(other.1);
            }
            rows.extend(left);
        }
        rows
    }

    fn lengths(&self, top: u32, residents: &Residents) -> Lengths {
        let empty: Vec<_> = (0..=top).map(|level| vec![0; 1 << (top - level)]).collect();
        let mut lengths = Lengths { own: empty.clone(), cycle: empty.clone(), work: empty };
        for (&(level, index), queue) in &self.queues {
            let own: u64 = queue.iter().map(|row| u64::from(weight_of(&row.jobs, residents))).sum();
            lengths.own[level as usize][index as usize] = own;
        }
        for level in 0..=top as usize {
            for index in 0..lengths.own[level].len() {
                let own = lengths.own[level][index];
                let (longest, both) = match level {
                    0 => (0, 0),
                    _ => {
                        let (cycle, work) = (&lengths.cycle[level - 1], &lengths.work[level - 1]);
                        let (left, right) = (2 * index, 2 * index + 1);
                        (cycle[left].max(cycle[right]), work[left] + work[right])
                    }
                };
                lengths.cycle[level][index] = own + longest;
                lengths.work[level][index] = (own << level) + both;
            }
        }
        lengths
    }
}

impl Lengths {
    /// Cycle of a job of this queue: all queues above, and the longest way below.
    fn seen_from(&self, level: u32, index: u32) -> u64 {
        let above = (level as usize + 1..self.own.len())
            .map(|up| self.own[up][index as usize >> (up - level as usize)])
            .sum::<u64>();
        above + self.cycle[level as usize][index as usize]
    }
}

/// The weight of a row: that of its heaviest job.
fn weight_of(jobs: &[JobId], residents: &Residents) -> u32 {
    jobs.iter().filter_map(|job| residents.get(job)).map(|resident| resident.weight).max().unwrap_or(0)
}

/// Puts rows of one half beside those of the other with which they are connected, where all pairs together
/// are as light as before. Of a row that is connected with several, the first pair counts.
fn pair_connected(left: &[WeighedRow], right: &mut [WeighedRow], connected: &Connected) {
    let mut is_paired = vec![false; left.len()];
    for (one, other) in connected.pairs() {
        let of = |rows: &[WeighedRow], job: JobId| rows.iter().position(|row| row.1.contains(&job));
        let places = [(one, other), (other, one)];
        let places = places.map(|(left_job, right_job)| of(left, left_job).zip(of(right, right_job)));
        let Some((at, from)) = places.into_iter().flatten().next() else { continue };
        if is_paired[at] || is_paired[from] {
            continue;
        }
        let weight = |right: &[WeighedRow]| -> u64 {
            [at, from].iter().map(|at| u64::from(left[*at].0.max(right[*at].0))).sum()
        };
        let before = weight(right);
        right.swap(at, from);
        is_paired[at] = at == from || weight(right) <= before;
        if !is_paired[at] {
            right.swap(at, from);
        }
    }
}

/// The level whose partitions have at least `nodes` nodes.
fn levels(nodes: u32) -> u32 {
    nodes.max(1).next_power_of_two().trailing_zeros()
}

/// The smallest partition around the nodes: its level and place.
fn around(nodes: impl Iterator<Item = NodeId> + Clone) -> (u32, u32) {
    let first = nodes.clone().map(|node| node.0).min().unwrap_or(0);
    let last = nodes.map(|node| node.0).max().unwrap_or(0);
    let level = 32 - (first ^ last).leading_zeros();
    (level, first >> level)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Paper: S2
    #[test]
    fn dqt_partition_is_the_smallest_that_holds_a_job() {
        assert_eq!([1, 2, 3, 4, 5, 4096].map(levels), [0, 1, 2, 2, 3, 12]);
        let around_of = |nodes: &[u32]| around(nodes.iter().map(|&node| NodeId(node)));
        assert_eq!(around_of(&[6]), (0, 6));
        assert_eq!(around_of(&[6, 7]), (1, 3));
        assert_eq!(around_of(&[3, 4]), (3, 0));
        assert_eq!(around_of(&[8, 11, 9]), (2, 2));
    }
}
