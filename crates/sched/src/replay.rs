//! A workload played on the scheduler itself, without nodes: when each job would have begun and ended.
//!
//! Nodes have one slot each, a switch costs nothing, all jobs are one user's. `fifo` is the matrix with one
//! row in which nobody passes anybody. `easy` is the same with backfilling by estimates (the queue stands
//! here, since the scheduler asks nobody how long a job will take).
//!
//! **Rounds are skipped.** Between two events (a job comes, a job ends) the rows take turns. When a round has
//! given every job's account the same in virtual time as any other's, and ends in the row in which it began,
//! all rounds are alike: as many as there is time for are put on the accounts at once.

use std::collections::{BTreeMap, VecDeque};

use crate::matrix::Policy;
use crate::scheduler::{Config, Event, Scheduler};
use crate::types::{JobId, NodeId};
use crate::{Demand, WEIGHT_DEFAULT};

/// A job of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// When it is submitted, in ns.
    pub submit_ns: u64,
    /// How long it runs alone, in ns; not 0.
    pub run_ns: u64,
    /// How long its user says that it runs, in ns.
    pub estimate_ns: u64,
    /// Its nodes.
    pub nodes: u32,
}

/// How jobs are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// First come, first served; each alone on its nodes.
    Fifo,
    /// The same, and later jobs go before the first if they do not delay it.
    Easy,
    /// Turns, as the scheduler gives them.
    Turns(Policy),
}

/// How to play it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Nodes of one slot.
    pub nodes: u32,
    /// How jobs are placed.
    pub discipline: Discipline,
    /// How long a row runs, in ns.
    pub slice_ns: u64,
    /// Rounds are skipped while nothing changes.
    pub skip: bool,
}

/// What became of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// When it had nodes.
    pub begin_ns: u64,
    /// When it had run.
    pub end_ns: u64,
}

/// What became of all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// In the order of the jobs; none: it is wider than the machine.
    pub outcomes: Vec<Option<Outcome>>,
    /// Slot time that nobody had while a job could not run, in slot-ns.
    pub lost_ns: u128,
    /// Changes of rows.
    pub switches: u64,
    /// The most rows at once.
    pub rows: usize,
}

/// Plays a workload; jobs in the order of their submission.
///
/// # Panics
/// When jobs are not in that order, or the slice is out of range.
#[must_use]
pub fn play(jobs: &[Job], options: Options) -> Report {
    assert!(jobs.is_sorted_by_key(|job| job.submit_ns), "jobs come in the order of their submission");
    let mut player = Player::new(jobs, options);
    while player.step() {}
    player.report
}

/// A job that has nodes.
#[derive(Clone, Copy, Debug)]
struct Running {
    begin_ns: u64,
    /// Of its service when all of it is done.
    run_ns: u64,
    estimate_end_ns: u64,
    nodes: u32,
}

struct Player<'a> {
    jobs: &'a [Job],
    options: Options,
    scheduler: Scheduler,
    now_ns: u64,
    /// The next that comes.
    next: usize,
    /// Those that the scheduler has not been asked for.
    held: VecDeque<usize>,
    running: BTreeMap<JobId, Running>,
    free: u32,
    /// When the first of those that run ends, if nothing else happens before.
    end_ns: u64,
    round: Option<Round>,
    report: Report,
}

/// The accounts when a round began.
struct Round {
    at_ns: u64,
    row: Vec<JobId>,
    virtual_ns: Vec<(JobId, u64, u64)>,
    switches: u64,
    lost_ns: u128,
    turns: usize,
}

fn number(at: usize) -> JobId {
    JobId(at as u64 + 1)
}

impl<'a> Player<'a> {
    fn new(jobs: &'a [Job], options: Options) -> Self {
        let (policy, rows_max, bypass_max) = match options.discipline {
            Discipline::Turns(policy) => (policy, 256, 16),
            Discipline::Fifo | Discipline::Easy => (Policy::RoundRobin, 1, 0),
        };
        let waiting_max = jobs.len() + 1;
        let config = Config {
            slice_ns: options.slice_ns,
            policy,
            rows_max,
            bypass_max,
            waiting_max,
            ..Config::default()
        };
        let mut scheduler = Scheduler::new(config).expect("the slice is in range");
        (0..options.nodes).for_each(|node| scheduler.handle_node(0, NodeId(node), 1, 0));
        let report = Report { outcomes: vec![None; jobs.len()], ..Report::default() };
        Player {
            jobs,
            options,
            scheduler,
            now_ns: 0,
            next: 0,
            held: VecDeque::new(),
            running: BTreeMap::new(),
            free: options.nodes,
            end_ns: u64::MAX,
            round: None,
            report,
        }
    }

    /// To the next moment at which something happens; false: nothing is left.
    fn step(&mut self) -> bool {
        self.arrive();
        self.turn();
        let Some(next_ns) = self.next_ns() else { return false };
        let next_ns = next_ns.max(self.now_ns);
        self.note_lost(next_ns - self.now_ns);
        self.now_ns = next_ns;
        self.end_jobs();
        true
    }

    /// Jobs come.
    fn arrive(&mut self) {
        let mut is_new = false;
        while let Some(job) = self.jobs.get(self.next).filter(|job| job.submit_ns <= self.now_ns) {
            if (1..=self.options.nodes).contains(&job.nodes) && job.run_ns > 0 {
                is_new = true;
                match self.options.discipline {
                    Discipline::Easy => self.held.push_back(self.next),
                    _ => self.submit(self.next),
                }
            }
            self.next += 1;
        }
        if is_new {
            self.backfill();
            self.begin();
        }
    }

    fn submit(&mut self, at: usize) {
        let nodes = self.jobs[at].nodes;
        let demand = Demand { weight: WEIGHT_DEFAULT, ..Demand::any(nodes, nodes) };
        self.scheduler.submit(self.now_ns, number(at), &demand).expect("the machine could hold it");
    }

    /// Jobs that have been placed begin at once.
    fn begin(&mut self) {
        while let Some(Event::Placed(job, _)) = self.scheduler.poll_event() {
            self.scheduler.begin(self.now_ns, job);
            let Job { run_ns, estimate_ns, nodes, .. } = self.jobs[job.0 as usize - 1];
            let estimate_end_ns = self.now_ns.saturating_add(estimate_ns);
            self.running.insert(job, Running { begin_ns: self.now_ns, run_ns, estimate_end_ns, nodes });
            self.free = self.free.saturating_sub(nodes);
            self.round = None;
        }
    }

    /// EASY: the first that waits has a reservation; later ones begin if they do not delay it.
    fn backfill(&mut self) {
        while let Some(&first) = self.held.front().filter(|at| self.jobs[**at].nodes <= self.free) {
            self.held.pop_front();
            self.submit(first);
            self.begin();
        }
        let Some(&first) = self.held.front() else { return };
        let (mut shadow_ns, mut spare) = self.reservation(self.jobs[first].nodes);
        shadow_ns = shadow_ns.max(self.now_ns);
        let mut at = 1;
        while at < self.held.len() && self.free > 0 {
            let candidate = self.held[at];
            let job = self.jobs[candidate];
            let is_short = self.now_ns.saturating_add(job.estimate_ns) <= shadow_ns;
            if job.nodes <= self.free && (is_short || job.nodes <= spare) {
                if !is_short {
                    spare -= job.nodes;
                }
                self.held.remove(at);
                self.submit(candidate);
                self.begin();
            } else {
                at += 1;
            }
        }
    }

    /// When so many nodes are free by the estimates, and how many are left over then.
    fn reservation(&self, nodes: u32) -> (u64, u32) {
        let mut ends: Vec<(u64, u32)> =
            self.running.values().map(|running| (running.estimate_end_ns, running.nodes)).collect();
        ends.sort_unstable();
        let mut free = self.free;
        for (end_ns, freed) in ends {
            free += freed;
            if free >= nodes {
                return (end_ns, free - nodes);
            }
        }
        (u64::MAX, 0)
    }

    /// The scheduler switches rows, if it is time for that; whoever leaves is frozen at once.
    fn turn(&mut self) {
        let before = self.scheduler.running().to_vec();
        if self.scheduler.next_row(self.now_ns).is_some() {
            self.report.switches += 1;
            self.scheduler.freeze_at_once(&before);
        }
        self.report.rows = self.report.rows.max(self.scheduler.matrix.rows().len());
    }

    /// When something happens next; rounds up to then may have been skipped.
    fn next_ns(&mut self) -> Option<u64> {
        let arrival_ns = self.jobs.get(self.next).map(|job| job.submit_ns);
        if self.options.skip && self.scheduler.next_at_ns().is_some() {
            self.skip(arrival_ns);
        }
        let end_ns = self.scheduler.running().iter().map(|job| self.now_ns + self.left_ns(*job)).min();
        self.end_ns = end_ns.unwrap_or(u64::MAX);
        [arrival_ns, end_ns, self.scheduler.next_at_ns()].into_iter().flatten().min()
    }

    fn left_ns(&self, job: JobId) -> u64 {
        let served_ns = self.scheduler.account(job).map_or(0, |account| account.service_ns);
        self.running.get(&job).map_or(0, |running| running.run_ns.saturating_sub(served_ns))
    }

    /// Skips rounds that are all alike, up to the last one before something else happens.
    fn skip(&mut self, arrival_ns: Option<u64>) {
        if !self.is_new_slice() {
            return;
        }
        let row = self.scheduler.running();
        let accounts = || {
            let account = |job: &JobId| self.scheduler.account(*job).unwrap_or_default();
            let accounts = self.running.keys().map(move |job| (*job, account(job)));
            accounts.map(|(job, account)| (job, account.virtual_ns, account.service_ns)).collect::<Vec<_>>()
        };
        let Some(round) = &mut self.round else {
            self.round = Some(Round {
                at_ns: self.now_ns,
                row: row.to_vec(),
                virtual_ns: accounts(),
                switches: self.report.switches,
                lost_ns: self.report.lost_ns,
                turns: 0,
            });
            return;
        };
        round.turns += 1;
        if round.row != row {
            // It may not come back: the round begins anew now and then.
            if round.turns > 4 * self.running.len() + 4 {
                self.round = None;
            }
            return;
        }
        let Some(round) = self.round.take() else { return };
        let after = accounts();
        let period_ns = self.now_ns - round.at_ns;
        let gained: Vec<(JobId, u64, u64)> = after
            .iter()
            .zip(&round.virtual_ns)
            .map(|(after, before)| (after.0, after.1 - before.1, after.2 - before.2))
            .collect();
        let is_alike = gained.windows(2).all(|pair| pair[0].1 == pair[1].1);
        if period_ns == 0 || !is_alike {
            return;
        }
        let before_end = gained.iter().filter(|(.., served_ns)| *served_ns > 0);
        let before_end = before_end.map(|(job, _, served_ns)| self.left_ns(*job) / served_ns).min();
        let before_arrival = arrival_ns.map(|at_ns| at_ns.saturating_sub(self.now_ns) / period_ns);
        let Some(rounds) = [before_end, before_arrival].into_iter().flatten().min() else { return };
        // The last one before it is played.
        let rounds = rounds.saturating_sub(1);
        if rounds == 0 {
            return;
        }
        self.scheduler.skip_rounds(rounds, period_ns, &gained);
        self.now_ns += rounds * period_ns;
        self.report.switches += rounds * (self.report.switches - round.switches);
        self.report.lost_ns += u128::from(rounds) * (self.report.lost_ns - round.lost_ns);
    }

    /// A slice has just begun.
    fn is_new_slice(&self) -> bool {
        self.scheduler.slice_end_ns() == self.now_ns + self.options.slice_ns
    }

    /// Slots that nobody has while somebody cannot run.
    fn note_lost(&mut self, passed_ns: u64) {
        let running = self.scheduler.running();
        let waits =
            self.running.len() > running.len() || self.scheduler.waiting() > 0 || !self.held.is_empty();
        if waits {
            let held = running.iter().filter_map(|job| self.running.get(job)).map(|job| job.nodes);
            let free = self.options.nodes.saturating_sub(held.sum());
            self.report.lost_ns += u128::from(free) * u128::from(passed_ns);
        }
    }

    fn end_jobs(&mut self) {
        // Time goes on the accounts.
        self.scheduler.set_slice(self.now_ns, self.options.slice_ns);
        if self.now_ns < self.end_ns {
            return;
        }
        let over: Vec<JobId> = {
            let running = self.scheduler.running().iter();
            running.copied().filter(|job| self.left_ns(*job) == 0).collect()
        };
        for job in &over {
            self.scheduler.end(self.now_ns, *job);
            if let Some(running) = self.running.remove(job) {
                self.free += running.nodes;
                let outcome = Outcome { begin_ns: running.begin_ns, end_ns: self.now_ns };
                self.report.outcomes[job.0 as usize - 1] = Some(outcome);
            }
        }
        if !over.is_empty() {
            self.round = None;
            self.begin();
            self.backfill();
            self.begin();
        }
    }
}

#[cfg(test)]
mod tests;
