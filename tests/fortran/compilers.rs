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

/// An installed tree, and a compiler that came after it.
#[test]
fn fortran_compiler_of_another_version_is_installed_into_the_tree() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("install-modules");
    let tree = scratch.path().join("tree");
    run(Command::new("cp").arg("-a").arg(dist()).arg(&tree), LIMIT).expect_success();
    let compiler = other_version(&scratch);
    let mut install = Command::new(tree.join("bin/mpifort"));
    install.arg("-showme:install").env("FC", &compiler);
    let ran = run(&mut install, LIMIT).expect_success();
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "mpi-fort"]).env("PKG_CONFIG_PATH", tree.join("share/pkgconfig"));
    let flags = run(&mut pkg_config, LIMIT).expect_success().stdout;
    let modules = flags.split_whitespace().find(|flag| flag.ends_with("gfortran-99")).expect("its folder");
    assert!(Path::new(modules.trim_start_matches("-I")).join("mpi.mod").exists(), "{flags}");
    // The wrapper takes them from there.
    let mut shown = Command::new(tree.join("bin/mpifort"));
    shown.arg("-show").env("FC", &compiler).env("XDG_CACHE_HOME", scratch.path().join("cache"));
    assert!(run(&mut shown, LIMIT).expect_success().stdout.contains("tree/lib/tutti/fortran/gfortran-99"));
}

#[test]
fn fortran_cmake_finds_mpi_with_both_modules() {
    if !tutti_testkit::has_command(tutti_testkit::Need::Cmake, "cmake") || !has_compiler() {
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
