//! Output of a part on its way to the job's home: kept until the home has it, sent as far as the home has room.

use std::collections::VecDeque;

/// Bytes that are kept, about; beyond it nothing is read from the starter, and its ranks wait in their writes.
pub(super) const KEPT_BYTES: usize = 256 << 10;
/// Bytes of one message.
const PIECE_BYTES: usize = 64 << 10;
/// What the home says nothing about for so long is sent again, in ms.
const AGAIN_MS: u64 = 1000;

#[derive(Debug)]
pub(super) struct Outlet {
    kept: VecDeque<u8>,
    /// Place of the first kept byte.
    base: u64,
    sent: u64,
    limit: u64,
    /// When something was last sent, or heard that was news.
    moved_ms: u64,
}

impl Outlet {
    /// `room`: what the home takes before it has said anything.
    pub(super) fn new(room: u64) -> Self {
        Outlet { kept: VecDeque::new(), base: 0, sent: 0, limit: room, moved_ms: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
    }

    /// There is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.kept.len() < KEPT_BYTES
    }

    /// Bytes that have arrived.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of all that has been written.
    pub(super) fn end(&self) -> u64 {
        self.base + self.kept.len() as u64
    }

    pub(super) fn handle_room(&mut self, have: u64, limit: u64, now_ms: u64) {
        self.limit = self.limit.max(limit);
        let gone = have.clamp(self.base, self.end()) - self.base;
        self.kept.drain(..gone as usize);
        self.base += gone;
        self.sent = self.sent.max(self.base);
        if gone > 0 {
            self.moved_ms = now_ms;
        }
    }

    /// The next piece to send: its place, and its bytes.
    pub(super) fn poll(&mut self, now_ms: u64) -> Option<(u64, Vec<u8>)> {
        if self.sent > self.base && now_ms >= self.moved_ms + AGAIN_MS {
            self.sent = self.base;
        }
        let bytes = self.limit.min(self.end()).saturating_sub(self.sent).min(PIECE_BYTES as u64) as usize;
        if bytes == 0 {
            return None;
        }
        let start = (self.sent - self.base) as usize;
        let piece = self.kept.range(start..start + bytes).copied().collect();
        let offset = self.sent;
        if self.sent == self.base {
            self.moved_ms = now_ms;
        }
        self.sent += bytes as u64;
        Some((offset, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_arrives_whole_although_pieces_are_lost() {
        let mut outlet = Outlet::new(100_000);
        let written: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
        let mut pushed = 0;
        let mut have: Vec<u8> = Vec::new();
        let mut now_ms = 0;
        for turn in 0_u32..100_000 {
            if outlet.has_room() && pushed < written.len() {
                let more = (pushed + 7000).min(written.len());
                outlet.push(&written[pushed..more]);
                pushed = more;
            }
            while let Some((offset, bytes)) = outlet.poll(now_ms) {
                if turn.is_multiple_of(3) {
                    continue;
                }
                let skip = (have.len() as u64).saturating_sub(offset) as usize;
                if offset <= have.len() as u64 && skip < bytes.len() {
                    have.extend(&bytes[skip..]);
                }
            }
            if !turn.is_multiple_of(5) {
                outlet.handle_room(have.len() as u64, have.len() as u64 + 100_000, now_ms);
            }
            now_ms += 300;
            if have.len() == written.len() {
                break;
            }
        }
        assert!(have == written);
        assert_eq!(outlet.end(), written.len() as u64);
    }
}
