//! Options that change the kinds of reals (`-fdefault-real-8`): datatypes follow them, in all three ways to
//! use MPI.

use super::{LIMIT, has_compiler, mpifort, source};
use std::process::Command;
use tutti_tests::{Scratch, dist, program, run};

const FACES: [&str; 3] = ["-DFACE=1", "-DFACE=2", "-DFACE=3"];

#[track_caller]
fn is_ok(options: &[&str], faces: &[&str]) {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new(&format!("kinds{}", options.concat()));
    for face in faces {
        let mut compile = mpifort(&scratch);
        compile.env("XDG_CACHE_HOME", scratch.path().join("cache"));
        compile.args(options).arg(face).arg(source("kinds.F90")).args(["-Wall", "-o", "program"]);
        let compiled = run(&mut compile, LIMIT).expect_success();
        assert_eq!(compiled.stderr, "", "{options:?} {face}");
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "2", "./program"]).current_dir(scratch.path());
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert_eq!(ran.stdout.trim(), "ok", "{options:?} {face}: {ran}");
    }
}

#[test]
fn fortran_datatypes_follow_default_real_8_in_all_faces() {
    is_ok(&[], &FACES);
    is_ok(&["-fdefault-real-8"], &FACES);
    is_ok(&["-fdefault-double-8", "-fdefault-real-8"], &FACES);
}

#[test]
fn fortran_datatypes_follow_every_option_that_changes_reals() {
    for option in
        ["-fdefault-real-10", "-fdefault-real-16", "-freal-4-real-8", "-freal-4-real-10", "-freal-4-real-16"]
    {
        is_ok(&[option], &FACES[..1]);
        is_ok(&[option], &FACES[2..]);
    }
}

#[test]
fn fortran_units_with_and_without_larger_reals_meet() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("kinds-meet");
    let mut compile = mpifort(&scratch);
    compile.args(["-fdefault-real-8", "-c"]).arg(source("kinds_large.f90"));
    run(&mut compile, LIMIT).expect_success();
    let mut compile = mpifort(&scratch);
    compile.arg(source("kinds_plain.f90")).args(["kinds_large.o", "-o", "program"]);
    run(&mut compile, LIMIT).expect_success();
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2", "./program"]).env("TUTTI_CHECK", "1").current_dir(scratch.path());
    let ran = run(&mut mpiexec, LIMIT).expect_success();
    assert_eq!((ran.stdout.trim(), &*ran.stderr), ("ok", ""), "{ran}");
}

#[test]
fn fortran_options_in_the_name_of_the_compiler_count() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("kinds-named");
    let mut shown = mpifort(&scratch);
    shown.env("FC", "gfortran -fdefault-real-8").args(["-show", "a.f90"]);
    let shown = run(&mut shown, LIMIT).expect_success();
    assert!(shown.stdout.matches("-fdefault-real-8 ").count() == 2, "{shown}");
    let folders = std::fs::read_dir(dist().join("lib/tutti/fortran")).expect("module files").flatten();
    let folders: Vec<String> =
        folders.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    for end in ["-fdefault-real-8", "-fdefault-real-8-fdefault-double-8"] {
        assert!(folders.iter().any(|folder| folder.ends_with(end)), "{end} among {folders:?}");
    }
}

#[test]
fn fortran_wrapper_refuses_smaller_or_larger_real_8_in_one_line() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("kinds-refused");
    let ran = run(mpifort(&scratch).arg("-freal-8-real-16").arg(source("basics.f")), LIMIT);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.contains("-freal-8-real-16: MPI_Wtime gives a REAL(8)"), "{ran}");
    let mut gfortran = Command::new("gfortran");
    gfortran.args(["-freal-8-real-16", "-c"]).arg(format!("-I{}/include", dist().display()));
    let ran = run(gfortran.arg(source("basics.f")).current_dir(scratch.path()), LIMIT);
    assert!(ran.code() != 0 && ran.stderr.contains("mpif.h:"), "{ran}");
}
