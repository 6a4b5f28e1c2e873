//! Programs that another version of `tutticc` has linked: older ones run, newer ones are refused in one line.

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_tests::{Scratch, has_plugin, program, root, run};

use super::rcop::{counted, sum};
use super::{LIMIT, digest, launch};

/// Links an object with another start object than that of today.
#[track_caller]
fn link(object: &Path, start: &str, folder: &Path) -> PathBuf {
    let started = folder.join(format!("start-{start}.o"));
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-c"]).arg(format!("-DSTART={start}"));
    command.arg(root().join("tests/dsm/programs/start.c")).arg("-o").arg(&started);
    run(&mut command, LIMIT).expect_success();
    let shown = run(program("tutticc").arg("-showme:link"), LIMIT).expect_success().stdout;
    let flags = shown.split_whitespace().filter(|word| !word.ends_with(".o"));
    let linked = folder.join(format!("program-{start}"));
    let mut command = Command::new("cc");
    run(command.arg(object).arg(&started).args(flags).arg("-o").arg(&linked), LIMIT).expect_success();
    linked
}

fn object(mode: &str, scratch: &Scratch) -> PathBuf {
    let object = scratch.path().join(format!("sor{mode}.o"));
    let mut command = program("tutticc");
    command.args([mode, "-O2", "-c"]).arg(root().join("examples/shared/sor.c")).arg("-o").arg(&object);
    run(&mut command, LIMIT).expect_success();
    object
}

#[test]
fn dsm_programs_of_an_older_tutticc_run_as_they_did() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("dsm-older");
    let arguments = ["100", "6", "2"];
    let mut expected = None;
    // Start object, mode of the program's object, whether its stores are noted.
    for (start, mode, are_noted) in [
        ("FIRST", "--dsm=twin", false),
        ("NOTED", "--dsm=adsm", true),
        ("CHECKED", "--dsm=adsm", true),
        ("CHECKED", "--dsm=udsm", true),
        ("SIZED", "--dsm=udsm", true),
    ] {
        let compiled = link(&object(mode, &scratch), start, scratch.path());
        let (ran, counts) = counted(&compiled, 2, &arguments);
        let found = digest(ran);
        assert_eq!(*expected.get_or_insert_with(|| found.clone()), found, "{start} {mode}");
        assert_eq!(sum(&counts, "noted_stores") > 0, are_noted, "{start} {mode}: {counts:?}");
    }
}

#[test]
fn dsm_programs_of_a_newer_tutticc_are_refused_in_one_line() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("dsm-newer");
    let object = object("--dsm=udsm", &scratch);
    for (start, expected) in [
        ("LONGER", "its record of notes has 48 bytes, this libtutti knows 40"),
        ("MODE", "its mode is 9, this libtutti knows 1 to 2"),
    ] {
        let compiled = link(&object, start, scratch.path());
        for nodes in [1, 2] {
            let ran = launch(&compiled, 2, nodes, &["100", "6", "2"]);
            assert!(!ran.status.success() && ran.stdout.is_empty(), "{ran}");
            let lines: Vec<_> = ran.stderr.lines().filter(|line| line.contains(expected)).collect();
            assert_eq!(lines.len(), 1, "{start} on {nodes} nodes: {ran}");
        }
    }
}
