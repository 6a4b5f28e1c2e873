//! Stream sockets between launches: Unix sockets with abstract names on a node, TCP between nodes. None of
//! these calls waits, and none raises SIGPIPE: the process is the user's.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use tutti_shm::local_socket;

/// How often the kernel asks again for a connection to another node: after 1 s, and 2 s later it gives up.
/// The kernel there answers, not the process.
const CONNECT_AGAIN: libc::c_int = 1;
/// Connections that wait in the kernel; it may have a lower bound of its own.
const BACKLOG: libc::c_int = 4096;

/// A socket that takes connections of this node under an abstract name.
pub(super) fn listen_local(name: &str) -> io::Result<OwnedFd> {
    let (socket, address, length) = local(name)?;
    local_socket::let_descriptors_pass(socket.as_fd(), false);
    // SAFETY: the address is valid for its length during the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    // SAFETY: it takes no pointer.
    checked(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(socket)
}

/// A connection to such a socket of the same user. [`io::ErrorKind::WouldBlock`]: too many wait there.
pub(super) fn connect_local(name: &str) -> io::Result<OwnedFd> {
    let (socket, address, length) = local(name)?;
    // SAFETY: as above.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    if peer_is_same_user(&socket)? {
        Ok(socket)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the socket is another user's"))
    }
}

/// A socket that takes connections of other nodes, and its address: on one of the ports that the keeper of
/// the node gives ranks (`TUTTI_PORTS`), or where the kernel chooses.
pub(super) fn listen_inet(ip: IpAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let ports = std::env::var("TUTTI_PORTS").ok().and_then(|text| ports_of(&text)).unwrap_or(0..=0);
    let mut bound = ports.map(|port| TcpListener::bind((ip, port)));
    let is_taken = |bound: &io::Result<TcpListener>| {
        bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
    };
    let listener =
        bound.find(|bound| !is_taken(bound)).unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener.into(), address))
}

/// A range as `7420-7499`.
fn ports_of(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// A connection to such a socket, which is under way: what is sent is not taken before it is there, and fails
/// if it never is.
pub(super) fn connect_inet(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it takes no pointer.
    let socket = checked(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: a descriptor of our own.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    set_tcp(&socket, libc::TCP_NODELAY, 1)?;
    set_tcp(&socket, libc::TCP_SYNCNT, CONNECT_AGAIN)?;
    let connected = match address {
        SocketAddr::V4(v4) => {
            let to = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            let length = size_of_val(&to) as libc::socklen_t;
            // SAFETY: the address is valid for its length during the call.
            unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), length) }
        }
        SocketAddr::V6(v6) => {
            let to = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            let length = size_of_val(&to) as libc::socklen_t;
            // SAFETY: as above.
            unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), length) }
        }
    };
    match checked(connected) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

fn set_tcp(socket: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is valid for its length during the call.
    let set = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, value, length)
    };
    checked(set).map(drop)
}

/// The next connection that waits, if there is one.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let null = std::ptr::null_mut();
    // SAFETY: no address is asked for.
    let accepted = unsafe { libc::accept4(listener.as_raw_fd(), null, null.cast(), flags) };
    match checked(accepted) {
        // SAFETY: a descriptor of our own.
        Ok(accepted) => Ok(Some(unsafe { OwnedFd::from_raw_fd(accepted) })),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the process at the other end of a Unix socket is this user's.
pub(super) fn peer_is_same_user(socket: &OwnedFd) -> io::Result<bool> {
    let peer = local_socket::peer(socket.as_fd())?;
    Ok(tutti_shm::users::is_own_user(peer.uid, peer.pid))
}

/// Sends what the socket takes now; none: nothing.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes are valid for their length.
    moved(unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// Receives what the socket has now; none: nothing. No bytes: the other end has closed.
pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: as above.
    moved(unsafe { libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
}

fn local(name: &str) -> io::Result<(OwnedFd, libc::sockaddr_un, libc::socklen_t)> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it takes no pointer.
    let socket = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: a descriptor of our own.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let (address, length) = local_socket::abstract_address(name)?;
    Ok((socket, address, length))
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}

fn moved(result: isize) -> io::Result<Option<usize>> {
    if result >= 0 {
        return Ok(Some(result as usize));
    }
    match io::Error::last_os_error() {
        error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        error => Err(error),
    }
}
