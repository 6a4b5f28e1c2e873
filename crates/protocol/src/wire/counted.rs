//! Counters that the ranks of a job keep of their messages, added up over its nodes: table 5 of the paper on
//! MPI/MBCF. Each starter adds up its ranks, and the front end (of a cluster: the controller) the nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Counters of a rank that are added up, in the order in which the library leaves them; the time of the rank
/// in the job, in nanoseconds, stands behind them.
pub const COUNTERS: [&str; 13] = [
    "messages_sent",
    "bytes_sent",
    "eager",
    "streamed",
    "announced",
    "written",
    "written_bytes",
    "told",
    "stale",
    "unexpected",
    "remote_bytes",
    "thaws",
    "frozen_us",
];
const MESSAGES: usize = 0;
const BYTES: usize = 1;
const EAGER: usize = 2;
const WRITTEN_BYTES: usize = 6;
const UNEXPECTED: usize = 9;

/// Sums over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Nodes that they ran on.
    pub nodes: u32,
    /// How many ranks.
    pub ranks: u32,
    /// The longest time of a rank in the job.
    pub nanoseconds: u64,
    /// By [`COUNTERS`].
    sums: [u64; COUNTERS.len()],
    /// Wanted as a line of JSON.
    pub json: bool,
}

impl Counted {
    /// Begins the sums of a node, without ranks yet.
    pub fn of_node(json: bool) -> Self {
        Counted { nodes: 1, json, ..Counted::default() }
    }

    /// One rank more: its counters, and its time behind them.
    pub fn add_rank(&mut self, values: &[u64; COUNTERS.len() + 1]) {
        let [counters @ .., nanoseconds] = values;
        self.ranks += 1;
        self.nanoseconds = self.nanoseconds.max(*nanoseconds);
        self.add_sums(counters);
    }

    /// One node more.
    pub fn add(&mut self, other: &Counted) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.ranks = self.ranks.saturating_add(other.ranks);
        self.nanoseconds = self.nanoseconds.max(other.nanoseconds);
        self.json |= other.json;
        self.add_sums(&other.sums);
    }

    fn add_sums(&mut self, values: &[u64]) {
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum = sum.saturating_add(*value);
        }
    }

    fn seconds(&self) -> f64 {
        self.nanoseconds as f64 * 1e-9
    }

    fn per_s(&self, counter: usize) -> f64 {
        if self.nanoseconds == 0 { 0.0 } else { self.sums[counter] as f64 / self.seconds() }
    }

    /// A part of a whole, in per cent.
    fn percent(&self, part: usize, whole: usize) -> f64 {
        100.0 * self.sums[part] as f64 / self.sums[whole].max(1) as f64
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes_per_s, messages_per_s) = (self.per_s(BYTES), self.per_s(MESSAGES));
        let written = self.percent(WRITTEN_BYTES, BYTES);
        let [eager, crossing] = [EAGER, UNEXPECTED].map(|part| self.percent(part, MESSAGES));
        let Counted { nodes, ranks, .. } = self;
        if self.json {
            write!(out, "{{\"job\":{{\"ranks\":{ranks},\"nodes\":{nodes},\"seconds\":{:.6}", self.seconds())?;
            for (name, sum) in COUNTERS.iter().zip(&self.sums) {
                write!(out, ",\"{name}\":{sum}")?;
            }
            return write!(
                out,
                ",\"bytes_per_s\":{bytes_per_s:.1},\"messages_per_s\":{messages_per_s:.1},\
                 \"written_percent\":{written:.2},\"eager_percent\":{eager:.2},\
                 \"crossing_percent\":{crossing:.2}}}}}"
            );
        }
        let plural = |count: &u32| if *count == 1 { "" } else { "s" };
        write!(
            out,
            "tutti: the whole job, {ranks} rank{} on {nodes} node{}, {:.3} s: {:.4} MB/s, {messages_per_s:.1} \
             messages/s; {written:.2} % of the bytes were written where their receive had come first; of the \
             messages {eager:.2} % were eager, {crossing:.2} % came before their receive",
            plural(ranks),
            plural(nodes),
            self.seconds(),
            bytes_per_s / 1e6,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of one rank that has sent 10 messages of 1000 bytes, 600 of them written, 4 eager, 1 crossing.
    fn node(nanoseconds: u64, json: bool) -> Counted {
        let mut counted = Counted::of_node(json);
        counted.add_rank(&[10, 1000, 4, 0, 0, 6, 600, 6, 0, 1, 999, 0, 0, nanoseconds]);
        counted
    }

    #[test]
    fn counted_nodes_are_added_and_their_longest_time_counts() {
        let mut job = node(2_000_000_000, false);
        job.add(&node(1_000_000_000, false));
        assert_eq!(
            job.to_string(),
            "tutti: the whole job, 2 ranks on 2 nodes, 2.000 s: 0.0010 MB/s, 10.0 messages/s; 60.00 % of the bytes \
             were written where their receive had come first; of the messages 40.00 % were eager, 10.00 % came \
             before their receive"
        );
    }

    #[test]
    fn counted_sums_of_any_size_do_not_overflow_and_nothing_is_no_division_by_zero() {
        let mut most = Counted::of_node(false);
        most.add_rank(&[u64::MAX; COUNTERS.len() + 1]);
        most.add(&most.clone());
        assert_eq!(most.sums, [u64::MAX; COUNTERS.len()]);
        let none = Counted::of_node(true).to_string();
        assert!(none.contains("\"bytes_per_s\":0.0") && none.contains("\"written_percent\":0.00"), "{none}");
        let none: serde_json::Value = serde_json::from_str(&none).expect("it is JSON");
        assert_eq!(none["job"]["nodes"], 1);
    }
}
