//! Bulk messages: up to 2^40 bytes, cut into fragments that are stored where they belong in any order.
//!
//! The receiver accepts a message first and thereby names it ([`BulkId`]); the name travels to the sender in
//! a record. Within a message the sender runs at most [`SPAN`] fragments ahead of the first one that is
//! missing, so both sides know a message by three rings of bits, or one. Every transmission has a number, its
//! *order*; an acknowledgement returns the order that caused it. A fragment that was sent [`REORDER`] or more
//! orders earlier and is not in the bitmap is lost.

mod queue;

pub(crate) use queue::BulkQueue;

use crate::packet::BITMAP_WORDS;
use crate::types::{BulkId, Seq};

/// Bytes of a bulk message, at most.
pub const BULK_BYTES_MAX: u64 = 1 << 40;
/// Fragments in a ring of bits.
const RING: u32 = BITMAP_WORDS as u32 * 64;
/// Fragments ahead of the first missing one, at most: an acknowledgement's bitmap begins up to 63 before that
/// one.
pub(crate) const SPAN: u32 = RING - 64;
/// A message's rest of so many bytes waits for other rests, to travel with them.
const REST_BYTES_MAX: u64 = 8 << 10;
/// Transmissions by which the network may change the order before a fragment counts as lost.
pub(crate) const REORDER: u32 = 4;

/// A bit for each of the [`RING`] fragments around the present ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(pub [u64; BITMAP_WORDS]);

impl Bits {
    #[inline]
    fn place(fragment: u32) -> (usize, u64) {
        ((fragment / 64) as usize % BITMAP_WORDS, 1 << (fragment % 64))
    }

    #[inline]
    pub(crate) fn get(&self, fragment: u32) -> bool {
        let (word, bit) = Self::place(fragment);
        self.0[word] & bit != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, fragment: u32) {
        let (word, bit) = Self::place(fragment);
        self.0[word] |= bit;
    }

    #[inline]
    pub(crate) fn clear(&mut self, fragment: u32) {
        let (word, bit) = Self::place(fragment);
        self.0[word] &= !bit;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The first fragment in `from..end` whose bit is set; `end - from` is at most [`RING`].
    pub(crate) fn first(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from;
        while at < end {
            let rest = self.0[(at / 64) as usize % BITMAP_WORDS] >> (at % 64);
            if rest != 0 {
                let found = at + rest.trailing_zeros();
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub id: BulkId,
    pub tag: u64,
    pub bytes: u64,
    pub fragments: u32,
    /// All before it have arrived.
    pub base: u32,
    /// Never sent from here on.
    pub next: u32,
    acked: Bits,
    flying: Bits,
    lost: Bits,
    /// Sent more than once.
    again: Bits,
    /// Order of the last transmission of each fragment of the ring.
    orders: Box<[u32]>,
    /// Fragments under way.
    pub flying_count: u32,
    pub probe_wanted: bool,
    /// Answers in succession that nothing has arrived of what is lost.
    pub vanished: u32,
    /// The next message of the same flow.
    pub next_slot: Option<u16>,
}

/// Effect of an acknowledgement of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BulkAcked {
    /// Fragments that were under way and have arrived.
    pub arrived: u32,
    /// Fragments found lost.
    pub lost: u32,
}

impl Outgoing {
    pub(crate) fn idle() -> Self {
        Outgoing {
            id: BulkId { slot: 0, turn: 0 },
            tag: 0,
            bytes: 0,
            fragments: 0,
            base: 0,
            next: 0,
            acked: Bits::default(),
            flying: Bits::default(),
            lost: Bits::default(),
            again: Bits::default(),
            orders: vec![0; RING as usize].into_boxed_slice(),
            flying_count: 0,
            probe_wanted: false,
            vanished: 0,
            next_slot: None,
        }
    }

    /// Begins a message.
    pub(crate) fn begin(&mut self, id: BulkId, tag: u64, bytes: u64, fragment_bytes: usize) {
        (self.id, self.tag, self.bytes) = (id, tag, bytes);
        self.fragments = bytes.div_ceil(fragment_bytes as u64) as u32;
        (self.base, self.next) = (0, 0);
        (self.acked, self.flying, self.lost) = (Bits::default(), Bits::default(), Bits::default());
        (self.flying_count, self.probe_wanted, self.vanished, self.next_slot) = (0, false, 0, None);
    }

    /// As saved: the first fragment that is not known to have arrived, and the first never sent. What lies
    /// between is sent again. `false`: that cannot be.
    pub(crate) fn restore(&mut self, base: u32, next: u32) -> bool {
        if base >= self.fragments || next < base || next > self.fragments || next - base > SPAN {
            return false;
        }
        (self.base, self.next) = (base, next);
        (base..next).for_each(|fragment| self.lost.set(fragment));
        true
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.base == self.fragments
    }

    /// The fragment to send next: a lost one, else the next new one.
    #[inline]
    pub(crate) fn sendable(&self) -> Option<u32> {
        self.lost.first(self.base, self.next).or_else(|| self.sendable_new())
    }

    /// The next new one, if it may be sent.
    #[inline]
    pub(crate) fn sendable_new(&self) -> Option<u32> {
        (self.next < self.fragments && self.next < self.base + SPAN).then_some(self.next)
    }

    /// Whether all that may be sent is a short end of the message, of which more has been sent before.
    #[inline]
    pub(crate) fn is_tail(&self, fragment_bytes: usize) -> bool {
        is_tail(self.bytes, self.next, fragment_bytes) && self.lost.is_empty()
    }

    /// How many lost ones there are to send.
    #[inline]
    pub(crate) fn lost_count(&self) -> usize {
        self.lost.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    #[inline]
    pub(crate) fn note_sent(&mut self, fragment: u32, order: u32) {
        if fragment < self.next {
            self.again.set(fragment);
        } else {
            self.again.clear(fragment);
        }
        self.lost.clear(fragment);
        self.flying.set(fragment);
        self.flying_count += 1;
        self.orders[(fragment % RING) as usize] = order;
        self.next = self.next.max(fragment + 1);
    }

    /// All before `base` has arrived, and what `words` say; `echo` is the order that caused the answer.
    pub(crate) fn handle_ack(&mut self, base: u32, words: &[u8], echo: u32) -> BulkAcked {
        assert!(base <= self.next, "an acknowledgement of fragments that were never sent passed the check");
        let mut done = BulkAcked::default();
        let start = base / 64 * 64;
        for (count, word) in words.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let first = start + 64 * count as u32;
            // Of an old acknowledgement only what is still in the ring counts.
            let at = first as usize / 64 % BITMAP_WORDS;
            if first + 64 <= self.base || first >= self.next {
                continue;
            }
            let news = word & !self.acked.0[at] & range_mask(first, self.base, self.next);
            done.arrived += (news & self.flying.0[at]).count_ones();
            self.acked.0[at] |= news;
            self.flying.0[at] &= !news;
            self.lost.0[at] &= !news;
        }
        while self.base < base || (self.base < self.next && self.acked.get(self.base)) {
            done.arrived += u32::from(self.flying.get(self.base));
            self.acked.clear(self.base);
            self.flying.clear(self.base);
            self.lost.clear(self.base);
            self.base += 1;
        }
        self.flying_count -= done.arrived;
        done.lost = self.find_lost(echo);
        if done.arrived > 0 {
            self.vanished = 0;
        } else {
            self.vanished += u32::from(done.lost > 0);
        }
        done
    }

    /// Fragments are sent in their order the first time, so behind one that was sent once and is not lost
    /// there is none that is: an acknowledgement costs what it finds, not what is under way.
    fn find_lost(&mut self, echo: u32) -> u32 {
        let mut lost = 0;
        let mut at = self.base;
        while let Some(fragment) = self.flying.first(at, self.next) {
            let order = self.orders[(fragment % RING) as usize];
            if echo.wrapping_sub(order).cast_signed() >= REORDER.cast_signed() {
                self.flying.clear(fragment);
                self.lost.set(fragment);
                lost += 1;
            } else if !self.again.get(fragment) {
                break;
            }
            at = fragment + 1;
        }
        self.flying_count -= lost;
        lost
    }

    /// Everything under way is to be sent again; how much that was.
    pub(crate) fn lose_all(&mut self) -> u32 {
        for (lost, flying) in self.lost.0.iter_mut().zip(&mut self.flying.0) {
            *lost |= std::mem::take(flying);
        }
        std::mem::take(&mut self.flying_count)
    }
}

/// Whether what lies behind so many fragments of a message is a short end of it.
#[inline]
fn is_tail(bytes: u64, behind: u32, fragment_bytes: usize) -> bool {
    let left = bytes.saturating_sub(u64::from(behind) * fragment_bytes as u64);
    behind > 0 && left <= REST_BYTES_MAX
}

/// The bits of the word that begins with fragment `first` which lie in `from..end`.
#[inline]
fn range_mask(first: u32, from: u32, end: u32) -> u64 {
    let low = if from > first { u64::MAX << (from - first).min(63) } else { u64::MAX };
    let high = if end < first + 64 { (1 << (end - first)) - 1 } else { u64::MAX };
    low & high
}

/// A message on its way in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    /// Which flow it comes from; `None`: the place is free.
    pub flow: Option<u16>,
    pub turn: u32,
    pub tag: u64,
    pub bytes: u64,
    pub fragments: u32,
    /// The first that is missing.
    pub base: u32,
    /// Behind the furthest that is here.
    pub behind: u32,
    here: Bits,
    /// Fragments since the last acknowledgement.
    pub owed: u32,
    /// The newest order seen, if any was.
    echo: Option<Seq>,
    pub ack_queued: bool,
    /// May never come; nothing of it is here.
    offered: bool,
    /// May be shorter than that: nobody has said yet.
    open: bool,
}

/// Why a fragment is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// The fragment is here already.
    Duplicate,
    /// The fragment may be the end of a shorter message: it is to come again when that is known.
    Early,
    /// The fragment is none of this message's.
    Wrong,
}

impl Incoming {
    /// A place that is free and has been used `turn` times.
    pub(crate) fn free(turn: u32) -> Self {
        Incoming {
            flow: None,
            turn,
            tag: 0,
            bytes: 0,
            fragments: 0,
            base: 0,
            behind: 0,
            here: Bits::default(),
            owed: 0,
            echo: None,
            ack_queued: false,
            offered: false,
            open: false,
        }
    }

    /// The place takes up a message.
    pub(crate) fn begin(&mut self, flow: u16, tag: u64, bytes: u64, fragment_bytes: usize) {
        let fragments = bytes.div_ceil(fragment_bytes as u64) as u32;
        *self = Incoming { flow: Some(flow), tag, bytes, fragments, ..Incoming::free(self.turn) };
    }

    /// The message may never come, and may be shorter.
    pub(crate) fn offer(&mut self) {
        (self.offered, self.open) = (true, true);
    }

    /// As saved: whether it may never come, and whether it may be shorter.
    pub(crate) fn offer_bits(&self) -> u32 {
        u32::from(self.offered) | u32::from(self.open) << 1
    }

    /// The same, back.
    pub(crate) fn restore_offer(&mut self, bits: u32) {
        (self.offered, self.open) = (bits & 1 != 0, bits & 2 != 0);
    }

    /// Whether it may never come.
    #[inline]
    pub(crate) fn is_offered(&self) -> bool {
        self.offered
    }

    /// Confirms that so many bytes come. `false`, and nothing has changed: more bytes of it are here, or
    /// there is no room for so many.
    pub(crate) fn confirm(&mut self, bytes: u64, fragment_bytes: usize) -> bool {
        let fragments = bytes.div_ceil(fragment_bytes as u64) as u32;
        // A last fragment that is here was as long as that of a longer message.
        let has_end = self.behind == fragments && !bytes.is_multiple_of(fragment_bytes as u64);
        let is_shorter = bytes < self.bytes;
        if bytes == 0 || bytes > self.bytes || self.behind > fragments || (is_shorter && has_end) {
            return false;
        }
        (self.bytes, self.fragments) = (bytes, fragments);
        (self.offered, self.open) = (false, false);
        true
    }

    /// Ends the offer: something of the message is here. Whether it might never have come until then.
    #[inline]
    pub(crate) fn end_offer(&mut self) -> bool {
        std::mem::take(&mut self.offered)
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.base == self.fragments
    }

    /// Notes that something has come which was sent with this order.
    #[inline]
    pub(crate) fn note_order(&mut self, order: Seq) {
        if self.echo.is_none_or(|echo| echo.is_before(order)) {
            self.echo = Some(order);
        }
    }

    /// Order that an acknowledgement echoes.
    pub(crate) fn echo(&self) -> u32 {
        self.echo.map_or(0, |order| order.0)
    }

    /// Which fragment the bytes are, if they are a whole one of this message that may come now.
    #[inline]
    pub(crate) fn check(&self, offset: u64, length: usize, fragment_bytes: usize) -> Result<u32, NotStored> {
        if offset >= self.bytes || !offset.is_multiple_of(fragment_bytes as u64) {
            return Err(NotStored::Wrong);
        }
        let due = (self.bytes - offset).min(fragment_bytes as u64);
        if length as u64 != due {
            let is_early = self.open && (1..due).contains(&(length as u64));
            return Err(if is_early { NotStored::Early } else { NotStored::Wrong });
        }
        let fragment = (offset / fragment_bytes as u64) as u32;
        if fragment < self.base {
            return Err(NotStored::Duplicate);
        }
        if fragment >= self.base / 64 * 64 + RING {
            return Err(NotStored::Wrong);
        }
        if self.here.get(fragment) { Err(NotStored::Duplicate) } else { Ok(fragment) }
    }

    /// The fragment has been stored.
    #[inline]
    pub(crate) fn note_stored(&mut self, fragment: u32) {
        self.behind = self.behind.max(fragment + 1);
        if fragment != self.base {
            self.here.set(fragment);
            return;
        }
        self.base += 1;
        while self.base < self.fragments && self.here.get(self.base) {
            self.here.clear(self.base);
            self.base += 1;
        }
    }

    /// Whether only a short end is expected, or something that was lost: its sender may leave that for later.
    #[inline]
    pub(crate) fn is_tail(&self, fragment_bytes: usize) -> bool {
        is_tail(self.bytes, self.behind, fragment_bytes)
    }

    /// The first missing fragment from `from` on, and how many are missing one behind the other, at most
    /// `count_max`.
    pub(crate) fn missing(&self, from: u32, count_max: u32) -> (u32, u32) {
        let end = self.fragments.min(self.base / 64 * 64 + RING);
        let first =
            (from.max(self.base)..end).find(|fragment| !self.here.get(*fragment)).unwrap_or(self.base);
        let behind = (first + 1..end.min(first + count_max)).find(|fragment| self.here.get(*fragment));
        (first, behind.unwrap_or(end.min(first + count_max)) - first)
    }

    /// The bitmap of an acknowledgement, and how many of its words say anything.
    pub(crate) fn bitmap(&self) -> ([u64; BITMAP_WORDS], usize) {
        let mut words = [0; BITMAP_WORDS];
        let mut used = 0;
        if !self.here.is_empty() {
            for (count, word) in words.iter_mut().enumerate() {
                *word = self.here.0[(self.base as usize / 64 + count) % BITMAP_WORDS];
                used = if *word != 0 { count + 1 } else { used };
            }
        }
        (words, used)
    }

    /// As saved: the first that is missing, and what [`bitmap`](Self::bitmap) gave. `false`: that cannot be.
    pub(crate) fn restore(&mut self, base: u32, words: &[u64; BITMAP_WORDS]) -> bool {
        (self.base, self.behind) = (base, base);
        for (count, word) in words.iter().enumerate() {
            self.here.0[(base as usize / 64 + count) % BITMAP_WORDS] = *word;
        }
        // The missing one is not here, nor is one before it or behind the end.
        base < self.fragments
            && self.here.first(base / 64 * 64, base + 1).is_none()
            && self.here.first(self.fragments.min(base / 64 * 64 + RING), base / 64 * 64 + RING).is_none()
    }
}

#[cfg(test)]
mod tests;
