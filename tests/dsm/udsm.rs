//! Programs whose loads are checked too (`tutticc --dsm=udsm`): stores to pages that are not here bring none.

use std::path::{Path, PathBuf};

use tutti_tests::{Scratch, has_plugin, program, root, run};

use super::rcop::{arguments_for, compile, counted, sum};
use super::{LIMIT, PROGRAMS, digest, launch};

/// All and none of the optimisations of the compiler.
const SWITCHES: [&str; 3] = ["--rcop=all", "--rcop=no-ia", "--rcop=none"];

#[track_caller]
fn digest_of(compiled: &Path, ranks: u32, nodes: u32, arguments: &[&str]) -> String {
    let arguments = arguments_for(arguments, ranks);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    digest(launch(compiled, ranks, nodes, &arguments))
}

// Paper: C20
#[test]
fn udsm_programs_give_the_sequential_result() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("udsm");
    for (source, arguments) in PROGRAMS {
        let twin = compile(source, &["--dsm=twin"], scratch.path());
        let alone = digest_of(&twin, 1, 1, arguments);
        for options in SWITCHES {
            let compiled = compile(source, &["--dsm=udsm", options], scratch.path());
            for (ranks, nodes) in [(1, 1), (2, 2), (4, 4), (4, 2)] {
                let found = digest_of(&compiled, ranks, nodes, arguments);
                assert_eq!(found, alone, "{source} {options} on {ranks} ranks of {nodes} nodes");
            }
        }
    }
}

// Paper: C20
#[test]
fn udsm_stores_of_radix_bring_no_pages_and_no_faults() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("udsm-radix");
    let arguments = ["-n262144", "-r1024", "-p8"];
    let [adsm, udsm] = ["--dsm=adsm", "--dsm=udsm"].map(|mode| {
        let compiled = compile("examples/shared/radix.c.in", &[mode], scratch.path());
        let (ran, counts) = counted(&compiled, 8, &arguments);
        let part = |name: &str| counts.iter().filter_map(|rank| rank["parallel"][name].as_u64()).sum::<u64>();
        (digest(ran), ["bytes", "absent_stores", "signals", "fetched_units", "unnoted_stores"].map(part))
    });
    assert_eq!(adsm.0, udsm.0);
    let ([bytes, absent, signals, ..], [fewer_bytes, absent_stores, fewer_signals, .., unnoted]) =
        (adsm.1, udsm.1);
    println!("adsm {:?}, udsm {:?}", adsm.1, udsm.1);
    assert_eq!((absent, unnoted), (0, 0));
    assert!(absent_stores > 0 && 2 * fewer_bytes < bytes, "{fewer_bytes} bytes, {bytes} of adsm");
    assert!(fewer_signals * 10 < signals, "{fewer_signals} faults, {signals} of adsm");
}

/// Code that checks nothing and is given what has been stored to absent pages: the permission of pages is the
/// net.
#[test]
fn udsm_loads_of_other_code_find_what_is_there() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("udsm-net");
    let library = scratch.path().join("libreaders.so");
    let mut command = std::process::Command::new("cc");
    command.args(["-O2", "-fPIC", "-shared"]).arg(root().join("tests/dsm/programs/udsm_readers.c"));
    run(command.arg("-o").arg(&library), LIMIT).expect_success();
    let compiled = scratch.path().join("udsm");
    let mut command = program("tutticc");
    command.args(["--dsm=udsm", "-O2", "-Wall", "-Wextra", "-Werror"]);
    command.arg(root().join("tests/dsm/programs/udsm.c")).arg(&library);
    command.arg(format!("-Wl,-rpath,{}", scratch.path().display())).arg("-o").arg(&compiled);
    run(&mut command, LIMIT).expect_success();
    let (ran, counts) = counted(&compiled, 2, &[]);
    assert_eq!(ran.stdout, "udsm: 2 processes, 0 wrong\n", "{ran}");
    assert!(sum(&counts, "absent_stores") > 0, "{counts:?}");
}

fn object(source: &str, mode: &str, scratch: &Scratch) -> PathBuf {
    let object =
        scratch.path().join(format!("{}.o", Path::new(source).file_stem().expect("a name").display()));
    let mut command = program("tutticc");
    command.args([mode, "-O2", "-c"]).arg(root().join(source)).arg("-o").arg(&object);
    run(&mut command, LIMIT).expect_success();
    object
}

#[test]
fn udsm_with_objects_of_another_mode_warns_and_runs_as_that() {
    if !has_plugin() {
        return;
    }
    let scratch = Scratch::new("udsm-mixture");
    let other = "tests/dsm/programs/foreign_stores.c";
    let main = "tests/dsm/programs/foreign.c";
    let adsm =
        "1 of 2 objects of the program check their loads: stores bring pages as without checks (--dsm=adsm)";
    let twin =
        "1 objects of the program make notes of their stores, others do not: pages are compared (--dsm=twin)";
    for (mode, expected) in [("--dsm=udsm", None), ("--dsm=adsm", Some(adsm)), ("--dsm=twin", Some(twin))] {
        let objects = [object(main, "--dsm=udsm", &scratch), object(other, mode, &scratch)];
        let compiled = scratch.path().join("mixture");
        let mut command = program("tutticc");
        run(command.args(&objects).arg("-o").arg(&compiled), LIMIT).expect_success();
        let ran = launch(&compiled, 2, 2, &[]).expect_success();
        assert_eq!(ran.stdout, "foreign: 2 processes, 0 wrong\n", "{ran}");
        let said: Vec<_> =
            ran.stderr.lines().filter(|line| line.contains("objects of the program")).collect();
        assert_eq!(said.len(), usize::from(expected.is_some()), "{mode}: {ran}");
        assert!(expected.is_none_or(|expected| said[0].contains(expected)), "{mode}: {ran}");
    }
}
