//! Clusters of real daemons, for tests: each ends with its test. The nodes of [`Cluster::up`] are virtual:
//! daemons on this machine, which share its memory, its pids, its files and its users. Those of
//! [`Cluster::on_machines`] are machines of the lab, which share nothing but a cable: what must hold between
//! nodes is shown there.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal};
use tutti_testkit::lab::Lab;
use tutti_tests::{Ran, Scratch, dist, program};

use crate::harness::{self, LIMIT, Running};

/// Number of lines of each daemon's log that are shown when a test fails.
const LAST_LINES: usize = 60;

/// Where daemons are started anew and none is to be lost: on a crowded machine one may need seconds to come
/// back.
pub const SLOWLY_LOST: [&str; 2] = ["--lost-after", "12"];

/// A cluster that ends with its test.
pub struct Cluster {
    /// Folder of its logs, sockets and key.
    pub folder: PathBuf,
    /// The installation tree whose programs its daemons are.
    programs: PathBuf,
    /// `cgroup.procs` of the cgroups that its daemons are in; none: where the test is.
    entrances: Vec<PathBuf>,
    /// None: its folder is somebody else's to remove.
    _scratch: Option<Scratch>,
    /// Lab whose machines are the nodes, and whose folder is that of the cluster.
    lab: Option<Lab>,
}

impl Cluster {
    /// Starts `nodes` daemons; `more` are options of `tutti up`.
    #[track_caller]
    pub fn up(name: &str, nodes: u32, more: &[&str]) -> Self {
        let cluster = Self::in_scratch(name);
        cluster.start_daemons(nodes, more);
        cluster
    }

    /// Machines of a lab, with these options of all daemons, which root starts; none, and the test is counted
    /// as skipped, where there can be no lab.
    #[allow(dead_code, reason = "for tests of what must hold between nodes")]
    #[track_caller]
    pub fn on_machines(nodes: u32, more: &[&str]) -> Option<Self> {
        let lab = Lab::new(nodes)?;
        let folder = lab.folder().to_owned();
        let cluster =
            Cluster { folder, programs: dist(), entrances: Vec::new(), _scratch: None, lab: Some(lab) };
        cluster.lab.as_ref().expect("just made").start_daemons(more).expect("a cluster");
        Some(cluster)
    }

    /// The same in a folder and with the programs of an installation tree that users of the test can reach.
    #[allow(dead_code, reason = "for tests with several users")]
    #[track_caller]
    pub fn up_at(folder: PathBuf, programs: PathBuf, nodes: u32, more: &[&str]) -> Self {
        Self::up_within(folder, programs, Vec::new(), nodes, more)
    }

    /// The same, with daemons in cgroups of their own, by these files `cgroup.procs`.
    #[allow(dead_code, reason = "for tests with several users")]
    #[track_caller]
    pub fn up_within(
        folder: PathBuf,
        programs: PathBuf,
        entrances: Vec<PathBuf>,
        nodes: u32,
        more: &[&str],
    ) -> Self {
        let cluster = Cluster { folder, programs, entrances, _scratch: None, lab: None };
        cluster.start_daemons(nodes, more);
        cluster
    }

    /// One daemon with another program in place of the starter.
    #[allow(dead_code, reason = "for tests with several users")]
    #[track_caller]
    pub fn up_with_starter(folder: PathBuf, programs: PathBuf, starter: &std::path::Path) -> Self {
        let cluster = Cluster { folder, programs, entrances: Vec::new(), _scratch: None, lab: None };
        let mut up = cluster.command(&["up"]);
        tutti_tests::run(up.env("TUTTI_STARTER", starter), LIMIT).expect_success();
        cluster
    }

    fn in_scratch(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let folder = scratch.path().join("cluster");
        Cluster { folder, programs: dist(), entrances: Vec::new(), _scratch: Some(scratch), lab: None }
    }

    #[track_caller]
    fn start_daemons(&self, nodes: u32, more: &[&str]) {
        let nodes = nodes.to_string();
        let words: Vec<&str> = ["up", "--nodes", &nodes].iter().chain(more).copied().collect();
        let mut up = within(&self.entrances, self.command(&words));
        tutti_tests::run(&mut up, LIMIT).expect_success();
    }

    /// Daemons that can make no cgroups; none where there are no mount namespaces for us.
    #[track_caller]
    pub fn up_without_cgroups(name: &str, nodes: u32, more: &[&str]) -> Option<Self> {
        let mut up = harness::blind(program("tutti").get_program().as_ref())?;
        let cluster = Self::in_scratch(name);
        up.args(["up", "--nodes", &nodes.to_string()]).args(more).env("TUTTI_DIR", &cluster.folder);
        up.env("TUTTI_DAEMON", cluster.folder.join("tuttid.sock"));
        tutti_tests::run(&mut up, LIMIT).expect_success();
        Some(cluster)
    }

    /// One daemon that is expected not to come to be; what `tutti up` says.
    #[track_caller]
    pub fn try_up(name: &str, more: &[&str]) -> Ran {
        let cluster = Self::in_scratch(name);
        cluster.tutti(&[&["up"], more].concat())
    }

    /// `tutti` with these words, asking the controller.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_on(0, words)
    }

    /// `tutti` with these words, asking a node.
    pub fn command_on(&self, node: u32, words: &[&str]) -> Command {
        if let Some(lab) = &self.lab {
            let mut command = lab.node(node).command("tutti");
            match words {
                // As `tutti_tests::machines` has it: the machines share the cores of one.
                ["run", rest @ ..] => command.args(["run", "--bind-to", "none"]).args(rest),
                _ => command.args(words),
            };
            return command;
        }
        let mut command = Command::new(self.programs.join("bin/tutti"));
        command.args(words).env("TUTTI_DIR", &self.folder).env("TUTTI_DAEMON", self.socket(node));
        // A system call that the switch thread may not make ends its daemon.
        command.env("TUTTI_SWITCH_CALLS", "end");
        if words.first() == Some(&"submit") {
            // Its output is a file in its working directory.
            command.current_dir(&self.folder);
        }
        command
    }

    /// The machines that are its nodes.
    #[allow(dead_code, reason = "for tests of what must hold between nodes")]
    #[track_caller]
    pub fn lab(&self) -> &Lab {
        self.lab.as_ref().expect("its nodes are machines")
    }

    /// Any program on a node, whose daemon it asks.
    #[allow(dead_code, reason = "for tests of programs without mpiexec")]
    pub fn program_on(&self, node: u32, program: &std::path::Path) -> Command {
        if let Some(lab) = &self.lab {
            return lab.node(node).command(program);
        }
        let mut command = Command::new(program);
        command.env("TUTTI_DIR", &self.folder).env("TUTTI_DAEMON", self.socket(node));
        command
    }

    /// The socket of a virtual node's daemon.
    #[allow(dead_code, reason = "for tests that ask it themselves")]
    pub fn socket(&self, node: u32) -> PathBuf {
        self.folder.join(if node == 0 { "tuttid.sock".into() } else { format!("node{node}.sock") })
    }

    /// The folder of a node's daemon, as it is seen here.
    #[allow(dead_code, reason = "for tests of what daemons keep")]
    pub fn folder_of(&self, node: u32) -> PathBuf {
        match &self.lab {
            Some(lab) => {
                let first = lab.node(node).first_process().as_raw_nonzero();
                PathBuf::from(format!("/proc/{first}/root/run/tutti"))
            }
            None => self.folder.clone(),
        }
    }

    /// The folder in which a node's daemon keeps what outlives a boot, as it is seen here.
    #[allow(dead_code, reason = "for tests of the log and the queue")]
    pub fn state_folder_of(&self, node: u32) -> PathBuf {
        match &self.lab {
            Some(lab) => {
                let first = lab.node(node).first_process().as_raw_nonzero();
                PathBuf::from(format!("/proc/{first}/root/var/lib/tutti"))
            }
            None => self.folder.clone(),
        }
    }

    /// A file that commands on node 0 can write: as they name it, and as it is seen here.
    #[allow(dead_code, reason = "for tests of files")]
    pub fn file(&self, name: &str) -> (PathBuf, PathBuf) {
        match &self.lab {
            Some(lab) => {
                let inside = PathBuf::from("/root").join(name);
                let outside = lab.node(0).file(inside.to_str().expect("a path of text"));
                (inside, outside)
            }
            None => (self.folder.join(name), self.folder.join(name)),
        }
    }

    /// `tutti` with these words, to its end.
    #[track_caller]
    pub fn tutti(&self, words: &[&str]) -> Ran {
        tutti_tests::run(&mut self.command(words), LIMIT)
    }

    /// Runs a job to its end, and checks that nothing of it is left.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> Ran {
        harness::run(&mut self.command(words))
    }

    /// A job that is watched while it runs.
    #[track_caller]
    pub fn start(&self, words: &[&str]) -> Running {
        Running::start_command(&mut self.command(words))
    }

    /// Row of a job in `tutti status --json`; nothing if there is none yet.
    #[track_caller]
    pub fn job(&self, job: u32) -> String {
        self.tutti(&["status", "--json", &job.to_string()]).stdout
    }

    /// Kills a node's daemon without warning and starts another one in its place, on the same address.
    #[track_caller]
    pub fn replace(&self, node: u32) {
        self.kill_daemon(node).start();
    }

    /// Kills a node's daemon without warning.
    #[track_caller]
    pub fn kill_daemon(&self, node: u32) -> Gone {
        let mut gone = self.kill_daemon_as_it_is(node);
        if self.lab.is_some() {
            return gone;
        }
        let log = std::fs::read_to_string(&gone.log_file).expect("its log");
        let heard = log.lines().rfind(|line| line.contains("listens on ")).expect("its first line");
        let address = heard.rsplit(' ').next().expect("the address").to_owned();
        let listen = gone.words.iter().position(|word| word == "--listen").expect("an option of its") + 1;
        gone.words[listen] = address;
        gone
    }

    /// The same; another one has its command line, as anybody sees it.
    #[track_caller]
    pub fn kill_daemon_as_it_is(&self, node: u32) -> Gone {
        let pid = self.daemon(node);
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).expect("it lives");
        let mut words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        words.pop();
        if let Some(lab) = &self.lab {
            let log_file = lab.node(node).file("/var/log/tuttid.log");
            kill_and_await(pid);
            let machine = Some(lab.node(node).command("env"));
            return Gone { words, log_file, namespace: None, entrances: Vec::new(), machine };
        }
        let log_file = self.folder.join(format!("node{node}.log"));
        let namespace = (net_of(pid) != net_of(rustix::process::getpid()))
            .then(|| File::open(format!("/proc/{}/ns/net", pid.as_raw_nonzero())).expect("its namespace"));
        kill_and_await(pid);
        Gone { words, log_file, namespace, entrances: self.entrances.clone(), machine: None }
    }

    /// Pid of a node's daemon; one that was just started may not execute its program yet.
    #[track_caller]
    pub fn daemon(&self, node: u32) -> Pid {
        let mut found = None;
        harness::await_that(&format!("node{node} has a daemon"), || {
            found = self.find_daemon(node);
            found.is_some()
        });
        found.expect("just found")
    }

    fn find_daemon(&self, node: u32) -> Option<Pid> {
        if let Some(lab) = &self.lab {
            return lab.node(node).daemon();
        }
        let name = format!("node{node}");
        let folder = self.folder.as_os_str().as_encoded_bytes().to_vec();
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_it = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words[0].ends_with(b"tuttid") && words.contains(&&folder[..]) && words.contains(&name.as_bytes())
        };
        pids.into_iter().find(is_it).and_then(Pid::from_raw)
    }
}

/// A command that is in cgroups from its start, by their files `cgroup.procs`.
fn within(entrances: &[PathBuf], command: Command) -> Command {
    if entrances.is_empty() {
        return command;
    }
    let enter: String = entrances.iter().map(|file| format!("echo $$ > '{}' && ", file.display())).collect();
    let mut inside = Command::new("sh");
    inside.args(["-c", &format!("{enter}exec \"$0\" \"$@\"")]);
    inside.arg(command.get_program()).args(command.get_args());
    inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside
}

/// The inode of a process's network namespace.
pub fn net_of(pid: Pid) -> Option<u64> {
    std::fs::metadata(format!("/proc/{}/ns/net", pid.as_raw_nonzero())).ok().map(|namespace| namespace.ino())
}

/// A process whose first thread is a zombie may still have others, and with them its sockets and locks: only
/// its pidfd says that it is dead.
#[track_caller]
fn kill_and_await(pid: Pid) {
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("it lives");
    rustix::process::pidfd_send_signal(&process, Signal::KILL).expect("it lives");
    let limit = rustix::event::Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    let mut wait = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    let ended = rustix::event::poll(&mut wait, Some(&limit)).expect("a wait");
    assert_eq!(ended, 1, "the death of the daemon was awaited");
}

/// A daemon that was killed.
pub struct Gone {
    words: Vec<String>,
    log_file: PathBuf,
    /// Where it was, if not where we are.
    namespace: Option<File>,
    /// Entrances of the daemon's cluster.
    entrances: Vec<PathBuf>,
    /// Command that runs words on its machine of the lab.
    machine: Option<Command>,
}

impl Gone {
    /// Where it heard other daemons.
    #[allow(dead_code, reason = "for tests of addresses")]
    pub fn address(&self) -> std::net::SocketAddr {
        let file = self.log_file.with_extension("address");
        std::fs::read_to_string(file).expect("its address").trim().parse().expect("an address")
    }

    /// The one that takes its place is of another installation tree.
    #[allow(dead_code, reason = "for tests of several releases")]
    pub fn with_program(mut self, program: PathBuf) -> Self {
        self.words[0] = program.into_os_string().into_string().expect("a path of the tests");
        self
    }

    /// Starts another one in its place that, with all that it starts, sees another directory here: an empty
    /// one.
    #[allow(dead_code, reason = "for tests of programs that are missing")]
    pub fn start_with_empty(mut self, directory: &std::path::Path) {
        let script = format!("mount -t tmpfs none '{}' && exec \"$0\" \"$@\"", directory.display());
        self.words.splice(..0, ["unshare", "--mount", "sh", "-c", &script].map(String::from));
        self.start();
    }

    /// Gives up the daemon's namespace, so that no part of the test holds it; the next daemon enters it by
    /// this file.
    #[allow(dead_code, reason = "for tests of namespaces")]
    pub fn enters(mut self, find: impl FnOnce() -> File) -> Self {
        self.namespace = None;
        self.namespace = Some(find());
        self
    }

    /// Starts another one in its place.
    pub fn start(self) {
        let (mut daemon, namespace) = self.spawn();
        std::thread::spawn(move || (daemon.wait(), namespace));
    }

    /// The same, to be waited for.
    pub fn spawn(self) -> (Child, Option<File>) {
        let log = std::fs::OpenOptions::new().append(true).open(self.log_file).expect("its log");
        if let Some(mut command) = self.machine {
            command.args(&self.words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            return (command.spawn().expect("the machine runs"), None);
        }
        let mut command = match &self.namespace {
            Some(namespace) => {
                let (mine, number) = (std::process::id(), namespace.as_raw_fd());
                let mut enter = Command::new("nsenter");
                enter.arg(format!("--net=/proc/{mine}/fd/{number}")).arg(&self.words[0]);
                enter
            }
            None => Command::new(&self.words[0]),
        };
        command.args(&self.words[1..]);
        let mut command = within(&self.entrances, command);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // nsenter looks for the namespace among our descriptors.
        (command.spawn().expect("tuttid"), self.namespace)
    }
}

impl Cluster {
    /// Prints what the daemons know and have said, for the output of a test that has failed.
    fn tell(&self) {
        for words in [["nodes"].as_slice(), &["ps", "--all"]] {
            println!("tutti {words:?}: {}", tutti_tests::run(&mut self.command(words), LIMIT));
        }
        if let Some(lab) = &self.lab {
            for node in 0..lab.nodes() {
                tell_end(&format!("the log of node{node}"), &lab.log(node));
            }
            return;
        }
        let logs = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for log in logs.map(|entry| entry.path()).filter(|path| path.extension() == Some("log".as_ref())) {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            tell_end(&log.display().to_string(), &text);
        }
    }
}

fn tell_end(name: &str, text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    println!("--- the end of {name}\n{}", last.join("\n"));
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        if self.lab.is_some() {
            // Its end is the end of all that is in it.
            return;
        }
        let _ = tutti_tests::run(&mut self.command(&["down"]), LIMIT);
        // Those that a test has cut off from the controller.
        let folder = self.folder.as_os_str().as_encoded_bytes().to_vec();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            let is_daemon = words.next().is_some_and(|word| word.ends_with(b"tuttid"))
                && words.any(|word| word == folder);
            if let Some(pid) = Pid::from_raw(pid).filter(|_| is_daemon) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }
}
