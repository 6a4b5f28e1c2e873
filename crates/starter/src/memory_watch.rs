//! Watch of a starter when all jobs of its user have used up their memory on the node, by cgroup version 1.
//!
//! There the kernel notifies every job of the user that it is about to kill a process, and then kills one. So
//! each starter looks for a while whether that was one of its own.

/// Time between two looks.
const LOOK_NS: u64 = 2_000_000;
/// For so long.
const LOOK_NS_MAX: u64 = 2_000_000_000;

/// The looks that are still to be taken.
#[derive(Debug)]
pub struct MemoryWatch {
    due_ns: u64,
    end_ns: u64,
}

impl MemoryWatch {
    /// The kernel has notified the job now.
    pub fn begin(now_ns: u64) -> Self {
        MemoryWatch { due_ns: now_ns, end_ns: now_ns + LOOK_NS_MAX }
    }

    /// When to look next.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Notes a look; false: that was the last one.
    pub fn goes_on(&mut self, now_ns: u64) -> bool {
        self.due_ns = now_ns + LOOK_NS;
        now_ns < self.end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_watch_looks_again_and_ends() {
        let mut watch = MemoryWatch::begin(5);
        assert_eq!(watch.due_ns(), 5);
        assert!(watch.goes_on(5));
        assert_eq!(watch.due_ns(), 5 + LOOK_NS);
        assert!(!watch.goes_on(5 + LOOK_NS_MAX));
    }
}
