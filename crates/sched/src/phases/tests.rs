//! The arbiter alone, in any order of events, and with programs that behave and that do not.

use proptest::prelude::*;
use tutti_testkit::random::Random;

use super::*;

const US: u64 = 1000;
const MS: u64 = 1_000_000;

fn hints() -> Rules {
    Phases::Hints { yield_min_us: 0 }.rules()
}

/// Orders that the arbiter has given.
#[derive(Default, Debug)]
struct Said {
    granted: Vec<JobId>,
    frozen: Vec<JobId>,
    contended: BTreeMap<JobId, bool>,
    others: BTreeMap<JobId, u32>,
}

impl Said {
    fn hear(&mut self, arbiter: &mut Arbiter) -> Vec<Action> {
        let mut heard = Vec::new();
        while let Some(action) = arbiter.poll_action() {
            match action {
                Action::Grant(job) => self.granted.push(job),
                Action::Take(job) => self.granted.retain(|other| *other != job),
                Action::Freeze(job) => {
                    self.granted.retain(|other| *other != job);
                    self.frozen.push(job);
                }
                Action::Thaw(job) => self.frozen.retain(|other| *other != job),
                Action::Contended(job, is_so) => drop(self.contended.insert(job, is_so)),
                Action::Others(job, others) => drop(self.others.insert(job, others)),
            }
            heard.push(action);
        }
        heard
    }
}

fn two() -> (Arbiter, Said, JobId, JobId) {
    let (mut arbiter, mut said) = (Arbiter::default(), Said::default());
    let (a, b) = (JobId(1), JobId(2));
    assert!(arbiter.join(0, a, hints(), 100) && arbiter.join(0, b, hints(), 100));
    said.hear(&mut arbiter);
    (arbiter, said, a, b)
}

// Paper: R10
#[test]
fn r10_parallel_slots_are_one_jobs_at_a_time() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(10, a);
    arbiter.handle_request(20, b);
    said.hear(&mut arbiter);
    assert_eq!((said.granted.as_slice(), arbiter.state(b)), ([a].as_slice(), Some(State::Wants)));
}

// Paper: R11
#[test]
fn r11_request_while_another_holds_waits_and_is_recorded() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(10, a);
    said.hear(&mut arbiter);
    arbiter.handle_request(20, b);
    assert_eq!(said.hear(&mut arbiter), [Action::Contended(a, true)]);
    assert!(arbiter.waits(b) && !arbiter.waits(a), "C18: who waits for slots is not idle");
}

// Paper: R12
#[test]
fn r12_yield_gives_the_slots_to_who_wants_and_changes_nothing_else() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(10, a);
    said.hear(&mut arbiter);
    arbiter.handle_idle(30, a);
    assert_eq!((said.hear(&mut arbiter), arbiter.state(a)), (vec![], Some(State::Holds)));
    arbiter.handle_request(40, b);
    arbiter.handle_idle(50, a);
    let given = [Action::Contended(a, true), Action::Contended(a, false), Action::Take(a), Action::Grant(b)];
    assert_eq!(said.hear(&mut arbiter), given);
}

// Paper: R13
#[test]
fn r13_yields_count_only_so_long_after_the_grant() {
    let mut arbiter = Arbiter::default();
    let rules = Phases::Hints { yield_min_us: 500 }.rules();
    let (a, b) = (JobId(1), JobId(2));
    assert!(arbiter.join(0, a, rules, 100) && arbiter.join(0, b, rules, 100));
    arbiter.handle_request(0, a);
    arbiter.handle_request(0, b);
    arbiter.handle_idle(499 * US, a);
    assert_eq!((arbiter.state(a), arbiter.poll_timeout()), (Some(State::Holds), Some(500 * US)));
    let mut said = Said::default();
    said.hear(&mut arbiter);
    arbiter.handle_time(500 * US);
    assert_eq!(said.hear(&mut arbiter), [Action::Contended(a, true)], "it is asked when it counts");
    arbiter.handle_idle(500 * US, a);
    assert_eq!((arbiter.state(a), arbiter.state(b)), (Some(State::Out), Some(State::Holds)));
}

// Paper: R14
#[test]
fn r14_serial_phases_need_no_grant() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(0, a);
    said.hear(&mut arbiter);
    assert_eq!((arbiter.state(b), said.contended.get(&a)), (Some(State::Out), None));
    assert_eq!(arbiter.poll_timeout(), None, "a lease without others lasts for ever");
}

// Paper: R15
#[test]
fn r15_policies_are_read_and_differ_by_two_numbers() {
    assert_eq!("time".parse(), Ok(Phases::Time));
    assert_eq!("shared".parse::<Phases>().map(Phases::rules).unwrap().yield_min_ns, QUANTUM_NS);
    let hints: Phases = "hints:200".parse().unwrap();
    assert_eq!(hints.rules(), Rules { lease_ns: LEASE_NS, yield_min_ns: 200 * US });
    for wrong in ["", "hint", "hints:", "hints:0", "hints:100001", "hints:-1", "shared:1", "HINTS"] {
        assert!(wrong.parse::<Phases>().is_err(), "{wrong}");
    }
}

#[test]
fn phases_who_overstays_is_frozen_and_stands_in_the_queue() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(0, a);
    arbiter.handle_request(0, b);
    arbiter.handle_time(LEASE_NS);
    assert_eq!(arbiter.state(a), Some(State::Overdue));
    arbiter.handle_time(2 * LEASE_NS);
    said.hear(&mut arbiter);
    assert_eq!((said.frozen.as_slice(), said.granted.as_slice()), ([a].as_slice(), [b].as_slice()));
    assert!(arbiter.waits(a), "C3");
    // It falls back to slices of one lease, beside who wants.
    arbiter.handle_time(4 * LEASE_NS);
    said.hear(&mut arbiter);
    assert_eq!((said.frozen.as_slice(), said.granted.as_slice()), ([b].as_slice(), [a].as_slice()));
    arbiter.handle_time(5 * LEASE_NS);
    said.hear(&mut arbiter);
    assert_eq!(said.granted, [b]);
    // Who leaves a region in time is as before.
    arbiter.handle_idle(5 * LEASE_NS + 1, b);
    said.hear(&mut arbiter);
    assert_eq!((arbiter.state(b), said.granted.as_slice()), (Some(State::Out), [a].as_slice()));
    assert!(said.frozen.is_empty());
}

#[test]
fn phases_lease_begins_when_another_wants_the_slots() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(0, a);
    said.hear(&mut arbiter);
    // Alone in a region of a second; then another comes, and it is out of its region in time.
    arbiter.handle_request(1000 * MS, b);
    assert_eq!(said.hear(&mut arbiter), [Action::Contended(a, true)], "it is asked, not frozen");
    assert_eq!(arbiter.poll_timeout(), Some(1000 * MS + LEASE_NS));
    arbiter.handle_time(1000 * MS + LEASE_NS);
    assert_eq!((said.hear(&mut arbiter), arbiter.state(a)), (vec![], Some(State::Overdue)));
    arbiter.handle_idle(1000 * MS + 2 * LEASE_NS - 1, a);
    said.hear(&mut arbiter);
    assert_eq!((said.frozen.as_slice(), said.granted.as_slice()), ([].as_slice(), [b].as_slice()));
    // Who stays longer is frozen; while nobody runs that wants, no lease is counted.
    arbiter.handle_request(1010 * MS, a);
    arbiter.set_runs(1011 * MS, a, false);
    arbiter.set_runs(1012 * MS, a, true);
    arbiter.handle_time(1012 * MS + 2 * LEASE_NS - 1);
    assert_eq!(arbiter.state(b), Some(State::Overdue));
    arbiter.handle_time(1012 * MS + 2 * LEASE_NS);
    said.hear(&mut arbiter);
    assert_eq!((said.frozen.as_slice(), said.granted.as_slice()), ([b].as_slice(), [a].as_slice()));
}

#[test]
fn phases_who_stands_still_with_a_grant_holds_nobody_up() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(0, a);
    arbiter.handle_request(0, b);
    arbiter.set_runs(10, a, false);
    said.hear(&mut arbiter);
    assert_eq!((arbiter.holder(), said.others[&b]), (Some(b), 0));
    arbiter.set_runs(20, a, true);
    assert_eq!((arbiter.holder(), arbiter.state(a)), (Some(b), Some(State::Wants)));
    arbiter.leave(30, b);
    assert_eq!(arbiter.holder(), Some(a));
}

#[test]
fn phases_nobody_saves_credit_or_debt() {
    let (mut arbiter, mut said, a, b) = two();
    arbiter.handle_request(0, a);
    said.hear(&mut arbiter);
    // An hour alone, then another comes: it does not get an hour.
    arbiter.handle_request(3600 * 1000 * MS, b);
    let mut now_ns = 3600 * 1000 * MS;
    let mut had = BTreeMap::from([(a, 0), (b, 0)]);
    for _ in 0..1000 {
        let holder = arbiter.holder().unwrap();
        now_ns += 500 * US;
        *had.get_mut(&holder).unwrap() += 1;
        arbiter.handle_idle(now_ns, holder);
        arbiter.handle_request(now_ns, holder);
        said.hear(&mut arbiter);
    }
    assert!(had.values().all(|turns| (480..=520).contains(turns)), "{had:?}");
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Join(u64, u32),
    Leave(u64),
    Request(u64),
    Idle(u64),
    Runs(u64, bool),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let job = 0_u64..6;
    prop_oneof![
        (job.clone(), 1_u32..1000).prop_map(|(job, weight)| Event::Join(job, weight)),
        job.clone().prop_map(Event::Leave),
        job.clone().prop_map(Event::Request),
        job.clone().prop_map(Event::Request),
        job.clone().prop_map(Event::Idle),
        job.clone().prop_map(Event::Idle),
        (job, any::<bool>()).prop_map(|(job, runs)| Event::Runs(job, runs)),
        (1_u64..8 * MS).prop_map(Event::Pass),
    ]
}

proptest! {
    /// In any order of events: one holder, nobody waits for free slots, who is frozen stands in the queue.
    #[test]
    fn phases_arbiter_holds_its_promises_in_any_order(events in prop::collection::vec(event(), 1..300)) {
        let (mut arbiter, mut said, mut now_ns) = (Arbiter::default(), Said::default(), 0);
        for event in events {
            match event {
                Event::Join(job, weight) => drop(arbiter.join(now_ns, JobId(job), hints(), weight)),
                Event::Leave(job) => {
                    arbiter.leave(now_ns, JobId(job));
                    said.granted.retain(|other| *other != JobId(job));
                    said.frozen.retain(|other| *other != JobId(job));
                }
                Event::Request(job) => arbiter.handle_request(now_ns, JobId(job)),
                Event::Idle(job) => arbiter.handle_idle(now_ns, JobId(job)),
                Event::Runs(job, runs) => {
                    arbiter.set_runs(now_ns, JobId(job), runs);
                    // The turn thaws.
                    said.frozen.retain(|other| *other != JobId(job));
                }
                Event::Pass(ns) => {
                    now_ns += ns;
                    arbiter.handle_time(now_ns);
                }
            }
            said.hear(&mut arbiter);
            let members = arbiter.members.clone();
            let holders = members.values().filter(|member| member.has() && member.runs).count();
            prop_assert!(holders <= 1);
            let waits = members.values().any(|member| member.runs && member.waits());
            prop_assert!(holders == 1 || !waits, "somebody waits for free slots");
            for (job, member) in &members {
                prop_assert_eq!(said.granted.contains(job), member.has(), "{} {:?}", job, member);
                let frozen = said.frozen.contains(job);
                prop_assert!(!frozen || member.state == State::Revoked);
                prop_assert!(!frozen || !member.runs || holders == 1);
            }
        }
    }
}

/// A program of the simulation.
#[derive(Clone, Copy, Debug)]
struct Program {
    serial_ns: u64,
    region_ns: u64,
    /// Whether its regions never end.
    lies: bool,
    /// Time from which it dies in the next region.
    dies_ns: u64,
    /// Time from which it is stopped, with whatever it has, for 50 ms.
    stops_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    in_region: bool,
    asked_ns: Option<u64>,
    left_ns: u64,
    done: u64,
    wait_max_ns: u64,
    gave_up: u64,
    frozen: bool,
    runs: bool,
    dead: bool,
}

/// Plays programs for so long in steps of 10 us.
fn play(programs: &[Program], until_ns: u64) -> Vec<Progress> {
    const STEP_NS: u64 = 10 * US;
    let (mut arbiter, mut said) = (Arbiter::default(), Said::default());
    let ids = (0..programs.len() as u64).map(JobId);
    ids.clone().for_each(|job| assert!(arbiter.join(0, job, hints(), 100)));
    let mut all: Vec<_> = programs
        .iter()
        .map(|program| Progress {
            in_region: false,
            asked_ns: None,
            left_ns: program.serial_ns,
            done: 0,
            wait_max_ns: 0,
            gave_up: 0,
            frozen: false,
            runs: true,
            dead: false,
        })
        .collect();
    for now_ns in (0..until_ns).step_by(STEP_NS as usize) {
        if arbiter.poll_timeout().is_some_and(|due_ns| now_ns >= due_ns) {
            arbiter.handle_time(now_ns);
        }
        for job in ids.clone() {
            let (program, one) = (&programs[job.0 as usize], &mut all[job.0 as usize]);
            if one.dead {
                continue;
            }
            let runs = !(program.stops_ns..program.stops_ns.saturating_add(50 * MS)).contains(&now_ns);
            if runs != one.runs {
                one.runs = runs;
                arbiter.set_runs(now_ns, job, runs);
                said.frozen.retain(|other| *other != job);
            }
            one.frozen = said.frozen.contains(&job);
            if one.frozen || !one.runs {
                one.asked_ns = one.asked_ns.map(|asked_ns| asked_ns + STEP_NS);
                continue;
            }
            if now_ns >= program.dies_ns && one.in_region {
                one.dead = true;
                arbiter.leave(now_ns, job);
                said.granted.retain(|other| *other != job);
                continue;
            }
            if let Some(asked_ns) = one.asked_ns {
                let waited_ns = now_ns - asked_ns;
                let patient = waited_ns < arbiter.patience_ns();
                if patient && !said.granted.contains(&job) {
                    continue;
                }
                one.gave_up += u64::from(!said.granted.contains(&job));
                one.wait_max_ns = one.wait_max_ns.max(waited_ns);
                (one.asked_ns, one.in_region, one.left_ns) = (None, true, program.region_ns);
            }
            one.left_ns = one.left_ns.saturating_sub(STEP_NS);
            if one.left_ns > 0 || one.in_region && program.lies {
                continue;
            }
            if one.in_region {
                (one.in_region, one.left_ns) = (false, program.serial_ns);
                one.done += 1;
                arbiter.handle_idle(now_ns, job);
            } else {
                one.asked_ns = Some(now_ns);
                if !said.granted.contains(&job) {
                    arbiter.handle_request(now_ns, job);
                }
            }
        }
        for action in said.hear(&mut arbiter) {
            // The driver looks at once whether the holder is in a region.
            if let Action::Contended(job, true) = action
                && let one = &all[job.0 as usize]
                && !one.in_region
                && one.asked_ns.is_none()
            {
                arbiter.handle_idle(now_ns, job);
            }
        }
        said.hear(&mut arbiter);
    }
    all
}

const HONEST: Program =
    Program { serial_ns: 270 * US, region_ns: 500 * US, lies: false, dies_ns: u64::MAX, stops_ns: u64::MAX };

/// Four jobs of 0.27 ms + 0.5 ms: regions one after the other take the time of all, at most 1.10 x the bound.
// Paper: R16
#[test]
fn r16_equal_jobs_on_virtual_time_end_together_near_the_bound() {
    for jobs in [1, 2, 4] {
        let all = play(&vec![HONEST; jobs], 400 * MS);
        let done: Vec<_> = all.iter().map(|one| one.done).collect();
        let alone = 400 * MS / (770 * US);
        let bound = alone.min(400 * MS / (500 * US) / jobs as u64);
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        assert!(*least * 110 >= bound * 100, "{jobs} jobs: {done:?}, {bound} by the bound");
        assert!((most - least) * 10 <= *most, "{done:?}: a spread of a tenth at most");
    }
}

// Paper: R16
#[test]
fn r16_unequal_jobs_on_virtual_time_have_equal_time() {
    let long = Program { serial_ns: 2700 * US, region_ns: 5000 * US, ..HONEST };
    let all = play(&[HONEST, HONEST, HONEST, long], 2000 * MS);
    let had: Vec<_> = [500, 500, 500, 5000].iter().zip(&all).map(|(us, one)| us * US * one.done).collect();
    let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
    // All ask for more than a quarter, but who is in its serial phase has the others before it.
    assert!((most - least) * 10 <= *most, "{had:?}");
    assert!(had.iter().sum::<u64>() * 100 >= 2000 * MS * 90, "{had:?}");
}

/// Formula (1): s = 1 / (v / a + 1 - v), in thousandths.
// Paper: R17
#[test]
fn r17_formula_gives_the_papers_rate_for_half_of_the_processors() {
    let speedup = |v: u64, a: u64| 1_000_000_000 / (v * 1000 / a + (1000 - v) * 1000);
    assert_eq!((speedup(857, 8), speedup(858, 8) > 4000), (3998, true));
    assert_eq!(speedup(0, 8), 1000);
}

/// Among honest ones nobody gives up waiting; beside liars, the dead and the stopped they go on, and no wait
/// is longer than a lease of each, one more, and 20 ms.
#[test]
fn phases_waits_are_bounded_beside_anybody() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let jobs = random.between((2, 7)) as usize;
        let programs: Vec<_> = (0..jobs)
            .map(|at| Program {
                serial_ns: random.between((50, 3000)) * US,
                region_ns: random.between((50, 2500)) * US,
                lies: at > 0 && random.chance(200),
                dies_ns: if at > 0 && random.chance(200) { random.below(200 * MS) } else { u64::MAX },
                stops_ns: if random.chance(200) { random.below(200 * MS) } else { u64::MAX },
            })
            .collect();
        let honest = programs.iter().all(|program| !program.lies && program.stops_ns == u64::MAX);
        let all = play(&programs, 400 * MS);
        let most_ns = (jobs as u64 + 1) * LEASE_NS;
        for (program, one) in programs.iter().zip(&all) {
            assert!(one.wait_max_ns <= most_ns + GRACE_NS + 20 * US, "{seed}: {one:?} of {programs:#?}");
            assert!(!honest || one.gave_up == 0, "{seed}");
            assert!(program.lies || one.dead || one.done >= 5, "{seed}: {one:?} of {programs:#?}");
        }
    }
}
