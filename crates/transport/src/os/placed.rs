//! One message received with its datagrams' data where they probably belong: head and place by turns, and
//! behind them room for whatever else has come, so that nothing is cut off. What was no such datagram is put
//! together again.
//!
//! Where the receive buffer is large enough, messages are read without being taken out of it (MSG_PEEK,
//! SO_PEEK_OFF), and taken out when more than [`PlacedReceiver::hold`] says have come behind them. For what
//! is freed at once the kernel uses again at once: between two namespaces of a machine the sender then writes
//! into memory that the receiver's core has just read, line by line at the pace at which cores far apart
//! agree on a line. With a megabyte in between it is nearly twice as fast. While messages are held, those
//! that are expected nowhere are read in the same way.

use std::collections::VecDeque;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::{Duration, Instant};

use libc::iovec;

use super::{
    Address, BUFFER_BYTES, CONTROL_WORDS, Key, arm, arrived_ns, is_answer_of_network, retry, segment_bytes,
    set_option,
};
use crate::stamps;
use crate::{Budget, Places};

/// Datagrams in a message, at most.
const DATAGRAMS_MAX: usize = 64;
/// Messages that are held, at most: every look walks past them.
const HELD_MAX: usize = 64;
/// Silence after which held messages are let go: whoever sleeps until there is something to read would
/// not sleep.
const HELD_FOR: Duration = Duration::from_micros(300);

/// Memory of these calls, and the message of the last one.
pub(crate) struct PlacedReceiver {
    heads: Vec<u8>,
    /// Places that the call before was given.
    places: Places,
    parts: Vec<iovec>,
    /// Room behind the places, and room to put datagrams together in.
    overflow: Vec<u8>,
    whole: Vec<u8>,
    name: Address,
    control: [u64; CONTROL_WORDS],
    flags: libc::c_int,
    length: usize,
    segment_bytes: usize,
    /// Bytes of the receive buffer for messages that have been read.
    hold_bytes: usize,
    /// Charges of those messages, the first one's first.
    held: VecDeque<usize>,
    held_bytes: usize,
    came: Option<Instant>,
}

// SAFETY: the pointers lead to the vectors beside them, which are never exchanged but together, and to
// places, which are used within one call and for its message only.
unsafe impl Send for PlacedReceiver {}

impl PlacedReceiver {
    /// Takes no memory before it is used.
    pub(crate) fn new() -> Self {
        PlacedReceiver {
            heads: Vec::new(),
            places: Places::NOWHERE,
            parts: Vec::new(),
            overflow: Vec::new(),
            whole: Vec::new(),
            name: Address::empty(),
            control: [0; CONTROL_WORDS],
            flags: 0,
            length: 0,
            segment_bytes: 0,
            hold_bytes: 0,
            held: VecDeque::with_capacity(HELD_MAX),
            held_bytes: 0,
            came: None,
        }
    }

    /// From now on, messages that take so much of the receive buffer together stay there when they have been
    /// read. Only this may read the socket from then on, or others behind [`PlacedReceiver::let_go`].
    pub(crate) fn hold(&mut self, socket: BorrowedFd<'_>, bytes: usize) {
        if set_option(socket, libc::SOL_SOCKET, libc::SO_PEEK_OFF, 0).is_ok() {
            self.hold_bytes = bytes;
        }
    }

    /// Whether messages are held that have come lately: then nothing else may read the socket.
    #[inline]
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty() && self.came.is_some_and(|came| came.elapsed() <= HELD_FOR)
    }

    /// Takes all that has been read out of the socket.
    #[inline]
    pub(crate) fn let_go(&mut self, socket: BorrowedFd<'_>) {
        while let Some(charge) = self.held.pop_front() {
            self.held_bytes -= charge;
            discard(socket);
        }
    }

    /// Receives one message, for [`PlacedReceiver::placed`] and the others to look at while the places are
    /// there.
    ///
    /// # Errors
    /// The kernel's; WouldBlock when there is nothing.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        places: &Places,
        budget: &Budget,
    ) -> io::Result<()> {
        let received = self.read(socket, places);
        if self.hold_bytes == 0 {
            return received;
        }
        match received {
            Ok(()) => {
                // What goes nowhere is no reason to hold anything.
                if *places != Places::NOWHERE {
                    self.came = Some(Instant::now());
                }
                let datagrams = self.length.div_ceil(self.segment_bytes).max(1);
                let charge = datagrams * budget.charge_bytes(self.segment_bytes);
                self.held.push_back(charge);
                self.held_bytes += charge;
                while self.held_bytes > self.hold_bytes || self.held.len() > HELD_MAX {
                    self.held_bytes -= self.held.pop_front().expect("what is held is counted");
                    discard(socket);
                }
            }
            Err(_) if !self.held.is_empty() && self.came.is_none_or(|came| came.elapsed() > HELD_FOR) => {
                self.let_go(socket);
            }
            Err(_) => {}
        }
        received
    }

    fn read(&mut self, socket: BorrowedFd<'_>, places: &Places) -> io::Result<()> {
        self.length = 0;
        if self.places != *places || self.parts.is_empty() {
            self.lay_out(places);
        }
        // SAFETY: zero is a valid value of this plain structure.
        let mut header: libc::mmsghdr = unsafe { zeroed() };
        header.msg_hdr.msg_iov = self.parts.as_mut_ptr();
        header.msg_hdr.msg_iovlen = self.parts.len() as _;
        header.msg_hdr.msg_name = ptr::from_mut(&mut self.name.storage).cast();
        header.msg_hdr.msg_control = self.control.as_mut_ptr().cast();
        arm(&mut header);
        let peek = if self.hold_bytes > 0 { libc::MSG_PEEK } else { 0 };
        let begun_ns = stamps::begin();
        let length = retry(|| {
            // SAFETY: the header points into our own memory and into the places, which are valid for writing
            // (contract of `Places::new`), each part with its length.
            unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header.msg_hdr, libc::MSG_DONTWAIT | peek) }
        })?;
        if let Some(begun_ns) = begun_ns {
            stamps::note_received(begun_ns, 1, || arrived_ns(&header.msg_hdr));
        }
        self.length = length as usize;
        self.flags = header.msg_hdr.msg_flags;
        self.segment_bytes = segment_bytes(&header.msg_hdr).unwrap_or(self.length).max(1);
        Ok(())
    }

    fn lay_out(&mut self, places: &Places) {
        self.places = places.clone();
        self.heads.resize(DATAGRAMS_MAX * places.head_bytes, 0);
        self.overflow.resize(BUFFER_BYTES, 0);
        self.parts.clear();
        for (index, head) in self.heads.chunks_exact_mut(places.head_bytes).enumerate() {
            let bytes = places.bytes_of(index);
            if bytes == 0 {
                break;
            }
            // SAFETY: the place lies inside of the memory (`bytes_of`).
            let place = unsafe { places.at.as_ptr().add(index * places.each_bytes) };
            self.parts.push(iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() });
            self.parts.push(iovec { iov_base: place.cast(), iov_len: bytes });
        }
        self.parts.push(iovec { iov_base: self.overflow.as_mut_ptr().cast(), iov_len: BUFFER_BYTES });
    }

    /// Where the message came from.
    pub(crate) fn source(&self) -> Key {
        self.name.key()
    }

    /// Whether nothing of the message was cut off.
    pub(crate) fn is_complete(&self) -> bool {
        self.flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0
    }

    /// Head and data of a datagram of the message, if all before it and itself are as long as was expected;
    /// the last may be shorter.
    pub(crate) fn placed(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let Places { head_bytes, each_bytes, .. } = self.places;
        let left = self.length.saturating_sub(index * self.segment_bytes);
        let bytes = left.min(self.segment_bytes).checked_sub(head_bytes)?;
        let place_bytes = if index < DATAGRAMS_MAX { self.places.bytes_of(index) } else { 0 };
        let is_last = left <= self.segment_bytes;
        let fits = bytes == place_bytes || (is_last && bytes < place_bytes);
        let is_aligned = index == 0 || self.segment_bytes == head_bytes + each_bytes;
        if bytes == 0 || !fits || !is_aligned {
            return None;
        }
        // SAFETY: the place lies inside of the memory (`bytes_of`), is valid for reading, and the call has
        // written it.
        let data =
            unsafe { std::slice::from_raw_parts(self.places.at.as_ptr().add(index * each_bytes), bytes) };
        Some((&self.heads[index * head_bytes..][..head_bytes], data))
    }

    /// The datagrams of the message from one on, whole.
    pub(crate) fn rest(&mut self, index: usize) -> impl Iterator<Item = &[u8]> {
        let start = (index * self.segment_bytes).min(self.length);
        if self.parts.len() == 1 {
            return self.overflow[start..self.length].chunks(self.segment_bytes);
        }
        self.whole.clear();
        let mut at = 0;
        for part in &self.parts {
            let (from, to) = (start.clamp(at, at + part.iov_len), self.length.clamp(at, at + part.iov_len));
            if from < to {
                // SAFETY: the part is memory of ours or a place, valid for reading, and the call has written
                // it so far.
                let bytes = unsafe {
                    std::slice::from_raw_parts(part.iov_base.cast::<u8>().add(from - at), to - from)
                };
                self.whole.extend_from_slice(bytes);
            }
            at += part.iov_len;
        }
        self.whole.chunks(self.segment_bytes)
    }
}

/// Takes the first message out of the socket. Its whole length must count as read (MSG_TRUNC), for
/// SO_PEEK_OFF counts bytes.
fn discard(socket: BorrowedFd<'_>) {
    // SAFETY: nothing is written.
    let take = || unsafe {
        libc::recv(socket.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT | libc::MSG_TRUNC)
    };
    discard_by(|| retry(take));
}

/// Takes until a message is gone: an answer of the network to something that was sent comes instead of it.
fn discard_by(mut take: impl FnMut() -> io::Result<isize>) {
    let is_answer = |errno| errno == libc::EMSGSIZE || is_answer_of_network(errno);
    while take().is_err_and(|error| error.raw_os_error().is_some_and(is_answer)) {}
}

impl std::fmt::Debug for PlacedReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlacedReceiver").field("places", &self.places).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_message_is_gone_behind_any_answer_of_the_network() {
        for errno in
            [libc::EACCES, libc::EPERM, libc::EHOSTDOWN, libc::ENETDOWN, libc::ENONET, libc::EMSGSIZE]
        {
            let mut answers = vec![Ok(9), Err(errno), Err(libc::ENOPROTOOPT), Err(libc::EPROTO)];
            discard_by(|| answers.pop().expect("a message").map_err(io::Error::from_raw_os_error));
            assert!(answers.is_empty(), "errno {errno}");
        }
        let mut looks = 0;
        discard_by(|| {
            looks += 1;
            Err(io::Error::from_raw_os_error(libc::EAGAIN))
        });
        assert_eq!(looks, 1, "there is none");
    }
}
