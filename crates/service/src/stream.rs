//! Packets on a stream of bytes: each behind its length, in four bytes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use super::frame::PACKET_BYTES_MAX;

const LENGTH_BYTES: usize = 4;
/// Bytes taken from the kernel at once.
const PIECE_BYTES: usize = 64 << 10;

/// Whether something came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// A packet.
    Packet(Vec<u8>),
    /// Not yet.
    Nothing,
    /// The other side has ended, or sends what is no packet.
    End,
}

/// A connection of bytes, with what has come of the next packet and what has not left yet. No call waits.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    came: Vec<u8>,
    leaving: Vec<u8>,
}

/// Takes a packet off the beginning of what has come; none: it is not whole.
fn take(came: &mut Vec<u8>) -> Result<Option<Vec<u8>>, ()> {
    let Some(length) = came.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if !(1..=PACKET_BYTES_MAX).contains(&length) {
        return Err(());
    }
    if came.len() < LENGTH_BYTES + length {
        return Ok(None);
    }
    let packet = came[LENGTH_BYTES..LENGTH_BYTES + length].to_vec();
    came.drain(..LENGTH_BYTES + length);
    Ok(Some(packet))
}

impl Stream {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Stream { socket, came: Vec::new(), leaving: Vec::new() }
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether a part of the packets sent has not left.
    pub(super) fn is_jammed(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// A packet that has come need not be waited for.
    pub(super) fn has_packet(&self) -> bool {
        let length = self.came.first_chunk::<LENGTH_BYTES>();
        length.is_some_and(|length| {
            self.came.len() >= LENGTH_BYTES.saturating_add(u32::from_le_bytes(*length) as usize)
        })
    }

    /// Sends what is left; false: the other side has ended.
    pub(super) fn flush(&mut self) -> bool {
        while !self.leaving.is_empty() {
            match net::send(&self.socket, &self.leaving, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.leaving.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends a packet, or keeps what does not leave at once; false: the other side has ended.
    pub(super) fn send(&mut self, packet: &[u8]) -> bool {
        self.leaving.extend((packet.len() as u32).to_le_bytes());
        self.leaving.extend(packet);
        self.flush()
    }

    /// Sends bytes that are no packet.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) -> bool {
        self.leaving.extend(bytes);
        self.flush()
    }

    /// Takes back what was to leave, if nothing of it has.
    pub(super) fn take_back(&mut self, packet: &[u8]) -> bool {
        let is_whole = self.leaving.len() == LENGTH_BYTES + packet.len();
        if is_whole {
            self.leaving.clear();
        }
        is_whole
    }

    /// Reads what the kernel has; false: the other side has ended.
    pub(super) fn fill(&mut self) -> bool {
        let before = self.came.len();
        self.came.resize(before + PIECE_BYTES, 0);
        let received = loop {
            match net::recv(&self.socket, &mut self.came[before..], RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Ok((_, bytes)) => break Ok(bytes),
                Err(error) => break Err(error),
            }
        };
        self.came.truncate(before + *received.as_ref().unwrap_or(&0));
        matches!(received, Ok(1..) | Err(Errno::AGAIN))
    }

    /// Bytes that have come and were not taken.
    pub(super) fn came(&mut self) -> &mut Vec<u8> {
        &mut self.came
    }

    /// The next packet.
    pub(super) fn receive(&mut self) -> Came {
        for is_filled in [false, true] {
            match take(&mut self.came) {
                Ok(Some(packet)) => return Came::Packet(packet),
                Err(()) => return Came::End,
                Ok(None) if is_filled => {}
                // What came before the end counts.
                Ok(None) if !self.fill() && !self.has_packet() => return Came::End,
                Ok(None) => {}
            }
        }
        Came::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_packets_come_whole_and_rubbish_ends_the_stream() {
        let mut came = Vec::new();
        let packets: Vec<Vec<u8>> = vec![vec![1; 3], vec![2; PACKET_BYTES_MAX], vec![3]];
        let mut all = Vec::new();
        for packet in &packets {
            all.extend((packet.len() as u32).to_le_bytes());
            all.extend(packet);
        }
        let mut found = Vec::new();
        for piece in all.chunks(7) {
            came.extend(piece);
            while let Some(packet) = take(&mut came).expect("packets") {
                found.push(packet);
            }
        }
        assert!(found == packets && came.is_empty());
        for wrong in [0, PACKET_BYTES_MAX as u32 + 1, u32::MAX] {
            assert_eq!(take(&mut wrong.to_le_bytes().to_vec()), Err(()));
        }
    }

    #[test]
    fn stream_of_packets_that_are_nearly_right_gives_packets_or_ends() {
        let packet = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
        let samples = [packet(b"a"), [packet(&[7; 90]), packet(b"bc")].concat(), packet(&[3; 2000])];
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            let (mut came, mut taken) = (Vec::new(), 0);
            for piece in bytes.chunks(61) {
                came.extend(piece);
                while let Ok(Some(packet)) = take(&mut came) {
                    assert!((1..=PACKET_BYTES_MAX).contains(&packet.len()));
                    taken += LENGTH_BYTES + packet.len();
                }
            }
            assert_eq!(taken + came.len(), bytes.len());
        });
    }
}
