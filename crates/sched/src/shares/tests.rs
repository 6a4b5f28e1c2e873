use super::*;

const SECOND: u64 = 1_000_000_000;

fn user(user: u32) -> Owner {
    Owner { user, ..Owner::default() }
}

fn weights(ledger: &mut Ledger, jobs: &[(u64, Owner, u32, u32)]) -> BTreeMap<u64, u64> {
    ledger.begin();
    for &(job, owner, weight, row) in jobs {
        ledger.claim(Claim { job: JobId(job), owner, weight, row, effective: 0 });
    }
    ledger.weigh().iter().map(|claim| (claim.job.0, claim.effective)).collect()
}

#[test]
fn shares_of_one_user_are_the_declared_weights() {
    let mut ledger = Ledger::default();
    ledger.charge(1, 100 * SECOND, 1, 1);
    let found = weights(&mut ledger, &[(1, user(1), 100, 0), (2, user(1), 300, 1)]);
    assert_eq!(found, BTreeMap::from([(1, 100_000), (2, 300_000)]));
}

#[test]
fn shares_are_divided_among_the_jobs_of_a_user_first() {
    let mut ledger = Ledger::default();
    let mut jobs = vec![(1, user(1), 100, 0)];
    jobs.extend((2..18).map(|job| (job, user(2), 100, job as u32)));
    let found = weights(&mut ledger, &jobs);
    let rest: u64 = (2..18).map(|job| found[&job]).sum();
    assert!(found[&1].abs_diff(rest) * 1000 < rest, "{found:?}");
    // Two of them in one row run at once: the row counts once.
    jobs.iter_mut().skip(1).for_each(|job| job.3 /= 2);
    let found = weights(&mut ledger, &jobs);
    let rest: u64 = (2..18).step_by(2).map(|job| found[&job]).sum();
    assert!(found[&1].abs_diff(rest) * 1000 < rest, "{found:?}");
}

#[test]
fn shares_of_groups_are_divided_among_their_users() {
    let of = |group: u32, share: u32, user: u32| Owner { user, share: 100, group: Some((group, share)) };
    let jobs = [(1, of(7, 60, 1), 100, 0), (2, of(7, 60, 2), 100, 1), (3, of(8, 40, 3), 100, 2)];
    let found = weights(&mut Ledger::default(), &jobs);
    let all: u64 = found.values().sum();
    let percent = |job: u64| (found[&job] * 100 + all / 2) / all;
    assert_eq!([percent(1), percent(2), percent(3)], [30, 30, 40]);
}

#[test]
fn shares_fall_with_use_to_an_eighth_and_come_back() {
    let mut ledger = Ledger::default();
    let jobs = [(1, user(1), 100, 0), (2, user(2), 100, 1)];
    let ratio = |ledger: &mut Ledger| {
        let found = weights(ledger, &jobs);
        found[&2] * 1000 / found[&1]
    };
    assert_eq!(ratio(&mut ledger), 1000);
    ledger.charge(1, 300 * SECOND, 1, 1);
    ledger.charge(2, 100 * SECOND, 1, 1);
    // Three quarters of the use on half of a share: two thirds of it are left.
    assert!(ratio(&mut ledger).abs_diff(1500) <= 2);
    // Everything used by one: half of it is more than his due.
    let mut ledger = Ledger::default();
    ledger.charge(1, 300 * SECOND, 1, 1);
    assert!(ratio(&mut ledger).abs_diff(2000) <= 2);
    // With a small share the floor is an eighth.
    let mut ledger = Ledger::default();
    ledger.charge(1, 300 * SECOND, 1, 1);
    let small = Owner { share: 1, ..user(1) };
    let found = weights(&mut ledger, &[(1, small, 100, 0), (2, user(2), 100, 1)]);
    let ratio = found[&2] / found[&1];
    assert!((795..=805).contains(&ratio), "{ratio}");
    // What was used is forgotten.
    ledger.decay(40 * HALF_LIFE_NS);
    let found = weights(&mut ledger, &[(1, small, 100, 0), (2, user(2), 100, 1)]);
    assert!((99..=101).contains(&(found[&2] / found[&1])), "{found:?}");
}

#[test]
fn shares_forget_half_in_a_half_life_in_any_steps() {
    for steps in [1, 2, 7, 600, 6000] {
        let mut ledger = Ledger::default();
        ledger.charge(1, 1_000_000 * SECOND, 1, 1);
        (0..steps).for_each(|_| ledger.decay(HALF_LIFE_NS / steps));
        let left = ledger.used_ns[&1];
        assert!(left.abs_diff(500_000 * SECOND) < 60 * SECOND, "{left} after {steps} steps");
    }
}

#[test]
fn shares_are_restored_as_if_nothing_had_been_between() {
    let mut first = Ledger::default();
    first.charge(1, 300 * SECOND, 1, 1);
    first.charge(2, 100 * SECOND, 1, 1);
    let mut second = Ledger::default();
    second.restore(&first.used().collect::<Vec<_>>(), HALF_LIFE_NS);
    first.decay(HALF_LIFE_NS);
    assert_eq!(first.used().collect::<Vec<_>>(), second.used().collect::<Vec<_>>());
    let jobs = [(1, user(1), 100, 0), (2, user(2), 100, 1)];
    assert_eq!(weights(&mut first, &jobs), weights(&mut second, &jobs));
    // What has been used before it is known counts too; where the past does not count, nothing does.
    second.restore(&[(2, u64::MAX), (2, 1)], 0);
    assert_eq!(second.used_ns[&2], u64::MAX);
    second.set_half_life(0);
    second.restore(&[(1, 5)], 0);
    assert_eq!(second.used().count(), 0);
}

#[test]
fn shares_take_any_numbers() {
    let mut seed = 5_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for _ in 0..2000 {
        let mut ledger = Ledger::default();
        ledger.set_half_life(random() % 3 * random() * SECOND);
        let jobs: Vec<_> = (0..1 + random() % 20)
            .map(|job| {
                let group = (random() % 2 == 0).then(|| (random() as u32 % 3, 1 + random() as u32 % 10_000));
                let owner = Owner { user: random() as u32 % 5, share: 1 + random() as u32 % 10_000, group };
                (job, owner, 1 + random() as u32 % 10_000, random() as u32 % 6)
            })
            .collect();
        for _ in 0..random() % 5 {
            ledger.charge(random() as u32 % 5, random() << (random() % 33), random() % 9, random() % 9);
            ledger.decay(random() * 1_000_000);
        }
        let found = weights(&mut ledger, &jobs);
        assert!(found.len() == jobs.len() && found.values().all(|weight| *weight >= 1), "{found:?}");
    }
}
