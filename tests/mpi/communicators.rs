//! Groups, communicators, error handlers, attributes, info objects, sessions, statuses, topologies.

use crate::{LIMIT, conforms, mpiexec};
use tutti_tests::{Scratch, compile, program, run};

const RANKS: [u32; 4] = [1, 2, 3, 4];

#[test]
fn communicators_are_made_named_and_freed() {
    conforms("communicators", &RANKS);
}

#[test]
fn groups_follow_the_standard_algebra() {
    conforms("groups", &RANKS);
}

#[test]
fn intercommunicators_bridge_two_groups() {
    conforms("intercommunicators", &RANKS);
}

/// Reports of users of other libraries, from 2024 to 2026: see the program.
#[test]
fn reports_about_other_libraries_do_not_hold_here() {
    let scratch = Scratch::new("mpi-reported");
    let compiled = compile("tests/mpi/programs/reported.c", scratch.path());
    let file = scratch.path().join("file");
    let name = file.to_str().expect("UTF-8");
    for nodes in ["1", "2"] {
        for ranks in ["1", "2", "3"] {
            let mut command = program("mpiexec");
            command.args(["--virtual-nodes", nodes, "-n", ranks]).arg(&compiled).arg(name);
            if nodes <= ranks {
                let ran = run(&mut command, LIMIT).expect_success();
                assert!(ran.stdout.contains("reported: ok\n"), "{ranks} ranks, {nodes} nodes: {ran}");
            }
        }
    }
}

#[test]
fn topologies_report_neighbors() {
    conforms("topologies", &[1, 2, 3, 4, 6]);
}

#[test]
fn error_handlers_are_called_counted_and_inherited() {
    conforms("error_handlers", &RANKS);
}

#[test]
fn errors_without_an_object_are_raised_on_self_or_where_a_handler_is_set() {
    conforms("world_handler", &[1, 2]);
}

#[test]
fn attributes_follow_their_callbacks_and_those_of_self_go_at_finalize() {
    for (ranks, printed) in RANKS.iter().zip(conforms("attributes", &RANKS)) {
        assert_eq!(printed.matches("all deleted\n").count() as u32, *ranks, "{printed}");
    }
}

#[test]
fn info_objects_work_before_init_and_after_finalize() {
    conforms("info", &RANKS);
    let scratch = Scratch::new("mpi-info-arguments");
    let compiled = compile("tests/mpi/programs/info.c", scratch.path());
    let ran = mpiexec(3, &compiled, &["an", "argument"]).expect_success();
    assert!(ran.stdout.contains("info: ok\n"), "{ran}");
}

#[test]
fn statuses_can_be_filled_and_the_platform_is_reported() {
    conforms("platform", &[1, 2]);
}

#[test]
fn processor_names_and_shared_memory_agree_on_virtual_nodes() {
    let scratch = Scratch::new("mpi-names");
    let compiled = compile("tests/mpi/programs/processor_names.c", scratch.path());
    for (options, nodes) in [(&["-n", "5"][..], 1), (&["-n", "5", "--virtual-nodes", "3"], 3)] {
        let ran = run(program("mpiexec").args(options).arg(&compiled), LIMIT).expect_success();
        assert!(ran.stdout.contains(&format!("{nodes} names\n")), "{ran}");
        assert!(ran.stdout.contains("processor_names: ok\n"), "{ran}");
    }
}

#[test]
fn sessions_work_with_and_without_the_world_model() {
    conforms("sessions", &RANKS);
    let scratch = Scratch::new("mpi-sessions-alone");
    let compiled = compile("tests/mpi/programs/sessions.c", scratch.path());
    let ran = mpiexec(3, &compiled, &["alone"]).expect_success();
    assert_eq!(ran.stdout.matches("sessions alone: ok\n").count(), 3, "{ran}");
    assert_eq!(ran.stderr, "", "a process that has closed its sessions has left its job");
}

#[test]
fn fatal_error_names_rank_function_argument_and_value() {
    let scratch = Scratch::new("mpi-fatal");
    let compiled = compile("tests/mpi/programs/fatal.c", scratch.path());
    let cases = [
        ("rank", "MPI_Send: rank is 99, expected 0 to 1 or MPI_PROC_NULL (MPI_ERR_RANK)"),
        ("tag", "MPI_Send: tag is -5, expected 0 to 2147483647 (MPI_ERR_TAG)"),
        ("comm", "MPI_Send: communicator 0x100 is MPI_COMM_NULL (MPI_ERR_COMM)"),
        ("freed", "is freed or was never one (MPI_ERR_COMM)"),
        ("info", "MPI_Info_set: key is an empty text (MPI_ERR_INFO_KEY)"),
        ("abort", "MPI_Comm_call_errhandler: the program raises error code 7 (MPI_ERR_REQUEST)"),
        ("before", "MPI_Comm_size was called before MPI_Init"),
    ];
    for (case, expected) in cases {
        let ran = mpiexec(2, &compiled, &[case]);
        assert_ne!(ran.code(), 0, "{case}: {ran}");
        assert!(ran.stderr.contains(expected), "{case}: {ran}");
        assert!(case == "before" || ran.stderr.contains("tutti: rank 1: "), "{case}: {ran}");
    }
}

#[test]
fn buffers_serve_what_goes_back_to_their_owner_and_end_with_it() {
    conforms("attached_buffers", &[1]);
}

#[test]
fn small_answers_are_the_standards() {
    let scratch = Scratch::new("mpi-small-answers");
    let compiled = compile("tests/mpi/programs/small_answers.c", scratch.path());
    for ranks in ["1", "2"] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks]).arg(&compiled).arg(scratch.path().join("file"));
        assert_eq!(
            run(&mut mpiexec, LIMIT).expect_success().stdout,
            "small_answers: ok\n",
            "on {ranks} ranks"
        );
    }
}

#[test]
fn sessions_open_after_finalize_on_a_node() {
    let scratch = Scratch::new("mpi-late-sessions");
    let compiled = compile("tests/mpi/programs/late_sessions.c", scratch.path());
    for ranks in ["1", "2", "3"] {
        for end in ["return", "exit", "_exit", "open"] {
            let ran =
                run(program("mpiexec").args(["-n", ranks]).arg(&compiled).arg(end), LIMIT).expect_success();
            assert_eq!((&*ran.stdout, &*ran.stderr), ("ok\n", ""), "{ranks} ranks that {end}");
        }
    }
    // Between nodes the starter answers for a rank that has left.
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["--virtual-nodes", "2", "-n", "2"]).arg(&compiled).arg("apart");
    assert_eq!(run(&mut mpiexec, LIMIT).expect_success().stdout, "ok\n");
}

#[test]
fn arguments_that_a_rank_does_not_need_may_be_anything() {
    let scratch = Scratch::new("mpi-insignificant");
    let compiled = compile("tests/mpi/programs/insignificant.c", scratch.path());
    for ranks in ["1", "2", "3"] {
        let ran = run(program("mpiexec").args(["--universe", "8", "-n", ranks]).arg(&compiled), LIMIT);
        let ran = ran.expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("insignificant: ok\n", ""), "on {ranks} ranks");
    }
}

#[test]
fn reductions_of_reals_in_software_are_those_of_the_compiler() {
    conforms("reductions_wide", &[2]);
    // Between nodes, and what is accumulated there.
    let scratch = Scratch::new("mpi-reductions-wide-nodes");
    let compiled = compile("tests/mpi/programs/reductions_wide.c", scratch.path());
    let ran = run(program("mpiexec").args(["--virtual-nodes", "2", "-n", "2"]).arg(&compiled), LIMIT);
    assert_eq!(ran.expect_success().stdout, "reductions_wide: ok\n");
}

#[test]
fn reductions_beyond_the_standard_work_as_in_other_libraries() {
    conforms("reductions_beyond", &RANKS);
}

/// A rank of a job with room for many has a small sequence of numbers for communicators.
#[test]
fn communicators_are_made_and_freed_beyond_the_numbers_of_one_rank() {
    let scratch = Scratch::new("mpi-many-communicators");
    let compiled = compile("tests/mpi/programs/many_communicators.c", scratch.path());
    for nodes in [&["--universe", "2048"][..], &["--universe", "2048", "--virtual-nodes", "2"]] {
        let ran =
            run(program("mpiexec").args(nodes).args(["-n", "2"]).arg(&compiled), LIMIT).expect_success();
        assert_eq!(ran.stdout, "many communicators: ok\n", "{nodes:?}: {ran}");
    }
}
