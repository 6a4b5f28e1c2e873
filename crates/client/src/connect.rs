//! Connections to a daemon's socket. The kernel keeps some for who listens; where they have no room more a
//! caller waits, for ever if that process is stopped: no longer than it wants to, here.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The least time that is a limit: the kernel takes none for a wait without end.
const LEAST: Duration = Duration::from_millis(1);

/// Connects within a limit, whatever signals this process gets meanwhile.
///
/// # Errors
/// `WouldBlock`: there was no room for so long. Else as `connect(2)`.
pub fn connect_to(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let until = Instant::now() + limit;
    loop {
        let rest = until.saturating_duration_since(Instant::now());
        set_socket_timeout(&stream, Timeout::Send, Some(rest.max(LEAST)))?;
        match connect(&stream, &address) {
            Err(Errno::INTR) if Instant::now() < until => {}
            connected => break connected?,
        }
    }
    set_socket_timeout(&stream, Timeout::Send, None)?;
    Ok(stream.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn connection_to_a_daemon_without_room_is_awaited_for_the_limit_alone() {
        let folder = tutti_testkit::Scratch::new("connect");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
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
    }
}
