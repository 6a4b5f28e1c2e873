//! Kernel and process of an element as two processes: whichever ends, the job ends with it and nothing stays.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::{Scratch, program, run};

use super::{LIMIT, compile};

/// Processes with this in their environment: their numbers, and their programs.
fn processes_with(mark: &str) -> Vec<(i32, String)> {
    let has_mark = |pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let numbers = std::fs::read_dir("/proc").expect("proc").flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    numbers.filter(|pid| has_mark(*pid)).map(|pid| (pid, name(pid).trim().to_owned())).collect()
}

/// Looks again until there is something, or the limit is over.
#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "{what} has not come");
        std::thread::yield_now();
    }
}

/// Two elements that run until somebody ends them, and have said that they do.
struct Job {
    child: Child,
    mark: String,
    _scratch: Scratch,
}

impl Job {
    #[track_caller]
    fn start(name: &str, kernel: &str, what: &str, says: usize) -> Job {
        let scratch = Scratch::new(&format!("dse-apart-{name}"));
        let compiled = compile("tests/dse/programs/ends.c", scratch.path());
        let mark = format!("DSE_TEST_MARK={name}-{}", std::process::id());
        let (variable, value) = mark.split_once('=').expect("just made");
        let mut command = program("mpiexec");
        command.env("TUTTI_DSE_KERNEL", kernel).env(variable, value).args(["-n", "2"]);
        command.arg(compiled).arg(what).stdin(Stdio::null());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mpiexec starts");
        let mut said = vec![0; says * "computes\n".len()];
        child.stdout.as_mut().expect("piped").read_exact(&mut said).expect("elements say that they run");
        assert_eq!(said, "computes\n".repeat(says).as_bytes());
        Job { child, mark, _scratch: scratch }
    }

    /// The processes of a program of the job.
    fn processes(&self, program: &str) -> Vec<Pid> {
        let found = processes_with(&self.mark).into_iter().filter(|(_, name)| name == program);
        found.filter_map(|(pid, _)| Pid::from_raw(pid)).collect()
    }

    /// The job ends by itself, badly, and takes all its processes along; what it said.
    #[track_caller]
    fn expect_end(mut self) -> String {
        let status = wait_for("the end of the job", || self.child.try_wait().expect("ours"));
        let mut said = String::new();
        self.child.stderr.as_mut().expect("piped").read_to_string(&mut said).expect("text");
        assert!(!status.success(), "{said}");
        wait_for("the end of all processes", || processes_with(&self.mark).is_empty().then_some(()));
        said
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The starter sees the end of its front end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn dse_kernel_apart_that_is_killed_ends_the_job() {
    let job = Job::start("kernel-killed", "apart", "compute", 2);
    let kernels = job.processes("tutti-dse-kerne");
    assert_eq!(kernels.len(), 2, "{:?}", processes_with(&job.mark));
    kill_process(kernels[1], Signal::KILL).expect("it runs");
    job.expect_end();
}

#[test]
fn dse_process_apart_that_is_killed_ends_the_job_and_its_kernel() {
    let job = Job::start("process-killed", "apart", "compute", 2);
    let processes = job.processes("program");
    assert_eq!(processes.len(), 2, "{:?}", processes_with(&job.mark));
    kill_process(processes[0], Signal::KILL).expect("it runs");
    let said = job.expect_end();
    assert!(said.contains("killed by signal 9"), "{said}");
}

#[test]
fn dse_kernel_apart_ends_with_its_front_end() {
    let mut job = Job::start("front-killed", "apart", "compute", 2);
    job.child.kill().expect("it runs");
    job.expect_end();
}

/// A program that an element has started is part of the job.
#[test]
fn dse_program_ends_with_the_job() {
    for kernel in ["one", "apart"] {
        let mut job = Job::start(&format!("program-{kernel}"), kernel, "program", 1);
        wait_for("the program", || (!job.processes("sleep").is_empty()).then_some(()));
        job.child.kill().expect("it runs");
        job.expect_end();
    }
}

/// The connection to the kernel is not for a child that the program forks.
#[test]
fn dse_child_of_a_process_apart_is_refused() {
    let scratch = Scratch::new("dse-apart-child");
    let compiled = compile("tests/dse/programs/ends.c", scratch.path());
    let mut command = program("mpiexec");
    command.env("TUTTI_DSE_KERNEL", "apart").args(["-n", "2"]).arg(&compiled).arg("child");
    let ran = run(&mut command, LIMIT).expect_success();
    assert_eq!(ran.stdout.matches("child 7\n").count(), 2, "{ran}");
}

#[test]
fn dse_process_apart_that_leaves_without_finish_ends_the_job() {
    let scratch = Scratch::new("dse-apart-leaves");
    let compiled = compile("tests/dse/programs/ends.c", scratch.path());
    let mut command = program("mpiexec");
    command.env("TUTTI_DSE_KERNEL", "apart").args(["-n", "2"]).arg(&compiled).arg("leave");
    let ran = run(&mut command, LIMIT);
    assert_ne!(ran.code(), 0, "{ran}");
    assert!(ran.stderr.contains("without calling MPI_Finalize"), "{ran}");
}

/// Refusals, with a code, of what is impossible, before anything has been started.
#[test]
fn dse_kernel_apart_is_refused_where_it_cannot_be() {
    let scratch = Scratch::new("dse-apart-refused");
    let compiled = compile("tests/dse/programs/ends.c", scratch.path());
    for (value, wanted) in [("apart", "MPI or OpenSHMEM runs in this process"), ("none", "is `none`")] {
        let mut command = program("mpiexec");
        command.env("TUTTI_DSE_KERNEL", value).args(["-n", "2"]).arg(&compiled).arg("refused");
        let ran = run(&mut command, LIMIT).expect_success();
        assert_eq!(ran.stdout.matches(wanted).count(), 2, "{ran}");
    }
}

/// Bytes that are no question end the kernel with one line, and nothing else.
#[test]
fn dse_kernel_refuses_what_is_no_question() {
    let mpiexec = program("mpiexec");
    let prefix = std::path::Path::new(mpiexec.get_program()).parent().and_then(|bin| bin.parent());
    let path = prefix.expect("bin/mpiexec").join("libexec/tutti/tutti-dse-kernel");
    for (bytes, wanted) in [(&[0xff; 64][..], "no question of this version"), (&[1; 7], "")] {
        let (mut own, theirs) = UnixStream::pair().expect("a pair");
        let mut command = Command::new(&path);
        command.arg("100").stdin(OwnedFd::from(theirs)).stderr(Stdio::piped());
        let mut kernel = command.spawn().expect("installed");
        drop(command);
        let mut answer = [0; 32];
        own.read_exact(&mut answer).expect("it says who it is");
        own.write_all(bytes).expect("it reads");
        own.shutdown(std::net::Shutdown::Write).expect("ours");
        let status = wait_for("the end of the kernel", || kernel.try_wait().expect("ours"));
        let mut said = String::new();
        kernel.stderr.as_mut().expect("piped").read_to_string(&mut said).expect("text");
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains(wanted) && (!wanted.is_empty() || said.is_empty()), "{said}");
    }
}
