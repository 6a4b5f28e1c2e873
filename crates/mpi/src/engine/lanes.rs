//! Messages that move between a pair of ranks by single copies, each kind in order.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::time::Instant;

use tutti_rma::copy::Copy;

/// Which of a pair's joints: those of written messages are opened by the sender, those of announced ones by
/// the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Opened by the sender.
    Written = 0,
    /// Opened by the receiver.
    Rendezvous = 1,
}

/// A matched message that moves by single copies; one end of it.
#[derive(Debug)]
pub(super) struct SingleCopy {
    /// Our request.
    pub request: u32,
    /// Number that the sender gave the message.
    pub message: u32,
    /// How it moves.
    pub state: State,
    /// When the bulk ring was chosen, if the time it takes is to be learnt.
    pub since: Option<Instant>,
}

/// The copies of one kind between two ranks go on in order: only the first of a lane moves, the others wait
/// behind it. A joint is for one message at a time anyway, and its messages are opened in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// From the peer, announced.
    RendezvousIn,
    /// To the peer, announced, and the peer has asked us to help.
    RendezvousOut,
    /// From the peer to an advertised receive.
    WrittenIn,
    /// To an advertised receive of the peer.
    WrittenOut,
}

/// All copies between this rank and a peer.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: [VecDeque<SingleCopy>; Lane::COUNT],
    /// The peer is in the engine's list.
    pub is_listed: bool,
}

impl Lane {
    /// From the peer.
    pub(super) const IN: [Lane; 2] = [Lane::RendezvousIn, Lane::WrittenIn];
    /// To the peer.
    pub(super) const OUT: [Lane; 2] = [Lane::RendezvousOut, Lane::WrittenOut];
    const COUNT: usize = Self::IN.len() + Self::OUT.len();

    /// Whether this rank is the sender.
    pub(super) fn is_out(self) -> bool {
        matches!(self, Lane::RendezvousOut | Lane::WrittenOut)
    }
}

impl Index<Lane> for Lanes {
    type Output = VecDeque<SingleCopy>;

    fn index(&self, lane: Lane) -> &VecDeque<SingleCopy> {
        &self.lanes[lane as usize]
    }
}

impl IndexMut<Lane> for Lanes {
    fn index_mut(&mut self, lane: Lane) -> &mut VecDeque<SingleCopy> {
        &mut self.lanes[lane as usize]
    }
}

impl Lanes {
    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    /// Whether there are messages to the peer.
    pub(super) fn has_sends(&self) -> bool {
        !self[Lane::RendezvousOut].is_empty() || !self[Lane::WrittenOut].is_empty()
    }

    /// Messages from the peer.
    pub(super) fn receives(&self) -> usize {
        self[Lane::RendezvousIn].len() + self[Lane::WrittenIn].len()
    }
}

/// How a message moves.
#[derive(Debug)]
pub(super) enum State {
    /// To this receiver, which has not chosen the way: the sender's address, or 0 when its data have gaps;
    /// the poll at which it came.
    Undecided { address: u64, arrived: u32 },
    /// To this receiver, which copies alone.
    Alone { address: u64, offset: usize },
    /// Both ranks copy. `opened` is only the opener's.
    Together { copy: Copy, block: Block, opened: bool },
}
