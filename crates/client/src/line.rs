//! A line to a host that may break and be made anew, without a byte lost or doubled. Pure: whoever has the
//! line puts in what it reads, and writes what comes out. Both ends are alike.
//!
//! Bytes of each direction are numbered from 0 on; the end of a direction has the number behind its last
//! byte. What was sent is kept until the other end has it. On a new line each end says first, outside of
//! this module, how much it has received ([`Line::received`]), and the other one goes on from there.
//!
//! ```text
//! frame: kind (1 byte) | bytes (u32, little end first) | payload
//! DATA bytes    END nothing    ACK how much was received (u64)    PING nothing, answered by ACK
//! ```

use std::collections::VecDeque;

/// Bytes that are kept for the other end, at most; then nothing more is taken.
pub const WINDOW: usize = 1 << 20;
/// Bytes of a frame of data, at most.
const PIECE: usize = 32 << 10;
/// Kind and length.
const HEAD: usize = 5;

const DATA: u8 = 0;
const END: u8 = 1;
const ACK: u8 = 2;
const PING: u8 = 3;

/// Why a line is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The bytes are no line of this protocol.
    #[error("something else than frames comes over the line")]
    Foreign,
    /// The other end says that it has received what was not sent, or has forgotten what it had.
    #[error("the other end of the line has lost its place")]
    Lost,
}

/// One end.
#[derive(Debug, Default)]
pub struct Line {
    /// Bytes that the other end does not have yet, as far as is known.
    kept: VecDeque<u8>,
    /// Number of the first of them.
    first: u64,
    /// Of them, so many are on this line.
    sent: usize,
    /// No more will be added; with its number the end counts as one more byte.
    finished: bool,
    end_sent: bool,
    end_received_there: bool,
    /// Bytes that came from the other end, and its end.
    received: u64,
    ended: bool,
    /// Count that the other end was told last.
    told: u64,
    /// The other end has asked for a sign of life.
    is_asked: bool,
    /// Frames for the line.
    out: VecDeque<u8>,
    /// A frame that is not whole.
    partial: Vec<u8>,
}

impl Line {
    /// Bytes that may be added.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.finished { 0 } else { WINDOW.saturating_sub(self.kept.len()) }
    }

    /// Adds bytes for the other end.
    ///
    /// # Panics
    /// When there is no room for them.
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "{} bytes, and room for {}", bytes.len(), self.room());
        self.kept.extend(bytes);
    }

    /// Says that no more bytes follow.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// How much has come from the other end, its end included: what a new line begins with.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether the other end has finished, and all that it sent was taken.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the other end has all that was sent, and the end.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.finished && self.kept.is_empty() && self.end_received_there
    }

    /// A new line: the other end has received so much.
    ///
    /// # Errors
    /// When it cannot have.
    pub fn handle_line(&mut self, received_there: u64) -> Result<(), LineError> {
        self.out.clear();
        self.partial.clear();
        self.sent = 0;
        self.end_sent = false;
        self.told = self.received;
        self.is_asked = false;
        self.acknowledge(received_there)
    }

    fn acknowledge(&mut self, received_there: u64) -> Result<(), LineError> {
        let end = self.first + self.kept.len() as u64;
        let is_end = self.finished && received_there == end + 1;
        let upto = if is_end { end } else { received_there };
        let gone = upto.checked_sub(self.first).filter(|_| upto <= end).ok_or(LineError::Lost)?;
        self.kept.drain(..gone as usize);
        self.sent = self.sent.saturating_sub(gone as usize);
        self.first = upto;
        self.end_received_there |= is_end;
        Ok(())
    }

    /// Takes what was read from the line; gives the bytes in it.
    ///
    /// # Errors
    /// When it is not from the other end: the line is to be given up.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<Vec<u8>, LineError> {
        self.partial.extend_from_slice(bytes);
        let (mut at, mut data) = (0, Vec::new());
        while let Some(head) = self.partial.get(at..at + HEAD) {
            let length = u32::from_le_bytes(head[1..].try_into().expect("four bytes")) as usize;
            let kind = head[0];
            if length > PIECE || kind > PING {
                return Err(LineError::Foreign);
            }
            let Some(payload) = self.partial.get(at + HEAD..at + HEAD + length) else { break };
            match kind {
                DATA if self.ended => return Err(LineError::Lost),
                DATA => {
                    data.extend_from_slice(payload);
                    self.received += length as u64;
                }
                END => {
                    self.received += u64::from(!self.ended);
                    self.ended = true;
                }
                ACK => {
                    let number = payload.try_into().map_err(|_| LineError::Foreign)?;
                    self.acknowledge(u64::from_le_bytes(number))?;
                }
                _ => self.is_asked = true,
            }
            at += HEAD + length;
        }
        self.partial.drain(..at);
        Ok(data)
    }

    /// Asks the other end for a sign of life.
    pub fn ping(&mut self) {
        put(&mut self.out, PING, &[]);
    }

    /// Bytes for the line, as far as there are any.
    pub fn poll_bytes(&mut self) -> &[u8] {
        if self.out.is_empty() {
            if std::mem::take(&mut self.is_asked) || self.told != self.received {
                self.told = self.received;
                put(&mut self.out, ACK, &self.received.to_le_bytes());
            }
            let piece: Vec<u8> = self.kept.range(self.sent..).take(PIECE).copied().collect();
            if !piece.is_empty() {
                self.sent += piece.len();
                put(&mut self.out, DATA, &piece);
            }
            if self.finished && self.sent == self.kept.len() && !self.end_sent {
                self.end_sent = true;
                put(&mut self.out, END, &[]);
            }
        }
        self.out.make_contiguous()
    }

    /// Notes how many of the bytes for the line were written.
    pub fn handle_written(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }
}

fn put(out: &mut VecDeque<u8>, kind: u8, payload: &[u8]) {
    out.push_back(kind);
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(payload);
}

#[cfg(test)]
mod tests {
    use tutti_testkit::{Random, mix, seed};

    use super::*;

    /// Moves bytes of one end to the other: a part of them, whose length is drawn.
    fn carry(random: &mut Random, from: &mut Line, to: &mut Line, taken: &mut Vec<u8>) {
        let bytes = from.poll_bytes();
        let count = random.below(bytes.len() as u64 + 1) as usize;
        let piece = bytes[..count].to_vec();
        from.handle_written(count);
        taken.extend(to.handle_bytes(&piece).expect("both ends are ours"));
    }

    #[test]
    fn line_that_is_cut_loses_and_doubles_nothing() {
        let base = seed();
        for number in 0..40 {
            let random = &mut Random::new(mix(base.wrapping_add(number)));
            let mut ends = [Line::default(), Line::default()];
            let (mut given, mut taken) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
            for _ in 0..random.below(400) {
                let side = random.below(2) as usize;
                match random.below(10) {
                    // Cut: what was written and not read is gone.
                    0 => {
                        let received = [ends[0].received(), ends[1].received()];
                        ends[0].handle_line(received[1]).unwrap();
                        ends[1].handle_line(received[0]).unwrap();
                    }
                    1 => ends[side].ping(),
                    2..=4 => {
                        let count = (random.below(50_000) as usize).min(ends[side].room());
                        let bytes: Vec<u8> = (0..count).map(|_| random.below(256) as u8).collect();
                        ends[side].push(&bytes);
                        given[side].extend(bytes);
                    }
                    _ => {
                        let [one, two] = &mut ends;
                        let (from, to) = if side == 0 { (one, two) } else { (two, one) };
                        carry(random, from, to, &mut taken[side]);
                    }
                }
            }
            ends.iter_mut().for_each(Line::finish);
            while !ends.iter().all(|end| end.is_delivered() && end.is_ended()) {
                let [one, two] = &mut ends;
                carry(random, one, two, &mut taken[0]);
                carry(random, two, one, &mut taken[1]);
            }
            assert!(given == taken, "seed {base}, run {number}");
        }
    }

    #[test]
    fn line_answers_a_question_for_a_sign_of_life() {
        let (mut near, mut far) = (Line::default(), Line::default());
        let carry = |from: &mut Line, to: &mut Line| {
            let bytes = from.poll_bytes().to_vec();
            from.handle_written(bytes.len());
            to.handle_bytes(&bytes).expect("both ends are ours");
            bytes.len()
        };
        near.ping();
        assert!(carry(&mut near, &mut far) > 0);
        assert!(carry(&mut far, &mut near) > 0, "nothing has come that was to be acknowledged");
        assert_eq!((carry(&mut near, &mut far), carry(&mut far, &mut near)), (0, 0), "once");
    }

    #[test]
    fn line_keeps_no_more_than_its_window() {
        let mut line = Line::default();
        line.push(&vec![7; WINDOW]);
        assert_eq!(line.room(), 0);
        line.handle_line(1000).unwrap();
        assert_eq!(line.room(), 1000);
    }

    #[test]
    fn line_refuses_what_no_other_end_says() {
        assert_eq!(Line::default().handle_bytes(b"Welcome to this host\n"), Err(LineError::Foreign));
        assert_eq!(Line::default().handle_line(1), Err(LineError::Lost));
        let mut line = Line::default();
        line.push(b"abc");
        line.handle_line(2).unwrap();
        assert_eq!(line.handle_line(1), Err(LineError::Lost), "those bytes are not kept any more");
    }

    #[test]
    fn line_of_frames_that_are_nearly_right_gives_bytes_or_is_given_up() {
        let mut other = Line::default();
        other.push(&[7; 300]);
        other.ping();
        let mut samples = vec![other.poll_bytes().to_vec()];
        other.handle_written(samples[0].len());
        other.finish();
        samples.push(other.poll_bytes().to_vec());
        let mut acknowledgement = VecDeque::new();
        put(&mut acknowledgement, ACK, &2_u64.to_le_bytes());
        samples.extend([Vec::from(acknowledgement), vec![END, 0, 0, 0, 0]]);
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            let mut line = Line::default();
            line.push(b"abcd");
            let _ = line.poll_bytes().len();
            let mut taken = 0;
            for piece in bytes.chunks(97) {
                let Ok(data) = line.handle_bytes(piece) else { break };
                taken += data.len();
                assert_eq!(line.received(), taken as u64 + u64::from(line.is_ended()));
            }
            assert!(taken + line.partial.len() <= bytes.len() && line.kept.len() <= 4);
        });
    }
}
