//! Signals of the user, and how a front end leaves its job alone.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tutti_protocol::wire::Kind;

use super::{End, Front, Keys, terminal};

/// A job that was asked to end has this time before it is killed, where the user has not said another one
/// (`--kill-after`); and so long a daemon has for a job that is left alone, and the next daemon to be there
/// where none can pass the request on.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Front {
    pub(super) fn handle_signals(&mut self) {
        while let Some((number, sender)) = self.signals.next_signal_from() {
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            if signal == Signal::TSTP {
                self.wants_stop = true;
                self.put(Kind::Suspend, 0, &[]);
            } else if signal == Signal::CONT {
                // Perhaps in the foreground again.
                self.keys.iter_mut().for_each(Keys::take);
                self.continued = Some(Instant::now());
                // The daemon continues us because the job was resumed. A request of ours for the same would
                // come later, and undo a suspend that came in between.
                if !self.links.iter().any(|link| link.is_daemon_of_pid(sender)) {
                    self.put(Kind::Resume, 0, &[]);
                }
            } else if signal == Signal::WINCH {
                // A daemon signals the ranks by itself.
                if let Some(size) = terminal::window() {
                    self.put(Kind::Window, size, &[]);
                }
                let starters = self.links.iter_mut().filter(|link| !link.is_daemon());
                starters.for_each(|link| link.put(Kind::Signal, number as u32, &[]));
            } else if signal == Signal::HUP && self.options.detach_on_hangup {
                self.detach();
            } else if signal == Signal::USR1 || signal == Signal::USR2 {
                self.put(Kind::Signal, number as u32, &[]);
            } else if self.end == End::Open {
                self.request_end(End::Requested(number), number);
            } else {
                self.kill(128 + number as u8);
            }
        }
    }

    /// The ranks get a signal that ends them, and what is left a while later is killed.
    pub(super) fn request_end(&mut self, end: End, signal: i32) {
        self.end = end;
        self.begin_grace();
        self.put(Kind::Resume, 0, &[]);
        self.put(Kind::Signal, signal as u32, &[]);
    }

    /// Time of a job that was asked to end; without a daemon no rank of it has heard that, and it begins with
    /// the next one.
    pub(super) fn begin_grace(&mut self) {
        let grace = if self.end == End::TimedOut { self.grace_at_limit() } else { self.kill_after() };
        let grace = grace.filter(|_| !self.is_without_daemon());
        self.deadline = Some(Instant::now() + grace.unwrap_or(TIMEOUT));
    }

    /// Time between such a signal and KILL, as the user has said it.
    pub(super) fn kill_after(&self) -> Option<Duration> {
        self.options.batch.kill_after()
    }

    /// We detach, the job continues.
    pub(super) fn detach(&mut self) {
        if self.end == End::Open {
            self.end = End::Detaching;
            self.stdio.discard();
            self.deadline = Some(Instant::now() + TIMEOUT);
            // A stopped job was stopped for our sake.
            self.put(Kind::Resume, 0, &[]);
            self.put(Kind::Detach, 0, &[]);
            if let (Some(origin), Some(job)) = (&self.origin, self.number) {
                origin.follow(job);
            }
        }
    }
}
