//! The lines that the measuring programs print, and what is kept of them over the rounds.
//!
//! `rtt bytes=4 ranks=2 median_ns=175.2 p99_ns=201.0 n=4096`: a name, then key=value pairs. Keys that end in
//! a unit are figures; the others say what was measured.

use std::collections::BTreeMap;

/// Line of a measuring program.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The program's name.
    pub name: String,
    /// Every pair, in no order.
    pub pairs: BTreeMap<String, String>,
}

impl Line {
    /// Reads a line; anything that is not one (a library's warning, an empty line) gives nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let name = words.next()?.to_owned();
        let pairs: BTreeMap<String, String> = words
            .map(|word| word.split_once('=').map(|(k, v)| (k.into(), v.into())))
            .collect::<Option<_>>()?;
        (!pairs.is_empty()).then_some(Self { name, pairs })
    }

    /// Whether all of `what` (`key=value` words) stands in the line.
    pub fn matches(&self, what: &str) -> bool {
        what.split_whitespace().all(|word| {
            word.split_once('=').is_some_and(|(key, value)| self.pairs.get(key).is_some_and(|v| v == value))
        })
    }

    /// A figure by its key.
    pub fn figure(&self, key: &str) -> Option<f64> {
        self.pairs.get(key)?.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// The middle of some values; of two middles their mean. None of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// A figure of one MPI in one row: one value per round in which it could be had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The rounds' figures (a median or mean over a run's batches), by round.
    pub rounds: BTreeMap<usize, f64>,
    /// The rounds' 99th percentiles, by round.
    pub p99: BTreeMap<usize, f64>,
    /// Why a round has no figure: the last reason.
    pub failure: Option<String>,
}

impl Series {
    /// The median over the rounds.
    pub fn median(&self) -> Option<f64> {
        median(&self.rounds.values().copied().collect::<Vec<_>>())
    }

    /// The median over the rounds of the 99th percentiles.
    pub fn p99(&self) -> Option<f64> {
        median(&self.p99.values().copied().collect::<Vec<_>>())
    }

    /// The median over the rounds of ours / theirs, each pair from the same round, so that what slows the
    /// machine for a while slows both sides of a pair.
    pub fn ratio_to(&self, other: &Self) -> Option<f64> {
        let pairs = self.rounds.iter().filter_map(|(round, ours)| Some(ours / other.rounds.get(round)?));
        median(&pairs.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_parsed_from_a_line() {
        let line = Line::parse("rtt bytes=4 ranks=2 median_ns=175.5 n=10").unwrap();
        assert!(line.matches("bytes=4 ranks=2") && line.matches(""));
        assert!(!line.matches("bytes=40") && !line.matches("size=4"));
        assert_eq!(line.figure("median_ns"), Some(175.5));
        assert_eq!(line.figure("p99_ns"), None);
    }

    #[test]
    fn figures_ignore_other_output() {
        for text in ["", "WARNING: no network", "rtt", "rtt bytes=4 and more"] {
            assert_eq!(Line::parse(text), None, "{text}");
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratio_pairs_the_rounds() {
        let series = |values: &[(usize, f64)]| Series {
            rounds: values.iter().copied().collect(),
            ..Series::default()
        };
        // Round 1 was slow for both; round 2 is missing on one side.
        let ours = series(&[(0, 1.0), (1, 10.0), (2, 100.0)]);
        let theirs = series(&[(0, 2.0), (1, 20.0)]);
        assert_eq!(ours.ratio_to(&theirs), Some(0.5));
        assert_eq!(ours.ratio_to(&Series::default()), None);
    }
}
