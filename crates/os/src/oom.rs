//! Whom the kernel kills for want of memory, by `/proc/self/oom_score_adj`.
//!
//! A user may have many processes, each smaller than the daemon that serves everybody: by size alone the
//! kernel would kill the daemon first. The daemon of root asks to be among the last. What it starts does not
//! get that from it: a job has what its user's session has (`sys::session`), everything else what the daemon
//! had before.

use std::sync::atomic::{AtomicI32, Ordering};

const FILE: &str = "/proc/self/oom_score_adj";
/// Only the kernel's own choices of what must live go before it.
const PROTECTED: i32 = -900;

/// Score of this process before it was protected.
static BEFORE: AtomicI32 = AtomicI32::new(0);

/// Makes this process one of the last that are killed. Where the kernel does not let us, all stays as it is.
pub fn protect_from_oom() {
    let Some(before) = score().filter(|before| *before > PROTECTED) else { return };
    if std::fs::write(FILE, PROTECTED.to_string()).is_ok() {
        BEFORE.store(before, Ordering::Relaxed);
    }
}

/// Score that a child without a session of its own is to have; none: it has it.
pub fn score_of_children() -> Option<i32> {
    let before = BEFORE.load(Ordering::Relaxed);
    (score().is_some_and(|now| now < before)).then_some(before)
}

/// Gives up what a protected parent has left us, before this process becomes a user's: root alone can do so
/// for good.
pub fn give_up_protection() {
    if score().is_some_and(|score| score < 0) {
        let _ = std::fs::write(FILE, "0");
    }
}

fn score() -> Option<i32> {
    std::fs::read_to_string(FILE).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_is_as_the_kernel_lets_us_and_children_do_not_have_it() {
        let before = score().expect("the kernel has a score");
        protect_from_oom();
        match score_of_children() {
            Some(children) => assert_eq!((score(), children), (Some(PROTECTED), before)),
            None => assert_eq!(score(), Some(before), "the kernel lets only some of root's processes"),
        }
        give_up_protection();
        assert!(score().is_some_and(|score| score >= before.min(0)));
    }
}
