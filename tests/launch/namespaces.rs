//! Ranks in namespaces of their own, as containers have them, beside ranks that are not: data are right, or
//! refused in one line. Pids are names in a namespace, and a rank is never taken for another process.

use std::path::Path;
use std::process::{Command, Stdio};

use tutti_testkit::{Need, skip_part};
use tutti_tests::{Ran, Scratch, compile, compile_with, program};

use crate::harness::run;

/// Namespaces that a container for each rank may have of its own.
const NAMESPACES: [&[&str]; 3] = [
    &["unshare", "-U", "-r", "-p", "-f", "--mount-proc"],
    &["unshare", "-p", "-f"],
    &["unshare", "-U", "-r"],
];

/// Whether they can be made here.
fn can_be_made(namespaces: &[&str]) -> bool {
    let made = Command::new(namespaces[0]).args(&namespaces[1..]).arg("true").stderr(Stdio::null()).status();
    let can = made.is_ok_and(|status| status.success());
    if !can {
        skip_part(Need::MountNamespace, format!("{} is refused", namespaces.join(" ")));
    }
    can
}

/// Runs the program on three ranks: some in namespaces of their own, the others not.
fn beside_each_other(own: [bool; 3], namespaces: &[&str], path: &Path, arguments: &[&str]) -> Ran {
    let mut mpiexec = program("mpiexec");
    for (index, own) in own.iter().enumerate() {
        if index > 0 {
            mpiexec.arg(":");
        }
        mpiexec.args(["-n", "1"]);
        if *own {
            mpiexec.args(namespaces);
        }
        mpiexec.arg(path).args(arguments);
    }
    run(&mut mpiexec)
}

#[test]
fn pid_namespace_of_a_rank_makes_no_wrong_byte() {
    let scratch = Scratch::new("launch-namespaces");
    let every_way = compile("tests/launch/programs/every_way.c", scratch.path());
    let shmem = compile_with("oshcc", "tests/launch/programs/every_way_shmem.c", scratch.path());
    let file = scratch.path().join("file");
    let file = file.to_str().expect("a path of ours");
    for namespaces in NAMESPACES.into_iter().filter(|namespaces| can_be_made(namespaces)) {
        for own in [[true, true, true], [true, false, true], [false, true, false]] {
            let ran = beside_each_other(own, namespaces, &every_way, &[file]).expect_success();
            for way in ["messages", "collectives", "allocated window", "files"] {
                let right = ran.stdout.lines().filter(|line| line.ends_with(&format!(": {way} right")));
                assert_eq!(right.count(), 3, "{own:?}, {namespaces:?}: {ran}");
            }
            assert!(!ran.stdout.contains("WRONG"), "{own:?}, {namespaces:?}: {ran}");
            let ran = beside_each_other(own, namespaces, &shmem, &[]).expect_success();
            assert_eq!(ran.stdout.matches("right").count(), 6, "{own:?}, {namespaces:?}: {ran}");
        }
    }
}

#[test]
fn regions_of_ranks_in_namespaces_are_right_or_refused() {
    let scratch = Scratch::new("launch-namespaces-regions");
    let regions = compile("tests/launch/programs/every_way_regions.c", scratch.path());
    let prefix = format!("every-way-{}", std::process::id());
    for namespaces in NAMESPACES.into_iter().filter(|namespaces| can_be_made(namespaces)) {
        for own in [[true, true, true], [true, false, true], [false, true, false]] {
            let ran = beside_each_other(own, namespaces, &regions, &[&prefix]).expect_success();
            for way in ["regions right", "queues right"] {
                let right = ran.stdout.lines().filter(|line| line.ends_with(way));
                assert_eq!(right.count(), 3, "{own:?}, {namespaces:?}: {ran}");
            }
            let published = ran.stdout.lines().filter(|line| line.contains(": published "));
            assert_eq!(published.count(), 3, "{own:?}, {namespaces:?}: {ran}");
        }
    }
}

#[test]
fn static_variables_that_no_pid_reaches_are_refused_in_one_line() {
    let scratch = Scratch::new("launch-namespaces-statics");
    // Not linked with oshcc: its static variables are reached through the kernel.
    let private = compile("tests/launch/programs/every_way_shmem.c", scratch.path());
    for namespaces in NAMESPACES.into_iter().filter(|namespaces| can_be_made(namespaces)) {
        let ran = beside_each_other([true, true, true], namespaces, &private, &[]);
        assert!(!ran.stdout.contains("static variables WRONG"), "{namespaces:?}: {ran}");
        assert_eq!(ran.stdout.matches("heap right").count(), 3, "{namespaces:?}: {ran}");
        assert!(ran.code() != 0, "{namespaces:?}: {ran}");
        assert!(ran.stderr.contains("link the program with oshcc"), "{namespaces:?}: {ran}");
    }
}
