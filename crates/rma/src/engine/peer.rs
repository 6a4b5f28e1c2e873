//! Peer of the engine, another rank: answers that are awaited from it, answers that it is owed,
//! long operations under way.

use std::collections::VecDeque;

use tutti_datatype::Buffer;

use super::bulk;
use super::{ANSWER_BYTES_MAX, ANSWERS_MAX, Offered, Port};
use crate::operation::{Kept, Note};

/// An answer that is awaited.
#[derive(Debug)]
pub(super) struct Awaited {
    pub into: Buffer,
    has_data: bool,
    pub note: Option<Note>,
    /// The bulk message that brings it, or that it clears.
    pub bulk: Option<bulk::Tag>,
    /// Number of its request, if that is kept.
    request: Option<u64>,
}

/// State of this rank towards another one.
#[derive(Debug, Default)]
pub(super) struct Peer {
    awaited: Vec<Option<Awaited>>,
    free: Vec<u32>,
    outstanding: usize,
    /// Of those that bring data: how many, and how many bytes.
    answers: usize,
    answer_bytes: usize,
    /// Answers to it that the network has not taken yet.
    owed: VecDeque<Vec<u8>>,
    /// Bytes in there.
    owed_bytes: usize,
    is_gone: bool,
    /// Long puts and gets under way.
    puts: usize,
    gets: usize,
    /// Requests that were handed over to it, and those of it that have come.
    asked: u64,
    served: u64,
}

impl Peer {
    /// Awaits an answer; its number.
    pub(super) fn await_answer(&mut self, into: Buffer, has_data: bool, note: Option<Note>) -> u32 {
        self.outstanding += 1;
        if has_data {
            (self.answers, self.answer_bytes) = (self.answers + 1, self.answer_bytes + into.bytes);
        }
        let awaited = Some(Awaited { into, has_data, note, bulk: None, request: None });
        if let Some(number) = self.free.pop() {
            self.awaited[number as usize] = awaited;
            return number;
        }
        self.awaited.push(awaited);
        self.awaited.len() as u32 - 1
    }

    /// Takes out an answer that has come, or is not awaited any more.
    pub(super) fn end_answer(&mut self, number: u32) -> Option<Awaited> {
        let mut awaited = self.awaited.get_mut(number as usize)?.take()?;
        self.hand_end_on(&mut awaited);
        self.free.push(number);
        self.outstanding -= 1;
        if awaited.has_data {
            (self.answers, self.answer_bytes) = (self.answers - 1, self.answer_bytes - awaited.into.bytes);
        }
        Some(awaited)
    }

    /// Answers to records that are kept come in any order: the last of an operation to come ends it.
    fn hand_end_on(&mut self, ended: &mut Awaited) {
        let Some(note) = ended.note.as_mut().filter(|note| note.is_last && ended.request.is_some()) else {
            return;
        };
        let is_same = |other: &&mut Note| other.at == note.at;
        let kept = self.awaited.iter_mut().flatten().filter(|other| other.request.is_some());
        if let Some(other) = kept.filter_map(|other| other.note.as_mut()).find(is_same) {
            (other.is_last, note.is_last) = (true, false);
        }
    }

    /// A long operation is under way, a get or a put, that ends with this answer.
    pub(super) fn begin_long(&mut self, number: u32, bulk: bulk::Tag, is_read: bool) {
        if let Some(Some(awaited)) = self.awaited.get_mut(number as usize) {
            awaited.bulk = Some(bulk);
        }
        *self.long(is_read) += 1;
    }

    /// A long operation is not under way any more.
    pub(super) fn end_long(&mut self, is_read: bool) {
        let count = self.long(is_read);
        // A rank that has left has none any more.
        *count = count.saturating_sub(1);
    }

    fn long(&mut self, is_read: bool) -> &mut usize {
        if is_read { &mut self.gets } else { &mut self.puts }
    }

    /// Long gets under way.
    pub(super) fn gets(&self) -> usize {
        self.gets
    }

    /// The bulk message of an answer that is awaited.
    pub(super) fn bulk_of(&self, number: u32) -> Option<bulk::Tag> {
        self.awaited.get(number as usize)?.as_ref()?.bulk
    }

    /// Whether the rank has left.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The record that is being handed over is kept until its answer has come.
    pub(super) fn keep(&mut self, number: u32) {
        let asked = self.asked;
        if let Some(Some(awaited)) = self.awaited.get_mut(number as usize) {
            awaited.request = Some(asked);
        }
    }

    /// Whether the answer to a record that is kept is awaited. Its number may be another record's by now.
    pub(super) fn awaits(&self, kept: &Kept) -> bool {
        let awaited = self.awaited.get(kept.reply as usize).and_then(Option::as_ref);
        awaited.is_some_and(|awaited| awaited.request == Some(kept.number))
    }

    /// The first request of those that are kept.
    pub(super) fn first_kept(&self) -> Option<u64> {
        self.awaited.iter().flatten().filter_map(|awaited| awaited.request).min()
    }

    /// Requests that were handed over to it.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// Counts a request that was handed over to it.
    pub(super) fn note_asked(&mut self) {
        self.asked += 1;
    }

    /// Requests of it that have come.
    pub(super) fn served(&self) -> u64 {
        self.served
    }

    /// Number of the request of it that has just come.
    pub(super) fn serve_next(&mut self) -> u64 {
        self.served += 1;
        self.served - 1
    }

    /// Answers that are awaited.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether an operation is kept back while a bulk message is under way: any behind a put; behind a
    /// get whatever could change its bytes.
    pub(super) fn keeps_back(&self, is_read: bool) -> bool {
        self.puts > 0 || (self.gets > 0 && !is_read)
    }

    /// Whether an answer of so many bytes may be asked for: what it owes this rank is bounded.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.answers == 0 || (self.answers < ANSWERS_MAX && self.answer_bytes + bytes <= ANSWER_BYTES_MAX)
    }

    /// Bytes of answers that it is owed.
    pub(super) fn owed_bytes(&self) -> usize {
        self.owed_bytes
    }

    /// Owes it an answer; whether it was owed none before.
    pub(super) fn owe(&mut self, answer: Vec<u8>) -> bool {
        let is_first = self.owed.is_empty();
        self.owed_bytes += answer.len();
        self.owed.push_back(answer);
        is_first
    }

    /// Hands over what it, the rank `to`, is owed, as far as there is room; whether some is left.
    pub(super) fn pump(&mut self, to: usize, port: &mut dyn Port) -> bool {
        while let Some(answer) = self.owed.front() {
            let bytes = answer.len();
            match port.offer(to, answer, &[]) {
                Offered::Full => return true,
                Offered::Taken | Offered::Gone => self.owed.pop_front(),
            };
            self.owed_bytes -= bytes;
        }
        false
    }

    /// Ends all, since it has left; returns what its answers were awaited by.
    pub(super) fn end(&mut self) -> impl Iterator<Item = Note> + use<> {
        let left = Peer { is_gone: true, ..Peer::default() };
        let peer = std::mem::replace(self, left);
        peer.awaited.into_iter().flatten().filter_map(|awaited| awaited.note)
    }
}

/// Returns the peer of a rank, created where it is not there yet.
pub(super) fn peer(peers: &mut Vec<Peer>, rank: usize) -> &mut Peer {
    if peers.len() <= rank {
        peers.resize_with(rank + 1, Peer::default);
    }
    &mut peers[rank]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Network that takes so many records.
    struct Narrow(usize);

    impl Port for Narrow {
        fn offer(&mut self, _to: usize, _head: &[u8], _body: &[u8]) -> Offered {
            self.0 = match self.0.checked_sub(1) {
                Some(left) => left,
                None => return Offered::Full,
            };
            Offered::Taken
        }
    }

    #[test]
    fn peer_keeps_what_the_network_does_not_take_and_counts_its_bytes() {
        let mut peer = Peer::default();
        let news: Vec<bool> = [3, 5, 7].map(|bytes| peer.owe(vec![0; bytes])).into();
        assert_eq!((news, peer.owed_bytes()), (vec![true, false, false], 15));
        assert!(peer.pump(0, &mut Narrow(2)), "one is left");
        assert_eq!(peer.owed_bytes(), 7);
        assert!(!peer.pump(0, &mut Narrow(9)));
        assert_eq!((peer.owed_bytes(), peer.owe(vec![0])), (0, true));
    }

    #[test]
    fn peer_answers_with_data_are_bounded_in_bytes_and_number() {
        let mut peer = Peer::default();
        assert!(peer.has_room(2 * ANSWER_BYTES_MAX), "one always has room");
        let numbers: Vec<u32> =
            (0..ANSWERS_MAX).map(|_| peer.await_answer(Buffer::empty(), true, None)).collect();
        assert!(!peer.has_room(0));
        assert_eq!((peer.outstanding(), peer.await_answer(Buffer::empty(), false, None)), (256, 256));
        assert!(peer.end_answer(numbers[7]).is_some() && peer.end_answer(numbers[7]).is_none(), "once");
        assert!(peer.has_room(ANSWER_BYTES_MAX) && !peer.has_room(ANSWER_BYTES_MAX + 1));
        assert_eq!(peer.await_answer(Buffer::empty(), true, None), numbers[7], "a number is used again");
    }

    #[test]
    fn peer_with_a_long_put_keeps_all_back_and_one_with_a_long_get_only_changes() {
        let mut peer = Peer::default();
        let (put, get) = (
            peer.await_answer(Buffer::empty(), false, None),
            peer.await_answer(Buffer::empty(), false, None),
        );
        peer.begin_long(get, 1, true);
        assert_eq!((peer.keeps_back(true), peer.keeps_back(false), peer.gets()), (false, true, 1));
        peer.begin_long(put, 2, false);
        assert_eq!((peer.keeps_back(true), peer.bulk_of(put), peer.bulk_of(get)), (true, Some(2), Some(1)));
        peer.end_long(false);
        peer.end_long(true);
        peer.end_long(true);
        assert!(!peer.keeps_back(false));
    }

    #[test]
    fn peer_answers_to_records_that_are_kept_end_their_operation_by_the_last_to_come() {
        let done = crate::done::Done::default();
        // SAFETY: it outlives the peer.
        let at = unsafe { crate::done::DoneAt::new(std::ptr::NonNull::from(&done)) };
        let mut peer = Peer::default();
        let numbers = [false, false, true].map(|is_last| {
            let number = peer.await_answer(Buffer::empty(), true, Some(Note { at, is_last }));
            peer.keep(number);
            peer.note_asked();
            number
        });
        for (number, first) in [(numbers[2], Some(0)), (numbers[0], Some(1)), (numbers[1], None)] {
            assert_eq!(done.count.load(std::sync::atomic::Ordering::Relaxed), 0);
            let note = peer.end_answer(number).and_then(|awaited| awaited.note);
            note.into_iter().for_each(|note| note.answered(None));
            assert_eq!(peer.first_kept(), first);
        }
        assert_eq!(done.count.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[test]
    fn peer_that_has_left_awaits_and_owes_nothing() {
        let mut peer = Peer::default();
        peer.await_answer(Buffer::empty(), true, None);
        peer.owe(vec![0; 9]);
        assert_eq!(peer.end().count(), 0, "nobody looks for the end of that one");
        assert_eq!((peer.is_gone(), peer.outstanding(), peer.owed_bytes()), (true, 0, 0));
    }
}
