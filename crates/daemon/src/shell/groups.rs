//! The cgroups of jobs whose ranks run here, for the switch thread: what the kernel says of the ranks'
//! processes.
//!
//! Which processes are ranks a starter or an `mpiexec` says, and both are the user's. So a pid counts only if
//! it is of a living process of that user, and its cgroup only if the user may freeze it himself
//! ([`JobGroup::of_rank`]).

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use tokio::time::Instant;
use tutti_os::cgroup::{JobGroup, Limits, PartGroup, UserLimit, is_before, limit_users};
use tutti_os::stat::owner;

use crate::gang::fetcher::{Errand, Handover};
use crate::gang::page::starters_of;
use tutti_os::stderr::print_line;
use tutti_protocol::size;
use tutti_protocol::wire::Job;

use super::clock::now;
use super::filling::Filled;
use super::{JobId, Shell};
use crate::core::action::Residents;
use crate::core::event::Event;
use crate::gang::{Command, Filling, LocalRanks};

/// Time for which the ranks of a job run before they have turns, if what their starters have is not found
/// before.
const PAGES_MAX: Duration = Duration::from_millis(250);
/// Ranks of a job that are looked at, at most, also if an `mpiexec` says that it has more.
const RANKS_MAX: usize = 4096;

impl Shell {
    /// The ranks of a job run here.
    pub(super) fn send_residents(&mut self, job: JobId, residents: Residents) {
        let Residents { number, user, account, mut pids, bound, fill } = residents;
        pids.truncate(RANKS_MAX);
        let starters = starters_of(&pids, user);
        let group = self.starters.get(&job).and_then(|starter| starter.group.as_ref());
        let made = group.and_then(|group| group.job_group().ok());
        let place = match (fill, group) {
            (true, Some(group)) if group.enforced().behind => Filling::Behind,
            (true, _) => Filling::Unable,
            (false, _) => {
                let mut ranks = pids.iter().filter_map(|pid| Pid::from_raw(*pid as i32));
                if ranks.all(is_before) { Filling::Before } else { Filling::Beside }
            }
        };
        let groups = made.map_or_else(|| groups_of(&pids, user, number), |group| vec![group]);
        let groups: Vec<_> = groups.into_iter().map(Arc::new).collect();
        let ranks = Box::new(LocalRanks { user, account, groups, pids, starters, bound, place });
        self.meters.begin(job, &ranks);
        self.fill_trials.begin(job, &ranks);
        self.lending.begin(job, &ranks.starters);
        let errand = Errand { job, user: ranks.user, starters: ranks.starters.clone() };
        if self.fetcher.fetch(errand, ranks.account) {
            // The job takes its turns whether its pages are found or not, but knows of the first if they are.
            self.unsent.insert(job, (ranks, Instant::now() + PAGES_MAX));
        } else {
            self.switcher.send(Command::RanksStarted(job, ranks));
        }
    }
}

impl Shell {
    /// Sends the pages of a job's starters, which have been found, to the switch thread.
    pub(super) fn send_pages(&mut self, job: JobId, pages: Handover) {
        if let Some((ranks, _)) = self.unsent.remove(&job) {
            self.switcher.send(Command::RanksStarted(job, ranks));
        }
        self.switcher.send(Command::Pages(job, pages));
    }

    /// When some ranks have waited for their pages for long enough.
    pub(super) fn unsent_until(&self) -> Option<Instant> {
        self.unsent.values().map(|(_, until)| *until).min()
    }

    /// Sends off the ranks that have waited for their pages for long enough.
    pub(super) fn send_overdue(&mut self) {
        let now = Instant::now();
        let (overdue, unsent) =
            std::mem::take(&mut self.unsent).into_iter().partition(|(_, (_, until))| *until <= now);
        self.unsent = unsent;
        for (job, (ranks, _)) in overdue {
            self.switcher.send(Command::RanksStarted(job, ranks));
        }
    }
}

impl Shell {
    /// Looks what fillers cost, if it is time.
    pub(super) fn try_fillers(&mut self) {
        self.fill_trials.handle_time();
        while let Some(filled) = self.fill_trials.poll() {
            match filled {
                Filled::MayFill(job, may_fill) => self.switcher.send(Command::MayFill(job, may_fill)),
                Filled::PutOut(job, put_out) => {
                    if let Some(put_out) = put_out {
                        tracing::info!("job {job} is {put_out}");
                    }
                    self.core.handle(now(), Event::PutOut(job, put_out));
                }
            }
        }
    }

    /// Makes the cgroups of a part that is about to begin. For root's daemon; none where it cannot: then
    /// there are no limits, and the job is stopped by signals.
    pub(super) fn make_group(&mut self, described: &Job, uid: u32, behind: bool) -> Option<PartGroup> {
        let wanted = self.core.memory_per_node(uid);
        let made = self.try_make_group(described, uid, behind, wanted.as_ref().map(|(bytes, _)| *bytes));
        let failure = match &made {
            Ok(group) => group.user_memory_failure(),
            Err(why) => Some(why.clone()),
        };
        if let (Some((_, place)), Some(why)) = (wanted, failure) {
            self.complain_of_user_limits(&place, why);
        }
        made.ok()
    }

    fn try_make_group(
        &mut self,
        described: &Job,
        uid: u32,
        behind: bool,
        memory_per_node: Option<u64>,
    ) -> Result<PartGroup, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("the daemon is not root's".into());
        }
        let user = UserLimit::new(uid, self.daemon_number(), memory_per_node);
        // A filler is behind all only in the daemon's own cgroup.
        let user = Some(user).filter(|user| !behind || user.is_limited());
        let memory_bytes = described.memory.as_ref().map(|limit| limit.bytes);
        let limits = Limits { memory_bytes, pids_max: self.settings.node.pids_max, behind };
        let made = PartGroup::create(&described.name(), user.as_ref(), limits);
        made.map_err(|error| error.to_string()).inspect_err(|why| self.complain_of_groups(why))
    }

    /// Differs between the daemons of a machine, and is the same for one that is started again.
    fn daemon_number(&self) -> u64 {
        tutti_protocol::settings::version(&self.settings.folders.parts.to_string_lossy())
    }

    /// Users who have jobs here are held to the limits that hold now.
    pub(super) fn limit_users(&mut self) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let wanted = |uid| self.core.memory_per_node(uid);
        let held = limit_users(self.daemon_number(), |uid| Some(wanted(uid)?.0));
        for (uid, held) in held {
            match (self.core.memory_per_node(uid), held) {
                (Some((bytes, place)), Ok(Some(held))) if held > bytes => {
                    let bytes = size::text(bytes);
                    tracing::info!("the jobs of user {uid} have more than {bytes}: it holds later ({place})");
                }
                (Some((_, place)), Err(error)) => self.complain_of_user_limits(&place, error.to_string()),
                _ => {}
            }
        }
    }

    /// Once for each reason, of which the kernel has few.
    fn complain_of_user_limits(&mut self, place: &str, why: String) {
        if !self.without_user_limits.contains(&why) {
            let name = &self.settings.node.name;
            print_line(format_args!("tuttid {name}: memory_per_node is not held here: {why} ({place})"));
            self.without_user_limits.insert(why);
        }
    }

    /// Once: it is the same for every job.
    pub(super) fn complain_of_groups(&mut self, why: &str) {
        if !std::mem::replace(&mut self.without_groups, true) {
            let name = &self.settings.node.name;
            print_line(format_args!(
                "tuttid {name}: no cgroups for jobs, which have no limits and stop by signals: {why}"
            ));
        }
    }
}

/// The cgroups that these ranks of a user's job are in; none if one of them is in none.
fn groups_of(pids: &[u32], user: u32, number: u64) -> Vec<JobGroup> {
    let mut groups = Vec::new();
    for rank in pids.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        match JobGroup::of_rank(rank, user, number) {
            Some((group, true)) => return vec![group],
            Some((group, false)) if groups.contains(&group) => {}
            Some((group, false)) => groups.push(group),
            // Who is gone is in none.
            None if owner(rank) != Some(user) => {}
            None => return Vec::new(),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use tutti_os::cgroup::part_name;
    use tutti_os::cgroup::{Cgroup, INNER, name};

    use super::*;

    #[test]
    fn groups_hold_all_living_ranks_or_none() {
        let job = 0xabce_0000_0000_0000 + u64::from(std::process::id());
        let user = rustix::process::geteuid().as_raw();
        let make = |node| Cgroup::create(&name(&part_name(job, Some(node))));
        let Some([one, two]) = make(0).zip(make(1)).map(|(one, two)| [one, two]) else {
            return tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
        };
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut ranks = [start(), start(), start()];
        for (rank, group) in ranks.iter().zip([&one, &one, &two]) {
            std::fs::write(group.path().unwrap().join(INNER).join("cgroup.procs"), rank.id().to_string())
                .unwrap();
        }
        let pids = ranks.each_ref().map(std::process::Child::id);
        assert_eq!(groups_of(&pids, user, job).len(), 2);
        assert!(groups_of(&pids, user + 1, job).is_empty(), "they are not that user's");
        let mut outside = start();
        let all = [&pids[..], &[outside.id()]].concat();
        assert!(groups_of(&all, user, job).is_empty(), "one would not be frozen");
        outside.kill().unwrap();
        outside.wait().unwrap();
        assert_eq!(groups_of(&all, user, job).len(), 2, "it is gone");
        ranks.iter_mut().for_each(|rank| {
            rank.kill().unwrap();
            rank.wait().unwrap();
        });
    }
}
