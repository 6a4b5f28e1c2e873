//! The write protocol between nodes: a message whose receive came first leaves with its send, without a round
//! trip before the data.

use tutti_tests::{Scratch, compile, run};

use crate::{LIMIT, Network};

const SOURCE: &str = "tests/network/programs/received_first.c";
/// Messages of each of the program's four sizes.
const EACH: u64 = 3;

/// Counters of the job: messages that were written, their bytes, those that were announced, receives
/// that were advertised.
#[derive(Debug, PartialEq)]
struct Counted {
    written: u64,
    written_bytes: u64,
    announced: u64,
    told: u64,
}

/// Runs the program with these variables.
#[track_caller]
fn counted(network: Network, ranks: u64, variables: &[(&str, &str)]) -> Counted {
    counted_with(network, ranks, &[], variables)
}

/// The same with these arguments.
#[track_caller]
fn counted_with(network: Network, ranks: u64, args: &[&str], variables: &[(&str, &str)]) -> Counted {
    let what = format!("{network:?}-{ranks}-{}-{}", args.len(), variables.len());
    let scratch = Scratch::new(&format!("network-received-first-{what}"));
    let compiled = compile(SOURCE, scratch.path());
    let mut mpiexec = network.mpiexec(ranks as usize);
    mpiexec.arg(compiled).arg(EACH.to_string()).args(args).env("TUTTI_STATS", "json");
    let ran = run(mpiexec.envs(variables.iter().copied()), LIMIT).expect_success();
    let said = format!("received first: {} messages on {ranks} ranks\n", 4 * EACH * ranks);
    assert!(ran.stdout.contains(&said), "{ran}");
    let lines = ran.stderr.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let job = lines.map(|line| line["job"].clone()).find(|job| job.is_object());
    let job = job.unwrap_or_else(|| panic!("no line of the whole job: {ran}"));
    let count = |name: &str| job[name].as_u64().unwrap_or_else(|| panic!("no {name}: {ran}"));
    Counted {
        written: count("written"),
        written_bytes: count("written_bytes"),
        announced: count("announced"),
        told: count("told"),
    }
}

/// Every message of the program is written.
fn all(ranks: u64) -> Counted {
    let bytes = 65_537 + 100_000 + 300_001 + (1 << 20);
    // Two more receives of each rank are cancelled.
    let told = (4 * EACH + 2) * ranks;
    Counted { written: 4 * EACH * ranks, written_bytes: bytes * EACH * ranks, announced: 0, told }
}

// Paper: M4
#[test]
fn received_first_is_written_between_nodes_with_the_send() {
    for (network, ranks) in [(Network::TwoNodes, 2), (Network::TwoNodes, 4), (Network::Udp, 3)] {
        assert_eq!(counted(network, ranks, &[]), all(ranks), "{network:?}, {ranks} ranks");
    }
}

// Paper: M4
#[test]
fn received_first_is_written_once_over_a_faulty_network() {
    assert_eq!(counted(Network::Faulty, 3, &[]), all(3));
}

#[test]
fn received_first_is_written_while_the_program_is_checked() {
    assert_eq!(counted(Network::TwoNodes, 2, &[("TUTTI_CHECK", "1")]), all(2));
}

/// A message that is sent when its receiver has asked for it is written as soon as the sender knows of the
/// receive: all but the first of each pair.
// Paper: M4
#[test]
fn received_first_is_written_also_below_the_eager_limit_if_it_would_be_announced() {
    let bytes = EACH * (16_385 + 20_000 + 40_001 + 65_536);
    for (network, ranks) in [(Network::TwoNodes, 2), (Network::Faulty, 3)] {
        let written = 4 * EACH * ranks - ranks;
        let all = Counted {
            written,
            written_bytes: (bytes - 16_385) * ranks,
            announced: ranks,
            told: written + ranks,
        };
        assert_eq!(counted_with(network, ranks, &["synchronous"], &[]), all, "{network:?}");
    }
}

// Paper: M16
#[test]
fn received_first_is_announced_without_the_write_protocol() {
    let counted = counted(Network::TwoNodes, 2, &[("TUTTI_WRITE_PROTOCOL", "off")]);
    let all = 4 * EACH * 2;
    assert_eq!(counted, Counted { written: 0, written_bytes: 0, announced: all, told: 0 });
}
