//! Which way is faster for a large message when both can be gone: the bulk ring or copies by both ranks.
//!
//! The ring wins while a cache line travels quickly between the two cores, the copies when it does not, and a
//! virtual machine changes between the two within minutes. So a rank measures what it does, per peer and
//! class of sizes: messages that it takes from the ring, pieces that it copies. Now and then the slower way
//! is tried: the more seldom, the more that would cost.

use std::time::Duration;

/// A way for large messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the bulk ring, both ranks at work.
    Ring,
    /// By both ranks from memory to memory.
    SingleCopy,
}

/// Classes of sizes: up to 64 KiB, 256 KiB, 1 MiB, and above.
const CLASSES: usize = 4;
/// Every so many messages the slower way is tried again: it may be the faster one by now.
const MESSAGES_PER_TRIAL: u32 = 64;
/// Every so many if it was last found to be slower by half or more.
const MESSAGES_PER_COSTLY_TRIAL: u32 = 512;
/// Messages that go through the ring before any judgement, in turn with copies.
const FIRST_TRIALS: u32 = 6;
/// Picoseconds per byte of copies by two ranks before the first measurement: they vary little.
const COPY_COST: u64 = 110;

/// Measurements of one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    classes: [Class; CLASSES],
}

#[derive(Clone, Copy, Debug)]
struct Class {
    messages: u32,
    /// Picoseconds per byte: of the ring (0 before the first measurement), of the copies.
    costs: [u64; 2],
    /// The way in use has become slower at a stroke: perhaps the other one has not.
    suspicious: bool,
}

impl Default for Class {
    fn default() -> Self {
        Class { messages: 0, costs: [0, COPY_COST], suspicious: false }
    }
}

impl Pace {
    /// The way for the next message of so many bytes, whose time will be learnt.
    pub(super) fn choose(&mut self, bytes: usize) -> Way {
        let class = &mut self.classes[class(bytes)];
        class.messages = class.messages.wrapping_add(1);
        let [ring, copy] = class.costs;
        if ring == 0 && class.messages <= FIRST_TRIALS && class.messages % 2 == 1 {
            return Way::Ring;
        }
        let costly = ring.max(copy) > ring.min(copy) * 3 / 2;
        let period = if costly { MESSAGES_PER_COSTLY_TRIAL } else { MESSAGES_PER_TRIAL };
        let tried = std::mem::take(&mut class.suspicious) || class.messages.is_multiple_of(period);
        if (class.best() == Way::Ring) != tried { Way::Ring } else { Way::SingleCopy }
    }

    /// The way that has been faster, for a message whose time will not be learnt.
    pub(super) fn best(&self, bytes: usize) -> Way {
        self.classes[class(bytes)].best()
    }

    /// A message of so many bytes took, or by one of two ranks would have taken, so long.
    pub(super) fn learn(&mut self, way: Way, bytes: usize, took: Duration) {
        let class = &mut self.classes[class(bytes)];
        let sample = ((took.as_nanos() as u64).saturating_mul(1000) / bytes.max(1) as u64).max(1);
        let cost = class.costs[way as usize];
        // A rank may be off its core in the middle of a message: one sample must not count for more than
        // twice what is known. A message that took much less than others is believed at once: nothing makes
        // it seem faster than it was.
        let known = if cost == 0 || sample < cost / 2 { sample } else { cost };
        class.costs[way as usize] = (known * 3 + sample.min(known * 2)).div_ceil(4);
        let other = class.costs[1 - way as usize];
        class.suspicious = cost <= other && sample > cost * 2 && sample > other;
    }
}

impl Class {
    fn best(&self) -> Way {
        let [ring, copy] = self.costs;
        if ring != 0 && ring <= copy { Way::Ring } else { Way::SingleCopy }
    }
}

fn class(bytes: usize) -> usize {
    const UP_TO: [usize; CLASSES - 1] = [64 << 10, 256 << 10, 1 << 20];
    UP_TO.iter().position(|&limit| bytes <= limit).unwrap_or(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_selects_the_faster_copy() {
        let mut pace = Pace::default();
        let mut run = |messages: u32, ring_ns: u64, copy_ns: u64| {
            let mut rings = 0;
            for _ in 0..messages {
                let way = pace.choose(100_000);
                let took = if way == Way::Ring { ring_ns } else { copy_ns };
                rings += u32::from(way == Way::Ring);
                pace.learn(way, 100_000, Duration::from_nanos(took));
            }
            rings
        };
        assert!(run(1000, 5_000, 10_000) > 990, "the ring is faster");
        assert!(run(20, 50_000, 10_000) < 18, "the ring has become slow at a stroke");
        run(100, 50_000, 10_000);
        assert!(run(1000, 50_000, 10_000) < 5, "the copies have become faster");
        run(2000, 5_000, 10_000);
        assert!(run(1000, 5_000, 10_000) > 990, "the ring is faster again");
    }
}
