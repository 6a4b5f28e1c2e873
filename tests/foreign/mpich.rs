//! Binaries of MPICH, from its wheel or from a package of the system, as their own compiler wrapper made
//! them, on their own library: by PMI.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_testkit::{Need, skip};
use tutti_tests::{Ran, Scratch, program, root};

use crate::harness::run;
use crate::open_mpi::compiled_without_mpi;

/// Our test program, compiled by an MPICH's own mpicc; `None` when there is none.
pub fn compiled(scratch: &Scratch) -> Option<PathBuf> {
    compiled_from(scratch, "foreign")
}

pub fn compiled_from(scratch: &Scratch, name: &str) -> Option<PathBuf> {
    compiled_by("mpicc", scratch, &format!("{name}.c"))
}

/// A program by one of its wrappers.
pub fn compiled_by(wrapper: &str, scratch: &Scratch, name: &str) -> Option<PathBuf> {
    let wrapper = match std::env::var_os("TUTTI_FOREIGN_MPICC") {
        Some(mpicc) => PathBuf::from(mpicc).with_file_name(wrapper),
        None => tutti_tests::peers::mpich()?.join("bin").join(wrapper),
    };
    let source = root().join("tests/foreign/c").join(name);
    let file = scratch.path().join(source.file_stem().expect("a name"));
    let mut command = std::process::Command::new(wrapper);
    // Libraries find variables that the program has under names of theirs, as those of another library.
    command.args(["-rdynamic", "-o"]).arg(&file).arg(source);
    tutti_tests::run(&mut command, Duration::from_secs(60)).expect_success();
    Some(file)
}

#[track_caller]
fn mpiexec(words: &[&str], file: &Path, more: &[&str]) -> Ran {
    run(program("mpiexec").arg("--own-mpi").args(words).arg(file).args(more))
}

/// Checks what `ranks` ranks say, so many of them on each node.
#[track_caller]
pub fn expect_ranks(ran: &Ran, ranks: usize, on_node: &[usize]) {
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    let sum = ranks * (ranks - 1) / 2;
    let expected: Vec<String> = (0..ranks)
        .map(|rank| {
            format!("rank {rank} of {ranks}, {} on its node, sum {sum}, last {}", on_node[rank], ranks - 1)
        })
        .collect();
    assert_eq!(lines, expected, "{ran}");
}

#[test]
fn mpich_program_runs_on_a_node() {
    let scratch = Scratch::new("mpich-node");
    let Some(file) = compiled(&scratch) else { return };
    for ranks in [1, 2, 4] {
        let ran = mpiexec(&["-n", &ranks.to_string()], &file, &[]).expect_success();
        expect_ranks(&ran, ranks, &[ranks; 4]);
        assert_eq!(ran.stderr, "");
    }
    let ran = mpiexec(&["-v", "-n", "2"], &file, &[]).expect_success();
    assert_eq!(ran.stderr.lines().filter(|line| *line == BY_PMI).count(), 1, "{ran}");
    // The same program on ours.
    let ran = run(program("mpiexec").args(["-v", "-n", "2"]).arg(&file)).expect_success();
    let ours = "mpiexec: ranks run on Tutti's library, through MPICH's interface (libmpi.so.12)";
    assert_eq!(ran.stderr.lines().filter(|line| *line == ours).count(), 1, "{ran}");
    // Several programs are one world.
    let file = file.to_str().expect("UTF-8");
    let ran = run(program("mpiexec").args(["--own-mpi", "-n", "1", file, ":", "--own-mpi", "-n", "2", file]))
        .expect_success();
    expect_ranks(&ran, 3, &[3; 3]);
}

#[test]
fn mpich_program_runs_on_virtual_nodes() {
    let scratch = Scratch::new("mpich-nodes");
    let Some(file) = compiled(&scratch) else { return };
    let ran = mpiexec(&["-n", "2", "--virtual-nodes", "2"], &file, &[]).expect_success();
    expect_ranks(&ran, 2, &[1, 1]);
    let ran = mpiexec(&["-n", "4", "--virtual-nodes", "2"], &file, &[]).expect_success();
    expect_ranks(&ran, 4, &[2; 4]);
    // Nodes of different size.
    let ran = mpiexec(&["-n", "3", "--virtual-nodes", "2"], &file, &[]).expect_success();
    expect_ranks(&ran, 3, &[2, 2, 1]);
}

#[test]
fn mpich_program_runs_between_network_namespaces() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::NetworkNamespace, "only root can make network namespaces");
        return;
    }
    let scratch = Scratch::new("mpich-netns");
    let Some(file) = compiled(&scratch) else { return };
    let ran = mpiexec(&["-n", "4", "--netns", "2"], &file, &[]).expect_success();
    expect_ranks(&ran, 4, &[2; 4]);
    // Left alone, its library goes through the memory that both nodes share. This is really the network.
    let mut command = program("mpiexec");
    command.env("MPIR_CVAR_CH4_NETMOD", "ofi").env("FI_PROVIDER", "tcp");
    let ran = run(command.args(["--own-mpi", "-n", "4", "--netns", "2"]).arg(&file)).expect_success();
    expect_ranks(&ran, 4, &[2; 4]);
}

#[test]
fn mpich_rank_may_run_several_programs_in_sequence() {
    if std::env::var_os("TUTTI_FOREIGN_MPICC").is_some() {
        skip(Need::Setup, "programs of MPICH 4.0 shut their PMI socket down in MPI_Finalize");
        return;
    }
    let scratch = Scratch::new("mpich-twice");
    let Some(file) = compiled(&scratch) else { return };
    let script = format!("{0} && {0}", file.display());
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        let ran =
            run(program("mpiexec").args(["--own-mpi", "-n", "2"]).args(nodes).args(["sh", "-c", &script]));
        assert_eq!(ran.expect_success().stdout.lines().count(), 4);
    }
}

#[test]
fn mpich_rank_failure_ends_the_job_with_one_line() {
    let scratch = Scratch::new("mpich-ends");
    let Some(file) = compiled(&scratch) else { return };
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        for (how, status, line) in [
            ("abort", 7, ") called MPI_Abort(7)"),
            ("die", 137, ") was killed by signal 9"),
            ("leave", 1, ") exited without calling MPI_Finalize"),
        ] {
            let ran = mpiexec(&[&["-n", "2"], nodes].concat(), &file, &[how]);
            assert_eq!(ran.code(), status, "{how}: {ran}");
            let own: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("mpiexec: ")).collect();
            assert!(
                matches!(&own[..], [one] if one.contains("rank 1 (pid ") && one.contains(line)),
                "{how}: {ran}"
            );
        }
    }
}

/// Output of the program that starts processes.
pub fn rounds(sum: u32) -> String {
    (0..3).map(|round| format!("round {round}, sum {sum}\n")).collect()
}

#[test]
fn mpich_program_starts_processes() {
    let scratch = Scratch::new("mpich-spawn");
    let Some(file) = compiled_from(&scratch, "spawn") else { return };
    for ranks in [1, 2] {
        let ran = mpiexec(&["-n", &ranks.to_string()], &file, &[]).expect_success();
        assert_eq!(ran.stdout, rounds(ranks + 2), "{ran}");
    }
    let ran = mpiexec(&["-n", "1"], &file, &["missing"]).expect_success();
    assert_eq!(ran.stdout, "refused\n", "{ran}");
    assert!(ran.stderr.contains("no-such-program"), "{ran}");
    let ran = mpiexec(&["-n", "1", "--universe", "2"], &file, &[]);
    assert!(ran.code() != 0 && ran.stderr.contains("room for 2"), "{ran}");
}

#[test]
fn mpich_program_starts_processes_on_several_nodes() {
    let scratch = Scratch::new("mpich-spawn-nodes");
    let Some(file) = compiled_from(&scratch, "spawn") else { return };
    for nodes in ["2", "3"] {
        let words = ["-n", nodes, "--virtual-nodes", nodes, "--universe", "8"];
        let ran = mpiexec(&words, &file, &[]).expect_success();
        assert_eq!(ran.stdout, rounds(nodes.parse::<u32>().expect("a number") + 2), "{ran}");
    }
    let ran = mpiexec(&["-n", "2", "--virtual-nodes", "2", "--universe", "6"], &file, &["missing"]);
    assert_eq!((ran.code(), &*ran.stdout), (0, "refused\n"), "{ran}");
    assert!(ran.stderr.contains("no-such-program"), "{ran}");
    let ran = mpiexec(&["-n", "2", "--virtual-nodes", "2", "--universe", "3"], &file, &[]);
    assert!(ran.code() != 0 && ran.stderr.contains("room for 3"), "{ran}");
}

/// The line of `-v` about ranks that have begun with PMI.
const BY_PMI: &str = "mpiexec: ranks run on a library of their own, started by PMI (MPICH or a relative)";

/// The file of the program says nothing of it: it is said when the library begins.
#[test]
fn mpich_library_that_a_program_opens_by_its_path_is_seen_when_it_begins() {
    let scratch = Scratch::new("mpich-opens");
    let Some(mpich) = tutti_tests::peers::mpich() else { return };
    let file = compiled_without_mpi(&scratch, "opens");
    let library = mpich.join("lib/libmpi.so.12");
    let ran = run(program("mpiexec").args(["-v", "-n", "2"]).arg(file).arg(library)).expect_success();
    assert_eq!(ran.stderr.lines().filter(|line| *line == BY_PMI).count(), 1, "{ran}");
}

/// A program that is linked statically is offered PMI as any other.
#[test]
fn mpich_program_that_is_linked_statically_is_seen_when_it_begins() {
    let scratch = Scratch::new("mpich-static");
    let file = scratch.path().join("static");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-static", "-DALONE", "-o"]).arg(&file);
    let made = tutti_tests::run(cc.arg(root().join("tests/foreign/c/opens.c")), Duration::from_secs(60));
    if !made.status.success() {
        return skip(Need::Setup, "there is no C library to link statically");
    }
    let ran = run(program("mpiexec").args(["-v", "-n", "2"]).arg(file)).expect_success();
    assert_eq!(ran.stderr.lines().filter(|line| *line == BY_PMI).count(), 1, "{ran}");
}
