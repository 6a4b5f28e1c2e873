//! Entrance for clients of other nodes, until they are clients: listeners, passes that have been given, and
//! connections that have shown no key yet. Servers of services and of published regions have one each.
//!
//! ```text
//! daemon --Admit--> a pass, for PASS_NS --> the client comes, shows the key within KEY_NS --> client
//! ```
//!
//! Anybody may come to a listener. A visitor without a key costs a place among [`VISITORS_MAX`], and the
//! oldest one loses its place to a new one: so nobody keeps others out by waiting. A key is good once. There
//! is no listener before a daemon has asked for one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::rand::{GetRandomFlags, getrandom};
use tutti_shm::published::far::{Pass, Secret, settle};

/// Connections that have shown no key.
pub const VISITORS_MAX: usize = 64;
/// Addresses at which clients come: those of the daemons of this machine.
const LISTENERS_MAX: usize = 8;
/// Passes that have not been shown, and those of one user.
const PASSES_MAX: usize = 1024;
const PASSES_OF_USER_MAX: usize = 64;
/// A pass is good for so long.
const PASS_NS: u64 = 20_000_000_000;
/// Time for a client to show its key.
const KEY_NS: u64 = 5_000_000_000;

#[derive(Debug)]
struct Given<A> {
    pass: Pass,
    uid: u32,
    admitted: A,
    until_ns: u64,
}

#[derive(Debug)]
struct Visitor<V> {
    connection: V,
    until_ns: u64,
}

/// Listeners, passes and visitors. `A` says to what a pass lets in, `V` is a connection.
#[derive(Debug)]
pub struct Entrance<A, V> {
    listeners: Vec<(SocketAddr, OwnedFd)>,
    given: Vec<Given<A>>,
    visitors: BTreeMap<u64, Visitor<V>>,
}

impl<A, V> Default for Entrance<A, V> {
    fn default() -> Self {
        Entrance { listeners: Vec::new(), given: Vec::new(), visitors: BTreeMap::new() }
    }
}

impl<A, V> Entrance<A, V> {
    /// A pass for a client, and the port at which it comes; none: there is no room, or no socket. `add` has a
    /// new listener polled, by its number.
    pub fn admit(
        &mut self,
        at: IpAddr,
        uid: u32,
        admitted: A,
        now_ns: u64,
        add: impl FnOnce(BorrowedFd<'_>, usize) -> bool,
    ) -> Option<(u16, Pass)> {
        self.expire(now_ns);
        let of_user = self.given.iter().filter(|given| given.uid == uid).count();
        if self.given.len() >= PASSES_MAX || of_user >= PASSES_OF_USER_MAX {
            return None;
        }
        let port = self.port(at, add)?;
        let pass = Pass { key: draw()?, proof: draw()? };
        self.given.push(Given { pass, uid, admitted, until_ns: now_ns.saturating_add(PASS_NS) });
        Some((port, pass))
    }

    fn port(&mut self, at: IpAddr, add: impl FnOnce(BorrowedFd<'_>, usize) -> bool) -> Option<u16> {
        if let Some((address, _)) = self.listeners.iter().find(|(address, _)| address.ip() == at) {
            return Some(address.port());
        }
        if self.listeners.len() >= LISTENERS_MAX {
            return None;
        }
        let (address, socket) = listen(at).ok()?;
        if !add(socket.as_fd(), self.listeners.len()) {
            return None;
        }
        self.listeners.push((address, socket));
        Some(address.port())
    }

    /// Listeners, in order of their numbers.
    pub fn listeners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.iter().map(|(_, socket)| socket.as_fd())
    }

    /// The next connection at a listener.
    ///
    /// # Errors
    /// AGAIN when there is none; what the kernel says.
    pub fn accept(&self, listener: usize) -> Result<OwnedFd, Errno> {
        let (_, listener) = self.listeners.get(listener).ok_or(Errno::BADF)?;
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

    /// A connection has come; `number` is larger than those of all before it.
    pub fn add_visitor(&mut self, number: u64, connection: V, now_ns: u64) {
        if self.visitors.len() >= VISITORS_MAX {
            self.visitors.pop_first();
        }
        let until_ns = now_ns.saturating_add(KEY_NS);
        self.visitors.insert(number, Visitor { connection, until_ns });
    }

    /// Visitors by their numbers.
    pub fn visitors(&self) -> impl Iterator<Item = (u64, &V)> {
        self.visitors.iter().map(|(number, visitor)| (*number, &visitor.connection))
    }

    /// A visitor that is still here.
    pub fn visitor(&mut self, number: u64) -> Option<&mut V> {
        self.visitors.get_mut(&number).map(|visitor| &mut visitor.connection)
    }

    /// A visitor leaves its place.
    pub fn take_visitor(&mut self, number: u64) -> Option<V> {
        self.visitors.remove(&number).map(|visitor| visitor.connection)
    }

    /// The user that a key lets in, to what, and the proof of its pass; the key is good no more.
    pub fn redeem(&mut self, key: &Secret) -> Option<(u32, A, Secret)> {
        let at = self.given.iter().position(|given| given.pass.key.is(key))?;
        let given = self.given.swap_remove(at);
        Some((given.uid, given.admitted, given.pass.proof))
    }

    /// Time at which something is over.
    pub fn due_ns(&self) -> Option<u64> {
        let given = self.given.iter().map(|given| given.until_ns);
        given.chain(self.visitors.values().map(|visitor| visitor.until_ns)).min()
    }

    /// Ends passes and visitors whose time is over.
    pub fn expire(&mut self, now_ns: u64) {
        self.given.retain(|given| given.until_ns > now_ns);
        self.visitors.retain(|_, visitor| visitor.until_ns > now_ns);
    }
}

fn draw() -> Option<Secret> {
    let mut bytes = [0; Secret::BYTES];
    let drawn = getrandom(&mut bytes[..], GetRandomFlags::empty()).ok()?;
    (drawn == Secret::BYTES).then(|| Secret::of(bytes))
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

    type Tested = Entrance<char, ()>;

    fn admit(entrance: &mut Tested, uid: u32, now_ns: u64) -> Option<(u16, Pass)> {
        entrance.admit(IpAddr::from([127, 0, 0, 1]), uid, 'x', now_ns, |_, _| true)
    }

    #[test]
    fn entrance_pass_is_good_once_and_for_a_while() {
        let mut entrance = Tested::default();
        let (port, pass) = admit(&mut entrance, 7, 0).unwrap();
        let (again, other) = admit(&mut entrance, 7, 0).unwrap();
        assert!(port == again && pass != other, "one listener, many passes");
        assert_eq!(entrance.redeem(&pass.proof), None, "what the server shows is no key");
        assert_eq!(entrance.redeem(&pass.key), Some((7, 'x', pass.proof)));
        assert_eq!(entrance.redeem(&pass.key), None);
        let due_ns = entrance.due_ns().unwrap();
        entrance.expire(due_ns - 1);
        assert_eq!(entrance.given.len(), 1);
        entrance.expire(due_ns);
        assert_eq!((entrance.redeem(&other.key), entrance.due_ns()), (None, None));
    }

    #[test]
    fn entrance_passes_of_one_user_leave_room_for_others() {
        let mut entrance = Tested::default();
        let given = (0..1000).filter(|_| admit(&mut entrance, 7, 0).is_some()).count();
        assert_eq!(given, PASSES_OF_USER_MAX);
        assert!(admit(&mut entrance, 8, 0).is_some());
        assert!(admit(&mut entrance, 7, PASS_NS).is_some(), "the others are over");
    }

    #[test]
    fn entrance_without_a_polled_listener_gives_no_pass() {
        let mut entrance = Tested::default();
        let made = entrance.admit(IpAddr::from([127, 0, 0, 1]), 7, 'x', 0, |_, number| number != 0);
        assert!(made.is_none() && entrance.listeners().count() == 0 && entrance.due_ns().is_none());
    }

    #[test]
    fn entrance_visitors_without_a_key_block_no_other() {
        let mut entrance = Tested::default();
        for number in 0..1000 {
            entrance.add_visitor(number, (), 0);
            assert!(entrance.visitor(number).is_some() && entrance.visitors.len() <= VISITORS_MAX);
        }
        entrance.expire(KEY_NS);
        assert_eq!(entrance.visitors().count(), 0);
    }
}
