//! Use of the children of this process, and their children that they waited for.

/// Processor time in us, and the resident memory of the largest of them in bytes, of those that are dead and
/// have been waited for.
pub fn used_by_children() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is written as a whole, or stays the zeros that it is.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let us = |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    (us(usage.ru_utime) + us(usage.ru_stime), usage.ru_maxrss.unsigned_abs() * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn used_by_children_grows_when_one_has_ended() {
        let (before_us, _) = super::used_by_children();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        std::process::Command::new("sh").args(["-c", script]).status().unwrap();
        let (after_us, largest_bytes) = super::used_by_children();
        assert!(after_us > before_us && largest_bytes > 100 << 10, "{before_us} {after_us} {largest_bytes}");
    }
}
