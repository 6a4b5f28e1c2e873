//! Sums and differences of addresses, and the clock.

use crate::abi::MPI_Aint;

/// `base` moved by `disp` bytes.
#[inline]
pub unsafe fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// The number of bytes from `addr2` to `addr1`.
#[inline]
pub unsafe fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

/// Seconds since a moment in the past. The clock goes on while the process is stopped.
#[inline]
pub unsafe fn MPI_Wtime() -> f64 {
    let now = monotonic();
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The resolution of MPI_Wtime in seconds.
#[inline]
pub unsafe fn MPI_Wtick() -> f64 {
    1e-9
}

fn monotonic() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result; CLOCK_MONOTONIC exists on every Linux.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    assert_eq!(result, 0, "the kernel has no monotonic clock");
    now
}
