//! The numbers of nodes outlive their controller.

use super::seeds;
use super::world::World;
use crate::message::Batch;

/// The controller and two nodes die. One that knows nothing comes back first, then the one that has a job,
/// in whose parts its number stands: both are who they were.
#[test]
fn cluster_sim_numbers_of_nodes_outlive_the_controller() {
    for seed in seeds(40) {
        let mut world = World::calm(seed, 4, 2);
        world.let_jobs_hang(0..100);
        world.submit_on(1, &[1], Batch::default());
        while !world.has_begun_on(1) {
            world.run_until(world.now_ms + 1);
        }
        let before = [1, 2, 3].map(|node| world.number_of(node));
        world.remove_daemon(1);
        for node in [0, 2, 3] {
            world.replace_daemon(node, 300);
        }
        while world.number_of(3).is_none() || world.number_of(2).is_none() {
            world.run_until(world.now_ms + 1);
        }
        world.return_daemon(1);
        world.run_until(world.now_ms + 20_000);
        let after = [1, 2, 3].map(|node| world.number_of(node));
        assert_eq!(after, before, "TUTTI_SIM_SEED={seed}");
        assert_eq!(world.parts_alive(1).len(), 1, "TUTTI_SIM_SEED={seed}: {}", world.clients_text());
        world.make_peace();
        let limit_ms = world.now_ms + 120_000;
        while !world.is_quiet() && world.now_ms < limit_ms {
            world.run_until(world.now_ms + 1_000);
        }
        world.check_end();
    }
}
