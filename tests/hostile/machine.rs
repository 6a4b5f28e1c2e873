//! Root's daemons on this machine and users that may attack them.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Pid;
use serde_json::Value;
use tutti_tests::users::Users;
use tutti_tests::{LIMIT, Ran, run};

use crate::cluster::Cluster;
use crate::harness::Running;

/// Root's daemons, in a folder that users can reach, and the users. Fields end in this order: daemons, then what users have left.
pub struct Machine {
    /// Asked by root.
    pub cluster: Cluster,
    /// Those who attack, and those who are attacked.
    pub users: Users,
}

impl Machine {
    /// Starts one to three daemons as `tutti up` does; `more` are its options. None, with a line, when this is not root.
    #[track_caller]
    pub fn up(name: &str, nodes: u32, users: u32, more: &[&str]) -> Option<Self> {
        let users = Users::new(name, users)?;
        let folder = users.root().join("daemons");
        let cluster = Cluster::up_at(folder, users.programs().to_path_buf(), nodes, more);
        Some(Machine { cluster, users })
    }

    /// Uid of a user by its number, from 0.
    pub fn uid(&self, user: usize) -> u32 {
        self.users.uids()[user]
    }

    /// The socket of the head's daemon.
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

    /// What `tutti ps --json` has about a job; null without it.
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

    /// A connection to the head's daemon, by a user: made by a process of its own, since the kernel names who has connected.
    #[track_caller]
    pub fn connect(&self, user: usize) -> UnixStream {
        self.as_user(user, |machine| UnixStream::connect(machine.socket()).expect("the daemon lives"))
    }

    /// Does something in a thread that is a user: the kernel's word on it, on every descriptor that it makes, is the user's.
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

    /// One frame of the local socket's protocol.
    pub fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
        let head = [kind, 0, payload.len() as u32];
        head.iter().flat_map(|word| word.to_ne_bytes()).chain(payload.iter().copied()).collect()
    }
}
