//! Whether a job has been ordered to stand still, whether it does, and when somebody looks for that: the same
//! for who is frozen by a cgroup (`freezer`) and who is stopped by signals (`stopper`).

/// Between two looks, at most.
const POLL_NS_MAX: u64 = 20_000_000;

#[derive(Debug, Default)]
pub(super) struct FreezeProgress {
    state: State,
    /// When it was last told to.
    requested_ns: u64,
    poll_ns: u64,
    pause_ns: u64,
    /// Whether nobody waits for the job to stand still.
    defer: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    /// Told to stand still, and not yet seen to.
    Requested,
    Confirmed,
}

impl FreezeProgress {
    /// Notes that the job is ordered to stand still, and looked at after so long; then twice as long each
    /// time.
    pub(super) fn request(&mut self, now_ns: u64, pause_ns: u64) {
        *self = FreezeProgress {
            state: State::Requested,
            requested_ns: now_ns,
            poll_ns: now_ns + pause_ns,
            pause_ns,
            defer: false,
        };
    }

    /// Notes that the job may go on.
    pub(super) fn end(&mut self) {
        self.state = State::Running;
    }

    /// Notes that the job has been seen to stand still.
    pub(super) fn confirm(&mut self) {
        self.state = State::Confirmed;
    }

    /// Puts off the next look, since the job has been looked at and does not stand still yet.
    pub(super) fn put_off(&mut self, now_ns: u64) {
        if now_ns >= self.poll_ns {
            self.pause_ns = (self.pause_ns * 2).min(POLL_NS_MAX);
            self.poll_ns = now_ns + self.pause_ns;
        }
    }

    /// Puts off the look, since nobody waits for it: the job is looked at after so long, and nobody is woken
    /// by it.
    pub(super) fn defer(&mut self, now_ns: u64, pause_ns: u64) {
        self.defer = true;
        (self.pause_ns, self.poll_ns) = (pause_ns, now_ns + pause_ns);
    }

    /// Whether the job has been ordered to stand still and not been seen to.
    pub(super) fn is_requested(&self) -> bool {
        self.state == State::Requested
    }

    /// Whether the job has been seen to stand still.
    pub(super) fn is_confirmed(&self) -> bool {
        self.state == State::Confirmed
    }

    /// Whether the job has been ordered to stand still, and not to go on.
    pub(super) fn is_held(&self) -> bool {
        self.state != State::Running
    }

    /// Whether the job has been ordered to stand still, and nobody waits for it.
    pub(super) fn is_deferred(&self) -> bool {
        self.defer
    }

    /// When it was last told to.
    pub(super) fn requested_ns(&self) -> u64 {
        self.requested_ns
    }

    /// When to look again.
    pub(super) fn poll_ns(&self) -> u64 {
        self.poll_ns
    }
}
