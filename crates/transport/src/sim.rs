//! A network in memory: what is sent is there at once, in order, until the receiver's buffer is full. Exact
//! and repeatable; faults are [`crate::faults`]' affair.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Budget, Counters, Datagram, Outgoing, Transport};

/// Bytes that a datagram is charged with beside its own.
const OVERHEAD_BYTES: usize = 512;
/// Datagrams handed out by one call, at most.
const RECEIVED_MAX: usize = 32;

/// Makes a network of so many peers, whose receive buffers hold `receive_bytes` each; gives the ends in
/// order.
pub fn network(peers: usize, receive_bytes: usize, datagram_bytes_max: usize) -> Vec<Sim> {
    let inboxes: Arc<[Mutex<Inbox>]> = (0..peers).map(|_| Mutex::default()).collect();
    let budget = Budget::simple(receive_bytes, OVERHEAD_BYTES);
    let end = |own| Sim {
        own,
        inboxes: Arc::clone(&inboxes),
        budget,
        datagram_bytes_max,
        counters: Counters::default(),
    };
    (0..peers as u32).map(end).collect()
}

/// One end of the network.
#[derive(Debug)]
pub struct Sim {
    own: u32,
    inboxes: Arc<[Mutex<Inbox>]>,
    budget: Budget,
    datagram_bytes_max: usize,
    counters: Counters,
}

/// Datagrams that wait for a peer.
#[derive(Debug, Default)]
struct Inbox {
    datagrams: VecDeque<(u32, Box<[u8]>)>,
    charged_bytes: usize,
    dropped: u64,
}

impl Sim {
    fn inbox(&self, peer: u32) -> MutexGuard<'_, Inbox> {
        self.inboxes[peer as usize].lock().expect("no holder panics")
    }
}

impl Transport for Sim {
    fn peers(&self) -> usize {
        self.inboxes.len()
    }

    fn datagram_bytes_max(&self) -> usize {
        self.datagram_bytes_max
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> io::Result<usize> {
        for datagram in batch {
            assert!(datagram.bytes() > 0, "an empty datagram");
            if datagram.bytes() > self.datagram_bytes_max {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let charge = self.budget.charge_bytes(datagram.bytes());
            let mut inbox = self.inbox(datagram.peer);
            if inbox.charged_bytes + charge > self.budget.receive_bytes() {
                inbox.dropped += 1;
            } else {
                inbox.charged_bytes += charge;
                inbox.datagrams.push_back((self.own, [datagram.head, datagram.body].concat().into()));
            }
        }
        self.counters.sent += batch.len() as u64;
        Ok(batch.len())
    }

    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        for received in 0..RECEIVED_MAX {
            let Some((peer, bytes)) = self.inbox(self.own).datagrams.pop_front() else { return Ok(received) };
            let charge = self.budget.charge_bytes(bytes.len());
            self.inbox(self.own).charged_bytes -= charge;
            self.counters.received += 1;
            take(Datagram { peer, bytes: &bytes });
        }
        Ok(RECEIVED_MAX)
    }

    fn counters(&self) -> Counters {
        Counters { dropped: self.inbox(self.own).dropped, ..self.counters }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
