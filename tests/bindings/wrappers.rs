//! `mpicc` and `mpicxx`: the options that build systems ask them, and what they add to a command; pkg-config
//! and CMake.

use super::{LIMIT, output, source, wrapper};
use std::process::Command;
use tutti_testkit::{Need, has_command};
use tutti_tests::{Scratch, dist, program, root, run};

/// The flags of the two steps, as one line.
fn flags() -> (String, String) {
    let dist = dist();
    let dist = dist.display();
    let link = format!("-L{dist}/lib -Wl,-rpath,{dist}/lib -Wl,--enable-new-dtags -lmpi_abi");
    (format!("-I{dist}/include"), link)
}

#[track_caller]
fn says(name: &str, arguments: &[&str], wanted: &str) {
    let scratch = Scratch::new("wrapper");
    let ran = wrapper(name, scratch.path(), arguments).expect_success();
    assert_eq!(ran.stdout.trim_end(), wanted, "{name} {arguments:?}");
}

#[test]
fn wrapper_answers_mpich_options() {
    let (compile, link) = flags();
    says("mpicc", &["-show"], &format!("cc {compile} {link}"));
    says("mpicxx", &["-show", "a.cc"], &format!("c++ a.cc {compile} {link}"));
    says("mpicc", &["-show", "-c", "a.c"], &format!("cc -c a.c {compile}"));
    says("mpicc", &["-compile_info"], &format!("cc {compile}"));
    says("mpicc", &["-link_info"], &format!("cc {compile} {link}"));
    says("mpicc", &["-cc=gcc-x", "-show", "-E", "a.c"], &format!("gcc-x -E a.c {compile}"));
    says("mpicc", &["-show", "-profile=tool", "-c", "a.c"], &format!("cc -c a.c {compile}"));
}

#[test]
fn wrapper_answers_open_mpi_options() {
    let (compile, link) = flags();
    let (include, lib) = (format!("{}/include", dist().display()), format!("{}/lib", dist().display()));
    for dashes in ["-", "--"] {
        let says = |what: &str, wanted: &str| says("mpicc", &[&format!("{dashes}{what}")], wanted);
        says("showme", &format!("cc {compile} {link}"));
        says("showme:command", "cc");
        says("showme:compile", &compile);
        says("showme:link", &link);
        says("showme:incdirs", &include);
        says("showme:libdirs", &lib);
        says("showme:libs", "mpi_abi");
        says("showme:version", &format!("mpicc: Tutti {} (Language: C)", env!("CARGO_PKG_VERSION")));
    }
    says("mpiCC", &["-showme:command"], "c++");
    says("mpic++", &["-showme:command"], "c++");
}

#[test]
fn wrapper_show_output_is_valid_shell() {
    let scratch = Scratch::new("quotes");
    let ran = wrapper("mpicc", scratch.path(), &["-show", "-c", "a file.c", "-DWORD=\"it's\"", ""])
        .expect_success();
    let words = output(
        Command::new("sh")
            .args(["-c", &format!("for w in {}; do echo \"[$w]\"; done", ran.stdout.trim_end())]),
    );
    assert!(words.starts_with("[cc]\n[-c]\n[a file.c]\n[-DWORD=\"it's\"]\n[]\n[-I"), "{words}");
}

#[test]
fn wrapper_compiler_comes_from_the_environment() {
    let scratch = Scratch::new("environment");
    let mut mpicc = program("mpicc");
    mpicc.arg("-showme:command").current_dir(scratch.path());
    mpicc.env_remove("TUTTI_CC").env("MPICH_CC", "from mpich").env("OMPI_CC", "from ompi");
    assert_eq!(output(&mut mpicc), "from mpich\n");
    assert_eq!(output(mpicc.env("TUTTI_CC", "ours")), "ours\n");
    assert_eq!(output(mpicc.arg("-cc=given")), "given\n");
}

#[test]
fn wrapper_compiler_queries_link_nothing() {
    let scratch = Scratch::new("questions");
    assert!(wrapper("mpicc", scratch.path(), &["--version"]).expect_success().stdout.starts_with("cc "));
    wrapper("mpicc", scratch.path(), &["-dumpversion"]).expect_success();
    let ran = wrapper("mpicc", scratch.path(), &["-v"]).expect_success();
    assert!(ran.stderr.starts_with("mpicc: Tutti "), "{ran}");
}

#[test]
fn wrapper_errors_are_one_line() {
    let scratch = Scratch::new("refusals");
    let file = source("version.c");
    for (name, arguments, word) in [
        ("mpicc", &["-static", file.to_str().expect("UTF-8")][..], "-static"),
        ("mpicc", &["-showme:nonsense"], "nonsense"),
        ("mpifort", &["-fc=no-such-compiler", "a.f90"], "no-such-compiler"),
        ("mpif90", &["-f90=no-such-compiler", "a.f90"], "no-such-compiler"),
        ("mpif77", &["-f77=no-such-compiler", "-show"], "no-such-compiler"),
    ] {
        let ran = wrapper(name, scratch.path(), arguments);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{name} {arguments:?}: {ran}");
        assert!(ran.stderr.contains(word), "{name} {arguments:?}: {ran}");
    }
}

#[test]
fn wrapper_works_in_a_moved_tree_and_through_a_link() {
    let scratch = Scratch::new("moved");
    let moved = scratch.path().join("a new place");
    output(Command::new("cp").arg("-a").arg(dist()).arg(&moved));
    let link = scratch.path().join("my-mpicc");
    std::os::unix::fs::symlink(moved.join("bin/mpicc"), &link).expect("a link");
    output(Command::new(&link).arg(source("version.c")).arg("-o").arg(scratch.path().join("version")));
    let mut version = Command::new(scratch.path().join("version"));
    let said = output(version.env_remove("LD_LIBRARY_PATH"));
    assert!(said.starts_with("ABI 1.0"), "{said}");
}

#[test]
fn pkg_config_flags_build_a_running_program() {
    let scratch = Scratch::new("pkg-config");
    let of_shmem = scratch.path().join("pe.c");
    let text = "#include <shmem.h>\n#include <stdio.h>\nint main(void)\n{\n    shmem_init();\n    \
                printf(\"PE %d\\n\", shmem_my_pe());\n    shmem_finalize();\n    return 0;\n}\n";
    std::fs::write(&of_shmem, text).expect("a file in the scratch folder");
    for package in ["mpi", "mpi-c", "mpi-cxx", "tutti", "oshmem"] {
        let (source, says) =
            if package == "oshmem" { (of_shmem.clone(), "PE 0") } else { (source("version.c"), "ABI 1.0") };
        let mut pkg_config = Command::new("pkg-config");
        pkg_config
            .args(["--cflags", "--libs", package])
            .env("PKG_CONFIG_PATH", dist().join("share/pkgconfig"));
        let flags = output(&mut pkg_config);
        let mut cc = Command::new("cc");
        cc.arg(source).args(flags.split_whitespace()).args(["-o", "program"]);
        output(cc.current_dir(scratch.path()));
        assert!(output(&mut Command::new(scratch.path().join("program"))).starts_with(says), "{package}");
    }
}

#[test]
fn cmake_finds_mpi() {
    if !has_command(Need::Cmake, "cmake") || !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cmake");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("tests/bindings/cmake")).arg("-B").arg(scratch.path());
    // As users do it: our folder comes first on the path.
    let path = std::env::var("PATH").unwrap_or_default();
    configure.env("PATH", format!("{}/bin:{path}", dist().display())).env_remove("MPI_HOME");
    let ran = run(&mut configure, LIMIT).expect_success();
    assert!(ran.stdout.contains("Found MPI_C") && ran.stdout.contains("lib/libmpi_abi.so"), "{ran}");
    output(Command::new("cmake").arg("--build").arg(scratch.path()));
    for name in ["with_c", "with_cxx"] {
        assert!(output(&mut Command::new(scratch.path().join(name))).starts_with("ABI 1.0"));
    }
}
