//! Datagrams in pieces, for a path on which long ones vanish ([`crate::path`]): each piece is a packet of its
//! own, which every path takes. A datagram is complete when all its pieces have come, in any order; then it
//! is taken as if it had come whole. A lost piece is a lost datagram.
//!
//! The receiver puts datagrams together in [`SLOTS`] places. A piece of one that has no place gets the place
//! that was begun longest ago: what was there counts as lost.

use crate::packet::{
    HEADER_BYTES, Header, PIECE_BYTES, PIECE_HEAD_BYTES, SHORT_BYTES, write_header, write_piece_head,
};

/// Datagrams that are put together at a time.
const SLOTS: usize = 16;

/// Bytes that a datagram of so many takes when it is cut.
pub(crate) const fn cut_bytes(bytes: usize) -> usize {
    bytes + bytes.div_ceil(PIECE_BYTES) * (HEADER_BYTES + PIECE_HEAD_BYTES)
}

/// Writes the pieces of a datagram one behind the other, each [`SHORT_BYTES`] long but the last; gives their
/// bytes together.
pub(crate) fn cut(header: &Header, whole: &[u8], into: &mut [u8]) -> usize {
    let mut used = 0;
    for (count, piece) in whole.chunks(PIECE_BYTES).enumerate() {
        let (head, rest) = into[used..].split_at_mut(HEADER_BYTES);
        write_header(header, PIECE_HEAD_BYTES + piece.len(), head);
        write_piece_head(count * PIECE_BYTES, whole.len(), rest);
        rest[PIECE_HEAD_BYTES..][..piece.len()].copy_from_slice(piece);
        used += HEADER_BYTES + PIECE_HEAD_BYTES + piece.len();
    }
    used
}

/// Datagrams of which pieces have come.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    slots: [Slot; SLOTS],
    /// As many bytes for each as a datagram can have.
    memory: Box<[u8]>,
    datagram_bytes: usize,
    /// The one that was begun longest ago.
    oldest: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    flow: u16,
    number: u32,
    /// Bytes of the datagram; 0: there is none.
    whole: usize,
    /// A bit for each piece.
    missing: u64,
}

impl Pieces {
    /// For datagrams of up to so many bytes; none are cut that are short.
    pub(crate) fn new(datagram_bytes: usize) -> Self {
        const { assert!(65_507_usize.div_ceil(PIECE_BYTES) <= u64::BITS as usize) };
        let datagram_bytes = if datagram_bytes > SHORT_BYTES { datagram_bytes } else { 0 };
        Pieces {
            slots: [Slot::default(); SLOTS],
            memory: vec![0; SLOTS * datagram_bytes].into_boxed_slice(),
            datagram_bytes,
            oldest: 0,
        }
    }

    /// Whether a datagram of so many bytes is one that is cut.
    pub(crate) fn fits(&self, whole: usize) -> bool {
        (1..=self.datagram_bytes).contains(&whole)
    }

    /// Takes the piece at `offset` of datagram `number` of a flow; the slot of the datagram, if that was all
    /// of it.
    pub(crate) fn take(
        &mut self,
        (flow, number): (u16, u32),
        offset: usize,
        whole: usize,
        bytes: &[u8],
    ) -> Option<usize> {
        assert!(self.fits(whole) && offset + bytes.len() <= whole, "a piece that passed no check");
        let is_it = |slot: &Slot| (slot.flow, slot.number, slot.whole) == (flow, number, whole);
        let at = self.slots.iter().position(is_it).unwrap_or_else(|| {
            let at = self.oldest;
            self.oldest = (at + 1) % SLOTS;
            let missing = u64::MAX >> (u64::BITS as usize - whole.div_ceil(PIECE_BYTES));
            self.slots[at] = Slot { flow, number, whole, missing };
            at
        });
        self.memory[at * self.datagram_bytes + offset..][..bytes.len()].copy_from_slice(bytes);
        let slot = &mut self.slots[at];
        slot.missing &= !(1 << (offset / PIECE_BYTES));
        (slot.missing == 0).then_some(at)
    }

    /// Lends the memory in which the datagram of a slot is complete, and forgets the datagram.
    pub(crate) fn lend(&mut self, slot: usize) -> (Box<[u8]>, std::ops::Range<usize>) {
        let start = slot * self.datagram_bytes;
        let whole = std::mem::take(&mut self.slots[slot]).whole;
        (std::mem::take(&mut self.memory), start..start + whole)
    }

    /// All that is not complete is lost.
    pub(crate) fn forget(&mut self) {
        self.slots.fill(Slot::default());
    }

    /// The memory comes back.
    pub(crate) fn take_back(&mut self, memory: Box<[u8]>) {
        self.memory = memory;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, Kind, parse};
    use crate::types::{Incarnation, Key, Rank, Seq};

    const DATAGRAM_BYTES: usize = 8192;

    fn header(number: u32) -> Header {
        Header {
            key: Key(1),
            incarnation: Incarnation(2),
            from: Rank(3),
            to: Rank(4),
            kind: Kind::Piece,
            flags: 0,
            seq: Seq(number),
            ack: Seq(0),
            rewind: 0,
            echo: 0,
            credit: 0,
        }
    }

    /// The pieces of a datagram of so many bytes, all of them its number's.
    fn pieces_of(number: u32, bytes: usize) -> Vec<Vec<u8>> {
        let mut into = vec![0; cut_bytes(bytes)];
        let whole: Vec<u8> = (0..bytes).map(|at| (at as u32 * 7 + number) as u8).collect();
        let used = cut(&header(number), &whole, &mut into);
        assert_eq!(used, into.len());
        into.chunks(SHORT_BYTES).map(<[u8]>::to_vec).collect()
    }

    fn take(pieces: &mut Pieces, packet: &[u8]) -> Option<Vec<u8>> {
        let (header, Body::Piece { offset, whole, bytes }) = parse(packet).unwrap() else {
            panic!("a piece was cut that is none");
        };
        let slot = pieces.take((0, header.seq.0), offset, whole, bytes)?;
        let (memory, place) = pieces.lend(slot);
        let whole = memory[place].to_vec();
        pieces.take_back(memory);
        Some(whole)
    }

    #[test]
    fn pieces_in_any_order_and_twice_make_the_datagram_once() {
        let mut pieces = Pieces::new(DATAGRAM_BYTES);
        for bytes in [SHORT_BYTES + 1, 2 * PIECE_BYTES, 2 * PIECE_BYTES + 1, DATAGRAM_BYTES] {
            let mut packets = pieces_of(9, bytes);
            assert!(packets.iter().all(|packet| packet.len() <= SHORT_BYTES));
            packets.reverse();
            let last = packets.pop().unwrap();
            for packet in packets.iter().chain(&packets) {
                assert_eq!(take(&mut pieces, packet), None);
            }
            let whole = take(&mut pieces, &last).expect("all pieces have come");
            assert!(whole.len() == bytes && (0..bytes).all(|at| whole[at] == (at as u32 * 7 + 9) as u8));
        }
    }

    #[test]
    fn pieces_of_an_incomplete_datagram_free_their_place() {
        let mut pieces = Pieces::new(DATAGRAM_BYTES);
        let incomplete = pieces_of(0, DATAGRAM_BYTES);
        assert_eq!(take(&mut pieces, &incomplete[1]), None);
        for number in 1..100 {
            let packets = pieces_of(number, 5000);
            let whole = packets.iter().filter_map(|packet| take(&mut pieces, packet)).count();
            assert_eq!(whole, 1, "datagram {number}");
        }
        // What comes late makes no datagram of two.
        assert!(incomplete[2..].iter().all(|packet| take(&mut pieces, packet).is_none()));
    }
}
