//! One message copied by its two ranks, in pieces: the sender writes, the receiver reads, each what it
//! claims.
//!
//! Who claims what, and when all is there, is [`tutti_shm::coop_copy`]'s. A call of [`Copy::step`] copies one
//! piece at most, so the caller can go on with other things in between.

use tutti_shm::coop_copy::{Joint, State};

use crate::os::{Memory, Remote};

/// Which of the two ranks this one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Writes to the other's memory.
    Sender,
    /// Reads from the other's memory.
    Receiver,
}

/// The pieces of a message: both sides cut it in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes to copy.
    pub bytes: usize,
    /// Logarithm to base 2 of the bytes of a piece.
    pub piece_log2: u8,
}

/// Smaller pieces cost more in calls than two cores gain.
const PIECE_LOG2_MIN: u8 = 15;
/// Larger ones gain nothing when two copy.
const PIECE_LOG2_TOGETHER: u8 = 18;
/// One call's limit.
const PIECE_LOG2_ALONE: u8 = 20;

impl Cut {
    /// The cut for a message that two ranks will copy: halves, as far as that makes good pieces.
    pub fn together(bytes: usize) -> Self {
        let half = (bytes.next_power_of_two().trailing_zeros() as u8).saturating_sub(1);
        Cut { bytes, piece_log2: half.clamp(PIECE_LOG2_MIN, PIECE_LOG2_TOGETHER) }
    }

    /// The cut for a message that probably one rank will copy alone.
    pub fn alone(bytes: usize) -> Self {
        Cut { bytes, piece_log2: PIECE_LOG2_ALONE }
    }

    /// Number of pieces.
    pub fn pieces(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(1 << self.piece_log2)).expect("messages are below 2^47 bytes")
    }

    fn piece(&self, index: u32) -> (usize, usize) {
        let offset = (index as usize) << self.piece_log2;
        (offset, (1 << self.piece_log2).min(self.bytes - offset))
    }
}

/// One side of such a copy.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Which side this is.
    pub side: Side,
    /// Number of the message in its joint.
    pub number: u32,
    /// The same on both sides.
    pub cut: Cut,
    /// Our memory.
    pub own: Memory,
    /// The other's.
    pub remote: Remote,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No copy: the message is not open yet, or the other copies the last pieces.
    Nothing,
    /// A piece of so many bytes was copied; the other is to be rung.
    Copied(usize),
    /// All is there.
    Complete,
    /// A process cannot copy: the message must go another way. The other process is to be rung.
    Broken,
}

impl Copy {
    /// How the copy stands, without copying: never [`Step::Copied`].
    pub fn check(&self, joint: &Joint) -> Step {
        match joint.state(self.number, self.cut.pieces()) {
            State::Closed | State::Open => Step::Nothing,
            State::Complete => Step::Complete,
            State::Broken => Step::Broken,
        }
    }

    /// Copies the next piece, if one is left.
    pub fn step(&self, joint: &mut Joint) -> Step {
        let stands = self.check(joint);
        if stands != Step::Nothing {
            return stands;
        }
        // None of a message that is not open.
        let Some(piece) = joint.claim(self.number, self.cut.pieces()) else { return Step::Nothing };
        let (mut offset, mut left) = self.cut.piece(piece);
        let bytes = left;
        while left > 0 {
            let copied = match self.side {
                Side::Sender => self.own.write_to(self.remote, offset, left),
                Side::Receiver => self.own.read_from(self.remote, offset, left),
            };
            let Ok(copied) = copied else {
                joint.give_up(self.number);
                return Step::Broken;
            };
            (offset, left) = (offset + copied, left - copied);
        }
        joint.finish_piece(self.number);
        Step::Copied(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_pieces_cover_every_byte_once() {
        for bytes in [1, 1000, 32 << 10, 65_537, 100_000, 1 << 20, (16 << 20) + 7] {
            for cut in [Cut::together(bytes), Cut::alone(bytes)] {
                let mut end = 0;
                for index in 0..cut.pieces() {
                    let (offset, length) = cut.piece(index);
                    assert!(offset == end && length > 0, "{cut:?}, piece {index}");
                    end += length;
                }
                assert_eq!(end, bytes, "{cut:?}");
            }
        }
        assert_eq!(Cut::together(64 << 10).pieces(), 2);
        assert_eq!(Cut::together(1 << 20).pieces(), 4);
    }
}
