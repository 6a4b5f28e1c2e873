//! The promises of messages over UDP on one machine and on virtual nodes (between machines:
//! `tests/machines`): every MPI program means the same over UDP as inside a node, also
//! when datagrams are lost, come twice or in another order, and between network namespaces (root only; one
//! line says that they were not tried). Everything runs from `target/dist`.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod elsewhere;
mod forged;
mod freezes;
mod received_first;

use std::process::Command;
use std::time::Duration;

use tutti_testkit::{Need, skip_part};
use tutti_tests::{CONFORMANCE, Scratch, compile, compile_with, program, run};

/// Many ranks on few busy cores are slow; nothing here takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(110);

/// A seed that changes from run to run, and is printed. TUTTI_TEST_SEED repeats a run.
fn seed() -> String {
    tutti_testkit::seed().to_string()
}

/// How the ranks of a job reach each other.
#[derive(Clone, Copy, Debug)]
enum Network {
    /// All over shared memory.
    OneNode,
    /// All over UDP.
    Udp,
    /// The same, and the network loses, doubles and reorders.
    Faulty,
    /// Half of them over UDP, half of them over shared memory.
    TwoNodes,
    /// The same between two network namespaces, where datagrams have to fit into Ethernet's.
    TwoNamespaces,
}

impl Network {
    /// `mpiexec` for so many ranks.
    fn mpiexec(self, ranks: usize) -> Command {
        let mut mpiexec = program("mpiexec");
        match self {
            Network::OneNode => &mut mpiexec,
            Network::Udp => mpiexec.env("TUTTI_TRANSPORT", "udp"),
            Network::Faulty => mpiexec
                .env("TUTTI_TRANSPORT", "udp")
                .env("LD_PRELOAD", tutti_tests::testing_library())
                .env("TUTTI_FAULTS", format!("loss=1%,dup=0.5%,reorder=2%,seed={}", seed())),
            Network::TwoNodes => mpiexec.args(["--virtual-nodes", "2"]),
            Network::TwoNamespaces => mpiexec.args(["--netns", "2"]),
        };
        mpiexec.args(["-n", &ranks.to_string()]);
        mpiexec
    }

    /// Whether this user may have such a network.
    fn can_be_had(self) -> bool {
        !matches!(self, Network::TwoNamespaces) || rustix::process::geteuid().is_root()
    }
}

/// Compiles a program and runs it on so many ranks; it must say `said`.
#[track_caller]
fn passes(network: Network, source: &str, ranks: usize, args: &[&str], said: &str) {
    if !network.can_be_had() {
        skip_part(
            Need::NetworkNamespace,
            format_args!("{source} did not run between two network namespaces, which need root"),
        );
        return;
    }
    let name = source.rsplit('/').next().expect("a path has a last part");
    let scratch = Scratch::new(&format!("network-{network:?}-{ranks}-{name}"));
    let compiled = compile(source, scratch.path());
    let mut mpiexec = network.mpiexec(ranks);
    let ran = run(mpiexec.arg(compiled).args(args), LIMIT).expect_success();
    assert!(ran.stdout.contains(said), "{network:?} {args:?}: {ran}");
}

#[track_caller]
fn random(network: Network, ranks: usize, rounds: &str) {
    let said = format!("{rounds} rounds of 60 messages on {ranks} ranks");
    passes(network, "tests/point_to_point/programs/random.c", ranks, &[&seed(), rounds], &said);
}

#[track_caller]
fn collectives(network: Network, ranks: usize, rounds: &str) {
    let source = "tests/collectives/c/collectives.c";
    passes(network, source, ranks, &[&seed(), rounds], "collectives: all right");
}

#[test]
fn random_messages_arrive_once_in_order_over_udp() {
    random(Network::Udp, 3, "12");
}

#[test]
fn random_messages_arrive_once_in_order_between_two_virtual_nodes() {
    random(Network::TwoNodes, 4, "12");
}

#[test]
fn random_messages_arrive_once_in_order_between_two_namespaces() {
    random(Network::TwoNamespaces, 4, "12");
}

// Paper: M3
#[test]
fn random_messages_arrive_once_in_order_over_a_faulty_network() {
    random(Network::Faulty, 3, "12");
}

#[test]
fn send_and_receive_modes_work_over_udp_and_between_virtual_nodes() {
    for network in [Network::Udp, Network::TwoNodes, Network::TwoNamespaces, Network::Faulty] {
        passes(network, "tests/point_to_point/programs/modes.c", 3, &[], "checks");
    }
}

#[test]
fn thread_multiple_waits_are_independent_over_udp() {
    for network in [Network::Udp, Network::TwoNamespaces] {
        passes(network, "tests/point_to_point/programs/threads.c", 2, &[], "threads: all right");
    }
}

#[test]
fn probes_of_several_threads_for_one_message_give_it_to_one_of_them_over_udp() {
    let source = "tests/point_to_point/programs/probing_threads.c";
    passes(Network::Udp, source, 2, &[], "probing threads: all right");
}

#[test]
fn collectives_work_over_udp() {
    collectives(Network::Udp, 4, "40");
}

#[test]
fn collectives_work_between_two_virtual_nodes() {
    collectives(Network::TwoNodes, 5, "40");
}

#[test]
fn collectives_work_between_two_namespaces() {
    collectives(Network::TwoNamespaces, 4, "40");
}

#[test]
fn collectives_work_over_a_faulty_network() {
    collectives(Network::Faulty, 3, "25");
}

#[test]
fn neighbor_collectives_work_between_two_virtual_nodes() {
    let source = "tests/collectives/c/neighbours.c";
    passes(Network::TwoNodes, source, 6, &[], "neighbours: all right");
    passes(Network::TwoNamespaces, source, 4, &[], "neighbours: all right");
}

#[track_caller]
fn conforms(network: Network, ranks: usize) {
    for name in CONFORMANCE {
        passes(network, &format!("tests/mpi/programs/{name}.c"), ranks, &[], &format!("{name}: ok\n"));
    }
}

#[test]
fn conformance_programs_pass_over_udp() {
    conforms(Network::Udp, 2);
}

#[test]
fn conformance_programs_pass_between_two_virtual_nodes() {
    conforms(Network::TwoNodes, 3);
}

#[test]
fn conformance_programs_pass_between_two_namespaces() {
    conforms(Network::TwoNamespaces, 4);
}

/// Every fifth datagram of any kind is lost, acknowledgements and what is sent again too.
#[test]
fn remote_memory_programs_pass_between_two_virtual_nodes_that_lose_a_fifth() {
    let seed = seed();
    let programs = [
        ("mpicc", "tests/windows/c/operations.c", vec![&*seed, "1"], "operations: all right\n"),
        ("mpicc", "tests/windows/c/long.c", vec![&seed, "1"], "long: all right\n"),
        ("oshcc", "tests/shmem/programs/atomics.c", vec!["50"], "atomics: ok\n"),
        ("oshcc", "tests/shmem/programs/signals.c", vec!["200"], "signals: ok\n"),
    ];
    for (number, (wrapper, source, arguments, said)) in programs.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("network-fifth-{number}"));
        let compiled = compile_with(wrapper, source, scratch.path());
        let mut mpiexec = Network::TwoNodes.mpiexec(4);
        mpiexec
            .env("LD_PRELOAD", tutti_tests::testing_library())
            .env("TUTTI_FAULTS", format!("loss=20%,dup=1%,reorder=2%,seed={seed}"));
        let ran = run(mpiexec.arg(compiled).args(arguments), LIMIT).expect_success();
        println!("{source}: {:.1?}", ran.took);
        assert!(ran.stdout.contains(said), "{source}: {ran}");
    }
}

#[test]
fn mtu_of_different_links_is_negotiated() {
    let scratch = Scratch::new("network-mtus");
    let narrow = compile("tests/network/programs/narrow.c", scratch.path());
    if !Network::TwoNamespaces.can_be_had() {
        return tutti_testkit::skip(tutti_testkit::Need::NetworkNamespace, "network namespaces need root");
    }
    for (nodes, mtus) in [("2", "9000,1500"), ("2", "1500,9000"), ("3", "9000,1400,4000"), ("2", "9000")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["--netns", nodes, "--netns-mtu", mtus, "-n", "4"]).arg(&narrow);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("narrow: all right"), "{mtus}: {ran}");
        assert_eq!(ran.stderr, "", "{mtus}");
    }
}

#[test]
fn mtu_drop_slows_a_job_and_is_reported_once_per_rank() {
    let scratch = Scratch::new("network-narrower");
    let narrow = compile("tests/network/programs/narrow.c", scratch.path());
    if !Network::TwoNamespaces.can_be_had() {
        return tutti_testkit::skip(tutti_testkit::Need::NetworkNamespace, "network namespaces need root");
    }
    for (ranks, mtus) in [(2, "1500"), (4, "9000")] {
        let mut mpiexec = program("mpiexec");
        mpiexec
            .args(["--netns", "2", "--netns-mtu", mtus, "-n", &ranks.to_string()])
            .args([narrow.as_os_str(), "shrink".as_ref()]);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("narrow: all right"), "{mtus}: {ran}");
        let remarks = ran.stderr.matches("the network takes shorter datagrams").count();
        assert!((1..=ranks).contains(&remarks) && ran.stderr.lines().count() == remarks, "{mtus}: {ran}");
    }
}

#[test]
fn mtu_black_hole_slows_a_job_and_ends_nothing() {
    let scratch = Scratch::new("network-vanish");
    let narrow = compile("tests/network/programs/narrow.c", scratch.path());
    if !Network::TwoNamespaces.can_be_had() {
        return tutti_testkit::skip(tutti_testkit::Need::NetworkNamespace, "network namespaces need root");
    }
    for mtus in ["1500", "9000"] {
        let mut mpiexec = program("mpiexec");
        mpiexec
            .args(["--netns", "2", "--netns-mtu", mtus, "-n", "2"])
            .args([narrow.as_os_str(), "vanish".as_ref()]);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("narrow: all right"), "{mtus}: {ran}");
        // Rank 0 has to find out by itself; rank 1 is told by its kernel.
        let remarks = ran.stderr.matches("the network takes shorter datagrams").count();
        assert!(ran.stderr.contains("and does not report longer ones"), "{mtus}: {ran}");
        assert!((1..=2).contains(&remarks) && ran.stderr.lines().count() == remarks, "{mtus}: {ran}");
    }
}

#[test]
fn finalize_completes_although_last_acks_are_lost() {
    let scratch = Scratch::new("network-leave");
    let modes = compile("tests/point_to_point/programs/modes.c", scratch.path());
    for seed in 1..=12 {
        let faults = format!("loss=10%,dup=1%,reorder=2%,seed={seed}");
        let mut mpiexec = program("mpiexec");
        mpiexec
            .env("TUTTI_TRANSPORT", "udp")
            .env("LD_PRELOAD", tutti_tests::testing_library())
            .env("TUTTI_FAULTS", &faults)
            .args(["-n", "3"])
            .arg(&modes);
        run(&mut mpiexec, LIMIT).expect_success();
    }
}

#[test]
fn service_thread_finishes_sends_after_sleeping() {
    let scratch = Scratch::new("network-away");
    let away = compile("tests/network/programs/away.c", scratch.path());
    for (number, loss) in ["loss=0%", "loss=30%,dup=1%,reorder=2%"].into_iter().enumerate() {
        let mut mpiexec = program("mpiexec");
        let faults = format!("{loss},seed={}", seed());
        mpiexec
            .env("TUTTI_TRANSPORT", "udp")
            .env("LD_PRELOAD", tutti_tests::testing_library())
            .env("TUTTI_FAULTS", faults)
            .args(["-n", "2"]);
        mpiexec.arg(&away).arg("messages").arg(scratch.path().join(number.to_string()));
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("away: all right"), "{ran}");
    }
}

#[test]
fn service_thread_wakes_only_for_datagrams_and_the_program() {
    passes(Network::Udp, "tests/network/programs/away.c", 2, &["still"], "away: all right");
}

#[test]
fn service_thread_does_not_keep_a_process_alive() {
    passes(Network::Udp, "tests/network/programs/away.c", 2, &["leave"], "");
}
