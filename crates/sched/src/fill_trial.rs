//! Trials of fillers: what one costs the gangs that it runs beside, and when it is put out for that.
//!
//! A node tries one filler at a time. Time is cut into windows, of which two are a pair: one with the filler,
//! one without, in turn in either order, so that a gang that becomes slower or faster by itself shows it in
//! half of the pairs with either sign. A window's sample of a gang is its work over what it had for it: calls
//! over the time that it ran, or instructions over cycles.
//!
//! ```text
//! due --> trial: PAIRS pairs --> harmless: fills, and is tried again after REST_MS
//!                            '-> costs a gang more: out for 10 s, twice as long each time, then due again
//!                            '-> nothing could be measured: fills, and is tried again after REST_MS; but
//!                                where a gang is another user's, it is out as if it cost that one too much
//! a gang comes: all that fill are due          the gang goes for which one is out: it is due
//! a job gets other slots: a gang as if it came; a filler that fills is due
//! ```
//!
//! A filler is put out when the middle one of a gang's pairs lost more than [`COST_MAX_PERMILLE`] and all but
//! one of them lost something, or when the first [`GROSS_PAIRS`] all lost more than [`GROSS_PERMILLE`]. Noise
//! without a cause does that in a trial of 8 pairs with 9 of 256 chances at most, and costs the filler 10 s.
//!
//! Called by a node's daemon, with its clock; nothing here knows the time. Trials belong to the daemon: the
//! next one begins anew, and starters let go what was put out.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::types::JobId;

/// A filler may cost a gang so many thousandths of its rate.
pub const COST_MAX_PERMILLE: i64 = 20;
/// How long a window lasts.
pub const WINDOW_MS: u64 = 250;
/// Pairs of windows of a gang that make a verdict.
pub const PAIRS: usize = 8;
/// All but one of them have to have lost something.
const LOSING_MIN: usize = PAIRS - 1;
/// A trial that has had so many pairs ends with what there is.
const PAIRS_MAX: u32 = 3 * PAIRS as u32;
/// Number of pairs that is enough where each lost more than [`GROSS_PERMILLE`].
pub const GROSS_PAIRS: usize = 4;
/// See [`GROSS_PAIRS`].
pub const GROSS_PERMILLE: i64 = 200;
/// Work below which a pair says nothing: a hundredth of it cannot be seen.
pub const WORK_MIN: u64 = 100;
/// Time after which a harmless filler is tried again.
pub const REST_MS: u64 = 30_000;
/// Where nobody called at all it is looked again after so long: a gang has just begun, or never calls.
pub const QUIET_MS: u64 = 2000;
/// Time for which a filler that costs too much is out at first; [`OUT_MS_MAX`] is the longest ever.
pub const OUT_MS: u64 = 10_000;
/// See [`OUT_MS`].
pub const OUT_MS_MAX: u64 = 3_600_000;

/// Work of a gang in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which.
    pub gang: JobId,
    /// Calls, or instructions.
    pub work: u64,
    /// Time that it ran, or cycles.
    pub cost: u64,
}

/// A filler is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutOut {
    /// The gang that it costs too much.
    pub gang: JobId,
    /// Thousandths of that one's rate; 0: it is another user's, and what it is cost cannot be measured.
    pub permille: u32,
    /// For how long.
    pub for_ms: u64,
}

impl std::fmt::Display for PutOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PutOut { gang, permille, for_ms } = self;
        let (percent, tenths) = (permille / 10, permille % 10);
        if *permille == 0 {
            let for_s = for_ms / 1000;
            return write!(
                f,
                "put out for {for_s} s: what it costs job {gang} of another user cannot be measured"
            );
        }
        write!(f, "put out for {} s: it costs job {gang} {percent}.{tenths} % of its calls", for_ms / 1000)
    }
}

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The filler costs nobody too much.
    Harmless,
    /// No gang worked enough in both windows of enough pairs.
    Unmeasured,
    /// The filler is out.
    PutOut(PutOut),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The filler may fill, and is tried then.
    Fills { due_ms: u64 },
    /// The filler may not fill until then, since it costs this gang too much.
    Out { until_ms: u64, gang: JobId },
}

#[derive(Clone, Debug)]
struct Filler {
    user: u32,
    state: State,
    /// How long it is out the next time.
    out_ms: u64,
    /// Whether it may fill, as was last said.
    may_fill: bool,
}

/// A filler is being tried.
#[derive(Clone, Debug)]
struct Trial {
    filler: JobId,
    window_end_ms: u64,
    /// Pairs that are over.
    pairs: u32,
    /// Samples of the first window of the pair, when that is over.
    first: Option<Vec<Sample>>,
    /// Losses of each gang by the filler, in thousandths, pair by pair.
    losses: BTreeMap<JobId, Vec<i64>>,
}

/// The trials of a node.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    fillers: BTreeMap<JobId, Filler>,
    /// With their users.
    gangs: BTreeMap<JobId, u32>,
    trial: Option<Trial>,
    changes: VecDeque<(JobId, bool)>,
    verdicts: VecDeque<(JobId, Verdict)>,
}

impl Trials {
    /// A filler of this user's is here. It may fill.
    pub fn add_filler(&mut self, now_ms: u64, filler: JobId, user: u32) {
        let state = State::Fills { due_ms: now_ms };
        self.fillers.entry(filler).or_insert(Filler { user, state, out_ms: OUT_MS, may_fill: true });
    }

    /// A gang of this user's is here.
    pub fn add_gang(&mut self, now_ms: u64, gang: JobId, user: u32) {
        if self.gangs.insert(gang, user).is_none() {
            self.make_due(now_ms, |_| true);
        }
    }

    /// A job has other slots here: what was measured is not of this pair of places. A trial under way begins
    /// anew. Who is out stays so until its time is over: it would be tried at each move of a job.
    pub fn handle_moved(&mut self, now_ms: u64, job: JobId) {
        let is_gang = self.gangs.contains_key(&job);
        if !is_gang && !self.fillers.contains_key(&job) {
            return;
        }
        self.make_due(now_ms, |filler| is_gang || filler == job);
        if self.trial.take_if(|trial| is_gang || trial.filler == job).is_some() {
            self.publish(None);
        }
    }

    /// Lets those of these that fill be tried next.
    fn make_due(&mut self, now_ms: u64, which: impl Fn(JobId) -> bool) {
        for (_, filler) in self.fillers.iter_mut().filter(|(job, _)| which(**job)) {
            if let State::Fills { due_ms } = &mut filler.state {
                *due_ms = now_ms.min(*due_ms);
            }
        }
    }

    /// A job is not here any more.
    pub fn remove(&mut self, now_ms: u64, job: JobId) {
        self.fillers.remove(&job);
        self.changes.retain(|(filler, _)| *filler != job);
        self.verdicts.retain(|(filler, _)| *filler != job);
        if self.trial.as_ref().is_some_and(|trial| trial.filler == job) {
            self.trial = None;
        }
        if self.gangs.remove(&job).is_none() {
            return;
        }
        if let Some(trial) = &mut self.trial {
            trial.losses.remove(&job);
        }
        let due = State::Fills { due_ms: now_ms };
        let hurt_it = |filler: &Filler| matches!(filler.state, State::Out { gang, .. } if gang == job);
        for (&job, filler) in self.fillers.iter_mut().filter(|(_, filler)| hurt_it(filler)) {
            filler.state = due;
            self.verdicts.push_back((job, Verdict::Unmeasured));
        }
        if self.gangs.is_empty() {
            self.trial = None;
        }
        self.publish(None);
    }

    /// A filler is being tried: samples are wanted.
    #[must_use]
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// When [`Self::handle_time`] is to be called; none: nothing is to be tried.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<u64> {
        if let Some(trial) = &self.trial {
            return Some(trial.window_end_ms);
        }
        let due = self.fillers.values().map(|filler| match filler.state {
            State::Fills { due_ms } => due_ms,
            State::Out { until_ms, .. } => until_ms,
        });
        due.min().filter(|_| !self.gangs.is_empty())
    }

    /// Time has passed; `samples` are of the window that ends now, of gangs that ran in most of it.
    pub fn handle_time(&mut self, now_ms: u64, samples: &[Sample]) {
        if self.timeout_ms().is_none_or(|at_ms| now_ms < at_ms) {
            return;
        }
        match self.trial.take() {
            Some(trial) => self.end_window(now_ms, trial, samples),
            None => self.begin_trial(now_ms),
        }
    }

    /// A filler may fill from now on, or not any more.
    pub fn poll_change(&mut self) -> Option<(JobId, bool)> {
        self.changes.pop_front()
    }

    /// A trial is over.
    pub fn poll_verdict(&mut self) -> Option<(JobId, Verdict)> {
        self.verdicts.pop_front()
    }

    /// Of those that are due, the one that has been for longest.
    fn begin_trial(&mut self, now_ms: u64) {
        for filler in self.fillers.values_mut() {
            if let State::Out { until_ms, .. } = filler.state
                && until_ms <= now_ms
            {
                filler.state = State::Fills { due_ms: until_ms };
            }
        }
        let due = self.fillers.iter().filter_map(|(job, filler)| match filler.state {
            State::Fills { due_ms } if due_ms <= now_ms => Some((due_ms, *job)),
            _ => None,
        });
        let Some((_, filler)) = due.min() else { return };
        let (window_end_ms, losses) = (now_ms + WINDOW_MS, BTreeMap::new());
        self.trial = Some(Trial { filler, window_end_ms, pairs: 0, first: None, losses });
        self.publish(Some((filler, true)));
    }

    fn end_window(&mut self, now_ms: u64, mut trial: Trial, samples: &[Sample]) {
        trial.window_end_ms = now_ms + WINDOW_MS;
        let begins_with_filler = trial.pairs.is_multiple_of(2);
        let Some(first) = trial.first.take() else {
            // Nobody is stopped for what cannot be measured.
            if trial.pairs == 0 && samples.iter().all(|sample| sample.work == 0) {
                if self.unmeasured_stranger(&trial).is_none() {
                    if let Some(filler) = self.fillers.get_mut(&trial.filler) {
                        filler.state = State::Fills { due_ms: now_ms + QUIET_MS };
                    }
                    return self.publish(None);
                }
                return self.end_trial(now_ms, &trial, Verdict::Unmeasured);
            }
            trial.first = Some(samples.to_vec());
            let filler = trial.filler;
            self.trial = Some(trial);
            return self.publish(Some((filler, !begins_with_filler)));
        };
        for second in samples {
            let Some(first) = first.iter().find(|first| first.gang == second.gang) else { continue };
            let (with, without) = if begins_with_filler { (first, second) } else { (second, first) };
            if let Some(loss) = loss_permille(with, without).filter(|_| self.gangs.contains_key(&second.gang))
            {
                trial.losses.entry(second.gang).or_default().push(loss);
            }
        }
        trial.pairs += 1;
        let Some(verdict) = self.judge(&trial) else {
            // The second window of a pair is as the first one of the next.
            let filler = trial.filler;
            let next_begins_with_filler = trial.pairs.is_multiple_of(2);
            self.trial = Some(trial);
            return self.publish(Some((filler, next_begins_with_filler)));
        };
        self.end_trial(now_ms, &trial, verdict);
    }

    /// A gang of another user's for which this trial has not come to a verdict.
    fn unmeasured_stranger(&self, trial: &Trial) -> Option<JobId> {
        let filler = self.fillers.get(&trial.filler)?;
        let is_judged = |gang| trial.losses.get(gang).is_some_and(|losses| losses.len() >= PAIRS);
        let mut strangers = self.gangs.iter().filter(|(_, user)| **user != filler.user);
        strangers.find(|(gang, _)| !is_judged(*gang)).map(|(gang, _)| *gang)
    }

    fn end_trial(&mut self, now_ms: u64, trial: &Trial, verdict: Verdict) {
        let stranger = self.unmeasured_stranger(trial).filter(|_| !matches!(verdict, Verdict::PutOut(_)));
        let for_ms = self.fillers.get(&trial.filler).map_or(OUT_MS, |filler| filler.out_ms);
        let unknown = |gang| Verdict::PutOut(PutOut { gang, permille: 0, for_ms });
        let verdict = stranger.map_or(verdict, unknown);
        if let Some(filler) = self.fillers.get_mut(&trial.filler) {
            match verdict {
                Verdict::PutOut(PutOut { gang, for_ms, .. }) => {
                    filler.state = State::Out { until_ms: now_ms + for_ms, gang };
                    filler.out_ms = (for_ms * 2).min(OUT_MS_MAX);
                }
                Verdict::Harmless => {
                    filler.state = State::Fills { due_ms: now_ms + REST_MS };
                    filler.out_ms = OUT_MS;
                }
                Verdict::Unmeasured => filler.state = State::Fills { due_ms: now_ms + REST_MS },
            }
        }
        self.verdicts.push_back((trial.filler, verdict));
        self.publish(None);
    }

    fn judge(&self, trial: &Trial) -> Option<Verdict> {
        let for_ms = self.fillers.get(&trial.filler).map_or(OUT_MS, |filler| filler.out_ms);
        for (&gang, losses) in &trial.losses {
            if let Some(permille) = excess(losses) {
                return Some(Verdict::PutOut(PutOut { gang, permille, for_ms }));
            }
        }
        let is_judged = |losses: &Vec<i64>| losses.len() >= PAIRS;
        let (some, all) = (trial.losses.values().any(is_judged), trial.losses.values().all(is_judged));
        if some && (all || trial.pairs >= PAIRS_MAX) {
            return Some(Verdict::Harmless);
        }
        (trial.pairs >= PAIRS_MAX).then_some(Verdict::Unmeasured)
    }

    /// Says of each filler whether it may fill now, if that has changed; of the one that is tried `tried`
    /// says it.
    fn publish(&mut self, tried: Option<(JobId, bool)>) {
        for (&job, filler) in &mut self.fillers {
            let by_state = matches!(filler.state, State::Fills { .. });
            let may_fill = tried.filter(|(tried, _)| *tried == job).map_or(by_state, |(_, may)| may);
            if std::mem::replace(&mut filler.may_fill, may_fill) != may_fill {
                self.changes.push_back((job, may_fill));
            }
        }
    }
}

/// Cost of the filler in a pair, in thousandths of the greater rate; none: too little was done.
fn loss_permille(with: &Sample, without: &Sample) -> Option<i64> {
    if with.cost == 0 || without.cost == 0 || with.work.max(without.work) < WORK_MIN {
        return None;
    }
    let rate = |this: &Sample, other: &Sample| i128::from(this.work) * i128::from(other.cost);
    let (with, without) = (rate(with, without), rate(without, with));
    Some(((without - with) * 1000 / with.max(without)) as i64)
}

/// Cost of the filler, if that is too much.
fn excess(losses: &[i64]) -> Option<u32> {
    let is_gross = losses.len() == GROSS_PAIRS && losses.iter().all(|loss| *loss > GROSS_PERMILLE);
    if losses.len() != PAIRS && !is_gross {
        return None;
    }
    let mut sorted = losses.to_vec();
    sorted.sort_unstable();
    // The lower one of the two in the middle.
    let middle = sorted[(sorted.len() - 1) / 2];
    let losing = losses.iter().filter(|loss| **loss > 0).count();
    let is_excess = is_gross || middle > COST_MAX_PERMILLE && losing >= LOSING_MIN;
    is_excess.then_some(middle.max(0) as u32)
}

#[cfg(test)]
mod tests;
