//! Where the files of daemons are: sockets, keys, logs. The program that starts a daemon and those that look
//! for one must agree.
//!
//! | folder | what is in it | root's | a user's |
//! |---|---|---|---|
//! | run | sockets, addresses, records of starters: of this boot | `/run/tutti` | `$XDG_RUNTIME_DIR/tutti` |
//! | state | history, waiting jobs, use: what outlives a boot | `/var/lib/tutti` | `~/.local/state/tutti/HOST` |
//!
//! A run folder that a variable or an option names is the state folder too. A daemon whose state is elsewhere
//! leaves a link to it beside its socket ([`STATE_LINK`]), so that commands need not know.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use tutti_os::slurm;

use crate::daemon_lock;

/// Environment variable that names the folder.
pub const FOLDER_VARIABLE: &str = "TUTTI_DIR";
/// Environment variable that names the socket of the daemon to be asked.
pub const SOCKET_VARIABLE: &str = "TUTTI_DAEMON";
/// Environment variable that names the folder of what outlives a boot.
pub const STATE_VARIABLE: &str = "TUTTI_STATE";
/// The link to the state folder, beside the socket.
pub const STATE_LINK: &str = "state";
/// The folders of root's daemon.
const SYSTEM: [&str; 2] = ["/run/tutti", "/var/lib/tutti"];
/// The socket of a node's daemon, in the folder.
pub const SOCKET: &str = "tuttid.sock";
/// How the folders of daemons begin that `mpiexec` has started.
const ON_DEMAND: &str = "local-";
/// The same in allocations of Slurm.
const OF_ALLOCATION: &str = "slurm-";
/// The controller's log of events, in the folder.
pub const EVENTS: &str = "events.jsonl";
/// The controller's log of the turns of gangs, in the folder.
pub const TURNS: &str = "turns.jsonl";

/// The file that says where the daemon of a node hears others, in the folder.
pub fn address(name: &str) -> String {
    format!("{}.address", name.replace('/', "_"))
}

/// Writes the file of [`address`].
///
/// # Errors
/// When the system does not let us.
pub fn write_address(file: &Path, address: SocketAddr) -> io::Result<()> {
    // Who waits for it reads all of it or nothing.
    let new = file.with_added_extension("new");
    std::fs::write(&new, format!("{address}\n"))?;
    std::fs::rename(&new, file)
}

/// Reads it; none: there is no such file.
pub fn read_address(file: &Path) -> Option<SocketAddr> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Value of [`SOCKET_VARIABLE`] with which no daemon is asked or started.
pub const NO_DAEMON: &str = "none";
/// Environment variables that name the batch job of a process, beside those of Slurm: what it starts ends
/// with it.
const BATCH_VARIABLES: [&str; 3] = ["PBS_JOBID", "LSB_JOBID", "JOB_ID"];

/// The folder: `TUTTI_DIR`, else root's, else the user's.
pub fn folder() -> PathBuf {
    if let Some(folder) = path_of(FOLDER_VARIABLE) {
        return folder;
    }
    let uid = rustix::process::geteuid().as_raw();
    // The variable may have come with a batch job from another node.
    match path_of("XDG_RUNTIME_DIR").filter(|runtime| runtime.is_dir()) {
        _ if uid == 0 => PathBuf::from(SYSTEM[0]),
        Some(runtime) => runtime.join("tutti"),
        None => std::env::temp_dir().join(format!("tutti-{uid}")),
    }
}

/// Root's folder, which is that of all users' daemon where there is one.
pub fn system() -> &'static Path {
    Path::new(SYSTEM[0])
}

/// The socket of root's daemon.
pub fn of_root() -> PathBuf {
    system().join(SOCKET)
}

/// The path that a variable names.
fn path_of(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The state folder of a daemon with this run folder, where neither option nor file names one.
pub fn state(run: &Path) -> PathBuf {
    path_of(STATE_VARIABLE).unwrap_or_else(|| state_by_default(run))
}

fn state_by_default(run: &Path) -> PathBuf {
    if run == Path::new(SYSTEM[0]) {
        return SYSTEM[1].into();
    }
    if path_of(FOLDER_VARIABLE).is_some() || run != folder() {
        return run.to_owned();
    }
    // A home may be that of many machines.
    let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "_");
    let base = path_of("XDG_STATE_HOME").or_else(|| Some(path_of("HOME")?.join(".local/state")));
    base.filter(|base| base.is_absolute())
        .map_or_else(|| run.to_owned(), |base| base.join("tutti").join(host))
}

/// Where a daemon whose socket is or was in this folder keeps its state.
pub fn state_of(run: &Path) -> PathBuf {
    std::fs::read_link(run.join(STATE_LINK)).unwrap_or_else(|_| state(run))
}

/// Leaves the link to a state folder beside a socket.
///
/// # Errors
/// When it cannot be made.
pub fn link_state(socket: &Path, state: &Path) -> io::Result<()> {
    let run = socket.parent().unwrap_or(Path::new("/"));
    let link = run.join(STATE_LINK);
    let state = std::path::absolute(state)?;
    let before = std::fs::read_link(&link).ok();
    if before.as_ref() == Some(&state) {
        return Ok(());
    }
    if state == std::path::absolute(run)? {
        return before.map_or(Ok(()), |_| std::fs::remove_file(link));
    }
    // Several daemons of one folder may be at it.
    let new = run.join(format!("{STATE_LINK}.{}", std::process::id()));
    let _ = std::fs::remove_file(&new);
    std::os::unix::fs::symlink(state, &new)?;
    std::fs::rename(&new, link).inspect_err(|_| drop(std::fs::remove_file(&new)))
}

/// The user names a daemon, and means no other one.
pub fn is_named() -> bool {
    path_of(SOCKET_VARIABLE).is_some()
}

/// The folder of the daemon that `mpiexec` starts on this node of an allocation of Slurm; none: this is no
/// node of one.
pub fn of_allocation() -> Option<PathBuf> {
    slurm::variable("SLURMD_NODENAME").and_then(|node| of_allocation_on(&node))
}

/// The same on the node of this name; none: this process is in no allocation.
pub fn of_allocation_on(node: &str) -> Option<PathBuf> {
    let name = format!("{OF_ALLOCATION}{}.{}", slurm::job()?, node.replace('/', "_"));
    Some(folder().join(name))
}

/// Folders of daemons of other allocations that have left them behind: they were killed. In the own one,
/// which may have several nodes on this machine, daemons begin anew beside the files of those that were
/// killed.
pub fn left_allocations(own: &Path) -> Vec<PathBuf> {
    let inside = std::fs::read_dir(folder()).into_iter().flatten().flatten();
    inside.map(|entry| entry.path()).filter(|path| is_left_allocation(path, own)).collect()
}

fn is_left_allocation(path: &Path, own: &Path) -> bool {
    let of_job = |path: &Path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        name.starts_with(OF_ALLOCATION).then(|| name.split('.').next().unwrap_or_default().to_owned())
    };
    let socket = path.join(SOCKET);
    let is_of_other = of_job(path).is_some_and(|job| Some(job) != of_job(own));
    let is_free = || {
        let lock = File::open(socket.with_extension("sock.lock"));
        lock.is_ok_and(|lock| !daemon_lock::is_held(&lock))
    };
    // A daemon that begins has made its lock, and may not have taken it: its socket comes later. One of the
    // last release holds a lock of another kind, and answers.
    is_of_other && socket.exists() && is_free() && !is_answered(&socket)
}

/// The socket of the daemon for a user's program: `TUTTI_DAEMON` (its folder, as of `tuttid --dir`, is
/// enough), that of the allocation, the user's own, else root's.
pub fn socket() -> PathBuf {
    if let Some(named) = path_of(SOCKET_VARIABLE) {
        let is_folder = named.as_os_str() != NO_DAEMON && named.is_dir();
        return if is_folder { named.join(SOCKET) } else { named };
    }
    if let Some(of_allocation) =
        of_allocation().map(|folder| folder.join(SOCKET)).filter(|it| is_answered(it))
    {
        return of_allocation;
    }
    let own = folder().join(SOCKET);
    let system = Path::new(SYSTEM[0]).join(SOCKET);
    // A daemon that was killed leaves its file behind.
    if system.exists() && !is_answered(&own) { system } else { own }
}

/// A daemon of root's or of this user's listens there, or there is one that this user may not ask. What
/// another user has put where this user's daemon would be hides no other daemon.
fn is_answered(socket: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = |uid: u32| [own, 0].contains(&uid);
    match connect_at_once(socket) {
        Ok(stream) => rustix::net::sockopt::socket_peercred(&stream)
            .is_ok_and(|peer| is_trusted(peer.uid.as_raw()) || is_named()),
        Err(Errno::ACCESS | Errno::AGAIN) => {
            let folder = socket.parent().and_then(|folder| folder.symlink_metadata().ok());
            folder.is_none_or(|folder| is_trusted(folder.uid()))
        }
        Err(_) => false,
    }
}

/// Connects without a wait; `AGAIN`: whoever listens there has no room now, or is stopped.
fn connect_at_once(socket: &Path) -> rustix::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(socket)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream)
}

/// The socket on which a daemon hands out its board, beside its own.
pub fn board(daemon: &Path) -> PathBuf {
    daemon.with_extension("board")
}

/// The socket on which a daemon is asked for regions of other nodes, beside its own.
pub fn regions(daemon: &Path) -> PathBuf {
    daemon.with_extension("regions")
}

/// The folder of the daemon that `mpiexec` starts by itself: one for each user, pid namespace and batch job.
pub fn on_demand() -> PathBuf {
    let space = std::fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino());
    let other = || BATCH_VARIABLES.iter().find_map(|name| std::env::var(name).ok());
    let batch = slurm::job().or_else(other);
    let batch = batch.unwrap_or_default();
    let batch: String = batch.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    folder().join(format!("{ON_DEMAND}{space}-{batch}").trim_end_matches('-'))
}

/// The folder of the daemon of this node that a user's program means: the cluster's if there is one, else the
/// one that `mpiexec` has started.
pub fn of_node() -> PathBuf {
    let cluster = socket();
    let own = on_demand();
    if !is_named() && own.is_dir() && !is_answered(&cluster) {
        return own;
    }
    cluster.parent().map_or_else(folder, PathBuf::from)
}

/// The folders in which logs have jobs of this node: that of the daemon which a user's program means, then
/// the others.
pub fn histories() -> Vec<PathBuf> {
    let first = of_node();
    let cluster = socket().parent().map_or_else(folder, PathBuf::from);
    let mut folders = vec![state_of(&first)];
    if !is_named() {
        folders.extend([state_of(&cluster), state_of(&folder()), on_demand()]);
    }
    let mut known = Vec::new();
    folders.retain(|folder| {
        let is_new = !known.contains(folder);
        known.push(folder.clone());
        is_new
    });
    folders
}

/// Opens a log for reading. Of a folder that nobody has named, and that anybody may have made in `/tmp`, only
/// what this user or root has written counts.
///
/// # Errors
/// When it cannot be opened, is no file, or is another user's.
pub fn open_events(path: &Path, is_named: bool) -> io::Result<File> {
    let (file, found) = tutti_os::open_with_facts(path)?;
    let own = rustix::process::geteuid().as_raw();
    if !is_named && ![own, 0].contains(&found.uid()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is another user's"));
    }
    Ok(file)
}

/// No daemon continues the logs of this folder, which is one of [`histories`]; `is_alone`: none has answered.
pub fn is_left(history: &Path, is_alone: bool) -> bool {
    if history == on_demand() { !is_answered(&history.join(SOCKET)) } else { is_alone }
}

/// Logs in which jobs of this node have numbers, beside the own one of a daemon with this run folder: that of
/// the same user's cluster, and those of the daemons that `mpiexec` has started for the user.
pub fn other_logs(run: &Path, is_on_demand: bool) -> Vec<PathBuf> {
    let base = if is_on_demand { run.parent().unwrap_or(run) } else { run };
    let is_local =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(ON_DEMAND));
    let inside = std::fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = inside.filter(is_local).chain([state_of(base), state_of(Path::new(SYSTEM[0]))]);
    folders.map(|folder| folder.join(EVENTS)).collect()
}

/// Whether a log is that of a daemon which `mpiexec` has started.
pub(crate) fn is_on_demand_log(log: &Path) -> bool {
    let folder = log.parent().and_then(Path::file_name);
    folder.is_some_and(|name| name.to_string_lossy().starts_with(ON_DEMAND))
}

/// The daemon's program, beside this one.
pub fn daemon() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/tutti"));
    own.with_file_name("tuttid")
}

/// The command `tutti` of this installation, from a program of it.
pub fn tutti() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/tutti"));
    let folder = own.parent().unwrap_or(Path::new("/"));
    match folder.parent().and_then(Path::file_name) {
        Some(name) if name == "libexec" => folder.join("../../bin/tutti"),
        _ => folder.join("tutti"),
    }
}

/// Makes the folder that [`folder`] or its variable names; see [`make_named`].
///
/// # Errors
/// When it cannot be made, or is another user's.
pub fn make(folder: &Path, shared: bool) -> io::Result<()> {
    make_named(folder, shared).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => {
            io::Error::new(error.kind(), format!("{error}; {FOLDER_VARIABLE} names another one"))
        }
        _ => error,
    })
}

/// Makes a folder, for its owner alone unless `shared`: then others may reach the socket in it.
///
/// # Errors
/// When it cannot be made, or is another user's.
pub fn make_named(folder: &Path, shared: bool) -> io::Result<()> {
    let mode = if shared { 0o755 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(folder);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            io::Error::new(io::ErrorKind::NotADirectory, "a file is there, no folder")
        }
        _ => error,
    })?;
    let found = std::fs::symlink_metadata(folder)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !own || found.mode() & 0o022 != 0 {
        let text = format!(
            "{} is not this user's alone (owner {}, mode {:o})",
            folder.display(),
            found.uid(),
            found.mode() & 0o777
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// Opens the log of a daemon that is about to be started, for its owner alone; `anew`: what is in it goes.
/// All writes go to its end.
///
/// # Errors
/// When it cannot be opened.
pub fn open_log(path: &Path, anew: bool) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let flags = if anew { flags | OFlags::TRUNC } else { flags };
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// The starter's program: `TUTTI_STARTER`, else `../libexec/tutti/tutti-starter` from this program's own
/// folder.
pub fn starter() -> PathBuf {
    if let Some(path) = std::env::var_os("TUTTI_STARTER") {
        return path.into();
    }
    libexec("tutti-starter")
}

/// The PMIx server of a job, beside its starter.
pub fn pmix() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|_| starter());
    own.with_file_name("tutti-pmix")
}

/// The program of the ranks of `tutti trace-op`, beside the starter of this installation.
pub fn trace_rank() -> PathBuf {
    libexec("tutti-trace-rank")
}

/// The program of `tutti top`.
pub fn top() -> PathBuf {
    libexec("tutti-top")
}

/// The program of history, metrics and page.
pub fn sight() -> PathBuf {
    libexec("tutti-sight")
}

fn libexec(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/tuttid"));
    let prefix = own.parent().and_then(|bin| bin.parent()).map(PathBuf::from).unwrap_or_default();
    prefix.join("libexec/tutti").join(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// A daemon of the last release, whose lock is not seen from here.
    #[test]
    fn folder_of_a_daemon_that_answers_is_not_left() {
        let scratch = tutti_testkit::Scratch::new("left");
        let folder = |job: u32| scratch.path().join(format!("{OF_ALLOCATION}{job}.a"));
        std::fs::create_dir(folder(7)).unwrap();
        File::create(folder(7).join(SOCKET).with_extension("sock.lock")).unwrap();
        let listener = UnixListener::bind(folder(7).join(SOCKET)).unwrap();
        assert!(!is_left_allocation(&folder(7), &folder(8)));
        drop(listener);
        assert!(is_left_allocation(&folder(7), &folder(8)) && !is_left_allocation(&folder(7), &folder(7)));
    }

    /// A daemon that is stopped, with as many connections that wait as there is room for.
    #[test]
    fn daemon_without_room_for_a_connection_is_there_without_a_wait() {
        let folder = tutti_testkit::Scratch::new("paths");
        let socket = folder.path().join(SOCKET);
        assert!(!is_answered(&socket));
        let listener = UnixListener::bind(&socket).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        assert!(is_answered(&socket));
        let mut waiting = Vec::new();
        let full = loop {
            match connect_at_once(&socket) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full, Errno::AGAIN, "after {} connections", waiting.len());
        let (tell, said) = channel();
        let at = socket.clone();
        std::thread::spawn(move || tell.send(is_answered(&at)));
        assert_eq!(said.recv_timeout(Duration::from_secs(20)), Ok(true));
    }
}
