//! Facts that a process finds at its start: MPI_APPNUM, MPI_UNIVERSE_SIZE, the initial error handler.

use std::process::Command;

use tutti_testkit::{Need, skip_part};
use tutti_tests::{Scratch, compile, program, run};

use crate::LIMIT;

/// The lines of ranks, in their order.
fn lines(command: &mut Command) -> Vec<String> {
    let ran = run(command, LIMIT).expect_success();
    let mut lines: Vec<String> =
        ran.stdout.lines().filter(|line| line.starts_with("rank ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn attributes_appnum_and_universe_size_are_set() {
    let scratch = Scratch::new("mpi-start-programs");
    let start = &compile("tests/mpi/programs/start.c", scratch.path());
    let fatal = "fatal fatal mpi_errors_are_fatal";
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(nodes).args(["-n", "2"]).arg(start).args([":", "-n", "1"]).arg(start);
        let expected = [(0, 0), (1, 0), (2, 1)]
            .map(|(rank, number)| format!("rank {rank} of 3, program {number}, universe 3, {fatal}"));
        assert_eq!(lines(&mut mpiexec), expected, "{nodes:?}");
    }
    // Without mpiexec nobody has given it a number, and it may start processes for all cores.
    let cores = std::thread::available_parallelism().expect("cores");
    assert_eq!(lines(&mut Command::new(start)), [format!("rank 0 of 1, universe {cores}, {fatal}")]);
    // A process that a rank starts is no rank, whatever it inherits.
    let below = format!("exec {} & wait; exec {0}", start.display());
    let found = lines(program("mpiexec").args(["-n", "1", "sh", "-c", &below]));
    assert_eq!(found.iter().filter(|line| line.contains("program 0")).count(), 1, "{found:?}");
}

#[test]
fn forked_child_that_calls_mpi_gets_one_line_and_an_error() {
    let scratch = Scratch::new("mpi-forked");
    let forked = &compile("tests/mpi/programs/forked.c", scratch.path());
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        for (argument, children_with_a_line) in [("fatal", 9), ("return", 0)] {
            let mut mpiexec = program("mpiexec");
            mpiexec.args(nodes).args(["-n", "2"]).arg(forked).arg(argument);
            let ran = run(&mut mpiexec, LIMIT).expect_success();
            assert!(ran.stdout.contains("forked: all right"), "{nodes:?}: {ran}");
            let said =
                ran.stderr.lines().filter(|line| line.contains("in a process that its rank has forked"));
            assert_eq!(said.count(), children_with_a_line, "{nodes:?}, {argument}: {ran}");
        }
    }
}

/// A job of two or four ranks, started by a shell that has done `first`, fails with lines that say `why`;
/// nothing is killed by a signal. `within`: namespaces of its own.
#[track_caller]
fn start_is_refused(within: &[&str], first: &str, arguments: &[&str], why: &str) {
    let mut command = Command::new(within.first().copied().unwrap_or("sh"));
    if let [_, rest @ ..] = within {
        command.args(rest).arg("sh");
    }
    let mpiexec = program("mpiexec");
    command.args(["-c", &format!("{first} && exec \"$@\""), "sh"]).arg(mpiexec.get_program());
    let ran = run(command.args(arguments).env("TUTTI_DAEMON", "none"), LIMIT);
    assert_ne!(ran.code(), 0, "{ran}");
    // Each rank that comes so far before it is ended has its line, and the launcher one.
    let lines_max = 1 + 4;
    assert!(!ran.stderr.contains("signal") && ran.stderr.lines().count() <= lines_max, "{ran}");
    assert!(ran.stderr.contains(why), "{why:?} is not in {ran}");
}

fn can_be_had(namespace: &str, need: Need) -> bool {
    let made = Command::new("unshare").args([namespace, "true"]).stderr(std::process::Stdio::null()).status();
    let can = made.is_ok_and(|status| status.success());
    if !can {
        skip_part(need, format!("unshare {namespace} is refused"));
    }
    can
}

#[test]
fn start_without_loopback_proc_or_stack_names_the_cause() {
    let scratch = Scratch::new("mpi-start-refused");
    let start = compile("tests/mpi/programs/start.c", scratch.path());
    let start = start.to_str().expect("UTF-8");
    if can_be_had("--net", Need::NetworkNamespace) {
        let nodes = ["--virtual-nodes", "2", "-n", "2", start];
        start_is_refused(&["unshare", "--net"], "true", &nodes, "Network is unreachable");
        start_is_refused(&["unshare", "--net"], "true", &nodes, "ip link set lo up");
    }
    if can_be_had("--mount", Need::MountNamespace) {
        let hide = "mount -t tmpfs none /proc";
        start_is_refused(&["unshare", "--mount"], hide, &["-n", "2", start], "Is /proc mounted?");
    }
    start_is_refused(&[], "ulimit -s 100", &["-n", "2", start], "the stack limit (ulimit -s) is 100 KiB");
    let small = ["-n", "2", "sh", "-c", "ulimit -s 48 && exec \"$0\"", start];
    start_is_refused(&[], "true", &small, "MPI_Init: the stack limit (ulimit -s) is 48 KiB");
    let unlimited = ["-n", "4", start];
    let limited = |limit: &str, words: &[&str]| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{limit} && exec \"$@\""), "sh"])
            .arg(program("mpiexec").get_program())
            .args(words);
        run(shell.env("TUTTI_DAEMON", "none"), LIMIT)
    };
    // Four ranks leave less room for later ones, and say so where that is not enough.
    limited("ulimit -v 400000", &unlimited).expect_success();
    start_is_refused(
        &[],
        "ulimit -v 400000",
        &["--universe", "60", "-n", "4", start],
        "(ulimit -v): raise it, or",
    );
    start_is_refused(
        &[],
        "ulimit -f 100",
        &["--universe", "60", "-n", "4", start],
        "(ulimit -f): raise it, or",
    );
    let inside = ["-n", "4", "sh", "-c", "ulimit -v 100000 && exec \"$0\"", start];
    start_is_refused(&[], "true", &inside, "(ulimit -v): raise it, or leave less room");
    // A rank is one program: a second one would be alone.
    let twice = ["-n", "2", "sh", "-c", "\"$0\" && \"$0\"", start];
    let ran = run(program("mpiexec").args(twice), LIMIT);
    assert!(ran.code() != 0 && ran.stderr.contains("an earlier program of rank "), "{ran}");
    run(program("mpiexec").args(["-n", "1"]).args(&twice[2..]), LIMIT).expect_success();
    if can_be_had("--net", Need::NetworkNamespace) {
        let only_six = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo && exec \"$@\"";
        let mut shell = Command::new("unshare");
        shell.args(["--net", "sh", "-c", only_six, "sh"]).arg(program("mpiexec").get_program());
        shell.args(["--virtual-nodes", "2", "-n", "2", start]).env("TUTTI_DAEMON", "none");
        run(&mut shell, LIMIT).expect_success();
    }
    if can_be_had("--mount", Need::MountNamespace) {
        let folder = scratch.path().join("noexec");
        std::fs::create_dir(&folder).expect("a folder");
        let copied = folder.join("start");
        let (folder, copied) = (folder.display(), copied.to_str().expect("UTF-8"));
        let mount = format!("mount -t tmpfs -o noexec none {folder} && cp {start} {folder}");
        start_is_refused(&["unshare", "--mount"], &mount, &["-n", "1", copied], "is mounted noexec");
    }
    let enough = ["-n", "2", "sh", "-c", "ulimit -s 64 && exec \"$0\"", start];
    run(program("mpiexec").args(enough), LIMIT).expect_success();
}

#[test]
fn mpiexec_sets_the_initial_error_handler() {
    let scratch = Scratch::new("mpi-start-handler");
    let start = &compile("tests/mpi/programs/start.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-initial-errhandler", "mpi_errors_return", "-n", "1"]).arg(start).arg("return");
    mpiexec.args([":", "-n", "1", "-initial-errhandler", "mpi_errors_abort"]).arg(start);
    let expected = [
        "rank 0 of 2, program 0, universe 2, return return mpi_errors_return",
        "rank 1 of 2, program 1, universe 2, abort abort mpi_errors_abort",
    ];
    assert_eq!(lines(&mut mpiexec), expected);
    let ran = run(program("mpiexec").args(["-initial-errhandler", "mpi_errors", "true"]), LIMIT);
    assert_ne!(ran.code(), 0, "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    assert!(ran.stderr.contains("mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return"), "{ran}");
}

#[test]
fn users_of_the_library_in_two_threads_do_not_meet_inside() {
    let scratch = Scratch::new("mpi-two-users");
    let two_users = &compile("tests/mpi/programs/two_users.c", scratch.path());
    for what in ["sessions", "world", "tool"] {
        let ran = run(program("mpiexec").args(["-n", "2"]).arg(two_users).arg(what), LIMIT);
        let ran = ran.expect_success();
        assert_eq!(ran.stdout.matches("two users: ok\n").count(), 2, "{what}: {ran}");
    }
}
