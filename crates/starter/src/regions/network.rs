//! Clients of other nodes, until they are clients: listeners, passes that have been given, and connections
//! that have shown no key yet.
//!
//! ```text
//! daemon --Admit--> a pass, for PASS_MAX --> the client comes, shows the key within KEY_MAX --> client
//! ```
//!
//! Anybody may come to a listener. Who shows no key costs a place among [`VISITORS_MAX`], and the oldest one
//! loses its place to a new one: so nobody keeps others out by waiting. A key is good once, for one region of
//! one generation. There is no listener before a daemon has asked for one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use tutti_shm::published::far::{Pass, Secret, settle};

use super::client::Connection;

/// Connections that have shown no key.
pub(super) const VISITORS_MAX: usize = 64;
/// Addresses at which clients come: those of the daemons of this machine.
const LISTENERS_MAX: usize = 8;
/// Passes that have not been shown, and those of one user.
const PASSES_MAX: usize = 1024;
const PASSES_OF_USER_MAX: usize = 64;
/// A pass is good for so long.
const PASS_MAX: Duration = Duration::from_secs(20);
/// Who comes shows its key within this time.
const KEY_MAX: Duration = Duration::from_secs(5);

/// Who was let in, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub uid: u32,
    pub line: u32,
    pub generation: u64,
}

#[derive(Debug)]
struct Given {
    pass: Pass,
    admitted: Admitted,
    until_ns: u64,
}

#[derive(Debug)]
struct Visitor {
    connection: Connection,
    until_ns: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Network {
    listeners: Vec<(SocketAddr, OwnedFd)>,
    given: Vec<Given>,
    visitors: BTreeMap<u64, Visitor>,
}

impl Network {
    /// A pass for a client, and the port at which it comes; none: there is no room, or no socket. `add` has a
    /// new listener polled.
    pub(super) fn admit(
        &mut self,
        at: IpAddr,
        admitted: Admitted,
        now_ns: u64,
        add: impl Fn(BorrowedFd<'_>, u32) -> bool,
    ) -> Option<(u16, Pass)> {
        self.expire(now_ns);
        let of_user = self.given.iter().filter(|given| given.admitted.uid == admitted.uid).count();
        if self.given.len() >= PASSES_MAX || of_user >= PASSES_OF_USER_MAX {
            return None;
        }
        let port = self.port(at, add)?;
        let pass = Pass { key: draw()?, proof: draw()? };
        self.given.push(Given { pass, admitted, until_ns: now_ns + PASS_MAX.as_nanos() as u64 });
        Some((port, pass))
    }

    fn port(&mut self, at: IpAddr, add: impl Fn(BorrowedFd<'_>, u32) -> bool) -> Option<u16> {
        if let Some((address, _)) = self.listeners.iter().find(|(address, _)| address.ip() == at) {
            return Some(address.port());
        }
        if self.listeners.len() >= LISTENERS_MAX {
            return None;
        }
        let (address, socket) = listen(at).ok()?;
        if !add(socket.as_fd(), self.listeners.len() as u32) {
            return None;
        }
        self.listeners.push((address, socket));
        Some(address.port())
    }

    /// The next one that comes.
    pub(super) fn accept(&self, listener: u32) -> Result<OwnedFd, Errno> {
        let (_, listener) = self.listeners.get(listener as usize).ok_or(Errno::BADF)?;
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match net::accept_with(listener, flags) {
                Ok(socket) if settle(socket.as_fd()).is_ok() => return Ok(socket),
                // It was gone before it was here.
                Ok(_) | Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn add_visitor(&mut self, number: u64, connection: Connection, now_ns: u64) {
        if self.visitors.len() >= VISITORS_MAX {
            // Numbers grow.
            self.visitors.pop_first();
        }
        let until_ns = now_ns + KEY_MAX.as_nanos() as u64;
        self.visitors.insert(number, Visitor { connection, until_ns });
    }

    pub(super) fn visitor(&mut self, number: u64) -> Option<&mut Connection> {
        self.visitors.get_mut(&number).map(|visitor| &mut visitor.connection)
    }

    pub(super) fn remove_visitor(&mut self, number: u64) {
        self.visitors.remove(&number);
    }

    pub(super) fn take_visitor(&mut self, number: u64) -> Option<Connection> {
        self.visitors.remove(&number).map(|visitor| visitor.connection)
    }

    /// Whom a key lets in, and the proof of its pass; the key is good no more.
    pub(super) fn redeem(&mut self, key: &Secret) -> Option<(Admitted, Secret)> {
        let at = self.given.iter().position(|given| given.pass.key.is(key))?;
        let given = self.given.swap_remove(at);
        Some((given.admitted, given.pass.proof))
    }

    /// When something is over.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let given = self.given.iter().map(|given| given.until_ns);
        given.chain(self.visitors.values().map(|visitor| visitor.until_ns)).min()
    }

    pub(super) fn expire(&mut self, now_ns: u64) {
        self.given.retain(|given| given.until_ns > now_ns);
        self.visitors.retain(|_, visitor| visitor.until_ns > now_ns);
    }
}

fn draw() -> Option<Secret> {
    let mut bytes = [0; Secret::BYTES];
    tutti_os::random::fill_random(&mut bytes).ok()?;
    Some(Secret::of(bytes))
}

fn listen(at: IpAddr) -> Result<(SocketAddr, OwnedFd), Errno> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddr::from((at, 0)))?;
    net::listen(&socket, VISITORS_MAX as i32)?;
    let address = net::getsockname(&socket)?;
    let address = SocketAddr::try_from(address).map_err(|_| Errno::AFNOSUPPORT)?;
    Ok((address, socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(network: &mut Network, uid: u32, now_ns: u64) -> Option<(u16, Pass)> {
        let admitted = Admitted { uid, line: 3, generation: 9 };
        network.admit(IpAddr::from([127, 0, 0, 1]), admitted, now_ns, |_, _| true)
    }

    #[test]
    fn region_pass_is_good_once_and_for_a_while() {
        let mut network = Network::default();
        let (port, pass) = admit(&mut network, 7, 0).unwrap();
        let (again, other) = admit(&mut network, 7, 0).unwrap();
        assert!(port == again && pass != other, "one listener, many passes");
        assert_eq!(network.redeem(&pass.proof), None, "what the server shows is no key");
        assert_eq!(
            network.redeem(&pass.key),
            Some((Admitted { uid: 7, line: 3, generation: 9 }, pass.proof))
        );
        assert_eq!(network.redeem(&pass.key), None);
        let due_ns = network.due_ns().unwrap();
        network.expire(due_ns - 1);
        assert_eq!(network.given.len(), 1);
        network.expire(due_ns);
        assert_eq!((network.redeem(&other.key), network.due_ns()), (None, None));
    }

    #[test]
    fn region_passes_of_one_user_leave_room_for_others() {
        let mut network = Network::default();
        let given = (0..1000).filter(|_| admit(&mut network, 7, 0).is_some()).count();
        assert_eq!(given, PASSES_OF_USER_MAX);
        assert!(admit(&mut network, 8, 0).is_some());
        assert!(admit(&mut network, 7, PASS_MAX.as_nanos() as u64).is_some(), "the others are over");
    }

    #[test]
    fn region_visitors_without_a_key_block_no_other() {
        let mut network = Network::default();
        for number in 0..1000 {
            let (socket, _) =
                net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            network.add_visitor(number, Connection::new(socket, 0), 0);
            assert!(network.visitor(number).is_some() && network.visitors.len() <= VISITORS_MAX);
        }
        network.expire(KEY_MAX.as_nanos() as u64);
        assert!(network.visitors.is_empty());
    }
}
