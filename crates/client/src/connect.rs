//! Connections to a daemon's socket. The kernel keeps some for who listens; where they have no room more a
//! caller waits, for ever if that process is stopped: no longer than it wants to, here.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Connects within a limit.
///
/// # Errors
/// `WouldBlock`: there was no room for so long. Else as `connect(2)`.
pub(crate) fn connect_to(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&stream, Timeout::Send, Some(limit))?;
    connect(&stream, &address)?;
    set_socket_timeout(&stream, Timeout::Send, None)?;
    Ok(stream.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn connection_to_a_daemon_without_room_is_awaited_for_the_limit_alone() {
        let folder = std::env::temp_dir().join(format!("tutti-connect-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let limit = Duration::from_millis(50);
        let mut waiting = Vec::new();
        let full = loop {
            match connect_to(&path, limit) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "{full}, after {} connections", waiting.len());
        // Somebody is let in: there is room for one.
        let accepted = std::thread::spawn(move || listener.accept().map(|_| listener));
        let stream = connect_to(&path, Duration::from_secs(20)).unwrap();
        assert_eq!(stream.write_timeout().unwrap(), None);
        drop(accepted.join().unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
