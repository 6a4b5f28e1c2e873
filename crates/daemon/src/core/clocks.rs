//! Time as the core is given it, and lengths of time that go from one machine to another.
//!
//! Two machines' clocks cannot be compared, and a clock may be set. So how long a job has run is counted by
//! [`Clocks::boot_ms`] (CLOCK_BOOTTIME, which nobody sets) where it is known, and said on a link as what it
//! came to: the other side counts on from there by its own.

use serde::{Deserialize, Serialize};

/// Readings of the clocks of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// In ms since 1970, as the machine is set.
    pub wall_ms: u64,
    /// In ms since the machine was started.
    pub boot_ms: u64,
}

impl From<u64> for Clocks {
    /// Of a machine that was started in 1970.
    fn from(wall_ms: u64) -> Self {
        Clocks { wall_ms, boot_ms: wall_ms }
    }
}

/// How long something has lasted, which may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elapsed {
    /// Up to [`Self::since_ms`], or in all.
    pub ms: u64,
    /// Boot time since which it goes on, by the clock of whoever has this; 0 on a link.
    pub since_ms: Option<u64>,
}

impl Elapsed {
    /// Begins, or goes on.
    pub fn start(&mut self, boot_ms: u64) {
        self.since_ms.get_or_insert(boot_ms);
    }

    /// Pauses.
    pub fn stop(&mut self, boot_ms: u64) {
        *self = Elapsed { ms: self.at(boot_ms), since_ms: None };
    }

    /// Time that has elapsed by then, in ms.
    #[must_use]
    pub fn at(&self, boot_ms: u64) -> u64 {
        self.ms.saturating_add(self.since_ms.map_or(0, |since_ms| boot_ms.saturating_sub(since_ms)))
    }

    /// As it goes over a link.
    #[must_use]
    pub fn sent(&self, boot_ms: u64) -> Self {
        Elapsed { ms: self.at(boot_ms), since_ms: self.since_ms.map(|_| 0) }
    }

    /// As it is for whoever has it from a link.
    #[must_use]
    pub fn received(&self, boot_ms: u64) -> Self {
        Elapsed { ms: self.ms, since_ms: self.since_ms.map(|_| boot_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_goes_on_by_the_clock_of_whoever_has_it() {
        let mut ran = Elapsed::default();
        assert_eq!(ran.at(500), 0);
        ran.start(1_000);
        ran.start(9_000);
        assert_eq!((ran.at(1_250), ran.at(3)), (250, 0));
        let there = ran.sent(1_300).received(70);
        assert_eq!((there.at(70), there.at(100)), (300, 330));
        ran.stop(1_400);
        assert_eq!((ran.at(9_999), ran.sent(9_999).received(5).at(77)), (400, 400));
        ran.start(2_000);
        assert_eq!(ran.at(2_001), 401);
    }
}
