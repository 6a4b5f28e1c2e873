//! How much of a flow may be under way: the smaller of what the receiver's socket grants (credit) and of
//! a window that shrinks on loss and on rising delay. Stream and bulk of a flow share it. All amounts are
//! bytes of truesize, since that is what a kernel buffer counts.
//!
//! A little loss is not congestion: a round (one window's worth) that loses less than one in 32 does not
//! shrink the window, one that loses more shrinks it by as much as it lost, at most by half.

/// A round that loses more than one part in this many shrinks the window.
const LOSS_PARTS: u64 = 32;
/// A round trip is slow when even the round's fastest takes four times the best one and this much more.
const DELAY_NS: u64 = 500_000;
/// No answer takes longer in a network that works: a longer time is a clock that jumped.
const ROUND_TRIP_NS_MAX: u64 = 1_000_000_000;
/// No wait for an acknowledgement is longer.
const TIMEOUT_NS_MAX: u64 = 100_000_000;
/// No window is larger.
const WINDOW_BYTES_MAX: u32 = 1 << 24;
/// Longest datagrams in the smallest window: with fewer every loss would be a time-out, as nothing comes
/// behind it.
const STEPS_MIN: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    window: u32,
    slow_start_until: u32,
    /// Credit that the peer grants.
    pub credit: u32,
    step: u32,
    round_acked: u32,
    round_lost: u32,
    round_rtt_ns: u64,
    /// The window was what held the flow back in this round.
    limited: bool,
    rtt_ns: u64,
    rtt_deviation_ns: u64,
    rtt_best_ns: u64,
}

impl Window {
    /// `credit`: before the peer has said anything; `step`: charge of the longest datagram.
    pub(crate) fn new(credit: u32, step: u32) -> Self {
        Window {
            window: (16 * step).min(credit).max(STEPS_MIN * step),
            slow_start_until: WINDOW_BYTES_MAX,
            credit,
            step,
            round_acked: 0,
            round_lost: 0,
            round_rtt_ns: u64::MAX,
            limited: false,
            rtt_ns: 0,
            rtt_deviation_ns: 0,
            rtt_best_ns: u64::MAX,
        }
    }

    /// Whether a datagram of `charge` may follow `flight`. The first always may: without it nothing would
    /// ever be heard.
    #[inline]
    pub(crate) fn allows(&mut self, flight: u32, charge: u32) -> bool {
        if flight == 0 || flight + charge <= self.window.min(self.credit) {
            return true;
        }
        self.limited |= flight + charge > self.window;
        false
    }

    /// How many datagrams of `charge` may follow `flight`.
    #[inline]
    pub(crate) fn room(&mut self, flight: u32, charge: u32) -> u32 {
        let room = self.window.min(self.credit).saturating_sub(flight) / charge;
        if room == 0 {
            return u32::from(self.allows(flight, charge));
        }
        room
    }

    #[inline]
    pub(crate) fn acked(&mut self, charge: u32) {
        self.round_acked = self.round_acked.saturating_add(charge);
        if self.round_acked >= self.window {
            self.end_round();
        }
    }

    pub(crate) fn lost(&mut self, charge: u32) {
        self.round_lost = self.round_lost.saturating_add(charge);
        if self.round_acked.saturating_add(self.round_lost) >= self.window {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let all = u64::from(self.round_acked) + u64::from(self.round_lost);
        let lost = u64::from(self.round_lost);
        let slow = self.round_rtt_ns != u64::MAX
            && self.round_rtt_ns > self.rtt_best_ns.saturating_mul(4).saturating_add(DELAY_NS);
        if lost * LOSS_PARTS > all {
            let part = lost.min(all / 2).max(1);
            self.shrink((u64::from(self.window) * part / all) as u32);
        } else if slow {
            self.shrink(self.window / 8);
        } else if self.limited {
            let grown = if self.window < self.slow_start_until { self.window } else { 2 * self.step };
            self.window = self.window.saturating_add(grown).min(WINDOW_BYTES_MAX);
        }
        (self.round_acked, self.round_lost, self.round_rtt_ns, self.limited) = (0, 0, u64::MAX, false);
    }

    fn shrink(&mut self, by: u32) {
        self.window = (self.window - by).max(STEPS_MIN * self.step);
        self.slow_start_until = self.window;
    }

    /// A round trip was measured.
    pub(crate) fn round_trip(&mut self, ns: u64) {
        if ns > ROUND_TRIP_NS_MAX {
            return;
        }
        self.round_rtt_ns = self.round_rtt_ns.min(ns);
        // The best one is forgotten slowly: a route or a machine may have become slower for good.
        self.rtt_best_ns =
            if ns < self.rtt_best_ns { ns } else { self.rtt_best_ns + (ns - self.rtt_best_ns) / 1024 };
        if self.rtt_ns == 0 {
            (self.rtt_ns, self.rtt_deviation_ns) = (ns, ns / 2);
        } else {
            let off = self.rtt_ns.abs_diff(ns);
            self.rtt_deviation_ns = (3 * self.rtt_deviation_ns + off) / 4;
            self.rtt_ns = (7 * self.rtt_ns + ns) / 8;
        }
    }

    /// How long to wait for an acknowledgement.
    #[inline]
    pub(crate) fn timeout_ns(&self, least_ns: u64) -> u64 {
        (self.rtt_ns + 4 * self.rtt_deviation_ns).min(TIMEOUT_NS_MAX).max(least_ns)
    }

    /// After how long the answer to what was sent last is late.
    #[inline]
    pub(crate) fn overdue_ns(&self, least_ns: u64) -> u64 {
        match self.rtt_ns {
            0 => TIMEOUT_NS_MAX,
            rtt_ns => (2 * rtt_ns + self.rtt_deviation_ns).min(TIMEOUT_NS_MAX).max(least_ns),
        }
    }

    /// The smoothed round-trip time, 0 if none was measured.
    pub(crate) fn rtt_ns(&self) -> u64 {
        self.rtt_ns
    }

    /// The window.
    pub(crate) fn bytes(&self) -> u32 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(window: &mut Window, lost_in_1000: u32) {
        let bytes = window.bytes();
        assert!(!window.allows(bytes, 1));
        window.lost(bytes / 1000 * lost_in_1000);
        loop {
            window.acked(2304);
            if window.round_acked == 0 {
                return;
            }
        }
    }

    #[test]
    fn window_grows_tolerates_little_loss_and_shrinks_on_more() {
        let mut window = Window::new(1 << 24, 2304);
        let start = window.bytes();
        round(&mut window, 0);
        assert_eq!(window.bytes(), 2 * start);
        (0..4).for_each(|_| round(&mut window, 10));
        let before = window.bytes();
        assert!(before > 16 * start, "one per cent of loss held the window at {before}");
        round(&mut window, 250);
        let after = window.bytes();
        assert!(after < before * 7 / 8 && after > before / 2, "a quarter lost: {before} -> {after}");
        (0..40).for_each(|_| round(&mut window, 900));
        assert_eq!(window.bytes(), 8 * 2304);
    }

    #[test]
    fn window_shrinks_on_rising_delay() {
        let mut window = Window::new(1 << 24, 2304);
        window.round_trip(50_000);
        round(&mut window, 0);
        let before = window.bytes();
        window.round_trip(3_000_000);
        round(&mut window, 0);
        assert!(window.bytes() < before);
    }

    #[test]
    fn window_timer_survives_a_clock_that_jumps() {
        let mut window = Window::new(1 << 24, 2304);
        window.round_trip(50_000);
        window.round_trip(u64::MAX / 2);
        assert!(window.timeout_ns(0) < 1_000_000);
        (0..9).for_each(|_| window.round_trip(900_000_000));
        assert!(window.timeout_ns(0) <= 100_000_000);
    }

    #[test]
    fn credit_bounds_bytes_in_flight_but_never_the_first_datagram() {
        let mut window = Window::new(1000, 2304);
        assert!(window.allows(0, 2304) && !window.allows(2304, 832));
        assert_eq!((window.room(0, 2304), window.room(2304, 2304)), (1, 0));
    }
}
