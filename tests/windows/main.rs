//! The promises of one-sided communication (MPI chapter 12), inside a node, over UDP on one machine and on
//! virtual nodes; between machines: `tests/machines`. Everything runs from `target/dist`.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod deaths;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;

use std::path::PathBuf;
use std::time::Duration;

use tutti_testkit::{Need, skip_part};
use tutti_tests::{Ran, Scratch, compile, program, run};

/// Limit for a program: none takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(100);

fn compiled(scratch: &Scratch, name: &str) -> PathBuf {
    compile(&format!("tests/windows/c/{name}.c"), scratch.path())
}

#[track_caller]
fn run_ranks(program_file: &PathBuf, ranks: u32, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", &ranks.to_string()]).arg(program_file).args(arguments);
    mpiexec.envs(environment.iter().copied());
    run(&mut mpiexec, LIMIT)
}

#[test]
fn window_operations_work_on_every_flavour_under_every_synchronisation() {
    let scratch = Scratch::new("windows-operations");
    let operations = compiled(&scratch, "operations");
    for ranks in [1, 2, 3, 5] {
        let seed = tutti_testkit::seed().to_string();
        let ran = run_ranks(&operations, ranks, &[&seed, "2"], &[]).expect_success();
        assert!(ran.stdout.contains("operations: all right"), "{ran}");
    }
}

#[test]
fn window_operations_are_checked_without_a_complaint() {
    let scratch = Scratch::new("windows-checked");
    let operations = compiled(&scratch, "operations");
    let seed = tutti_testkit::seed().to_string();
    let ran = run_ranks(&operations, 3, &[&seed, "1"], &[("TUTTI_CHECK", "1")]).expect_success();
    assert!(ran.stdout.contains("operations: all right") && ran.stderr.is_empty(), "{ran}");
}

#[test]
fn window_wrong_calls_give_the_standard_error_class() {
    let scratch = Scratch::new("windows-wrong");
    let wrong = compiled(&scratch, "wrong");
    let ran = run_ranks(&wrong, 2, &[], &[("TUTTI_TEXTS", "1")]).expect_success();
    assert!(ran.stdout.contains("wrong: all right"), "{ran}");
}

#[test]
fn window_objects_have_attributes_hints_names_and_shared_memory() {
    let scratch = Scratch::new("windows-objects");
    let objects = compiled(&scratch, "objects");
    for ranks in [1, 2, 3, 4] {
        let ran = run_ranks(&objects, ranks, &[], &[]).expect_success();
        assert!(ran.stdout.contains("objects: all right"), "{ran}");
    }
}

#[test]
fn window_memory_follows_mpi_minimum_memory_alignment() {
    let scratch = Scratch::new("windows-aligned");
    let aligned = compile("tests/mpi/programs/aligned_windows.c", scratch.path());
    for (ranks, nodes) in [("1", "1"), ("3", "1"), ("4", "2")] {
        let mut mpiexec = program("mpiexec");
        let command =
            mpiexec.args(["--virtual-nodes", nodes, "-n", ranks, "--bind-to", "none"]).arg(&aligned);
        let ran = run(command, LIMIT).expect_success();
        assert!(ran.stdout.contains("aligned_windows: ok"), "{ranks} ranks: {ran}");
    }
}

#[test]
fn window_operations_are_done_while_the_target_computes() {
    let scratch = Scratch::new("windows-progress");
    let progress = compiled(&scratch, "progress");
    let ran = run_ranks(&progress, 2, &[], &[]).expect_success();
    assert!(ran.stdout.contains("progress: all right"), "{ran}");
}

#[test]
fn window_flush_orders_stores_and_loads() {
    let scratch = Scratch::new("windows-litmus");
    let litmus = compiled(&scratch, "litmus");
    let ran = run_ranks(&litmus, 2, &["20000"], &[]).expect_success();
    assert!(ran.stdout.contains("litmus: all right"), "{ran}");
}

/// Named without the checker too; with it the job ends by itself.
#[test]
fn window_deadlocks_are_named() {
    let scratch = Scratch::new("windows-deadlocks");
    let deadlock = compiled(&scratch, "deadlock");
    for (which, call) in
        [("lock", "ranks 0, 1: waiting in MPI_Win_lock"), ("post", "rank 0: waiting in MPI_Win_start")]
    {
        let ran = run_ranks(&deadlock, 2, &[which], &[("TUTTI_CHECK", "1")]);
        assert_eq!(ran.status.code(), Some(3), "{ran}");
        assert!(ran.stderr.contains("deadlock: no rank can go on") && ran.stderr.contains(call), "{ran}");
    }
}

/// Memory that the ranks share needs no help of the kernel; of other memory the call says what is wrong, and
/// ranks that may copy work on.
#[test]
fn window_operations_without_process_vm_work_on_allocated_memory_and_else_are_range_errors() {
    let scratch = Scratch::new("windows-refused");
    let refused = compiled(&scratch, "refused");
    for (ranks, who) in [(2, "all"), (2, "last"), (3, "all"), (3, "last")] {
        let ran = run_ranks(&refused, ranks, &[who], &[]).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("refused: all right\n", ""), "{who}: {ran}");
    }
}

#[test]
fn window_operation_without_process_vm_ends_the_job_in_one_line_unless_errors_are_handled() {
    let scratch = Scratch::new("windows-refused-fatal");
    let ran = run_ranks(&compiled(&scratch, "refused"), 2, &["last", "fatal"], &[]);
    let whys: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("tutti: ")).collect();
    assert!(ran.code() != 0 && whys.len() == 1 && ran.stderr.lines().count() == 2, "{ran}");
    for part in ["rank 1: MPI_Put: the kernel does not reach", "Operation not permitted", "MPI_ERR_RMA_RANGE"]
    {
        assert!(whys[0].contains(part), "{part}: {ran}");
    }
}

/// Ways between the nodes of a job: all ranks by datagrams; two of them to a node.
const NODES: [(&str, &[&str], u32); 3] =
    [("udp", &[], 2), ("udp", &[], 3), ("", &["--virtual-nodes", "2"], 4)];

#[track_caller]
fn run_on_nodes(
    program_file: &PathBuf,
    (transport, options, ranks): (&str, &[&str], u32),
    arguments: &[&str],
) -> Ran {
    let mut mpiexec = program("mpiexec");
    if !transport.is_empty() {
        mpiexec.env("TUTTI_TRANSPORT", transport);
    }
    mpiexec.args(options).args(["-n", &ranks.to_string()]).arg(program_file).args(arguments);
    run(&mut mpiexec, LIMIT)
}

#[test]
fn window_operations_work_between_virtual_nodes() {
    let scratch = Scratch::new("windows-nodes");
    let operations = compiled(&scratch, "operations");
    for nodes in NODES {
        let seed = tutti_testkit::seed().to_string();
        let ran = run_on_nodes(&operations, nodes, &[&seed, "2"]).expect_success();
        assert!(ran.stdout.contains("operations: all right"), "{nodes:?}: {ran}");
    }
}

#[test]
fn window_operations_work_between_network_namespaces() {
    if !rustix::process::geteuid().is_root() {
        skip_part(Need::NetworkNamespace, format_args!("windows were not tried between network namespaces"));
        return;
    }
    let scratch = Scratch::new("windows-namespaces");
    let operations = compiled(&scratch, "operations");
    let seed = tutti_testkit::seed().to_string();
    let ran = run_on_nodes(&operations, ("", &["--netns", "2"], 4), &[&seed, "1"]).expect_success();
    assert!(ran.stdout.contains("operations: all right"), "{ran}");
}

// Paper: C7
#[test]
fn window_operations_are_done_once_where_datagrams_are_lost() {
    let scratch = Scratch::new("windows-faults");
    let operations = compiled(&scratch, "operations");
    let seed = tutti_testkit::seed().to_string();
    let mut mpiexec = program("mpiexec");
    mpiexec.env("TUTTI_TRANSPORT", "udp").env("LD_PRELOAD", tutti_tests::testing_library());
    mpiexec.env("TUTTI_FAULTS", format!("loss=2%,dup=1%,reorder=3%,seed={seed}"));
    let ran = run(mpiexec.args(["-n", "3"]).arg(&operations).args([&seed, "1"]), LIMIT).expect_success();
    assert!(ran.stdout.contains("operations: all right"), "{ran}");
}

#[test]
fn window_long_operations_between_virtual_nodes_are_done_in_order() {
    let scratch = Scratch::new("windows-long");
    let long = compiled(&scratch, "long");
    for nodes in NODES {
        let seed = tutti_testkit::seed().to_string();
        let ran = run_on_nodes(&long, nodes, &[&seed, "4"]).expect_success();
        assert!(ran.stdout.contains("long: all right"), "{nodes:?}: {ran}");
    }
}

#[test]
fn window_long_operations_are_done_once_where_datagrams_are_lost() {
    let scratch = Scratch::new("windows-long-faults");
    let long = compiled(&scratch, "long");
    let seed = tutti_testkit::seed().to_string();
    let mut mpiexec = program("mpiexec");
    mpiexec.env("TUTTI_TRANSPORT", "udp").env("LD_PRELOAD", tutti_tests::testing_library());
    mpiexec.env("TUTTI_FAULTS", format!("loss=2%,dup=1%,reorder=3%,seed={seed}"));
    let ran = run(mpiexec.args(["-n", "3"]).arg(&long).args([&seed, "3"]), LIMIT).expect_success();
    assert!(ran.stdout.contains("long: all right"), "{ran}");
}

#[test]
fn window_unlock_ends_operations_without_a_check_of_the_lock() {
    let scratch = Scratch::new("windows-unlock");
    let unlock = compiled(&scratch, "unlock");
    run_ranks(&unlock, 2, &[], &[]).expect_success();
    for nodes in NODES {
        let ran = run_on_nodes(&unlock, nodes, &[]).expect_success();
        assert!(ran.stdout.contains("unlock: all right"), "{nodes:?}: {ran}");
    }
}

#[test]
fn window_requests_on_a_stopped_rank_do_not_wait() {
    let scratch = Scratch::new("windows-starts");
    let starts = compiled(&scratch, "starts");
    let ran = run_on_nodes(&starts, NODES[0], &[]).expect_success();
    assert!(ran.stdout.contains("starts: all right"), "{ran}");
}

// Paper: C3
#[test]
fn window_operations_between_virtual_nodes_are_done_while_the_target_computes() {
    let scratch = Scratch::new("windows-nodes-progress");
    let progress = compiled(&scratch, "progress");
    let ran = run_on_nodes(&progress, NODES[0], &[]).expect_success();
    assert!(ran.stdout.contains("progress: all right"), "{ran}");
}

#[test]
fn window_wrong_calls_between_virtual_nodes_give_the_standard_error_class() {
    let scratch = Scratch::new("windows-nodes-wrong");
    let wrong = compiled(&scratch, "wrong");
    let ran = run_on_nodes(&wrong, NODES[0], &[]).expect_success();
    assert!(ran.stdout.contains("wrong: all right"), "{ran}");
}

#[test]
fn window_shared_by_several_nodes_is_refused_in_one_line() {
    let scratch = Scratch::new("windows-nodes-shared");
    let litmus = compiled(&scratch, "litmus");
    let ran = run_on_nodes(&litmus, ("", &["--virtual-nodes", "2"], 2), &["1"]);
    assert!(!ran.status.success(), "{ran}");
    assert!(ran.stderr.contains("ranks of several nodes cannot share memory"), "{ran}");
}
