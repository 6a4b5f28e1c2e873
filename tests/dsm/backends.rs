//! Ways in which accesses to shared memory are noticed, `TUTTI_DSM_BACKEND`: results are the same by each,
//! and where the system refuses one the other does. The rights on pages:
//! `crates/dsm/src/permissions/tests.rs`.

use std::path::{Path, PathBuf};

use tutti_testkit::{Need, skip_part};
use tutti_tests::{Ran, Scratch, has_plugin, program, root, run};

use super::rcop::{arguments_for, compile};
use super::{LIMIT, PROGRAMS, digest, launch, sum_of};

const VARIABLE: &str = "TUTTI_DSM_BACKEND";
const BACKENDS: [&str; 2] = ["mprotect", "userfaultfd"];
/// The line that says that userfaultfd is refused.
const REFUSED: &str = "userfaultfd is refused on ";

/// A run with a back end, and counts for programs; `before` stands before the program.
fn launch_by(
    backend: &str,
    before: &[&Path],
    compiled: &Path,
    (ranks, nodes): (u32, u32),
    arguments: &[&str],
) -> Ran {
    let mut command = program("mpiexec");
    if !backend.is_empty() {
        command.env(VARIABLE, backend);
    }
    command.env("TUTTI_STATS", "json").args([
        "-n",
        &ranks.to_string(),
        "--virtual-nodes",
        &nodes.to_string(),
    ]);
    run(command.args(before).arg(compiled).args(arguments), LIMIT).expect_success()
}

/// Calls of the kernel by mprotect, and by userfaultfd, of all ranks.
fn calls(ran: &Ran) -> [u64; 2] {
    ["mprotect_calls", "userfaultfd_calls"].map(|name| sum_of(&ran.stderr, name))
}

/// Whether the kernel here has userfaultfd: else the part of the test is skipped.
fn has_userfaultfd(ran: &Ran) -> bool {
    let is_refused = ran.stderr.contains(REFUSED);
    if is_refused {
        skip_part(Need::Kernel, "userfaultfd is refused here");
    }
    !is_refused
}

#[test]
fn dsm_programs_give_the_sequential_result_by_each_back_end() {
    let scratch = Scratch::new("dsm-backends");
    let modes: &[(&str, (u32, u32))] = match has_plugin() {
        true => &[("--dsm=twin", (4, 2)), ("--dsm=adsm", (2, 2)), ("--dsm=udsm", (2, 2))],
        false => &[("--dsm=twin", (4, 2))],
    };
    for (source, arguments) in PROGRAMS {
        let mut alone = None;
        for &(mode, (ranks, nodes)) in modes {
            let compiled = compile(source, &[mode], scratch.path());
            let of = |ranks| arguments_for(arguments, ranks);
            let [one, all] = [of(1), of(ranks)];
            let [one, all] = [&one, &all].map(|words| words.iter().map(String::as_str).collect::<Vec<_>>());
            let alone = alone.get_or_insert_with(|| digest(launch(&compiled, 1, 1, &one)));
            for (place, backend) in BACKENDS.into_iter().enumerate() {
                let ran = launch_by(backend, &[], &compiled, (ranks, nodes), &all);
                if backend == "userfaultfd" && !has_userfaultfd(&ran) {
                    continue;
                }
                let calls = calls(&ran);
                assert!(calls[place] > 0 && calls[1 - place] == 0, "{mode} {backend}: {calls:?}: {ran}");
                assert_eq!(digest(ran), *alone, "{source} {mode} by {backend}");
            }
        }
    }
}

fn compile_c(source: &str, scratch: &Scratch) -> PathBuf {
    let compiled = scratch.path().join("forbid");
    let mut command = std::process::Command::new("cc");
    command.args(["-O2", "-Wall", "-Wextra", "-Werror"]).arg(root().join(source)).arg("-o").arg(&compiled);
    run(&mut command, LIMIT).expect_success();
    compiled
}

#[test]
fn dsm_back_end_that_the_system_refuses_is_named_once_to_its_asker() {
    let scratch = Scratch::new("dsm-refused");
    let forbid = compile_c("tests/dsm/programs/forbid.c", &scratch);
    let compiled = compile("examples/shared/queue.c", &["--dsm=twin"], scratch.path());
    let alone = digest(launch(&compiled, 1, 1, &["60", "1"]));
    for (backend, lines) in [("userfaultfd", 1), ("mprotect", 0), ("", 0)] {
        let ran = launch_by(backend, &[&forbid], &compiled, (3, 3), &["60", "3"]);
        assert_eq!(ran.stderr.matches(REFUSED).count(), lines, "{backend}: {ran}");
        let expected = "on 3 of 3 ranks, first rank 0 (Operation not permitted";
        assert!(lines == 0 || ran.stderr.contains(expected), "{ran}");
        let [by_mprotect, by_userfaultfd] = calls(&ran);
        assert!(by_mprotect > 0 && by_userfaultfd == 0, "{backend}: {ran}");
        assert_eq!(digest(ran), alone, "{backend}");
    }
    // A node alone has no protocol, so none of both.
    let ran = launch_by("userfaultfd", &[&forbid], &compiled, (2, 1), &["60", "2"]);
    assert!(!ran.stderr.contains(REFUSED), "{ran}");
    assert_eq!(digest(ran), alone);
}

/// Both back ends keep to what was set when the kernel drops entries of pages, and calls of the system find
/// the memory all the same.
#[test]
fn dsm_memory_whose_entries_the_kernel_drops_is_right_in_loads_stores_and_calls() {
    let scratch = Scratch::new("dsm-dropped");
    let options = ["--dsm=twin", "-pthread"];
    let compiled = compile("tests/dsm/programs/dropped.c", &options, scratch.path());
    for backend in BACKENDS {
        let ran = launch_by(backend, &[], &compiled, (2, 2), &[]);
        assert_eq!(ran.stdout, "dropped: 0 wrong\n", "{backend}: {ran}");
    }
}
