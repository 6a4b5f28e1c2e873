//! The other programs of the conformance suites, between nodes: errors, communicators that come and go,
//! sessions without a world, and right programs under TUTTI_CHECK. (Wrong programs under TUTTI_CHECK run over
//! UDP in `tests/check`.)

use std::path::PathBuf;

use tutti_tests::{CONFORMANCE, Ran, Scratch, compile, run, without_hints};

use crate::{LIMIT, Network, passes};

const NETWORKS: [Network; 3] = [Network::Udp, Network::TwoNodes, Network::TwoNamespaces];

/// A compiled program, run over a network. None where the network cannot be had.
fn ran(
    network: Network,
    compiled: &PathBuf,
    ranks: usize,
    args: &[&str],
    set: &[(&str, &str)],
) -> Option<Ran> {
    let mut mpiexec = network.mpiexec(ranks);
    network.can_be_had().then(|| run(mpiexec.arg(compiled).args(args).envs(set.iter().copied()), LIMIT))
}

#[test]
fn wrong_arguments_give_the_same_classes_between_virtual_nodes() {
    for network in NETWORKS {
        let source = "tests/collectives/c/wrong_arguments.c";
        passes(network, source, 3, &[], "wrong arguments: all right");
    }
}

#[test]
fn fatal_error_between_virtual_nodes_is_one_line_and_ends_the_job() {
    let scratch = Scratch::new("network-fatal");
    let compiled = compile("tests/mpi/programs/fatal.c", scratch.path());
    let cases = [
        ("rank", "tutti: rank 1: MPI_Send: rank is 99, expected 0 to 1 or MPI_PROC_NULL (MPI_ERR_RANK)"),
        ("freed", "is freed or was never one (MPI_ERR_COMM)"),
        ("abort", "MPI_Comm_call_errhandler: the program raises error code 7 (MPI_ERR_REQUEST)"),
    ];
    for (network, (case, expected)) in
        NETWORKS.into_iter().flat_map(|network| cases.map(|case| (network, case)))
    {
        let Some(ran) = ran(network, &compiled, 2, &[case], &[]) else { continue };
        assert_ne!(ran.code(), 0, "{network:?} {case}: {ran}");
        assert!(ran.stderr.contains(expected), "{network:?} {case}: {ran}");
    }
}

#[test]
fn communicators_are_made_and_freed_between_virtual_nodes() {
    for network in NETWORKS {
        passes(
            network,
            "tests/collectives/c/lifetimes.c",
            4,
            &[&crate::seed(), "300"],
            "lifetimes: all right",
        );
    }
}

#[test]
fn nonblocking_collectives_never_match_blocking_ones_between_virtual_nodes() {
    for network in NETWORKS {
        passes(network, "tests/collectives/c/started_beside.c", 3, &[], "started beside waiting: all right");
    }
}

#[test]
fn sessions_work_between_virtual_nodes() {
    for network in NETWORKS {
        passes(network, "tests/mpi/programs/sessions.c", 3, &["alone"], "sessions alone: ok");
    }
}

#[test]
fn checker_accepts_correct_programs_between_virtual_nodes() {
    // Attributes leaves communicators behind on purpose.
    let conformance = CONFORMANCE.into_iter().filter(|name| *name != "attributes");
    let conformance = conformance.map(|name| (format!("tests/mpi/programs/{name}.c"), &[][..]));
    let others: [(&str, &[&str]); 4] = [
        ("tests/point_to_point/programs/modes.c", &[]),
        ("tests/point_to_point/programs/random.c", &["7", "10"]),
        ("tests/collectives/c/collectives.c", &["7", "8"]),
        ("tests/collectives/c/neighbours.c", &[]),
    ];
    let others = others.map(|(source, args)| (source.to_owned(), args));
    let scratch = Scratch::new("network-checked");
    for (source, args) in conformance.chain(others) {
        let compiled = compile(&source, scratch.path());
        for network in NETWORKS {
            let Some(ran) = ran(network, &compiled, 3, args, &[("TUTTI_CHECK", "1")]) else { continue };
            let finds = without_hints(&ran.stderr).into_iter().any(|line| line.contains("check:"));
            assert!(ran.code() == 0 && !finds, "{network:?} {source}: {ran}");
        }
    }
}
