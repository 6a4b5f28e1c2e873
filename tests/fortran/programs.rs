//! Programs that use the bindings. Each checks itself and ends with a line that says ok.

use super::{LIMIT, compile_and_run, has_compiler, mpifort, source};
use tutti_tests::{Scratch, program, run};

#[track_caller]
fn is_ok(name: &str, options: &[&str], ranks: &str) {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new(&format!("{name}{}", options.concat()));
    let ran = compile_and_run(&scratch, name, options, ranks).expect_success();
    assert_eq!(ran.stdout.trim(), "ok", "{name} {options:?}: {ran}");
}

#[test]
fn fortran_mpif_h_works_in_fixed_form() {
    is_ok("basics.f", &["-Wall"], "2");
}

#[test]
fn fortran_mpif_h_works_in_free_form() {
    is_ok("basics.f", &["-ffree-form"], "2");
}

#[test]
fn fortran_module_mpi_works() {
    is_ok("basics.f90", &["-Wall"], "2");
    is_ok("basics.f90", &["-fdefault-real-8"], "2");
}

#[test]
fn fortran_module_mpi_f08_works_by_every_standard() {
    for standard in ["-std=gnu", "-std=f2008", "-std=f2018"] {
        is_ok("basics_f08.f90", &["-Wall", standard], "2");
    }
}

#[test]
fn fortran_sentinels_are_known_in_programs_of_fixed_place() {
    is_ok("basics.f", &["-no-pie"], "2");
    is_ok("basics.f90", &["-no-pie"], "2");
    is_ok("basics_f08.f90", &["-no-pie", "-flto"], "2");
}

#[test]
fn fortran_array_sections_are_sent_and_received_where_they_lie() {
    is_ok("sections.f90", &[], "2");
    is_ok("sections.f90", &["-O3"], "2");
}

#[test]
fn fortran_programs_start_processes() {
    is_ok("spawn.f90", &["-Wall"], "2");
}

#[test]
fn fortran_example_ring_token_visits_every_rank() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("ring-f90");
    let ring = tutti_tests::root().join("examples/ring.f90");
    let mut compile = mpifort(&scratch);
    compile.args(["-Wall", "-Werror", "-O2"]).arg(ring).args(["-o", "ring"]);
    run(&mut compile, LIMIT).expect_success();
    for ranks in [1, 2, 4] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", &ranks.to_string(), "./ring", "200"]).current_dir(scratch.path());
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        let token = 200 * ranks * (ranks - 1) / 2;
        assert!(ran.stdout.contains(&format!("token {token}, as expected")), "{ran}");
    }
}

/// Compiles a file of C for a program of Fortran.
fn compile_c(scratch: &Scratch, options: &[&str], name: &str, output: &str) {
    let mut mpicc = program("mpicc");
    mpicc.args(options).arg(source(name)).args(["-o", output]).current_dir(scratch.path());
    run(&mut mpicc, LIMIT).expect_success();
}

#[test]
fn fortran_callbacks_and_attributes_work_in_both_languages() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("callbacks");
    compile_c(&scratch, &["-c"], "attributes_in_c.c", "in_c.o");
    // Internal procedures as arguments need code on the stack, of which the linker warns.
    let ran =
        compile_and_run(&scratch, "callbacks.f90", &["in_c.o", "-Wl,-z,execstack"], "2").expect_success();
    assert_eq!(ran.stdout.trim(), "ok", "{ran}");
}

#[test]
fn fortran_statuses_to_be_ignored_are_known_in_c() {
    if !has_compiler() {
        return;
    }
    for options in [&[][..], &["-DHEADER"], &["-DHEADER", "-no-pie"]] {
        let scratch = Scratch::new(&format!("ignored{}", options.concat()));
        let in_c: Vec<&str> =
            ["-c"].into_iter().chain(options.iter().copied().filter(|o| *o == "-no-pie")).collect();
        compile_c(&scratch, &in_c, "ignored_in_c.c", "in_c.o");
        let mut compile = mpifort(&scratch);
        compile.args(options).arg(source("ignored.F90")).args(["in_c.o", "-o", "program"]);
        run(&mut compile, LIMIT).expect_success();
        let mut mpiexec = program("mpiexec");
        let ran = run(mpiexec.args(["-n", "1", "./program"]).current_dir(scratch.path()), LIMIT);
        assert_eq!(ran.expect_success().stdout, "ok\n", "{options:?}");
    }
}

#[test]
fn fortran_calls_functions_of_c_with_handles_that_c_converts() {
    is_ok("conversions.f90", &["-Wall"], "2");
}

#[test]
fn fortran_buffer_that_is_detached_is_the_variable_that_was_attached() {
    is_ok("detached.f90", &["-Wall"], "1");
}

#[test]
fn fortran_calls_are_seen_once_by_a_tool_in_c() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("tool");
    compile_c(&scratch, &["-shared", "-fPIC"], "counts.c", "libcounts.so");
    for (name, wanted) in [("basics.f90", "tool: 1 2"), ("sections.f90", "tool: 3 2")] {
        let mut compile = mpifort(&scratch);
        compile.arg(source(name)).args(["-o", "program", "-L.", "-profile=counts", "-Wl,-rpath,$ORIGIN"]);
        run(&mut compile, LIMIT).expect_success();
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "2", "./program"]).current_dir(scratch.path());
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stderr.contains(wanted) && ran.stdout.trim() == "ok", "{name}: {ran}");
    }
}

#[test]
fn fortran_wrong_datatypes_and_long_strings_have_their_class() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("wrong");
    let ran = compile_and_run(&scratch, "wrong.f90", &["-Wall"], "2").expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("wrong is right\n", ""), "{ran}");
    for (argument, status, line) in [
        ("type", 3, "tutti: rank 0: MPI_Send: datatype 0x3039 is freed or was never one (MPI_ERR_TYPE)\n"),
        (
            "key",
            31,
            "tutti: rank 0: MPI_Info_set: key has 300 bytes, expected at most 255 (MPI_ERR_INFO_KEY)\n",
        ),
    ] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "1", "./program", argument]).current_dir(scratch.path());
        let ran = run(&mut mpiexec, LIMIT);
        // One line of the rank and one of the launcher, whichever is printed first.
        let is_told = ran.stderr.contains(line) && ran.stderr.contains(") ended the job with code ");
        assert_eq!(ran.stderr.lines().count(), 2, "{ran}");
        assert!(ran.code() == status && is_told, "{ran}");
    }
}
