use super::*;

const S: u64 = 1_000_000_000;

fn job(submit_s: u64, run_s: u64, nodes: u32) -> Job {
    Job { submit_ns: submit_s * S, run_ns: run_s * S, estimate_ns: run_s * S, nodes, idle_permille: 0 }
}

fn ends(jobs: &[Job], nodes: u32, discipline: Discipline) -> Vec<u64> {
    let options = Options { nodes, discipline, slice_ns: 100_000_000, skip: true };
    let report = play(jobs, options);
    // To the nearest second: a slice is a tenth of one.
    report.outcomes.iter().map(|outcome| outcome.map_or(0, |it| (it.end_ns + S / 2) / S)).collect()
}

const TURNS: Discipline = Discipline::Turns(Policy::RoundRobin);

#[test]
fn replay_one_job_alone_takes_its_time() {
    for discipline in [Discipline::Fifo, Discipline::Easy, TURNS, Discipline::Turns(Policy::Dqt)] {
        assert_eq!(ends(&[job(5, 100, 3)], 4, discipline), [105]);
    }
}

#[test]
fn replay_two_equal_jobs_share_or_follow_each_other() {
    let jobs = [job(0, 100, 4), job(0, 100, 4)];
    assert_eq!(ends(&jobs, 4, Discipline::Fifo), [100, 200]);
    assert_eq!(ends(&jobs, 4, TURNS), [200, 200]);
    assert_eq!(ends(&jobs, 4, Discipline::Turns(Policy::Dqt)), [200, 200]);
}

/// Made by hand: a wide job waits behind a narrow long one; a short one fits before it, a long one does not.
#[test]
fn replay_easy_backfills_what_does_not_delay_the_first() {
    let jobs = [job(0, 100, 3), job(1, 50, 4), job(2, 90, 1), job(3, 100, 1)];
    assert_eq!(ends(&jobs, 4, Discipline::Fifo), [100, 150, 240, 250]);
    assert_eq!(ends(&jobs, 4, Discipline::Easy), [100, 150, 92, 250]);
    // With turns the third and the fourth fill the hole beside the first.
    let turns = ends(&jobs, 4, TURNS);
    assert!(turns[2] < 240 && turns[1] > 100, "{turns:?}");
}

#[test]
fn replay_jobs_that_fit_nowhere_are_left_out() {
    let jobs = [job(0, 10, 5), job(0, 10, 0), Job { run_ns: 0, ..job(0, 1, 1) }, job(0, 10, 4)];
    assert_eq!(ends(&jobs, 4, TURNS), [0, 0, 0, 10]);
    assert_eq!(
        play(&[], Options { nodes: 4, discipline: TURNS, slice_ns: 100_000_000, skip: true }),
        Report::default()
    );
}

/// Played and skipped rounds agree within some slices for each job that was beside.
#[test]
fn replay_skipped_rounds_are_as_those_that_were_played() {
    for seed in 1..=30_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut at = 0;
        let jobs: Vec<Job> = (0..12)
            .map(|_| {
                at += random(40);
                job(at, 1 + random(60), 1 + random(8) as u32)
            })
            .collect();
        for discipline in [Discipline::Fifo, Discipline::Easy, TURNS, Discipline::Turns(Policy::Dqt)] {
            let with = |skip| play(&jobs, Options { nodes: 8, discipline, slice_ns: 100_000_000, skip });
            let (played, skipped) = (with(false), with(true));
            for (one, other) in played.outcomes.iter().zip(&skipped.outcomes) {
                let (one, other) = (one.expect("it runs").end_ns, other.expect("it runs").end_ns);
                assert!(one.abs_diff(other) <= 100_000_000, "seed {seed}, {discipline:?}: {one} {other}");
            }
        }
    }
}

fn filling(jobs: &[Job], nodes: u32) -> Vec<u64> {
    ends(jobs, nodes, Discipline::Filling(Policy::RoundRobin))
}

/// Made by hand: each of two jobs leaves a fifth of the time, so each goes on with 0.5 + 0.1 of it.
#[test]
fn replay_jobs_fill_what_those_leave_that_have_their_turn() {
    let coarse = |run_s, nodes| Job { idle_permille: 200, ..job(0, run_s, nodes) };
    let jobs = [coarse(60, 4), coarse(60, 4)];
    assert_eq!((ends(&jobs, 4, TURNS), filling(&jobs, 4)), (vec![120, 120], vec![100, 100]));
    // Who leaves nothing is filled by nobody.
    let jobs = [job(0, 60, 4), coarse(60, 4)];
    assert_eq!(filling(&jobs, 4), [100, 110], "the first fills the second, which has the last 10 s alone");
    // Three jobs: two share what the third leaves.
    let jobs = [coarse(60, 2), coarse(60, 2), coarse(60, 2)];
    assert_eq!(filling(&jobs, 2), [150, 150, 150]);
    // Alone nobody fills anything.
    assert_eq!(filling(&[coarse(60, 4)], 4), [60]);
}

#[test]
fn replay_without_idle_time_filling_is_as_turns() {
    let jobs: Vec<Job> = (0..40).map(|at| job(at * 7, 20 + at * 13 % 90, 1 + at as u32 * 5 % 8)).collect();
    assert_eq!(filling(&jobs, 8), ends(&jobs, 8, TURNS));
}
