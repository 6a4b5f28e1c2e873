//! User at the other end of a TCP connection inside this machine, by the kernel's word (sock_diag(7)): unlike
//! a Unix socket, TCP has no credentials of its peer, and what the peer sends may be anything.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, getpeername, getsockname, netlink, recv,
    send, socket_with,
};

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// Bytes of nlmsghdr, and of a request: nlmsghdr, inet_diag_req_v2.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// Places in an answer: nlmsghdr, inet_diag_msg.
const KIND_AT: usize = 4;
const PORTS_AT: usize = HEADER_BYTES + 4;
const USER_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpPeer {
    /// A socket of a process of this user, as this user namespace names it.
    User(u32),
    /// No open socket of this network namespace: the process has closed it, or is elsewhere.
    Elsewhere,
    /// Unknown: this kernel has no sock_diag for TCP, or the connection is broken.
    Unknown,
}

/// The other end of an accepted connection.
///
/// # Errors
/// When it is no connection of TCP, or the kernel gives no socket to ask it.
pub fn tcp_peer(connection: impl AsFd) -> io::Result<TcpPeer> {
    let connection = connection.as_fd();
    let here = canonical(SocketAddr::try_from(getsockname(connection)?)?);
    let there = getpeername(connection)?.ok_or(io::ErrorKind::NotConnected)?;
    let there = canonical(SocketAddr::try_from(there)?);
    let diag =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    Ok(match ask(&diag, there, here)? {
        Some(user) => TcpPeer::User(user),
        // What is not there, and a kernel that cannot look, have one answer: this end is there.
        None if ask(&diag, here, there)?.is_some() => TcpPeer::Elsewhere,
        None => TcpPeer::Unknown,
    })
}

/// User of the socket with these two ends, if a process has it open.
fn ask(diag: &OwnedFd, own: SocketAddr, other: SocketAddr) -> io::Result<Option<u32>> {
    let request = request(own, other);
    send(diag, &request, SendFlags::empty())?;
    let mut answer = [0_u8; 4096];
    let (length, _) = recv(diag, &mut answer[..], RecvFlags::empty())?;
    Ok(user_in(&answer[..length], own, other))
}

fn request(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    let family = if own.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    bytes.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    // In any state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(ports(own, other));
    for end in [own, other] {
        let mut address = [0; 16];
        match end.ip() {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address = ip.octets(),
        }
        bytes.extend(address);
    }
    // On any interface; no cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn ports(own: SocketAddr, other: SocketAddr) -> [u8; 4] {
    let ([a, b], [c, d]) = (own.port().to_be_bytes(), other.port().to_be_bytes());
    [a, b, c, d]
}

/// The user in an answer that is about such a socket. One that its process has closed has no inode.
fn user_in(answer: &[u8], own: SocketAddr, other: SocketAddr) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(answer.get(KIND_AT..KIND_AT + 2)?.try_into().ok()?);
    // The kernel may find a socket that listens there instead.
    let is_it = kind == BY_FAMILY && answer.get(PORTS_AT..PORTS_AT + 4)? == ports(own, other);
    let user = word(USER_AT)?;
    (is_it && word(INODE_AT)? != 0).then_some(user)
}

/// An address of IPv4 that a socket of IPv6 has, as one of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn tcp_peer_is_the_user_of_the_other_end_as_long_as_it_is_open() {
        let own = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            // Not every machine has IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address == "[::1]:0" { format!("[::1]:{port}") } else { format!("127.0.0.1:{port}") };
            let client = TcpStream::connect(to).unwrap();
            let (mut accepted, _) = listener.accept().unwrap();
            let found = tcp_peer(&accepted).unwrap();
            if found == TcpPeer::Unknown {
                return tutti_testkit::skip(
                    tutti_testkit::Need::Setup,
                    "the kernel has no sock_diag for TCP",
                );
            }
            assert_eq!(found, TcpPeer::User(own), "{address}");
            assert_eq!(tcp_peer(&client).unwrap(), TcpPeer::User(own), "{address}");
            drop(client);
            assert_eq!(accepted.read(&mut [0]).unwrap(), 0, "its end is here");
            assert_eq!(tcp_peer(&accepted).unwrap(), TcpPeer::Elsewhere, "{address}");
        }
    }

    #[test]
    fn answers_about_other_sockets_name_no_user() {
        let (own, other) = ("127.0.0.1:4000".parse().unwrap(), "127.0.0.1:5000".parse().unwrap());
        let mut answer = vec![0; HEADER_BYTES + 72];
        answer[KIND_AT] = BY_FAMILY as u8;
        answer[PORTS_AT..PORTS_AT + 4].copy_from_slice(&ports(own, other));
        answer[USER_AT..USER_AT + 4].copy_from_slice(&1000_u32.to_ne_bytes());
        answer[INODE_AT] = 1;
        assert_eq!(user_in(&answer, own, other), Some(1000));
        for at in [KIND_AT, PORTS_AT, INODE_AT] {
            let mut wrong = answer.clone();
            wrong[at] ^= 1;
            assert_eq!(user_in(&wrong, own, other), None, "byte {at}");
        }
        (0..answer.len()).for_each(|length| assert_eq!(user_in(&answer[..length], own, other), None));
    }
}
