//! Clients of other nodes, as a service lets them in ([`crate::entrance`]): each is a stream of packets.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use tutti_shm::published::far::Pass;
use tutti_shm::published::{Answer, Ask, Status};

use crate::entrance::Entrance;
use crate::stream::Stream;

/// Clients of other nodes that have not shown their keys yet.
#[derive(Debug, Default)]
pub(super) struct Network {
    entrance: Entrance<(), Stream>,
    last: u64,
}

impl Network {
    /// A pass for a client, and the port at which it comes; none: there is no room, or no socket.
    pub(super) fn admit(&mut self, at: IpAddr, uid: u32, now_ns: u64) -> Option<(u16, Pass)> {
        self.entrance.admit(at, uid, (), now_ns, |_, _| true)
    }

    pub(super) fn listeners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.entrance.listeners()
    }

    pub(super) fn visitors(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.entrance.visitors().map(|(number, stream)| (number, stream.socket()))
    }

    /// Takes a connection at a listener, if there is one.
    pub(super) fn accept(&mut self, listener: usize, now_ns: u64) -> Result<(), Errno> {
        match self.entrance.accept(listener) {
            Ok(socket) => {
                self.last += 1;
                self.entrance.add_visitor(self.last, Stream::new(socket), now_ns);
                Ok(())
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A visitor has sent something: its connection and its user, where that was a key. Behind the answer
    /// is the proof, in it this node's clock.
    pub(super) fn enter(&mut self, number: u64, now_ns: u64) -> Option<(Stream, u32)> {
        let stream = self.entrance.visitor(number)?;
        let is_open = stream.fill();
        let asked = Ask::take(stream.came());
        if is_open && matches!(asked, Ok(None)) {
            return None;
        }
        let asked = match asked {
            Ok(Some((Ask::Enter(key), [], bytes))) if is_open => Some((key, bytes)),
            _ => None,
        };
        let mut stream = self.entrance.take_visitor(number)?;
        let (key, bytes) = asked?;
        stream.came().drain(..bytes);
        let (uid, (), proof) = self.entrance.redeem(&key)?;
        let proof = proof.encode();
        let answer = Answer { status: Status::Ok, value: now_ns }.encode(proof.len());
        stream.send_raw(&[&answer[..], &proof].concat()).then_some((stream, uid))
    }

    /// When something is over.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.entrance.due_ns()
    }

    pub(super) fn expire(&mut self, now_ns: u64) {
        self.entrance.expire(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_shm::published::far::Secret;

    /// Anybody may come and send anything: nobody is let in by it, nothing of it is kept, and who has a pass
    /// is let in all the same.
    #[test]
    fn service_entrance_refuses_visitors_with_any_bytes() {
        use std::io::Write;
        let mut network = Network::default();
        let (port, pass) = network.admit(IpAddr::from([127, 0, 0, 1]), 7, 0).unwrap();
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
            while entered.is_none() && network.entrance.visitor(number).is_some() {
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
            assert!(network.visitors().count() == 0);
        }
        assert_eq!(come(&mut network, &Ask::Enter(pass.key).encode(0)).0, Some(7));
    }
}
