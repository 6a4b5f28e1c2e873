//! Which way is faster for a large message when both can be gone: the bulk ring or a single copy.
//!
//! The ring wins while a cache line travels quickly between the two cores, the single copy when it does not, and a virtual
//! machine changes between the two within minutes. So the receiver measures what it does, per peer and class of sizes, and now
//! and then tries the other way.

use std::time::Duration;

/// A way for large messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the bulk ring, both ranks at work.
    Ring,
    /// By the receiver from the sender's memory.
    SingleCopy,
}

/// Classes of sizes: up to 64 KiB, 256 KiB, 1 MiB, and above.
const CLASSES: usize = 4;
/// Every so many messages the slower way is tried again: it may be the faster one by now.
const MESSAGES_PER_TRIAL: u32 = 64;
/// Messages of each way before any judgement.
const FIRST_TRIALS: u32 = 4;

/// What was measured of one peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    classes: [Class; CLASSES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    messages: u32,
    /// Picoseconds per byte: of the ring, of the single copy; 0 before the first measurement.
    costs: [u64; 2],
}

impl Pace {
    /// The way for the next message of so many bytes.
    pub fn choose(&mut self, bytes: usize) -> Way {
        let class = &mut self.classes[class(bytes)];
        class.messages = class.messages.wrapping_add(1);
        let [ring, copy] = class.costs;
        if class.messages <= FIRST_TRIALS || ring == 0 || copy == 0 {
            return if class.messages % 2 == 1 { Way::Ring } else { Way::SingleCopy };
        }
        let ring_is_due = (ring <= copy) != class.messages.is_multiple_of(MESSAGES_PER_TRIAL);
        if ring_is_due { Way::Ring } else { Way::SingleCopy }
    }

    /// A message of so many bytes took so long.
    pub fn learn(&mut self, way: Way, bytes: usize, took: Duration) {
        let cost = &mut self.classes[class(bytes)].costs[way as usize];
        let sample = ((took.as_nanos() as u64).saturating_mul(1000) / bytes.max(1) as u64).max(1);
        // A rank may be off its core in the middle of a message: one sample must not count for more than twice what is known.
        let known = if *cost == 0 { sample } else { *cost };
        *cost = (known * 3 + sample.min(known * 2)).div_ceil(4);
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
    fn the_faster_way_is_taken_and_a_change_is_noticed() {
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
        assert!(run(1000, 5_000, 10_000) > 970, "the ring is faster");
        run(1000, 50_000, 10_000);
        assert!(run(1000, 50_000, 10_000) < 30, "the single copy has become faster");
    }
}
