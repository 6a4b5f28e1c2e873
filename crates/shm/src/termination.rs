//! Global termination of a message-driven job, as its ranks and their starter agree on it.
//!
//! A rank arms itself: a function of it is to run, once, when all ranks of the job wait and nothing can wake
//! them any more. Whoever judges the job orders it from the starters, and they signal their ranks.
//!
//! ```text
//! rank:     armed = n                    signalled == n -> function of the program -> served = n -> bell
//! starter:            all wait for ever -> signalled = n
//! ```
//!
//! | word | writer |
//! |---|---|
//! | `armed`, `served`, `thread` | the rank |
//! | `signalled` | the starter |
//!
//! `signalled` is copied from an `armed` that was seen with the wait of the rank, so a rank that has armed
//! itself anew meanwhile is not signalled for what was before. While `signalled` and `served` differ a
//! function of the rank is to run, or runs: the rank counts as one that runs.
//!
//! What if it stops right here: a starter that dies takes its job with it; a rank that stops before `served`
//! counts as one that runs for as long as it is there.

use crate::sync::{AtomicU32, Ordering};

/// The words of one rank, in its [`crate::report::Report`].
#[repr(C)]
#[derive(Debug)]
pub struct Termination {
    /// Number of the function that is to run; 0: none. Writer: the rank.
    armed: AtomicU32,
    /// The last number that was signalled. Writer: the starter.
    signalled: AtomicU32,
    /// The last number whose function has returned. Writer: the rank.
    served: AtomicU32,
    /// 1: a thread of the rank waits for `signalled`. Writer: the rank.
    thread: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Termination>() == 16);

impl Termination {
    /// Arms the rank with a number that it has not used before, or with 0 disarms it.
    pub fn arm(&self, number: u32) {
        self.armed.store(number, Ordering::Release);
    }

    /// The number that the rank is armed with; none: it is not, or its function has been ordered.
    pub fn armed(&self) -> Option<u32> {
        let armed = self.armed.load(Ordering::Acquire);
        (armed != 0 && armed != self.signalled.load(Ordering::Acquire)).then_some(armed)
    }

    /// Says that a thread of the rank serves these words from now on.
    pub fn note_thread(&self) {
        self.thread.store(1, Ordering::Release);
    }

    /// Whether a thread of the rank serves these words.
    pub fn has_thread(&self) -> bool {
        self.thread.load(Ordering::Acquire) != 0
    }

    /// Whether a function of the rank is to run, or runs.
    pub fn is_running(&self) -> bool {
        self.signalled.load(Ordering::Acquire) != self.served.load(Ordering::Acquire)
    }

    /// Says that the function of this number has returned.
    pub fn note_served(&self, number: u32) {
        self.served.store(number, Ordering::Release);
    }

    /// Waits until there is a call that has not been served; its number.
    #[cfg(not(loom))]
    pub fn wait(&self) -> u32 {
        loop {
            let signalled = self.signalled.load(Ordering::Acquire);
            if signalled != self.served.load(Ordering::Acquire) {
                return signalled;
            }
            crate::doorbell::futex::wait(&self.signalled, signalled, None);
        }
    }

    /// Signals what the rank was armed with, and wakes the thread that waits for it.
    #[cfg(not(loom))]
    pub(crate) fn signal(&self, number: u32) {
        if self.armed() == Some(number) {
            self.signalled.store(number, Ordering::Release);
            crate::doorbell::futex::wake_all(&self.signalled);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words() -> Termination {
        // SAFETY: all fields are integers, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn termination_is_signalled_once_per_number() {
        let words = words();
        assert_eq!((words.armed(), words.is_running()), (None, false));
        words.signal(1);
        assert!(!words.is_running(), "it is not armed");
        words.arm(1);
        assert_eq!(words.armed(), Some(1));
        words.signal(1);
        assert_eq!((words.armed(), words.is_running(), words.wait()), (None, true, 1));
        words.note_served(1);
        assert_eq!((words.armed(), words.is_running()), (None, false));
        words.signal(1);
        assert!(!words.is_running(), "it has been signalled");
    }

    #[test]
    fn termination_of_an_earlier_number_is_ignored() {
        let words = words();
        words.arm(1);
        words.arm(2);
        words.signal(1);
        assert_eq!((words.armed(), words.is_running()), (Some(2), false));
        words.arm(0);
        words.signal(2);
        assert_eq!((words.armed(), words.is_running()), (None, false));
    }

    #[test]
    fn termination_wakes_the_thread_that_waits() {
        let words = words();
        words.arm(7);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| words.wait());
            words.signal(7);
            assert_eq!(waits.join().expect("a thread"), 7);
        });
    }
}
