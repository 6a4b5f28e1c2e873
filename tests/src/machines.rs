//! Machines of a lab with Tutti's daemons on them, for tests of what must hold between nodes. Jobs are those
//! of alice, an ordinary user of root's daemons, whose home is the same on all machines.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tutti_testkit::lab::{Lab, Plan};

use crate::{Ran, Scratch, compile_by, compile_with, run};

/// A program on crowded machines; nothing takes a hundredth of it on a free one. Beside programs that
/// compute each message waits for the slices of others: what takes half a second takes a minute beside eight.
const LIMIT: Duration = Duration::from_secs(200);
/// Number of lines of each daemon's log that are shown when a test fails.
const LAST_LINES: usize = 40;

/// Case of a program on machines, and how it says that all was right.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// `mpicc`, `oshcc`.
    pub wrapper: &'a str,
    /// In the source tree.
    pub source: &'a str,
    /// Ranks, each time it runs.
    pub ranks: &'a [u32],
    /// `%` is a seed.
    pub arguments: &'a [&'a str],
    /// Part of what it prints.
    pub says: &'a str,
}

/// A cluster of machines that ends with its test.
#[derive(Debug)]
pub struct Machines {
    /// Lab that the machines are in.
    pub lab: Lab,
    scratch: Scratch,
}

impl Machines {
    /// Starts so many machines on plain cables, with these options of all daemons; none, and the test is
    /// counted as skipped, where there can be no lab.
    #[track_caller]
    pub fn up(name: &str, nodes: u32, options: &[&str]) -> Option<Self> {
        Self::up_by(name, &Lab::plan(nodes), options)
    }

    /// The same by a plan of the lab.
    ///
    /// # Panics
    /// When the daemons do not become a cluster.
    #[track_caller]
    pub fn up_by(name: &str, plan: &Plan, options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            tutti_testkit::skip(tutti_testkit::Need::Root, "only root's lab has machines with users");
            return None;
        }
        let machines = Machines { lab: Lab::of(plan)?, scratch: Scratch::new(&format!("machines-{name}")) };
        machines.lab.start_daemons(options).expect("a cluster");
        Some(machines)
    }

    /// A command of alice's on a machine.
    pub fn command(&self, node: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.lab.node(node).user("alice").command(program)
    }

    /// `tutti` with these words on a machine, to its end.
    #[track_caller]
    pub fn tutti(&self, node: u32, words: &[&str]) -> Ran {
        run(self.command(node, "tutti").args(words), LIMIT)
    }

    /// Kills the daemon of a machine without warning; gives its command line.
    ///
    /// # Panics
    /// When none runs there.
    #[track_caller]
    pub fn kill_daemon(&self, node: u32) -> Vec<String> {
        let script = "pid=$(pidof -s tuttid) && cat /proc/$pid/cmdline && kill -9 $(pidof tuttid)\n\
                      while pidof tuttid >/dev/null; do sleep 0.01; done";
        let line = self.lab.node(node).run(&["sh", "-c", script]);
        line.split_terminator('\0').map(str::to_owned).collect()
    }

    /// Kills the daemon of a machine and starts this program in its place, as that one was started.
    #[track_caller]
    pub fn replace_daemon(&self, node: u32, program: &Path) {
        let words = self.kill_daemon(node);
        let mut command = vec!["sh", "-c", "exec \"$0\" \"$@\" </dev/null >>/var/log/tuttid.log 2>&1"];
        command.push(program.to_str().expect("text"));
        command.extend(words[1..].iter().map(String::as_str));
        self.lab.node(node).spawn(&command);
    }

    /// A job on so many machines, from machine 0.
    pub fn launch(&self, nodes: u32, ranks: u32) -> Command {
        let mut command = self.command(0, "tutti");
        // The machines share the cores of one. A rank that is bound would have those of other machines on its
        // core, and take itself for alone there: it polls without an end while they answer nobody.
        command.args(["run", "-N", &nodes.to_string(), "-n", &ranks.to_string(), "--bind-to", "none"]);
        command
    }

    /// A compiled program, where all machines see it.
    #[track_caller]
    pub fn compile(&self, wrapper: &str, source: &str) -> PathBuf {
        compile_with(wrapper, source, self.scratch.path())
    }

    /// The same with options of the wrapper.
    #[track_caller]
    pub fn compile_by(&self, wrapper: &str, options: &[&str], source: &str) -> PathBuf {
        compile_by(wrapper, options, source, self.scratch.path())
    }

    /// A file in alice's home: as the machines see it, and as it is seen outside.
    pub fn file(&self, name: &str) -> (PathBuf, PathBuf) {
        (Path::new("/home/alice").join(name), self.lab.home().join("alice").join(name))
    }

    /// Runs programs, each on all machines.
    ///
    /// # Panics
    /// When one does not say that all was right.
    #[track_caller]
    pub fn pass(&self, cases: &[Case<'_>]) {
        for case in cases {
            self.pass_with(case, &[]);
        }
    }

    /// The same of one, with variables.
    ///
    /// # Panics
    /// As [`Machines::pass`].
    #[track_caller]
    pub fn pass_with(&self, case: &Case<'_>, variables: &[(&str, &str)]) {
        let nodes = self.lab.nodes();
        let program = self.compile(case.wrapper, case.source);
        let seed = tutti_testkit::seed().to_string();
        for ranks in case.ranks {
            let mut command = self.launch(nodes.min(*ranks), *ranks);
            command.arg(&program);
            command.args(case.arguments.iter().map(|word| if *word == "%" { &seed } else { *word }));
            command.envs(variables.iter().copied());
            let ran = self.run_watched(&mut command, &program);
            let is_right = ran.status.success() && ran.stdout.contains(case.says);
            assert!(is_right, "{} on {ranks} ranks, {variables:?}: {ran}", case.source);
            println!("{} on {ranks} ranks: {:.1?}", case.source, ran.took);
        }
    }
}

impl Machines {
    /// Runs a job; where it does not end, what cluster and processes say is printed before it is killed.
    #[track_caller]
    fn run_watched(&self, command: &mut Command, program: &Path) -> Ran {
        std::thread::scope(|scope| {
            let (ended, watched) = mpsc::channel::<()>();
            scope.spawn(move || {
                if watched.recv_timeout(LIMIT * 2 / 3) == Err(RecvTimeoutError::Timeout) {
                    self.show_standstill(program);
                }
            });
            let ran = run(command, LIMIT);
            drop(ended);
            ran
        })
    }

    /// Jobs and nodes, who waits for whom in each job, and where its processes stand.
    fn show_standstill(&self, program: &Path) {
        let tell = "tutti ps --all; tutti nodes\n\
                    for job in $(tutti ps | awk 'NR > 1 { print $1 }'); do timeout 8 tutti snapshot $job; done";
        let ran = crate::try_run(self.command(0, "sh").args(["-c", tell]), LIMIT / 3);
        println!("--- {} has not ended: {}", program.display(), ran.unwrap_or_else(|ran| ran));
        let name = program.file_name().expect("a program").to_string_lossy();
        let stand = format!(
            "for pid in $(pidof {name}); do for task in /proc/$pid/task/*; do\n\
             echo \"$task $(cut -d' ' -f3 $task/stat) $(cat $task/wchan) $(cat $task/syscall)\"; done; done"
        );
        for node in 0..self.lab.nodes() {
            println!("--- node{node}\n{}", self.lab.node(node).run(&["sh", "-c", &stand]));
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in 0..self.lab.nodes() {
            let log = self.lab.log(node);
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            println!("--- the end of the log of node{node}\n{}", last.join("\n"));
        }
    }
}
