use super::*;

const GANG: JobId = JobId(1);
const OTHER: JobId = JobId(2);
const FILLER: JobId = JobId(7);

/// SplitMix64: this crate's own generator is for its simulator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `-most` to `most`.
    fn noise(&mut self, most: i64) -> i64 {
        (self.next() % (2 * most as u64 + 1)) as i64 - most
    }
}

/// A node with gangs whose rates follow from what fills.
struct Bench {
    trials: Trials,
    now_ms: u64,
    fills: BTreeMap<JobId, bool>,
    verdicts: Vec<(JobId, Verdict)>,
}

impl Bench {
    fn new(gangs: &[JobId], fillers: &[JobId]) -> Self {
        let mut trials = Trials::default();
        fillers.iter().for_each(|filler| trials.add_filler(0, *filler, 1));
        gangs.iter().for_each(|gang| trials.add_gang(0, *gang, 1));
        let fills = fillers.iter().map(|filler| (*filler, true)).collect();
        Bench { trials, now_ms: 0, fills, verdicts: Vec::new() }
    }

    /// One step; `rate` says how much a gang does in a window, given who fills.
    fn step(&mut self, rate: &mut impl FnMut(JobId, &BTreeMap<JobId, bool>) -> u64) -> bool {
        let Some(at_ms) = self.trials.timeout_ms() else { return false };
        self.now_ms = self.now_ms.max(at_ms);
        let gangs: Vec<JobId> = self.trials.gangs.keys().copied().collect();
        let samples: Vec<Sample> = gangs
            .into_iter()
            .map(|gang| Sample { gang, work: rate(gang, &self.fills), cost: 1_000_000 })
            .collect();
        self.trials.handle_time(self.now_ms, &samples);
        self.take();
        true
    }

    fn take(&mut self) {
        while let Some((filler, may_fill)) = self.trials.poll_change() {
            assert_ne!(self.fills.insert(filler, may_fill), Some(may_fill), "only changes are said");
        }
        while let Some(verdict) = self.trials.poll_verdict() {
            self.verdicts.push(verdict);
        }
    }

    fn until_verdicts(
        &mut self,
        count: usize,
        mut rate: impl FnMut(JobId, &BTreeMap<JobId, bool>) -> u64,
    ) -> Vec<(JobId, Verdict)> {
        let mut steps = 0;
        while self.verdicts.len() < count {
            assert!(self.step(&mut rate) && steps < 10_000, "a trial ends");
            steps += 1;
        }
        std::mem::take(&mut self.verdicts)
    }
}

fn put_out(gang: JobId, permille: u32, for_ms: u64) -> Verdict {
    Verdict::PutOut(PutOut { gang, permille, for_ms })
}

#[test]
fn filler_that_costs_more_than_2_percent_is_put_out_for_10_s_doubling() {
    let mut bench = Bench::new(&[GANG], &[FILLER]);
    let mut for_ms = 10_000;
    for _ in 0..12 {
        let rate = |_, fills: &BTreeMap<JobId, bool>| if fills[&FILLER] { 9_700 } else { 10_000 };
        assert_eq!(bench.until_verdicts(1, rate), [(FILLER, put_out(GANG, 30, for_ms))]);
        assert!(!bench.fills[&FILLER]);
        assert_eq!(bench.trials.timeout_ms(), Some(bench.now_ms + for_ms), "it is out for that long");
        for_ms = (for_ms * 2).min(OUT_MS_MAX);
    }
    // Once it is harmless it fills, and the time begins anew.
    assert_eq!(bench.until_verdicts(1, |_, _| 10_000), [(FILLER, Verdict::Harmless)]);
    assert!(bench.fills[&FILLER]);
    let rate = |_, fills: &BTreeMap<JobId, bool>| if fills[&FILLER] { 5_000 } else { 10_000 };
    let before_ms = bench.now_ms;
    assert_eq!(bench.until_verdicts(1, rate), [(FILLER, put_out(GANG, 500, 10_000))]);
    let trial_ms = GROSS_PAIRS as u64 * 2 * WINDOW_MS;
    assert_eq!(bench.now_ms, before_ms + REST_MS + trial_ms, "what is gross is seen at once");
}

#[test]
fn filler_at_the_limit_fills_on() {
    let mut bench = Bench::new(&[GANG], &[FILLER]);
    let rate = |_, fills: &BTreeMap<JobId, bool>| if fills[&FILLER] { 9_800 } else { 10_000 };
    assert_eq!(bench.until_verdicts(1, rate), [(FILLER, Verdict::Harmless)]);
    assert_eq!(bench.now_ms, PAIRS as u64 * 2 * WINDOW_MS);
}

#[test]
fn filler_is_judged_for_the_gang_that_it_hurts_and_is_free_when_that_ends() {
    let mut bench = Bench::new(&[GANG, OTHER], &[FILLER]);
    let rate = |gang, fills: &BTreeMap<JobId, bool>| match (gang, fills[&FILLER]) {
        (OTHER, true) => 9_000,
        _ => 10_000,
    };
    assert_eq!(bench.until_verdicts(1, rate), [(FILLER, put_out(OTHER, 100, 10_000))]);
    bench.trials.remove(bench.now_ms, GANG);
    bench.take();
    assert!(!bench.fills[&FILLER], "that one is not hurt");
    bench.trials.remove(bench.now_ms, OTHER);
    bench.take();
    assert!(bench.fills[&FILLER]);
    assert_eq!(bench.trials.timeout_ms(), None, "there is nobody to be measured");
}

#[test]
fn filler_beside_a_gang_that_does_too_little_is_not_judged() {
    let mut bench = Bench::new(&[GANG], &[FILLER]);
    let rate = |_, fills: &BTreeMap<JobId, bool>| if fills[&FILLER] { 1 } else { WORK_MIN - 1 };
    assert_eq!(bench.until_verdicts(1, rate), [(FILLER, Verdict::Unmeasured)]);
    assert!(bench.fills[&FILLER]);
    // Another gang comes: all that fill are tried at once.
    bench.trials.add_gang(bench.now_ms, OTHER, 1);
    assert_eq!(bench.trials.timeout_ms(), Some(bench.now_ms));
}

#[test]
fn filler_beside_a_gang_that_makes_no_calls_is_never_stopped() {
    let mut bench = Bench::new(&[GANG], &[FILLER]);
    for _ in 0..100 {
        assert!(bench.step(&mut |_, _| 0) && bench.fills[&FILLER] && bench.verdicts.is_empty());
    }
    assert_eq!(bench.now_ms, 49 * QUIET_MS + 50 * WINDOW_MS);
}

/// Beside a job of another user a filler fills only as long as it is seen to be harmless.
#[test]
fn filler_beside_another_users_gang_that_cannot_be_measured_is_put_out() {
    let mut bench = Bench::new(&[GANG], &[FILLER]);
    bench.trials.add_gang(0, OTHER, 2);
    let rate = |gang: JobId, _: &BTreeMap<JobId, bool>| if gang == OTHER { 0 } else { 10_000 };
    assert_eq!(bench.until_verdicts(1, rate), [(FILLER, put_out(OTHER, 0, 10_000))]);
    assert!(!bench.fills[&FILLER]);
    // It calls now, and is not hurt.
    assert_eq!(bench.until_verdicts(1, |_, _| 10_000), [(FILLER, Verdict::Harmless)]);
    assert!(bench.fills[&FILLER]);
    // All sleep: then that one is not seen to be unhurt either.
    assert_eq!(bench.until_verdicts(1, |_, _| 0), [(FILLER, put_out(OTHER, 0, 10_000))]);
    bench.trials.remove(bench.now_ms, OTHER);
    bench.take();
    assert!(bench.fills[&FILLER]);
}

#[test]
fn one_filler_is_tried_at_a_time_and_only_the_one_that_hurts_is_out() {
    let (harmless, harmful) = (JobId(7), JobId(8));
    let mut bench = Bench::new(&[GANG], &[harmless, harmful]);
    let rate = |_, fills: &BTreeMap<JobId, bool>| if fills[&harmful] { 9_000 } else { 10_000 };
    let verdicts = bench.until_verdicts(2, rate);
    assert_eq!(verdicts, [(harmless, Verdict::Harmless), (harmful, put_out(GANG, 100, 10_000))]);
    assert!(bench.fills[&harmless] && !bench.fills[&harmful]);
}

#[test]
fn gang_that_slows_down_by_itself_puts_no_filler_out() {
    let mut bench = Bench::new(&[GANG], &[FILLER]);
    let mut left = 1_000_000;
    let rate = move |_, _: &BTreeMap<JobId, bool>| {
        left = left * 95 / 100;
        left
    };
    assert_eq!(bench.until_verdicts(1, rate), [(FILLER, Verdict::Harmless)]);
}

/// Of 1,000 seeds: a filler that costs nothing, 5 % and 30 % beside a gang whose rate is off by up to 3 %.
#[test]
fn trials_by_seed_tell_harm_from_noise() {
    let seeds = 1000;
    let mut out = [0; 3];
    for (place, cost) in [0_i64, 50, 300].into_iter().enumerate() {
        for seed in 0..seeds {
            let mut random = Random(seed * 3 + place as u64);
            let mut bench = Bench::new(&[GANG], &[FILLER]);
            let rate = move |_, fills: &BTreeMap<JobId, bool>| {
                let without = 10_000 + random.noise(300);
                (if fills[&FILLER] { without * (1000 - cost) / 1000 } else { without }) as u64
            };
            let verdict = bench.until_verdicts(1, rate)[0].1;
            assert_ne!(verdict, Verdict::Unmeasured);
            out[place] += u64::from(matches!(verdict, Verdict::PutOut(_)));
        }
    }
    println!("of {seeds} fillers that cost 0, 5, 30 % so many are out: {out:?}");
    assert!(out[0] <= 10, "{out:?}");
    assert!(out[1] >= 950, "{out:?}");
    assert_eq!(out[2], seeds);
}

/// Jobs come and go at random: whoever is out has been said to be, nobody is tried who is gone.
#[test]
fn trials_by_seed_hold_their_books() {
    for seed in 0..300 {
        let mut random = Random(0xf111 + seed);
        let mut bench = Bench::new(&[], &[]);
        for _ in 0..400 {
            let job = JobId(1 + random.next() % 6);
            match (random.next() % 12, job.0 <= 3) {
                (0, true) => bench.trials.add_gang(bench.now_ms, job, 1),
                (0, false) => {
                    bench.trials.add_filler(bench.now_ms, job, 1);
                    bench.fills.entry(job).or_insert(true);
                }
                (1, _) => {
                    bench.trials.remove(bench.now_ms, job);
                    bench.fills.remove(&job);
                    bench.take();
                }
                _ => {
                    let mut rate = |_, _: &BTreeMap<JobId, bool>| 10_000 - random.next() % 3000;
                    bench.step(&mut rate);
                }
            }
            bench.now_ms += random.next() % 400;
            for (job, filler) in &bench.trials.fillers {
                assert_eq!(filler.may_fill, bench.fills[job], "seed {seed}");
                let is_tried = bench.trials.trial.as_ref().is_some_and(|trial| trial.filler == *job);
                let is_out = matches!(filler.state, State::Out { .. });
                assert!(is_tried || filler.may_fill != is_out, "seed {seed}: job {job}");
            }
            if let Some(trial) = &bench.trials.trial {
                assert!(bench.trials.fillers.contains_key(&trial.filler), "seed {seed}");
            }
        }
    }
}

/// A pair of jobs on other slots is another pair.
#[test]
fn filler_is_tried_at_once_when_a_job_has_other_slots() {
    for moved in [GANG, FILLER] {
        let mut bench = Bench::new(&[GANG], &[FILLER]);
        let harmless = |_: JobId, _: &BTreeMap<JobId, bool>| 10_000;
        assert_eq!(bench.until_verdicts(1, harmless), [(FILLER, Verdict::Harmless)]);
        assert_eq!(bench.trials.timeout_ms(), Some(bench.now_ms + REST_MS));
        bench.now_ms += 5_000;
        bench.trials.handle_moved(bench.now_ms, moved);
        assert_eq!(bench.trials.timeout_ms(), Some(bench.now_ms), "job {moved}");
        // One that moves in the middle: pairs of both places make no verdict together.
        let mut pairs = 0;
        let mut harms = |_: JobId, fills: &BTreeMap<JobId, bool>| {
            pairs += 1;
            if fills[&FILLER] { 9_700 } else { 10_000 }
        };
        (0..PAIRS).for_each(|_| assert!(bench.step(&mut harms)));
        bench.trials.handle_moved(bench.now_ms, moved);
        bench.take();
        assert!(bench.fills[&FILLER] && !bench.trials.is_trying(), "it fills until it is tried anew");
        assert_eq!(bench.until_verdicts(1, harms), [(FILLER, put_out(GANG, 30, OUT_MS))]);
        assert!(pairs >= 3 * PAIRS, "all pairs are of the new places: {pairs} windows");
        // Who is out stays out.
        let until = bench.trials.timeout_ms();
        bench.trials.handle_moved(bench.now_ms, moved);
        bench.take();
        assert_eq!((bench.trials.timeout_ms(), bench.fills[&FILLER]), (until, false));
        bench.trials.handle_moved(bench.now_ms, OTHER);
        assert_eq!(bench.trials.timeout_ms(), until, "no job of these");
    }
}
