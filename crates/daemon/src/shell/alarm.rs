//! The daemon's alarm clock, a descriptor of the kernel's, and a bell that others ring. The runtime's own
//! timers wake a thread up to three times for one that is a second away, which is most of what a daemon
//! without jobs does.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Delay that is as good as none.
const LATE_MAX: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Alarm {
    clock: AsyncFd<OwnedFd>,
    /// When it rings; none: it has rung.
    set: Option<Instant>,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        #[allow(
            deprecated,
            reason = "it is unsound for what changes its descriptor: ours does not, and unsafe is not for this crate"
        )]
        let clock = AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Alarm { clock, set: None })
    }

    /// Returns after this time. May be dropped before, and waited for anew with another time.
    pub(super) async fn ring(&mut self, after: Duration) {
        let due = Instant::now() + after;
        let is_set = self.set.is_some_and(|set| set <= due + LATE_MAX && due <= set + LATE_MAX);
        if !is_set {
            self.set_to(after);
            self.set = Some(due);
        }
        // It can only fail when the runtime ends.
        while let Ok(mut ready) = self.clock.readable().await {
            let rung = rustix::io::read(&self.clock, &mut [0_u8; 8]);
            ready.clear_ready();
            if rung.is_ok() {
                break;
            }
        }
        self.set = None;
    }

    fn set_to(&self, after: Duration) {
        // Zero would be never.
        let after = after.max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.clock, TimerfdTimerFlags::empty(), &once)
            .expect("a time that the kernel takes");
    }
}

/// Bell that somebody else rings: an eventfd.
pub(super) struct Bell(AsyncFd<OwnedFd>);

impl Bell {
    pub(super) fn new(bell: BorrowedFd<'_>) -> io::Result<Self> {
        #[allow(
            deprecated,
            reason = "it is unsound for what changes its descriptor: ours does not, and unsafe is not for this crate"
        )]
        Ok(Bell(AsyncFd::new(bell.try_clone_to_owned()?)?))
    }

    /// Returns when it has been rung since the last time.
    pub(super) async fn ring(&self) {
        // It can only fail when the runtime ends.
        while let Ok(mut ready) = self.0.readable().await {
            let rung = rustix::io::read(&self.0, &mut [0_u8; 8]);
            ready.clear_ready();
            if rung.is_ok() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_fires_after_changed_times() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let mut alarm = Alarm::new().unwrap();
            alarm.ring(Duration::ZERO).await;
            let start = Instant::now();
            tokio::select! {
                biased;
                () = alarm.ring(Duration::from_secs(1000)) => panic!("it rings too early"),
                () = std::future::ready(()) => {}
            }
            alarm.ring(Duration::from_millis(20)).await;
            assert!(start.elapsed() >= Duration::from_millis(19));
            tokio::select! {
                biased;
                () = alarm.ring(Duration::from_millis(1)) => {}
                () = std::future::ready(()) => {}
            }
            // It has rung for nobody, unless this thread had no core for the millisecond.
            std::thread::sleep(Duration::from_millis(5));
            let start = Instant::now();
            alarm.ring(Duration::from_millis(30)).await;
            assert!(start.elapsed() >= Duration::from_millis(29));
        });
    }
}
