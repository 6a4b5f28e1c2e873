//! Output of a part on its way to the job's origin: kept until the origin has it, sent as far as the origin
//! has room.

use std::collections::VecDeque;

/// Bytes that are kept, about; beyond it nothing is read from the starter, and its ranks wait in their
/// writes.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// Output that the origin takes of each node before it has said anything.
pub(super) const FIRST_ROOM_BYTES: u64 = 128 << 10;
/// Bytes of one message.
const PIECE_BYTES: usize = 64 << 10;
/// Time after which what the origin says nothing about is sent again, in ms.
const RESEND_MS: u64 = 1000;

#[derive(Debug)]
pub(super) struct Outlet {
    buffer: VecDeque<u8>,
    /// Where the kept frames end.
    ends: VecDeque<u64>,
    /// Place of the first kept byte; a frame begins there.
    base: u64,
    sent: u64,
    /// Place below which the origin has all, as it has said.
    acked: u64,
    limit: u64,
    /// When something was last sent, or heard that was news.
    moved_ms: u64,
}

impl Outlet {
    /// Output that begins at `base`; `room`: what the origin takes of it before it has said anything.
    pub(super) fn new(base: u64, room: u64) -> Self {
        let (buffer, ends) = (VecDeque::new(), VecDeque::new());
        Outlet { buffer, ends, base, sent: base, acked: base, limit: base + room, moved_ms: 0 }
    }

    /// The next frame.
    pub(super) fn push(&mut self, frame: &[u8]) {
        self.buffer.extend(frame);
        self.ends.push_back(self.end());
    }

    /// Place of the first byte that is still here.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The origin has all of it.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.buffer.len() < BUFFER_BYTES
    }

    /// Bytes of all that has been written.
    pub(super) fn end(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    /// Takes in what the origin has, and has room for; `None`: it knows nothing of what came before, and
    /// begins with what is still here.
    pub(super) fn handle_room(&mut self, have: Option<u64>, limit: u64, now_ms: u64) {
        let Some(have) = have else {
            (self.sent, self.acked) = (self.base, self.base);
            return;
        };
        self.limit = self.limit.max(limit);
        let mut base = self.base;
        while let Some(end) = self.ends.pop_front_if(|end| *end <= have) {
            base = end;
        }
        self.buffer.drain(..(base - self.base) as usize);
        self.base = base;
        self.sent = self.sent.max(self.base).max(have.min(self.end()));
        if have > self.acked {
            self.acked = have;
            self.moved_ms = now_ms;
        }
    }

    /// The next piece to send: its place, and its bytes.
    pub(super) fn poll(&mut self, now_ms: u64) -> Option<(u64, Vec<u8>)> {
        let acked = self.acked.max(self.base);
        if self.sent > acked && now_ms >= self.moved_ms + RESEND_MS {
            self.sent = acked;
        }
        let bytes = self.limit.min(self.end()).saturating_sub(self.sent).min(PIECE_BYTES as u64) as usize;
        if bytes == 0 {
            return None;
        }
        let start = (self.sent - self.base) as usize;
        let piece = self.buffer.range(start..start + bytes).copied().collect();
        let offset = self.sent;
        if self.sent == acked {
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
    fn outlet_output_is_complete_despite_loss() {
        let mut outlet = Outlet::new(0, 100_000);
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
                outlet.handle_room(Some(have.len() as u64), have.len() as u64 + 100_000, now_ms);
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
