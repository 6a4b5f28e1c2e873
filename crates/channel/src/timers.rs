//! Timers of a flow: acknowledgements that wait for a packet to ride on, and the question about an answer.

use crate::config::Config;

/// No timer is armed.
pub(crate) const NEVER: u64 = u64::MAX;

/// Answer of the other side that a flow waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No answer.
    Nothing,
    /// Acknowledgement of what is under way, overdue after this time without one.
    Acknowledgement { timeout_ns: u64 },
    /// Room, which the other side announces by itself.
    Room,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// When a waiting acknowledgement goes without a packet to ride on.
    ack_at: u64,
    /// The same for bulk.
    bulk_ack_at: u64,
    /// When to ask where the other side is.
    probe_at: u64,
    /// How long until it is asked again.
    probe_interval_ns: u64,
    /// Since the last progress the question was brought forward ([`Timers::ask_early`]).
    probes_early: bool,
    /// Thaws since the last progress.
    thaws: u8,
}

impl Timers {
    pub(crate) fn new(config: &Config) -> Self {
        Timers {
            ack_at: NEVER,
            bulk_ack_at: NEVER,
            probe_at: NEVER,
            probe_interval_ns: config.probe_ns.0,
            probes_early: false,
            thaws: 0,
        }
    }

    /// Notes that records were taken: they are acknowledged in a while, if no packet leaves before.
    #[inline]
    pub(crate) fn owe_ack(&mut self, now_ns: u64, config: &Config) {
        arm(&mut self.ack_at, now_ns + config.ack_delay_ns);
    }

    /// A packet leaves, which acknowledges all.
    #[inline]
    pub(crate) fn clear_ack(&mut self) {
        self.ack_at = NEVER;
    }

    /// The same as [`Timers::owe_ack`], of a bulk message.
    #[inline]
    pub(crate) fn owe_bulk_ack(&mut self, now_ns: u64, config: &Config) {
        arm(&mut self.bulk_ack_at, now_ns + config.ack_delay_ns);
    }

    /// Whether an acknowledgement is due; its timer is stopped.
    pub(crate) fn take_ack(&mut self, now_ns: u64) -> bool {
        take_due(&mut self.ack_at, now_ns)
    }

    /// The same, of bulk messages.
    pub(crate) fn take_bulk_ack(&mut self, now_ns: u64) -> bool {
        take_due(&mut self.bulk_ack_at, now_ns)
    }

    /// Whether the other side is to be asked.
    pub(crate) fn is_probe_due(&self, now_ns: u64) -> bool {
        self.probe_at <= now_ns
    }

    /// Notes that it is asked; where an answer is awaited still, it is asked again after twice the time.
    pub(crate) fn note_probe(&mut self, now_ns: u64, awaits: bool, config: &Config) {
        self.probe_at = if awaits { now_ns + self.probe_interval_ns } else { NEVER };
        self.probe_interval_ns = (2 * self.probe_interval_ns).min(config.probe_ns.1);
    }

    /// Data leave, whose answer is overdue at `at_ns`.
    #[inline]
    pub(crate) fn note_departure(&mut self, at_ns: impl FnOnce() -> u64) {
        if self.probe_at == NEVER {
            self.probe_at = at_ns();
        }
    }

    /// Brings the first question forward, once until there is progress.
    #[inline]
    pub(crate) fn ask_early(&mut self, at_ns: impl FnOnce() -> u64) {
        if !self.probes_early {
            self.probes_early = true;
            self.probe_at = self.probe_at.min(at_ns());
        }
    }

    /// Notes progress: the wait for the next begins.
    #[inline]
    pub(crate) fn note_progress(&mut self, now_ns: u64, wait: Wait, rtt_ns: u64, config: &Config) {
        self.thaws = 0;
        self.begin_wait(now_ns, wait, rtt_ns, config);
    }

    fn begin_wait(&mut self, now_ns: u64, wait: Wait, rtt_ns: u64, config: &Config) {
        self.probes_early = false;
        self.probe_interval_ns = config.probe_ns.0.max(rtt_ns).min(config.probe_ns.1);
        self.probe_at = match wait {
            Wait::Nothing => NEVER,
            Wait::Acknowledgement { timeout_ns } => now_ns + timeout_ns,
            Wait::Room => now_ns + self.probe_interval_ns,
        };
    }

    /// Begins all anew: the rank was frozen, or its clock jumped. The question about an answer is put off
    /// only if it is due by now, by what a switch may take at most, and by half as much at each thaw that
    /// follows without progress: slices may be shorter than a round trip on crowded cores, and what is lost
    /// would never be asked for.
    pub(crate) fn rearm(&mut self, now_ns: u64, wait: Wait, rtt_ns: u64, config: &Config) {
        for at in [&mut self.ack_at, &mut self.bulk_ack_at] {
            if *at != NEVER {
                *at = now_ns + config.ack_delay_ns;
            }
        }
        let due_at = self.probe_at.max(now_ns + (config.rto_ns_min >> self.thaws.min(63)));
        self.begin_wait(now_ns, wait, rtt_ns, config);
        if self.probe_at != NEVER {
            self.probe_at = self.probe_at.min(due_at);
        }
        self.thaws = self.thaws.saturating_add(1);
    }

    /// The next time at which one fires.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.ack_at.min(self.bulk_ack_at).min(self.probe_at)
    }
}

#[inline]
fn arm(timer: &mut u64, at_ns: u64) {
    if *timer == NEVER {
        *timer = at_ns;
    }
}

fn take_due(timer: &mut u64, now_ns: u64) -> bool {
    let is_due = *timer <= now_ns;
    if is_due {
        *timer = NEVER;
    }
    is_due
}
