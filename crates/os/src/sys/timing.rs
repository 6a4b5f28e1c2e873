//! Times of instructions and calls that safe Rust does not have.

use std::time::{Duration, Instant};

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
/// Lines that are fetched one after the other: few enough that their pages stay known to the processor.
#[cfg(target_arch = "x86_64")]
const LINES: usize = 64;

/// Nanoseconds until a line is here that no cache has, the least in this time; none where no instruction says
/// so.
#[cfg(target_arch = "x86_64")]
pub(crate) fn memory_line_ns(time: Duration) -> Option<f64> {
    use core::arch::x86_64::{_mm_clflush, _mm_mfence};

    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Line([usize; LINE_BYTES / size_of::<usize>()]);
    // Each line says which is next, in an order that no prefetcher follows; all come once before the first
    // comes again (a linear congruential sequence of full period).
    let lines: Vec<Line> = (0..LINES).map(|at| Line([(at * 5 + 37) % LINES; 8])).collect();
    let mut best: Option<f64> = None;
    let begun = Instant::now();
    while best.is_none() || begun.elapsed() < time {
        for line in &lines {
            // SAFETY: every x86-64 processor knows the instruction; it changes no data.
            unsafe { _mm_clflush((&raw const *line).cast()) };
        }
        // SAFETY: as above.
        unsafe { _mm_mfence() };
        let begin = Instant::now();
        let mut at = 0;
        for _ in 0..LINES {
            at = std::hint::black_box(&lines)[at].0[0];
        }
        std::hint::black_box(at);
        let ns = begin.elapsed().as_nanos() as f64 / LINES as f64;
        best = Some(best.map_or(ns, |best| best.min(ns)));
    }
    best
}

/// Nanoseconds until a line is here that no cache has, the least in this time; none where no instruction says
/// so.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn memory_line_ns(_time: Duration) -> Option<f64> {
    None
}

/// Nanoseconds of a call of the kernel that copies so many bytes of this process, the least in this time;
/// none where it refuses.
pub(crate) fn kernel_copy_ns(bytes: usize, time: Duration) -> Option<f64> {
    let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let there = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: bytes };
    let here = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: bytes };
    let mut best: Option<f64> = None;
    let begun = Instant::now();
    while best.is_none() || begun.elapsed() < time {
        let begin = Instant::now();
        // SAFETY: both parts are memory of this process with so many bytes; the second is borrowed by nobody.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
        if usize::try_from(read) != Ok(bytes) {
            return None;
        }
        let ns = begin.elapsed().as_nanos() as f64;
        best = Some(best.map_or(ns, |best| best.min(ns)));
    }
    best
}
