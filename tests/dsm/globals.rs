//! Variables of C as shared memory (`tutticc --globals=shared`).

use std::path::{Path, PathBuf};

use tutti_tests::{Scratch, program, run};

use super::LIMIT;

const SOURCE: &str = "tests/dsm/programs/globals.c";

/// The program, compiled with more options.
fn compile_shared(name: &str, options: &[&str], scratch: &Scratch) -> PathBuf {
    let compiled = scratch.path().join(name);
    let mut command = program("tutticc");
    command
        .args(["--globals=shared", "-std=gnu11", "-g", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(options);
    command.arg(tutti_tests::root().join(SOURCE)).arg("-o").arg(&compiled);
    run(&mut command, LIMIT).expect_success();
    compiled
}

/// The program on so many ranks and nodes, in an environment.
#[track_caller]
fn result_is_right(compiled: &Path, ranks: u32, nodes: u32, environment: &[(&str, &str)]) {
    result_is_right_with(compiled, ranks, nodes, environment, &[]);
}

/// The same with more arguments.
#[track_caller]
fn result_is_right_with(
    compiled: &Path,
    ranks: u32,
    nodes: u32,
    environment: &[(&str, &str)],
    more: &[String],
) {
    let mut command = program("mpiexec");
    command.envs(environment.iter().copied());
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]).arg(compiled);
    let ran = run(command.arg(ranks.to_string()).args(more), LIMIT).expect_success();
    let counter = 6 + 20 * ranks;
    assert_eq!(ran.stdout, format!("globals: counter {counter}, 0 failures\n"), "{ranks} on {nodes}: {ran}");
    assert!(!ran.stderr.contains("has changed variables"), "{ran}");
}

#[test]
fn dsm_variables_of_c_are_shared_where_the_program_is_linked_so() {
    let scratch = Scratch::new("dsm-globals");
    for (name, options) in
        [("any", &[][..]), ("twin", &["--dsm=twin"]), ("gcc", &["-cc=gcc", "--dsm=twin", "-fcommon"])]
    {
        let compiled = compile_shared(name, options, &scratch);
        for (ranks, nodes) in [(1, 1), (3, 1), (2, 2), (4, 4), (4, 2)] {
            result_is_right(&compiled, ranks, nodes, &[]);
        }
        result_is_right(&compiled, 4, 2, &[("TUTTI_DSM_BACKEND", "mprotect")]);
        result_is_right(&compiled, 2, 2, &[("TUTTI_DSM_CHECK", "1")]);
        result_is_right(&compiled, 3, 3, &[("TUTTI_DSM_COPIES", "64K")]);
        result_is_right(&compiled, 4, 2, &[("TUTTI_DSM_UPDATE", "all")]);
        result_is_right(&compiled, 3, 3, &[("TUTTI_DSM_UPDATE", "all"), ("TUTTI_DSM_CHECK", "1")]);
    }
}

#[test]
fn dsm_shared_variables_are_right_though_datagrams_are_lost() {
    let scratch = Scratch::new("dsm-globals-lost");
    let compiled = compile_shared("lost", &[], &scratch);
    let library = tutti_tests::testing_library();
    let library = library.to_str().expect("a path in UTF-8");
    result_is_right(&compiled, 4, 2, &[("LD_PRELOAD", library), ("TUTTI_FAULTS", "loss=1%,dup=1%")]);
}

/// The program in a checked job, which does something without a lock; on as many nodes as ranks.
fn run_wrong(ranks: &str, wrong: &str) -> tutti_tests::Ran {
    let scratch = Scratch::new(&format!("dsm-globals-{wrong}"));
    let compiled = compile_shared(wrong, &[], &scratch);
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_CHECK", "1").args(["-n", ranks, "--virtual-nodes", ranks]).arg(compiled);
    run(command.args([ranks, wrong]).arg(scratch.path().join("stored")), LIMIT)
}

/// The start object has room for 64 KiB of them.
#[test]
fn dsm_arguments_that_shared_variables_lead_to_have_one_address_however_long_they_are() {
    let scratch = Scratch::new("dsm-globals-arguments");
    let compiled = compile_shared("arguments", &["--dsm=twin"], &scratch);
    let long = ["".to_owned(), "none".to_owned(), "a".repeat(40_000), "b".repeat(50_000)];
    for nodes in [1, 2] {
        result_is_right_with(&compiled, 2, nodes, &[], &long);
    }
}

/// A table of functions of the C library that a program may store to.
#[test]
fn dsm_shared_variables_that_hold_addresses_of_libraries_are_named() {
    let scratch = Scratch::new("dsm-globals-foreign");
    let source = scratch.path().join("foreign.c");
    let text = "#include <stdio.h>\n#include <tutti/parmacs.h>\nMAIN_ENV\n\
        static int (*volatile printer)(const char *) = puts;\n\
        static int (*const kept)(const char *) = puts;\nstatic long (*own)(void);\nstatic long value = 3;\n\
        static long get(void) { return value; }\nstatic long (*getter)(void) = get;\n\
        static void run(void) {}\n\
        int main(void) {\n    own = getter;\n    CREATE(run, 2)\n    WAIT_FOR_END(2)\n    \
        if (own() == 3)\n        kept(\"foreign: 3\");\n    if (printer == NULL)\n        return 1;\n    MAIN_END\n}\n";
    std::fs::write(&source, text).expect("a file");
    let compiled = scratch.path().join("foreign");
    let mut command = program("tutticc");
    command.args(["--globals=shared", "--dsm=twin", "-O1"]).arg(&source).arg("-o").arg(&compiled);
    run(&mut command, LIMIT).expect_success();
    for nodes in [1, 2] {
        let ran = super::launch(&compiled, 2, nodes, &[]).expect_success();
        assert_eq!(ran.stdout, "foreign: 3\n", "{ran}");
        let expected =
            "hold addresses of shared libraries, which are right in rank 0 alone: printer (puts); ";
        assert_eq!(ran.stderr.matches(expected).count(), 1, "{ran}");
    }
}

#[test]
fn dsm_check_finds_races_on_shared_variables() {
    for wrong in ["race", "late"] {
        let ran = run_wrong("2", wrong);
        assert!(
            !ran.status.success() && ran.stderr.matches("data race: rank ").count() == 1,
            "{wrong}: {ran}"
        );
        assert!(ran.stderr.contains("globals.c:"), "{wrong}: {ran}");
    }
}

#[test]
fn dsm_check_names_stores_of_the_same_value_and_goes_on() {
    let ran = run_wrong("3", "same").expect_success();
    assert_eq!(ran.stdout, "globals: counter 66, 0 failures\n", "{ran}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let [line] = lines[..] else { panic!("one line: {ran}") };
    assert!(line.contains("store the same value to byte") && line.contains("globals.c:"), "{ran}");
}

/// One that takes the script and does nothing with it would leave them private without a word.
#[test]
fn dsm_variables_are_not_private_where_the_linker_leaves_its_script_out() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("dsm-globals-linker");
    let linker = scratch.path().join("ld");
    // A compiler that was given a file of arguments gives one to the linker.
    let text = "#!/bin/bash\nall=() words=()\nfor word do\n\
        case $word in @*) mapfile -t -O ${#all[@]} all < <(xargs -n 1 printf '%s\\n' <\"${word#@}\") ;;\n\
        *) all+=(\"$word\") ;; esac\ndone\nset -- \"${all[@]}\"\nwhile [ $# -gt 0 ]; do\n\
        case $1 in -T) shift ;; *) words+=(\"$1\") ;; esac\nshift\ndone\nexec ld.bfd \"${words[@]}\"\n";
    std::fs::write(&linker, text).expect("a file");
    std::fs::set_permissions(&linker, std::fs::Permissions::from_mode(0o755)).expect("an owner");
    let compile = |globals: &str| {
        let mut command = program("tutticc");
        command.arg(globals).args(["-cc=gcc", "--dsm=twin", "-B"]).arg(scratch.path());
        command.arg(tutti_tests::root().join(SOURCE)).arg("-o").arg(scratch.path().join("program"));
        run(&mut command, LIMIT)
    };
    compile("--globals=private").expect_success();
    let ran = compile("--globals=shared");
    assert!(!ran.status.success() && ran.stderr.contains("tutti_dsm_globals_begin"), "{ran}");
}

#[test]
fn dsm_variables_are_not_shared_where_they_have_other_addresses_on_each_rank() {
    let scratch = Scratch::new("dsm-globals-pie");
    for (option, what) in [
        ("-pie", "which -pie and -shared do not give"),
        ("--globals=all", "shared and private are known"),
        ("-static-pie", "there is no static PARMACS library"),
        ("-fuse-ld=gold", "-fuse-ld=gold names another linker"),
        ("--ld-path=/usr/bin/ld.gold", "--ld-path=/usr/bin/ld.gold names another linker"),
    ] {
        let mut command = program("tutticc");
        command.args(["--globals=shared", option]).arg(tutti_tests::root().join(SOURCE));
        let ran = run(command.arg("-o").arg(scratch.path().join("none")), LIMIT);
        assert!(!ran.status.success() && ran.stderr.contains(what), "{ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    }
}
