//! Memory of a GPU as a buffer: a line that names it, and the end of the job.

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_testkit::{Need, skip_part};
use tutti_tests::{LIMIT, Ran, Scratch, compile, program, root, run};

/// As long as a message that goes by a single copy.
const LONG: &str = "1000000";

/// A file where a driver of a GPU has its own; removed with the test.
struct Driver(PathBuf);

impl Driver {
    fn new() -> Option<Self> {
        let path = PathBuf::from(format!("/dev/nvidia-test-{}", std::process::id()));
        let made = std::fs::write(&path, vec![0; 1 << 20]);
        made.inspect_err(|error| skip_part(Need::Root, format!("{}: {error}", path.display()))).ok()?;
        Some(Driver(path))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn ranks(program_file: &Path, words: &[&str], set: impl Fn(&mut Command)) -> Ran {
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2"]).arg(program_file).args(words);
    set(&mut mpiexec);
    run(&mut mpiexec, LIMIT)
}

#[track_caller]
fn assert_refused(ran: &Ran, rank: &str, buffer: &str, driver: &str) {
    let line = format!("tutti: rank {rank}: the {buffer} buffer of 1000000 bytes at 0x");
    let said: Vec<&str> = ran.stderr.lines().filter(|said| said.starts_with(&line)).collect();
    assert!(ran.code() == 1 && said.len() == 1, "{ran}");
    assert!(said[0].contains(&format!(" is memory of a GPU ({driver}), which is not supported")), "{ran}");
}

#[test]
fn device_memory_as_a_buffer_ends_the_job_with_a_line_that_names_it() {
    each_buffer_is_named("device-memory", &[]);
}

/// The message goes through the ring, where this processor copies it.
#[test]
fn device_memory_without_single_copies_ends_the_job_with_a_line_that_names_it() {
    each_buffer_is_named("device-memory-ring", &["through the ring"]);
}

fn each_buffer_is_named(name: &str, way: &[&str]) {
    let scratch = Scratch::new(name);
    let file = compile("tests/mpi/programs/device_memory.c", scratch.path());
    let library = scratch.path().join("libcuda-stand-in.so");
    let mut compiler = program("mpicc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    run(compiler.arg(root().join("tests/mpi/programs/cuda_stand_in.c")), LIMIT).expect_success();
    let with_library = |command: &mut Command| {
        command.env("LD_PRELOAD", &library);
    };
    let driver = Driver::new();
    for (rank, buffer) in [("0", "send"), ("1", "receive")] {
        let words = [&[rank, LONG, "-"], way].concat();
        assert_refused(&ranks(&file, &words, with_library), rank, buffer, "CUDA");
        if let Some(Driver(path)) = &driver {
            let path = path.to_str().expect("a path of letters");
            let words = [&[rank, LONG, path], way].concat();
            assert_refused(&ranks(&file, &words, |_| ()), rank, buffer, path);
        }
    }
}
