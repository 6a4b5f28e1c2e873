//! Binaries of the MPI-5 ABI go both ways: what MPICH's `mpicc_abi` compiled runs on our library, and ours on MPICH's.
//!
//! MPICH is the wheel from PyPI, version pinned, in `target/peers/mpich` (the place that the bench uses too). Where it cannot be
//! had, the tests say so in one line and pass.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::{LIMIT, library};
use tutti_tests::{Scratch, compile, program, root, run};

/// Where MPICH stands, installed if need be; `None` when it cannot be had.
fn mpich() -> Option<&'static PathBuf> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE
        .get_or_init(|| {
            let place = root().join("target/peers/mpich");
            if place.join("bin/mpicc_abi").is_file() {
                return Some(place);
            }
            // Several test processes may install at once: each into a folder of its own, the first one to be ready is kept.
            let own = root().join(format!("target/peers/mpich-{}", std::process::id()));
            let mut pip = Command::new("python3");
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--retries",
                "1",
            ]);
            let ran = run(pip.arg("--prefix").arg(&own).args(["--ignore-installed", "mpich==5.0.2"]), LIMIT);
            let usable = own.join("bin/mpicc_abi").is_file();
            let kept =
                usable && (std::fs::rename(&own, &place).is_ok() || place.join("bin/mpicc_abi").is_file());
            let _ = std::fs::remove_dir_all(&own);
            if !kept {
                let why = ran.stderr.lines().last().unwrap_or("no reason given").to_owned();
                eprintln!("skipped: MPICH's wheel from PyPI cannot be had ({why})");
            }
            kept.then_some(place)
        })
        .as_ref()
}

#[test]
fn a_program_compiled_by_mpich_for_the_abi_runs_on_our_library() {
    let Some(mpich) = mpich() else { return };
    let scratch = Scratch::new("theirs-on-ours");
    let ring = scratch.path().join("ring");
    let mut mpicc = Command::new(mpich.join("bin/mpicc_abi"));
    run(mpicc.arg("-o").arg(&ring).arg(root().join("examples/ring.c")), LIMIT).expect_success();
    // Its RUNPATH leads to MPICH's library; LD_LIBRARY_PATH, which goes first, to ours.
    let ours = library("libmpi_abi.so.1");
    let folder = ours.parent().expect("a library stands in a folder");
    let mut mpiexec = program("mpiexec");
    let ran =
        run(mpiexec.env("LD_LIBRARY_PATH", folder).args(["-n", "2"]).arg(&ring), LIMIT).expect_success();
    assert!(ran.stdout.contains("over 2 ranks: token 1000, as expected"), "{ran}");
}

#[test]
fn a_program_compiled_by_us_runs_on_mpichs_library() {
    let Some(mpich) = mpich() else { return };
    let scratch = Scratch::new("ours-on-theirs");
    let ring = compile("examples/ring.c", scratch.path());
    let mut mpiexec = Command::new(mpich.join("bin/mpiexec"));
    let ran = run(mpiexec.env("LD_LIBRARY_PATH", mpich.join("lib")).args(["-n", "2"]).arg(&ring), LIMIT)
        .expect_success();
    assert!(ran.stdout.contains("over 2 ranks: token 1000, as expected"), "{ran}");
}
