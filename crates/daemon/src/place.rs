//! Where the files of daemons are: sockets, keys, logs. Who starts a daemon and who looks for one must agree.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Environment variable that names the folder.
pub const FOLDER_VARIABLE: &str = "TUTTI_DIR";
/// Environment variable that names the socket of the daemon to be asked.
pub const SOCKET_VARIABLE: &str = "TUTTI_DAEMON";
/// The socket of a node's daemon, in the folder.
pub const SOCKET: &str = "tuttid.sock";
/// The head's log of events, in the folder.
pub const EVENTS: &str = "events.jsonl";
/// The head's log of the turns of gangs, in the folder.
pub const TURNS: &str = "turns.jsonl";

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

/// The socket of the daemon that a user's program asks: `TUTTI_DAEMON`, the user's own, else root's.
pub fn socket() -> PathBuf {
    if let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty()) {
        return socket.into();
    }
    let own = folder().join(SOCKET);
    let system = Path::new("/run/tutti").join(SOCKET);
    if !own.exists() && system.exists() { system } else { own }
}

/// Makes the folder, for its owner alone unless `shared`: then others may reach the socket in it.
///
/// # Errors
/// When it cannot be made, or is somebody else's.
pub fn make(folder: &Path, shared: bool) -> io::Result<()> {
    let mode = if shared { 0o755 } else { 0o700 };
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    let found = std::fs::symlink_metadata(folder)?;
    let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !own || found.mode() & 0o022 != 0 {
        let text = format!(
            "{} is not ours alone (owner {}, mode {:o})",
            folder.display(),
            found.uid(),
            found.mode() & 0o777
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// The starter's program: `TUTTI_STARTER`, else `../libexec/tutti/tutti-starter` from this program's own folder.
pub fn starter() -> PathBuf {
    if let Some(path) = std::env::var_os("TUTTI_STARTER") {
        return path.into();
    }
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/bin/tuttid"));
    let prefix = own.parent().and_then(|bin| bin.parent()).map(PathBuf::from).unwrap_or_default();
    prefix.join("libexec/tutti/tutti-starter")
}
