//! Where the files of daemons are: sockets, keys, logs. The program that starts a daemon and those that look
//! for one must agree.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Environment variable that names the folder.
pub const FOLDER_VARIABLE: &str = "TUTTI_DIR";
/// Environment variable that names the socket of the daemon to be asked.
pub const SOCKET_VARIABLE: &str = "TUTTI_DAEMON";
/// The socket of a node's daemon, in the folder.
pub const SOCKET: &str = "tuttid.sock";
/// The controller's log of events, in the folder.
pub const EVENTS: &str = "events.jsonl";
/// The controller's log of the turns of gangs, in the folder.
pub const TURNS: &str = "turns.jsonl";

/// The file that says where the daemon of a node hears others, in the folder.
pub fn address(name: &str) -> String {
    format!("{}.address", name.replace('/', "_"))
}

/// Value of [`SOCKET_VARIABLE`] with which no daemon is asked or started.
pub const NO_DAEMON: &str = "none";
/// Environment variables that name the batch job of a process: what it starts ends with it.
const BATCH_VARIABLES: [&str; 4] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"];

/// The folder: `TUTTI_DIR`, else root's, else the user's.
pub fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    let uid = rustix::process::geteuid().as_raw();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        _ if uid == 0 => PathBuf::from("/run/tutti"),
        Some(runtime) => PathBuf::from(runtime).join("tutti"),
        None => std::env::temp_dir().join(format!("tutti-{uid}")),
    }
}

/// The user names a daemon, and means no other one.
pub fn is_named() -> bool {
    std::env::var_os(SOCKET_VARIABLE).is_some_and(|socket| !socket.is_empty())
}

/// The socket of the daemon for a user's program: `TUTTI_DAEMON`, the user's own, else root's.
pub fn socket() -> PathBuf {
    if let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty()) {
        return socket.into();
    }
    let own = folder().join(SOCKET);
    let system = Path::new("/run/tutti").join(SOCKET);
    // A daemon that was killed leaves its file behind.
    if system.exists() && !is_answered(&own) { system } else { own }
}

/// A daemon listens there, or there is one that this user may not ask.
fn is_answered(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
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
    let batch = BATCH_VARIABLES.iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    let batch: String = batch.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    folder().join(format!("local-{space}-{batch}").trim_end_matches('-'))
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

/// The daemon's program, beside this one.
pub fn daemon() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/tutti"));
    own.with_file_name("tuttid")
}

/// Makes the folder, for its owner alone unless `shared`: then others may reach the socket in it.
///
/// # Errors
/// When it cannot be made, or is another user's.
pub fn make(folder: &Path, shared: bool) -> io::Result<()> {
    let mode = if shared { 0o755 } else { 0o700 };
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    let found = std::fs::symlink_metadata(folder)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !own || found.mode() & 0o022 != 0 {
        let text = format!(
            "{} is not this user's alone (owner {}, mode {:o}); {FOLDER_VARIABLE} names another one",
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

/// The program of the ranks of `tutti trace-op`, beside the starter of this installation.
pub fn trace_rank() -> PathBuf {
    libexec("tutti-trace-rank")
}

fn libexec(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/tuttid"));
    let prefix = own.parent().and_then(|bin| bin.parent()).map(PathBuf::from).unwrap_or_default();
    prefix.join("libexec/tutti").join(name)
}
