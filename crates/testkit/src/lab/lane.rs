//! One direction of a cable, without descriptors and without a clock: which frames are lost, come twice, are
//! overtaken or wait, and until when.
//!
//! ```text
//! handle_frame(now, frame) -> queue, ordered by the time at which each is due
//! poll_frame(now)          -> the next one that is due
//! next_due()               -> when to ask again
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::terms::{Share, Terms};
use crate::Random;

/// Frames that wait in a lane, at most; more are lost, as in a switch.
const FRAMES_MAX: usize = 2000;
/// Bytes of these frames, at most.
const BYTES_MAX: usize = 4 << 20;
/// How much later an overtaken frame comes, at least.
const OVERTAKEN_NS: u64 = 200_000;

/// Counts of frames, by what has happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Frames that came in.
    pub taken: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost because the queue was full.
    pub overflowed: u64,
    /// Sent twice.
    pub doubled: u64,
    /// Held back, so that others overtake them.
    pub overtaken: u64,
    /// Frames that went out.
    pub given: u64,
}

/// A direction.
#[derive(Debug)]
pub(super) struct Lane {
    terms: Terms,
    random: Random,
    /// By the time at which they are due, and the order in which they came.
    queue: BTreeMap<(u64, u64), Vec<u8>>,
    bytes: usize,
    number: u64,
    /// When the last frame has left the sender, by the rate.
    sent_ns: u64,
    counts: Counts,
}

impl Lane {
    pub(super) fn new(terms: Terms, direction: u64) -> Self {
        let random = Random::new(crate::mix(terms.seed) ^ direction);
        Lane {
            terms,
            random,
            queue: BTreeMap::new(),
            bytes: 0,
            number: 0,
            sent_ns: 0,
            counts: Counts::default(),
        }
    }

    /// From here on under other terms; what is under way stays so.
    pub(super) fn set_terms(&mut self, terms: Terms, direction: u64) {
        self.random = Random::new(crate::mix(terms.seed) ^ direction);
        self.terms = terms;
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn chance(&mut self, share: Share) -> bool {
        self.random.below(1_000_000) < u64::from(share.of_million())
    }

    /// A frame comes in.
    pub(super) fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.counts.taken += 1;
        // The same draws for every frame, so that one share does not change the luck of the others.
        let is_lost = self.chance(self.terms.loss);
        let is_doubled = self.chance(self.terms.duplication);
        let is_overtaken = self.chance(self.terms.reordering);
        if is_lost {
            self.counts.lost += 1;
            return;
        }
        self.counts.doubled += u64::from(is_doubled);
        self.counts.overtaken += u64::from(is_overtaken);
        for _ in 0..1 + u32::from(is_doubled) {
            if self.queue.len() >= FRAMES_MAX || self.bytes + frame.len() > BYTES_MAX {
                self.counts.overflowed += 1;
                continue;
            }
            let takes_ns = (frame.len() as u64 * 8 * 1_000_000_000).checked_div(self.terms.rate_bits);
            self.sent_ns = takes_ns.map_or(now_ns, |takes_ns| self.sent_ns.max(now_ns) + takes_ns);
            let held_ns = if is_overtaken { OVERTAKEN_NS.max(self.terms.delay_ns) } else { 0 };
            self.number += 1;
            self.bytes += frame.len();
            self.queue.insert((self.sent_ns + self.terms.delay_ns + held_ns, self.number), frame.to_vec());
        }
    }

    /// The next frame that is due.
    pub(super) fn poll_frame(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let first = self.queue.first_entry().filter(|first| first.key().0 <= now_ns)?;
        let frame = first.remove();
        self.bytes -= frame.len();
        self.counts.given += 1;
        Some(frame)
    }

    /// When the next frame is due.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((due_ns, _), _)| *due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that come out of a lane, with the times, if so many come in, one each microsecond.
    fn through(terms: Terms, frames: u64) -> (Vec<(u64, u64)>, Counts) {
        let mut lane = Lane::new(terms, 0);
        let mut out = Vec::new();
        let mut now_ns = 0;
        let mut take = |lane: &mut Lane, until_ns: u64| {
            while let Some(due_ns) = lane.next_due().filter(|due_ns| *due_ns <= until_ns) {
                let frame = lane.poll_frame(due_ns).expect("it is due");
                out.push((due_ns, u64::from_le_bytes(frame[..8].try_into().unwrap())));
            }
        };
        for number in 0..frames {
            take(&mut lane, now_ns);
            let mut frame = vec![0; 125];
            frame[..8].copy_from_slice(&number.to_le_bytes());
            lane.handle_frame(now_ns, &frame);
            now_ns += 1000;
        }
        take(&mut lane, u64::MAX);
        (out, lane.counts())
    }

    #[test]
    fn lab_lane_without_terms_gives_every_frame_at_once_and_in_order() {
        let (out, counts) = through(Terms::default(), 100);
        assert!(out.iter().enumerate().all(|(i, frame)| *frame == (i as u64 * 1000, i as u64)));
        assert_eq!((counts.taken, counts.given), (100, 100));
    }

    #[test]
    fn lab_lane_loses_doubles_and_reorders_the_asked_share_by_its_seed() {
        let terms = Terms::default().loss(10.0).duplication(5.0).reordering(2.0).seed(7);
        let (out, counts) = through(terms, 10_000);
        assert!((800..1200).contains(&counts.lost), "{counts:?}");
        assert!((350..650).contains(&counts.doubled), "{counts:?}");
        assert!((120..280).contains(&counts.overtaken), "{counts:?}");
        assert_eq!(counts.given, counts.taken - counts.lost + counts.doubled);
        assert_eq!(out.len() as u64, counts.given);
        assert!(out.windows(2).any(|pair| pair[0].1 > pair[1].1), "some are overtaken");
        assert_eq!(through(terms, 10_000), (out.clone(), counts), "the same seed, the same luck");
        assert_ne!(through(terms.seed(8), 10_000).0, out);
    }

    #[test]
    fn lab_lane_keeps_delay_and_rate_and_bounds_its_queue() {
        let (out, _) = through(Terms::default().delay_us(50), 10);
        assert!(out.iter().all(|(due_ns, number)| *due_ns == number * 1000 + 50_000));
        // 125 bytes each microsecond are a gigabit a second.
        let (out, _) = through(Terms::default().rate_bits(100_000_000), 100);
        assert!(out.iter().all(|(due_ns, number)| *due_ns == (number + 1) * 10_000));
        let (out, counts) = through(Terms::default().delay_us(1_000_000), 3 * FRAMES_MAX as u64);
        assert_eq!((out.len(), counts.overflowed), (FRAMES_MAX, 2 * FRAMES_MAX as u64));
    }
}
