//! The promises of shared memory with PARMACS macros, on one node and on virtual nodes. Between machines:
//! `tests/machines`.

mod backends;
mod debugger;
mod ends;
mod forms;
mod globals;
mod handover;
mod library;
mod migration;
mod nests;
mod rcop;
mod tiles;
mod udsm;
mod updates;
mod versions;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_testkit::{Need, has_command};
use tutti_tests::{Ran, Scratch, compile_with, program, root, run};

/// Limit for a program: none takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn compile(source: &str, scratch: &Scratch) -> PathBuf {
    compile_with("tutticc", source, scratch.path())
}

/// A program whose pages are compared, by whatever compiler. With notes: [`rcop`].
fn compile_twin(source: &str, scratch: &Scratch) -> PathBuf {
    let compiled = scratch.path().join(Path::new(source).file_stem().expect("a file"));
    let mut command = program("tutticc");
    command.args(["--dsm=twin", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]).arg(root().join(source));
    run(command.arg("-o").arg(&compiled), LIMIT).expect_success();
    compiled
}

/// A run on so many ranks and virtual nodes.
fn launch(program: &Path, ranks: u32, nodes: u32, arguments: &[&str]) -> Ran {
    let mut command = tutti_tests::program("mpiexec");
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    run(command.arg(program).args(arguments), LIMIT)
}

/// Programs of `examples/shared` and their arguments: the problem that each computes, and `%` for the number
/// of processes.
const PROGRAMS: [(&str, &[&str]); 4] = [
    ("examples/shared/lu.c.in", &["-n160", "-b16", "-p%"]),
    ("examples/shared/radix.c.in", &["-n30000", "-r256", "-p%"]),
    ("examples/shared/sor.c", &["100", "6", "%"]),
    ("examples/shared/queue.c", &["60", "%"]),
];

/// Digest of a program's result: the text behind the last colon.
#[track_caller]
fn digest(ran: Ran) -> String {
    let ran = ran.expect_success();
    let digest = ran.stdout.trim_end().rsplit(": ").next().unwrap_or_default().to_owned();
    assert!(digest.len() >= 16, "{ran}");
    digest
}

/// The same result on one rank and on these.
#[track_caller]
fn results_are_equal(name: &str, runs: &[(u32, u32)]) {
    let scratch = Scratch::new(&format!("dsm-{name}"));
    for (source, arguments) in PROGRAMS {
        let compiled = compile_twin(source, &scratch);
        let on = |ranks: u32, nodes| {
            let arguments: Vec<_> =
                arguments.iter().map(|word| word.replace('%', &ranks.to_string())).collect();
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            digest(launch(&compiled, ranks, nodes, &arguments))
        };
        let alone = on(1, 1);
        for &(ranks, nodes) in runs {
            assert_eq!(on(ranks, nodes), alone, "{source} on {ranks} ranks of {nodes} nodes");
        }
    }
}

#[test]
fn dsm_programs_give_the_sequential_result_inside_a_node() {
    results_are_equal("node", &[(2, 1), (4, 1)]);
}

#[test]
fn dsm_programs_give_the_sequential_result_on_virtual_nodes() {
    results_are_equal("nodes", &[(2, 2), (4, 4)]);
}

#[test]
fn dsm_programs_give_the_sequential_result_with_several_ranks_on_each_node() {
    results_are_equal("ranks", &[(4, 2), (5, 3)]);
}

#[test]
fn dsm_several_ranks_on_each_node_give_the_result_though_datagrams_are_lost() {
    let scratch = Scratch::new("dsm-lost");
    let [alone, lost] = [(1, "1", ""), (4, "2", "loss=1%,dup=1%")].map(|(ranks, nodes, faults)| {
        let compiled = compile_twin("examples/shared/queue.c", &scratch);
        let mut command = program("mpiexec");
        command.env("LD_PRELOAD", tutti_tests::testing_library());
        if !faults.is_empty() {
            command.env("TUTTI_FAULTS", faults);
        }
        command.args(["-n", &ranks.to_string(), "--virtual-nodes", nodes]).arg(&compiled);
        digest(run(command.args(["60", &ranks.to_string()]), LIMIT))
    });
    assert_eq!(lost, alone);
}

#[test]
fn dsm_main_is_replayed_with_one_input_and_one_output() {
    let scratch = Scratch::new("dsm-replay");
    let compiled = compile("tests/dsm/programs/replay.c", &scratch);
    let [input, read, written] = ["input", "read", "written"].map(|name| scratch.path().join(name));
    std::fs::write(&input, "a line\nword and more\n").expect("a file");
    std::fs::write(&read, "the file\n").expect("a file");
    for nodes in ["1", "2"] {
        let _ = std::fs::remove_file(&written);
        let mut command = std::process::Command::new("sh");
        command.env("TUTTI_DAEMON", "none");
        command.args(["-c", "exec \"$@\" <\"$0\""]).arg(&input).arg(tutti_tests::dist().join("bin/mpiexec"));
        command.args(["-n", "2", "--virtual-nodes", nodes]).arg(&compiled).args([&read, &written]);
        let ran = run(&mut command, LIMIT).expect_success();
        let count = |line: &str| ran.stdout.lines().filter(|found| *found == line).count();
        // Another rank's line may come between those of one.
        let lines = ["before", "a process", "replay: 2 processes, 0 wrong: a line", "word the file"];
        assert_eq!(lines.map(count), [1, 2, 1, 1], "{ran}");
        assert_eq!(std::fs::read_to_string(&written).expect("text"), "once\n", "written by rank 0 alone");
    }
}

#[test]
fn dsm_processes_are_created_one_by_one_and_no_more_than_are_asked_for() {
    let scratch = Scratch::new("dsm-each");
    let compiled = compile("tests/dsm/programs/each.c", &scratch);
    for (processes, ranks, nodes) in [(3, 3, 1), (3, 3, 3), (2, 4, 1), (2, 4, 4), (1, 2, 2)] {
        let mut command = program("mpiexec");
        command.env("TUTTI_STATS", "json").args(["-n", &ranks.to_string()]);
        command.args(["--virtual-nodes", &nodes.to_string()]).arg(&compiled).arg(processes.to_string());
        let ran = run(&mut command, LIMIT).expect_success();
        let messages = sum_of(&ran.stderr, "messages");
        assert!(messages < 500, "main asks nobody for its lock while it is alone: {ran}");
        let sum = processes * (processes + 1) / 2;
        assert_eq!(
            ran.stdout,
            format!("each: {processes} processes, sum {sum}\n"),
            "{ranks} on {nodes}: {ran}"
        );
    }
}

#[test]
fn dsm_pauses_and_barriers_of_ranks_of_a_node_wake_their_waiters() {
    let scratch = Scratch::new("dsm-pauses");
    let compiled = compile_twin("tests/dsm/programs/pauses.c", &scratch);
    for (ranks, nodes) in [(4, 1), (8, 2), (4, 4)] {
        let ran = launch(&compiled, ranks, nodes, &[&ranks.to_string()]).expect_success();
        assert_eq!(ran.stdout, format!("pauses: {} rounds\n", 60 * ranks), "{ran}");
    }
}

#[test]
fn dsm_condition_variables_lose_no_signal() {
    let scratch = Scratch::new("dsm-conditions");
    let source = "tests/dsm/programs/conditions.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes) in [(4, 1), (2, 2), (4, 4), (6, 3)] {
            let ran = launch(&compiled, ranks, nodes, &[&ranks.to_string()]).expect_success();
            let (taken, turns) = (20 * ranks, 5 * ranks);
            assert_eq!(
                ran.stdout,
                format!("conditions: {taken} taken, sum right, {ranks} passed, {turns} turns\n"),
                "{ran}"
            );
        }
    }
}

#[test]
fn dsm_pointers_to_functions_and_constants_hold_on_all_ranks() {
    let scratch = Scratch::new("dsm-pointers");
    let source = "tests/dsm/programs/pointers.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes) in [(4, 1), (2, 2), (4, 2)] {
            let ran = launch(&compiled, ranks, nodes, &[&ranks.to_string()]).expect_success();
            let sum = if ranks == 4 { 60 } else { 10 };
            assert_eq!(ran.stdout, format!("pointers: {ranks} processes, sum {sum}, 0 wrong\n"), "{ran}");
        }
    }
}

#[test]
fn dsm_leaves_the_handler_of_a_program_its_own_faults() {
    let scratch = Scratch::new("dsm-signals");
    let compiled = compile("tests/dsm/programs/signals.c", &scratch);
    for nodes in [1, 2] {
        let ran = launch(&compiled, 2, nodes, &[]).expect_success();
        assert_eq!(ran.stdout, "signals: ok\n", "{ran}");
    }
}

#[test]
fn dsm_memory_in_calls_of_the_system_and_the_c_library_is_right() {
    let scratch = Scratch::new("dsm-calls");
    let source = "tests/dsm/programs/calls.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes) in [(2, 1), (2, 2), (3, 2)] {
            let ran = launch(&compiled, ranks, nodes, &[]).expect_success();
            assert_eq!(ran.stdout, "calls: 0 wrong\n", "{ran}");
        }
    }
}

#[test]
fn dsm_memory_in_arguments_of_calls_of_the_system_is_right() {
    let scratch = Scratch::new("dsm-arguments");
    let source = "tests/dsm/programs/arguments.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes, backend) in
            [(2, 1, "userfaultfd"), (2, 2, "userfaultfd"), (2, 2, "mprotect"), (3, 2, "mprotect")]
        {
            let mut command = program("mpiexec");
            command.env("TUTTI_DSM_BACKEND", backend).args(["-n", &ranks.to_string()]);
            command.args(["--virtual-nodes", &nodes.to_string()]).arg(&compiled);
            let ran = run(&mut command, LIMIT).expect_success();
            assert_eq!(ran.stdout, "arguments: 0 wrong\n", "{ran}");
        }
    }
}

#[test]
fn dsm_memory_in_further_calls_of_the_system_is_right() {
    let scratch = Scratch::new("dsm-further");
    let source = "tests/dsm/programs/further.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes, backend) in
            [(2, 1, "userfaultfd"), (2, 2, "userfaultfd"), (2, 2, "mprotect"), (3, 2, "mprotect")]
        {
            let mut command = program("mpiexec");
            command.env("TUTTI_DSM_BACKEND", backend).args(["-n", &ranks.to_string()]);
            command.args(["--virtual-nodes", &nodes.to_string()]).arg(&compiled);
            let ran = run(&mut command, LIMIT).expect_success();
            assert_eq!(ran.stdout, "further: 0 wrong\n", "{ran}");
        }
    }
}

#[test]
fn dsm_calls_that_load_more_than_a_rank_may_copy_load_what_is_there() {
    let scratch = Scratch::new("dsm-limited");
    let source = "tests/dsm/programs/limited.c";
    // With notes, where the compiler is there, and without.
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for backend in ["userfaultfd", "mprotect"] {
            let mut command = program("mpiexec");
            command.env("TUTTI_DSM_COPIES", "256K").env("TUTTI_DSM_BACKEND", backend);
            command.args(["-n", "2", "--virtual-nodes", "2"]).arg(&compiled);
            let ran = run(&mut command, LIMIT).expect_success();
            assert_eq!(ran.stdout, "limited: 0 wrong\n", "{backend}: {ran}");
        }
    }
}

#[test]
fn dsm_memory_in_streams_of_cxx_is_right() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("dsm-streams");
    let source = root().join("tests/dsm/programs/streams.cpp");
    let (compiled, file) = (scratch.path().join("streams"), scratch.path().join("file"));
    // By the compiler of C, with notes where the plugin is there, and by one of C++.
    for options in [&["--dsm=twin"][..], &[], &["-cc=c++", "--dsm=twin"]] {
        let mut command = program("tutticc");
        command.args(options).args(["-O2", "-Wall", "-Wextra", "-Werror"]).arg(&source);
        run(command.arg("-o").arg(&compiled), LIMIT).expect_success();
        for (nodes, backend) in [("1", "userfaultfd"), ("2", "userfaultfd"), ("2", "mprotect")] {
            let mut command = program("mpiexec");
            command.env("TUTTI_DSM_BACKEND", backend).args(["-n", "2", "--virtual-nodes", nodes]);
            let ran = run(command.arg(&compiled).arg(&file), LIMIT).expect_success();
            let expected = "abcdefghijklmnopqrstuvwxyz\nstreams: 0 wrong\n";
            assert_eq!(ran.stdout, expected, "{options:?} on {nodes} nodes: {ran}");
        }
    }
}

#[test]
fn dsm_functions_of_a_program_have_its_own_names() {
    let scratch = Scratch::new("dsm-own-names");
    let sources = ["own_names.c", "own_calls.c", "own_functions.c"];
    let sources = sources.map(|name| root().join("tests/dsm/programs").join(name));
    let compiled = scratch.path().join("own_names");
    // Names of a program that is stripped, too, and of a shared library that it brings with it.
    let library = scratch.path().join("libown.so");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&sources[2]);
    run(&mut cc, LIMIT).expect_success();
    let place = scratch.path().to_str().expect("a path in UTF-8");
    let (folder, found) = (format!("-L{place}"), format!("-Wl,-rpath,{place}"));
    let library = library.to_str().expect("a path in UTF-8");
    let ways: [(&[&str], usize); 6] = [
        (&["--dsm=twin"], 3),
        (&[], 3),
        (&["-fvisibility=hidden", "-s"], 3),
        (&["-fvisibility=hidden", "-Wl,-O1,-s"], 3),
        (&[&found, &folder, "-lown"], 2),
        (&[&found, library, "-s"], 2),
    ];
    for (options, count) in ways {
        let mut command = program("tutticc");
        command
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"])
            .args(&sources[..count])
            .args(options);
        run(command.arg("-o").arg(&compiled), LIMIT).expect_success();
        for nodes in [1, 2] {
            let ran = launch(&compiled, 2, nodes, &[]).expect_success();
            assert_eq!(ran.stdout, "own names: 0 wrong\n", "{options:?} on {nodes} nodes: {ran}");
        }
        let file = std::fs::read(&compiled).expect("the program");
        let is_stripped = !file.windows(8).any(|name| name == b".symtab\0");
        assert_eq!(is_stripped, options.iter().any(|option| option.ends_with("-s")), "{options:?}");
    }
}

#[test]
fn dsm_leaves_the_handlers_of_strict_programs_their_own_faults() {
    let scratch = Scratch::new("dsm-strict");
    let compiled = compile_twin("tests/dsm/programs/strict.c", &scratch);
    for nodes in [1, 2] {
        let ran = launch(&compiled, 2, nodes, &[]).expect_success();
        assert_eq!(ran.stdout, "strict: ok\n", "{ran}");
    }
}

#[test]
fn dsm_macros_of_other_sets_mean_what_they_do_there() {
    let scratch = Scratch::new("dsm-others");
    let source = "tests/dsm/programs/others.c.in";
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for (ranks, nodes) in [(1, 1), (4, 1), (2, 2), (4, 2), (3, 3)] {
            let ran = launch(&compiled, ranks, nodes, &[&ranks.to_string()]).expect_success();
            let sum = 1000 * i64::from(ranks) * (1000 * i64::from(ranks) - 1) / 2;
            assert_eq!(ran.stdout, format!("others: {ranks} processes, sum {sum}, 0 wrong\n"), "{ran}");
        }
    }
}

#[test]
fn dsm_copies_of_pages_have_a_limit() {
    let scratch = Scratch::new("dsm-copies");
    let compiled = compile_twin("examples/shared/lu.c.in", &scratch);
    let arguments = ["-n384", "-b16", "-p2"];
    let alone = digest(launch(&compiled, 1, 1, &["-n384", "-b16", "-p1"]));
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_COPIES", "256K").env("TUTTI_STATS", "json");
    command.args(["-n", "2", "--virtual-nodes", "2"]).arg(&compiled);
    let ran = run(command.args(arguments), LIMIT);
    let evicted = ran.stderr.lines().filter(|line| line.contains("\"shared_memory_of\"")).filter(|line| {
        let count = line.split("\"evicted_units\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
        count.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count > 0)
    });
    assert_eq!(evicted.count(), 2, "{ran}");
    assert_eq!(digest(ran), alone);
}

// Paper: C18
#[test]
fn dsm_pages_are_allocated_invalidated_and_freed_in_bulk() {
    let scratch = Scratch::new("dsm-pages");
    for compiled in [
        compile_twin("tests/dsm/programs/pages.c", &scratch),
        compile("tests/dsm/programs/pages.c", &scratch),
    ] {
        for (ranks, nodes) in [(2, 1), (2, 2)] {
            let mut command = program("mpiexec");
            command.env("TUTTI_STATS", "json");
            command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]).arg(&compiled);
            let ran = run(&mut command, LIMIT).expect_success();
            assert_eq!(ran.stdout, "pages: 0 wrong\n", "{ran}");
            if nodes == 2 {
                let [fetches, units] = ["fetches", "fetched_units"].map(|name| sum_of(&ran.stderr, name));
                // Six large pages, half of them away, come twice in each of four rounds to each rank or so.
                assert!(
                    units > 10_000 && fetches * 50 < units,
                    "{fetches} requests for {units} pages: {ran}"
                );
            }
        }
    }
}

/// Sum over the ranks of a count that `TUTTI_STATS=json` prints.
fn sum_of(text: &str, name: &str) -> u64 {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["shared_memory_of"].is_u64()).filter_map(|line| line[name].as_u64()).sum()
}

#[test]
fn dsm_report_names_the_lines_that_cause_traffic() {
    let scratch = Scratch::new("dsm-report");
    let compiled = scratch.path().join("sor");
    let mut tutticc = program("tutticc");
    tutticc.args(["-g", "-O1", "--dsm=twin"]).arg(root().join("examples/shared/sor.c"));
    run(tutticc.arg("-o").arg(&compiled), LIMIT).expect_success();
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_REPORT", scratch.path()).args(["-n", "2", "--virtual-nodes", "2"]);
    run(command.arg(&compiled).args(["128", "6", "2"]), LIMIT).expect_success();
    let report = run(program("tutti").arg("dsm-report").arg(scratch.path()), LIMIT).expect_success();
    let first = report.stdout.lines().nth(2).unwrap_or_default();
    assert!(report.stdout.starts_with("shared memory of 2 ranks, by line\n"), "{report}");
    assert!(first.starts_with("sor.c:"), "the most costly line is one of the program: {report}");
    let wrong = scratch.path().join("tutti-dsm.1");
    std::fs::write(&wrong, "tutti-dsm-report 9\n").expect("a file");
    let report = run(program("tutti").arg("dsm-report").arg(scratch.path()), LIMIT);
    assert!(!report.status.success() && report.stderr.contains("of another version"), "{report}");
}

/// Cases of `wrong.c`, and what is said about each on one node and on two.
const WRONG: [(&str, &str); 30] = [
    ("create", "CREATE of 9 processes, but the job has 2 ranks: start it with -n 9"),
    // All ranks run main up to CREATE, and rank 0 alone says what is wrong there.
    ("early", " touches address 0x0, where it has no memory, by the instruction at 0x"),
    (
        "differs",
        "rank 1 asks for the time or its number in main, where rank 0 comes to CREATE: main must do the same on all ranks",
    ),
    ("counts", "CREATE of 1 processes on rank 1, of 2 on rank 0: main must do the same on all ranks"),
    ("free", "G_FREE of an address that G_MALLOC has not given, or that is free already"),
    ("heap", "free: G_FREE of an address that G_MALLOC has not given, or that is free already"),
    ("longer", "realloc of shared memory at 0x2000"),
    ("unlock", "wrong.c:"),
    ("other", " gives back lock "),
    ("munmap", "munmap of shared memory at 0x2000"),
    ("mprotect", "mprotect of shared memory at 0x2000"),
    ("mremap", "mremap of shared memory at 0x2000"),
    ("fixed", "mmap with MAP_FIXED of shared memory at 0x2000"),
    ("remove", "madvise with MADV_REMOVE of shared memory at 0x2000"),
    ("mutex", ": it orders threads of one process alone; LOCK orders processes"),
    ("meeting", ": it orders threads of one process alone; BARRIER orders processes"),
    ("semaphore", ": it orders threads of one process alone; SETPAUSE orders processes"),
    ("twice", "wrong.c:"),
    ("unmade", "LOCK of what LOCKINIT has not made: it holds 0x0"),
    ("count", "others wait at it as one of "),
    ("many", "BARRIER of 100 processes: from 1 to 2 can meet"),
    ("none", "BARRIER of 0 processes: from 1 to 2 can meet"),
    ("full", " are left of the 16777216 of TUTTI_DSM_SIZE; most are taken by "),
    ("huge", "G_MALLOC of 18446744073709551608 bytes: "),
    ("inside", "CREATE inside a created process: main alone creates"),
    ("operation", "G_PAGES with operation 9: TUTTI_PAGES_ALLOCATE, _FREE and _INVALIDATE are known"),
    ("attributes", "G_PAGES with attributes 0x8: TUTTI_PAGES_4K, _2M and _UPDATE are known"),
    ("private", " bytes at 0x1000 is not shared memory"),
    ("dup2", ", which the library uses: dup gives a number that is free"),
    ("leave", "rank 0 ends before WAIT_FOR_END: 1 processes were created beside it"),
];

#[track_caller]
fn one_line_is_said(compiled: &Path, nodes: u32, what: &str, expected: &str) {
    let mut command = program("mpiexec");
    command.args(["-n", "2", "--virtual-nodes", &nodes.to_string()]).arg(compiled).arg(what);
    let ran = run(command.env("TUTTI_DSM_SIZE", "16M"), LIMIT);
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains(expected)).collect();
    assert!(!ran.status.success() && !ran.stdout.contains("nothing was said"), "{what}: {ran}");
    assert_eq!(lines.len(), 1, "{what} on {nodes} nodes: {ran}");
}

#[test]
fn dsm_wrong_programs_end_with_one_line_that_says_why() {
    let scratch = Scratch::new("dsm-wrong");
    let compiled = compile("tests/dsm/programs/wrong.c", &scratch);
    for (what, expected) in WRONG {
        for nodes in [1, 2] {
            one_line_is_said(&compiled, nodes, what, expected);
        }
    }
    // Whose rank is which follows from who comes first.
    for nodes in [1, 2] {
        one_line_is_said(&compiled, nodes, "exit", "ends inside the function that CREATE was given");
    }
    let library = "a call of the library was given shared memory at 0x2000";
    one_line_is_said(&compiled, 2, "library", library);
    one_line_is_said(&compiled, 2, "later", "aio_write of shared memory at 0x2000");
    one_line_is_said(&compiled, 2, "number", " with shared memory at 0x2000");
    for (what, call) in [("futex", "futex"), ("try", "pthread_rwlock_tryrdlock")] {
        let expected = format!("{call} of shared memory at 0x2000");
        one_line_is_said(&compiled, 2, what, &expected);
    }
    one_line_is_said(&compiled, 2, "beyond", "of shared memory, which is in no block: ");
    one_line_is_said(&compiled, 2, "child", "a child of a rank touches shared memory, which is not its own");
    for nodes in [1, 2] {
        let expected = " touches address 0x0, where it has no memory, by the instruction at 0x";
        one_line_is_said(&compiled, nodes, "alone", expected);
        one_line_is_said(&compiled, nodes, "offset", ", where it has no memory, by the instruction at 0x");
    }
    one_line_is_said(&compiled, 2, "thread", "a second thread of a rank touches shared memory");
}

#[test]
fn dsm_check_names_the_lines_of_a_data_race_and_nothing_in_right_programs() {
    let scratch = Scratch::new("dsm-check");
    let compiled = scratch.path().join("wrong");
    let mut tutticc = program("tutticc");
    tutticc.args(["-g", "-O1", "--dsm=twin"]).arg(root().join("tests/dsm/programs/wrong.c"));
    run(tutticc.arg("-o").arg(&compiled), LIMIT).expect_success();
    let checked = |compiled: &Path, ranks: &str, arguments: &[&str]| {
        let mut command = program("mpiexec");
        command.env("TUTTI_DSM_CHECK", "1").args(["-n", ranks, "--virtual-nodes", "2"]);
        run(command.arg(compiled).args(arguments), LIMIT)
    };
    let ran = checked(&compiled, "2", &["race"]);
    let said = ran.stderr.lines().find(|line| line.contains("data race: rank ")).unwrap_or_default();
    assert!(!ran.status.success() && said.matches("wrong.c:").count() == 2, "{ran}");
    let ran = checked(&compiled, "2", &["spin"]);
    let said = ran.stderr.lines().find(|line| line.contains(" spins on byte ")).unwrap_or_default();
    assert!(!ran.status.success() && said.matches("wrong.c:").count() == 1, "{ran}");
    let ran = checked(&compiled, "2", &["variable"]).expect_success();
    let expected =
        " has changed variables of C behind CREATE, and no other process sees that: changed_by_one; ";
    assert_eq!(ran.stderr.matches(expected).count(), 1, "{ran}");
    for (what, place) in [("stack", "a variable of a function"), ("malloc", "memory of malloc")] {
        let ran = checked(&compiled, "2", &[what]);
        let expected = format!(", the address of {place}");
        let said: Vec<_> = ran.stderr.lines().filter(|line| line.contains(&expected)).collect();
        let is_right = said.len() == 1 && said[0].contains("wrong.c:");
        assert!(!ran.status.success() && is_right, "{what}: {ran}");
    }
    for (source, arguments) in PROGRAMS {
        let compiled = compile(source, &scratch);
        let with = |ranks: &str| arguments.iter().map(|word| word.replace('%', ranks)).collect::<Vec<_>>();
        let [one, three] = ["1", "3"].map(with);
        let alone = digest(launch(&compiled, 1, 1, &one.iter().map(String::as_str).collect::<Vec<_>>()));
        let ran = checked(&compiled, "3", &three.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(digest(ran), alone, "{source}");
    }
}

/// The status of a job that `--on-deadlock end` has ended.
const DEADLOCK: i32 = 35;

#[test]
fn dsm_cycle_of_locks_over_three_nodes_is_named() {
    let scratch = Scratch::new("dsm-cycle");
    let compiled = compile("tests/dsm/programs/cycle.c", &scratch);
    for nodes in ["3", "2"] {
        let mut command = program("mpiexec");
        command.args(["-n", "3", "--virtual-nodes", nodes, "--on-deadlock", "end"]).arg(&compiled);
        let ran = run(&mut command, LIMIT);
        assert_eq!(ran.status.code(), Some(DEADLOCK), "{ran}");
        assert!(ran.stderr.matches(" of shared memory, which rank ").count() >= 3, "{ran}");
    }
}

#[test]
fn dsm_refuses_what_it_cannot_start() {
    let scratch = Scratch::new("dsm-start");
    let compiled = compile("examples/shared/sor.c", &scratch);
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_SIZE", "much").args(["-n", "2"]).arg(&compiled);
    let ran = run(&mut command, LIMIT);
    assert!(
        !ran.status.success() && ran.stderr.matches("TUTTI_DSM_SIZE=much is no size").count() == 1,
        "{ran}"
    );
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_COPIES", "few").args(["-n", "2"]).arg(&compiled);
    let ran = run(&mut command, LIMIT);
    let expected = "TUTTI_DSM_COPIES=few is no size";
    assert!(!ran.status.success() && ran.stderr.matches(expected).count() == 1, "{ran}");
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_BACKEND", "fast").args(["-n", "2"]).arg(&compiled);
    let ran = run(&mut command, LIMIT);
    let expected = "TUTTI_DSM_BACKEND=fast is neither userfaultfd nor mprotect";
    assert!(!ran.status.success() && ran.stderr.matches(expected).count() == 1, "{ran}");
    for switch in ["TUTTI_DSM_COMBINE", "TUTTI_DSM_HANDOVER", "TUTTI_DSM_MIGRATE"] {
        let mut command = program("mpiexec");
        command.env(switch, "no").args(["-n", "2"]).arg(&compiled);
        let ran = run(&mut command, LIMIT);
        let expected = format!("{switch}=no is neither on nor off");
        assert!(!ran.status.success() && ran.stderr.matches(&expected).count() == 1, "{ran}");
    }
}

#[test]
fn tutticc_names_a_macro_that_it_does_not_know_and_a_missing_file() {
    let scratch = Scratch::new("dsm-tutticc");
    let source = scratch.path().join("x.c.in");
    let text = "MAIN_ENV\nint main(void) {\n    ASKFOR(0, 1)\n}\n";
    std::fs::write(&source, text).expect("a file");
    let ran = run(program("tutticc").arg("-c").arg(&source), LIMIT);
    assert!(!ran.status.success(), "{ran}");
    let expected = format!("{}:3: PARMACS macro ASKFOR is not known here", source.display());
    assert!(ran.stderr.contains(&expected), "{ran}");
    let ran = run(program("tutticc").arg("-c").arg(scratch.path().join("none.C")), LIMIT);
    assert!(!ran.status.success() && ran.stderr.contains("none.C cannot be read"), "{ran}");
    let ran = run(program("tutticc").arg("-fopenmp").arg(&source), LIMIT);
    assert!(!ran.status.success() && ran.stderr.contains("threads of OpenMP do not share memory"), "{ran}");
    for (option, expected) in [
        ("-fsanitize=undefined,thread", "-fsanitize=undefined,thread: its tables are where shared memory is"),
        ("-fsanitize=memory", "-fsanitize=memory: its tables are where shared memory is"),
        ("kernel.f90", "kernel.f90: the macros are C's"),
    ] {
        let ran = run(program("tutticc").arg("-c").arg(option).arg(&source), LIMIT);
        assert!(!ran.status.success() && ran.stderr.starts_with(&format!("tutticc: {expected}")), "{ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    }
    let threads = scratch.path().join("threads.c");
    let text = "#include <pthread.h>\nstatic void *work(void *x) { return x; }\nint main(void) {\n    pthread_t thread;\n    \
        return pthread_create(&thread, NULL, work, NULL);\n}\n";
    std::fs::write(&threads, text).expect("a file");
    let ran = run(program("tutticc").arg("-o").arg(scratch.path().join("threads")).arg(&threads), LIMIT);
    let expected = "threads.c makes threads, and no source has macros of PARMACS: ";
    assert!(ran.status.success() && ran.stderr.matches(expected).count() == 1, "{ran}");
    let shown = run(program("tutticc").args(["-show", "a.c"]), LIMIT).expect_success();
    assert!(shown.stdout.contains("parmacs_start.o") && shown.stdout.contains("-ltutti"), "{shown}");
}

/// A header declares before the source has named its environment, and sources agree on what it says.
#[test]
fn tutticc_takes_headers_with_macros_and_what_other_sets_have() {
    let scratch = Scratch::new("dsm-headers");
    let [header, inner, source] =
        ["box.h.in", "inner.h.in", "box.c.in"].map(|name| scratch.path().join(name));
    std::fs::write(&inner, "struct inner {\n    PAUSEDEC(pause)\n};\n").expect("a file");
    std::fs::write(&header, "struct box {\n    LOCKDEC(lock)\n    CONDVARDEC(full)\n    long size;\n};\n")
        .expect("a file");
    let text = "#define _GNU_SOURCE\n#include <stdio.h>\n#include <string.h>\n#include \"box.h\"\ninclude(inner.h)\nMAIN_ENV\n\
        int main(void) {\n    struct box *box;\n    struct inner inner;\n    PAUSEINIT(inner.pause)\n    SETPAUSE(inner.pause)\n    MAIN_INITENV(, 1000,)\n    \
        box = (struct box *)G_MALLOC(sizeof *box + PAGE_SIZE, 1)\n    LOCKINIT(box->lock)\n    \
        CONDVARINIT(box->full)\n    SPLASH3_ROI_BEGIN();\n    box->size = basename(\"a/bc\")[0];\n    \
        RELEASE_FENCE();\n    SPLASH3_ROI_END();\n    printf(\"box: %ld\\n\", box->size);\n    MAIN_END\n}\n";
    std::fs::write(&source, text).expect("a file");
    let compiled = scratch.path().join("box");
    let mut command = program("tutticc");
    command.args(["--dsm=twin", "-std=c11", "-Wall", "-Wextra", "-Werror"]).arg(&source);
    run(command.arg("-o").arg(&compiled), LIMIT).expect_success();
    assert_eq!(launch(&compiled, 1, 1, &[]).expect_success().stdout, "box: 98\n");
}
