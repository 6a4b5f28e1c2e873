//! Turns as they are seen from outside: by looking at the cgroups of jobs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tutti_testkit::{Need, skip};

use crate::harness::{Running, await_that, cgroup_of};

/// Jobs whose turns are counted.
pub struct Turns {
    jobs: Vec<(BTreeSet<PathBuf>, bool)>,
    /// How often one of them was seen to begin a turn: at least so many there were.
    pub seen: u64,
}

impl Turns {
    /// Of these jobs, whose ranks run or will soon; none where no cgroup can be made, with a line.
    #[track_caller]
    pub fn of(jobs: &[&Running]) -> Option<Self> {
        if !tutti_os::cgroup::ability().freezes {
            skip(Need::Cgroup, "no cgroup can be made here");
            return None;
        }
        // A job has other processes before it has ranks.
        let mut all = Vec::new();
        await_that("each job has a rank in a cgroup", || {
            all = jobs.iter().map(|job| groups(job)).collect();
            !all.iter().any(BTreeSet::is_empty)
        });
        Some(Turns { jobs: all.into_iter().map(|groups| (groups, false)).collect(), seen: 0 })
    }

    /// Looks once.
    pub fn look(&mut self) {
        for (groups, was_frozen) in &mut self.jobs {
            let is_frozen = groups.first().is_some_and(|group| is_frozen(group));
            self.seen += u64::from(*was_frozen && !is_frozen);
            *was_frozen = is_frozen;
        }
    }

    /// Looks until so many more have been seen.
    #[track_caller]
    pub fn await_more(&mut self, more: u64, limit: Duration) {
        let (start, end) = (Instant::now(), self.seen + more);
        while self.seen < end {
            assert!(start.elapsed() < limit, "{more} turns were awaited, {} came", self.seen + more - end);
            std::thread::sleep(Duration::from_millis(1));
            self.look();
        }
    }

    /// Whether a job stands still on all its nodes.
    pub fn is_frozen(&self, job: usize) -> bool {
        self.jobs[job].0.iter().all(|group| is_frozen(group))
    }

    /// Whether it stands still on any.
    pub fn is_frozen_anywhere(&self, job: usize) -> bool {
        self.jobs[job].0.iter().any(|group| is_frozen(group))
    }
}

/// The cgroups of a job, one a node, that daemons freeze.
pub fn groups(job: &Running) -> BTreeSet<PathBuf> {
    let of = |pid| {
        let inner = cgroup_of(pid)?;
        let named = |path: &&Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tutti-job-"))
        };
        inner.ancestors().find(named).map(PathBuf::from)
    };
    job.mark.processes().into_iter().filter_map(of).collect()
}

fn is_frozen(group: &Path) -> bool {
    std::fs::read_to_string(group.join("cgroup.events")).is_ok_and(|text| text.contains("frozen 1"))
}
