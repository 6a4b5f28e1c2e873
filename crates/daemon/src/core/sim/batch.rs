//! Time limits, jobs that wait for others, and users that wait for jobs: also when controllers die.

use tutti_protocol::array::{Array, InArray};

use super::world::World;
use super::{ALL, Faults, NONE, run, run_all, seeds};
use crate::message::{After, Batch, Control, JobId, JobRow, Request};

const BATCH: Faults = Faults { batch: true, ..NONE };

#[test]
fn cluster_sim_batch_jobs_end_well_without_faults() {
    run_all(30, None, BATCH);
}

#[test]
fn cluster_sim_batch_jobs_end_despite_link_and_daemon_faults() {
    run_all(20, None, Faults { batch: true, controller_dies: false, ..ALL });
}

#[test]
fn cluster_sim_batch_jobs_end_despite_controller_deaths() {
    run_all(40, None, Faults { batch: true, ..ALL });
}

const HOLDS: Faults = Faults { holds: true, ..BATCH };

#[test]
fn cluster_sim_held_jobs_end_well_without_faults() {
    run_all(30, None, HOLDS);
}

#[test]
fn cluster_sim_held_jobs_end_despite_controller_deaths() {
    run_all(30, None, Faults { batch: true, holds: true, ..ALL });
}

/// A job is over and forgotten while its origin is away: the front end hears that output may be lost.
#[test]
fn cluster_sim_origin_that_was_away_reports_lost_output() {
    run(2372, None, Faults { batch: true, ..ALL });
}

/// Daemons die between saying TERM and keeping that they said so, and controllers that know of different
/// signals follow each other: a starter gets TERM once.
#[test]
fn cluster_sim_term_at_a_limit_is_sent_once() {
    run(2275, None, Faults { batch: true, ..ALL });
    run(2275, None, Faults { batch: true, controller_dies: false, ..ALL });
}

/// A node that knows nothing comes to a new controller before the one that had its number.
#[test]
fn cluster_sim_submission_is_one_job_though_numbers_were_free() {
    run(2593, None, Faults { batch: true, ..ALL });
}

/// Ends the run if it takes too long.
pub(super) fn await_that(world: &mut World, seed: u64, what: &str, is_so: impl Fn(&World) -> bool) {
    let end_ms = world.now_ms + 200_000;
    while !is_so(world) {
        assert!(world.now_ms < end_ms, "TUTTI_SIM_SEED={seed}: {what}: {}", world.clients_text());
        world.run_until(world.now_ms + 10);
    }
}

/// Submits a job at a node for these nodes, and waits until it has a number; the front end.
pub(super) fn submit_filed(world: &mut World, seed: u64, at: usize, on: &[usize], batch: Batch) -> usize {
    let submitted = world.submit_on(at, on, batch);
    await_that(world, seed, "it is submitted", |world| world.job_of(submitted).is_some());
    submitted
}

/// The row that a user of a node gets of a job when it is over.
pub(super) fn row_of(world: &mut World, seed: u64, at: usize, job: JobId) -> JobRow {
    let waits = world.user_requests(at, Request::Wait(job));
    await_that(world, seed, "it is over", |world| world.is_answered(waits));
    let Some([row]) = world.rows(waits) else { panic!("TUTTI_SIM_SEED={seed}: no row") };
    row.clone()
}

/// Ends the run without further faults: everything that is under way ends well.
pub(super) fn end_quietly(world: &mut World, seed: u64) {
    world.make_peace();
    await_that(world, seed, "all is quiet", World::is_quiet);
    world.check_end();
}

/// A held job starts when it is released and not before, also under the next controller.
#[test]
fn cluster_sim_hold_survives_controller_death() {
    for seed in seeds(40) {
        let mut world = World::new(seed, 4, 2);
        world.run_until(5_000);
        world.let_jobs_end_well(1..3);
        let mut batch = Batch::default();
        batch.rules_mut().held = seed % 2 == 0;
        // The second one waits for the first, so that it can be held before it has nodes.
        submit_filed(&mut world, seed, 1, &[1, 2], batch);
        let after = vec![After { job: JobId(1), ok: true, not_ok: false }];
        submit_filed(&mut world, seed, 2, &[3], Batch { after, ..Batch::default() });
        let is_first_held = seed % 2 == 0;
        let held = JobId(if is_first_held { 1 } else { 2 });
        let hold = world.user_requests(3, Request::Control(held, Control::Hold));
        if seed % 4 > 1 {
            world.replace_daemon_after(0, seed / 4 % 8, 800);
        }
        await_that(&mut world, seed, "it is held, or has nodes", |world| world.is_answered(hold));
        world.run_until(world.now_ms + 20_000);
        let started = [JobId(1), JobId(2)].map(|job| world.has_started(job));
        let refused = world.refusal(hold).is_some();
        // What was answered holds. A job that had its nodes before was not held.
        assert_eq!(started[held.0 as usize - 1], refused, "TUTTI_SIM_SEED={seed}: {started:?}");
        assert!(is_first_held || started[0], "TUTTI_SIM_SEED={seed}: {started:?}");
        assert!(!(is_first_held && refused), "TUTTI_SIM_SEED={seed}: it was held before it had nodes");
        let release = world.user_requests(1, Request::Control(held, Control::Release));
        await_that(&mut world, seed, "it is released", |world| world.is_answered(release));
        let waits = world.user_requests(2, Request::Wait(JobId(2)));
        await_that(&mut world, seed, "both are over", |world| world.is_answered(waits));
        end_quietly(&mut world, seed);
    }
}

/// A job that is requeued begins once more, and who waits for it hears of the new one, also when the
/// controller dies while it takes its place.
#[test]
fn cluster_sim_requeued_job_begins_anew_despite_controller_deaths() {
    let mut tried = 0;
    for seed in seeds(40) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..100);
        submit_filed(&mut world, seed, 1, &[1, 2], Batch::default());
        await_that(&mut world, seed, "it runs", |world| world.has_started(JobId(1)));
        let after = vec![After { job: JobId(1), ok: true, not_ok: false }];
        submit_filed(&mut world, seed, 2, &[3], Batch { after, ..Batch::default() });
        let requeue = world.user_requests(3, Request::Control(JobId(1), Control::Requeue));
        if seed % 2 == 1 {
            world.replace_daemon_after(0, seed / 2 % 8, 800);
        }
        await_that(&mut world, seed, "it is requeued", |world| world.is_answered(requeue));
        let is_told = world.job_of(requeue).is_some();
        assert!(is_told || seed % 2 == 1, "TUTTI_SIM_SEED={seed}: {:?}", world.refusal(requeue));
        if !is_told {
            // The new controller had not heard of the jobs yet. It has now, and of the new one, if there is
            // one already.
            world.run_until(world.now_ms + 20_000);
            let again = world.user_requests(3, Request::Control(JobId(1), Control::Requeue));
            await_that(&mut world, seed, "the second question is answered", |world| world.is_answered(again));
        }
        let row = row_of(&mut world, seed, 2, JobId(1));
        let restart = row.restart().map(|restart| (restart.first, restart.count));
        // One whose nodes were just chosen is lost with the controller, and nothing is known of it. The old
        // one hangs: by itself it does not end.
        let is_lost = seed % 2 == 1 && restart.is_some() && row.status != Some(0);
        let has_begun_anew =
            restart.is_some_and(|(first, count)| first == JobId(1) && (1..=2).contains(&count));
        assert!(is_lost || row.status == Some(0) && has_begun_anew, "TUTTI_SIM_SEED={seed}: {row:?}");
        tried += usize::from(!is_lost);
        let waits = world.user_requests(2, Request::Wait(JobId(2)));
        await_that(&mut world, seed, "the one behind it is over", |world| world.is_answered(waits));
        end_quietly(&mut world, seed);
    }
    assert!(tried > 25 || seeds(2).len() == 1, "{tried} jobs began anew");
}

/// An array is over when its tasks are, as many run at once as may, and its status is that of the first that
/// failed, whichever daemon dies meanwhile. A submission that a dead controller left half done is none.
#[test]
fn cluster_sim_array_runs_each_task_once_despite_controller_deaths() {
    let mut tried = 0;
    for seed in seeds(60) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_end_well(1..100);
        world.at_once = Some(2);
        let mut batch = Batch::default();
        batch.set_array(InArray::Whole(Array { tasks: (3..8).collect(), at_once: 2 }));
        let submitted = world.submit_on(1, &[2], batch);
        if seed % 3 > 0 {
            // While its files are written, or while its tasks run.
            world.run_until(world.now_ms + seed % 3 * seed * 7 % 400);
            world.replace_daemon_after(0, seed % 5, 800);
        }
        await_that(&mut world, seed, "it is submitted", |world| world.job_of(submitted).is_some());
        let array = world.job_of(submitted).expect("it has a number");
        let waits = world.user_requests(2, Request::Wait(array));
        await_that(&mut world, seed, "it is over", |world| world.is_answered(waits));
        let Some([row]) = world.rows(waits) else { panic!("TUTTI_SIM_SEED={seed}: no row") };
        let status = row.status;
        let tasks: Vec<u32> = world.tasks_started(array);
        // One whose nodes were just chosen is lost with the controller, and nothing is known of it.
        let is_lost = status == Some(1) && seed % 3 > 0;
        assert!(
            is_lost || (status, &tasks[..]) == (Some(0), &[3, 4, 5, 6, 7]),
            "TUTTI_SIM_SEED={seed}: {row:?} {tasks:?}"
        );
        tried += usize::from(!is_lost);
        end_quietly(&mut world, seed);
    }
    assert!(tried > 40 || seeds(2).len() == 1, "{tried} arrays ended well");
}

/// The limit goes on under the next controller: TERM once (the starter holds that), then KILL, and the status
/// says so.
#[test]
fn cluster_sim_time_limit_survives_controller_death() {
    let mut tried = 0;
    for seed in seeds(60) {
        let mut world = World::new(seed, 4, 2);
        world.run_until(5_000);
        world.let_jobs_hang(1..2);
        let batch = Batch { time_ms: Some(4_000), ..Batch::default() };
        let submitted = world.submit_on(1, &[1, 2], batch);
        await_that(&mut world, seed, "it is submitted", |world| world.is_answered(submitted));
        await_that(&mut world, seed, "it has begun", |world| world.has_started(JobId(1)));
        let began_ms = world.now_ms;
        let waits = world.user_requests(2, Request::Wait(JobId(1)));
        // Before it starts, while it runs, and between TERM and KILL.
        world.run_until(began_ms + seed % 15 * 1_000);
        let replaces = seed % 4 > 0;
        if replaces {
            world.replace_daemon(0, 800);
        }
        await_that(&mut world, seed, "it is over", |world| world.is_answered(waits));
        let Some([row]) = world.rows(waits) else { panic!("TUTTI_SIM_SEED={seed}: no row") };
        if row.status == Some(1) {
            // A starter has died.
            continue;
        }
        tried += 1;
        assert_eq!(row.status, Some(124), "TUTTI_SIM_SEED={seed}: {row:?}");
        let cause = row.cause.as_deref().unwrap_or_default();
        assert!(cause.contains("time limit of 0:04 (--time)"), "TUTTI_SIM_SEED={seed}: {row:?}");
        let took_ms = world.now_ms - began_ms;
        // The controller may have died before it knew that the ranks run; then it is the next one that counts
        // from there.
        assert!((13_500..20_000).contains(&took_ms), "TUTTI_SIM_SEED={seed}: {took_ms} ms");
    }
    assert!(tried > 40 || seeds(2).len() == 1, "{tried} jobs reached their limit");
}

/// Between TERM and KILL passes what the user has said, at a limit and when the user ends the job, also where
/// the controller dies meanwhile.
#[test]
fn cluster_sim_kill_follows_term_after_the_delay_of_the_user() {
    const KILL_AFTER_MS: u64 = 20_000;
    let mut tried = [0; 2];
    for seed in seeds(60) {
        let mut world = World::new(seed, 4, 2);
        world.run_until(5_000);
        world.let_jobs_hang(1..2);
        let by_user = seed % 2 == 0;
        let batch = match by_user {
            true => Batch::default(),
            false => Batch { time_ms: Some(1_000), kill_after_ms: Some(KILL_AFTER_MS), ..Batch::default() },
        };
        let submitted = world.submit_on(1, &[1, 2], batch);
        await_that(&mut world, seed, "it is submitted", |world| world.is_answered(submitted));
        await_that(&mut world, seed, "it has begun", |world| world.has_started(JobId(1)));
        if by_user {
            let end = world.user_requests(2, Request::Control(JobId(1), Control::End(KILL_AFTER_MS)));
            await_that(&mut world, seed, "it gets TERM", |world| world.is_answered(end));
        }
        let began_ms = world.now_ms;
        let waits = world.user_requests(2, Request::Wait(JobId(1)));
        world.run_until(began_ms + 3_000 + seed % 8 * 1_000);
        if seed % 3 > 0 {
            world.replace_daemon(0, 800);
        }
        await_that(&mut world, seed, "it is over", |world| world.is_answered(waits));
        let Some([row]) = world.rows(waits) else { panic!("TUTTI_SIM_SEED={seed}: no row") };
        if row.status == Some(1) {
            // A starter has died.
            continue;
        }
        tried[usize::from(by_user)] += 1;
        assert_eq!(row.status, Some(if by_user { 137 } else { 124 }), "TUTTI_SIM_SEED={seed}: {row:?}");
        let took_ms = world.now_ms - began_ms;
        assert!((19_500..29_000).contains(&took_ms), "TUTTI_SIM_SEED={seed}: {took_ms} ms");
    }
    assert!(tried.iter().all(|tried| *tried > 15) || seeds(2).len() == 1, "{tried:?} jobs were killed");
}

/// Clocks that are set neither end a job before its limit nor let it run on behind it, also where the
/// controller dies and the next one has it from nodes whose clocks show anything.
#[test]
fn cluster_sim_time_limit_is_not_changed_by_clocks_that_are_set() {
    const HOUR_MS: i64 = 3_600_000;
    let mut tried = 0;
    for seed in seeds(40) {
        let mut world = World::new(seed, 4, 2);
        world.run_until(5_000);
        world.let_jobs_hang(1..2);
        let batch = Batch { time_ms: Some(20_000), ..Batch::default() };
        let submitted = world.submit_on(1, &[1, 2], batch);
        await_that(&mut world, seed, "it is submitted", |world| world.is_answered(submitted));
        await_that(&mut world, seed, "it has begun", |world| world.has_started(JobId(1)));
        let began_ms = world.now_ms;
        let waits = world.user_requests(2, Request::Wait(JobId(1)));
        world.run_until(began_ms + 3_000);
        let ahead_ms = if seed % 2 == 0 { HOUR_MS } else { -HOUR_MS };
        (0..4).for_each(|node| world.set_clock(node, ahead_ms * (node as i64 % 2 + 1)));
        if seed % 3 == 0 {
            world.run_until(began_ms + 8_000);
            world.replace_daemon(0, 800);
        }
        await_that(&mut world, seed, "it is over", |world| world.is_answered(waits));
        let Some([row]) = world.rows(waits) else { panic!("TUTTI_SIM_SEED={seed}: no row") };
        if row.status == Some(1) {
            // A starter has died.
            continue;
        }
        tried += 1;
        assert_eq!(row.status, Some(124), "TUTTI_SIM_SEED={seed}: {row:?}");
        let took_ms = world.now_ms - began_ms;
        assert!((29_500..36_000).contains(&took_ms), "TUTTI_SIM_SEED={seed}: {took_ms} ms");
    }
    assert!(tried > 25 || seeds(2).len() == 1, "{tried} jobs reached their limit");
}

/// The node that writes a job's files is lost for good: the job is over without it, and the next one starts.
#[test]
fn cluster_sim_job_behind_one_whose_origin_is_lost_starts() {
    for seed in seeds(20) {
        let mut world = World::new(seed, 4, 2);
        world.run_until(5_000);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..3);
        submit_filed(&mut world, seed, 3, &[1], Batch::default());
        await_that(&mut world, seed, "it has begun", |world| world.has_started(JobId(1)));
        let behind = vec![After { job: JobId(1), ok: false, not_ok: false }];
        submit_filed(&mut world, seed, 2, &[1], Batch { after: behind, ..Batch::default() });
        world.remove_daemon(3);
        let kill = world.user_requests(2, Request::Control(JobId(1), Control::Kill));
        await_that(&mut world, seed, "it is killed", |world| world.is_answered(kill));
        await_that(&mut world, seed, "the next one starts", |world| world.has_started(JobId(2)));
        end_quietly(&mut world, seed);
    }
}

/// Three jobs wait for one: until it is over, until it has ended well, and until the second is over.
/// Controllers die at any time.
#[test]
fn cluster_sim_dependencies_survive_controller_deaths() {
    let mut tried = 0;
    for seed in seeds(120) {
        let mut world = World::new(seed, 4, 2);
        world.run_until(5_000);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..5);
        world.strict_order = true;
        submit_filed(&mut world, seed, 1, &[1, 2], Batch::default());
        await_that(&mut world, seed, "it has begun", |world| world.has_started(JobId(1)));
        let behind = |job, ok| Batch { after: vec![After { job, ok, not_ok: false }], ..Batch::default() };
        let mut dependents = Vec::new();
        for (job, ok) in [(JobId(1), false), (JobId(1), true), (JobId(3), false)] {
            let submitted = submit_filed(&mut world, seed, 2, &[1], behind(job, ok));
            dependents.push(world.job_of(submitted).expect("it has a number"));
        }
        assert_eq!(dependents, [2, 3, 4].map(JobId), "TUTTI_SIM_SEED={seed}");
        if seed % 3 == 0 {
            world.replace_daemon(0, 800);
            world.run_until(world.now_ms + seed * 37 % 6_000);
        }
        let waits: Vec<usize> =
            dependents.iter().map(|job| world.user_requests(3, Request::Wait(*job))).collect();
        if dependents.iter().any(|job| world.has_started(*job)) {
            // A starter of the first has died; that it is over then the world holds.
            continue;
        }
        let kill = world.user_requests(2, Request::Control(JobId(1), Control::Kill));
        if seed % 2 == 0 {
            world.run_until(world.now_ms + seed * 13 % 300);
            world.replace_daemon_after(0, seed / 2 % 8, 800);
        }
        await_that(&mut world, seed, "it is killed", |world| world.is_answered(kill));
        // The controller may have died between the answer and the order.
        world.run_until(world.now_ms + 15_000);
        world.user_requests(2, Request::Control(JobId(1), Control::Kill));
        for wait in &waits {
            await_that(&mut world, seed, "they are over", |world| world.is_answered(*wait));
        }
        // Those that started did so behind the first: the world holds that.
        // One whose nodes were just chosen is lost with the controller, and nothing is known of it.
        let is_lost = |wait: usize| world.rows(wait).is_none();
        assert!(world.has_started(JobId(2)) || is_lost(waits[0]), "TUTTI_SIM_SEED={seed}");
        assert!(!world.has_started(JobId(3)), "TUTTI_SIM_SEED={seed}: the first was killed");
        assert!(world.has_started(JobId(4)) || is_lost(waits[2]), "TUTTI_SIM_SEED={seed}");
        if let Some([row]) = world.rows(waits[1]) {
            tried += usize::from(!is_lost(waits[0]));
            let cause = row.cause.as_deref().unwrap_or_default();
            assert!(row.status == Some(1) && cause.starts_with("dependency failed: "), "{row:?}");
        }
        end_quietly(&mut world, seed);
    }
    assert!(tried > 60 || seeds(2).len() == 1, "{tried} ends were seen");
}
