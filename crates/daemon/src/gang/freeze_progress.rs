//! Whether a job has been told to stand still, whether it does, and when somebody looks for that: the same
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
    /// Nobody waits for it.
    defer: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Running,
    /// It has been told to stand still and not been seen to.
    Requested,
    Confirmed,
}

impl FreezeProgress {
    /// It is told to, and looked at after so long; then twice as long each time.
    pub(super) fn request(&mut self, now_ns: u64, pause_ns: u64) {
        *self = FreezeProgress {
            state: State::Requested,
            requested_ns: now_ns,
            poll_ns: now_ns + pause_ns,
            pause_ns,
            defer: false,
        };
    }

    /// It may go on.
    pub(super) fn end(&mut self) {
        self.state = State::Running;
    }

    /// It has been seen to stand still.
    pub(super) fn confirm(&mut self) {
        self.state = State::Confirmed;
    }

    /// It has been looked at, and does not stand still yet.
    pub(super) fn put_off(&mut self, now_ns: u64) {
        if now_ns >= self.poll_ns {
            self.pause_ns = (self.pause_ns * 2).min(POLL_NS_MAX);
            self.poll_ns = now_ns + self.pause_ns;
        }
    }

    /// Nobody waits for it: it is looked at after so long, and nobody is woken by it.
    pub(super) fn defer(&mut self, now_ns: u64, pause_ns: u64) {
        self.defer = true;
        (self.pause_ns, self.poll_ns) = (pause_ns, now_ns + pause_ns);
    }

    /// It has been told to stand still and not been seen to.
    pub(super) fn is_requested(&self) -> bool {
        self.state == State::Requested
    }

    /// It has been seen to stand still.
    pub(super) fn is_confirmed(&self) -> bool {
        self.state == State::Confirmed
    }

    /// It has been told to stand still, and not to go on.
    pub(super) fn is_held(&self) -> bool {
        self.state != State::Running
    }

    /// It has been told to stand still, and nobody waits for it.
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
