//! Daemons of other users on this machine: none of them can stop another's jobs, so they share the machine by its clock
//! (DESIGN-NOTES W16; [`Window`]).
//!
//! ```text
//! our jobs want to run -> listen on the abstract socket tutti/UID/NUMBER -> every LOOK_MS: who else does? -> of k users we are the i-th
//! ```
//!
//! A name is believed if the kernel says that its user listens there, and a user counts once however many names he has; so nobody can
//! take more than anybody else's share. Nothing is ever said on these sockets. Users are numbered by their uids: all who see
//! each other count alike, and until a new one has been seen by all, two may run at once.

use std::collections::{BTreeMap, BTreeSet};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use tutti_sched::Window;

use super::Shell;
use crate::gang::Command;

/// Between two looks while our jobs want to run.
const LOOK_MS: u64 = 500;
/// How the names begin.
const NAME: &str = "tutti/";
/// Names that are asked for their user in one look.
const ASKED_MAX: usize = 256;

/// Who else is there.
#[derive(Debug)]
pub(super) struct Neighbours {
    uid: u32,
    /// While we take part.
    listener: Option<UnixListener>,
    /// Names that have been asked: the user, if he may be believed.
    known: BTreeMap<String, Option<u32>>,
    looked_ms: u64,
    window: Option<Window>,
}

impl Neighbours {
    pub(super) fn new() -> Self {
        Neighbours {
            uid: rustix::process::geteuid().as_raw(),
            listener: None,
            known: BTreeMap::new(),
            looked_ms: 0,
            window: None,
        }
    }

    /// When to look again, if somebody's jobs here want to run.
    pub(super) fn look_ms(&self) -> u64 {
        self.looked_ms + LOOK_MS
    }

    /// Looks who else is there; gives our windows if they have changed.
    fn look(&mut self, wanted: bool, now_ms: u64) -> Option<Option<Window>> {
        // A clock that was set back looks at once.
        if wanted == self.listener.is_some()
            && (!wanted || (self.looked_ms..self.look_ms()).contains(&now_ms))
        {
            return None;
        }
        self.looked_ms = now_ms;
        let window = match wanted {
            true => {
                self.announce();
                self.window_among(&std::fs::read_to_string("/proc/net/unix").unwrap_or_default())
            }
            false => {
                (self.listener, self.known) = (None, BTreeMap::new());
                None
            }
        };
        (std::mem::replace(&mut self.window, window) != window).then_some(window)
    }

    fn announce(&mut self) {
        if self.listener.is_none() {
            let name = format!("{NAME}{}/{:x}", self.uid, std::process::id());
            // Somebody else may have taken the name: he is not believed, and we are not seen.
            let address = SocketAddr::from_abstract_name(name).expect("a short name");
            self.listener = UnixListener::bind_addr(&address).ok();
        }
        // Those who have asked are let go, so that others may.
        if let Some(listener) = &self.listener {
            let _ = listener.set_nonblocking(true);
            while listener.accept().is_ok() {}
        }
    }

    /// `sockets` is what /proc/net/unix says: the name is the last word of a line, an abstract one begins with @.
    fn window_among(&mut self, sockets: &str) -> Option<Window> {
        let names = sockets.lines().filter_map(|line| line.rsplit_once(" @").map(|(_, name)| name));
        let names: BTreeSet<&str> = names.filter(|name| name.starts_with(NAME)).collect();
        self.known.retain(|name, _| names.contains(name.as_str()));
        let new: Vec<&str> = names.into_iter().filter(|name| !self.known.contains_key(*name)).collect();
        for name in new.into_iter().take(ASKED_MAX) {
            let said = name[NAME.len()..].split('/').next().and_then(|uid| uid.parse().ok());
            let user = said.filter(|said| Some(*said) == listens(name));
            self.known.insert(name.to_owned(), user);
        }
        let mut users: BTreeSet<u32> = self.known.values().copied().flatten().collect();
        users.insert(self.uid);
        let index = users.iter().position(|user| *user == self.uid)? as u32;
        let count = users.len() as u32;
        (count > 1).then_some(Window { index, count })
    }
}

/// Whose socket it is; none: nobody listens, or has room for us.
fn listens(name: &str) -> Option<u32> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&socket, &address).ok()?;
    sockopt::socket_peercred(&socket).ok().map(|peer| peer.uid.as_raw())
}

impl Shell {
    /// The head of a cluster of this machine alone shares it with the daemons of other users.
    pub(super) fn share_machine(&mut self, now_ms: u64) {
        let wanted = self.core.is_of_one_machine() && self.switcher.is_wanted();
        if let Some(window) = self.neighbours.look(wanted, now_ms) {
            match window {
                Some(Window { count, .. }) => {
                    tracing::info!("{count} users' jobs share this machine by turns");
                }
                None => tracing::info!("no other user's jobs share this machine"),
            }
            self.switcher.tell(Command::Share(window));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_share_counts_each_listening_user_once() {
        let own = rustix::process::geteuid().as_raw();
        let bind = |uid: u32, number: &str| {
            let name = format!("{NAME}{uid}/{number}-{}", std::process::id());
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
            (listener, format!("0000: 00000002 00000000 00010000 0001 01 1 @{name}"))
        };
        let sockets = [bind(own, "a"), bind(own, "b"), bind(own + 1, "c"), bind(own + 2, "d")];
        let mut lines: Vec<String> = sockets.iter().map(|(_, line)| line.clone()).collect();
        lines.push(format!(
            "0000: 0 0 0 1 1 7 @{NAME}rubbish\n0000: 0 0 0 1 1 7 /run/{NAME}5/1\n0000: 7 @{NAME}{}/gone",
            own + 3
        ));
        let mut neighbours = Neighbours::new();
        assert_eq!(neighbours.window_among(&lines.join("\n")), None, "all of them are this user's");
        // As another user sees it.
        let mut other = Neighbours { uid: own + 1, ..Neighbours::new() };
        assert_eq!(other.window_among(&lines.join("\n")), Some(Window { index: 1, count: 2 }));
        assert_eq!(other.window_among(""), None, "they are gone");
    }
}
