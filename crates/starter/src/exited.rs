//! The starter answers for ranks that have left: a sender whose last acknowledgement was lost learns that
//! everything arrived, so MPI_Finalize returns everywhere.
//!
//! From the rank's `Finalized` on, no other process reads its socket. What it had received is in the segment.
//! Its words were written by a rank, so they are copied and not believed beyond a number.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tutti_channel::cut::FlowWords;
use tutti_channel::packet::CONTROL_BYTES_MAX;
use tutti_channel::{Config, ExitedRank, Identity, Incarnation, Key, Rank, WORDS};
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;
use tutti_transport::udp::Udp;
use tutti_transport::{Outgoing, Transport};

/// Calls that take datagrams before others are looked at.
const RECEIVES_PER_TURN: usize = 8;

/// Ranks that have left this node.
#[derive(Debug, Default)]
pub struct Exited {
    ranks: Vec<ExitedSocket>,
}

#[derive(Debug)]
struct ExitedSocket {
    local_rank: u32,
    answers: ExitedRank,
    socket: Udp,
}

impl Exited {
    /// From now on datagrams for a rank are answered here.
    ///
    /// # Errors
    /// When its socket is none.
    pub fn take_over(
        &mut self,
        local_rank: u32,
        segment: &Segment,
        peers: &Peers,
        socket: &OwnedFd,
    ) -> io::Result<()> {
        let geometry = segment.geometry();
        let here = *segment.layout().numbers();
        let others = (0..geometry.world_room()).filter(|rank| !here.contains(*rank as usize));
        let expected = others.map(|rank| {
            let words = segment.flow_words(local_rank as usize, rank as usize);
            let published: [u64; WORDS] = std::array::from_fn(|word| words[word]);
            let processes = segment.flow_processes(local_rank as usize, rank as usize);
            (Rank(rank), processes, FlowWords::from(published).rcv_nxt)
        });
        let identity = Identity {
            key: Key(peers.key()),
            incarnation: Incarnation(0),
            rank: Rank(here.rank_at(local_rank as usize) as u32),
        };
        let answers = ExitedRank::new(identity, Config::default().first_seq, expected);
        let socket = Udp::attach(socket.try_clone()?, peers.addresses())?;
        self.ranks.push(ExitedSocket { local_rank, answers, socket });
        Ok(())
    }

    /// Another process is to have the number of a rank.
    pub fn forget(&mut self, local_rank: u32) {
        self.ranks.retain(|rank| rank.local_rank != local_rank);
    }

    /// Sockets of these ranks.
    pub fn sockets(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.ranks.iter().filter_map(|rank| Some((rank.local_rank, rank.socket.descriptor()?)))
    }

    /// Answers what has come for a rank. What cannot be answered now will be asked again.
    pub fn handle_readable(&mut self, local_rank: u32) {
        let Some(rank) = self.ranks.iter_mut().find(|rank| rank.local_rank == local_rank) else { return };
        let ExitedSocket { answers, socket, .. } = rank;
        for _ in 0..RECEIVES_PER_TURN {
            let mut replies = Vec::new();
            let taken = socket.receive(&mut |datagram| {
                let mut into = [0; CONTROL_BYTES_MAX];
                if let Ok(Some(reply)) = answers.handle_datagram(datagram.bytes, &mut into) {
                    replies.push((reply.to.0, into[..reply.bytes].to_vec()));
                }
            });
            for (peer, bytes) in &replies {
                let _ = socket.send(&[Outgoing { peer: *peer, head: bytes, body: &[] }]);
            }
            if !matches!(taken, Ok(datagrams) if datagrams > 0) {
                break;
            }
        }
    }
}
