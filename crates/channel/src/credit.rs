//! Credit: how much of this rank's socket buffer each sender may fill. A quarter stays for
//! acknowledgements and other small packets; of the rest each silent peer keeps one datagram, and who has
//! sent lately shares what is left.

use crate::config::Config;
use crate::packet::CREDIT_UNIT_BYTES;

/// Senders are counted anew after this long.
const PERIOD_NS: u64 = 10_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Shares {
    bytes: u64,
    charge_max: u64,
    peers: u64,
    period: u64,
    /// Senders heard in the present period and in the one before.
    active: u32,
    active_before: u32,
    share: u16,
}

impl Shares {
    pub(crate) fn new(config: &Config, peers: usize) -> Self {
        let mut shares = Shares {
            bytes: u64::from(config.receive_buffer_bytes) / 4 * 3,
            charge_max: u64::from(config.charge_max()),
            peers: peers as u64,
            period: 1,
            active: 0,
            active_before: 0,
            share: 0,
        };
        shares.update();
        shares
    }

    /// Bytes that a sender may have under way before it has heard of us: the share of one among all.
    pub(crate) fn least_bytes(config: &Config, peers: usize) -> u32 {
        let share = config.receive_buffer_bytes / 4 * 3 / (peers.max(1) as u32);
        share.max(config.charge_max())
    }

    /// Data came from a sender last heard in period `active_in`, which is brought up to date.
    #[inline]
    pub(crate) fn note_active(&mut self, now_ns: u64, active_in: &mut u64) {
        // Periods are counted from 2, so that 0 is never the present or the last one.
        let period = now_ns / PERIOD_NS + 2;
        if period != self.period {
            self.active_before = if period == self.period + 1 { self.active } else { 0 };
            (self.period, self.active) = (period, 0);
            self.update();
        }
        if *active_in != period {
            *active_in = period;
            self.active += 1;
            if self.active > self.active_before {
                self.update();
            }
        }
    }

    fn update(&mut self) {
        let senders = u64::from(self.active.max(self.active_before).max(1));
        let kept = (self.peers.saturating_sub(senders) * self.charge_max).min(self.bytes / 2);
        let bytes = ((self.bytes - kept) / senders).max(self.charge_max);
        self.share = (bytes / u64::from(CREDIT_UNIT_BYTES)).min(u64::from(u16::MAX)) as u16;
    }

    /// Units of credit of each sender.
    #[inline]
    pub(crate) fn share(&self) -> u16 {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_that_is_unused_goes_to_active_senders() {
        let config = Config { receive_buffer_bytes: 4 << 20, ..Config::default() };
        let mut shares = Shares::new(&config, 31);
        let alone = u32::from(shares.share());
        let (mut a, mut b) = (0, 0);
        shares.note_active(0, &mut a);
        assert_eq!(u32::from(shares.share()), alone);
        shares.note_active(0, &mut b);
        let two = u32::from(shares.share());
        assert!(two < alone * 6 / 10 && two > alone * 4 / 10, "{alone} -> {two}");
        for period in 1..4 {
            shares.note_active(period * PERIOD_NS, &mut a);
        }
        assert_eq!(u32::from(shares.share()), alone);
        let all = u64::from(two) * 2 * u64::from(CREDIT_UNIT_BYTES);
        assert!(all <= 3 << 20, "two senders may fill {all} bytes");
    }

    #[test]
    fn credit_always_allows_one_datagram() {
        let config = Config { receive_buffer_bytes: 4096, ..Config::default() };
        let shares = Shares::new(&config, 500);
        assert!(u32::from(shares.share()) * CREDIT_UNIT_BYTES >= config.charge_max());
    }
}
