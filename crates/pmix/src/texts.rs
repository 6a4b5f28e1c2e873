//! Texts that a library wants its user to read.
//!
//! Open MPI 4 sends one as its daemon would get it, packed, each value behind their number (32 bits, the
//! highest byte first):
//!
//! ```text
//! 1, length, name of a file of texts and a zero | 1, length, name of the text in it and a zero |
//! 1, whether the text follows (a byte) | 1, length, the text and a zero
//! ```

use std::time::Duration;

/// Texts that are passed on at once.
const AT_ONCE: u32 = 1024;
/// Texts for which there is new room in a second.
const PER_SECOND: u128 = 64;
/// Line in place of the first text for which there is no room.
pub const LEFT_OUT: &str = "further texts are left out (PMIx_Log)\n";

/// The rate at which texts of all ranks of a node are passed on.
#[derive(Debug)]
pub struct Rate {
    room: u32,
    /// Moment until which room has come, since the process began.
    until: Duration,
    is_cut: bool,
}

/// Outcome for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Passed on.
    Whole,
    /// Replaced by [`LEFT_OUT`].
    Last,
    /// Left out.
    Not,
}

impl Default for Rate {
    fn default() -> Self {
        Rate { room: AT_ONCE, until: Duration::ZERO, is_cut: false }
    }
}

impl Rate {
    /// A text has come.
    pub fn take(&mut self, now: Duration) -> Taken {
        let new = now.saturating_sub(self.until).as_millis() * PER_SECOND / 1000;
        if new > 0 {
            self.until = now;
            self.room = AT_ONCE.min(self.room.saturating_add(u32::try_from(new).unwrap_or(AT_ONCE)));
        }
        if self.room > 0 {
            self.room -= 1;
            // The line comes again when all room has been there in between.
            self.is_cut &= self.room + 1 < AT_ONCE;
            return Taken::Whole;
        }
        if std::mem::replace(&mut self.is_cut, true) { Taken::Not } else { Taken::Last }
    }

    /// The job ends: there is room for what explains it.
    pub fn refill(&mut self) {
        self.room = AT_ONCE;
    }
}

/// The text of a message; one that is not packed is its own.
pub fn of_message(bytes: Vec<u8>) -> Vec<u8> {
    match packed(&bytes) {
        Some(text) => text.to_vec(),
        None => bytes,
    }
}

fn packed(mut rest: &[u8]) -> Option<&[u8]> {
    let (_file, _topic) = (string(&mut rest)?, string(&mut rest)?);
    let is_there = number(&mut rest)? == 1 && *rest.split_off_first()? == 1;
    let text = string(&mut rest).filter(|_| is_there)?;
    rest.is_empty().then_some(text)
}

/// A number behind which a value stands, or a length.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*bytes))
}

/// One string, without its zero.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = (number(rest)? == 1).then(|| number(rest)).flatten()?;
    rest.split_off(..length as usize)?.strip_suffix(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let string = |text: &str| {
            let length = text.len() as u32 + 1;
            [&[0, 0, 0, 1], &length.to_be_bytes()[..], text.as_bytes(), &[0]].concat()
        };
        [
            string("help-mpi-api.txt"),
            string("mpi-abort"),
            vec![0, 0, 0, 1, 1],
            string("MPI_ABORT was invoked\n"),
        ]
        .concat()
    }

    #[test]
    fn texts_beyond_the_rate_are_left_out_with_one_line_until_there_is_room() {
        let mut rate = Rate::default();
        let mut take = |count: u32, seconds: u64| {
            (0..count).map(|_| rate.take(Duration::from_secs(seconds))).collect::<Vec<_>>()
        };
        assert_eq!(take(AT_ONCE, 0), vec![Taken::Whole; AT_ONCE as usize]);
        assert_eq!(take(3, 0), [Taken::Last, Taken::Not, Taken::Not]);
        let after_a_second = take(66, 1);
        assert_eq!(after_a_second[63..], [Taken::Whole, Taken::Not, Taken::Not]);
        assert_eq!(take(AT_ONCE, 1000), vec![Taken::Whole; AT_ONCE as usize]);
        assert_eq!(take(2, 1000), [Taken::Last, Taken::Not]);
        rate.refill();
        assert_eq!(rate.take(Duration::from_secs(1000)), Taken::Whole);
    }

    #[test]
    fn text_of_a_packed_message_comes_without_its_packing() {
        assert_eq!(of_message(message()), b"MPI_ABORT was invoked\n");
    }

    #[test]
    fn text_that_is_not_packed_or_not_whole_is_its_own() {
        assert_eq!(of_message(b"PML ucx cannot be selected".to_vec()), b"PML ucx cannot be selected");
        let whole = message();
        for end in 0..whole.len() {
            assert_eq!(of_message(whole[..end].to_vec()), &whole[..end]);
        }
        let more = [&whole[..], b"x"].concat();
        assert_eq!(of_message(more.clone()), more);
        let mut long = whole.clone();
        long[4..8].fill(255);
        assert_eq!(of_message(long.clone()), long);
    }
}
