//! The promises of OpenSHMEM. Each program in `programs/` checks one subject and prints "name: ok"; a test
//! here runs it with `oshrun` on several numbers of PEs.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod deaths;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tutti_tests::{Ran, Scratch, compile, compile_with, program, run};

/// Limit for a program: none takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn oshrun(pes: u32, path: &Path) -> Command {
    let mut command = program("oshrun");
    command.args(["-n", &pes.to_string()]).arg(path);
    command
}

/// A program keeps its promises on each of these numbers of PEs.
#[track_caller]
fn conforms(name: &str, pes: &[u32]) {
    let scratch = Scratch::new(&format!("shmem-{name}"));
    let compiled = compile_with("oshcc", &format!("tests/shmem/programs/{name}.c"), scratch.path());
    for &pes in pes {
        let ran = run(&mut oshrun(pes, &compiled), LIMIT).expect_success();
        assert!(ran.stdout.contains(&format!("{name}: ok\n")), "on {pes} PEs: {ran}");
    }
}

#[test]
fn shmem_puts_and_gets_of_all_types_arrive() {
    conforms("rma", &[1, 2, 4]);
}

/// Memory that a call cannot access is the user's line, wherever the other PE is.
#[test]
fn shmem_bad_memory_of_a_put_or_get_is_the_user_s_line() {
    let scratch = Scratch::new("shmem-bad-memory");
    let compiled = compile_with("oshcc", "tests/shmem/programs/bad_memory.c", scratch.path());
    let words = [
        ("put", "put", "source"),
        ("get", "get", "dest"),
        // Functions of types of one size may be one, which is found by any of their names.
        ("put-large", "put", "source"),
        ("get-large", "get", "dest"),
        ("put-nbi", "shmem_", "source"),
        ("iput", "iput", "source"),
    ];
    for place in [&["-n", "1"][..], &["-n", "2"], &["-n", "2", "--virtual-nodes", "2"]] {
        for (word, call, argument) in words {
            let ran = run(program("oshrun").args(place).arg(&compiled).arg(word), LIMIT);
            let is_named = ran.stderr.contains(call) && ran.stderr.contains(argument);
            let said = ran.stderr.lines().filter(|line| line.starts_with("tutti: ")).count();
            assert!(is_named && said == 1, "{word}, {place:?}: {ran}");
            assert!(ran.code() != 0 && ran.code() < 128, "{word}, {place:?}: {ran}");
        }
    }
}

#[test]
fn shmem_shared_team_has_the_pes_of_the_node() {
    let scratch = Scratch::new("shmem-shared");
    let compiled = compile_with("oshcc", "tests/shmem/programs/shared.c", scratch.path());
    for (nodes, pes) in [("1", "1"), ("1", "3"), ("2", "2"), ("2", "4"), ("2", "5"), ("3", "4")] {
        let mut oshrun = program("oshrun");
        oshrun.args(["--virtual-nodes", nodes, "-n", pes]).arg(&compiled);
        let ran = run(&mut oshrun, LIMIT).expect_success();
        assert_eq!(ran.stdout, "shared: ok\n", "{pes} PEs on {nodes} nodes: {ran}");
    }
}

#[test]
fn shmem_environment_prints_what_is_asked_for() {
    let scratch = Scratch::new("shmem-environment");
    let compiled = compile_with("oshcc", "tests/shmem/programs/shared.c", scratch.path());
    let lines = |name: &str, value: &str| {
        let ran = run(oshrun(2, &compiled).env(name, value), LIMIT).expect_success();
        ran.stderr.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, value) in [("SHMEM_VERSION", "1"), ("SMA_VERSION", "")] {
        let lines = lines(name, value);
        assert!(lines.len() == 1 && lines[0].contains("OpenSHMEM 1.5"), "{name}: {lines:?}");
    }
    for name in ["SHMEM_INFO", "SMA_INFO"] {
        let lines = lines(name, "yes");
        assert!(lines.iter().any(|line| line.contains("SHMEM_SYMMETRIC_SIZE")), "{name}: {lines:?}");
    }
    let ran = run(oshrun(2, &compiled).env("SHMEM_SYMMETRIC_SIZE", "-1"), LIMIT);
    assert!(ran.code() != 0 && ran.stderr.contains("SHMEM_SYMMETRIC_SIZE=-1 is no size"), "{ran}");
    let version = compile_with("oshcc", "tests/shmem/programs/empty_heap.c", scratch.path());
    let ran = run(oshrun(2, &version).env("SHMEM_SYMMETRIC_SIZE", "0"), LIMIT).expect_success();
    assert_eq!(ran.stdout, "empty_heap: ok\n", "{ran}");
}

#[test]
fn shmem_atomics_lose_nothing() {
    conforms("atomics", &[1, 2, 4]);
}

#[test]
fn shmem_heap_is_symmetric() {
    conforms("heap", &[1, 2, 3]);
}

/// An alignment that the heap itself does not have is refused: no block in it would have it.
#[test]
fn shmem_align_beyond_the_alignment_of_a_small_heap_is_refused_in_one_line() {
    let scratch = Scratch::new("shmem-small-heap");
    let compiled = compile_with("oshcc", "tests/shmem/programs/small_heap.c", scratch.path());
    let ran = run(oshrun(2, &compiled).env("SHMEM_SYMMETRIC_SIZE", "1M"), LIMIT).expect_success();
    let line = "shmem_align: the alignment 4194304 is no power of two up to 2097152";
    assert!(ran.stdout == "small_heap: ok\n" && ran.stderr.contains(line), "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
}

/// PEs are the ranks of their own world, whatever their numbers in the job.
#[test]
fn shmem_worlds_of_one_job_reach_their_own_memory_alone() {
    let scratch = Scratch::new("shmem-spawned");
    let compiled = compile_with("oshcc", "tests/shmem/programs/spawned.c", scratch.path());
    for (parents, nodes) in [("1", "1"), ("2", "1"), ("2", "2"), ("3", "2")] {
        let mut command = program("oshrun");
        command.args(["-n", parents, "--virtual-nodes", nodes, "--universe", "8"]).arg(&compiled);
        let ran = run(&mut command, LIMIT).expect_success();
        let is_said = |world: &str| ran.stdout.contains(&format!("{world}: ok\n"));
        assert!(is_said("parents") && is_said("children"), "{parents} parents on {nodes} nodes: {ran}");
    }
}

#[test]
fn shmem_level_of_threads_is_mpi_s_too_after_mpi_init() {
    conforms("raised", &[1, 2]);
}

/// A sleep that nothing ends lasts ten seconds, so these waits would take longer than the limit.
#[test]
fn shmem_waits_are_woken_by_stores_of_signals_and_windows() {
    let scratch = Scratch::new("shmem-stored");
    let source = "tests/shmem/programs/stored.c";
    let compiled =
        tutti_tests::compile_by("oshcc", &["-Wl,--no-as-needed", "-ltutti"], source, scratch.path());
    let ran = run(&mut oshrun(2, &compiled), LIMIT).expect_success();
    assert_eq!(ran.stdout, "stored: ok\n", "{ran}");
}

#[test]
fn shmem_waits_see_data_before_flags() {
    conforms("waits", &[1, 2, 3]);
}

#[test]
fn shmem_waits_sleep_until_they_are_woken() {
    conforms("sleepers", &[2, 4]);
}

#[test]
fn shmem_signals_follow_their_data() {
    conforms("signals", &[1, 2, 3]);
}

#[test]
fn shmem_collectives_of_all_types_are_right() {
    conforms("collectives", &[1, 2, 3, 5]);
}

#[test]
fn shmem_teams_number_their_members() {
    conforms("teams", &[1, 2, 4, 5]);
}

#[test]
fn shmem_active_sets_still_work() {
    conforms("active_sets", &[1, 2, 5]);
}

#[test]
fn shmem_locks_admit_one() {
    conforms("locks", &[1, 2, 4]);
}

#[test]
fn shmem_statics_are_symmetric() {
    conforms("statics", &[1, 2, 4]);
}

#[test]
fn shmem_generics_take_all_types_beside_mpi() {
    conforms("generics", &[2, 3]);
}

#[test]
fn shmem_overloads_take_all_types() {
    let scratch = Scratch::new("shmem-overloads");
    let path = scratch.path().join("overloads");
    let source = tutti_tests::root().join("tests/shmem/programs/overloads.cpp");
    let mut oshcxx = program("oshcxx");
    oshcxx.args(["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o"]).arg(&path).arg(source);
    run(&mut oshcxx, LIMIT).expect_success();
    let ran = run(&mut oshrun(2, &path), LIMIT).expect_success();
    assert!(ran.stdout.contains("overloads: ok\n"), "{ran}");
}

/// Programs include the headers by the names of all versions of OpenSHMEM, and that of extensions, which must
/// be there without extensions too.
#[test]
fn shmem_headers_have_all_their_names() {
    let scratch = Scratch::new("shmem-headers");
    for header in ["shmem.h", "shmemx.h", "mpp/shmem.h", "mpp/shmemx.h"] {
        for (wrapper, language, standard) in [("oshcc", "c", "-std=c11"), ("oshcxx", "cpp", "-std=c++17")] {
            let source = scratch.path().join(format!("headers.{language}"));
            let text =
                format!("#include <{header}>\nint main(void) {{ return SHMEM_MAJOR_VERSION != 1; }}\n");
            std::fs::write(&source, text).expect("the scratch folder takes a file");
            let mut compiler = program(wrapper);
            compiler
                .args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"])
                .arg(&source);
            run(&mut compiler, LIMIT).expect_success();
        }
    }
}

/// Not position-independent programs have symmetric static variables too.
#[test]
fn shmem_statics_of_programs_at_fixed_places_are_symmetric() {
    let scratch = Scratch::new("shmem-fixed");
    let path = scratch.path().join("fixed");
    let source = tutti_tests::root().join("tests/shmem/programs/statics.c");
    let mut oshcc = program("oshcc");
    oshcc.args(["-std=c11", "-no-pie", "-fno-pie", "-o"]).arg(&path).arg(source);
    run(&mut oshcc, LIMIT).expect_success();
    let ran = run(&mut oshrun(3, &path), LIMIT).expect_success();
    assert!(ran.stdout.contains("statics: ok\n"), "{ran}");
}

fn wrong(what: &str) -> Ran {
    let scratch = Scratch::new(&format!("shmem-wrong-{what}"));
    let compiled = compile_with("oshcc", "tests/shmem/programs/wrong.c", scratch.path());
    run(oshrun(2, &compiled).arg(what), LIMIT)
}

/// Programs that end by several ways call it again.
#[test]
fn shmem_finalize_again_does_nothing() {
    let scratch = Scratch::new("shmem-finalize");
    let compiled = compile_with("oshcc", "tests/shmem/programs/finalize_again.c", scratch.path());
    let ran = run(&mut oshrun(2, &compiled), LIMIT).expect_success();
    assert!(["PE 0: ok\n", "PE 1: ok\n"].iter().all(|line| ran.stdout.contains(line)), "{ran}");
}

/// Each wrong call ends the job with one line that says what was found and what was expected.
#[test]
fn shmem_wrong_calls_are_named_in_one_line() {
    let cases = [
        ("before_init", "shmem_barrier_all: called before shmem_init"),
        ("after_finalize", "shmem_p: called after shmem_finalize"),
        ("negative_pe", "shmem_p: there is no PE -1, PEs are 0 to 1"),
        ("pe_too_large", "shmem_atomic_inc: there is no PE 2, PEs are 0 to 1"),
        ("stack", "is not symmetric"),
        ("beyond", "reach beyond the symmetric memory"),
        ("unaligned", "is not aligned to the 8 bytes of its type"),
        ("comparison", "cmp 99 is no comparison"),
        ("free_twice", "is no block of the symmetric heap"),
        ("clear_free_lock", "nobody has the lock"),
        ("stale_context", "was destroyed or was never one"),
        ("stale_team", "the team 0x4d was destroyed or was never one"),
        ("root", "there is no PE_root 2, PEs of the team are 0 to 1"),
        ("set", "PE_start 0, logPE_stride 0, PE_size 3 is no active set of 2 PEs"),
        ("predefined_team", "a predefined team cannot be destroyed"),
        ("destroyed_team", "was destroyed or was never one"),
        ("no_context", "was destroyed or was never one"),
        ("signal_operation", "sig_op 99 is neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD"),
        ("library_variable", "is not symmetric"),
        ("null", "source 0x0 is not symmetric"),
        ("end_of_heap", "16 bytes at dest"),
        ("init_twice", "shmem_init: called a second time"),
        ("init_again", "shmem_init: called after shmem_finalize"),
        ("malloc_after_finalize", "shmem_malloc: called after shmem_finalize"),
        ("sizes", "PE 0 has 128 bytes and PE 1 64 bytes"),
        ("order", "PE 0 has 64 bytes and PE 1 128 bytes"),
        ("free_other", "shmem_free: all PEs must ask for the same, but PE 0 has at offset 0"),
        ("alignment", "shmem_align: the alignment 24 is no power of two"),
        ("exhausted", "SHMEM_SYMMETRIC_SIZE sets its size"),
    ];
    for (what, line) in cases {
        let ran = wrong(what);
        assert!(ran.code() != 0 && ran.stderr.contains(line), "{what}: {ran}");
        assert!(!ran.stdout.contains("not found") && !ran.stderr.contains("killed by"), "{what}: {ran}");
    }
}

/// Memory that some PEs alone take is no symmetric memory: the job does not go on as if it were.
#[test]
fn shmem_malloc_of_some_pes_alone_is_a_deadlock_that_is_named() {
    let scratch = Scratch::new("shmem-some");
    let compiled = compile_with("oshcc", "tests/shmem/programs/some.c", scratch.path());
    for what in ["barrier", "sync", "reduction", "flag", "free_of_null", "finalize"] {
        let mut command = program("oshrun");
        command.args(["-n", "2", "--on-deadlock", "end"]).arg(&compiled).arg(what);
        let ran = run(&mut command, LIMIT);
        assert_eq!(ran.status.code(), Some(DEADLOCK), "{what}: {ran}");
        assert!(
            ran.stderr.contains("rank 0 waits for") && !ran.stdout.contains("not found"),
            "{what}: {ran}"
        );
    }
}

/// Programs of one job that differ have one heap, and no static variables in common, also when these lie at
/// the same places.
#[test]
fn shmem_statics_of_different_programs_are_not_symmetric() {
    let scratch = Scratch::new("shmem-two");
    let build = |name: &str| {
        let path = scratch.path().join(name);
        let mut oshcc = program("oshcc");
        oshcc.arg("-Wl,--build-id").arg(format!("-DNAME=\"{name}\"")).arg("-o").arg(&path);
        run(oshcc.arg(tutti_tests::root().join("tests/shmem/programs/two.c")), LIMIT).expect_success();
        path
    };
    let (one, other) = (build("one"), build("two"));
    let both = |nodes: &str, what: &str| {
        let mut command = program("oshrun");
        command.args(["--virtual-nodes", nodes, "-n", "1"]).arg(&one).arg(what);
        run(command.args([":", "-n", "1"]).arg(&other).arg(what), LIMIT)
    };
    for nodes in ["1", "2"] {
        let ran = both(nodes, "heap").expect_success();
        assert!(ran.stdout.contains("heap: ok, one"), "{ran}");
        let ran = both(nodes, "static");
        assert!(ran.code() != 0 && ran.stderr.contains("and PE 1 runs another program"), "{ran}");
    }
}

#[test]
fn shmem_without_process_vm_works_on_the_heap_and_on_statics_that_oshcc_has_linked() {
    let scratch = Scratch::new("shmem-refused");
    let compiled = compile_with("oshcc", "tests/shmem/programs/refused.c", scratch.path());
    for pes in [2, 3] {
        let ran = run(oshrun(pes, &compiled).arg("statics"), LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("refused: ok\n", ""), "on {pes} PEs: {ran}");
    }
}

/// Such a program's static variables are in its own process alone; its heap is the node's.
#[test]
fn shmem_statics_of_foreign_programs_without_process_vm_end_the_job_in_one_line() {
    let scratch = Scratch::new("shmem-foreign-refused");
    let path = compile("tests/shmem/programs/refused.c", scratch.path());
    run(oshrun(2, &path).arg("heap"), LIMIT).expect_success();
    for (what, function) in [("put", "shmem_p"), ("get", "shmem_g")] {
        let ran = run(oshrun(2, &path).arg(what), LIMIT);
        let line = format!(
            "tutti: PE 0 of 2: {function}: the static variables of another PE cannot be reached: \
             Operation not permitted; link the program with oshcc"
        );
        let whys: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("tutti: ")).collect();
        assert!(ran.code() != 0 && ran.stderr.lines().count() == 2, "{what}: {ran}");
        assert_eq!(whys, [line], "{what}: {ran}");
    }
}

#[test]
fn shmem_global_exit_gives_its_status() {
    let scratch = Scratch::new("shmem-global-exit");
    let compiled = compile_with("oshcc", "tests/shmem/programs/wrong.c", scratch.path());
    for nodes in ["1", "2", "4"] {
        for (what, status) in [("global_exit", 7), ("global_exit_0", 0)] {
            let mut command = program("oshrun");
            command.args(["-n", "4", "--virtual-nodes", nodes]).arg(&compiled).arg(what);
            let ran = run(&mut command, LIMIT);
            assert_eq!(ran.code(), status, "{nodes} nodes: {ran}");
        }
    }
}

#[test]
fn shmem_heap_size_comes_from_the_environment() {
    let scratch = Scratch::new("shmem-size");
    let compiled = compile_with("oshcc", "tests/shmem/programs/heap.c", scratch.path());
    let with = |size: &str| run(oshrun(2, &compiled).env("SHMEM_SYMMETRIC_SIZE", size), LIMIT);
    with("1.5G").expect_success();
    let small = with("64M");
    assert!(small.code() != 0 && small.stderr.contains("SHMEM_SYMMETRIC_SIZE"), "{small}");
    let bad = with("much");
    assert!(bad.code() != 0 && bad.stderr.contains("SHMEM_SYMMETRIC_SIZE=much is no size"), "{bad}");
}

/// The same promises where PEs are on several virtual nodes, with several on each.
#[test]
fn shmem_between_virtual_nodes_keeps_its_promises() {
    let names = [
        "rma",
        "atomics",
        "heap",
        "waits",
        "signals",
        "collectives",
        "teams",
        "active_sets",
        "locks",
        "statics",
        "sleepers",
    ];
    let scratch = Scratch::new("shmem-nodes");
    for name in names {
        let source = format!("tests/shmem/programs/{name}.c");
        let compiled = compile_with("oshcc", &source, scratch.path());
        for (pes, nodes) in [("2", "2"), ("4", "2")] {
            let mut command = program("oshrun");
            command.env("TEST_NODES", nodes).args(["-n", pes, "--virtual-nodes", nodes]).arg(&compiled);
            let ran = run(&mut command, LIMIT).expect_success();
            assert!(ran.stdout.contains(&format!("{name}: ok\n")), "{pes} PEs on {nodes} nodes: {ran}");
        }
    }
}

/// A PE that computes and calls nothing is worked on all the same.
#[test]
fn shmem_between_virtual_nodes_goes_on_while_the_target_computes() {
    let scratch = Scratch::new("shmem-computes");
    let compiled = compile_with("oshcc", "tests/shmem/programs/computes.c", scratch.path());
    let mut command = program("oshrun");
    let ran = run(command.args(["-n", "2", "--virtual-nodes", "2"]).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("computes: ok\n"), "{ran}");
}

/// The launchers are one: `oshrun` runs MPI programs and `mpiexec` OpenSHMEM programs.
#[test]
fn shmem_launchers_run_programs_of_both() {
    let scratch = Scratch::new("shmem-launchers");
    let shmem = compile_with("oshcc", "tests/shmem/programs/signals.c", scratch.path());
    run(program("mpiexec").args(["-n", "2"]).arg(&shmem), LIMIT).expect_success();
    let mpi = compile("tests/mpi/programs/requests.c", scratch.path());
    run(&mut oshrun(2, &mpi), LIMIT).expect_success();
    let alone = run(&mut Command::new(&shmem), LIMIT).expect_success();
    assert!(alone.stdout.contains("signals: ok\n"), "{alone}");
}

/// The status of a job that `--on-deadlock end` has ended.
const DEADLOCK: i32 = 35;

#[test]
fn shmem_flags_that_no_pe_sets_are_a_deadlock() {
    let scratch = Scratch::new("shmem-stuck");
    let compiled = compile_with("oshcc", "tests/shmem/programs/stuck.c", scratch.path());
    for pes in ["2", "3"] {
        let mut command = program("oshrun");
        command.args(["-n", pes, "--on-deadlock", "end"]).arg(&compiled);
        let ran = run(&mut command, LIMIT);
        assert_eq!(ran.status.code(), Some(DEADLOCK), "{ran}");
        assert!(
            ran.stderr.contains("waits for a word of its memory that another rank is to change"),
            "{ran}"
        );
    }
}
