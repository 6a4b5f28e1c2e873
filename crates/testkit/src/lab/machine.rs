//! A machine of a lab as its users see it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Pid;

use super::control::{self, LinkState, Request};
use super::error::LabError;
use super::lane::Counts;
use super::terms::Terms;
use super::{Lab, cable, cluster, enter, etc, program};

/// A machine, and who does things there.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    lab: &'a Lab,
    node: u32,
    user: &'static str,
    directory: Option<PathBuf>,
    variables: Vec<String>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(lab: &'a Lab, node: u32) -> Self {
        Machine { lab, node, user: "root", directory: None, variables: Vec::new() }
    }

    /// Host name of the machine.
    #[must_use]
    pub fn name(&self) -> String {
        etc::host_name(self.node)
    }

    /// Address of the machine.
    #[must_use]
    pub fn address(&self) -> std::net::Ipv4Addr {
        cable::address_of(self.node)
    }

    /// The same for commands of another user: alice or bob.
    #[must_use]
    pub fn user(mut self, name: &'static str) -> Self {
        self.user = name;
        self
    }

    /// The same for commands that begin in a folder of the machine.
    #[must_use]
    pub fn at(mut self, folder: impl Into<PathBuf>) -> Self {
        self.directory = Some(folder.into());
        self
    }

    /// The same with a variable. Those of a command's own environment are passed on too, but for what belongs
    /// to this machine (the folders of a session, daemons).
    #[must_use]
    pub fn set(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.variables.push(format!("{name}={value}"));
        self
    }

    fn enter(&self, more: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("at").arg("--folder").arg(&self.lab.folder).args(["--user", self.user]).args(more);
        if let Some(directory) = &self.directory {
            command.arg("--dir").arg(directory);
        }
        for variable in &self.variables {
            command.args(["--set", variable]);
        }
        command.arg(self.node.to_string());
        command
    }

    /// A command that runs a program there, by the machine's own PATH, in which the installation comes first.
    /// Killing it kills the program; its signals and its status are the program's.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.enter(&[]);
        command.arg(program);
        command
    }

    /// Runs a shell's line there to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn sh(&self, line: &str) -> Output {
        let output = self.command("sh").args(["-c", line]).stdin(std::process::Stdio::null()).output();
        output.unwrap_or_else(|error| panic!("{}: {line}: {error}", self.name()))
    }

    /// Runs a command there to its end; gives what it has printed.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words[0]).args(&words[1..]).stdin(std::process::Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {words:?}: {error}", self.name()));
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: {words:?}: {}\n{stdout}{stderr}", self.name(), output.status);
        stdout.into_owned()
    }

    /// Starts a command there that nobody waits for, without input and output.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn spawn(&self, words: &[&str]) {
        let mut command = self.enter(&["--detach"]);
        let null = std::process::Stdio::null;
        let status = command.args(words).stdin(null()).stdout(null()).stderr(null()).status();
        assert!(status.is_ok_and(|status| status.success()), "{}: {words:?}", self.name());
    }

    /// Path of a file of its own as it is seen outside, also while it is off: /etc, /var, /root, and /home
    /// of a lab without shared files.
    #[must_use]
    pub fn file(&self, path: &str) -> PathBuf {
        let own = self.lab.folder.join("machines").join(self.name());
        own.join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)))
    }

    /// First process as it is seen outside: its files stand in `/proc/PID/root`.
    ///
    /// # Panics
    /// While it is off.
    #[must_use]
    #[track_caller]
    pub fn first_process(&self) -> Pid {
        enter::first_process(&self.file("")).unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    /// The process of its daemon as it is seen outside, if it runs.
    ///
    /// # Panics
    /// While the machine is off.
    #[must_use]
    #[track_caller]
    pub fn daemon(&self) -> Option<Pid> {
        let space = |pid: Pid| std::fs::read_link(format!("/proc/{}/ns/pid", pid.as_raw_nonzero())).ok();
        let own = space(self.first_process());
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        let is_daemon = |pid: &Pid| {
            let name = std::fs::read(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default();
            name == b"tuttid\n" && space(*pid) == own
        };
        // What it has forked comes later.
        pids.filter(is_daemon).min_by_key(|pid| pid.as_raw_nonzero())
    }

    fn ask(&self, request: &Request) -> Result<(), LabError> {
        control::ask(&self.lab.folder, request).map(drop)
    }

    #[track_caller]
    fn demand(&self, request: &Request) {
        self.ask(request).unwrap_or_else(|error| panic!("{}: {error}", self.name()));
    }

    /// How its cable is to be.
    ///
    /// # Errors
    /// When the keeper refuses, or is gone.
    pub fn set_link(&self, state: LinkState) -> Result<(), LabError> {
        self.ask(&Request::Link { node: self.node, state })
    }

    /// Sets what its cable is to do.
    ///
    /// # Errors
    /// When the keeper refuses, or is gone.
    pub fn set_cable(&self, terms: Terms) -> Result<(), LabError> {
        self.ask(&Request::Cable { node: self.node, terms })
    }

    /// Whether all of its processes stand still.
    ///
    /// # Errors
    /// When the keeper refuses, or is gone.
    pub fn set_paused(&self, pause: bool) -> Result<(), LabError> {
        self.ask(&Request::Pause { node: self.node, pause })
    }

    /// Takes its power away.
    ///
    /// # Errors
    /// When the keeper refuses, or is gone.
    pub fn try_kill(&self) -> Result<(), LabError> {
        self.ask(&Request::Kill { node: self.node })
    }

    /// Cuts its cable: the link is down at both ends.
    ///
    /// # Panics
    /// When the keeper refuses; so do those below.
    #[track_caller]
    pub fn cut(&self) {
        self.demand(&Request::Link { node: self.node, state: LinkState::Cut });
    }

    /// Lets its cable drop everything, and look well.
    #[track_caller]
    pub fn silence(&self) {
        self.demand(&Request::Link { node: self.node, state: LinkState::Silent });
    }

    /// Mends its cable.
    #[track_caller]
    pub fn mend(&self) {
        self.demand(&Request::Link { node: self.node, state: LinkState::Up });
    }

    /// Stops all of its processes, as a virtual machine is paused; its cable stays as it is.
    #[track_caller]
    pub fn pause(&self) {
        self.demand(&Request::Pause { node: self.node, pause: true });
    }

    /// Lets them go on.
    #[track_caller]
    pub fn resume(&self) {
        self.demand(&Request::Pause { node: self.node, pause: false });
    }

    /// Takes its power away: nothing leaves it any more, and all of its processes are dead.
    #[track_caller]
    pub fn kill(&self) {
        self.demand(&Request::Kill { node: self.node });
    }

    /// Starts it again, with an empty /run, /tmp and /dev/shm, and with its daemon if it had one.
    #[track_caller]
    pub fn boot(&self) {
        self.try_boot().unwrap_or_else(|error| panic!("{}: {error}", self.name()));
    }

    /// The same.
    ///
    /// # Errors
    /// When the keeper refuses, or is gone.
    pub fn try_boot(&self) -> Result<(), LabError> {
        self.ask(&Request::Boot { node: self.node })?;
        cluster::start_again(self.lab, self.node)
    }

    /// Starts its daemon again, which has ended.
    ///
    /// # Errors
    /// When the keeper refuses, or is gone.
    pub fn start_daemon(&self) -> Result<(), LabError> {
        cluster::start_again(self.lab, self.node)
    }

    /// How many frames its cable has taken and given: from the machine, and to it. None where the kernel
    /// carries them.
    ///
    /// # Errors
    /// When the keeper does not answer.
    pub fn frames(&self) -> Result<Option<[Counts; 2]>, LabError> {
        Ok(self.lab.status()?.nodes[self.node as usize].frames)
    }
}
