//! Costs of operations: by default as measured on a 2-core EPYC virtual machine, Linux 6.18, switch thread
//! at real-time priority.

use tutti_testkit::Random;

/// Times in nanoseconds; pairs are the least and the most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A message given to the kernel; several go out one after the other.
    pub send_ns: u64,
    /// Way of a message. With the wake-up it makes the 88 us of a broadcast and barrier over four daemons.
    pub wire_ns: u64,
    /// The wake-up of the switch thread (real-time: p99 72 us).
    pub wake_ns: (u64, u64),
    /// One wake-up in a hundred takes this.
    pub wake_slow_ns: u64,
    /// A write to a freezer.
    pub write_ns: (u64, u64),
    /// From the write to `frozen 1`: two spinning ranks to eight sleeping ones.
    pub freeze_ns: (u64, u64),
    /// From the write to the second rank's first instruction.
    pub thaw_ns: (u64, u64),
    /// To ask a job's starter something and to hear the answer.
    pub save_ns: (u64, u64),
    /// To ask the starters of other nodes what their ranks have taken; when they do not answer, again as long
    /// after that, then later and later.
    pub test_ns: (u64, u64),
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            send_ns: 5_000,
            wire_ns: 15_000,
            wake_ns: (5_000, 20_000),
            wake_slow_ns: 72_000,
            write_ns: (10_000, 30_000),
            freeze_ns: (43_000, 113_000),
            thaw_ns: (67_000, 87_000),
            save_ns: (100_000, 400_000),
            test_ns: (200_000, 1_000_000),
        }
    }
}

impl Costs {
    /// How long a message takes once it has left.
    pub(super) fn hop_ns(&self, random: &mut Random) -> u64 {
        let wake_ns = if random.chance(10) { self.wake_slow_ns } else { random.between(self.wake_ns) };
        self.wire_ns + wake_ns
    }
}
