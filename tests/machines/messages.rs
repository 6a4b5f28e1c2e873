//! MPI between machines.

use tutti_testkit::lab::{Lab, Terms};
use tutti_tests::CONFORMANCE;
use tutti_tests::machines::{Case, Machines};

/// A program of `tests/mpi/programs`.
const fn mpi<'a>(source: &'a str, ranks: &'a [u32], says: &'a str) -> Case<'a> {
    Case { wrapper: "mpicc", source, ranks, arguments: &[], says }
}

/// All conformance programs.
#[track_caller]
fn conformance(machines: &Machines, ranks: &[u32]) {
    for name in CONFORMANCE.iter().chain(&["cancelled_sends", "request_errors", "reductions_beyond"]) {
        let source = format!("tests/mpi/programs/{name}.c");
        machines.pass(&[mpi(&source, ranks, &format!("{name}: ok\n"))]);
    }
}

#[test]
fn machines_conformance_programs_of_mpi_pass_on_three() {
    let Some(machines) = Machines::up("mpi", 3, &[]) else { return };
    conformance(&machines, &[3]);
}

/// Messages, communicators and collective operations, with seeds.
const LONGER: [Case<'_>; 9] = [
    Case {
        arguments: &["%", "8"],
        ..mpi("tests/point_to_point/programs/random.c", &[4], "8 rounds of 60 messages")
    },
    mpi("tests/point_to_point/programs/modes.c", &[3], "checks"),
    mpi("tests/point_to_point/programs/threads.c", &[2], "threads: all right"),
    mpi("tests/point_to_point/programs/probing_threads.c", &[2], "probing threads: all right"),
    Case {
        arguments: &["%", "25"],
        ..mpi("tests/collectives/c/collectives.c", &[4], "collectives: all right")
    },
    mpi("tests/collectives/c/neighbours.c", &[4, 6], "neighbours: all right"),
    mpi("tests/collectives/c/wrong_arguments.c", &[3], "wrong arguments: all right"),
    mpi("tests/collectives/c/started_beside.c", &[3], "started beside waiting: all right"),
    Case { arguments: &["%", "200"], ..mpi("tests/collectives/c/lifetimes.c", &[4], "lifetimes: all right") },
];

#[test]
fn machines_messages_and_collectives_are_right_on_three() {
    let Some(machines) = Machines::up("messages", 3, &[]) else { return };
    machines.pass(&LONGER);
    let names = machines.compile("mpicc", "tests/mpi/programs/processor_names.c");
    let ran = tutti_tests::run(machines.launch(3, 5).arg(names), tutti_tests::LIMIT).expect_success();
    assert!(ran.stdout.contains("3 names\n") && ran.stdout.contains("processor_names: ok\n"), "{ran}");
}

#[test]
fn machines_files_on_a_shared_home_are_right_on_three() {
    let Some(machines) = Machines::up("files", 3, &[]) else { return };
    let (file, outside) = machines.file("data");
    let file = file.to_str().expect("text");
    for name in ["views", "kinds", "datareps", "late", "wrong"] {
        let (source, says) = (format!("tests/files/programs/{name}.c"), format!("{name} are right\n"));
        machines.pass(&[Case { arguments: &[file], ..mpi(&source, &[3, 4], &says) }]);
        assert!(name == "wrong" || !outside.exists(), "{name} leaves its file behind");
    }
}

/// Each cable loses, doubles and reorders.
fn bad_cables() -> Terms {
    Terms::default().loss(1.0).duplication(0.5).reordering(2.0).seed(tutti_testkit::seed())
}

#[test]
fn machines_messages_arrive_once_in_order_over_cables_that_lose_them() {
    let plan = Lab::plan(3).cables(bad_cables());
    let Some(machines) = Machines::up_by("loss", &plan, &["--lost-after", "20"]) else { return };
    machines.pass(&[
        Case {
            arguments: &["%", "4"],
            ..mpi("tests/point_to_point/programs/random.c", &[3], "4 rounds of 60")
        },
        Case {
            arguments: &["%", "6"],
            ..mpi("tests/collectives/c/collectives.c", &[3], "collectives: all right")
        },
    ]);
    let frames = machines.lab.node(1).frames().expect("a lab").expect("counted");
    assert!(frames.iter().all(|counts| counts.lost > 0), "{frames:?}");
}

#[test]
fn machines_invocations_are_right_over_cables_that_lose_them() {
    let plan = Lab::plan(3).cables(bad_cables());
    let Some(machines) = Machines::up_by("invocations", &plan, &["--lost-after", "20"]) else { return };
    machines.pass(&[mpi("tests/cxx/programs/calls.c", &[2, 4], "calls: ok")]);
    if tutti_testkit::has_command_for_part(tutti_testkit::Need::Cxx, "c++") {
        let ours = [
            mpi("tests/cxx/programs/values.cpp", &[2, 4, 8], "values: ok"),
            mpi("tests/cxx/programs/tasks.cpp", &[2, 4], "tasks: ok"),
            mpi("tests/cxx/programs/memory.cpp", &[2, 4, 8], "memory: ok"),
        ];
        machines.pass(&ours.map(|case| Case { wrapper: "tutticxx", ..case }));
    }
    let frames = machines.lab.node(1).frames().expect("a lab").expect("counted");
    assert!(frames.iter().all(|counts| counts.lost > 0), "{frames:?}");
}

/// All of it, on several numbers of ranks.
#[track_caller]
fn all(name: &str, terms: Terms) {
    let plan = Lab::plan(3).cables(terms);
    let Some(machines) = Machines::up_by(name, &plan, &["--lost-after", "20"]) else { return };
    conformance(&machines, &[2, 3, 4, 6]);
    machines.pass(&LONGER);
}

#[test]
#[ignore = "minutes: make test-lab"]
fn machines_conformance_programs_of_mpi_pass_on_several_numbers_of_ranks() {
    all("mpi-all", Terms::default());
}

#[test]
#[ignore = "minutes: make test-lab"]
fn machines_conformance_programs_of_mpi_pass_over_cables_with_large_frames() {
    all("mpi-large", Terms::default().mtu(9000));
}

#[test]
#[ignore = "minutes: make test-lab"]
fn machines_conformance_programs_of_mpi_pass_over_cables_that_lose_frames() {
    all("mpi-loss", bad_cables());
}

#[test]
#[ignore = "minutes: make test-lab"]
fn machines_conformance_programs_of_mpi_pass_over_cables_that_delay_frames() {
    all("mpi-delay", Terms::default().delay_us(200));
}
