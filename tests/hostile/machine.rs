//! Root's daemons on this machine and users that may attack them.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Pid;
use serde_json::Value;
use tutti_tests::users::Users;
use tutti_tests::{LIMIT, Ran, Scratch, run};

use crate::cgroups::DaemonGroups;
use crate::cluster::Cluster;
use crate::harness::Running;

/// Kind of a request's frame on the local socket, and of its answer's.
pub const ASK: u32 = 32;
const ANSWER: u32 = 33;

/// Root's daemons, in a folder that users can reach, and the users. Fields end in this order: daemons, then
/// what users have left.
pub struct Machine {
    /// Asked by root.
    pub cluster: Cluster,
    /// Users who attack, and users who are attacked.
    pub users: Users,
    /// Cgroups of the daemons alone, if they were asked for and there are any.
    pub groups: Option<DaemonGroups>,
}

impl Machine {
    /// Starts one to three daemons as `tutti up` does; `more` are its options. None, with a line, when this
    /// is not root.
    #[track_caller]
    pub fn up(name: &str, nodes: u32, users: u32, more: &[&str]) -> Option<Self> {
        let users = Users::new(name, users)?;
        let folder = users.root().join("daemons");
        let cluster = Cluster::up_at(folder, users.programs().to_path_buf(), nodes, more);
        Some(Machine { cluster, users, groups: None })
    }

    /// The same with cgroups of the daemons' own: what their jobs have in all of them can be seen.
    #[track_caller]
    pub fn up_within_groups(name: &str, nodes: u32, users: u32, more: &[&str]) -> Option<Self> {
        let users = Users::new(name, users)?;
        let groups = DaemonGroups::make(name);
        if groups.is_none() {
            tutti_testkit::skip_part(
                tutti_testkit::Need::Cgroup,
                "what jobs leave in cgroups is not looked at",
            );
        }
        let entrances = groups.as_ref().map(DaemonGroups::entrances).unwrap_or_default();
        let folder = users.root().join("daemons");
        let cluster = Cluster::up_within(folder, users.programs().to_path_buf(), entrances, nodes, more);
        Some(Machine { cluster, users, groups })
    }

    /// One daemon and one user; every starter is this script, which has `$starter` to become one. None, with
    /// a line, when this is not root.
    #[track_caller]
    pub fn up_with_starter(name: &str, script: &str) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;
        let users = Users::new(name, 1)?;
        let (path, starter) =
            (users.root().join("starter"), users.programs().join("libexec/tutti/tutti-starter"));
        std::fs::write(&path, format!("#!/bin/sh\nstarter={}\n{script}\n", starter.display()))
            .expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        let folder = users.root().join("daemons");
        let cluster = Cluster::up_with_starter(folder, users.programs().to_path_buf(), &path);
        Some(Machine { cluster, users, groups: None })
    }

    /// Uid of a user by its number, from 0.
    pub fn uid(&self, user: usize) -> u32 {
        self.users.uids()[user]
    }

    /// A program in C of the source tree, compiled where users can execute it. What links our libraries needs
    /// [`Self::mpi`].
    #[track_caller]
    pub fn compile(&self, source: &str) -> PathBuf {
        let name = self.users.root().file_name().expect("it has one").to_string_lossy();
        let scratch = Scratch::new(&format!("{name}-programs"));
        self.users.reachable(&tutti_tests::compile(source, scratch.path()))
    }

    /// `tutti` with these words, by a user, for a program that links our libraries, asked for at a node.
    pub fn mpi(&self, user: usize, node: u32, words: &[&str]) -> Command {
        let mut command = self.command(user, "tutti", words);
        if node > 0 {
            command.env("TUTTI_DAEMON", self.cluster.folder.join(format!("node{node}.sock")));
        }
        // The source tree may be where users have no access.
        command.env("LD_LIBRARY_PATH", self.users.programs().join("lib"));
        command
    }

    /// Numbers of jobs that are not over.
    #[track_caller]
    pub fn jobs(&self) -> Vec<u32> {
        let text = self.cluster.tutti(&["ps", "--json"]).expect_success().stdout;
        let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        rows.iter().filter_map(|row| row["job"].as_u64()).map(|job| job as u32).collect()
    }

    /// The socket of the controller's daemon.
    pub fn socket(&self) -> PathBuf {
        self.cluster.folder.join("tuttid.sock")
    }

    /// Pid of a node's daemon.
    #[track_caller]
    pub fn daemon(&self, node: u32) -> Pid {
        self.cluster.daemon(node)
    }

    /// A program of the installation tree with root's daemons, by a user, in its folder.
    pub fn command(&self, user: usize, name: &str, words: &[&str]) -> Command {
        let mut command = self.users.command(self.uid(user), name, words);
        command.env("TUTTI_DAEMON", self.socket());
        command
    }

    /// A script of the shell, by a user, in its folder; `$tutti` and `$socket` are set.
    pub fn script(&self, user: usize, script: &str) -> Command {
        let mut command = self.users.foreign(self.uid(user), "sh");
        command.args(["-c", script]).env("tutti", self.users.programs().join("bin/tutti"));
        command.env("TUTTI_DAEMON", self.socket()).env("socket", self.socket());
        command
    }

    /// `tutti` with these words, by a user, to its end.
    #[track_caller]
    pub fn tutti(&self, user: usize, words: &[&str]) -> Ran {
        run(&mut self.command(user, "tutti", words), LIMIT)
    }

    /// A job of a user's that is watched while it runs.
    #[track_caller]
    pub fn start(&self, user: usize, words: &[&str]) -> Running {
        Running::start_command(&mut self.command(user, "tutti", words))
    }

    /// Submits a job and gives its number.
    #[track_caller]
    pub fn submit(&self, user: usize, words: &[&str]) -> u32 {
        let ran = self.tutti(user, &[&["submit"], words].concat()).expect_success();
        let number = ran.stdout.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        number.unwrap_or_else(|| panic!("no number of a job: {ran}"))
    }

    /// Row of a job in `tutti ps --json`; null if there is none.
    #[track_caller]
    pub fn row(&self, job: u32) -> Value {
        let text = self.cluster.tutti(&["ps", "--all", "--json"]).expect_success().stdout;
        let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        rows.into_iter().find(|row| row["job"] == job).unwrap_or_default()
    }

    /// Waits for a state of a job.
    #[track_caller]
    pub fn await_state(&self, job: u32, state: &str) {
        let what = format!("job {job} is {state}");
        let mut row = Value::Null;
        let is_so = || {
            row = self.row(job);
            row["state"] == state
        };
        assert!(tutti_tests::comes_true(is_so), "it was awaited that {what}: {row}");
    }

    /// A connection to the controller's daemon, by a user: made by a process of its own, since the kernel
    /// names who has connected.
    #[track_caller]
    pub fn connect(&self, user: usize) -> UnixStream {
        self.as_user(user, |machine| UnixStream::connect(machine.socket()).expect("the daemon lives"))
    }

    /// Does something in a thread that is a user: the kernel's word on it, on every descriptor that it makes,
    /// is the user's.
    #[track_caller]
    pub fn as_user<T: Send>(&self, user: usize, act: impl FnOnce(&Self) -> T + Send) -> T {
        use rustix::process::{Gid, Uid};
        let uid = self.uid(user);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // These calls of the kernel are for one thread; the C library's are for all.
                let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
                rustix::thread::set_thread_groups(&[]).expect("root may");
                rustix::thread::set_thread_res_gid(group, group, group).expect("root may");
                rustix::thread::set_thread_res_uid(user, user, user).expect("root may");
                act(self)
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Request that `tutti` with these words sends to a daemon: for a user that changes it.
    #[track_caller]
    pub fn request(&self, user: usize, words: &[&str]) -> Value {
        let socket = self.users.root().join("listens.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).expect("it is ours");
        let mut command = self.command(user, "tutti", words);
        command.env("TUTTI_DAEMON", &socket).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("tutti");
        // It may look first whether a daemon is there.
        let mut streams = std::iter::from_fn(|| Some(listener.accept().expect("tutti connects").0));
        let frame = streams.find_map(|mut stream| Self::read_frame(&mut stream).ok());
        let (kind, payload) = frame.expect("it asks until it is answered");
        assert_eq!(kind, ASK);
        // It would ask the next daemon.
        child.kill().expect("our child");
        child.wait().expect("our child");
        std::fs::remove_file(&socket).expect("it is ours");
        serde_json::from_slice(&payload).expect("a request is JSON")
    }

    /// Sends a request, by a user; gives the connection and the answer.
    #[track_caller]
    pub fn ask(&self, user: usize, request: &Value) -> (UnixStream, Value) {
        self.ask_text(user, &request.to_string())
    }

    /// The same, of any text.
    #[track_caller]
    pub fn ask_text(&self, user: usize, request: &str) -> (UnixStream, Value) {
        let mut stream = self.connect(user);
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        stream.write_all(&Self::frame(ASK, request.as_bytes())).expect("the daemon listens");
        loop {
            let (kind, payload) = Self::read_frame(&mut stream).expect("an answer was awaited");
            if kind == ANSWER {
                return (stream, serde_json::from_slice(&payload).expect("an answer is JSON"));
            }
        }
    }

    /// The next frame of the local socket's protocol: its kind and payload.
    pub fn read_frame(stream: &mut UnixStream) -> std::io::Result<(u32, Vec<u8>)> {
        let mut head = [[0; 4]; 3];
        stream.read_exact(head.as_flattened_mut())?;
        let [kind, _, bytes] = head.map(u32::from_ne_bytes);
        let mut payload = vec![0; bytes as usize];
        stream.read_exact(&mut payload)?;
        Ok((kind, payload))
    }

    /// One frame of the local socket's protocol.
    pub fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
        let head = [kind, 0, payload.len() as u32];
        head.iter().flat_map(|word| word.to_ne_bytes()).chain(payload.iter().copied()).collect()
    }
}
