//! The log of write notices: which units each interval of each node has written, as far as it is known here.
//!
//! Of each node the log has consecutive intervals up to the last one known. Old ones are forgotten when all
//! nodes have seen them, or when there are too many, and what is too long for a message is not sent: a node
//! that lacks some drops all its copies, which is always right.

use std::collections::VecDeque;

use super::time::VectorTime;
use super::unit::Run;

/// Runs that a log keeps of one node, at most.
pub const RUNS_MAX: usize = 1 << 16;

/// Numbers that the notices of a message have, at most.
pub const SENT_MAX: usize = 4 << 20;

/// Numbers of a part before those of its intervals.
const PART_HEAD: usize = 3;

/// Consecutive intervals of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node that wrote.
    pub node: usize,
    /// The number of the first interval.
    pub first: u32,
    /// The units of each.
    pub intervals: Vec<Vec<Run>>,
}

/// The same of one node in the log.
#[derive(Debug)]
struct Origin {
    first: u32,
    intervals: VecDeque<Vec<Run>>,
    runs: usize,
}

impl Origin {
    fn known(&self) -> u32 {
        self.first + self.intervals.len() as u32 - 1
    }

    fn push(&mut self, runs: Vec<Run>) {
        self.runs += runs.len();
        self.intervals.push_back(runs);
        while self.runs > RUNS_MAX && self.intervals.len() > 1 {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let runs = self.intervals.pop_front().expect("it has one");
        self.runs -= runs.len();
        self.first += 1;
    }
}

/// Knowledge of all nodes.
#[derive(Debug)]
pub struct Log {
    origins: Vec<Origin>,
    sent_max: usize,
}

impl Log {
    /// A log of so many nodes that have written nothing.
    pub fn new(nodes: usize) -> Self {
        let origin = |_| Origin { first: 1, intervals: VecDeque::new(), runs: 0 };
        Log { origins: (0..nodes).map(origin).collect(), sent_max: SENT_MAX }
    }

    /// The next interval of a node has ended; its number.
    pub fn append(&mut self, node: usize, runs: Vec<Run>) -> u32 {
        self.origins[node].push(runs);
        self.origins[node].known()
    }

    /// The units of an interval; none when it is forgotten, or not known.
    pub fn units(&self, node: usize, number: u32) -> Option<&[Run]> {
        let origin = &self.origins[node];
        let place = number.checked_sub(origin.first)?;
        origin.intervals.get(place as usize).map(Vec::as_slice)
    }

    /// Gives the units of the intervals of a node behind `from` up to `upto`, run by run. False: some are
    /// forgotten, or not known.
    pub fn visit(&self, node: usize, from: u32, upto: u32, mut visit: impl FnMut(Run)) -> bool {
        (from + 1..=upto).all(|number| {
            let runs = self.units(node, number);
            runs.into_iter().flatten().for_each(|run| visit(*run));
            runs.is_some()
        })
    }

    /// Intervals that a node lacks that has seen `from` and is to see `upto`. None if they are too many for a
    /// message.
    pub fn since(&self, from: &VectorTime, upto: &VectorTime) -> Vec<Part> {
        let (mut parts, mut numbers) = (Vec::new(), 0);
        for (node, origin) in self.origins.iter().enumerate() {
            let (first, last) = ((from.of(node) + 1).max(origin.first), upto.of(node).min(origin.known()));
            if first <= last {
                let skip = (first - origin.first) as usize;
                let count = (last - first + 1) as usize;
                let intervals = origin.intervals.iter().skip(skip).take(count);
                numbers += PART_HEAD + intervals.clone().map(|runs| 1 + 2 * runs.len()).sum::<usize>();
                if numbers > self.sent_max {
                    return Vec::new();
                }
                parts.push(Part { node, first, intervals: intervals.cloned().collect() });
            }
        }
        parts
    }

    /// Sends so many numbers at once, at most.
    #[cfg(test)]
    pub fn limit_sent(&mut self, numbers: usize) {
        self.sent_max = numbers;
    }

    /// Takes in what another node knows.
    pub fn merge(&mut self, parts: Vec<Part>) {
        for part in parts {
            let origin = &mut self.origins[part.node];
            let known = origin.known();
            if part.first > known + 1 {
                // What lies between was forgotten by the sender: it is unknown here too.
                origin.intervals.clear();
                (origin.first, origin.runs) = (part.first, 0);
            }
            let skip = (origin.known() + 1).saturating_sub(part.first) as usize;
            part.intervals.into_iter().skip(skip).for_each(|runs| origin.push(runs));
        }
    }

    /// All nodes have seen this time.
    pub fn forget(&mut self, seen: &VectorTime) {
        for (node, origin) in self.origins.iter_mut().enumerate() {
            while origin.first <= seen.of(node) && !origin.intervals.is_empty() {
                origin.pop();
            }
        }
    }

    /// Intervals that are kept.
    pub fn len(&self) -> usize {
        self.origins.iter().map(|origin| origin.intervals.len()).sum()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(entries: &[u32]) -> VectorTime {
        VectorTime::from_entries(entries.to_vec())
    }

    #[test]
    fn log_gives_what_another_lacks_and_merges_it_once() {
        let mut log = Log::new(2);
        for unit in 0..3 {
            assert_eq!(log.append(0, vec![Run::of(unit)]), unit + 1);
        }
        let parts = log.since(&time(&[1, 0]), &time(&[3, 0]));
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].first, parts[0].intervals.len()), (2, 2));
        let mut other = Log::new(2);
        other.append(0, vec![Run::of(0)]);
        other.merge(parts.clone());
        other.merge(parts);
        assert_eq!(other.units(0, 3), Some(&[Run::of(2)][..]));
        assert_eq!((other.len(), other.units(0, 4)), (3, None));
    }

    #[test]
    fn log_that_lacks_intervals_says_so() {
        let mut log = Log::new(1);
        for unit in 0..4 {
            log.append(0, vec![Run::of(unit)]);
        }
        log.forget(&time(&[2]));
        assert_eq!((log.units(0, 2), log.units(0, 3).is_some()), (None, true));
        let mut late = Log::new(1);
        late.merge(log.since(&time(&[0]), &time(&[4])));
        assert_eq!((late.units(0, 1), late.units(0, 2)), (None, None), "forgotten, so not known");
        assert!(late.units(0, 3).is_some());
        assert_eq!(log.append(0, Vec::new()), 5, "numbers go on");
        log.forget(&time(&[5]));
        assert!(log.is_empty());
        assert_eq!(log.append(0, Vec::new()), 6);
    }

    #[test]
    fn log_gives_no_intervals_that_are_too_long_for_a_message() {
        let mut log = Log::new(2);
        for node in [0, 1, 0, 1, 0, 1] {
            log.append(node, vec![Run::of(1)]);
        }
        let (begin, end) = (time(&[0, 0]), time(&[3, 3]));
        log.limit_sent(2 * (3 + 3 * 3));
        assert_eq!(log.since(&begin, &end).len(), 2);
        log.limit_sent(2 * (3 + 3 * 3) - 1);
        assert!(log.since(&begin, &end).is_empty());
        let mut other = Log::new(2);
        other.merge(log.since(&begin, &end));
        assert_eq!(other.units(0, 3), None, "it lacks them, and knows that");
        other.merge(log.since(&time(&[2, 3]), &end));
        assert_eq!((other.units(0, 2), other.units(0, 3).is_some()), (None, true));
    }

    #[test]
    fn log_keeps_a_bounded_number_of_runs() {
        let mut log = Log::new(1);
        for _ in 0..3 {
            log.append(0, (0..RUNS_MAX as u32 / 2).map(|unit| Run::of(2 * unit)).collect());
        }
        assert_eq!((log.units(0, 1), log.len()), (None, 2));
    }
}
