//! Requests of Open MPI's programs to the PMIx server while they run: new processes, ports and names, groups
//! of sessions, keys of others; on one node and on several.

use tutti_tests::machines::Machines;
use tutti_tests::{Scratch, program};

use crate::harness::{LIMIT, run};
use crate::mpich::rounds;
use crate::open_mpi::{compiled_from, compiled_without_mpi, libpmix, mpiexec, own_lines};

#[test]
fn open_mpi_program_starts_processes() {
    let scratch = Scratch::new("open-mpi-spawn");
    let Some(file) = compiled_from(&scratch, "spawn") else { return };
    for ranks in [1, 2] {
        let ran = mpiexec(&["-n", &ranks.to_string()], &file, &[]).expect_success();
        assert_eq!((ran.stdout.as_str(), own_lines(&ran)), (&*rounds(ranks + 2), vec![]), "{ran}");
    }
    let ran = mpiexec(&["-n", "1"], &file, &["missing"]).expect_success();
    assert_eq!(ran.stdout, "refused\n", "{ran}");
    assert!(matches!(&own_lines(&ran)[..], [one] if one.contains("no-such-program")), "{ran}");
    let ran = mpiexec(&["-n", "1", "--universe", "2"], &file, &[]);
    assert!(ran.code() != 0 && ran.stderr.contains("room for 2"), "{ran}");
}

/// The numbers of children that are over are those of the next ones: there is room for one round alone.
#[test]
fn open_mpi_program_starts_processes_more_often_than_there_is_room() {
    let scratch = Scratch::new("open-mpi-often");
    let Some(file) = compiled_from(&scratch, "spawn") else { return };
    let ran = mpiexec(&["-n", "1", "--universe", "5"], &file, &["often", "5"]).expect_success();
    assert_eq!(ran.stdout, "sum 20\n", "{ran}");
}

#[test]
fn open_mpi_program_starts_processes_on_several_nodes() {
    let scratch = Scratch::new("open-mpi-spawn-nodes");
    let Some(file) = compiled_from(&scratch, "spawn") else { return };
    for nodes in ["2", "3"] {
        let ran = mpiexec(&["-n", nodes, "--virtual-nodes", nodes, "--universe", "8"], &file, &[]);
        let sum = nodes.parse::<u32>().expect("a number") + 2;
        assert_eq!(ran.expect_success().stdout, rounds(sum));
    }
    let ran = mpiexec(&["-n", "2", "--virtual-nodes", "2", "--universe", "6"], &file, &["missing"]);
    assert_eq!((ran.code(), &*ran.stdout), (0, "refused\n"), "{ran}");
    assert!(matches!(&own_lines(&ran)[..], [one] if one.contains("no-such-program")), "{ran}");
}

#[test]
fn open_mpi_programs_meet_by_names_and_groups() {
    let scratch = Scratch::new("open-mpi-names");
    let Some(file) = compiled_from(&scratch, "names") else { return };
    for words in [&["-n", "2"][..], &["-n", "5", "--virtual-nodes", "3"]] {
        let ran = mpiexec(words, &file, &[]).expect_success();
        assert_eq!(ran.stdout, "names and groups: all right\n", "{ran}");
    }
}

#[test]
fn open_mpi_ranks_get_keys_of_others_or_wait_as_long_as_they_want() {
    let scratch = Scratch::new("open-mpi-keys");
    let Some(libpmix) = libpmix() else { return };
    let keys = compiled_without_mpi(&scratch, "keys");
    for words in
        [&["-n", "3"][..], &["-n", "3", "--virtual-nodes", "3"], &["-n", "5", "--virtual-nodes", "2"]]
    {
        let mut command = program("mpiexec");
        let late = (words == ["-n", "3", "--virtual-nodes", "3"]).then_some("late");
        let ran = run(command.env("TUTTI_LIBPMIX", &libpmix).args(words).arg(&keys).arg(&libpmix).args(late));
        let ran = ran.expect_success();
        let right = ran.stdout.lines().filter(|line| line.ends_with(": all right")).count();
        assert_eq!(right.to_string(), words[1], "{ran}");
    }
}

/// Numbers of nodes and processes that PMIx counts over all namespaces of a session go on where processes
/// are started: each is that of one node, or of one process.
#[test]
fn open_mpi_started_ranks_are_counted_among_all_of_the_job() {
    let scratch = Scratch::new("open-mpi-places");
    let Some(libpmix) = libpmix() else { return };
    let places = compiled_without_mpi(&scratch, "places");
    let words = ["-n", "3", "--virtual-nodes", "3", "--universe", "12"];
    let mut command = program("mpiexec");
    let ran = run(command.env("TUTTI_LIBPMIX", &libpmix).args(words).arg(&places).arg(&libpmix));
    let ran = ran.expect_success();
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    let expected = [
        "node 0, global 0 of 0, on the node 0 of 1",
        "node 1, global 1 of 0, on the node 0 of 1",
        "node 2, global 2 of 0, on the node 0 of 1",
        "node 2, global 3 of 3, on the node 1 of 3",
        "node 2, global 4 of 3, on the node 2 of 3",
        "node 2, global 5 of 5, on the node 3 of 4",
    ];
    assert_eq!(lines, expected, "{ran}");
}

#[test]
fn open_mpi_program_starts_processes_and_meets_others_on_machines() {
    let scratch = Scratch::new("open-mpi-machines");
    let (Some(spawn), Some(names)) = (compiled_from(&scratch, "spawn"), compiled_from(&scratch, "names"))
    else {
        return;
    };
    let Some(machines) = Machines::up("open-mpi", 2, &[]) else { return };
    crate::packages::install(&machines);
    let job = |ranks, file| {
        let mut command = machines.launch(2, ranks);
        tutti_tests::run(command.args(["--universe", "8"]).arg(file), LIMIT).expect_success()
    };
    assert_eq!(job(2, &spawn).stdout, rounds(4));
    assert_eq!(job(4, &names).stdout, "names and groups: all right\n");
}
