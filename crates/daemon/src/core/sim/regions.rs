//! Clients of published regions of other nodes, in the simulated cluster.

use tutti_shm::published::Status;
use tutti_shm::published::far::{Given, Wanted};

use super::seeds;
use super::world::World;
use crate::ids::ClientId;

/// A client of a region of another node is answered once, whatever is lost on its way.
#[test]
fn cluster_sim_region_of_another_node_is_given_or_refused() {
    let node = |number: usize| format!("node{number}");
    for seed in seeds(40) {
        let mut world = World::calm(seed, 5, 2);
        let wishes = [
            ("there", node(3), Ok("node3".to_owned())),
            ("there", "*".into(), Ok(String::new())),
            ("none", node(1), Err(Status::Region)),
            ("none", "*".into(), Err(Status::Region)),
            ("silent", node(1), Err(Status::Node)),
            ("there", "nowhere".into(), Err(Status::Node)),
        ];
        for (number, (name, node, expected)) in wishes.into_iter().enumerate() {
            let id = ClientId(100 + number as u64);
            world.want_region(4, id, Wanted { owner: 7, name: name.into(), node });
            // A daemon between them may be away when it is asked.
            if number == 0 {
                world.replace_daemon(0, 500);
            }
            world.run_until(world.now_ms + 13_000);
            let given: Vec<Given> = world.take_given(id);
            let found = match given.as_slice() {
                [Given::Refused(status)] => Err(*status),
                [Given::There { node, .. }] => Ok(node.clone()),
                other => panic!("TUTTI_SIM_SEED={seed}: {other:?}"),
            };
            let is_right = match (&found, &expected) {
                (Ok(node), Ok(expected)) => expected.is_empty() || node == expected,
                (found, expected) => found == expected,
            };
            assert!(is_right, "TUTTI_SIM_SEED={seed}, {number}: {found:?}");
        }
        world.want_region(2, ClientId(200), Wanted { owner: 7, name: "there".into(), node: node(2) });
        assert_eq!(world.take_given(ClientId(200)), [Given::Here], "it is the node's own");
    }
}

/// The list has the services of all nodes, once, whatever is lost on its way, also where the controller is
/// started anew meanwhile.
#[test]
fn cluster_sim_services_of_all_nodes_are_listed_once() {
    for seed in seeds(40) {
        let mut world = World::calm(seed, 5, 2);
        let id = ClientId(300);
        world.want_services(4, id);
        // A daemon between them may be away when it is asked.
        world.replace_daemon(0, 500);
        world.run_until(world.now_ms + 6_000);
        let listed = world.take_listed();
        let [(client, text)] = listed.as_slice() else {
            panic!("TUTTI_SIM_SEED={seed}: {listed:?}");
        };
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        lines.dedup();
        let is_right = |(node, line): (usize, &&str)| **line == format!("node{node} 7 s{node}");
        let is_whole = lines.len() == 5 && lines.iter().enumerate().all(is_right) && *client == id;
        assert!(is_whole, "TUTTI_SIM_SEED={seed}: {text}");
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 5, "TUTTI_SIM_SEED={seed}: {text}");
    }
}
