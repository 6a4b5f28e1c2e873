//! One message received with its datagrams' data where they probably belong: head and place by turns, and behind them room for
//! whatever else has come, so that nothing is cut off. What was no such datagram is put together again.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::iovec;

use super::{Address, BUFFER_BYTES, Key, arm, retry, segment_bytes};
use crate::Places;

/// Datagrams in a message, at most.
const DATAGRAMS_MAX: usize = 64;

/// Memory of these calls, and the message of the last one.
pub struct PlacedReceiver {
    heads: Vec<u8>,
    /// What the call before was given.
    places: Places,
    parts: Vec<iovec>,
    /// Room behind the places, and room to put datagrams together in.
    overflow: Vec<u8>,
    whole: Vec<u8>,
    name: Address,
    control: [u64; 4],
    flags: libc::c_int,
    length: usize,
    segment_bytes: usize,
}

// SAFETY: the pointers lead to the vectors beside them, which are never exchanged but together, and to places, which are used
// within one call and for its message only.
unsafe impl Send for PlacedReceiver {}

impl PlacedReceiver {
    /// Takes no memory before it is used.
    pub fn new() -> Self {
        PlacedReceiver {
            heads: Vec::new(),
            places: Places { at: ptr::NonNull::dangling(), bytes: 0, head_bytes: 0, each_bytes: 1 },
            parts: Vec::new(),
            overflow: Vec::new(),
            whole: Vec::new(),
            name: Address::empty(),
            control: [0; 4],
            flags: 0,
            length: 0,
            segment_bytes: 0,
        }
    }

    /// Receives one message, for [`PlacedReceiver::placed`] and the others to look at while the places are there.
    ///
    /// # Errors
    /// The kernel's; WouldBlock when there is nothing.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, places: &Places) -> io::Result<()> {
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
        let length = retry(|| {
            // SAFETY: the header points into our own memory and into the places, which are valid for writing (contract of
            // `Places::new`), each part with its length.
            unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header.msg_hdr, libc::MSG_DONTWAIT) }
        })?;
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
    pub fn source(&self) -> Key {
        self.name.key()
    }

    /// Nothing of it was cut off.
    pub fn is_whole(&self) -> bool {
        self.flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0
    }

    /// Head and data of a datagram of the message, if all before it and itself are as long as was expected; the last may be shorter.
    pub fn placed(&self, index: usize) -> Option<(&[u8], &[u8])> {
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
        // SAFETY: the place lies inside of the memory (`bytes_of`), is valid for reading, and the call has written it.
        let data =
            unsafe { std::slice::from_raw_parts(self.places.at.as_ptr().add(index * each_bytes), bytes) };
        Some((&self.heads[index * head_bytes..][..head_bytes], data))
    }

    /// The datagrams of the message from one on, whole.
    pub fn rest(&mut self, index: usize) -> impl Iterator<Item = &[u8]> {
        let start = (index * self.segment_bytes).min(self.length);
        self.whole.clear();
        let mut at = 0;
        for part in &self.parts {
            let (from, to) = (start.clamp(at, at + part.iov_len), self.length.clamp(at, at + part.iov_len));
            if from < to {
                // SAFETY: the part is memory of ours or a place, valid for reading, and the call has written it so far.
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

impl std::fmt::Debug for PlacedReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlacedReceiver").field("places", &self.places).finish_non_exhaustive()
    }
}
