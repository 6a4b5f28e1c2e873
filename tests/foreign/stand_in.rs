//! Binaries of MPICH on our library: as their own compiler wrapper made them, without a setting.

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_testkit::{Need, skip};
use tutti_tests::{LIMIT, Ran, Scratch, program, root, run as run_within};

use crate::harness::run;
use crate::mpich::{compiled, compiled_by, compiled_from, expect_ranks, rounds};
use crate::open_mpi::compiled_without_mpi;

#[track_caller]
fn mpiexec(words: &[&str], file: &Path, more: &[&str]) -> Ran {
    run(program("mpiexec").args(words).arg(file).args(more))
}

#[test]
fn mpich_binary_runs_on_our_library_on_nodes() {
    let scratch = Scratch::new("stand-in-nodes");
    let Some(file) = compiled(&scratch) else { return };
    for ranks in [1, 2, 4] {
        expect_ranks(&mpiexec(&["-n", &ranks.to_string()], &file, &[]).expect_success(), ranks, &[ranks; 4]);
    }
    let ran = mpiexec(&["-n", "3", "--virtual-nodes", "2"], &file, &[]).expect_success();
    expect_ranks(&ran, 3, &[2, 2, 1]);
}

#[test]
fn mpich_binary_has_the_numbers_of_its_header() {
    let scratch = Scratch::new("stand-in-interface");
    let Some(file) = compiled_from(&scratch, "interface") else { return };
    let name = scratch.path().join("data");
    let name = name.to_str().expect("UTF-8");
    for (ranks, nodes) in [("1", "1"), ("2", "1"), ("3", "1"), ("4", "2")] {
        let ran = mpiexec(&["-n", ranks, "--virtual-nodes", nodes], &file, &[name]);
        assert_eq!(
            (ran.code(), &*ran.stdout, &*ran.stderr),
            (0, "interface: all right\n", ""),
            "{ranks}: {ran}"
        );
    }
}

#[test]
fn mpich_binary_calls_functions_that_newer_standards_have_removed() {
    let scratch = Scratch::new("stand-in-removed");
    let Some(file) = compiled_from(&scratch, "removed") else { return };
    let ran = mpiexec(&["-n", "1"], &file, &[]);
    assert_eq!((ran.code(), &*ran.stdout, &*ran.stderr), (0, "removed: all right\n", ""), "{ran}");
}

/// Facts beyond the standard on which MPICH's libraries of other languages rely.
#[test]
fn mpich_library_of_ours_serves_those_of_fortran_and_cxx() {
    let scratch = Scratch::new("stand-in-languages");
    let Some(file) = compiled_from(&scratch, "languages") else { return };
    let ran = mpiexec(&["-n", "1"], &file, &[]);
    assert_eq!((ran.code(), &*ran.stdout, &*ran.stderr), (0, "languages: all right\n", ""), "{ran}");
}

/// A program in Fortran as one of MPICH's compilers would make it; `None` without a compiler.
fn compiled_fortran(scratch: &Scratch, name: &str) -> Option<PathBuf> {
    let sources = root().join("tests/foreign/fortran");
    let compile = |words: &[&str], file: &Path| {
        let mut command = Command::new("gfortran");
        run_within(command.args(words).arg(file).current_dir(scratch.path()), LIMIT)
    };
    if Command::new("gfortran").arg("--version").output().is_err() {
        skip(Need::Fortran, "no gfortran");
        return None;
    }
    compile(&["-fsyntax-only"], &sources.join("mpich_modules.f90")).expect_success();
    let mpich = root().join("target/dist/lib/tutti/mpich");
    let libraries = [mpich.clone(), mpich.join("mpifort")].map(|folder| format!("-L{}", folder.display()));
    let (file, words) = (
        scratch.path().join(name.split('.').next().expect("a name")),
        [
            "-w",
            "-fallow-argument-mismatch",
            "-Wl,--no-as-needed,--allow-shlib-undefined",
            &libraries[0],
            &libraries[1],
        ],
    );
    let out = file.to_str().expect("UTF-8");
    let linked = ["-l:libmpifort.so.12", "-l:libmpi.so.12", "-o", out];
    compile(&[&words[..], &linked[..]].concat(), &sources.join(name)).expect_success();
    Some(file)
}

#[test]
fn mpich_program_in_fortran_without_its_library_runs_on_ours() {
    let scratch = Scratch::new("stand-in-fortran");
    for name in ["mpich_f77.f", "mpich_f08.f90"] {
        let Some(file) = compiled_fortran(&scratch, name) else { return };
        let right = format!("{}: all right\n", file.file_name().expect("a name").to_string_lossy());
        for (ranks, nodes) in [("1", "1"), ("2", "1"), ("4", "2")] {
            let ran = mpiexec(&["-n", ranks, "--virtual-nodes", nodes], &file, &[]);
            assert_eq!((ran.code(), &*ran.stdout, &*ran.stderr), (0, &*right, ""), "{ranks}: {ran}");
        }
    }
}

/// The number of the caller, not what it became on its way.
#[test]
fn mpich_binary_finds_its_own_numbers_in_errors() {
    let scratch = Scratch::new("stand-in-numbers");
    let Some(file) = compiled_from(&scratch, "numbers") else { return };
    let ran = mpiexec(&["-n", "1"], &file, &[]).expect_success();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let expected = [
        "tag is -5,",
        "rank is -77,",
        "split_type is 99,",
        "order is 98,",
        "array_of_distribs[0] is 97,",
        "lock_type is 999,",
        "typeclass is 96,",
        "assert is 0x70000000,",
        "key 0x3039 is freed",
        // Ours of MPI_ANY_TAG: no number of MPICH's.
        "MPI_ERR_TAG",
    ];
    assert_eq!(lines.len(), expected.len(), "{ran}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{expected}: {ran}");
    }
}

#[test]
fn mpich_binary_and_one_of_ours_are_one_job() {
    let scratch = Scratch::new("stand-in-both");
    let Some(theirs) = compiled(&scratch) else { return };
    let folder = scratch.path().join("ours");
    std::fs::create_dir(&folder).expect("a fresh folder");
    let ours = tutti_tests::compile("tests/foreign/c/foreign.c", &folder);
    let words =
        [Path::new("-n"), Path::new("1"), &ours, Path::new(":"), Path::new("-n"), Path::new("2"), &theirs];
    expect_ranks(&run(program("mpiexec").args(words)).expect_success(), 3, &[3; 3]);
}

/// End of the line about a job that runs on our library through this interface.
const THROUGH_MPICH: &str = "Tutti's library, through MPICH's interface (libmpi.so.12)";

/// Lines about libraries, sorted.
fn libraries(ran: &Ran) -> Vec<&str> {
    let mut lines: Vec<&str> = ran.stderr.lines().filter_map(|line| line.split(" run on ").nth(1)).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn mpich_binary_is_distinguished_by_the_way_it_begins() {
    const OURS: &str = "Tutti's library";
    let scratch = Scratch::new("stand-in-told");
    let folder = scratch.path().join("ours");
    std::fs::create_dir(&folder).expect("a fresh folder");
    let (Some(world), Some(session)) = (compiled(&scratch), compiled_from(&scratch, "session")) else {
        return;
    };
    let ours = |name: &str| tutti_tests::compile(&format!("tests/foreign/c/{name}.c"), &folder);
    for (ours, theirs) in [(ours("foreign"), world), (ours("session"), session)] {
        let launch = |words: &[&Path]| run(program("mpiexec").arg("-v").args(words)).expect_success();
        assert_eq!(libraries(&launch(&[&ours])), [OURS]);
        assert_eq!(libraries(&launch(&[&theirs])), [THROUGH_MPICH]);
        // A wrapper has neither face.
        let script = format!("exec '{}'", theirs.display());
        assert_eq!(libraries(&launch(&["sh".as_ref(), "-c".as_ref(), script.as_ref()])), [THROUGH_MPICH]);
        let both = [
            Path::new("-n"),
            Path::new("1"),
            &ours,
            Path::new(":"),
            Path::new("-n"),
            Path::new("1"),
            &theirs,
        ];
        assert_eq!(libraries(&launch(&both)), [OURS, THROUGH_MPICH]);
    }
}

#[test]
fn mpich_binary_on_its_own_library_beside_one_of_ours_is_refused() {
    let ran = run(program("mpiexec").args(["-n", "1", "--own-mpi", "true", ":", "-n", "1", "true"]));
    assert_eq!(ran.code(), 2, "{ran}");
    assert!(ran.stderr.starts_with("mpiexec: --own-mpi stands at some of the programs"), "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
}

#[test]
fn mpich_binary_failure_ends_the_job_with_one_line() {
    let scratch = Scratch::new("stand-in-ends");
    let Some(file) = compiled(&scratch) else { return };
    for (how, status, line) in [
        ("abort", 7, ") called MPI_Abort(7)"),
        ("die", 137, ") was killed by signal 9"),
        ("leave", 1, ") exited without calling MPI_Finalize"),
    ] {
        let ran = mpiexec(&["-n", "2"], &file, &[how]);
        assert_eq!(ran.code(), status, "{how}: {ran}");
        assert!(ran.stderr.contains("rank 1 (pid ") && ran.stderr.contains(line), "{how}: {ran}");
    }
}

/// Ours passes no exception on, neither through this interface nor through its own: a line says so.
#[test]
fn mpich_binary_exception_of_a_callback_ends_the_job_with_one_line() {
    let scratch = Scratch::new("stand-in-throws");
    let folder = scratch.path().join("ours");
    std::fs::create_dir(&folder).expect("a fresh folder");
    let Some(theirs) = compiled_by("mpicxx", &scratch, "throws.cc") else { return };
    let ours = folder.join("throws");
    let source = root().join("tests/foreign/c/throws.cc");
    run(program("mpicxx").arg("-o").arg(&ours).arg(source)).expect_success();
    let said = "rank 0: an exception has left a function of the program that MPI calls";
    for file in [&theirs, &ours] {
        for how in ["handler", "deletion", "sum"] {
            let ran = mpiexec(&["-n", "1"], file, &[how]);
            let lines: Vec<&str> = ran.stderr.lines().collect();
            assert!(
                ran.code() == 134 && lines.len() == 2 && lines.iter().any(|line| line.contains(said)),
                "{how}: {ran}"
            );
        }
    }
}

#[test]
fn mpich_binary_starts_processes_also_on_several_nodes() {
    let scratch = Scratch::new("stand-in-spawn");
    let Some(file) = compiled_from(&scratch, "spawn") else { return };
    for nodes in [&[][..], &["--virtual-nodes", "2", "--universe", "6"]] {
        let ran = mpiexec(&[&["-n", "2"], nodes].concat(), &file, &[]).expect_success();
        assert_eq!(ran.stdout, rounds(4), "{ran}");
    }
}

/// Programs that open a library when they run know the interfaces of MPICH and Open MPI, not the standard's.
#[test]
fn mpich_library_of_ours_is_what_programs_open_as_libmpi() {
    let scratch = Scratch::new("stand-in-opened");
    let file = compiled_without_mpi(&scratch, "opens");
    let ran = mpiexec(&["-v", "-n", "2"], &file, &["libmpi.so"]).expect_success();
    assert_eq!(libraries(&ran), [THROUGH_MPICH], "{ran}");
}

/// Folders of the program go before LD_LIBRARY_PATH (DT_RPATH).
#[test]
fn mpich_binary_that_looks_into_its_own_folders_first_runs_on_our_library() {
    let scratch = Scratch::new("stand-in-rpath");
    let Some(mpich) = tutti_tests::peers::mpich() else { return };
    let file = scratch.path().join("rpath");
    // Its wrapper has the last word on the kind of path, so the compiler links it.
    let (include, lib) = (mpich.join("include"), mpich.join("lib"));
    let path = format!("-Wl,--disable-new-dtags,-rpath,{}", lib.display());
    let source = root().join("tests/foreign/c/interface.c");
    let mut compiler = Command::new("cc");
    compiler
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&file)
        .arg(source)
        .arg("-L")
        .arg(lib)
        .args(["-lmpi", &path]);
    tutti_tests::run(&mut compiler, LIMIT).expect_success();
    let dynamic = tutti_tests::run(Command::new("readelf").arg("-d").arg(&file), LIMIT).expect_success();
    assert!(dynamic.stdout.contains("(RPATH)"), "{dynamic}");
    let data = scratch.path().join("data");
    let ran = mpiexec(&["-n", "2"], &file, &[data.to_str().expect("UTF-8")]).expect_success();
    assert_eq!(ran.stdout, "interface: all right\n", "{ran}");
}

/// Names that a binary may need: a function that is missing would end a program when it is loaded.
#[test]
fn mpich_library_exports_every_name_of_the_real_one() {
    let Some(mpich) = tutti_tests::peers::mpich() else { return };
    let names = |file: &Path| {
        let listed =
            run_within(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(file), LIMIT)
                .expect_success();
        let names = listed.stdout.lines().filter_map(|line| Some(line.split([' ', '@']).next()?.to_owned()));
        names
            .filter(|name| ["MPI", "PMPI", "QMPI"].iter().any(|start| name.starts_with(start)))
            .collect::<Vec<_>>()
    };
    let ours = names(&root().join("target/dist/lib/tutti/mpich/libmpi.so.12"));
    let theirs = names(&mpich.join("lib/libmpi.so.12"));
    assert!(theirs.len() > 1500, "{}", theirs.len());
    let missing: Vec<&String> = theirs.iter().filter(|name| !ours.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
