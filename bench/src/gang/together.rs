//! Two jobs of one of SCore-D's programs by turns, in one common time: what real switches cost, where one
//! goes and the other comes.

use std::time::Duration;

use super::cluster::Cluster;
use super::pairs::begin_at;
use crate::{
    child::Running,
    figures::Line,
    mpis::{Kind, Places},
};

/// Work that jobs of a program get done in a time that all of them have in common.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// Program that has them.
    pub program: &'a str,
    /// Ranks, one a node.
    pub nodes: u32,
    /// Word that chooses one of them.
    pub what: &'a str,
    /// Name of the figure in its output.
    pub figure: &'a str,
    /// The time, in ms.
    pub budget_ms: u32,
}

/// All jobs are launched by then; a job that is not says so, and all are begun again with twice the time.
const LAUNCH_MS: i64 = 1000;
const LAUNCH_MS_MAX: i64 = 8000;
const LIMIT: Duration = Duration::from_secs(60);

impl Work<'_> {
    /// The figure of one job, in a time of its own.
    pub fn alone(self, places: &Places, cluster: &Cluster) -> Result<f64, String> {
        let args = [self.what.to_owned(), "--budget-ms".into(), self.budget_ms.to_string()];
        let program = places.programs(Kind::Tutti).join(self.program);
        let stdout = cluster
            .run(self.nodes, &program, &args, LIMIT)
            .map_err(|why| format!("{}, {}: {why}", self.what, cluster.name()))?;
        let value = stdout.lines().filter_map(Line::parse).find_map(|line| line.figure(self.figure));
        value.ok_or_else(|| format!("{}: no figure in its output", self.what))
    }

    /// The figures of so many jobs at once.
    pub fn of(self, places: &Places, cluster: &Cluster, jobs: usize) -> Result<Vec<f64>, String> {
        let mut launch_ms = LAUNCH_MS;
        loop {
            let at = begin_at(launch_ms);
            let args =
                [self.what.to_owned(), "--budget-ms".into(), self.budget_ms.to_string(), "--at".into(), at];
            let program = places.programs(Kind::Tutti).join(self.program);
            let start = |_| cluster.start(self.nodes, self.nodes, &program, &args);
            let running: Vec<Running> = (0..jobs).map(start).collect::<Result<_, _>>()?;
            // All of them come to their ends before the first error is looked at.
            let ended: Vec<_> = running.into_iter().map(|job| cluster.finish(job, LIMIT)).collect();
            let ended = ended
                .into_iter()
                .collect::<Result<Vec<_>, _>>()
                .map_err(|why| format!("{}: {why}", self.what))?;
            let lines = || ended.iter().filter_map(|ran| ran.stdout.lines().find_map(Line::parse));
            if launch_ms < LAUNCH_MS_MAX && lines().any(|line| line.figure("late").is_some()) {
                launch_ms *= 2;
                continue;
            }
            let figures: Vec<f64> = lines().filter_map(|line| line.figure(self.figure)).collect();
            let whole = figures.len() == jobs;
            return whole.then_some(figures).ok_or_else(|| format!("{}: no figure in its output", self.what));
        }
    }
}
