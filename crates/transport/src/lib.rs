//! Datagrams in and out, nothing of the protocol: whoever calls must expect loss, duplication and any order.
//!
//! | transport | what carries the datagrams |
//! |---|---|
//! | [`udp::Udp`] | a UDP socket that the starter made; runs of equal datagrams to one peer travel as one (GSO, GRO) |
//! | `sim::Sim` | memory; exact and repeatable, for tests |
//! | `faults::Faulty` | another transport, with seeded loss, duplication, reordering and delay (`TUTTI_FAULTS`), for tests |
//!
//! Peers are numbers: the index into the table that the transport was made with, for a job its world ranks. A
//! datagram from an address that is not in the table is dropped and counted, and nothing is ever sent to an
//! address that came in a datagram.
//!
//! ```text
//! starter:  udp::open(address) --socket--> rank:  Udp::attach(socket, table)
//! rank:     loop { receive(take) ; protocol ; send(batch) }     no call waits; `descriptor` is for poll(2)
//! ```
//!
//! [`stamps`] keeps when the kernel took and gave datagrams, for programs that take an operation apart.
//!
//! `tests/conformance.rs` is the contract, run on every transport.
#![deny(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

pub mod budget;
mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod faults;
mod os;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
pub mod stamps;
pub mod udp;

pub use budget::Budget;

/// A datagram to send: `head` and `body` one after the other. Not empty, at most
/// [`Transport::datagram_bytes_max`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// To whom.
    pub peer: u32,
    /// The protocol's part.
    pub head: &'a [u8],
    /// The user's part, sent from where it lies; may be empty.
    pub body: &'a [u8],
}

impl Outgoing<'_> {
    /// Bytes of the datagram.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

/// A datagram that has arrived, whole.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Peer from whose address it came.
    pub peer: u32,
    /// Contents of the datagram; gone after the call that brought it.
    pub bytes: &'a [u8],
}

/// Memory for the data of datagrams that are expected: of each the bytes behind its head, `each_bytes` of
/// every one but the last, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    at: NonNull<u8>,
    bytes: usize,
    head_bytes: usize,
    each_bytes: usize,
}

impl Places {
    /// No memory: nothing is expected.
    pub(crate) const NOWHERE: Places =
        Places { at: NonNull::dangling(), bytes: 0, head_bytes: 1, each_bytes: 1 };

    /// `bytes` of memory at `at`, for datagrams with `head_bytes` before their data.
    ///
    /// # Safety
    /// The memory is valid for reading and writing as long as this is there, and nobody relies on what it
    /// holds.
    ///
    /// # Panics
    /// When a number is 0.
    #[allow(unsafe_code)]
    pub unsafe fn new(at: NonNull<u8>, bytes: usize, head_bytes: usize, each_bytes: usize) -> Self {
        assert!(bytes > 0 && head_bytes > 0 && each_bytes > 0);
        Places { at, bytes, head_bytes, each_bytes }
    }

    /// Bytes of a place, 0 when there are not so many.
    fn bytes_of(&self, index: usize) -> usize {
        self.bytes.saturating_sub(index * self.each_bytes).min(self.each_bytes)
    }
}

/// Datagram that [`Transport::receive_placed`] has received.
#[derive(Clone, Copy, Debug)]
pub enum Arrival<'a> {
    /// A datagram whose data lie in the `index`th of the places, if they belong there.
    Placed {
        /// Peer from whose address it came.
        peer: u32,
        /// First bytes of the datagram.
        head: &'a [u8],
        /// The rest, where it lies.
        data: &'a [u8],
        /// In which place.
        index: usize,
    },
    /// A datagram, whole.
    Whole(Datagram<'a>),
}

/// Counters of what has become of datagrams since the transport was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed to the kernel.
    pub sent: u64,
    /// Taken out of it.
    pub received: u64,
    /// Arrived and dropped, since the receive buffer was full. A u32 in the kernel, so it wraps.
    pub dropped: u64,
    /// Arrived from an address that is not in the table, or cut off, and thrown away.
    pub unknown_senders: u64,
    /// Refused by the kernel when sent (no route, a firewall): lost.
    pub refused: u64,
    /// Faults that were made on purpose.
    pub made: Made,
}

/// Faults that were made on purpose; none but in a library built for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Datagrams that were never sent.
    pub lost: u64,
    /// Sent twice.
    pub doubled: u64,
    /// Held back.
    pub late: u64,
    /// Forged, and sent besides.
    pub forged: u64,
}

/// A way for datagrams.
pub trait Transport: Send {
    /// Number of peers, this one included.
    fn peers(&self) -> usize;

    /// Bytes of a datagram, at most, so that it travels in one piece.
    fn datagram_bytes_max(&self) -> usize;

    /// Budget of the receive buffer of this transport; a peer's is taken to be like it.
    fn budget(&self) -> &Budget;

    /// Sends datagrams in order, without waiting. Returns how many of them are gone (or lost); when that is
    /// not all, there is no room now, and the rest is to be offered again later.
    ///
    /// # Errors
    /// When nothing can ever be sent: a socket that is none, a datagram that is too long.
    ///
    /// # Panics
    /// When a peer is not in the table or a datagram is empty.
    fn send(&mut self, batch: &[Outgoing<'_>]) -> io::Result<usize>;

    /// Peer whose datagram was last refused and counts as lost, and the reason: a firewall, a route, a peer
    /// that has gone. None: none was.
    fn refusal(&self) -> Option<(u32, io::Error)> {
        None
    }

    /// Hands datagrams that have arrived to `take`, without waiting, at most some dozens (a full call means
    /// that there may be more). Returns how many there were.
    ///
    /// # Errors
    /// When nothing can ever be received.
    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize>;

    /// As [`Transport::receive`], but where the transport can, the data of what arrives are put into
    /// `places`, in the hope that they belong there: `take` says of a placed datagram whether they do, and is
    /// given it and all that came with it again, whole, if not. What lies in the places that no datagram was
    /// taken from is anything.
    ///
    /// # Errors
    /// As [`Transport::receive`].
    fn receive_placed(
        &mut self,
        places: &Places,
        take: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> io::Result<usize> {
        let _ = places;
        self.receive(&mut |datagram| {
            take(Arrival::Whole(datagram));
        })
    }

    /// Asks, where necessary the kernel, what has become of datagrams.
    fn counters(&self) -> Counters;

    /// From now on the kernel says of each datagram when it came, or not any more: for [`stamps`].
    fn stamp_arrivals(&mut self, is_wanted: bool) {
        let _ = is_wanted;
    }

    /// Readable (poll(2)) when there is something to receive; none where there is nothing to wait for.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn peers(&self) -> usize {
        (**self).peers()
    }

    fn datagram_bytes_max(&self) -> usize {
        (**self).datagram_bytes_max()
    }

    fn budget(&self) -> &Budget {
        (**self).budget()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> io::Result<usize> {
        (**self).send(batch)
    }

    fn refusal(&self) -> Option<(u32, io::Error)> {
        (**self).refusal()
    }

    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        (**self).receive(take)
    }

    fn receive_placed(
        &mut self,
        places: &Places,
        take: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> io::Result<usize> {
        (**self).receive_placed(places, take)
    }

    fn counters(&self) -> Counters {
        (**self).counters()
    }

    fn stamp_arrivals(&mut self, is_wanted: bool) {
        (**self).stamp_arrivals(is_wanted);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }
}
