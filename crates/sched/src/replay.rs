//! A workload played on the scheduler itself, without nodes: when each job would have begun and ended.
//!
//! Nodes have one slot each, a switch costs nothing, all jobs are one user's. `fifo` is the matrix with one
//! row in which nobody passes anybody. `easy` is the same with backfilling by estimates (the queue stands
//! here, since the scheduler asks nobody how long a job will take).
//!
//! **Filling** ([`Discipline::Filling`]): all jobs are offered as fillers. Who does not have its turn goes on
//! with what the jobs that do leave of its nodes, shared with the others that fill there, at the pace of the
//! slowest of its nodes. What fills costs nobody anything: cores alone are counted.
//!
//! **Rounds are skipped.** Between two events (a job comes, a job ends) the rows take turns. When a round has
//! given every job's account the same in virtual time as any other's, and ends in the row in which it began,
//! all rounds are alike: as many as there is time for are put on the accounts at once.

use std::collections::{BTreeMap, VecDeque};

use crate::matrix::Policy;
use crate::scheduler::rotation::Account;
use crate::scheduler::{Config, Event, Scheduler};
use crate::types::{JobId, NodeId};
use crate::{Demand, WEIGHT_DEFAULT};

/// All of the time, in millionths.
const WHOLE_PPM: u64 = 1_000_000;

/// A job of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// When it is submitted, in ns.
    pub submit_ns: u64,
    /// How long it runs alone, in ns; not 0.
    pub run_ns: u64,
    /// How long its user says that it runs, in ns.
    pub estimate_ns: u64,
    /// Nodes of the job.
    pub nodes: u32,
    /// Part of its slots that it leaves idle while it runs, in thousandths.
    pub idle_permille: u32,
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
    /// The same, and jobs fill what those leave that have their turn.
    Filling(Policy),
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

/// Outcome of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// When it had nodes.
    pub begin_ns: u64,
    /// When it had run.
    pub end_ns: u64,
}

/// Outcome of a workload.
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
#[derive(Clone, Debug)]
struct Running {
    begin_ns: u64,
    /// Where it is.
    placed: Vec<NodeId>,
    /// Work done outside of its turns, and how much of the time it does so now, in millionths.
    filled_ns: u64,
    fills_ppm: u64,
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
    /// Jobs that the scheduler has not been asked for.
    held: VecDeque<usize>,
    running: BTreeMap<JobId, Running>,
    free: u32,
    /// How much each of those fills while a row has its turn, in their order; until one comes or goes.
    fills_ppm: BTreeMap<Vec<JobId>, Vec<u64>>,
    /// When the first of those that run ends, if nothing else happens before.
    end_ns: u64,
    round: Option<Round>,
    report: Report,
}

/// The accounts when a round began.
struct Round {
    at_ns: u64,
    row: Vec<JobId>,
    virtual_ns: Vec<(JobId, u64, u64, u64)>,
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
            Discipline::Turns(policy) | Discipline::Filling(policy) => (policy, 256, 16),
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
            fills_ppm: BTreeMap::new(),
            end_ns: u64::MAX,
            round: None,
            report,
        }
    }

    /// To the next moment at which something happens; false: nothing is left.
    fn step(&mut self) -> bool {
        self.arrive();
        self.turn();
        self.set_filling();
        let Some(next_ns) = self.next_ns() else { return false };
        let next_ns = next_ns.max(self.now_ns);
        self.note_lost(next_ns - self.now_ns);
        self.fill(next_ns - self.now_ns);
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
        while let Some(Event::Placed(job, parts)) = self.scheduler.poll_event() {
            self.scheduler.begin(self.now_ns, job);
            let Job { run_ns, estimate_ns, nodes, .. } = self.jobs[job.0 as usize - 1];
            let estimate_end_ns = self.now_ns.saturating_add(estimate_ns);
            let placed = parts.iter().map(|part| part.node).collect();
            let (begin_ns, filled_ns, fills_ppm) = (self.now_ns, 0, 0);
            let running = Running { begin_ns, placed, filled_ns, fills_ppm, run_ns, estimate_end_ns, nodes };
            self.running.insert(job, running);
            self.fills_ppm.clear();
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
        let filled_ns = self.running.iter().filter(|(_, running)| running.fills_ppm > 0).map(|(job, it)| {
            let left_ns = u128::from(self.left_ns(*job)) * u128::from(WHOLE_PPM);
            let takes_ns = left_ns.div_ceil(u128::from(it.fills_ppm));
            self.now_ns.saturating_add(u64::try_from(takes_ns).unwrap_or(u64::MAX))
        });
        let end_ns = filled_ns.chain(end_ns).min();
        self.end_ns = end_ns.unwrap_or(u64::MAX);
        [arrival_ns, end_ns, self.scheduler.next_at_ns()].into_iter().flatten().min()
    }

    fn left_ns(&self, job: JobId) -> u64 {
        let served_ns = self.scheduler.account(job).map_or(0, |account| account.service_ns);
        let left = |it: &Running| it.run_ns.saturating_sub(served_ns).saturating_sub(it.filled_ns);
        self.running.get(&job).map_or(0, left)
    }

    /// Says of each job how much of the time it fills from now on.
    fn set_filling(&mut self) {
        if !matches!(self.options.discipline, Discipline::Filling(_)) {
            return;
        }
        let has_turn = self.scheduler.running();
        if !self.fills_ppm.contains_key(has_turn) {
            self.fills_ppm.insert(has_turn.to_vec(), self.fills_beside(has_turn));
        }
        let fills_ppm = &self.fills_ppm[has_turn];
        self.running.values_mut().zip(fills_ppm).for_each(|(it, fills_ppm)| it.fills_ppm = *fills_ppm);
    }

    /// How much each job fills while these have their turn.
    fn fills_beside(&self, has_turn: &[JobId]) -> Vec<u64> {
        let nodes = self.options.nodes as usize;
        let (mut left_ppm, mut fillers) = (vec![WHOLE_PPM; nodes], vec![0; nodes]);
        for (job, it) in &self.running {
            let is_running = has_turn.binary_search(job).is_ok();
            for node in &it.placed {
                if is_running {
                    let idle_permille = self.jobs[job.0 as usize - 1].idle_permille;
                    left_ppm[node.0 as usize] = u64::from(idle_permille.min(1000)) * (WHOLE_PPM / 1000);
                } else {
                    fillers[node.0 as usize] += 1;
                }
            }
        }
        let part = |node: &NodeId| left_ppm[node.0 as usize] / fillers[node.0 as usize];
        let of = |(job, it): (&JobId, &Running)| match has_turn.binary_search(job) {
            Ok(_) => 0,
            Err(_) => it.placed.iter().map(part).min().unwrap_or(0),
        };
        self.running.iter().map(of).collect()
    }

    /// Lets so much time pass for the jobs that fill.
    fn fill(&mut self, passed_ns: u64) {
        for it in self.running.values_mut().filter(|it| it.fills_ppm > 0) {
            let filled_ns = u128::from(passed_ns) * u128::from(it.fills_ppm);
            // What is left of a nanosecond counts as one: who ends does so at the time that was said.
            it.filled_ns += u64::try_from(filled_ns.div_ceil(u128::from(WHOLE_PPM))).unwrap_or(u64::MAX);
        }
    }

    /// Skips rounds that are all alike, up to the last one before something else happens.
    fn skip(&mut self, arrival_ns: Option<u64>) {
        if !self.is_new_slice() {
            return;
        }
        let row = self.scheduler.running();
        let accounts = || {
            let account = |job: &JobId| self.scheduler.account(*job).unwrap_or_default();
            let accounts = self.running.iter().map(move |(job, it)| (*job, account(job), it.filled_ns));
            let words = |(job, account, filled_ns): (JobId, Account, u64)| {
                (job, account.virtual_ns, account.service_ns, filled_ns)
            };
            accounts.map(words).collect::<Vec<_>>()
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
        let both = || after.iter().zip(&round.virtual_ns);
        let gained: Vec<(JobId, u64, u64)> =
            both().map(|(after, before)| (after.0, after.1 - before.1, after.2 - before.2)).collect();
        let filled: Vec<u64> = both().map(|(after, before)| after.3 - before.3).collect();
        let is_alike = gained.windows(2).all(|pair| pair[0].1 == pair[1].1);
        if period_ns == 0 || !is_alike {
            return;
        }
        let done = gained.iter().zip(&filled).map(|(gain, filled_ns)| (gain.0, gain.2 + filled_ns));
        let before_end = done.filter(|(_, done_ns)| *done_ns > 0);
        let before_end = before_end.map(|(job, done_ns)| self.left_ns(job) / done_ns).min();
        let before_arrival = arrival_ns.map(|at_ns| at_ns.saturating_sub(self.now_ns) / period_ns);
        let Some(rounds) = [before_end, before_arrival].into_iter().flatten().min() else { return };
        // The last one before it is played.
        let rounds = rounds.saturating_sub(1);
        if rounds == 0 {
            return;
        }
        self.scheduler.skip_rounds(rounds, period_ns, &gained);
        for ((job, ..), filled_ns) in gained.iter().zip(&filled) {
            if let Some(running) = self.running.get_mut(job) {
                running.filled_ns += rounds * filled_ns;
            }
        }
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
        let over: Vec<JobId> = self.running.keys().copied().filter(|job| self.left_ns(*job) == 0).collect();
        for job in &over {
            self.scheduler.end(self.now_ns, *job);
            if let Some(running) = self.running.remove(job) {
                self.fills_ppm.clear();
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
