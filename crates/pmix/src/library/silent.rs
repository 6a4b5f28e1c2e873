//! Connections that have not said all of their beginning yet: a head and the body that it announces.
//! libpmix reads both as soon as it has a connection, on the one thread that serves all ranks, and waits for
//! them: one that says less would hold them all.
//!
//! ```text
//! accept -> is the beginning there? --yes--> libpmix has it
//!               '--no--> kept here, EAGAIN; a thread waits for it, then connects to libpmix's listener
//! accept of that connection -> the kept one in its place
//! ```

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, ioctl_fionread, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, connect, getpeername, getsockname, recv,
    socket_with,
};

/// Bytes of the head with which a client begins. The last eight are the length of the body behind it.
const HEAD_BYTES: usize = 16;
/// Longer bodies libpmix does not read: it closes the connection when it has the head.
const BODY_BYTES_MAX: u64 = 131_072;
/// From a connection to the listener until libpmix has accepted it, at most; then another one is made.
const TAKEN_MAX: Duration = Duration::from_secs(1);

/// Pause where there is no connection to be had to the listener.
const RETRY: Duration = Duration::from_millis(20);

static KEPT: Mutex<Kept> = Mutex::new(Kept { silent: Vec::new(), call: None, watch: None });
/// Notified when a call has been taken.
static TAKEN: Condvar = Condvar::new();

struct Kept {
    silent: Vec<Arc<OwnedFd>>,
    /// Port of the thread's own connection, which libpmix has not accepted yet.
    call: Option<u16>,
    /// Event that tells the thread of a new one, and where libpmix listens; none: it has not been started.
    watch: Option<Arc<OwnedFd>>,
}

/// State of the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    There,
    /// Not all of it yet: that would be so many bytes, as far as it is known.
    Missing(usize),
    /// Closed without one.
    Never,
}

/// Whether the beginning of a connection is there.
pub(super) fn beginning(connection: BorrowedFd<'_>) -> Beginning {
    let mut head = [0; HEAD_BYTES];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match retry_on_intr(|| recv(connection, &mut head[..], flags).map(|(read, _)| read)) {
        Ok(HEAD_BYTES) => {}
        Ok(1..) | Err(Errno::AGAIN) => return Beginning::Missing(HEAD_BYTES),
        Ok(0) | Err(_) => return Beginning::Never,
    }
    let [.., a, b, c, d, e, f, g, h] = head;
    let body = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    if body > BODY_BYTES_MAX {
        return Beginning::There;
    }
    let whole = HEAD_BYTES as u64 + body;
    match ioctl_fionread(connection) {
        Ok(bytes) if bytes < whole => Beginning::Missing(whole as usize),
        _ => Beginning::There,
    }
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a connection until its beginning is there, which is so many bytes.
///
/// # Errors
/// When the kernel gives no thread or descriptor for it: then libpmix may have it as it is.
pub(super) fn keep(connection: OwnedFd, bytes: usize, listener: BorrowedFd<'_>) -> Result<(), OwnedFd> {
    let mut kept = kept();
    let watch = match kept.watch.clone().map_or_else(|| start(listener), Ok) {
        Ok(watch) => watch,
        Err(_) => return Err(connection),
    };
    set_low_water(connection.as_fd(), bytes);
    kept.silent.push(Arc::new(connection));
    kept.watch = Some(Arc::clone(&watch));
    drop(kept);
    // A counter that is full wakes the thread, too.
    let _ = rustix::io::write(&watch, &1_u64.to_ne_bytes());
    Ok(())
}

/// A kept connection whose beginning is there, in place of one that the thread has made; `None`: that one is
/// of somebody else.
pub(super) fn exchange(accepted: BorrowedFd<'_>) -> Option<Option<OwnedFd>> {
    let mut kept = kept();
    let port = getpeername(accepted).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok())?.port();
    if kept.call != Some(port) {
        return None;
    }
    kept.call = None;
    TAKEN.notify_one();
    let ready = |silent: &Arc<OwnedFd>| beginning(silent.as_fd()) == Beginning::There;
    let found = kept.silent.iter().position(ready).map(|at| kept.silent.swap_remove(at));
    drop(kept);
    // The thread may look at it at this moment: it is its descriptor that goes on.
    let found = found.and_then(|found| match Arc::try_unwrap(found) {
        Ok(found) => Some(found),
        Err(shared) => shared.try_clone().ok(),
    });
    found.iter().for_each(|found| set_low_water(found.as_fd(), 1));
    Some(found)
}

/// Starts the thread; gives the event that wakes it.
fn start(listener: BorrowedFd<'_>) -> io::Result<Arc<OwnedFd>> {
    let mut address = SocketAddr::try_from(getsockname(listener)?)?;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let watched = Arc::clone(&event);
    std::thread::Builder::new()
        .name("silent".into())
        .stack_size(128 << 10)
        .spawn(move || watch(&watched, address))?;
    Ok(event)
}

/// Waits for the beginnings of all that are kept.
fn watch(event: &OwnedFd, listener: SocketAddr) {
    loop {
        let silent = kept().silent.clone();
        let descriptors = [event.as_fd()].into_iter().chain(silent.iter().map(|one| one.as_fd()));
        let mut polled: Vec<PollFd<'_>> =
            descriptors.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN | PollFlags::RDHUP)).collect();
        if poll(&mut polled, None).is_err() {
            continue;
        }
        let mut count = [0; size_of::<u64>()];
        let _ = rustix::io::read(event, &mut count);
        let found: Vec<(usize, PollFlags)> = polled[1..]
            .iter()
            .map(PollFd::revents)
            .enumerate()
            .filter(|(_, found)| !found.is_empty())
            .collect();
        drop(polled);
        let (mut is_any_there, mut is_any_early) = (false, false);
        for (one, found) in found.into_iter().map(|(at, found)| (&silent[at], found)) {
            match beginning(one.as_fd()) {
                Beginning::There => is_any_there = true,
                Beginning::Missing(bytes) if found == PollFlags::IN => {
                    set_low_water(one.as_fd(), bytes);
                    is_any_early = true;
                }
                // Less than a beginning, and no more comes.
                Beginning::Missing(_) | Beginning::Never => {
                    kept().silent.retain(|other| !Arc::ptr_eq(one, other));
                }
            }
        }
        drop(silent);
        if is_any_there && call(listener).is_err() {
            // What is there stays readable.
            kept().call = None;
            std::thread::sleep(RETRY);
        }
        // Its socket may have no room for all of its beginning.
        if is_any_early {
            std::thread::sleep(RETRY);
        }
    }
}

/// Has libpmix call `accept`, and waits until it has.
fn call(listener: SocketAddr) -> io::Result<()> {
    let family = if listener.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let own = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&own, &SocketAddr::new(listener.ip(), 0))?;
    let port = SocketAddr::try_from(getsockname(&own)?)?.port();
    kept().call = Some(port);
    set_socket_timeout(&own, Timeout::Send, Some(TAKEN_MAX))?;
    connect(&own, &listener)?;
    set_socket_timeout(&own, Timeout::Send, None)?;
    let is_open = |kept: &mut Kept| kept.call == Some(port);
    let waited = TAKEN.wait_timeout_while(kept(), TAKEN_MAX, is_open);
    waited.unwrap_or_else(PoisonError::into_inner).0.call = None;
    Ok(())
}

/// Has a connection readable when so many bytes are there, or no more come.
fn set_low_water(connection: BorrowedFd<'_>, bytes: usize) {
    let bytes = bytes as libc::c_int;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is a number of that length, which the kernel copies.
    unsafe {
        libc::setsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            length,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    /// A head whose body has so many bytes.
    fn head(body: u64) -> [u8; HEAD_BYTES] {
        let mut head = [0xff; HEAD_BYTES];
        head[8..].copy_from_slice(&body.to_ne_bytes());
        head
    }

    /// The beginning of a connection on which so much has been said, and when it is closed then.
    fn beginning_of(said: &[u8], body: &[u8], expected: Beginning) -> Beginning {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback interface");
        let mut client = TcpStream::connect(listener.local_addr().expect("its address")).expect("it listens");
        let (server, _) = listener.accept().expect("one has come");
        client.write_all(said).expect("the socket has room");
        client.write_all(body).expect("the socket has room");
        let bytes = said.len() + body.len();
        if bytes > 0 {
            set_low_water(server.as_fd(), bytes);
            poll(&mut [PollFd::new(&server, PollFlags::IN)], None).expect("all of it comes");
        }
        assert_eq!(beginning(server.as_fd()), expected);
        client.shutdown(Shutdown::Write).expect("it is open");
        poll(&mut [PollFd::new(&server, PollFlags::RDHUP)], None).expect("it is closed");
        beginning(server.as_fd())
    }

    #[test]
    fn beginning_is_the_head_and_the_body_that_it_announces() {
        let missing = Beginning::Missing;
        assert_eq!(beginning_of(b"", b"", missing(16)), Beginning::Never);
        assert_eq!(beginning_of(b"eight by", b"", missing(16)), missing(16));
        assert_eq!(beginning_of(&head(0), b"", Beginning::There), Beginning::There);
        assert_eq!(beginning_of(&head(20), b"", missing(36)), missing(36));
        assert_eq!(beginning_of(&head(20), &[1; 19], missing(36)), missing(36));
        assert_eq!(beginning_of(&head(20), &[1; 20], Beginning::There), Beginning::There);
        assert_eq!(beginning_of(&head(BODY_BYTES_MAX), &[1; 99], missing(131_088)), missing(131_088));
        // libpmix reads none of it.
        assert_eq!(beginning_of(&head(BODY_BYTES_MAX + 1), b"", Beginning::There), Beginning::There);
        assert_eq!(beginning_of(&head(u64::MAX), b"", Beginning::There), Beginning::There);
    }
}
