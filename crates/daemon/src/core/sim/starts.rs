//! Starts of jobs at their time, and of jobs that begin anew: also when a disk, a node or a controller fails
//! meanwhile.

use tutti_protocol::array::{Array, InArray};
use tutti_protocol::config::parse::{AllKnown, parse};

use super::batch::{await_that, end_quietly, row_of, submit_filed};
use super::seeds;
use super::world::World;
use crate::core::Core;
use crate::core::action::Action;
use crate::core::clocks::Clocks;
use crate::core::config::Loaded;
use crate::core::event::Event;
use crate::gang::{Command, SwitchEvent};
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::{After, Batch, Change, Control, Host, JobId, Request, Submit, Terms, User};

/// No other job ends meanwhile, and no node comes.
#[test]
fn cluster_sim_job_starts_at_its_time_to_begin() {
    for seed in seeds(20) {
        let mut world = World::calm(seed, 3, 2);
        world.let_jobs_end_well(1..2);
        let mut batch = Batch::default();
        batch.rules_mut().begin_ms = Some(world.clock(0) + 5_000);
        let asked_ms = world.now_ms;
        submit_filed(&mut world, seed, 1, &[1, 2], batch);
        await_that(&mut world, seed, "it starts", |world| world.has_started(JobId(1)));
        let took_ms = world.now_ms - asked_ms;
        assert!((5_000..7_000).contains(&took_ms), "TUTTI_SIM_SEED={seed}: {took_ms} ms");
        end_quietly(&mut world, seed);
    }
}

/// A job of so many ranks on a node.
fn on_node(world: &mut World, name: &str, ranks: u32) -> Submit {
    let mut submit = world.submit();
    submit.job.programs[0].ranks = ranks;
    submit.nodes = Some(1);
    submit.hosts = vec![Host { name: name.into(), ranks: None }];
    (submit.terms, submit.batch) = (Terms::default(), Batch::default());
    submit
}

/// A job that has node 1 to itself; gives its user's program.
fn submit_alone(world: &mut World, batch: Batch) -> usize {
    let mut submit = on_node(world, "node1", 1);
    (submit.terms.exclusive, submit.batch) = (true, batch);
    world.user_requests(2, Request::Submit(Box::new(submit)))
}

/// Job 1 has node 1, and job 2, of these terms, has been waiting for it in the scheduler.
fn two_for_one_node(seed: u64, batch: Batch) -> World {
    let mut world = World::calm(seed, 3, 2);
    world.let_jobs_hang(1..2);
    world.let_jobs_end_well(2..3);
    let first = submit_alone(&mut world, Batch::default());
    await_that(&mut world, seed, "it is submitted", |world| world.job_of(first).is_some());
    await_that(&mut world, seed, "it starts", |world| world.has_started(JobId(1)));
    let second = submit_alone(&mut world, batch);
    await_that(&mut world, seed, "it is submitted", |world| world.job_of(second).is_some());
    world.run_until(world.now_ms + 500);
    world
}

/// The scheduler has been asked for the job, and finds nodes for it before that time.
#[test]
fn cluster_sim_job_that_is_put_off_starts_at_its_new_time() {
    for seed in seeds(20) {
        let mut world = two_for_one_node(seed, Batch::default());
        let (begin_ms, asked_ms) = (Some(world.clock(0) + 10_000), world.now_ms);
        let change = Change { begin_ms, ..Change::default() };
        let changed = world.user_requests(2, Request::Change(JobId(2), change));
        await_that(&mut world, seed, "it is put off", |world| world.is_answered(changed));
        assert_eq!(world.refusal(changed), None, "TUTTI_SIM_SEED={seed}");
        let kill = world.user_requests(2, Request::Control(JobId(1), Control::Kill));
        await_that(&mut world, seed, "the first is killed", |world| world.is_answered(kill));
        await_that(&mut world, seed, "the second starts", |world| world.has_started(JobId(2)));
        let took_ms = world.now_ms - asked_ms;
        assert!((10_000..12_000).contains(&took_ms), "TUTTI_SIM_SEED={seed}: {took_ms} ms");
        end_quietly(&mut world, seed);
    }
}

/// A node that was chosen is lost before the controller hears of the choice.
#[test]
fn changed_time_limit_holds_when_the_scheduler_is_asked_once_more() {
    let mut world = two_for_one_node(1, Batch { time_ms: Some(60_000), ..Batch::default() });
    let change = Change { time_ms: Some(7_200_000), ..Change::default() };
    let changed = world.user_requests(2, Request::Change(JobId(2), change));
    await_that(&mut world, 1, "it is changed", |world| world.is_answered(changed));
    let (mut core, _, clocks) = world.take_core(0).expect("it lives");
    core.handle(clocks, Event::Gang(SwitchEvent::Placed(JobId(2), vec![(NodeId(9), 1)])));
    let asked = std::iter::from_fn(|| core.poll_action()).find_map(|action| match action {
        Action::Gang(Command::Submit(job, demand, _)) => Some((job, demand.lasts_ns())),
        _ => None,
    });
    let (job, lasts_ns) = asked.expect("the scheduler is asked once more");
    assert_eq!(job, JobId(2));
    assert!(lasts_ns.is_some_and(|ns| ns >= 7_200_000 * 1_000_000), "{lasts_ns:?}");
}

/// A job of the name `one` that is to start behind others of its name, or not.
fn named(behind_same_name: bool) -> Batch {
    let mut batch = Batch { name: "one".into(), ..Batch::default() };
    batch.rules_mut().behind_same_name = behind_same_name;
    batch
}

#[test]
fn cluster_sim_job_behind_one_that_is_renamed_starts() {
    for seed in seeds(10) {
        let mut world = World::calm(seed, 3, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..3);
        for batch in [named(false), named(true)] {
            submit_filed(&mut world, seed, 1, &[1], batch);
        }
        world.run_until(world.now_ms + 5_000);
        assert!(!world.has_started(JobId(2)), "TUTTI_SIM_SEED={seed}");
        let change = Change { name: Some("other".into()), ..Change::default() };
        world.user_requests(2, Request::Change(JobId(1), change));
        await_that(&mut world, seed, "the second starts", |world| world.has_started(JobId(2)));
        assert!(world.parts_alive(1).contains(&JobId(1)), "TUTTI_SIM_SEED={seed}: the first hangs");
        end_quietly(&mut world, seed);
    }
}

/// Terms of a job that is to start when job 1 is over.
fn behind_first() -> Batch {
    Batch { after: vec![After { job: JobId(1), ok: false, not_ok: false }], ..Batch::default() }
}

/// The job that begins anew and the one behind it have one name, and do not wait for each other.
#[test]
fn cluster_sim_requeued_job_of_a_name_starts_before_those_behind_it() {
    for seed in seeds(10) {
        let mut world = World::calm(seed, 3, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..4);
        for batch in [named(true), Batch { name: "one".into(), ..behind_first() }] {
            submit_filed(&mut world, seed, 1, &[1], batch);
        }
        await_that(&mut world, seed, "the first starts", |world| world.has_started(JobId(1)));
        let requeue = world.user_requests(2, Request::Control(JobId(1), Control::Requeue));
        await_that(&mut world, seed, "it is requeued", |world| world.job_of(requeue).is_some());
        await_that(&mut world, seed, "it begins anew", |world| world.has_started(JobId(3)));
        await_that(&mut world, seed, "the next one starts", |world| world.has_started(JobId(2)));
        end_quietly(&mut world, seed);
    }
}

/// The disk does not take the file of the job that is to take the place of one that runs on: what waited for
/// that one waits for it still.
#[test]
fn cluster_sim_requeue_that_cannot_be_filed_leaves_all_as_it_was() {
    for seed in seeds(10) {
        let mut world = World::calm(seed, 3, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..4);
        for batch in [Batch::default(), behind_first()] {
            submit_filed(&mut world, seed, 1, &[1], batch);
        }
        await_that(&mut world, seed, "the first starts", |world| world.has_started(JobId(1)));
        let waits = world.user_requests(2, Request::Wait(JobId(1)));
        world.run_until(world.now_ms + 500);
        world.refused_files.insert(JobId(3));
        let requeue = world.user_requests(2, Request::Control(JobId(1), Control::Requeue));
        await_that(&mut world, seed, "the requeue is answered", |world| world.is_answered(requeue));
        let refusal = world.refusal(requeue).unwrap_or_default();
        assert!(refusal.contains("no space left on device"), "TUTTI_SIM_SEED={seed}: {refusal}");
        world.run_until(world.now_ms + 5_000);
        assert!(!world.is_answered(waits) && !world.has_started(JobId(2)), "TUTTI_SIM_SEED={seed}");
        world.user_requests(2, Request::Control(JobId(1), Control::Kill));
        await_that(&mut world, seed, "its end is told", |world| world.is_answered(waits));
        await_that(&mut world, seed, "the next one starts", |world| world.has_started(JobId(2)));
        end_quietly(&mut world, seed);
    }
}

/// The controller dies when it has the file of the new job, and before that of the one behind it says for
/// which one it waits now.
#[test]
fn cluster_sim_job_behind_a_requeued_one_starts_under_the_next_controller() {
    for seed in seeds(20) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..4);
        let mut behind = behind_first();
        behind.after[0].ok = true;
        for batch in [Batch::default(), behind] {
            submit_filed(&mut world, seed, 1, &[1, 2], batch);
        }
        await_that(&mut world, seed, "the first starts", |world| world.has_started(JobId(1)));
        world.slow_files.insert(JobId(2));
        let requeue = world.user_requests(3, Request::Control(JobId(1), Control::Requeue));
        await_that(&mut world, seed, "it is requeued", |world| world.job_of(requeue).is_some());
        world.replace_daemon(0, 800);
        world.slow_files.clear();
        world.run_until(world.now_ms + 20_000);
        let row = row_of(&mut world, seed, 3, JobId(2));
        assert_eq!((row.status, row.cause.as_deref()), (Some(0), None), "TUTTI_SIM_SEED={seed}");
        end_quietly(&mut world, seed);
    }
}

/// The controller dies when the new job has its nodes, and before the file of the one behind it says for
/// which one it waits now: the next controller has that from the nodes.
#[test]
fn cluster_sim_job_behind_a_requeued_one_waits_for_it_where_it_runs_already() {
    for seed in seeds(20) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_hang(3..4);
        world.let_jobs_end_well(2..3);
        for batch in [Batch::default(), behind_first()] {
            let submitted = world.submit_on(1, &[1, 2], batch);
            await_that(&mut world, seed, "it is submitted", |world| world.job_of(submitted).is_some());
        }
        await_that(&mut world, seed, "the first starts", |world| world.has_started(JobId(1)));
        world.slow_files.insert(JobId(2));
        let requeue = world.user_requests(3, Request::Control(JobId(1), Control::Requeue));
        await_that(&mut world, seed, "it is requeued", |world| world.job_of(requeue).is_some());
        await_that(&mut world, seed, "it begins anew", |world| world.has_started(JobId(3)));
        world.run_until(world.now_ms + seed % 4 * 500);
        world.replace_daemon(0, 800);
        world.slow_files.clear();
        // Longer than nodes may tell of jobs that a controller does not know.
        world.run_until(world.now_ms + 70_000);
        assert!(!world.has_started(JobId(2)), "TUTTI_SIM_SEED={seed}: the new one hangs");
        world.user_requests(2, Request::Control(JobId(1), Control::Kill));
        await_that(&mut world, seed, "the one behind it starts", |world| world.has_started(JobId(2)));
        world.make_peace();
        await_that(&mut world, seed, "all is quiet", World::is_quiet);
        world.check_end();
    }
}

/// The disk refuses the file of the job that is to take the place of another one, and the controller dies
/// before it knows that: what waited for the old one waits for it still.
#[test]
fn cluster_sim_job_behind_a_requeued_one_waits_for_it_until_the_new_one_is_filed() {
    for seed in seeds(60) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..4);
        for batch in [Batch::default(), behind_first()] {
            let submitted = world.submit_on(1, &[1, 2], batch);
            await_that(&mut world, seed, "it is submitted", |world| world.job_of(submitted).is_some());
        }
        await_that(&mut world, seed, "the first starts", |world| world.has_started(JobId(1)));
        world.run_until(world.now_ms + 500);
        world.refused_files.insert(JobId(3));
        // The daemon of the controller's node asks, and so nobody asks again.
        world.user_requests(0, Request::Control(JobId(1), Control::Requeue));
        world.run_until(world.now_ms + seed % 20);
        world.replace_daemon(0, 800);
        world.run_until(world.now_ms + 70_000);
        assert!(!world.has_started(JobId(2)), "TUTTI_SIM_SEED={seed}: the first hangs");
        world.user_requests(2, Request::Control(JobId(1), Control::Kill));
        await_that(&mut world, seed, "the next one starts", |world| world.has_started(JobId(2)));
        world.make_peace();
        await_that(&mut world, seed, "all is quiet", World::is_quiet);
        world.check_end();
    }
}

/// A job is killed while the file of the one that is to take its place is written, or refused, or while the
/// controller dies: it ends, and none takes its place.
#[test]
fn cluster_sim_job_that_is_killed_while_it_is_requeued_ends() {
    for seed in seeds(30) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_hang(3..5);
        world.let_jobs_end_well(2..3);
        for batch in [Batch::default(), behind_first()] {
            let submitted = world.submit_on(1, &[1, 2], batch);
            await_that(&mut world, seed, "it is submitted", |world| world.job_of(submitted).is_some());
        }
        await_that(&mut world, seed, "the first starts", |world| world.has_started(JobId(1)));
        world.run_until(world.now_ms + 500);
        world.slow_files.insert(JobId(3));
        let requeue = world.user_requests(3, Request::Control(JobId(1), Control::Requeue));
        world.run_until(world.now_ms + 300);
        let control = if seed % 2 == 0 { Control::Kill } else { Control::End(1_000) };
        // Whoever is shown the newest job of the two ends that one.
        let killed = JobId(if seed % 5 < 2 { 3 } else { 1 });
        let kill = world.user_requests(2, Request::Control(killed, control));
        await_that(&mut world, seed, "it is killed", |world| world.is_answered(kill));
        assert_eq!(world.refusal(kill), None, "TUTTI_SIM_SEED={seed}");
        match seed / 2 % 3 {
            0 => world.refused_files.extend([JobId(3)]),
            1 => {
                // What was answered was also ordered.
                world.run_until(world.now_ms + 100);
                world.replace_daemon(0, 800);
            }
            _ => {}
        }
        world.slow_files.clear();
        let waits = world.user_requests(2, Request::Wait(JobId(1)));
        await_that(&mut world, seed, "it is over", |world| world.is_answered(waits));
        let Some([row]) = world.rows(waits) else { panic!("TUTTI_SIM_SEED={seed}: no row") };
        assert_eq!(row.job, JobId(1), "TUTTI_SIM_SEED={seed}: {row:?}");
        await_that(&mut world, seed, "the next one starts", |world| world.has_started(JobId(2)));
        world.run_until(world.now_ms + 10_000);
        assert!(world.is_answered(requeue), "TUTTI_SIM_SEED={seed}");
        assert!(!world.has_started(JobId(3)) && !world.has_started(JobId(4)), "TUTTI_SIM_SEED={seed}");
        world.make_peace();
        await_that(&mut world, seed, "all is quiet", World::is_quiet);
        world.check_end();
    }
}

/// A job catches a signal of its user's, goes on, and is requeued, as a script may do by itself.
#[test]
fn cluster_sim_job_is_requeued_behind_a_signal_that_it_catches() {
    for seed in seeds(10) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..3);
        submit_filed(&mut world, seed, 1, &[1, 2], Batch::default());
        await_that(&mut world, seed, "it runs", |world| world.has_begun_on(1) && world.has_begun_on(2));
        let signal = world.user_requests(2, Request::Control(JobId(1), Control::Signal(15)));
        await_that(&mut world, seed, "it is sent", |world| world.is_answered(signal));
        let requeue = world.user_requests(3, Request::Control(JobId(1), Control::Requeue));
        await_that(&mut world, seed, "it is answered", |world| world.is_answered(requeue));
        assert_eq!(world.refusal(requeue), None, "TUTTI_SIM_SEED={seed}");
        let row = row_of(&mut world, seed, 2, JobId(1));
        assert_eq!((row.job, row.status), (JobId(2), Some(0)), "TUTTI_SIM_SEED={seed}: {row:?}");
        end_quietly(&mut world, seed);
    }
}

/// A job is suspended and changed while the file of the one that is to take its place is written: that one
/// is.
#[test]
fn cluster_sim_job_that_is_suspended_while_it_is_requeued_stands_still() {
    for seed in seeds(10) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..3);
        submit_filed(&mut world, seed, 1, &[1, 2], Batch::default());
        await_that(&mut world, seed, "it runs", |world| world.has_begun_on(1) && world.has_begun_on(2));
        world.slow_files.insert(JobId(2));
        world.user_requests(3, Request::Control(JobId(1), Control::Requeue));
        world.run_until(world.now_ms + 300);
        let control = if seed % 2 == 0 { Control::Suspend } else { Control::Hold };
        let asked = world.user_requests(2, Request::Control(JobId(1), control));
        world.run_until(world.now_ms + 1_000);
        assert!(!world.is_answered(asked), "TUTTI_SIM_SEED={seed}: it is not known yet which job it is for");
        world.slow_files.clear();
        await_that(&mut world, seed, "it is answered", |world| world.is_answered(asked));
        world.user_requests(2, Request::Control(JobId(1), Control::Resume));
        world.user_requests(2, Request::Control(JobId(1), Control::Release));
        let row = row_of(&mut world, seed, 2, JobId(1));
        assert_eq!((row.job, row.status), (JobId(2), Some(0)), "TUTTI_SIM_SEED={seed}: {row:?}");
        end_quietly(&mut world, seed);
    }
}

/// The node is lost together with the controller: the next one has never seen it.
#[test]
fn cluster_sim_job_with_requeue_begins_anew_if_its_node_is_not_there_for_a_new_controller() {
    for seed in seeds(10) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(1..2);
        world.let_jobs_end_well(2..3);
        let mut batch = Batch::default();
        batch.set_requeued_if_lost(true);
        submit_filed(&mut world, seed, 1, &[1, 2], batch);
        await_that(&mut world, seed, "it runs", |world| world.has_begun_on(1) && world.has_begun_on(2));
        world.run_until(world.now_ms + 1_000);
        world.remove_daemon(2);
        world.replace_daemon(0, 300);
        world.run_until(world.now_ms + 20_000);
        // The new one wants the same nodes.
        world.return_daemon(2);
        let row = row_of(&mut world, seed, 3, JobId(1));
        assert_eq!((row.job, row.status), (JobId(2), Some(0)), "TUTTI_SIM_SEED={seed}: {row:?}");
        end_quietly(&mut world, seed);
    }
}

/// The tasks have ended with their node, and the disk is slow.
#[test]
fn cluster_sim_task_that_begins_anew_starts_behind_its_file() {
    for seed in seeds(10) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(2..4);
        world.let_jobs_end_well(4..6);
        let mut batch = Batch::default();
        batch.set_array(InArray::Whole(Array { tasks: vec![3, 4], at_once: 0 }));
        batch.set_requeued_if_lost(true);
        submit_filed(&mut world, seed, 1, &[2], batch);
        for task in [JobId(2), JobId(3)] {
            await_that(&mut world, seed, "its tasks run", |world| world.has_started(task));
        }
        world.run_until(world.now_ms + 1_000);
        world.slow_files.extend([JobId(4), JobId(5)]);
        world.remove_daemon(2);
        world.run_until(world.now_ms + 10_000);
        world.return_daemon(2);
        world.run_until(world.now_ms + 20_000);
        let has_started = [JobId(4), JobId(5)].map(|task| world.has_started(task));
        assert_eq!(has_started, [false; 2], "TUTTI_SIM_SEED={seed}");
        world.slow_files.clear();
        let row = row_of(&mut world, seed, 3, JobId(1));
        assert_eq!(row.status, Some(0), "TUTTI_SIM_SEED={seed}: {row:?}");
        end_quietly(&mut world, seed);
    }
}

/// Jobs for which a controller alone asks its scheduler when something happens: the disk takes everything.
fn asked_for(core: &mut Core, clocks: Clocks, event: Event) -> Vec<JobId> {
    let (mut events, mut asked) = (vec![event], Vec::new());
    while let Some(event) = events.pop() {
        core.handle(clocks, event);
        while let Some(action) = core.poll_action() {
            match action {
                Action::Queue(job, Some(_)) => events.push(Event::Filed(job, Ok(()))),
                Action::Gang(Command::Submit(job, ..)) => asked.push(job),
                _ => {}
            }
        }
    }
    asked
}

/// A job that waits counts with all that it might get: eight ranks have four slots where there are no more.
#[test]
fn job_that_waits_for_a_limit_starts_when_another_one_got_less() {
    let mut world = World::new(1, 3, 2);
    world.run_until(5_000);
    let submits = [on_node(&mut world, "node1", 8), on_node(&mut world, "node2", 4)];
    let node = world.number_of(1).expect("it has one");
    let (mut core, _, clocks) = world.take_core(0).expect("it lives");
    let rules = parse("t", "[limits]\nslots = 8\n", &AllKnown).config.rules;
    let loaded = Loaded { rules, ..Loaded::default() };
    asked_for(&mut core, clocks, Event::Reloaded(None, Ok(Box::new(loaded))));
    asked_for(&mut core, clocks, Event::Tick);
    let mut asked = Vec::new();
    for (client, submit) in (1 << 40..).map(ClientId).zip(submits) {
        let event = Event::Request(client, User::new(5, 5), Request::Submit(Box::new(submit)));
        asked.extend(asked_for(&mut core, clocks, event));
    }
    asked.extend(asked_for(&mut core, clocks, Event::Tick));
    assert_eq!(asked, [JobId(1)], "the second one would be too much");
    let placed = Event::Gang(SwitchEvent::Placed(JobId(1), vec![(node, 8)]));
    asked.extend(asked_for(&mut core, clocks, placed));
    asked.extend(asked_for(&mut core, clocks, Event::Tick));
    assert_eq!(asked, [JobId(1), JobId(2)]);
}

/// Without limits no job that waits is looked at anew when another one has got its nodes: there may be
/// thousands of them.
#[test]
fn job_that_gets_its_nodes_has_others_looked_at_anew_only_for_limits() {
    for (text, is_looked_at) in [("", false), ("[limits]\nslots = 8\n", true)] {
        let mut world = World::new(1, 3, 2);
        world.run_until(5_000);
        let submit = on_node(&mut world, "node1", 4);
        let node = world.number_of(1).expect("it has one");
        let (mut core, _, clocks) = world.take_core(0).expect("it lives");
        let rules = parse("t", text, &AllKnown).config.rules;
        let loaded = Loaded { rules, ..Loaded::default() };
        asked_for(&mut core, clocks, Event::Reloaded(None, Ok(Box::new(loaded))));
        let request = Request::Submit(Box::new(submit));
        asked_for(&mut core, clocks, Event::Request(ClientId(1 << 40), User::new(5, 5), request));
        asked_for(&mut core, clocks, Event::Tick);
        let looks_anew = |core: &Core| core.subsystems.controller.as_ref().expect("it is one").looks_anew();
        assert!(!looks_anew(&core));
        asked_for(&mut core, clocks, Event::Gang(SwitchEvent::Placed(JobId(1), vec![(node, 4)])));
        assert_eq!(looks_anew(&core), is_looked_at, "{text:?}");
    }
}
