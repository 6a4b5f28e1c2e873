//! Short time slices for the threads of a rank: woken by a message, a rank is to run at once, also where
//! others keep its core busy.
//!
//! A scheduler that gives each the same slice (EEVDF, Linux 6.6 and later) lets a thread that works finish
//! its own before one that wakes has its turn: 3 ms and more for each message, so that a round trip between
//! ranks takes 7 ms beside programs that compute. A thread with a shorter slice has its turn sooner, and no
//! more of the core: shares follow from the weight alone. Kernels before 6.12 know no slices of single
//! threads and ignore the wish.
//!
//! [`crate::rank::start`] calls [`ask`] once; threads and processes that the thread starts behind it inherit
//! the slice.

/// The shortest slice that the kernel gives.
const SLICE_NS: u64 = 100_000;
/// A flag of the thread that the kernel gives, and takes back: its children begin as usual ones.
const RESET_ON_FORK: u64 = 1;

/// `sched_attr` of `sched_getattr` and `sched_setattr`, in its first version.
#[repr(C)]
#[derive(Debug, Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SIZE: usize = size_of::<SchedulingAttributes>();
const _: () = assert!(SIZE == 48);

/// Asks for a short slice for the calling thread, which keeps its policy and its nice value. A thread in real
/// time, one that runs only on idle cores, and one that has a slice as short are left alone. Where the kernel
/// refuses, nothing changes.
pub(crate) fn ask() {
    let Some(found) = attributes() else { return };
    let has_slices = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&found.policy.cast_signed());
    let is_short = (1..=SLICE_NS).contains(&found.runtime_ns);
    if !has_slices || is_short {
        return;
    }
    let wanted = SchedulingAttributes {
        size: SIZE as u32,
        policy: found.policy,
        flags: found.flags & RESET_ON_FORK,
        nice: found.nice,
        runtime_ns: SLICE_NS,
        ..Default::default()
    };
    // SAFETY: the structure is as long as it says and lives for the call; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
}

/// Attributes of the calling thread.
fn attributes() -> Option<SchedulingAttributes> {
    let mut found = SchedulingAttributes::default();
    // SAFETY: the structure is valid for writing of so many bytes; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, SIZE, 0) };
    (result == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, so that no other test has its attributes.
    fn in_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().expect("the thread's assertions hold");
    }

    fn set_policy(policy: libc::c_int) {
        let parameter = libc::sched_param { sched_priority: 0 };
        // SAFETY: the structure lives for the call; 0 is the calling thread.
        assert_eq!(unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) }, 0);
    }

    #[test]
    fn slice_is_short_and_nothing_else_changes() {
        in_thread(|| {
            // SAFETY: no pointers; 0 is the calling thread.
            assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) }, 0);
            for policy in [libc::SCHED_OTHER, libc::SCHED_BATCH] {
                set_policy(policy);
                let before = attributes().expect("the kernel gives them");
                ask();
                let after = attributes().expect("the kernel gives them");
                assert_eq!((after.policy, after.nice, after.flags), (before.policy, 5, before.flags));
                // 0: a kernel that has no slices of single threads.
                let expected = if before.runtime_ns == 0 { 0 } else { SLICE_NS };
                assert_eq!(after.runtime_ns, expected, "{before:?}, {after:?}");
            }
        });
    }

    #[test]
    fn slice_of_a_thread_for_idle_cores_stays() {
        in_thread(|| {
            set_policy(libc::SCHED_IDLE);
            let before = attributes().expect("the kernel gives them");
            ask();
            let after = attributes().expect("the kernel gives them");
            assert_eq!((after.policy, after.runtime_ns), (before.policy, before.runtime_ns));
        });
    }
}
