//! What programs can do with the bindings. Each program checks itself and ends with a line that says ok.

use super::{compile_and_run, has_compiler};
use tutti_tests::Scratch;

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
