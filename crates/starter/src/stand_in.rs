//! Does what other nodes ask of the memory of a rank that stands still ([`tutti_shm::stand_in`]): stopped by
//! a signal, suspended, or without a core.
//!
//! A rank that opens memory to other nodes gives the starter a socket of its own network. What comes there is
//! believed if it carries the job's key, as packets between ranks are. Each question is answered once it has
//! been applied, and again when it is asked again: the answer of each pair is kept until the next question.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use tutti_rma::stand_in;
use tutti_shm::segment::Segment;
use tutti_shm::stand_in::{Answer, DATAGRAM_BYTES_MAX, Question};
use tutti_shm::watch;

/// Datagrams of one socket before others are looked at.
const TAKEN_PER_TURN: usize = 32;

/// Sockets of ranks of this node.
#[derive(Debug, Default)]
pub struct StandIns {
    /// By number on this node.
    sockets: BTreeMap<u32, UdpSocket>,
    answers: stand_in::Answers,
}

impl StandIns {
    /// A rank, counted on this node, has given a socket. Nothing is known of what a former one was asked.
    pub fn add(&mut self, local_rank: u32, socket: OwnedFd) {
        if self.sockets.is_empty() {
            // Where the kernel refuses, fences and the sleeper's later looks do.
            let _ = watch::register();
        }
        let socket = UdpSocket::from(socket);
        if socket.set_nonblocking(true).is_ok() {
            self.answers.forget(local_rank);
            self.sockets.insert(local_rank, socket);
        }
    }

    /// To be polled.
    pub fn sockets(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.sockets.iter().map(|(rank, socket)| (*rank, socket.as_fd()))
    }

    /// Does what is asked of a rank's memory.
    pub fn handle_readable(&mut self, local_rank: u32, segment: &Segment, key: u64) {
        let Some(socket) = self.sockets.get(&local_rank) else { return };
        let rank = segment.layout().numbers().rank_at(local_rank as usize);
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        for _ in 0..TAKEN_PER_TURN {
            let Ok((length, asker)) = socket.recv_from(&mut bytes) else { break };
            let question = Question::decode(&bytes[..length])
                .filter(|question| question.key == key && question.to as usize == rank);
            let Some(question) = question else { continue };
            let apply = || stand_in::apply(segment, local_rank as usize, &question);
            if let Some(record) = self.answers.to(local_rank, &question, apply) {
                // One that is lost is asked for again.
                let _ = socket.send_to(&Answer { key, number: question.number, record }.encode(), asker);
            }
        }
    }
}
