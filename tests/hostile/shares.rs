//! Who has a share of the machine: users whose jobs work, and nobody else.

use std::process::{Child, Command, Stdio};

use std::io::BufRead;

use tutti_tests::users::Users;
use tutti_tests::{await_that, comes_true};

use crate::harness::{RANK, Running};

/// So many users listen on names of daemons and do nothing.
const IDLE: usize = 7;

/// A network namespace, in which names of sockets are its own: no other test's daemons are seen.
struct Space(Child);

impl Space {
    fn new() -> Option<Self> {
        let mut command = Command::new("unshare");
        let script = "ip link set lo up && echo up && exec sleep 1000";
        command.args(["--net", "sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut space = Space(command.spawn().ok()?);
        let mut line = String::new();
        std::io::BufReader::new(space.0.stdout.take()?).read_line(&mut line).ok()?;
        if line != "up\n" {
            tutti_testkit::skip(tutti_testkit::Need::NetworkNamespace, "unshare --net");
            return None;
        }
        Some(space)
    }

    /// A command of a user's in it.
    fn inside(&self, uid: u32, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg("setpriv");
        inside.args([format!("--reuid={uid}"), format!("--regid={uid}")]).arg("--clear-groups");
        inside.arg(command.get_program()).args(command.get_args());
        inside.current_dir(command.get_current_dir().expect("its folder"));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn shares_of_the_machine_are_only_for_users_that_work() {
    let Some(users) = Users::new("hostile-shares", 1 + IDLE as u32) else { return };
    let Some(space) = Space::new() else { return };
    let (honest, idle) = (users.uids()[0], &users.uids()[1..]);
    let rank = users.reachable(RANK.as_ref());
    let mut listeners: Vec<Running> = idle
        .iter()
        .map(|uid| {
            let mut listener = users.foreign(*uid, &rank);
            listener.arg(format!("listen=tutti/{uid}/1"));
            Running::start_command(&mut space.inside(*uid, &listener))
        })
        .collect();
    listeners.iter_mut().for_each(|listener| listener.await_line("listens"));
    let words = ["-n", "2", "sh", "-c", "while :; do :; done"];
    let job = Running::start_command(&mut space.inside(honest, &users.command(honest, "mpiexec", &words)));
    listeners.iter_mut().for_each(|listener| listener.await_line("asked"));
    let log = || std::fs::read_to_string(users.on_demand(honest).join("tuttid.log")).unwrap_or_default();
    // One of them works: now there are two, and then one again.
    let mut worker = users.foreign(idle[0], "sh");
    worker.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
    let mut worker = worker.spawn().expect("sh");
    let shares = |text: &str| comes_true(|| log().contains(text));
    assert!(shares("2 users' jobs share this machine by turns"), "{}", log());
    worker.kill().expect("it is ours");
    worker.wait().expect("it is ours");
    assert!(shares("no other user's jobs share this machine"), "{}", log());
    assert_eq!(log().matches("share this machine").count(), 2, "the others count for nobody: {}", log());
    job.signal(rustix::process::Signal::INT);
    assert_eq!(job.end().0, 130);
    drop(listeners);
    await_that("nothing is left", || idle.iter().all(|uid| users.processes(*uid).is_empty()));
}
