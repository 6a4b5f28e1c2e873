//! The end of a job by itself: what ranks have left behind that still holds the job's output gets time to
//! write what it has left.
//!
//! ```text
//! a rank ends the job: all are killed but filters of that rank and of dead ones, which read the end of file
//! all ranks dead:      the output is at its end, or nothing holds it      -> finish
//!                      nothing was written or worked for long enough, or the user is in a hurry
//!                                                                         -> one line, the rest is killed
//! ```
//!
//! A job that its user ends (a signal, `tutti kill`, a time limit) waits for nothing.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, getpgid, getpid, kill_process};

use super::Starter;
use crate::holders::{self, Holder};
use crate::readiness::now_ns;
use tutti_os::descendants;
use tutti_protocol::wire::Report;

/// Between two looks.
const LOOK_NS: u64 = 20_000_000;
/// A filter that neither writes nor works for so long is not waited for any more.
const FILTER_NS: u64 = 10_000_000_000;
/// The same of others, which nothing tells that their rank has ended.
const OTHER_NS: u64 = 3_000_000_000;
/// Time after which what is still at work is not waited for: with filters, and without.
const FILTERS_MAX_NS: u64 = 60_000_000_000;
const OTHERS_MAX_NS: u64 = 6_000_000_000;
/// Descendants that are told apart when a rank ends the job.
const PROCESSES_MAX: usize = 1 << 14;

impl Starter {
    /// Waits for what still holds the output of dead ranks.
    pub(super) fn linger(&mut self) {
        let begun_ns = now_ns();
        let (mut work, mut worked_ns) = (None, begun_ns);
        while !self.hurried && self.is_reachable() && !self.parts.streams.are_at_end() {
            let found = holders::find(&self.parts.streams, &self.parts.inputs);
            if found.is_empty() {
                break;
            }
            let now_ns = now_ns();
            let filters = found.iter().filter(|holder| holder.is_filter);
            let (has_filters, seen) =
                (filters.clone().count() > 0, filters.map(|holder| holder.worked).sum::<u64>());
            let seen = Some((seen, self.parts.streams.last_read_ns()));
            if seen != work {
                (work, worked_ns) = (seen, now_ns);
            }
            let (patience_ns, max_ns) =
                if has_filters { (FILTER_NS, FILTERS_MAX_NS) } else { (OTHER_NS, OTHERS_MAX_NS) };
            if now_ns - worked_ns >= patience_ns || now_ns - begun_ns >= max_ns {
                self.give_up(&found, now_ns - begun_ns);
                break;
            }
            self.linger_ns = Some(now_ns + LOOK_NS);
            self.turn();
        }
        self.linger_ns = None;
    }

    fn give_up(&mut self, holders: &[Holder], after_ns: u64) {
        let text = format!(
            "{} still held the output of ranks {:.1} s after these had ended: killed, and what was not written is lost",
            holders::names(holders),
            after_ns as f64 / 1e9
        );
        self.report(&Report::Warning(text));
    }

    /// The job has ended itself, here or on another node.
    pub(super) fn end_but_filters(&mut self) {
        if !self.ending_reported {
            self.parts.ranks.set_ending(1);
            self.kill_but_filters(None);
        }
        if self.suspended {
            self.resume();
        }
    }

    /// Kills all but the filters of a rank that has ended the job, and of those that are dead: they may have
    /// what these have written last.
    pub(super) fn kill_but_filters(&mut self, ender: Option<u32>) {
        let index = ender.and_then(|rank| self.parts.ranks.index_of(rank));
        let group = index.and_then(|at| self.parts.ranks.pid_of(at as u32));
        // What filters start from here on is not killed.
        let all = descendants::some_of(getpid(), PROCESSES_MAX);
        let mut spared = holders::find(&self.parts.streams, &self.parts.inputs);
        spared.retain(|holder| {
            holder.is_filter
                && (Some(holder.group.cast_unsigned()) == group
                    || self.parts.ranks.is_group_of_dead(holder.group))
                && !self.parts.ranks.has_process(holder.pid)
        });
        let Some(all) = all.filter(|_| !spared.is_empty() && !self.reaped) else { return self.kill_all() };
        self.announce_ending();
        let server = self.pmix_server();
        let is_spared = |pid: &Pid| Some(*pid) == server || spared.iter().any(|holder| holder.pid == *pid);
        for pid in all.into_iter().filter(|pid| !is_spared(pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        self.parts.ranks.kill_processes();
    }

    /// Kills the ranks that have ended while others go on, with what they have started, but not their
    /// filters.
    pub(super) fn kill_ended(&self) {
        let (processes, groups) = self.parts.ranks.ended();
        if groups.is_empty() || self.reaped {
            return;
        }
        let all = descendants::some_of(getpid(), PROCESSES_MAX).unwrap_or_default();
        let below = processes.iter().filter(|pid| all.contains(pid));
        let below = below.filter_map(|pid| descendants::some_of(*pid, PROCESSES_MAX)).flatten();
        let mut found: HashSet<Pid> = below.collect();
        // The parents of some may be dead.
        let is_in_group = |pid: &Pid| getpgid(Some(*pid)).is_ok_and(|group| groups.contains(&group));
        found.extend(all.into_iter().filter(is_in_group));
        let mut spared = holders::find(&self.parts.streams, &self.parts.inputs);
        spared.retain(|holder| {
            holder.is_filter && found.contains(&holder.pid) && !self.parts.ranks.has_process(holder.pid)
        });
        for pid in found.iter().filter(|pid| !spared.iter().any(|holder| holder.pid == **pid)) {
            let _ = kill_process(*pid, Signal::KILL);
        }
        self.parts.ranks.kill_ended(spared.is_empty());
    }
}
