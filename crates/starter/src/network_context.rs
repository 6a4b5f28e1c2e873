//! Channels of the ranks of this node while they are frozen for a strict switch: the starter is then the
//! other half of each rank's channel, as PM's firmware is in SCore-D.
//!
//! ```text
//! begin: test   --SteadyProbe, from a rank's socket-->  starter of the other node: what has its rank taken?
//!               <--SteadyAnswer--                       steady: all flows are answered for, or given up
//! save          words and used FIFOs of all flows are copied
//! end: restore  the copy is held against what is there; from here on the ranks read their sockets themselves
//! ```
//!
//! | event | effect |
//! |---|---|
//! | a probe comes for a frozen rank | it is answered from the words of its flow |
//! | other datagrams come for it | they are dropped: their sender has them, and nothing of the job is left on its way |
//! | a rank is found to run | all of this is over: its socket is its own |
//! | a probe or an answer is lost | it is sent again, 0.2 ms later and then twice as long, up to 10 ms |
//! | the other node is late, or is dead | the test is given up when its time is over |
//!
//! **Writers.** The words and the FIFOs are the ranks', and only read here. If this process stops right here,
//! the ranks are frozen until the switch goes on without it, and go on as they were: nothing was changed.
//! Flows to ranks whose addresses are not in the table, those that others have started later, are not tested.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tutti_channel::context::{Context, ContextWriter, Difference, is_in_use};
use tutti_channel::cut::FlowWords;
use tutti_channel::packet::{self, HEADER_BYTES};
use tutti_channel::{Generation, Identity, Incarnation, Key, Rank, SteadyResponder, SteadyTest, WORDS};
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;

/// Datagrams of one socket before others are looked at.
const TAKEN_PER_TURN: usize = 256;
/// Bytes of a datagram, at most.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Channels of frozen ranks.
#[derive(Debug)]
pub struct NetworkContext {
    generation: u64,
    key: u64,
    addresses: Vec<SocketAddr>,
    ranks: Vec<FrozenRank>,
    begun_ns: u64,
    until_ns: u64,
    is_reported: bool,
    saved: Option<Context>,
    buffer: Vec<u8>,
}

/// Channel of a frozen rank.
#[derive(Debug)]
struct FrozenRank {
    local_rank: u32,
    socket: UdpSocket,
    test: SteadyTest,
    responder: SteadyResponder,
}

impl NetworkContext {
    /// Begins the steady state test of ranks that have been frozen. `is_here` says which of them have their
    /// sockets; who has left has sent all that it had. The test is given up after `within_ns`.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn begin(
        of: (&Segment, &Peers, &[OwnedFd]),
        is_here: impl Fn(u32) -> bool,
        generation: u64,
        (now_ns, within_ns): (u64, u64),
    ) -> io::Result<Self> {
        let (segment, peers, sockets) = of;
        let mut ranks = Vec::new();
        for (local_rank, socket) in (0..segment.present()).zip(sockets).filter(|(rank, _)| is_here(*rank)) {
            let rank = Rank(segment.layout().numbers().rank_at(local_rank as usize) as u32);
            let identity = Identity { key: Key(peers.key()), incarnation: Incarnation(0), rank };
            let known =
                flows_of(segment, local_rank).filter(|(to, _)| (to.0 as usize) < peers.addresses().len());
            let flows = known.map(|(to, words)| (to, FlowWords::from(words)));
            // One number for each test, so that a late answer to an earlier one is known.
            let test =
                SteadyTest::new(identity, Generation(generation as u32), generation as u32, now_ns, flows);
            let socket = UdpSocket::from(socket.try_clone()?);
            ranks.push(FrozenRank { local_rank, socket, test, responder: SteadyResponder::new(identity) });
        }
        Ok(NetworkContext {
            generation,
            key: peers.key(),
            addresses: peers.addresses().to_vec(),
            ranks,
            begun_ns: now_ns,
            until_ns: now_ns + within_ns,
            is_reported: false,
            saved: None,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
        })
    }

    /// The switch for which the ranks are frozen.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the test is over.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        self.is_reported
    }

    /// Since when the channels have been tested.
    #[must_use]
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Sockets of these ranks.
    pub fn sockets(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.ranks.iter().map(|rank| (rank.local_rank, rank.socket.as_fd()))
    }

    /// When there is something to do.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        let probes = self.ranks.iter().filter_map(|rank| rank.test.poll_timeout()).min();
        (!self.is_reported).then(|| probes.map_or(0, |due_ns| due_ns.min(self.until_ns)))
    }

    /// Sends the probes that are due. Some, once: the test is over, and the channels are steady or not.
    pub fn advance(&mut self, now_ns: u64) -> Option<bool> {
        if self.is_reported {
            return None;
        }
        let mut probe = [0; HEADER_BYTES];
        for rank in &mut self.ranks {
            while let Some(probed) = rank.test.poll_probe(now_ns, &mut probe) {
                // One that is not sent is sent again.
                let to = self.addresses.get(probed.to.0 as usize);
                to.into_iter().for_each(|to| drop(rank.socket.send_to(&probe[..probed.bytes], to)));
            }
        }
        let is_steady = self.ranks.iter().all(|rank| rank.test.is_steady());
        self.is_reported = is_steady || now_ns >= self.until_ns;
        self.is_reported.then_some(is_steady)
    }

    /// Takes what has come for a rank, which is frozen for certain.
    pub fn handle_readable(&mut self, local_rank: u32, segment: &Segment) {
        let Some(rank) = self.ranks.iter_mut().find(|rank| rank.local_rank == local_rank) else { return };
        for _ in 0..TAKEN_PER_TURN {
            let Ok((length, _)) = rank.socket.recv_from(&mut self.buffer) else { return };
            // The kernel may give several datagrams of one length as one.
            for datagram in steady_datagrams(&self.buffer[..length]) {
                let numbers = segment.layout().numbers();
                let room = segment.geometry().world_room();
                let words = |from: Rank| {
                    let is_far = from.0 < room && !numbers.contains(from.0 as usize);
                    is_far.then(|| FlowWords::from(words_of(segment, local_rank, from)))
                };
                let mut answer = [0; HEADER_BYTES];
                match rank.responder.handle_probe(datagram, true, words, &mut answer) {
                    Ok(Some(reply)) => {
                        let to = self.addresses.get(reply.to.0 as usize);
                        to.into_iter().for_each(|to| drop(rank.socket.send_to(&answer, to)));
                    }
                    Ok(None) => {}
                    // An answer, or nothing that concerns the test.
                    Err(_) => drop(rank.test.handle_answer(datagram)),
                }
            }
        }
    }

    /// Copies the network context; says how many bytes that is.
    pub fn save(&mut self, segment: &Segment) -> usize {
        let copy = self.copy(segment);
        self.saved.insert(copy).bytes()
    }

    /// The first difference between the copy and what is there. No process has run since SAVE, so there is
    /// none.
    #[must_use]
    pub fn difference(&self, segment: &Segment) -> Option<Difference> {
        self.saved.as_ref()?.difference(&self.copy(segment))
    }

    fn copy(&self, segment: &Segment) -> Context {
        let mut writer = ContextWriter::new(Key(self.key));
        for local_rank in 0..segment.present() {
            let from = Rank(segment.layout().numbers().rank_at(local_rank as usize) as u32);
            for (to, words) in flows_of(segment, local_rank) {
                let fifo = if is_in_use(&words) {
                    segment.fifo(local_rank as usize, to.0 as usize)
                } else {
                    Vec::new()
                };
                writer.flow(from, to, &words, &fifo);
            }
        }
        writer.finish()
    }
}

/// Flows of a rank of this node on which anything was ever sent or taken, with their words.
fn flows_of(segment: &Segment, local_rank: u32) -> impl Iterator<Item = (Rank, [u64; WORDS])> + '_ {
    let here = segment.layout().numbers();
    let others = (0..segment.geometry().world_room()).filter(|rank| !here.contains(*rank as usize)).map(Rank);
    others
        .map(move |to| (to, words_of(segment, local_rank, to)))
        .filter(|(_, words)| words.iter().any(|word| *word != 0))
}

fn words_of(segment: &Segment, local_rank: u32, to: Rank) -> [u64; WORDS] {
    let words = segment.flow_words(local_rank as usize, to.0 as usize);
    std::array::from_fn(|word| words[word])
}

/// Probes and answers of the test in what was read at once.
fn steady_datagrams(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_steady = bytes.len() >= HEADER_BYTES
        && packet::parse(&bytes[..HEADER_BYTES]).is_ok_and(|(header, _)| {
            matches!(header.kind, packet::Kind::SteadyProbe | packet::Kind::SteadyAnswer)
        });
    bytes.chunks_exact(HEADER_BYTES).filter(move |_| is_steady)
}

#[cfg(test)]
mod tests;
