//! Starting `tutti-starter`: where it is, and the wire to it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Why there is no starter.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// Failure to execute it.
    #[error("cannot start {}: {source} (it belongs to the installation of mpiexec; TUTTI_STARTER names another one)", path.display())]
    Start {
        /// Where it should be.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The installation is not known.
    #[error("cannot find the installation of mpiexec: {0} (TUTTI_STARTER names a starter)")]
    Installation(io::Error),
    /// No socket.
    #[error("cannot open a socket for the starter: {0}")]
    Socket(#[from] io::Error),
}

/// Starts the starter; gives our end of the wire.
///
/// # Errors
/// When it is not there or the kernel refuses.
pub fn start() -> Result<(Child, OwnedFd), StarterError> {
    let path = tutti_protocol::paths::starter();
    if let Err(error) = std::env::current_exe()
        && !path.is_file()
    {
        return Err(StarterError::Installation(error));
    }
    let own = SocketFlags::CLOEXEC;
    // Only the starter's end may survive its exec. This program has one thread: nothing else is started in
    // between.
    let (front, end) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, own, None).map_err(io::Error::from)?;
    rustix::io::fcntl_setfd(&end, rustix::io::FdFlags::empty()).map_err(io::Error::from)?;
    let child = Command::new(&path)
        .arg(end.as_raw_fd().to_string())
        .stdin(Stdio::inherit())
        .spawn()
        .map_err(|source| StarterError::Start { path, source })?;
    Ok((child, front))
}
