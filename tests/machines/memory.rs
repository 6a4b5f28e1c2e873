//! Memory of other machines: windows, OpenSHMEM, DSE, regions of the native interface.

use tutti_testkit::lab::{Lab, Terms};
use tutti_tests::machines::{Case, Machines};

const fn c<'a>(source: &'a str, ranks: &'a [u32], arguments: &'a [&'a str], says: &'a str) -> Case<'a> {
    Case { wrapper: "mpicc", source, ranks, arguments, says }
}

const WINDOWS: [Case<'_>; 5] = [
    c("tests/windows/c/operations.c", &[3, 4], &["%", "1"], "operations: all right"),
    c("tests/windows/c/long.c", &[3], &["%", "2"], "long: all right"),
    c("tests/windows/c/unlock.c", &[3], &[], "unlock: all right"),
    c("tests/windows/c/progress.c", &[2], &["200"], "progress: all right"),
    c("tests/windows/c/wrong.c", &[2], &[], "wrong: all right"),
];

#[test]
fn machines_window_operations_are_right_on_three() {
    let Some(machines) = Machines::up("windows", 3, &[]) else { return };
    machines.pass(&WINDOWS);
}

/// All programs of OpenSHMEM's conformance, on these numbers of PEs.
#[track_caller]
fn shmem(machines: &Machines, pes: &[u32]) {
    let names = [
        "rma",
        "atomics",
        "heap",
        "waits",
        "sleepers",
        "signals",
        "collectives",
        "teams",
        "active_sets",
        "locks",
        "statics",
        "computes",
        "generics",
    ];
    for name in names {
        let (source, says) = (format!("tests/shmem/programs/{name}.c"), format!("{name}: ok\n"));
        for pes in if name == "computes" { &[2] } else { pes } {
            // As many on each, which the programs rely on.
            let nodes = machines.lab.nodes().min(*pes).to_string();
            let case =
                Case { wrapper: "oshcc", source: &source, ranks: &[*pes], arguments: &[], says: &says };
            machines.pass_with(&case, &[("TEST_NODES", &nodes)]);
        }
    }
}

#[test]
fn machines_conformance_programs_of_openshmem_pass_on_three() {
    let Some(machines) = Machines::up("shmem", 3, &[]) else { return };
    shmem(&machines, &[3]);
}

const NATIVE: [Case<'_>; 4] = [
    c("tests/native/programs/region_operations.c", &[3], &[], "regions: ok\n"),
    c("tests/native/programs/closing.c", &[3], &[], "closing: ok\n"),
    c("tests/native/programs/signals.c", &[3], &[], "signals: ok\n"),
    c("tests/native/programs/multicast.c", &[3], &[], "multicast: ok\n"),
];

#[test]
fn machines_regions_signals_and_multicast_of_the_native_interface_are_right_on_three() {
    let Some(machines) = Machines::up("native", 3, &[]) else { return };
    machines.pass(&NATIVE);
}

#[track_caller]
fn dse(machines: &Machines, ranks: &[u32]) {
    for kernel in ["one", "apart"] {
        for case in [
            c("tests/dse/programs/elements.c", ranks, &[], "elements: ok\n"),
            c("tests/dse/programs/routes.c", ranks, &[], "routes: ok\n"),
            c("examples/sor.c", ranks, &["48", "20"], "verified\n"),
        ] {
            machines.pass_with(&case, &[("TUTTI_DSE_KERNEL", kernel)]);
        }
    }
}

#[test]
fn machines_dse_elements_keep_their_promises_on_three() {
    let Some(machines) = Machines::up("dse", 3, &[]) else { return };
    dse(&machines, &[3]);
}

/// All of it, on several numbers of ranks.
#[track_caller]
fn all(name: &str, terms: Terms) {
    let plan = Lab::plan(3).cables(terms);
    let Some(machines) = Machines::up_by(name, &plan, &["--lost-after", "20"]) else { return };
    machines.pass(&WINDOWS);
    machines.pass(&NATIVE);
    shmem(&machines, &[2, 3, 6]);
    dse(&machines, &[2, 4, 6]);
}

#[test]
#[ignore = "minutes: make test-lab"]
fn machines_memory_programs_pass_on_several_numbers_of_ranks() {
    all("memory-all", Terms::default());
}

#[test]
#[ignore = "minutes: make test-lab"]
fn machines_memory_programs_pass_over_cables_with_large_frames() {
    all("memory-large", Terms::default().mtu(9000));
}

#[test]
#[ignore = "minutes: make test-lab"]
fn machines_memory_programs_pass_over_cables_that_lose_frames() {
    let seed = tutti_testkit::seed();
    let terms = Terms::default().loss(1.0).duplication(0.5).reordering(2.0).seed(seed);
    let plan = Lab::plan(3).cables(terms);
    let Some(machines) = Machines::up_by("memory-loss", &plan, &["--lost-after", "20"]) else { return };
    // Without those that move a gigabyte.
    let is_short =
        |case: &&Case<'_>| !case.source.ends_with("unlock.c") && !case.source.ends_with("closing.c");
    for case in WINDOWS.iter().chain(&NATIVE).filter(is_short) {
        machines.pass(&[*case]);
    }
    shmem(&machines, &[2, 3]);
    dse(&machines, &[3]);
}
