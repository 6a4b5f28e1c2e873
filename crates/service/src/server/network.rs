//! Clients of other nodes, until they are clients: listeners, passes that have been given, and connections
//! that have shown no key yet.
//!
//! ```text
//! daemon --Admit--> a pass, for PASS_NS --> the client comes, shows the key within KEY_NS --> client
//! ```
//!
//! Anybody may come to a listener. Who shows no key costs a place among [`VISITORS_MAX`], and the oldest one
//! loses its place to a new one. A key is good once. There is no listener before a daemon has asked for one.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::rand::{GetRandomFlags, getrandom};
use tutti_shm::published::far::{Pass, Secret, settle};
use tutti_shm::published::{Answer, Ask, Status};

use crate::stream::Stream;

/// Connections that have shown no key.
const VISITORS_MAX: usize = 64;
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
struct Given {
    pass: Pass,
    uid: u32,
    until_ns: u64,
}

#[derive(Debug)]
struct Visitor {
    stream: Stream,
    until_ns: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Network {
    listeners: Vec<(SocketAddr, OwnedFd)>,
    given: Vec<Given>,
    visitors: BTreeMap<u64, Visitor>,
    last: u64,
}

impl Network {
    /// A pass for a client, and the port at which it comes; none: there is no room, or no socket.
    pub(super) fn admit(&mut self, at: IpAddr, uid: u32, now_ns: u64) -> Option<(u16, Pass)> {
        self.expire(now_ns);
        let of_user = self.given.iter().filter(|given| given.uid == uid).count();
        if self.given.len() >= PASSES_MAX || of_user >= PASSES_OF_USER_MAX {
            return None;
        }
        let port = self.port(at)?;
        let pass = Pass { key: draw()?, proof: draw()? };
        self.given.push(Given { pass, uid, until_ns: now_ns.saturating_add(PASS_NS) });
        Some((port, pass))
    }

    fn port(&mut self, at: IpAddr) -> Option<u16> {
        if let Some((address, _)) = self.listeners.iter().find(|(address, _)| address.ip() == at) {
            return Some(address.port());
        }
        if self.listeners.len() >= LISTENERS_MAX {
            return None;
        }
        let (address, socket) = listen(at).ok()?;
        self.listeners.push((address, socket));
        Some(address.port())
    }

    pub(super) fn listeners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.iter().map(|(_, socket)| socket.as_fd())
    }

    pub(super) fn visitors(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.visitors.iter().map(|(number, visitor)| (*number, visitor.stream.socket()))
    }

    /// Somebody comes.
    pub(super) fn accept(&mut self, listener: usize, now_ns: u64) -> Result<(), Errno> {
        let Some((_, listener)) = self.listeners.get(listener) else { return Ok(()) };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match net::accept_with(listener, flags) {
            Ok(socket) if settle(socket.as_fd()).is_ok() => socket,
            // It was gone before it was here.
            Ok(_) | Err(Errno::CONNABORTED | Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.visitors.len() >= VISITORS_MAX {
            // Numbers grow.
            self.visitors.pop_first();
        }
        self.last += 1;
        let until_ns = now_ns.saturating_add(KEY_NS);
        self.visitors.insert(self.last, Visitor { stream: Stream::new(socket), until_ns });
        Ok(())
    }

    /// A visitor has sent something: its connection and its user, where that was a key. Behind the answer
    /// is the proof, in it this node's clock.
    pub(super) fn enter(&mut self, number: u64, now_ns: u64) -> Option<(Stream, u32)> {
        let mut visitor = self.visitors.remove(&number)?;
        if !visitor.stream.fill() {
            return None;
        }
        let (key, bytes) = match Ask::take(visitor.stream.came()) {
            Ok(None) => {
                self.visitors.insert(number, visitor);
                return None;
            }
            Ok(Some((Ask::Enter(key), [], bytes))) => (key, bytes),
            _ => return None,
        };
        visitor.stream.came().drain(..bytes);
        let (uid, proof) = self.redeem(&key)?;
        let proof = proof.encode();
        let answer = Answer { status: Status::Ok, value: now_ns }.encode(proof.len());
        visitor.stream.send_raw(&[&answer[..], &proof].concat()).then_some((visitor.stream, uid))
    }

    /// Whom a key lets in, and the proof of its pass; the key is good no more.
    fn redeem(&mut self, key: &Secret) -> Option<(u32, Secret)> {
        let at = self.given.iter().position(|given| given.pass.key.is(key))?;
        let given = self.given.swap_remove(at);
        Some((given.uid, given.pass.proof))
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

    fn admit(network: &mut Network, uid: u32, now_ns: u64) -> Option<(u16, Pass)> {
        network.admit(IpAddr::from([127, 0, 0, 1]), uid, now_ns)
    }

    #[test]
    fn service_pass_is_good_once_and_for_a_while_and_leaves_others_room() {
        let mut network = Network::default();
        let (port, pass) = admit(&mut network, 7, 0).unwrap();
        let (again, other) = admit(&mut network, 7, 0).unwrap();
        assert!(port == again && pass != other, "one listener, many passes");
        assert_eq!(network.redeem(&pass.proof), None, "what the server shows is no key");
        assert_eq!(network.redeem(&pass.key), Some((7, pass.proof)));
        assert_eq!(network.redeem(&pass.key), None);
        let due_ns = network.due_ns().unwrap();
        network.expire(due_ns);
        assert_eq!((network.redeem(&other.key), network.due_ns()), (None, None));
        let given = (0..1000).filter(|_| admit(&mut network, 7, 0).is_some()).count();
        assert_eq!(given, PASSES_OF_USER_MAX);
        assert!(admit(&mut network, 8, 0).is_some());
    }

    /// Anybody may come and send anything: nobody is let in by it, nothing of it is kept, and who has a pass
    /// is let in all the same.
    #[test]
    fn service_visitors_with_any_bytes_are_nobody() {
        use std::io::Write;
        let mut network = Network::default();
        let (port, pass) = admit(&mut network, 7, 0).unwrap();
        let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
        let come = |network: &mut Network, bytes: &[u8]| {
            let mut guest = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            let number = network.last + 1;
            while network.last < number {
                network.accept(0, 0).unwrap();
            }
            guest.write_all(bytes).unwrap();
            // Its end comes behind what it has sent.
            guest.shutdown(std::net::Shutdown::Write).unwrap();
            let mut entered = None;
            while entered.is_none() && network.visitors.contains_key(&number) {
                entered = network.enter(number, 0);
            }
            (entered.map(|(_, uid)| uid), guest)
        };
        for round in 0..400_u64 {
            let mut bytes = Ask::Enter(Secret([round, 1])).encode(0).to_vec();
            match round % 4 {
                0 => (0..1 + random.below(3)).for_each(|_| {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] = random.below(256) as u8;
                }),
                1 => bytes.truncate(random.below(bytes.len() as u64) as usize),
                2 => {
                    bytes.resize(random.below(300) as usize, 0);
                    random.fill(&mut bytes);
                }
                _ => {}
            }
            assert_eq!(come(&mut network, &bytes).0, None, "{bytes:?}");
            assert!(network.visitors.is_empty());
        }
        assert_eq!(come(&mut network, &Ask::Enter(pass.key).encode(0)).0, Some(7));
    }
}
