//! Base of the whole-system tests: where the installation tree stands, how a program is run with a time
//! limit, and how C programs are compiled with our `mpicc`.
//!
//! A test calls [`dist`] for the tree that `make` leaves, builds a [`Command`] on it and hands it to [`run`].
//! Nothing here sleeps as synchronisation; a program over its limit is killed with all of its process group
//! and the test fails with what it had printed until then.

pub mod full_at_close;
pub mod keeper_folder;
pub mod machines;
pub mod peers;
pub mod users;

use std::{
    ffi::OsStr,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use tutti_testkit::{Need, skip};

pub use tutti_testkit::{LIMIT, Scratch, await_that, comes_true};

/// The root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ stands in the source tree").to_path_buf()
}

/// The installation tree that `make` leaves in `target/dist`; `TUTTI_DIST` names another one.
///
/// # Panics
/// If it has not been built: a test of the system has nothing to say then.
pub fn dist() -> PathBuf {
    let dist = std::env::var_os("TUTTI_DIST").map_or_else(|| root().join("target/dist"), PathBuf::from);
    assert!(dist.join("bin").is_dir(), "{} is missing: run `make` first", dist.display());
    dist
}

/// The second build of `libtutti.so.1`, which makes faults on purpose (`TUTTI_FAULTS`, `TUTTI_FORGE`). Ranks
/// take it instead of the installed one when `LD_PRELOAD` names it: `mpiexec` puts its own library first into
/// `LD_LIBRARY_PATH`.
///
/// # Panics
/// If it has not been built.
pub fn testing_library() -> PathBuf {
    let library = root().join("target/testing/libtutti.so");
    assert!(library.exists(), "{} is missing: run `make testing` first", library.display());
    library
}

/// A program of the installation tree, e.g. `mpiexec`; alone, without the daemon of this user, unless the
/// test says otherwise.
pub fn program(name: &str) -> Command {
    let path = dist().join("bin").join(name);
    assert!(path.is_file(), "{} is missing: run `make` first", path.display());
    let mut command = Command::new(path);
    command.env("TUTTI_DAEMON", "none");
    command
}

/// Programs of `tests/mpi/programs` that check one subject each, and end with a line that says ok.
pub const CONFORMANCE: [&str; 19] = [
    "attributes",
    "communicators",
    "error_handlers",
    "groups",
    "info",
    "intercommunicators",
    "partitioned",
    "platform",
    "requests",
    "send_modes",
    "sessions",
    "tool_information",
    "topologies",
    "types_bounds",
    "types_contents",
    "types_errors",
    "types_pack",
    "types_transfer",
    "wildcards",
];

/// Status and output of a program that [`run`] started.
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote to standard output.
    pub stdout: String,
    /// All that it wrote to standard error.
    pub stderr: String,
    /// From start to end.
    pub took: Duration,
}

impl Ran {
    /// The exit code as a shell would give it: 128 + n for signal n.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// The same, after a check that it ended well.
    ///
    /// # Panics
    /// With everything the program printed, if its status is not 0.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert!(self.status.success(), "the program failed: {self}");
        self
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stdout, stderr, .. } = self;
        write!(
            f,
            "status {} after {:.1?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
            self.code(),
            self.took
        )
    }
}

/// Lines of stderr without what TUTTI_CHECK says of a long wait: on a crowded machine any wait may be long.
pub fn without_hints(stderr: &str) -> Vec<&str> {
    let mut in_hint = false;
    let is_said = |line: &&str| {
        in_hint = in_hint && line.starts_with("    ") || line.contains(", which may be right; ");
        !in_hint && !line.contains(" waits in MPI_Init for ")
    };
    stderr.lines().filter(is_said).collect()
}

/// Runs a program to its end with empty standard input, in a process group of its own.
///
/// # Panics
/// If it cannot be started, or is not at its end after `limit` (its process group is killed then).
#[track_caller]
pub fn run(command: &mut Command, limit: Duration) -> Ran {
    try_run(command, limit).unwrap_or_else(|ran| panic!("{command:?} was over its limit of {limit:?}: {ran}"))
}

/// The same; what was over its limit, and is dead, is an error.
///
/// # Errors
/// When the program was over its limit.
pub fn try_run(command: &mut Command, limit: Duration) -> Result<Ran, Ran> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let group = rustix::process::Pid::from_child(&child);
    let stdout = read_to_end(child.stdout.take().expect("piped"));
    let stderr = read_to_end(child.stderr.take().expect("piped"));

    // The end of the program is seen by its own thread, the limit by the wait for that thread.
    let (ended, end) = mpsc::channel();
    let waiter = thread::spawn(move || ended.send(child.wait()));
    let in_time = end.recv_timeout(limit);
    let over = in_time.is_err();
    // Descendants that outlived the program would hold the pipes open; a test leaves nothing behind.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let status = in_time.unwrap_or_else(|_| end.recv().expect("the waiter sends once"));
    let _ = waiter.join();
    let ran = Ran {
        status: status.expect("the program was ours to wait for"),
        stdout: stdout.join().expect("reader"),
        stderr: stderr.join().expect("reader"),
        took: start.elapsed(),
    };
    if over { Err(ran) } else { Ok(ran) }
}

fn read_to_end(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The state letter of a process.
pub fn state_of(pid: rustix::process::Pid) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// Whether `tutticc` has its plugin and the compiler that loads it; if not, the test is skipped.
pub fn has_plugin() -> bool {
    let is_there = dist().join("lib/tutti/rcop.so").is_file() && tutti_testkit::skip::is_in_path("clang-19");
    if !is_there {
        skip(Need::Rcop, "clang-19 or its plugin is not there: make dsm");
    }
    is_there
}

/// Compiles a C program of the source tree (`examples/ring.c`) with our `mpicc` into `folder`; gives the
/// program's path. Many tests run the same programs, so what came of the same text, the same options and the
/// same compilers is kept, in `target/tmp/programs`.
///
/// # Panics
/// If it does not compile without a warning.
#[track_caller]
pub fn compile(source: &str, folder: &Path) -> PathBuf {
    compile_with("mpicc", source, folder)
}

/// The same with another wrapper of ours.
///
/// # Panics
/// As [`compile`].
#[track_caller]
pub fn compile_with(wrapper: &str, source: &str, folder: &Path) -> PathBuf {
    compile_among(wrapper, &[], source, folder)
}

/// The same with options of the wrapper.
///
/// # Panics
/// As [`compile`].
#[track_caller]
pub fn compile_by(wrapper: &str, options: &[&str], source: &str, folder: &Path) -> PathBuf {
    let options: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    compile_among(wrapper, &options, source, folder)
}

/// The same with a header of the source tree in front.
///
/// # Panics
/// As [`compile`].
#[track_caller]
pub fn compile_behind(header: &str, source: &str, folder: &Path) -> PathBuf {
    let header = root().join(header);
    compile_among("mpicc", &["-include".as_ref(), header.as_os_str()], source, folder)
}

#[track_caller]
fn compile_among(wrapper: &str, options: &[&OsStr], source: &str, folder: &Path) -> PathBuf {
    let path = root().join(source);
    let program = folder.join(path.file_stem().expect("a file"));
    let compiler = || {
        let mut compiler = self::program(wrapper);
        compiler
            .args([
                if wrapper == "tutticxx" { "-std=c++20" } else { "-std=c11" },
                "-O2",
                "-Wall",
                "-Wextra",
                "-pedantic",
                "-Werror",
            ])
            .arg(&path)
            .args(options);
        compiler
    };
    let limit = Duration::from_secs(100);
    // The definitions that a compiler begins with name its version.
    let text = run(compiler().args(["-E", "-dD"]), limit).expect_success().stdout;
    let script = std::fs::read(compiler().get_program()).expect("the wrapper is a file");
    let mut key = DefaultHasher::new();
    (format!("{:?}", compiler()), script, &text).hash(&mut key);
    if wrapper == "tutticc" {
        // What it links, and the plugin that it compiles with.
        for name in ["parmacs_start.o", "parmacs_noted.o", "parmacs_wrapped", "rcop.so"] {
            std::fs::read(dist().join("lib/tutti").join(name)).ok().hash(&mut key);
        }
    }
    let kept = root().join("target/tmp/programs");
    let kept = kept.join(format!("{}-{:016x}", source.replace('/', "-"), key.finish()));
    let _ = std::fs::remove_file(&program);
    if std::fs::hard_link(&kept, &program).is_err() {
        let mut linked = compiler();
        linked.arg("-o").arg(&program).arg("-lm");
        // A line of the preprocessor's names each header.
        if text.contains("/tutti.h\"")
            || text.contains("/tutti_dse.h\"")
            || text.contains("/tutti_board.h\"")
            || wrapper == "mpicc" && text.contains("/shmem.h\"")
        {
            linked.arg("-ltutti");
        }
        run(&mut linked, limit).expect_success();
        // Without a place to keep it, it is compiled again; another test may have been faster.
        let _ = std::fs::create_dir_all(kept.parent().expect("a folder"));
        let _ = std::fs::hard_link(&program, &kept);
    }
    program
}
