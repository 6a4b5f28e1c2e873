//! The floor: a link that has begun a line longer than a frame speaks alone until the line ends, so that
//! lines of several nodes never mix. What may not be written yet waits here, for each link in its order.
//!
//! ```text
//! hub: has_room before a frame is taken -> put(output, notice) -> poll_turn while stdout takes something
//!      handle_end of a link; poll_silent, judge
//! ```
//!
//! A link loses the floor when nothing of the rest has come for [`SILENCE`]. A time in which our stdout takes
//! nothing, or in which we do not run ourselves, is no silence: what waits to be read is looked at first. It
//! also loses it behind [`LINE_BYTES_MAX`] when the output of another waits for long: where the queue of a
//! link is full, nothing more of it is read, and no death either.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tutti_protocol::wire::{self, Kind};

/// The rest of a long line has this time to follow before others speak.
const SILENCE: Duration = Duration::from_millis(500);
/// A frame of this length without a newline at its end is a part of a long line.
const LONG_BYTES: usize = wire::DATA_BYTES_MAX / 2;
/// Bytes that wait of one link when nothing more of it is read; a frame more, at most.
const QUEUE_BYTES: usize = 256 << 10;
/// A longer line gives way to a link whose queue is full.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Piece that is to be written behind what its link has sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Output of a rank, and on which stream.
    Output { kind: Kind, rank: u32, bytes: Vec<u8> },
    /// A line of our own.
    Notice(String),
}

/// Turns of a link.
#[derive(Debug, Default)]
struct Queue {
    turns: VecDeque<Turn>,
    bytes: usize,
    has_ended: bool,
}

impl Queue {
    fn is_full(&self) -> bool {
        self.bytes >= QUEUE_BYTES
    }
}

/// A link in the middle of a long line.
#[derive(Clone, Copy, Debug)]
struct Holder {
    link: usize,
    /// When its silence is judged.
    until: Instant,
    /// Bytes of the line so far.
    bytes: usize,
}

/// The holder of the floor, and what waits of each link.
#[derive(Debug, Default)]
pub(super) struct Floor {
    holder: Option<Holder>,
    queues: Vec<Queue>,
    /// The link that is looked at first when all may speak.
    next: usize,
    /// A link whose line gave way, and how many turns of others go before it.
    yields: Option<(usize, usize)>,
}

impl Floor {
    /// Whether more of a link may be taken for its queue.
    pub(super) fn has_room(&self, link: usize) -> bool {
        self.queues.get(link).is_none_or(|queue| !queue.is_full())
    }

    /// Whether something of a link waits.
    pub(super) fn is_waiting(&self, link: usize) -> bool {
        self.queues.get(link).is_some_and(|queue| !queue.turns.is_empty())
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.turns.is_empty())
    }

    /// Adds what a link has sent.
    pub(super) fn put(&mut self, link: usize, turn: Turn) {
        let queue = self.queue(link);
        if let Turn::Output { bytes, .. } = &turn {
            queue.bytes += bytes.len();
        }
        queue.turns.push_back(turn);
    }

    /// The next that may be written: of the holder, or of one link after the other.
    pub(super) fn poll_turn(&mut self, now: Instant) -> Option<Turn> {
        let links = self.queues.len();
        let at = match self.holder {
            Some(holder) => Some(holder.link),
            None => {
                let waiting = (0..links).map(|at| (self.next + at) % links).filter(|at| self.is_waiting(*at));
                waiting.min_by_key(|at| self.yields.is_some_and(|(link, _)| link == *at))
            }
        }?;
        let turn = self.queues.get_mut(at)?.turns.pop_front()?;
        let yields = self.yields.filter(|(link, left)| *link != at && *left > 1);
        self.yields = yields.map(|(link, left)| (link, left - 1));
        if let Turn::Output { bytes, .. } = &turn {
            self.queues[at].bytes -= bytes.len();
            self.note_output(at, bytes, now);
        }
        if self.queues[at].has_ended {
            self.handle_end(at);
        }
        if self.holder.is_none() {
            self.next = (at + 1) % links;
        }
        Some(turn)
    }

    fn note_output(&mut self, link: usize, bytes: &[u8], now: Instant) {
        let before = self.holder.map(|holder| holder.bytes);
        let line_bytes = before.unwrap_or(0) + bytes.len();
        let continues = bytes.last() != Some(&b'\n') && (before.is_some() || bytes.len() >= LONG_BYTES);
        let gives_way = line_bytes >= LINE_BYTES_MAX
            && self.queues.iter().enumerate().any(|(other, queue)| other != link && queue.is_full());
        if gives_way {
            let others = self.queues.iter().enumerate().filter(|(other, _)| *other != link);
            self.yields = Some((link, others.map(|(_, queue)| queue.turns.len()).sum()));
        }
        let holder = Holder { link, until: now + SILENCE, bytes: line_bytes };
        self.holder = (continues && !gives_way).then_some(holder);
    }

    /// Takes the floor from a link of which nothing more comes, behind the last that waits of it.
    pub(super) fn handle_end(&mut self, link: usize) {
        let queue = self.queue(link);
        queue.has_ended = true;
        if queue.turns.is_empty() {
            self.holder = self.holder.filter(|holder| holder.link != link);
        }
    }

    /// Lines of our own that wait, of all links.
    pub(super) fn take_notices(&mut self) -> Vec<String> {
        let turns = self.queues.iter_mut().flat_map(|queue| queue.turns.drain(..));
        let notice = |turn| match turn {
            Turn::Notice(text) => Some(text),
            Turn::Output { .. } => None,
        };
        turns.filter_map(notice).collect()
    }

    /// Time at which to look whether the holder is silent.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.holder.map(|holder| holder.until)
    }

    /// The holder, if none of its frames has been taken for so long; asked while stdout takes something.
    pub(super) fn poll_silent(&self, now: Instant) -> Option<usize> {
        self.holder.filter(|holder| now >= holder.until).map(|holder| holder.link)
    }

    /// Keeps the floor for a holder of which something waits to be read; a silent one loses it.
    pub(super) fn judge(&mut self, has_more: bool, now: Instant) {
        let holder = self.holder.filter(|_| has_more);
        self.holder = holder.map(|holder| Holder { until: now + SILENCE, ..holder });
    }

    fn queue(&mut self, link: usize) -> &mut Queue {
        if self.queues.len() <= link {
            self.queues.resize_with(link + 1, Queue::default);
        }
        &mut self.queues[link]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: usize, last: u8) -> Turn {
        let mut bytes = vec![b'x'; bytes];
        *bytes.last_mut().unwrap() = last;
        Turn::Output { kind: Kind::Output, rank: 0, bytes }
    }

    /// The links whose turns come, told by the last byte of each; `?` for a line of our own.
    fn spoken(floor: &mut Floor, now: Instant) -> String {
        let turns = std::iter::from_fn(|| floor.poll_turn(now));
        let last = |turn| match turn {
            Turn::Output { bytes, .. } => char::from(*bytes.last().unwrap()),
            Turn::Notice(_) => '?',
        };
        turns.map(last).collect()
    }

    #[test]
    fn floor_is_of_one_link_until_its_line_ends() {
        let (mut floor, now) = (Floor::default(), Instant::now());
        floor.put(1, output(LONG_BYTES, b'a'));
        floor.put(0, output(1, b'b'));
        floor.next = 1;
        assert_eq!(spoken(&mut floor, now), "a");
        floor.put(1, output(1, b'c'));
        floor.handle_end(0);
        assert_eq!(spoken(&mut floor, now), "c");
        floor.put(1, output(1, b'\n'));
        assert_eq!(spoken(&mut floor, now), "\nb");
        floor.put(1, output(LONG_BYTES, b'd'));
        assert_eq!(spoken(&mut floor, now), "d");
        floor.put(0, output(1, b'e'));
        // Its last words come before its end counts.
        floor.put(1, output(1, b'f'));
        floor.put(1, Turn::Notice(String::new()));
        floor.handle_end(1);
        assert_eq!(spoken(&mut floor, now), "f?e");
        assert!(floor.is_empty());
    }

    #[test]
    fn floor_queue_is_bounded_and_keeps_its_order() {
        let (mut floor, now) = (Floor::default(), Instant::now());
        floor.put(0, output(LONG_BYTES, b'a'));
        assert_eq!(spoken(&mut floor, now), "a");
        while floor.has_room(1) {
            floor.put(1, output(LONG_BYTES, b'\n'));
        }
        floor.put(1, Turn::Notice(String::new()));
        assert!(floor.is_waiting(1) && floor.has_room(0) && spoken(&mut floor, now).is_empty());
        floor.put(0, output(1, b'\n'));
        let lines = "\n".repeat(QUEUE_BYTES / LONG_BYTES);
        assert_eq!(spoken(&mut floor, now), format!("\n{lines}?"));
        assert!(floor.has_room(1));
    }

    #[test]
    fn floor_is_given_up_by_an_endless_line_when_a_queue_is_full() {
        let (mut floor, now) = (Floor::default(), Instant::now());
        let speak = |floor: &mut Floor| {
            floor.put(0, output(LONG_BYTES, b'a'));
            spoken(floor, now)
        };
        for _ in 0..2 * LINE_BYTES_MAX / LONG_BYTES {
            assert_eq!(speak(&mut floor), "a");
        }
        floor.put(1, output(QUEUE_BYTES - 1, b'\n'));
        assert_eq!(speak(&mut floor), "a");
        floor.put(1, output(1, b'b'));
        assert_eq!(speak(&mut floor), "a\nb");
    }

    #[test]
    fn floor_is_given_up_for_all_turns_that_wait() {
        const TURNS: usize = 1_000;
        let (mut floor, now) = (Floor::default(), Instant::now());
        (0..TURNS).for_each(|_| floor.put(1, output(300, b'\n')));
        let mut text = String::new();
        // The line gives way with one more of its turns in the queue.
        for _ in 0..LINE_BYTES_MAX / LONG_BYTES / 3 + 1 {
            (0..3).for_each(|_| floor.put(0, output(LONG_BYTES, b'a')));
            text += &spoken(&mut floor, now);
        }
        let lines = "\n".repeat(TURNS);
        let (before, behind) = text.split_once(&lines).expect("all turns of the other link at once");
        assert_eq!(before.len(), LINE_BYTES_MAX / LONG_BYTES);
        assert!(
            (1..3).contains(&behind.len()) && (before.to_owned() + behind).bytes().all(|byte| byte == b'a')
        );
    }

    #[test]
    fn floor_is_lost_by_silence_and_by_nothing_that_only_looks_so() {
        let (mut floor, begin) = (Floor::default(), Instant::now());
        floor.put(1, output(LONG_BYTES, b'a'));
        floor.put(0, output(1, b'b'));
        floor.next = 1;
        assert_eq!(spoken(&mut floor, begin), "a");
        assert_eq!(floor.poll_silent(begin + SILENCE / 2), None);
        // We were away, or stdout took nothing: its frames wait.
        let late = begin + 10 * SILENCE;
        assert_eq!((floor.poll_silent(late), floor.wake_at()), (Some(1), Some(begin + SILENCE)));
        floor.judge(true, late);
        assert!(floor.poll_turn(late).is_none() && floor.poll_silent(late).is_none());
        floor.judge(false, late + SILENCE);
        assert!(floor.wake_at().is_none());
        assert_eq!(spoken(&mut floor, late), "b");
    }
}
