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

use tutti_channel::packet::HEADER_BYTES;
use tutti_channel::sim::Random;
use tutti_transport::{Outgoing, Transport};

/// Environment variable with the number of forged packets behind every datagram.
pub const FORGE_VARIABLE: &str = "TUTTI_FORGE";
/// Where the key stands in a packet.
const KEY: std::ops::Range<u64> = 8..16;

/// Makes and sends them.
#[derive(Debug)]
pub struct Forger {
    each: u32,
    random: Random,
    packet: Vec<u8>,
    /// Sent so far.
    pub sent: u64,
}

impl Forger {
    /// What the environment asks for, if anything. Seeds are those of the ranks.
    pub fn from_environment(rank: usize) -> Option<Self> {
        let each = std::env::var(FORGE_VARIABLE).ok()?.parse().ok().filter(|each| *each > 0)?;
        Some(Forger { each, random: Random::new(rank as u64), packet: Vec::new(), sent: 0 })
    }

    /// Sends forgeries of a datagram. What the socket does not take now is never sent.
    pub fn follow(&mut self, datagram: &Outgoing<'_>, transport: &mut dyn Transport) -> std::io::Result<()> {
        for _ in 0..self.each {
            self.forge(datagram, transport.datagram_bytes_max());
            let forged = Outgoing { peer: datagram.peer, head: &self.packet, body: &[] };
            self.sent += transport.send(&[forged])? as u64;
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
