//! Forged packets on purpose: `TUTTI_FORGE=N` lets a rank send N of them behind every datagram, to the same
//! rank and from its own socket, so that nothing but their contents gives them away. Tests count that all are
//! refused.
//!
//! | forgery | why nobody may take it |
//! |---|---|
//! | random bytes | another magic number |
//! | a real packet cut off, or with bytes behind it | its length is another |
//! | a real packet with flipped bits, in its key too | another key |
//!
//! Whoever knows the key of a job can say anything; there is no defence against that, and none is tested
//! here.

use std::io;
use std::os::fd::BorrowedFd;

use tutti_channel::packet::HEADER_BYTES;
use tutti_testkit::Random;
use tutti_transport::faults::{Faults, Faulty};
use tutti_transport::udp::Udp;
use tutti_transport::{Arrival, Budget, Counters, Datagram, Made, Outgoing, Places, Transport};

/// Environment variable with the number of forged packets behind every datagram.
const FORGE_VARIABLE: &str = "TUTTI_FORGE";
/// Where the key stands in a packet.
const KEY: std::ops::Range<u64> = 8..16;

/// The socket of a rank with the faults that the environment asks for (`TUTTI_FAULTS`), and with forged
/// packets.
///
/// # Errors
/// When `TUTTI_FAULTS` holds no faults.
pub(crate) fn with_faults(udp: Udp, rank: usize) -> io::Result<Box<dyn Transport>> {
    let faulty: Box<dyn Transport> = match Faults::from_environment().map_err(io::Error::other)? {
        Some(faults) => Box::new(Faulty::new(udp, faults, rank as u32)),
        None => Box::new(udp),
    };
    let each = std::env::var(FORGE_VARIABLE).ok().and_then(|each| each.parse().ok()).unwrap_or(0);
    if each == 0 {
        return Ok(faulty);
    }
    // Seeds are those of the ranks.
    let random = Random::new(rank as u64);
    Ok(Box::new(Forger { inner: faulty, each, random, packet: Vec::new(), sent: 0 }))
}

/// Makes and sends them.
#[derive(Debug)]
struct Forger<T> {
    inner: T,
    each: u32,
    random: Random,
    packet: Vec<u8>,
    /// Sent so far.
    sent: u64,
}

impl<T: Transport> Transport for Forger<T> {
    fn peers(&self) -> usize {
        self.inner.peers()
    }

    fn datagram_bytes_max(&self) -> usize {
        self.inner.datagram_bytes_max()
    }

    fn budget(&self) -> &Budget {
        self.inner.budget()
    }

    fn refusal(&self) -> Option<(u32, io::Error)> {
        self.inner.refusal()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> io::Result<usize> {
        let sent = self.inner.send(batch)?;
        for datagram in &batch[..sent] {
            self.follow(datagram)?;
        }
        Ok(sent)
    }

    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        self.inner.receive(take)
    }

    fn receive_placed(
        &mut self,
        places: &Places,
        take: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> io::Result<usize> {
        self.inner.receive_placed(places, take)
    }

    fn counters(&self) -> Counters {
        let counters = self.inner.counters();
        Counters { made: Made { forged: self.sent, ..counters.made }, ..counters }
    }

    fn stamp_arrivals(&mut self, is_wanted: bool) {
        self.inner.stamp_arrivals(is_wanted);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}

impl<T: Transport> Forger<T> {
    /// Sends forgeries of a datagram. What the socket does not take now is never sent.
    fn follow(&mut self, datagram: &Outgoing<'_>) -> io::Result<()> {
        for _ in 0..self.each {
            self.forge(datagram, self.inner.datagram_bytes_max());
            let forged = Outgoing { peer: datagram.peer, head: &self.packet, body: &[] };
            self.sent += self.inner.send(&[forged])? as u64;
        }
        Ok(())
    }

    fn forge(&mut self, datagram: &Outgoing<'_>, bytes_max: usize) {
        let Forger { random, packet, .. } = self;
        packet.clear();
        packet.extend_from_slice(datagram.head);
        packet.extend_from_slice(datagram.body);
        let bytes = packet.len() as u64;
        match random.below(4) {
            0 => {
                packet.truncate(1 + random.below(bytes) as usize);
                packet.iter_mut().for_each(|byte| *byte = random.number() as u8);
            }
            1 => packet.truncate(1 + random.below(bytes - 1) as usize),
            2 if packet.len() < bytes_max => {
                let more = 1 + random.below((bytes_max as u64 - bytes).min(64));
                packet.extend((0..more).map(|_| random.number() as u8));
            }
            _ => {
                for flip in 0..1 + random.below(8) {
                    // The first one makes it a forgery; the others may not undo it.
                    let at = match flip {
                        0 => KEY.start + random.below(KEY.end - KEY.start),
                        1 => random.below(KEY.start),
                        2..4 => KEY.end + random.below(HEADER_BYTES as u64 - KEY.end),
                        _ => KEY.end + random.below(bytes - KEY.end),
                    };
                    packet[at as usize] ^= 1 << random.below(8);
                }
            }
        }
    }
}
