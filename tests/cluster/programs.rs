//! MPI programs mean the same on the nodes of a cluster as on one: those of the conformance suites, on few
//! daemons and on many. (mpi4py's own suite on a cluster: `make test-mpi4py MPI4PY_NETWORK=cluster2`.)

use std::time::Duration;

use tutti_tests::{CONFORMANCE, Scratch, compile, run};

use crate::Cluster;

/// Many ranks on few busy cores are slow; nothing here takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Larger clusters have virtual nodes.
const MACHINES_MAX: u32 = 4;

/// Source of a program of a suite, its arguments, and what it says when all is right.
type Program<'a> = (&'a str, &'a [&'a str], &'a str);

/// Runs each program on all nodes of clusters of these sizes.
#[track_caller]
fn pass(name: &str, clusters: &[u32], ranks: u32, programs: &[Program]) {
    let scratch = Scratch::new(&format!("{name}-programs"));
    let compiled: Vec<_> = programs.iter().map(|(source, ..)| compile(source, scratch.path())).collect();
    for nodes in clusters {
        // So many machines would be too much for this one.
        let cluster = if *nodes > MACHINES_MAX {
            Some(Cluster::up(&format!("{name}-{nodes}"), *nodes, &[]))
        } else {
            Cluster::on_machines(*nodes, &[])
        };
        let Some(cluster) = cluster else { return };
        for ((source, args, said), compiled) in programs.iter().zip(&compiled) {
            let mut tutti = cluster.command(&["run", "-N", &nodes.to_string(), "-n", &ranks.to_string()]);
            let ran = run(tutti.arg(compiled).args(*args), LIMIT).expect_success();
            assert!(ran.stdout.contains(said), "{source} {args:?} on {nodes} nodes: {ran}");
        }
    }
}

/// A seed that changes from run to run, and is printed. TUTTI_TEST_SEED repeats a run.
fn seed() -> String {
    tutti_testkit::seed().to_string()
}

#[test]
fn programs_give_the_same_result_on_2_and_4_machines() {
    let seed = seed();
    let conformance =
        CONFORMANCE.map(|name| (format!("tests/mpi/programs/{name}.c"), format!("{name}: ok\n")));
    let (random, collectives) = ([seed.as_str(), "12"], [seed.as_str(), "20"]);
    let mut programs: Vec<Program> = vec![
        ("tests/point_to_point/programs/modes.c", &[], "checks"),
        ("tests/point_to_point/programs/random.c", &random, "12 rounds of 60 messages on 4 ranks"),
        ("tests/collectives/c/collectives.c", &collectives, "collectives: all right"),
        ("tests/collectives/c/neighbours.c", &[], "neighbours: all right"),
    ];
    programs.extend(conformance.iter().map(|(source, said)| (source.as_str(), &[][..], said.as_str())));
    pass("cluster-programs", &[2, 4], 4, &programs);
}

#[test]
fn programs_run_on_32_daemons_of_virtual_nodes() {
    let seed = seed();
    let programs: [Program; 4] = [
        ("tests/mpi/programs/communicators.c", &[], "communicators: ok\n"),
        ("tests/point_to_point/programs/random.c", &[&seed, "2"], "2 rounds of 60 messages on 32 ranks"),
        ("tests/collectives/c/collectives.c", &[&seed, "2"], "collectives: all right"),
        ("tests/collectives/c/neighbours.c", &[], "neighbours: all right"),
    ];
    pass("cluster-wide", &[32], 32, &programs);
}
