//! Reservations in the simulated cluster: who gets their nodes, and when, also when controllers die.

use tutti_protocol::reservation::Reservation;

use super::batch::{await_that, end_quietly};
use super::seeds;
use super::world::World;
use crate::message::{Batch, JobId, Request};

/// User for whom nodes are reserved, and another one.
const OWN: u32 = 5;
const OTHER: u32 = 6;

/// From a reservation's making to its begin, and to its end.
const BEGINS_MS: u64 = 30_000;
const ENDS_MS: u64 = 70_000;

/// Nodes 1 and 2 of a new world, for a time.
fn reservation(world: &World) -> Reservation {
    let now_ms = world.clock(0);
    Reservation {
        name: "r".into(),
        nodes: vec!["node1".into(), "node2".into()],
        from_ms: now_ms + BEGINS_MS,
        until_ms: now_ms + ENDS_MS,
        users: vec![OWN],
        ..Reservation::default()
    }
}

fn begun(seed: u64) -> World {
    let mut world = World::calm(seed, 4, 2);
    world.let_jobs_end_well(1..100);
    world
}

/// A batch of a job in the reservation.
fn within() -> Batch {
    let mut batch = Batch::default();
    batch.rules_mut().reservation = "r".into();
    batch
}

/// Submits, and gives the job.
fn submitted(world: &mut World, seed: u64, uid: u32, nodes: &[usize], batch: Batch) -> JobId {
    let client = world.submit_as(uid, nodes[0], nodes, batch);
    await_that(world, seed, "it is submitted", |world| world.is_answered(client));
    let job = world.job_of(client);
    job.unwrap_or_else(|| panic!("TUTTI_SIM_SEED={seed}: {:?}", world.refusal(client)))
}

/// The world until its clock shows this; these jobs must not start.
fn run_without(world: &mut World, seed: u64, until_ms: u64, jobs: &[JobId]) {
    while world.clock(0) < until_ms {
        world.run_until(world.now_ms + 10.min(until_ms - world.clock(0)));
        let early: Vec<&JobId> = jobs.iter().filter(|job| world.has_started(**job)).collect();
        assert!(early.is_empty() || world.clock(0) >= until_ms, "TUTTI_SIM_SEED={seed}: {early:?} started");
    }
}

/// A job of the reservation begins when that does, and not before; another one that may still run then gets
/// these nodes when it is over. The controller dies while it is kept, before it begins, or in it.
#[test]
fn cluster_sim_reserved_nodes_are_for_their_jobs_despite_controller_deaths() {
    for seed in seeds(40) {
        let mut world = begun(seed);
        let new = reservation(&world);
        let (from_ms, until_ms) = (new.from_ms, new.until_ms);
        let asked = world.user_requests(3, Request::Reserve(Box::new(new)));
        if seed % 4 == 1 {
            world.replace_daemon_after(0, seed / 4 % 6, 800);
        }
        await_that(&mut world, seed, "it is made", |world| world.is_answered(asked));
        assert_eq!(world.refusal(asked), None, "TUTTI_SIM_SEED={seed}");
        let own = submitted(&mut world, seed, OWN, &[2, 1], within());
        let other = submitted(&mut world, seed, OTHER, &[1], Batch::default());
        let beside = submitted(&mut world, seed, OTHER, &[3], Batch::default());
        let stranger = world.submit_as(OTHER, 2, &[1], within());
        await_that(&mut world, seed, "it is refused", |world| world.is_answered(stranger));
        let refusal = world.refusal(stranger).unwrap_or_default();
        assert!(refusal.contains("reservation r is not for you"), "TUTTI_SIM_SEED={seed}: {refusal}");
        await_that(&mut world, seed, "another node is free", |world| world.has_started(beside));
        if seed % 4 == 2 {
            world.replace_daemon(0, 800);
        }
        run_without(&mut world, seed, from_ms, &[own, other]);
        await_that(&mut world, seed, "it begins", |world| world.has_started(own));
        assert!(world.clock(0) < from_ms + 10_000, "TUTTI_SIM_SEED={seed}: it begins late");
        world.run_until(world.now_ms + 2_000);
        assert_eq!(world.nodes_of(own), [1, 2], "TUTTI_SIM_SEED={seed}");
        if seed % 4 == 3 {
            world.replace_daemon(0, 800);
        }
        run_without(&mut world, seed, until_ms, &[other]);
        await_that(&mut world, seed, "its nodes are free", |world| world.has_started(other));
        end_quietly(&mut world, seed);
    }
}

/// A reservation that is removed keeps nobody from its nodes, also under the next controller.
#[test]
fn cluster_sim_removed_reservation_is_gone_despite_controller_deaths() {
    let mut tried = 0;
    for seed in seeds(30) {
        let mut world = begun(seed);
        let new = Reservation { from_ms: 0, ..reservation(&world) };
        let until_ms = new.until_ms;
        let asked = world.user_requests(3, Request::Reserve(Box::new(new)));
        await_that(&mut world, seed, "it is made", |world| world.is_answered(asked));
        let other = submitted(&mut world, seed, OTHER, &[1], Batch::default());
        let after_ms = world.clock(0) + 3_000;
        run_without(&mut world, seed, after_ms, &[other]);
        let removed = world.user_requests(2, Request::Unreserve("r".into()));
        if seed % 3 > 0 {
            world.replace_daemon_after(0, seed / 3 % 6, 800);
        }
        await_that(&mut world, seed, "it is removed", |world| world.is_answered(removed));
        assert_eq!(world.refusal(removed), None, "TUTTI_SIM_SEED={seed}");
        if seed % 3 == 2 {
            world.replace_daemon(0, 800);
        }
        let over = world.user_requests(2, Request::Wait(other));
        await_that(&mut world, seed, "its nodes are free", |world| {
            world.has_started(other) || world.is_answered(over)
        });
        // One whose nodes were just chosen is lost with the controller, and nothing is known of it.
        let has_started = world.has_started(other);
        assert!(has_started || seed % 3 > 0, "TUTTI_SIM_SEED={seed}: {:?}", world.refusal(over));
        let is_late = world.clock(0) > until_ms - 20_000;
        assert!(!has_started || !is_late, "TUTTI_SIM_SEED={seed}: it was not removed");
        tried += usize::from(has_started);
        end_quietly(&mut world, seed);
    }
    assert!(tried > 20 || seeds(2).len() == 1, "{tried} jobs started");
}
