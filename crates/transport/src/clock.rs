//! The clocks that stamps are taken by.
#![allow(unsafe_code)]

/// A time in nanoseconds.
pub(crate) fn ns_of(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for writing; these clocks are always there.
    unsafe { libc::clock_gettime(clock, &mut time) };
    ns_of(&time)
}

/// The clock of the calendar, by which the kernel says when datagrams came.
pub(crate) fn calendar_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// The monotonic clock.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}
