//! The jobs of other users on this machine, as their daemons show them ([`tutti_protocol::public`]).
//!
//! No daemon is trusted: a list counts if the kernel confirms that the user in the socket's name listens
//! there, and then for that user only. All are read at once, until a deadline; lists that are late, too long
//! or malformed are left out.
//!
//! Names cost nothing, and anybody may take thousands that name anybody. Those of processes that are daemons
//! of the users whom they name come first, and nobody can make more of these than there are daemons; the
//! others follow, of each user one after the other: first those that a daemon has whose own name is taken
//! (`PID-NUMBER`), drawn by lot, since others can copy their beginning.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::process::Pid;
use tutti_os::stat::owner;
use tutti_protocol::public::{LIST_BYTES_MAX, NAME, PublicRow, decode};
use tutti_shm::users::is_one_user;

/// For all of them together.
const DEADLINE: Duration = Duration::from_secs(1);
/// Names that are tried, and daemons of one user that are read.
const NAMES_MAX: usize = 4096;
const DAEMONS_MAX: usize = 8;
/// Name of a daemon's process.
const DAEMON: &[u8] = b"tuttid\n";

/// A daemon of another user, and what it has sent so far.
#[derive(Debug)]
struct Daemon {
    uid: u32,
    socket: OwnedFd,
    text: Vec<u8>,
    is_read: bool,
}

/// The jobs of all other users' daemons here.
pub fn jobs() -> Vec<PublicRow> {
    // Names may be anything, also what is no text: they are users'.
    let sockets = std::fs::read("/proc/net/unix").unwrap_or_default();
    let mut daemons = found(&String::from_utf8_lossy(&sockets), rustix::process::geteuid().as_raw());
    let deadline = Instant::now() + DEADLINE;
    while daemons.iter().any(|daemon| !daemon.is_read) && read_some(&mut daemons, deadline) {}
    let complete = daemons.into_iter().filter(|daemon| daemon.is_read);
    let mut rows: Vec<PublicRow> = complete.flat_map(|daemon| decode(&daemon.text, daemon.uid)).collect();
    rows.sort_by_key(|row| (row.uid, row.job));
    rows
}

/// `sockets` is /proc/net/unix: flags are the fourth word, the name is the last, an abstract one begins with
/// @.
fn found(sockets: &str, own: u32) -> Vec<Daemon> {
    let listening = sockets.lines().filter(|line| line.split_whitespace().nth(3) == Some("00010000"));
    let names = listening.filter_map(|line| line.rsplit_once(" @").map(|(_, name)| name));
    let claims = names.filter_map(|name| Some((claim(name)?, name)));
    let claims = claims.filter(|(claim, _)| claim.uid != own).collect();
    let mut of_user: BTreeMap<u32, usize> = BTreeMap::new();
    let mut daemons = Vec::new();
    for (Claim { uid, .. }, name) in in_order(claims, is_daemon).into_iter().take(NAMES_MAX) {
        if of_user.get(&uid).is_some_and(|count| *count >= DAEMONS_MAX) {
            continue;
        }
        // Anyone may choose the name; only the listener counts.
        let Some(socket) = connected(name).filter(|socket| listener(socket) == Some(uid)) else { continue };
        *of_user.entry(uid).or_default() += 1;
        daemons.push(Daemon { uid, socket, text: Vec::new(), is_read: false });
    }
    daemons
}

/// Claim of a name: the user whose daemon it is to be, and its process if that is said too.
#[derive(Clone, Copy, Debug)]
struct Claim {
    uid: u32,
    pid: Option<Pid>,
    /// Whether it is the only name of its kind that the process may have.
    is_own: bool,
}

fn claim(name: &str) -> Option<Claim> {
    let (uid, number) = name.strip_prefix(NAME)?.split_once('/')?;
    let (number, beside) = number.split_once('-').map_or((number, None), |(pid, more)| (pid, Some(more)));
    let pid = || Pid::from_raw(i32::from_str_radix(number, 16).ok()?);
    // As a daemon writes it: a process has one name.
    let pid = pid().filter(|pid| format!("{:x}", pid.as_raw_nonzero()) == number);
    Some(Claim { uid: uid.parse().ok()?, pid, is_own: beside.is_none() })
}

/// The process is a daemon of the user whom its name names; where `/proc` hides it nobody knows.
fn is_daemon(claim: &Claim) -> bool {
    let Some(pid) = claim.pid else { return false };
    let name = || std::fs::read(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok();
    owner(pid) == Some(claim.uid) && name().as_deref() == Some(DAEMON)
}

/// Names in the order in which they are tried. While all have room they need not be looked at.
fn in_order(claims: Vec<(Claim, &str)>, is_daemon: impl Fn(&Claim) -> bool) -> Vec<(Claim, &str)> {
    if claims.len() <= NAMES_MAX {
        return claims;
    }
    // Thousands of names may begin with the number of one process.
    let mut known = BTreeMap::new();
    let mut is_daemon = |claim: &Claim| {
        let pid = claim.pid.map(|pid| pid.as_raw_nonzero());
        *known.entry((claim.uid, pid)).or_insert_with(|| is_daemon(claim))
    };
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (claim, name) in claims {
        match is_daemon(&claim) {
            true if claim.is_own => first.push((claim, name)),
            is_beside => rest.push((!is_beside, claim, name)),
        }
    }
    let lots = RandomState::new();
    rest.sort_by_cached_key(|(is_last, _, name)| (*is_last, lots.hash_one(name)));
    let mut count = BTreeMap::<u32, usize>::new();
    let numbered = rest.into_iter().map(|(_, claim, name)| {
        let number = count.entry(claim.uid).or_default();
        *number += 1;
        (*number, claim, name)
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort_by_key(|(number, ..)| *number);
    first.extend(numbered.into_iter().map(|(_, claim, name)| (claim, name)));
    first
}

/// None: there is no listener, or it has no room for us now.
fn connected(name: &str) -> Option<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&socket, &address).ok()?;
    Some(socket)
}

fn listener(socket: &OwnedFd) -> Option<u32> {
    sockopt::socket_peercred(socket).ok().map(|peer| peer.uid.as_raw()).filter(|uid| is_one_user(*uid))
}

/// Waits for some of them and reads what there is; `false`: it is too late.
fn read_some(daemons: &mut Vec<Daemon>, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    let Ok(timeout) = Timespec::try_from(left) else { return false };
    let mut polled: Vec<PollFd<'_>> = daemons
        .iter()
        .filter(|daemon| !daemon.is_read)
        .map(|daemon| PollFd::new(&daemon.socket, PollFlags::IN))
        .collect();
    match poll(&mut polled, Some(&timeout)) {
        // The caller's signal, for instance of a window that has changed its size.
        Err(rustix::io::Errno::INTR) => return true,
        Ok(0) | Err(_) => return false,
        Ok(_) => {}
    }
    drop(polled);
    let mut bytes = [0; 16 << 10];
    daemons.retain_mut(|daemon| {
        if daemon.is_read {
            return true;
        }
        match rustix::io::read(&daemon.socket, &mut bytes) {
            Ok(0) => daemon.is_read = true,
            Ok(read) => daemon.text.extend(&bytes[..read]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
        daemon.text.len() <= LIST_BYTES_MAX
    });
    true
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    /// A listener of this user's, and its line of /proc/net/unix.
    fn bind(claimed: u32, number: &str) -> (UnixListener, String) {
        let name = format!("{NAME}{claimed}/{number}-{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        (listener, format!("0000: 00000002 00000000 00010000 0001 01 1 @{name}"))
    }

    /// Names of others by the thousand, in the name of the one whom they are to hide and in other names.
    #[test]
    fn others_are_not_hidden_behind_names_that_somebody_has_taken() {
        let name = |uid: u32, pid: u32| format!("{NAME}{uid}/{pid:x}");
        let mut names: Vec<String> = (0..3 * NAMES_MAX as u32).map(|pid| name(7, 10_000 + pid)).collect();
        names.extend((0..3 * NAMES_MAX as u32).map(|pid| name(8, 10_000 + pid)));
        names.extend([name(7, 9), name(9, 17), name(9, 18)]);
        let claims = |names: &'_ [String]| -> Vec<(Claim, String)> {
            names.iter().map(|name| (claim(name).expect("a claim"), name.clone())).collect()
        };
        let all = claims(&names);
        let all: Vec<(Claim, &str)> = all.iter().map(|(claim, name)| (*claim, name.as_str())).collect();
        let process = |claim: &Claim| claim.pid.map(|pid| (claim.uid, pid.as_raw_nonzero().get()));
        let tried = |is_daemon: &dyn Fn(&Claim) -> bool| -> Vec<String> {
            let tried = in_order(all.clone(), is_daemon).into_iter().take(NAMES_MAX);
            tried.map(|(_, name)| name.to_owned()).collect()
        };
        let found = tried(&|claim| [Some((7, 9)), Some((9, 17))].contains(&process(claim)));
        assert_eq!(found[..2], [name(7, 9), name(9, 17)], "those that are what they say");
        assert!(found.contains(&name(9, 18)), "it is one of a few of its user");
        // Where processes of others are hidden.
        let found = tried(&|_| false);
        assert!(found.contains(&name(9, 17)) && found.contains(&name(9, 18)));
        let of_seven = found.iter().filter(|found| found.starts_with(&name(7, 0)[..NAME.len() + 2]));
        assert_eq!(of_seven.count(), NAMES_MAX / 2 - 1);
        let (uid, pid) = (rustix::process::geteuid().as_raw(), Some(rustix::process::getpid()));
        let own = Claim { uid, pid, is_own: true };
        assert!(!is_daemon(&own), "this is no daemon");
        let written = claim(&format!("{NAME}5/1f"));
        assert_eq!(written.and_then(|claim| process(&claim)), Some((5, 31)));
        assert!(claim(&format!("{NAME}5/01f")).is_some_and(|claim| claim.pid.is_none()));
        assert!(["7", "x/1", ""].iter().all(|rest| claim(&format!("{NAME}{rest}")).is_none()));
    }

    /// A daemon whose name somebody has taken, and thousands of names around it.
    #[test]
    fn others_that_listen_beside_a_name_that_is_taken_are_not_hidden() {
        let beside = |uid: u32, number: u32| format!("{NAME}{uid}/9-{number:x}");
        let is_daemon =
            |claim: &Claim| claim.uid == 7 && claim.pid.is_some_and(|pid| pid.as_raw_nonzero().get() == 9);
        let finds = |names: &[String]| {
            let claims = names.iter().map(|name| (claim(name).expect("a claim"), name.as_str())).collect();
            let tried = in_order(claims, is_daemon);
            tried.iter().take(NAMES_MAX).any(|(_, name)| *name == beside(7, 1))
        };
        // Of other kinds, in the name of its user and of each other one.
        let mut names: Vec<String> =
            (0..3 * NAMES_MAX as u32).map(|pid| format!("{NAME}7/{:x}", 10_000 + pid)).collect();
        names.extend((0..NAMES_MAX as u32 - 10).map(|uid| format!("{NAME}{}/1", 1000 + uid)));
        names.extend([format!("{NAME}7/9"), beside(7, 1)]);
        assert!((0..20).all(|_| finds(&names)));
        // Of its own kind, one in two has room: by lot.
        let mut names = vec![beside(7, 1)];
        names.extend((1..2 * NAMES_MAX as u32).map(|number| beside(7, 10 + number)));
        assert!((0..100).any(|_| finds(&names)), "it is found by some of the commands");
    }

    #[test]
    fn other_users_are_believed_only_of_themselves_and_wait_for_nobody() {
        let own = rustix::process::geteuid().as_raw();
        // Seen by another user: names of this user are right, all others are lies.
        let (well, line) = bind(own, "well");
        let (silent, silent_line) = bind(own, "silent");
        let (flooding, flooding_line) = bind(own, "flooding");
        let (_liar, liar_line) = bind(own + 1, "liar");
        let more: Vec<_> = (0..20).map(|number| bind(own, &format!("more{number}"))).collect();
        let mut lines = vec![line, silent_line, flooding_line, liar_line];
        lines.extend(more.iter().map(|(_, line)| line.clone()));
        lines.push(format!(
            "0000: 2 0 00010000 1 1 7 @{NAME}{own}/gone\n0000: 2 0 00000000 1 1 7 @{NAME}rubbish"
        ));
        let mut daemons = found(&lines.join("\n"), own + 7);
        assert_eq!(daemons.len(), DAEMONS_MAX);
        assert!(daemons.iter().all(|daemon| daemon.uid == own));
        assert!(found(&lines.join("\n"), own).is_empty(), "one's own jobs are listed elsewhere");

        let row = format!(
            "[{{\"job\":3,\"uid\":{own},\"state\":\"running\",\"ranks\":2,\"nodes\":1,\"since_ms\":1,\"command\":\"x\"}}]"
        );
        let (mut accepted, _) = well.accept().unwrap();
        accepted.write_all(row.as_bytes()).unwrap();
        drop(accepted);
        let _kept = silent.accept().unwrap();
        let (mut accepted, _) = flooding.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        while accepted.write_all(&[b'['; 4096]).is_ok() {}
        // A wait for the silent one would be over the limit of a test.
        let began = Instant::now();
        while read_some(&mut daemons, began + Duration::from_millis(300)) {}
        let read: Vec<_> = daemons.iter().filter(|daemon| daemon.is_read).collect();
        assert_eq!(read.len(), 1);
        assert_eq!(decode(&read[0].text, own).len(), 1);
        assert!(daemons.iter().all(|daemon| daemon.text.len() <= LIST_BYTES_MAX), "it has been let go");
    }
}
