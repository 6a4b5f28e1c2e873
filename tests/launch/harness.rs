//! Jobs under test: started with a mark in their environment, by which everything that they leave behind is
//! found.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
#[allow(unused_imports, reason = "not every program that has these jobs uses all")]
pub use tutti_tests::{LIMIT, await_that, comes_true, state_of};
use tutti_tests::{Ran, program};

/// The rank that does what its arguments say.
pub const RANK: &str = env!("CARGO_BIN_EXE_test-rank");

/// A number for each job of this process.
static JOBS: AtomicU32 = AtomicU32::new(0);

/// Whether a rank that sprays lines was away in the middle of one for so long that what it had written of it
/// was taken for all that comes: then lines may be cut.
#[allow(dead_code, reason = "not every program that has these jobs looks at lines")]
pub fn has_paused_in_a_line(ran: &Ran) -> bool {
    ran.stderr.contains(" has paused in a line")
}

/// Text that only processes of one job have in their environment.
pub struct Mark(String);

impl Mark {
    pub fn new() -> Self {
        let job = JOBS.fetch_add(1, Ordering::Relaxed);
        Mark(format!("TUTTI_TEST_MARK={}-{job}", std::process::id()))
    }

    /// Pids of living processes of the job.
    pub fn processes(&self) -> Vec<Pid> {
        let folders = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<i32>().ok());
        let marked = pids.filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == self.0.as_bytes()))
        });
        marked.filter_map(Pid::from_raw).collect()
    }

    /// # Panics
    /// When a process of the job is still there at the limit.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        await_that("no process of the job is left", || self.processes().is_empty());
    }

    pub fn on(&self, command: &mut Command) {
        let (name, value) = self.0.split_once('=').expect("name and value");
        command.env(name, value);
    }
}

/// Where the `mpiexec` under test is.
pub fn mpiexec_path() -> PathBuf {
    program("mpiexec").get_program().into()
}

/// Runs `mpiexec` to its end and checks that nothing is left of the job.
#[track_caller]
pub fn mpiexec(arguments: &[&str]) -> Ran {
    run(program("mpiexec").args(arguments))
}

/// Runs a command line with `mpiexec` in it.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    run_within(command, LIMIT)
}

/// The same with another limit.
#[track_caller]
pub fn run_within(command: &mut Command, limit: Duration) -> Ran {
    let mark = Mark::new();
    mark.on(command);
    let ran = tutti_tests::run(command, limit);
    mark.assert_nothing_left();
    ran
}

/// A job that is watched while it runs.
pub struct Running {
    pub child: Child,
    pub mark: Mark,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
    seen: Vec<String>,
    /// How many of each line have been awaited.
    awaited: BTreeMap<String, usize>,
}

impl Running {
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_command(program("mpiexec").args(arguments))
    }

    #[track_caller]
    pub fn start_command(command: &mut Command) -> Self {
        let mark = Mark::new();
        mark.on(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("mpiexec");
        let (stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let (line, lines) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.send(text).is_err() {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Running { child, mark, lines, errors: Some(errors), seen: Vec::new(), awaited: BTreeMap::new() }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("mpiexec runs");
    }

    /// Waits for a line of output; for the second of its kind when it was awaited before, and so on.
    #[track_caller]
    pub fn await_line(&mut self, line: &str) {
        if !self.try_await_line(line) {
            let _ = self.child.kill();
            panic!("the line {line:?} was awaited, seen: {:?}", self.seen);
        }
    }

    /// The same; whether it came before the output's end.
    pub fn try_await_line(&mut self, line: &str) -> bool {
        let deadline = Instant::now() + LIMIT;
        let awaited = self.awaited.entry(line.to_owned()).or_default();
        *awaited += 1;
        let mut found = self.seen.iter().filter(|seen| *seen == line).count();
        while found < *awaited {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(text) = self.lines.recv_timeout(left) else { return false };
            found += usize::from(text == line);
            self.seen.push(text);
        }
        true
    }

    /// Lines that have been awaited, and those before them.
    #[allow(dead_code, reason = "the tests of the cluster look at it")]
    pub fn seen(&self) -> &[String] {
        &self.seen
    }

    /// Waits for the end; gives the status as a shell has it, and stderr.
    #[track_caller]
    pub fn end(self) -> (i32, String) {
        let (status, errors, _) = self.end_with_output();
        (status, errors)
    }

    /// The same, with all lines of stdout.
    #[track_caller]
    pub fn end_with_output(mut self) -> (i32, String, Vec<String>) {
        use std::os::unix::process::ExitStatusExt;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            if start.elapsed() > LIMIT {
                let _ = self.child.kill();
                panic!("the end of mpiexec was awaited");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.mark.assert_nothing_left();
        let errors = self.errors.take().expect("joined once").join().expect("reader");
        let mut seen = std::mem::take(&mut self.seen);
        // Its end is that of the reading thread.
        seen.extend(self.lines.iter());
        (status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)), errors, seen)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a job whose program prints `job ID` and then has its rank 0 killed: it ends with one line and the
/// status of that, and nothing is left behind.
#[allow(dead_code, reason = "the tests of remote memory kill ranks so")]
#[track_caller]
pub fn assert_kill_of_rank_0_ends(command: &mut Command) {
    let ran = run(command);
    assert_eq!(ran.code(), 137, "{command:?}: {ran}");
    let line = ran.stderr.split_once(": rank 0 (pid ").map_or("", |(_, rest)| rest);
    let is_said = line.ends_with(") was killed by signal 9 (Killed)\n") && ran.stderr.lines().count() == 1;
    assert!(is_said, "{command:?}: {ran}");
    let job = ran.stdout.trim().strip_prefix("job ").expect("the program's line");
    // A process that ends has no environment any more before it closes its sockets.
    await_that("no socket of it is left", || {
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("/proc/net/unix");
        !sockets.contains(&format!("tutti-{job}"))
    });
    let cgroups = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .map(|root| Path::new(root).join(format!("tutti-job-{job}")));
    await_that("no cgroup of it is left", || cgroups.iter().all(|cgroup| !cgroup.exists()));
}

/// The folder of the job's cgroup, if it has one: as seen by a process in it.
pub fn cgroup_of(pid: Pid) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).ok()?;
    let place = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let place = place.trim_start_matches('/');
    if !place.contains("tutti-job-") {
        return None;
    }
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    roots.iter().map(|root| Path::new(root).join(place)).find(|path| path.is_dir())
}

/// `mpiexec` where no cgroup can be made: their file systems are read-only in a mount namespace. `None` where
/// there are no mount namespaces for us.
pub fn without_cgroups() -> Option<Command> {
    blind(&mpiexec_path())
}

/// The same of any program.
#[allow(dead_code, reason = "the tests of gangs start daemons so")]
pub fn blind(program: &Path) -> Option<Command> {
    let hide = "for d in /sys/fs/cgroup /sys/fs/cgroup/unified; do \
                mountpoint -q $d && mount -o remount,bind,ro $d 2>/dev/null; done; \
                ! mkdir /sys/fs/cgroup/unified/tutti-probe 2>/dev/null && ! mkdir /sys/fs/cgroup/tutti-probe 2>/dev/null \
                && exec \"$@\"";
    let with = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", hide, "hide"]).arg(program);
        command
    };
    let works = with(Path::new("true")).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    works.then(|| with(program))
}
