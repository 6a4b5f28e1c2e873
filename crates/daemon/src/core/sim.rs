//! A simulated cluster: Cores, links that are late, break or fall silent, daemons that die under their
//! starters, users who vanish. Everything that happens comes from one number; a run that fails prints it, and
//! `TUTTI_SIM_SEED=n` repeats it; `TUTTI_SIM_TIMES=n` makes n times as many runs.
//!
//! | file | has |
//! |---|---|
//! | `world` | time; does what the Cores want |
//! | `world/machines` | daemons that die under their starters, and are started anew |
//! | `world/network` | links between them |
//! | `world/workload` | what users do |
//! | `world/files` | output files of submitted jobs |
//! | `writer` | what a writer of output files does on its wire |
//! | `world/check` | what must hold |
//! | `starter` | what a starter does on its wire |
//! | `scheduling` | the controller's scheduler in place of its switch thread |
//! | `users` | front ends, and what they must see |
//! | `batch` | the tests of time limits and of jobs that wait for others |
//! | `starts` | the tests that jobs start at their time, and begin anew whatever fails meanwhile |
//! | `numbers` | the test that numbers of nodes outlive the controller |
//! | `recorded` | the tests that readers of messages and journals take whatever is nearly one |
//! | `reports` | the tests that what starters say and what is kept of them may be nearly right |
//! | `regions` | the test that clients of regions of other nodes are answered |
//! | `watch` | the test that readers which follow the jobs and nodes see what the controller lists |
//! | `reservations` | the tests that nodes are kept for those for whom they are reserved |
//! | `room` | the tests that what starters and users say has room in messages |
//! | here | the runs: faults, then peace, then a look at what is left |

mod batch;
mod numbers;
mod recorded;
mod regions;
pub(crate) mod reports;
mod requests;
mod reservations;
mod room;
mod scheduling;
mod starter;
mod starts;
mod users;
mod watch;
mod world;
mod writer;

use tutti_testkit::Random;
use world::{KEEP_MS, World};

use super::action::Action;
use super::config::TICK_MS;
use crate::message::{Batch, JobId, Message, Order, Run};

/// Faults that may occur in a run, in thousandths of a step that is not a tick.
#[derive(Clone, Copy, Debug)]
struct Faults {
    breaks: u64,
    silences: u64,
    deaths: u64,
    controller_dies: bool,
    jumps: u64,
    vanishing: u64,
    /// Whether users are batch users; nothing fails by it.
    batch: bool,
    /// Whether they hold jobs and release them, and submit arrays, too.
    holds: bool,
}

const NONE: Faults = Faults {
    breaks: 0,
    silences: 0,
    deaths: 0,
    controller_dies: false,
    jumps: 0,
    vanishing: 0,
    batch: false,
    holds: false,
};
const ALL: Faults = Faults {
    breaks: 12,
    silences: 4,
    deaths: 6,
    controller_dies: true,
    jumps: 3,
    vanishing: 10,
    batch: false,
    holds: false,
};

fn seeds(runs: u64) -> Vec<u64> {
    match std::env::var("TUTTI_SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => {
            let times = std::env::var("TUTTI_SIM_TIMES").ok().and_then(|times| times.parse().ok());
            (1..=runs * times.unwrap_or(1)).collect()
        }
    }
}

/// One run: some time with faults, then peace until nothing is left. Gives the number of events.
fn run(seed: u64, nodes: Option<usize>, faults: Faults) -> u64 {
    let mut random = Random::new(seed);
    let nodes = nodes.unwrap_or_else(|| {
        let most = if random.below(12) == 0 { 40 } else { 7 };
        2 + random.below(most - 1) as usize
    });
    let mut world = World::new(seed, nodes, 2 + random.below(3) as u32);
    world.batch = faults.batch.then(|| Random::new(seed ^ 0xba7c4));
    world.holds = faults.holds.then(|| Random::new(seed ^ 0x401d5));
    world.run_until(3_000);
    let end_ms = world.now_ms + 6_000 + random.below(14_000);
    while world.now_ms < end_ms {
        world.user_does_something();
        let share = |random: &mut Random, thousandths: u64| random.below(1000) < thousandths * 10;
        if share(&mut random, faults.breaks) {
            world.break_a_link();
        }
        if share(&mut random, faults.silences) {
            world.silence_a_link();
        }
        if share(&mut random, faults.deaths) {
            world.kill_a_daemon(faults.controller_dies);
        }
        if share(&mut random, faults.jumps) {
            world.jump_a_clock();
        }
        if share(&mut random, faults.vanishing) {
            world.a_user_vanishes();
        }
        world.run_until(world.now_ms + 50 + random.below(400));
    }
    world.make_peace();
    // What a controller that is started anew does not know may be a job that others wait for, for a minute.
    let limit_ms = world.now_ms + 120_000 + u64::from(faults.batch) * 180_000;
    while !world.is_quiet() && world.now_ms < limit_ms {
        // What was asked for before may come late, and stop a job.
        world.resume_all();
        world.run_until(world.now_ms + 5_000);
    }
    world.check_end();
    world.events
}

fn run_all(runs: u64, nodes: Option<usize>, faults: Faults) -> u64 {
    let mut events = 0;
    for seed in seeds(runs) {
        let outcome = std::panic::catch_unwind(|| run(seed, nodes, faults));
        match outcome {
            Ok(more) => events += more,
            Err(cause) => {
                eprintln!("TUTTI_SIM_SEED={seed} repeats this run ({faults:?}, {nodes:?} nodes)");
                std::panic::resume_unwind(cause);
            }
        }
    }
    events
}

#[test]
fn cluster_sim_jobs_end_well_without_faults() {
    run_all(12, None, NONE);
}

#[test]
fn cluster_sim_jobs_end_despite_link_faults() {
    run_all(25, None, Faults { deaths: 0, vanishing: 0, jumps: 0, ..ALL });
}

#[test]
fn cluster_sim_jobs_end_despite_daemon_deaths() {
    run_all(25, None, Faults { controller_dies: false, ..ALL });
}

#[test]
fn cluster_sim_jobs_end_despite_controller_deaths() {
    let events = run_all(40, None, ALL);
    assert!(events > 100_000 || seeds(2).len() == 1, "{events} events");
}

/// A node dies with output that its job's origin waits for, and the controller has forgotten the job: it ends
/// with what its origin has.
#[test]
fn cluster_sim_job_with_lost_output_ends() {
    run(136, None, Faults { controller_dies: false, ..ALL });
}

/// The controller says that a job is over each second, and just so often its origin would ask for what its
/// nodes have written.
#[test]
fn cluster_sim_origin_requests_the_last_output() {
    run(284, None, Faults { controller_dies: false, ..ALL });
}

/// A daemon that follows another does not know where the output of its starters begins before they are back,
/// and an origin asks for it.
#[test]
fn cluster_sim_origin_learns_output_offset_of_a_returned_starter() {
    run(299, None, ALL);
}

/// A daemon has kept an older order than its nodes below have had, and says so to a controller that has
/// forgotten the job.
#[test]
fn cluster_sim_forgotten_job_is_forgotten_by_all() {
    run(479, None, ALL);
}

/// A node hears that it is lost while it has no link, and dials: its parent of before does not know that the
/// controller is to take it in.
#[test]
fn cluster_sim_lost_node_rejoins() {
    run(213, None, ALL);
}

/// The controller hears of a job of 31 nodes from its two children, once for each thing that all parts
/// have reached, in whichever order and at whatever times they do.
// Paper: S8
#[test]
fn cluster_sim_state_changes_are_merged_in_inner_nodes() {
    let mut tried = 0;
    for seed in 1..20 {
        let mut world = World::new(seed, 31, 2);
        world.run_until(5_000);
        let before = world.states_at_controller;
        let client = world.run_one();
        while !world.has_ended(client) && world.now_ms < 60_000 {
            world.run_until(world.now_ms + 100);
        }
        // One whose first part fails ends at once.
        if world.all_ended_well() {
            tried += 1;
            // Preparing, ready, running, left, over; by two children. Each node for itself would make 150.
            let messages = world.states_at_controller - before;
            assert!((2..=10).contains(&messages), "{messages} messages, seed {seed}");
        }
    }
    assert!(tried > 5, "{tried} jobs ended well");
}

/// No part of a job that has ended well gives up its sockets before all its ranks have left on all
/// nodes, and no two jobs have one key. `World` looks at it in every run; here without faults, where most
/// jobs end well.
// Paper: S21
#[test]
fn cluster_sim_sockets_stay_until_the_last_rank_left() {
    run_all(6, Some(5), NONE);
}

/// Ranks of a job ask for more on nodes where all have ended, also while a daemon is started anew. The job is
/// over when no node has any. `World` holds that no order of new ranks follows Leave, or is left out.
#[test]
fn cluster_sim_part_without_ranks_gets_new_ones() {
    let mut refilled = 0;
    for seed in seeds(120) {
        let mut world = World::calm(seed, 5, 2);
        world.let_jobs_end_well(0..100);
        let first = world.run_on(&[1]);
        while !world.has_ended(first) && world.now_ms < 60_000 {
            world.run_until(world.now_ms + 100);
        }
        // The simulator gives jobs of an even number room for more ranks.
        let client = world.run_on(&[1, 3, 4]);
        if seed % 2 == 0 {
            world.run_until(world.now_ms + 1_000 + seed * 17 % 1_500);
            world.replace_daemon((seed / 2 % 5) as usize, 300);
        }
        while !world.has_ended(client) && world.now_ms < 120_000 {
            world.run_until(world.now_ms + 100);
        }
        assert!(world.all_ended_well(), "TUTTI_SIM_SEED={seed}: {}", world.clients_text());
        refilled += world.refilled;
    }
    assert!(refilled > 20 || seeds(2).len() == 1, "{refilled} parts got ranks again");
}

/// A job whose order is under way when a daemon is killed starts on the one that follows: on that node alone,
/// or on it and others.
#[test]
fn cluster_sim_job_placed_during_a_daemon_restart_runs() {
    let mut tried = 0;
    for seed in seeds(120) {
        let mut world = World::calm(seed, 4, 2);
        let replaced = 1 + seed as usize % 3;
        let on = [vec![], vec![replaced], vec![0, replaced]][seed as usize / 3 % 3].clone();
        let client = world.run_on(&on);
        while world.placed == 0 {
            world.run_until(world.now_ms + 1);
        }
        world.run_until(world.now_ms + seed / 9 * 4);
        world.replace_daemon(replaced, 500);
        while !world.has_ended(client) && world.now_ms < 60_000 {
            world.run_until(world.now_ms + 100);
        }
        if world.all_can_end_well() {
            tried += 1;
            assert!(world.all_ended_well(), "TUTTI_SIM_SEED={seed}: {}", world.clients_text());
        }
    }
    assert!(tried > 60 || seeds(2).len() == 1, "{tried} jobs could end well");
}

/// A daemon is killed in the middle of an order: the nodes below have it, its own part has not begun. The one
/// that follows may hear of the job from below first, and begins its part all the same.
#[test]
fn cluster_sim_part_starts_although_children_report_first() {
    let mut tried = 0;
    for seed in seeds(120) {
        let mut world = World::calm(seed, 15, 2);
        let client = world.run_on(&[]);
        while world.placed == 0 {
            world.run_until(world.now_ms + 1);
        }
        world.replace_daemon_after(3, seed % 4, 500);
        while !world.has_ended(client) && world.now_ms < 60_000 {
            world.run_until(world.now_ms + 100);
        }
        assert!(world.has_ended(client), "TUTTI_SIM_SEED={seed}: {}", world.clients_text());
        if world.all_can_end_well() {
            tried += 1;
            assert!(world.all_ended_well(), "TUTTI_SIM_SEED={seed}: {}", world.clients_text());
        }
    }
    assert!(tried > 60 || seeds(2).len() == 1, "{tried} jobs could end well");
}

/// A job ends while its origin has not come back to a new controller: its output waits for it, and so does
/// its end.
#[test]
fn cluster_sim_output_waits_for_an_origin_that_comes_back_late() {
    let mut tried = 0;
    for seed in seeds(150) {
        let mut world = World::calm(seed, 4, 4);
        world.let_jobs_end_well(0..100);
        world.run_from(1, &[2, 3]);
        while !(world.has_begun_on(2) && world.has_begun_on(3)) {
            world.run_until(world.now_ms + 1);
        }
        world.run_until(world.now_ms + seed % 7 * 20);
        world.replace_daemon(0, 300);
        let limit_ms = world.now_ms + 120_000;
        while !world.is_quiet() && world.now_ms < limit_ms {
            world.run_until(world.now_ms + 1_000);
        }
        tried += u32::from(world.all_ended_well());
        println!("TUTTI_SIM_SEED={seed}");
        world.check_end();
    }
    assert!(tried > 100 || seeds(2).len() == 1, "{tried} jobs ended well");
}

/// The controller knows how much a node's ranks have written, and their origin does not have it: the node's
/// daemon is started anew, and hears all from the starter again, piece by piece. Meanwhile no part of the
/// output counts as not written.
#[test]
fn cluster_sim_output_of_a_job_that_is_over_outlives_a_daemon() {
    let mut tried = 0;
    for seed in seeds(120) {
        let mut world = World::new(seed, 3, 2);
        world.run_until(5_000);
        world.let_nothing_else_fail();
        world.let_jobs_end_well(0..100);
        let client = world.run_ranks(1, &[2], 4);
        while !world.has_begun_on(2) {
            world.run_until(world.now_ms + 1);
        }
        let limit_ms = world.now_ms + 10_000;
        while !world.is_known_over(JobId(1)) && world.now_ms < limit_ms {
            world.break_links_of(1);
            world.run_until(world.now_ms + 5);
        }
        tried += u32::from(!world.has_ended(client) && !world.parts_of(2).is_empty());
        world.replace_daemon(2, 300);
        let limit_ms = world.now_ms + 120_000;
        while !world.is_quiet() && world.now_ms < limit_ms {
            world.run_until(world.now_ms + 1_000);
        }
        println!("TUTTI_SIM_SEED={seed}");
        world.check_end();
        assert!(world.all_ended_well(), "TUTTI_SIM_SEED={seed}: {}", world.clients_text());
        let lines = world.lines(client);
        assert!(!lines.iter().any(|line| line.contains("lost")), "TUTTI_SIM_SEED={seed}: {lines:?}");
    }
    assert!(tried > 60 || seeds(2).len() == 1, "{tried} daemons died before the origin had all");
}

/// The same where the starter dies with its daemon, or the node does not come back in time: the user is told
/// that output may be lost.
#[test]
fn cluster_sim_output_that_is_lost_with_a_node_is_reported() {
    let mut lossy = [0; 4];
    for seed in seeds(120) {
        let mut world = World::new(seed, 3, 2);
        world.run_until(5_000);
        world.let_nothing_else_fail();
        world.let_jobs_end_well(0..100);
        let client = match seed % 4 {
            0 | 1 => world.run_ranks(1, &[2], 4),
            _ => world.submit_on(1, &[2], Batch::default()),
        };
        while !world.has_begun_on(2) {
            world.run_until(world.now_ms + 1);
        }
        let limit_ms = world.now_ms + 10_000;
        while !world.is_known_over(JobId(1)) && world.now_ms < limit_ms {
            world.break_links_of(1);
            world.run_until(world.now_ms + 5);
        }
        world.kill_all_starters(2);
        if seed % 2 == 0 {
            world.replace_daemon(2, 300);
        } else {
            world.remove_daemon(2);
            let limit_ms = world.now_ms + 20_000;
            while !world.has_ended(client) && world.now_ms < limit_ms {
                world.break_links_of(1);
                world.run_until(world.now_ms + 200);
            }
            world.return_daemon(2);
        }
        let limit_ms = world.now_ms + 120_000;
        while !world.is_quiet() && world.now_ms < limit_ms {
            world.run_until(world.now_ms + 1_000);
        }
        println!("TUTTI_SIM_SEED={seed}");
        world.check_end();
        let is_said = world.lines(client).iter().any(|line| line.contains("lost"));
        lossy[seed as usize % 4] += u32::from(is_said || world.output_trouble(JobId(1)).is_some());
    }
    assert!(lossy.iter().all(|runs| *runs > 10) || seeds(2).len() == 1, "{lossy:?} runs lost output");
}

/// A part that a daemon has begun is over when that dies with its starter, also if the next one dies before
/// it can say so: the third knows only that it was not begun by the second. `World` holds that no part begins
/// twice.
#[test]
fn cluster_sim_started_part_is_not_started_again() {
    for seed in seeds(40) {
        let mut world = World::calm(seed, 3, 2);
        let client = world.run_on(&[1]);
        while !world.has_begun_on(1) {
            world.run_until(world.now_ms + 1);
        }
        world.kill_all_starters(1);
        world.replace_daemon(1, 500);
        while !world.has_daemon(1) {
            world.run_until(world.now_ms + 1);
        }
        world.replace_daemon(1, 500);
        while !world.has_ended(client) && world.now_ms < 60_000 {
            world.run_until(world.now_ms + 100);
        }
        assert!(world.has_ended(client) && !world.all_ended_well(), "TUTTI_SIM_SEED={seed}");
    }
}

/// When the controller is gone and none follows, the parts of jobs on several nodes end where their daemons
/// live, also where a daemon's parent does; what a node has alone goes on. Before `keep_ms` everybody waits,
/// and a controller that comes later learns what ended.
#[test]
fn cluster_sim_jobs_end_without_a_controller() {
    let mut tried = 0;
    for seed in seeds(12) {
        let mut world = World::new(seed, 15, 2);
        world.run_until(5_000);
        world.let_jobs_hang(1..3);
        // Below each other, and below different children of the controller: node 3 is below node 1, nodes 13
        // and 14 below 6, that below 2.
        world.run_on(&[3, 13, 14]);
        world.run_on(&[12]);
        world.run_until(10_000);
        let on = |world: &World| [3, 13, 14, 12].map(|node| world.parts_alive(node));
        let before = on(&world);
        if before.iter().any(Vec::is_empty) {
            continue;
        }
        tried += 1;
        world.remove_daemon(0);
        world.run_until(world.now_ms + KEEP_MS - 1_000);
        assert_eq!(on(&world), before, "TUTTI_SIM_SEED={seed}: all wait");
        world.run_until(world.now_ms + 10_000);
        let after = [vec![], vec![], vec![], before[3].clone()];
        assert_eq!(on(&world), after, "TUTTI_SIM_SEED={seed}: only what a node has alone is there");
        world.make_peace();
        world.run_until(world.now_ms + 60_000);
        assert!(world.is_quiet(), "TUTTI_SIM_SEED={seed}: {}", world.clients_text());
        world.check_end();
    }
    assert!(tried > 5 || seeds(2).len() == 1, "{tried} jobs had begun everywhere");
}

/// A node whose ranks just run wakes up no more often than one that has none: only the controller and the
/// job's origin watch it.
#[test]
fn cluster_sim_quiet_node_wakes_only_for_heartbeats() {
    let mut tried = 0;
    for seed in seeds(12) {
        let mut world = World::new(seed, 15, 2);
        world.run_until(5_000);
        world.let_jobs_hang(1..3);
        world.run_on(&[3, 13, 14]);
        world.run_until(20_000);
        let nodes = [3, 13, 14];
        if nodes.iter().any(|node| world.parts_alive(*node).is_empty()) {
            continue;
        }
        tried += 1;
        world.run_until(world.now_ms + 10_000);
        let waits = nodes.map(|node| world.longest_wait_ms(node, 2_000));
        let resting = waits.iter().filter(|wait_ms| **wait_ms > 2 * TICK_MS).count();
        assert!(resting >= 2, "TUTTI_SIM_SEED={seed}: {waits:?}");
    }
    assert!(tried > 5 || seeds(2).len() == 1, "{tried} jobs had begun everywhere");
}

/// A controller that takes a job over hears of an old order first, and then of newer ones: what it orders is
/// newer than all of them, or a node that has had those would not do it.
#[test]
fn cluster_sim_new_controller_numbers_orders_above_all_known() {
    let mut world = World::calm(1, 3, 2);
    world.run_on(&[1]);
    while !world.has_begun_on(1) {
        world.run_until(world.now_ms + 1);
    }
    let job = JobId(1);
    let first = world.core(0).subsystems.relay.order(job).expect("the controller has ordered it").clone();
    world.replace_daemon(0, 500);
    while !world.has_daemon(0) {
        world.run_until(world.now_ms + 1);
    }
    let controller = world.core(0);
    controller.call(|it, out| it.handle_known(out, job, Order { version: 1, ..first.clone() }));
    let version =
        |controller: &super::Core| controller.subsystems.relay.order(job).expect("it is adopted").version;
    assert_eq!(version(controller), 1);
    controller
        .call(|it, out| it.handle_known(out, job, Order { version: 7, run: Run::Stop, ..first.clone() }));
    assert_eq!(version(controller), 8);
    // Also when it says nothing that is new here.
    controller.call(|it, out| it.handle_known(out, job, Order { version: 11, ..first }));
    assert_eq!(version(controller), 12);
}

/// Nodes below may have had newer orders of an earlier controller than a node between them and the new one,
/// who must hear of those.
#[test]
fn cluster_sim_newer_order_passes_a_node_with_an_older_one() {
    let mut world = World::calm(1, 7, 2);
    world.run_one();
    while !world.has_begun_on(1) {
        world.run_until(world.now_ms + 1);
    }
    let job = JobId(1);
    let inner = world.core(1);
    let known = inner.subsystems.relay.order(job).expect("it runs there").clone();
    let passed_on = |inner: &mut super::Core, version: u64| -> Vec<u64> {
        inner.call(|it, out| it.handle_known(out, job, Order { version, ..known.clone() }));
        inner.flush_states();
        let actions = std::iter::from_fn(|| inner.poll_action());
        let orders = actions.filter_map(|action| match action {
            Action::Send(_, Message::States { orders, .. }) => Some(orders),
            _ => None,
        });
        orders.flatten().map(|(_, order)| order.version).collect()
    };
    assert_eq!(passed_on(inner, known.version), [0; 0], "it is known");
    assert_eq!(passed_on(inner, known.version + 2), [known.version + 2]);
    assert_eq!(passed_on(inner, known.version + 1), [0; 0], "and this one is older");
    assert_eq!(
        inner.subsystems.relay.order(job).map(|order| order.version),
        Some(known.version),
        "it is not carried out"
    );
    inner.subsystems.relay.resend_all();
    inner.subsystems.relay.set_order(job, Order { version: known.version + 3, ..known.clone() });
    assert_eq!(passed_on(inner, 0), [known.version + 3], "what is said on a new link");
}

/// Views of the inside, for the simulator.
impl super::Core {
    /// Remains of jobs, in words.
    fn leftovers(&self) -> Vec<String> {
        let mut left = self.subsystems.relay.leftovers();
        left.extend(self.subsystems.parts.leftovers());
        left.extend(self.subsystems.origin.leftovers());
        left.extend(self.subsystems.tunnels.leftovers());
        left.extend(self.subsystems.regions.leftovers());
        left.extend(self.subsystems.controller.iter().flat_map(super::controller::Controller::leftovers));
        left
    }

    fn links_text(&self) -> String {
        let alive: Vec<u32> = self
            .subsystems
            .local
            .members
            .iter()
            .flat_map(|members| members.alive().map(|(node, _)| node.0))
            .collect();
        format!("{:?}, alive {alive:?}", self.subsystems.links)
    }

    /// Checks what the controller keeps beside its jobs.
    fn check_relations(&self) {
        self.subsystems.controller.iter().for_each(super::controller::Controller::check_relations);
    }

    /// Checks what must hold at any time.
    fn check_bounds(&self) {
        self.subsystems.parts.check_bounds();
    }
}
