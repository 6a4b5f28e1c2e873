//! Programs of other MPIs whose launcher something hides from them: worlds of one rank, but not in silence.

use std::path::Path;
use std::process::Command;

use tutti_tests::{Ran, Scratch, peers, program};

use crate::harness::run;
use crate::{mpich, open_mpi};

/// Two ranks that start a program of MPI without these variables, and end it when mpiexec has said so.
#[track_caller]
fn hidden(scratch: &Scratch, options: &str, environment: &str, file: &Path) -> Ran {
    let (mpiexec, folder) = (program("mpiexec"), scratch.path());
    let mpiexec = mpiexec.get_program().to_string_lossy().into_owned();
    let rank = format!(
        "env {environment} {} wait & until grep -q \"world of size 1\" errors || ! kill -0 $!; do sleep 0.02; done; kill $!; wait; true",
        file.display()
    );
    let script = format!("{mpiexec} {options} -n 2 sh -c '{rank}' 2>errors; cat errors >&2");
    run(Command::new("sh").args(["-c", &script]).current_dir(folder)).expect_success()
}

#[track_caller]
fn expect_line(ran: &Ran, library: &str, cause: &str) {
    assert_eq!(ran.stdout.matches("of 1, ").count(), ran.stdout.lines().count(), "{ran}");
    let line = ran.stderr.lines().find(|line| line.starts_with("mpiexec: foreign (pid ")).unwrap_or_default();
    assert!(line.contains(library) && line.contains(cause), "{ran}");
    assert_eq!(ran.stderr.matches("world of size 1").count(), 1, "{ran}");
}

const TAKEN: &str = "is not in its environment: sudo, su, env -i";

#[test]
fn mpich_ranks_whose_variables_a_wrapper_drops_run_alone_with_a_line() {
    let scratch = Scratch::new("unserved-mpich");
    let Some(file) = mpich::compiled(&scratch) else { return };
    for options in ["--own-mpi", "", "--own-mpi --virtual-nodes 2"] {
        let ran = hidden(&scratch, options, "-i", &file);
        expect_line(&ran, "runs on MPICH's library as a world of size 1", TAKEN);
    }
}

#[test]
fn open_mpi_ranks_that_no_pmix_server_reaches_run_alone_with_a_line() {
    let scratch = Scratch::new("unserved-open-mpi");
    let (Some(libpmix), Some(file)) = (open_mpi::libpmix(), open_mpi::compiled_from(&scratch, "foreign"))
    else {
        return;
    };
    let prefix = match peers::open_mpi() {
        Some(prefix) => format!("OPAL_PREFIX={}", prefix.display()),
        None => String::new(),
    };
    let (library, unseen) =
        ("runs on Open MPI's library as a world of size 1", "TUTTI_LIBPMIX=libpmix.so.2 mpiexec");
    expect_line(&hidden(&scratch, "", &prefix, &file), library, unseen);
    let served = format!("-genv TUTTI_LIBPMIX {}", libpmix.display());
    // Open MPI 5.0 does not begin without the user's folder.
    let little = format!("-i HOME={} {prefix}", scratch.path().display());
    expect_line(&hidden(&scratch, &served, &little, &file), library, TAKEN);
}

/// Silence about one rank, which is alone anyway, and about programs that may be.
#[test]
fn mpich_rank_that_may_be_alone_has_no_line() {
    let scratch = Scratch::new("unserved-wanted");
    let Some(file) = mpich::compiled(&scratch) else { return };
    let file = file.to_str().expect("UTF-8");
    for words in [
        &["-n", "1", "--own-mpi", "env", "-i"][..],
        &["-n", "2", "--own-mpi", "env", "-i", "TUTTI_SINGLETON=1"],
    ] {
        // Longer than the first looks.
        let script = ["sh", "-c", "\"$@\" wait & sleep 0.5; kill $!; wait; true", "sh"];
        let (options, below) = words.split_at(3);
        let ran = run(program("mpiexec").args(options).args(script).args(below).arg(file)).expect_success();
        assert_eq!(ran.stderr, "", "{ran}");
    }
}
