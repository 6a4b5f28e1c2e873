//! Stops of a front end's process that come too late: it was asked to stand still with its job, which goes on
//! since. The report that asks for it lies in a socket, the SIGCONT is sent to the process. One that is given
//! no core in between comes to its stop when nobody continues it any more.
//!
//! ```text
//! asked --> resumed --> stops at most LATE_MS later: it is continued once more
//!                  \-> is seen to go on, or stops later: that is its user's doing
//! ```
//!
//! Called by the origin of a job; the clock is its caller's.

/// Time after which a stop is somebody else's doing, in ms since the job goes on.
const LATE_MS: u64 = 5_000;

/// State of a front end: whether it was asked to stop, and when it was continued since.
#[derive(Debug, Default)]
pub(super) struct LateStop {
    is_asked: bool,
    resumed_ms: Option<u64>,
}

impl LateStop {
    /// The front end is asked to stop with its job.
    pub(super) fn handle_asked(&mut self) {
        *self = LateStop { is_asked: true, resumed_ms: None };
    }

    /// The job goes on, and the front end's process has been continued.
    pub(super) fn handle_resumed(&mut self, now_ms: u64) {
        self.resumed_ms = std::mem::take(&mut self.is_asked).then_some(now_ms);
    }

    /// The process, which was seen to stand still, goes on.
    pub(super) fn handle_running(&mut self) {
        self.resumed_ms = None;
    }

    /// Whether the process, which stands still beside a job that does not, was asked for that before the job
    /// went on. True once.
    pub(super) fn take(&mut self, now_ms: u64) -> bool {
        self.resumed_ms.take().is_some_and(|resumed_ms| now_ms < resumed_ms + LATE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_stop_is_one_that_was_asked_for_before_the_job_went_on() {
        let mut stop = LateStop::default();
        assert!(!stop.take(0), "nobody has asked for it");
        stop.handle_resumed(5);
        assert!(!stop.take(6), "nor before this");
        stop.handle_asked();
        stop.handle_resumed(10);
        assert!(stop.take(11));
        assert!(!stop.take(12), "the next one is the user's");
    }

    #[test]
    fn late_stop_is_the_users_when_the_process_was_seen_to_go_on_or_long_after() {
        let mut stop = LateStop::default();
        stop.handle_asked();
        stop.handle_resumed(10);
        stop.handle_running();
        assert!(!stop.take(11));
        stop.handle_asked();
        stop.handle_resumed(20);
        assert!(!stop.take(20 + LATE_MS));
        stop.handle_asked();
        assert!(!stop.take(30), "the job stands still");
    }
}
