//! A daemon that was stopped cannot report it; its state is polled.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tutti_os::stat::Stat;

/// Between two polls, and after how many of them that find it stopped the user gets a line.
const PAUSE: Duration = Duration::from_millis(2500);
const STOPPED: u32 = 2;

/// The daemon at the other end of a socket.
#[derive(Debug)]
pub struct Watch {
    daemon: Pid,
    next: Instant,
    /// Looks that found it stopped since it last ran.
    stopped: u32,
}

impl Watch {
    /// None: the kernel does not tell its pid.
    pub fn new(socket: impl AsFd) -> Option<Self> {
        let peer = rustix::net::sockopt::socket_peercred(socket).ok()?;
        Some(Watch { daemon: peer.pid, next: Instant::now() + PAUSE, stopped: 0 })
    }

    /// When it is looked at.
    pub fn wake_at(&self) -> Instant {
        self.next
    }

    /// Looks, if it is time. Its pid, once whenever it is found stopped for good.
    pub fn handle_time(&mut self, now: Instant) -> Option<std::num::NonZeroI32> {
        if now < self.next {
            return None;
        }
        self.next = now + PAUSE;
        let is_stopped = Stat::of(self.daemon).is_some_and(|stat| stat.is_stopped());
        self.stopped = if is_stopped { self.stopped.saturating_add(1) } else { 0 };
        (self.stopped == STOPPED).then(|| self.daemon.as_raw_nonzero())
    }
}
