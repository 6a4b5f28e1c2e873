//! Daemons of other users on this machine: none of them can stop another's jobs, so they share the machine by
//! its clock ([`Window`]).
//!
//! ```text
//! our jobs want to run -> listen on the abstract socket tutti/UID/NUMBER -> every LOOK_MS: who else does, and works? -> of k users we are the i-th
//! ```
//!
//! A name is no proof that somebody needs a share: it costs nothing. A user counts, once, while all of this
//! holds, each by the kernel's word:
//!
//! | | so that nobody counts |
//! |---|---|
//! | a living process of the user listens (SO_PEERCRED, `/proc/PID/status`) | under another user's name |
//! | the user has a process in our user namespace | under the uids that a user may have below its own (`/etc/subuid`) |
//! | the user's processes work: at least one part in [`WORKED_PART`] of a core, for [`STAY_MS`] | without jobs |
//!
//! Nor does a name hide anybody, however many there are. Some new ones are asked in each look, drawn by lot,
//! and first of all those that daemons of others have by their pids, whatever the kernel's list is filled
//! with. A daemon whose name has been taken listens on one that nobody can foresee.
//!
//! More than [`SHARES_MAX`] users share the shares. Nothing is ever said on these sockets. Users are numbered
//! by their uids: all who see each other count alike, and until a new one has been seen by all, two may run
//! at once. Looking takes time that others decide on, so a thread of its own does it; it has what is known,
//! and hands it back. What happens if it stops right here: the windows stay as they are.
//!
//! The keeper's daemon (root's, not started on demand) listens and gives no share: users' jobs under it work
//! under their uids too, and whoever wants turns has them there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, connect, socket_with, sockopt,
};
use rustix::process::{Pid, test_kill_process};
use tutti_os::stat::Stat;
use tutti_os::stat::owner;
use tutti_sched::Window;
use tutti_shm::users::is_one_user;

use super::announced::listen;
use super::clock::now;
use super::{Shell, ShellEvent};
use crate::core::event::Event;
use crate::gang::Command;

/// Between two looks while our jobs want to run.
const LOOK_MS: u64 = 500;
/// How the names begin.
const NAME: &str = "tutti/";
/// Names that are asked for their user in one look, beside those of daemons.
const ASKED_MAX: usize = 256;
/// Daemons of one user that are looked for by their processes.
const DAEMONS_MAX: usize = 8;
/// Name of a daemon's process.
const DAEMON: &[u8] = b"tuttid\n";
/// No more of the kernel's list of sockets is read: it is as long as users make it.
const LIST_BYTES_MAX: u64 = 4 << 20;
/// A user has no less of the machine than one part in so many, whoever else there is.
const SHARES_MAX: u32 = 8;
/// Part of the time of one core, one in so many: who works for less needs no share. Half of the smallest that
/// there is.
const WORKED_PART: u64 = 2 * SHARES_MAX as u64;
/// Time without work after which a user counts no more: gangs rest now and then.
const STAY_MS: u64 = 2000;
/// The kernel counts CPU time for programs in hundredths of a second.
const TICKS_PER_SECOND: u64 = 100;

/// Look-out for daemons of other users.
#[derive(Debug)]
pub(super) struct Neighbours {
    uid: u32,
    /// The keeper's daemon does not.
    gives_shares: bool,
    /// While we take part.
    listener: Option<UnixListener>,
    /// None: a thread has it, and looks.
    census: Option<Census>,
    judged_ms: u64,
    window: Option<Window>,
    /// Whether it was said that others are not seen.
    is_hidden: bool,
    /// Users with whom the machine is shared, and whether others are hidden, as the controller knows it.
    reported: (Vec<u32>, bool),
}

impl Neighbours {
    /// `is_on_demand`: started by a program that needs turns, not by a keeper.
    pub(super) fn new(is_on_demand: bool) -> Self {
        Self::of_user(rustix::process::geteuid().as_raw(), is_on_demand)
    }

    fn of_user(uid: u32, is_on_demand: bool) -> Self {
        Neighbours {
            uid,
            gives_shares: uid != 0 || is_on_demand,
            listener: None,
            census: Some(Census::new(uid)),
            judged_ms: 0,
            window: None,
            is_hidden: false,
            reported: (Vec::new(), false),
        }
    }

    /// Returns the census that is to look for others now, if it is time; it comes back by [`Self::take`].
    fn begin(&mut self, wanted: bool, now_ms: u64) -> Option<Census> {
        if !wanted {
            self.listener = None;
            self.census.iter_mut().for_each(Census::forget);
            return None;
        }
        // A clock that was set back looks at once.
        if self.listener.is_some() && (self.judged_ms..self.judged_ms + LOOK_MS).contains(&now_ms) {
            return None;
        }
        let census = self.census.take()?;
        self.judged_ms = now_ms;
        self.announce();
        if !self.gives_shares {
            self.census = Some(census);
            return None;
        }
        Some(census)
    }

    /// Takes back the census, which has looked.
    fn take(&mut self, mut census: Census) {
        if self.listener.is_none() {
            census.forget();
        }
        self.census = Some(census);
    }

    fn announce(&mut self) {
        if self.listener.is_none() {
            self.listener = listen(&name_of(self.uid, std::process::id())).ok();
        }
        // Those who have asked are let go, so that others may.
        if let Some(listener) = &self.listener {
            let _ = listener.set_nonblocking(true);
            while listener.accept().is_ok() {}
        }
    }
}

fn name_of(uid: u32, pid: u32) -> String {
    format!("{NAME}{uid}/{pid:x}")
}

/// Whom the kernel names for a listening socket.
#[derive(Clone, Copy, Debug)]
struct Listener {
    uid: u32,
    pid: Pid,
    /// Pids are used again.
    since: u64,
}

impl Listener {
    /// None: its user is not known, or the process is not seen from here.
    fn of(peer: UCred) -> Option<Self> {
        let uid = peer.uid.as_raw();
        let since = Stat::of(peer.pid)?.since;
        is_one_user(uid).then_some(Listener { uid, pid: peer.pid, since })
    }

    /// The process is there, and the user's.
    fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.since == self.since && !stat.is_dead())
            && owner(self.pid) == Some(self.uid)
    }
}

/// Knowledge of other users.
#[derive(Debug)]
pub(super) struct Census {
    uid: u32,
    /// Where the kernel shows processes.
    processes: PathBuf,
    /// Names that have been asked: who listens, if he may be believed.
    known: BTreeMap<String, Option<Listener>>,
    /// Work of those users' processes up to some looks, in ticks, the last one last.
    worked: BTreeMap<u32, VecDeque<(u64, u64)>>,
    /// Users who count.
    users: BTreeSet<u32>,
    /// Names on which somebody listens whose process lives and is not seen: nothing is known of his work.
    hidden: BTreeSet<String>,
}

impl Census {
    fn new(uid: u32) -> Self {
        Census {
            uid,
            processes: PathBuf::from("/proc"),
            known: BTreeMap::new(),
            worked: BTreeMap::new(),
            users: BTreeSet::new(),
            hidden: BTreeSet::new(),
        }
    }

    fn forget(&mut self) {
        *self = Self::new(self.uid);
    }

    /// Looks who else is there and works; gives our windows.
    fn poll(&mut self, now_ms: u64) -> Option<Window> {
        let listeners = self.listeners(&sockets());
        let work = if listeners.is_empty() { BTreeMap::new() } else { work_of(&listeners) };
        self.window_among(&work, now_ms)
    }

    /// Users that listen. `sockets` is what /proc/net/unix says: the name is the last word of a line, an
    /// abstract one begins with @.
    fn listeners(&mut self, sockets: &str) -> BTreeSet<u32> {
        let names = sockets.lines().filter_map(|line| line.rsplit_once(" @").map(|(_, name)| name));
        let mut names: BTreeSet<&str> = names.filter(|name| name.starts_with(NAME)).collect();
        let count = names.iter().filter(|name| !self.known.contains_key(**name)).count();
        let is_cut = sockets.len() as u64 >= LIST_BYTES_MAX;
        let daemons = if count > ASKED_MAX || is_cut {
            names_of_daemons(&self.processes, self.uid)
        } else {
            Vec::new()
        };
        names.extend(daemons.iter().map(String::as_str));
        self.known.retain(|name, listener| {
            names.contains(name.as_str()) && listener.is_none_or(|listener| listener.is_alive())
        });
        self.hidden.retain(|name| names.contains(name.as_str()));
        let new = names.into_iter().filter(|name| !self.known.contains_key(*name));
        let is_of_daemon = |name: &&str| daemons.iter().any(|daemon| daemon == name);
        let (first, mut rest): (Vec<&str>, Vec<&str>) = new.partition(is_of_daemon);
        if rest.len() > ASKED_MAX {
            let lots = RandomState::new();
            rest.sort_by_cached_key(|name| lots.hash_one(name));
        }
        for name in first.into_iter().chain(rest.into_iter().take(ASKED_MAX)) {
            let event = name[NAME.len()..].split('/').next().and_then(|uid| uid.parse().ok());
            let peer = match peer_of(name) {
                // Somebody keeps all of its places: it is asked again.
                Err(Errno::AGAIN) => continue,
                peer => peer.ok(),
            };
            if peer.is_some_and(|peer| is_hidden(peer.pid)) {
                self.hidden.insert(name.to_owned());
            }
            let found =
                peer.and_then(Listener::of).filter(|found| Some(found.uid) == event && found.is_alive());
            self.known.insert(name.to_owned(), found);
        }
        let users = self.known.values().flatten().map(|listener| listener.uid);
        users.filter(|user| *user != self.uid).collect()
    }

    /// `work` is what the processes of each user that listens have worked, in ticks.
    fn window_among(&mut self, work: &BTreeMap<u32, u64>, now_ms: u64) -> Option<Window> {
        self.worked.retain(|user, _| work.contains_key(user));
        self.users.retain(|user| work.contains_key(user));
        for (user, worked) in work {
            let looks = self.worked.entry(*user).or_default();
            // A clock that was set back begins anew.
            if looks.back().is_some_and(|(then_ms, _)| *then_ms > now_ms) {
                looks.clear();
            }
            let works = |(then_ms, then): &(u64, u64)| {
                let passed_ms = now_ms - then_ms;
                worked.saturating_sub(*then) * 1000 * WORKED_PART >= passed_ms * TICKS_PER_SECOND
                    && passed_ms > 0
            };
            let is_new = looks.back().is_some_and(works);
            let stays = looks.front().is_none_or(|first| now_ms < first.0 + STAY_MS || works(first));
            match self.users.contains(user) {
                false if is_new => drop(self.users.insert(*user)),
                true if !stays => drop(self.users.remove(user)),
                _ => {}
            }
            looks.push_back((now_ms, *worked));
            while looks.get(1).is_some_and(|(then_ms, _)| now_ms >= then_ms + STAY_MS) {
                looks.pop_front();
            }
        }
        let before = self.users.range(..self.uid).count() as u32;
        let count = (self.users.len() as u32 + 1).min(SHARES_MAX);
        (count > 1).then_some(Window { index: before % count, count })
    }
}

/// The kernel's list of local sockets, as far as it is read. Names may be anything, also what is no text:
/// they are users'.
fn sockets() -> String {
    let mut list = Vec::new();
    if let Ok(file) = std::fs::File::open("/proc/net/unix") {
        let _ = file.take(LIST_BYTES_MAX).read_to_end(&mut list);
    }
    String::from_utf8_lossy(&list).into_owned()
}

/// Names that daemons of others have by their processes, which a folder shows: of each user some.
fn names_of_daemons(processes: &Path, own: u32) -> Vec<String> {
    let mut of_user = BTreeMap::<u32, usize>::new();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(processes).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let uid = entry.metadata().ok().map(|found| found.uid()).filter(|uid| *uid != own);
        let Some((pid, uid)) = pid.zip(uid) else { continue };
        let count = of_user.entry(uid).or_default();
        if *count < DAEMONS_MAX && std::fs::read(entry.path().join("comm")).is_ok_and(|name| name == DAEMON) {
            *count += 1;
            names.push(name_of(uid, pid));
        }
    }
    names
}

/// Asks the kernel who listens there; `AGAIN`: there is no room for us.
fn peer_of(name: &str) -> Result<UCred, Errno> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &address)?;
    sockopt::socket_peercred(&socket)
}

/// The process is there, says the kernel, and `/proc` does not show it (`hidepid`).
fn is_hidden(pid: Pid) -> bool {
    Stat::of(pid).is_none() && test_kill_process(pid) == Err(Errno::PERM)
}

/// Sums up the work of the processes of each of these users, in ticks; nothing of a user without one in our
/// user namespace.
fn work_of(users: &BTreeSet<u32>) -> BTreeMap<u32, u64> {
    let ours = std::fs::read("/proc/self/uid_map").unwrap_or_default();
    let (mut work, mut at_home) = (BTreeMap::new(), BTreeSet::new());
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        let Some(pid) = number else { continue };
        let Some(uid) = entry.metadata().ok().map(|found| found.uid()).filter(|uid| users.contains(uid))
        else {
            continue;
        };
        *work.entry(uid).or_default() += Stat::of(pid).map_or(0, |stat| stat.worked);
        if !at_home.contains(&uid) && std::fs::read(entry.path().join("uid_map")).is_ok_and(|map| map == ours)
        {
            at_home.insert(uid);
        }
    }
    work.retain(|uid, _| at_home.contains(uid));
    work
}

impl Shell {
    /// The controller of a cluster of this machine alone shares it with the daemons of other users.
    pub(super) fn share_machine(&mut self, now_ms: u64) {
        let wanted = self.core.is_of_one_machine() && self.switcher.is_wanted();
        if let Some(mut census) = self.neighbours.begin(wanted, now_ms) {
            let shell_events = self.shell_events.clone();
            tokio::task::spawn_blocking(move || {
                let window = census.poll(now_ms);
                let _ = shell_events.send(ShellEvent::Neighbours(Box::new(census), window));
            });
        }
        if !wanted {
            self.share_by(None);
            self.report_sharers(Vec::new(), false);
        }
    }

    /// Handles the census, which has looked who else is there.
    pub(super) fn handle_neighbours(&mut self, census: Census, window: Option<Window>) {
        let hides_others = !census.hidden.is_empty();
        if hides_others && !std::mem::replace(&mut self.neighbours.is_hidden, true) {
            tracing::warn!(
                "/proc hides the processes of other users here (hidepid): their jobs and ours take no turns"
            );
        }
        let sharers = if window.is_some() { census.users.iter().copied().collect() } else { Vec::new() };
        self.neighbours.take(census);
        if self.neighbours.listener.is_some() {
            self.share_by(window);
            self.report_sharers(sharers, hides_others);
        }
    }

    /// Tells the controller with whom its jobs take turns, for users who ask.
    fn report_sharers(&mut self, sharers: Vec<u32>, hides_others: bool) {
        let reported = (sharers, hides_others);
        if self.neighbours.reported != reported {
            self.neighbours.reported.clone_from(&reported);
            self.core.handle(now(), Event::Sharers(reported.0, reported.1));
        }
    }

    fn share_by(&mut self, window: Option<Window>) {
        if std::mem::replace(&mut self.neighbours.window, window) == window {
            return;
        }
        match window {
            Some(Window { count, .. }) => {
                tracing::info!("{count} users' jobs share this machine by turns");
            }
            None => tracing::info!("no other user's jobs share this machine"),
        }
        self.switcher.send(Command::Share(window));
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use super::*;

    fn census(uid: u32) -> Census {
        Census::new(uid)
    }

    #[test]
    fn neighbours_are_believed_by_the_kernels_word_only() {
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
        let text = lines.join("\n");
        assert!(census(own).listeners(&text).is_empty(), "all of them are this user's");
        // As another user sees it.
        let mut other = census(own + 1);
        assert_eq!(other.listeners(&text), BTreeSet::from([own]));
        assert!(other.listeners("").is_empty() && other.known.is_empty(), "they are gone");
        let work = work_of(&BTreeSet::from([own, own + 77]));
        assert!(work.contains_key(&own) && work.len() == 1, "{work:?}");
    }

    #[test]
    fn neighbours_are_seen_beside_names_that_are_no_text() {
        let own = rustix::process::geteuid().as_raw();
        let name = format!("tutti-x-{}-", std::process::id());
        let bytes = [name.as_bytes(), b"\xff\xfe"].concat();
        let bind = |name: &[u8]| UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap());
        let rubbish = bind(&bytes).unwrap();
        let name = format!("{NAME}{own}/{:x}-behind", std::process::id());
        let listener = bind(name.as_bytes()).unwrap();
        let list = sockets();
        assert!(list.lines().any(|line| line.ends_with(&format!("@{name}"))), "{list}");
        // This list is the machine's: other users may have daemons on it.
        assert!(census(own + 1).listeners(&list).contains(&own), "{list}");
        assert!(!is_hidden(rustix::process::getpid()), "it is seen");
        drop((rubbish, listener));
    }

    /// Names by the thousand, which fill the list, and a daemon that is not in it.
    #[test]
    fn neighbours_are_not_hidden_behind_names_that_somebody_has_taken() {
        let own = rustix::process::geteuid().as_raw();
        let scratch = tutti_testkit::Scratch::new("neighbours-taken");
        let pid = std::process::id();
        let daemon = scratch.path().join(pid.to_string());
        std::fs::create_dir(&daemon).unwrap();
        std::fs::write(daemon.join("comm"), DAEMON).unwrap();
        let listener = listen(&name_of(own, pid)).unwrap();
        let names = |count: usize| -> String {
            (0..count).map(|number| format!("0000: 7 @{NAME}{own}/taken-{number}\n")).collect()
        };
        let census = |uid| Census { processes: scratch.path().to_owned(), ..census(uid) };
        let mut other = census(own + 1);
        assert!(other.listeners(&names(ASKED_MAX)).is_empty(), "there is room for all that are listed");
        let text = names(10 * ASKED_MAX);
        assert_eq!(other.listeners(&text), BTreeSet::from([own]));
        assert_eq!(other.known.len(), 1 + ASKED_MAX + ASKED_MAX, "the time is bounded");
        assert!(names_of_daemons(scratch.path(), own).is_empty(), "of others only");
        // One that nobody could foresee is found by lot.
        let taken = listener;
        let beside = listen(&name_of(own, pid)).unwrap();
        let address = beside.local_addr().unwrap();
        let name = String::from_utf8(address.as_abstract_name().unwrap().to_vec()).unwrap();
        assert!(name.starts_with(&format!("{}-", name_of(own, pid))), "{name}");
        std::fs::remove_dir_all(&daemon).unwrap();
        let (mut other, text) = (census(own + 1), format!("{text}0000: 7 @{name}\n"));
        assert!((0..20).any(|_| other.listeners(&text).contains(&own)), "all are asked in a few looks");
        drop((taken, beside));
    }

    /// Connecting to a daemon all the time keeps others from asking it for a while, and not for good.
    #[test]
    fn neighbour_without_a_place_for_us_is_asked_again() {
        let own = rustix::process::geteuid().as_raw();
        let name = format!("{NAME}{own}/full-{}", std::process::id());
        let listener = listen(&name).unwrap();
        // The same socket with one place.
        rustix::net::listen(&listener, 0).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let held = std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
        let (mut other, text) = (census(own + 1), format!("0000: 7 @{name}\n"));
        assert!(other.listeners(&text).is_empty());
        drop((listener.accept().unwrap(), held));
        assert_eq!(other.listeners(&text), BTreeSet::from([own]));
    }

    #[test]
    fn neighbours_get_no_share_of_the_keepers_daemon() {
        let looks = |uid, is_on_demand| Neighbours::of_user(uid, is_on_demand).begin(true, 1000).is_some();
        assert!(!looks(0, false), "jobs of all users are under it");
        assert!(looks(0, true) && looks(7, false) && looks(7, true));
    }

    #[test]
    fn neighbours_count_while_they_work() {
        let mut census = census(100);
        let mut poll = |now_ms, work: &[(u32, u64)]| {
            let window = census.window_among(&work.iter().copied().collect(), now_ms);
            window.map(|Window { index, count }| (index, count))
        };
        assert_eq!(poll(0, &[(7, 1000), (200, 5000)]), None, "nothing is known of them yet");
        // A sixteenth of half a second is just above 3 ticks.
        assert_eq!(poll(500, &[(7, 1004), (200, 5003)]), Some((1, 2)));
        assert_eq!(poll(1000, &[(7, 1004), (200, 5000 + 50)]), Some((1, 3)));
        // Who rests stays for two seconds.
        assert_eq!(poll(1500, &[(7, 1004), (200, 5100)]), Some((1, 3)));
        assert_eq!(poll(2600, &[(7, 1004), (200, 5200)]), Some((0, 2)));
        assert_eq!(poll(3100, &[(7, 1054)]), Some((1, 2)), "the other has gone");
        assert_eq!(poll(100, &[(7, 1154)]), Some((1, 2)), "the clock was set back");
        assert_eq!(poll(9000, &[]), None);
    }

    #[test]
    fn neighbours_leave_everybody_an_eighth() {
        let mut census = census(100);
        let mut poll = |now_ms, worked| {
            let work = (90..90 + 30).filter(|uid| *uid != 100).map(|uid| (uid, worked)).collect();
            census.window_among(&work, now_ms).map(|Window { index, count }| (index, count))
        };
        assert_eq!((poll(0, 0), poll(500, 50)), (None, Some((2, SHARES_MAX))));
    }
}
