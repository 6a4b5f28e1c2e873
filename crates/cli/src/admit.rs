//! `tutti admit`: whether a login by ssh or another service may come to this node, for `pam_exec`
//! (docs/user/keeping.md). PAM names user and step by variables; it runs as root.
//!
//! ```text
//! account       the user has ranks of a job of root's daemon here: 0, else a line and 1
//! open_session  the same, and the process of the login, our parent, comes to those ranks
//! else          0
//! ```
//!
//! Root, and whoever PAM's configuration exempts before, may always come.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, getppid};
use tutti_os::cgroup::PartOfUser;
use tutti_protocol::paths;
use tutti_shm::local_socket::connect_to;

/// Variables of `pam_exec`.
const USER: &str = "PAM_USER";
const STEP: &str = "PAM_TYPE";
/// A daemon that has no room for a connection is awaited for so long: a login waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// PAM's modules have no search path.
const GETENT: &str = "/usr/bin/getent";

/// Reads what PAM says and does it.
///
/// # Errors
/// When the user may not come: a text for the user.
pub fn run() -> Result<ExitCode, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(user), Some(step)) = (variable(USER), variable(STEP)) else {
        return Err(format!("{USER} and {STEP} are not set: it is for pam_exec"));
    };
    if !rustix::process::geteuid().is_root() {
        return Err("it is for root: PAM runs it so in services such as sshd".into());
    }
    let opens = step == "open_session";
    if !opens && step != "account" {
        return Ok(ExitCode::SUCCESS);
    }
    let uid = uid_of(&user).ok_or_else(|| format!("{user} is no user of this node"))?;
    if uid == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let daemon = daemon_of_root()?;
    let part = PartOfUser::newest(uid, daemon)
        .ok_or_else(|| format!("{user} has no job on this node: logins are for those who have one"))?;
    if part.is_suspended() {
        return Err(format!("the job of {user} on this node is suspended: `tutti resume` lets it go on"));
    }
    if opens {
        let login = getppid().ok_or("the process of the login is not seen")?;
        part.admit(login).map_err(|error| format!("the job of {user} takes no login: {error}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The number that the system has for a user.
fn uid_of(user: &str) -> Option<u32> {
    let mut command = Command::new(GETENT);
    let found = command.args(["passwd", "--", user]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = String::from_utf8(found.ok()?.stdout).ok()?;
    let mut fields = text.trim_end().split(':');
    // A number is an entry's too.
    (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok()).flatten()
}

/// The daemon of root's on this node, by the kernel's word.
fn daemon_of_root() -> Result<Pid, String> {
    let socket = paths::of_root();
    let none = |why: String| format!("no daemon of root answers at {}: {why}", socket.display());
    let stream = connect_to(&socket, PATIENCE).map_err(|error| none(error.to_string()))?;
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(|error| none(error.to_string()))?;
    if !peer.uid.is_root() {
        return Err(none(format!("the one there is user {}'s", peer.uid.as_raw())));
    }
    Ok(peer.pid)
}
