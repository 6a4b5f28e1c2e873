//! Starts of jobs at their time, and of jobs that begin anew: also when a disk, a node or a controller fails
//! meanwhile.

use super::batch::await_that;
use super::seeds;
use super::world::World;
use crate::message::{Batch, JobId};

/// No other job ends meanwhile, and no node comes.
#[test]
fn cluster_sim_job_starts_at_its_time_to_begin() {
    for seed in seeds(20) {
        let mut world = World::new(seed, 3, 2);
        world.run_until(5_000);
        world.let_nothing_else_fail();
        world.let_jobs_end_well(1..2);
        let mut batch = Batch::default();
        batch.rules_mut().begin_ms = Some(world.clock(0) + 5_000);
        let asked_ms = world.now_ms;
        let submitted = world.submit_on(1, &[1, 2], batch);
        await_that(&mut world, seed, "it is submitted", |world| world.job_of(submitted).is_some());
        await_that(&mut world, seed, "it starts", |world| world.has_started(JobId(1)));
        let took_ms = world.now_ms - asked_ms;
        assert!((5_000..7_000).contains(&took_ms), "TUTTI_SIM_SEED={seed}: {took_ms} ms");
        world.make_peace();
        await_that(&mut world, seed, "all is quiet", World::is_quiet);
        world.check_end();
    }
}
