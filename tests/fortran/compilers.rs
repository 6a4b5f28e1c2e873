//! `mpifort`: which compiler it runs, where module files come from, and what it refuses.

use super::{LIMIT, has_compiler, mpifort, source};
use std::path::Path;
use std::process::Command;
use tutti_tests::{Scratch, dist, program, root, run};

#[test]
fn fortran_wrapper_refuses_large_integers_in_one_line() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("integers");
    for option in ["-fdefault-integer-8", "-i8"] {
        let ran = run(mpifort(&scratch).arg(option).arg(source("basics.f")), LIMIT);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
        assert!(ran.stderr.contains("4 bytes"), "{ran}");
    }
    // Without the wrapper the header itself is an error.
    let mut gfortran = Command::new("gfortran");
    gfortran.args(["-fdefault-integer-8", "-c"]).arg(format!("-I{}/include", dist().display()));
    let ran = run(gfortran.arg(source("basics.f")).current_dir(scratch.path()), LIMIT);
    assert!(ran.code() != 0 && ran.stderr.contains("mpif.h:4"), "{ran}");
}

#[test]
fn fortran_wrapper_names_a_missing_compiler_in_one_line() {
    let scratch = Scratch::new("no-compiler");
    // What the wrapper itself needs is there, and no compiler.
    let tools = scratch.path().join("tools");
    std::fs::create_dir(&tools).expect("a folder");
    for tool in ["sh", "sed", "readlink", "tr"] {
        let places = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(tool));
        let place = places.into_iter().find(|place| place.exists()).expect("a tool of every system");
        std::os::unix::fs::symlink(place, tools.join(tool)).expect("a link");
    }
    for (option, name) in [(None, "gfortran"), (Some("-fc=nofort"), "nofort")] {
        for what in ["-c", "-show"] {
            let mut compile = mpifort(&scratch);
            compile.env("PATH", &tools).args(option).arg(what).arg(source("basics.f"));
            let ran = run(&mut compile, LIMIT);
            let line = format!(
                "mpifort: there is no Fortran compiler {name} here; install gfortran, or name another with -fc= or FC\n"
            );
            assert_eq!((ran.code(), &*ran.stdout, &*ran.stderr), (1, "", &*line), "{what}");
        }
    }
}

/// A compiler of another version: the same one, which says another number.
fn other_version(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.path().join("other-gfortran");
    let text = "#!/bin/sh\n[ \"$*\" != -dumpversion ] || { echo 99; exit; }\nexec gfortran \"$@\"\n";
    std::fs::write(&path, text).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("its mode");
    path
}

#[test]
fn fortran_modules_are_made_once_for_another_compiler() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("modules");
    let compiler = other_version(&scratch);
    let cache = scratch.path().join("cache");
    let mut first: Vec<_> = (0..4)
        .map(|at| {
            let mut compile = mpifort(&scratch);
            compile.env("FC", &compiler).env("XDG_CACHE_HOME", &cache);
            compile.arg("-c").arg(source("basics_f08.f90")).args(["-o", &format!("{at}.o")]);
            compile.spawn().expect("mpifort starts")
        })
        .collect();
    assert!(first.iter_mut().all(|child| child.wait().expect("it ends").success()));
    let made: Vec<_> = std::fs::read_dir(cache.join("tutti/fortran")).expect("a cache").flatten().collect();
    assert_eq!(made.len(), 1, "one set of files, nothing half made: {made:?}");
    assert!(made[0].file_name().to_string_lossy().starts_with("gfortran-99-"), "{made:?}");
    let shown = run(mpifort(&scratch).env("FC", &compiler).env("XDG_CACHE_HOME", &cache).arg("-show"), LIMIT);
    assert!(shown.expect_success().stdout.contains(made[0].path().to_str().expect("UTF-8")));
}

#[test]
fn fortran_wrapper_needs_no_home() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("homeless");
    let compiler = other_version(&scratch);
    let mut compile = mpifort(&scratch);
    compile.env("FC", &compiler).env_remove("XDG_CACHE_HOME").env("HOME", "/nonexistent/home");
    compile.env("TMPDIR", scratch.path()).arg("-c").arg(source("basics.f90"));
    run(&mut compile, LIMIT).expect_success();
}

#[test]
fn fortran_flags_of_pkg_config_build_a_running_program() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("pkg-config");
    let mut pkg_config = Command::new("pkg-config");
    pkg_config
        .args(["--cflags", "--libs", "mpi-fort"])
        .env("PKG_CONFIG_PATH", dist().join("share/pkgconfig"));
    let flags = run(&mut pkg_config, LIMIT).expect_success().stdout;
    let mut gfortran = Command::new("gfortran");
    gfortran.arg(source("basics_f08.f90")).args(flags.split_whitespace()).args(["-o", "program"]);
    run(gfortran.current_dir(scratch.path()), LIMIT).expect_success();
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2", "./program"]).current_dir(scratch.path());
    assert_eq!(run(&mut mpiexec, LIMIT).expect_success().stdout.trim(), "ok");
}

#[test]
fn fortran_cmake_finds_mpi_with_both_modules() {
    if Command::new("cmake").arg("--version").output().is_err() {
        tutti_testkit::skip(tutti_testkit::Need::Cmake, "cmake is not installed");
        return;
    }
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("tests/fortran/cmake")).arg("-B").arg(scratch.path());
    let path = std::env::var("PATH").unwrap_or_default();
    configure.env("PATH", format!("{}/bin:{path}", dist().display())).env_remove("MPI_HOME").env_remove("FC");
    let ran = run(&mut configure, LIMIT).expect_success();
    assert!(ran.stdout.contains("header TRUE mpi TRUE mpi_f08 TRUE"), "{ran}");
    run(Command::new("cmake").arg("--build").arg(scratch.path()), LIMIT).expect_success();
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2", "./basics"]).current_dir(scratch.path());
    assert_eq!(run(&mut mpiexec, LIMIT).expect_success().stdout.trim(), "ok");
}
