//! Whether a job has been told to stand still, whether it does, and when somebody looks for that: the same for who is frozen by a cgroup
//! (`freezer`) and who is stopped by signals (`stopper`).

/// Between two looks, at most.
const LOOK_NS_MAX: u64 = 20_000_000;

#[derive(Debug, Default)]
pub(super) struct Standstill {
    state: State,
    /// When it was last told to.
    asked_ns: u64,
    look_ns: u64,
    pause_ns: u64,
    /// Nobody waits for it.
    calm: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Runs,
    /// It has been told to stand still and not been seen to.
    Asked,
    Still,
}

impl Standstill {
    /// It is told to, and looked at after so long; then twice as long each time.
    pub(super) fn ask(&mut self, now_ns: u64, pause_ns: u64) {
        *self = Standstill {
            state: State::Asked,
            asked_ns: now_ns,
            look_ns: now_ns + pause_ns,
            pause_ns,
            calm: false,
        };
    }

    /// It may go on.
    pub(super) fn end(&mut self) {
        self.state = State::Runs;
    }

    /// It has been seen to stand still.
    pub(super) fn confirm(&mut self) {
        self.state = State::Still;
    }

    /// It has been looked at, and does not stand still yet.
    pub(super) fn put_off(&mut self, now_ns: u64) {
        if now_ns >= self.look_ns {
            self.pause_ns = (self.pause_ns * 2).min(LOOK_NS_MAX);
            self.look_ns = now_ns + self.pause_ns;
        }
    }

    /// Nobody waits for it: it is looked at after so long, and nobody is woken by it.
    pub(super) fn calm(&mut self, now_ns: u64, pause_ns: u64) {
        self.calm = true;
        (self.pause_ns, self.look_ns) = (pause_ns, now_ns + pause_ns);
    }

    /// It has been told to stand still and not been seen to.
    pub(super) fn is_asked(&self) -> bool {
        self.state == State::Asked
    }

    /// It has been seen to stand still.
    pub(super) fn is_confirmed(&self) -> bool {
        self.state == State::Still
    }

    /// It has been told to stand still, and not to go on.
    pub(super) fn is_still(&self) -> bool {
        self.state != State::Runs
    }

    /// It has been told to stand still, and nobody waits for it.
    pub(super) fn is_calm(&self) -> bool {
        self.calm
    }

    /// When it was last told to.
    pub(super) fn asked_ns(&self) -> u64 {
        self.asked_ns
    }

    /// When to look again.
    pub(super) fn look_ns(&self) -> u64 {
        self.look_ns
    }
}
