//! Windows of time on a machine that several schedulers share.

/// Several schedulers that know nothing of each other's jobs share one machine by its clock: each switches
/// jobs in during its own windows only, and everybody off at their ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Which of the windows is ours, from 0.
    pub index: u32,
    /// How many schedulers there are.
    pub count: u32,
}

impl Window {
    /// How long a window is: the same for everybody.
    pub const NS: u64 = 100_000_000;

    pub(super) fn is_open(self, now_ns: u64) -> bool {
        now_ns / Self::NS % u64::from(self.count.max(1)) == u64::from(self.index)
    }

    /// When it opens or closes next.
    pub(super) fn change_ns(self, now_ns: u64) -> u64 {
        let (number, count) = (now_ns / Self::NS, u64::from(self.count.max(1)));
        let further = (u64::from(self.index) + count - number % count) % count;
        (number + further.max(1)) * Self::NS
    }
}
