//! The rows of the table: where each figure comes from, what the machine's limit is, and what ours must
//! reach.

mod list;
mod shared;

use std::collections::BTreeMap;

use crate::{
    cases::SHORT_STEP_US,
    figures::{Line, Series, median},
    mpis::Kind,
};

pub use list::all;

/// Goal that ours must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// A figure in the row's unit.
    Reach(f64),
    /// Factor by which ours must be better than the best peer in this run (1: no worse).
    Beat(f64),
    /// Shown, not judged.
    Shown,
}

/// The machine's limit in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A line of the `limits` program, selected by key=value words; its median.
    Line(&'static str),
    /// Some times such a line.
    Times(f64, &'static str),
    /// Work that this many ranks have to do on all cores, per step of [`SHORT_STEP_US`], and the switches
    /// between them.
    Work(usize),
    /// Figure that cannot be undercut, by reasoning.
    Fixed(f64),
    /// None is known.
    Unknown,
}

/// A switch between two processes on one core.
const SWITCH: &str = "what=switch";
/// Where a row's figure comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// A case, key=value words that select its line, and the figure's key.
    Line(&'static str, &'static str, &'static str),
    /// The worse of a case's jobs, divided by the same figure of another case.
    Ratio(&'static str, &'static str, &'static str),
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the row in options and results.
    pub id: String,
    /// Description of what the row shows.
    pub text: String,
    /// The unit that is shown; `M/s`, `GB/s` and `of it` are better when higher, all others when lower.
    pub unit: &'static str,
    /// Where the figure comes from.
    pub source: Source,
    /// The machine's limit.
    pub limit: Limit,
    /// Goal that ours must reach.
    pub goal: Goal,
}

impl Row {
    /// Whether more is better.
    pub fn higher_is_better(&self) -> bool {
        matches!(self.unit, "M/s" | "GB/s" | "of it")
    }

    /// From the program's unit (the key's end) to the row's.
    fn scale(&self) -> f64 {
        match self.unit {
            "us" => 1e-3,
            "ms" => 1e-6,
            _ => 1.0,
        }
    }

    /// The cases that must have run for this row.
    pub fn cases(&self) -> Vec<&'static str> {
        match self.source {
            Source::Line(case, ..) => vec![case],
            Source::Ratio(over, under, _) => vec![over, under],
        }
    }

    /// The figures of one MPI.
    pub fn series(&self, results: &Results, kind: Kind) -> Series {
        let mut series = Series::default();
        match self.source {
            Source::Line(case, select, key) => {
                let p99 = p99_key(key);
                for (round, run) in results.rounds(case, kind) {
                    match run {
                        Err(why) => series.failure = Some(why.clone()),
                        Ok(lines) => {
                            let line = lines.iter().find(|line| line.matches(select));
                            if let Some(value) = line.and_then(|line| line.figure(key)) {
                                series.rounds.insert(round, value * self.scale());
                            } else {
                                series.failure = Some("no figure".into());
                            }
                            if let Some(value) = line.and_then(|line| line.figure(&p99)) {
                                series.p99.insert(round, value * self.scale());
                            }
                        }
                    }
                }
            }
            Source::Ratio(over, under, key) => {
                let worst =
                    |lines: &[Line]| lines.iter().filter_map(|line| line.figure(key)).reduce(f64::max);
                let alone: Vec<f64> =
                    results.rounds(under, kind).filter_map(|(_, run)| worst(run.as_ref().ok()?)).collect();
                for (round, run) in results.rounds(over, kind) {
                    match (run, median(&alone)) {
                        (Err(why), _) => series.failure = Some(why.clone()),
                        (Ok(lines), Some(alone)) => {
                            if let Some(worst) = worst(lines) {
                                series.rounds.insert(round, worst / alone);
                            }
                        }
                        (Ok(_), None) => series.failure = Some("no figure alone".into()),
                    }
                }
            }
        }
        series
    }

    /// The machine's limit in the row's unit.
    pub fn limit(&self, results: &Results) -> Option<f64> {
        match self.limit {
            Limit::Unknown => None,
            Limit::Fixed(value) => Some(value),
            Limit::Work(ranks) => {
                let each = ranks as f64 / results.cores as f64;
                let switch = self.limit_line(results, SWITCH).unwrap_or(0.0);
                Some(SHORT_STEP_US * each + switch * (each - 1.0).max(0.0))
            }
            Limit::Line(select) => self.limit_line(results, select),
            Limit::Times(times, select) => Some(times * self.limit_line(results, select)?),
        }
    }

    fn limit_line(&self, results: &Results, select: &str) -> Option<f64> {
        let found = results.limits.iter().filter_map(|lines| {
            let line = lines.iter().find(|line| line.matches(select))?;
            line.figure("median_ns").map(|ns| ns * self.scale()).or_else(|| line.figure("median_gbs"))
        });
        median(&found.collect::<Vec<_>>())
    }
}

/// A mean's tail is that of its batches.
fn p99_key(key: &str) -> String {
    key.replace("median_", "p99_").replace("mean_", "p99_")
}

/// A run's lines, or why there are none.
pub type Run = Result<Vec<Line>, String>;

/// All that was measured.
#[derive(Default)]
pub struct Results {
    /// By case, MPI and round.
    pub runs: BTreeMap<(String, Kind, usize), Run>,
    /// The lines of the `limits` program, by round.
    pub limits: Vec<Vec<Line>>,
    /// Cores of this machine that were used.
    pub cores: usize,
}

impl Results {
    fn rounds(&self, case: &str, kind: Kind) -> impl Iterator<Item = (usize, &Run)> {
        self.runs
            .iter()
            .filter(move |((c, k, _), _)| c == case && *k == kind)
            .map(|((_, _, round), run)| (*round, run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    #[test]
    fn rows_have_unique_names_and_a_case() {
        let cases: Vec<_> = cases::all().iter().map(|case| case.id).collect();
        let mut names = Vec::new();
        for row in all() {
            assert!(row.cases().iter().all(|case| cases.contains(case)), "{}", row.id);
            names.push(row.id);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn rows_use_every_case() {
        let used: Vec<_> = all().iter().flat_map(Row::cases).collect();
        for case in cases::all() {
            assert!(used.contains(&case.id), "{}", case.id);
        }
    }

    #[test]
    fn ratio_of_two_jobs_is_the_worse_one() {
        let line = |ns: &str| super::super::figures::Line::parse(&format!("steps mean_ns={ns}")).unwrap();
        let mut results = Results::default();
        results.runs.insert(("job".into(), Kind::Tutti, 0), Ok(vec![line("50")]));
        results.runs.insert(("two_jobs".into(), Kind::Tutti, 0), Ok(vec![line("90"), line("110")]));
        let row = all().into_iter().find(|row| row.id == "job/two").unwrap();
        assert_eq!(row.series(&results, Kind::Tutti).median(), Some(2.2));
    }
}
