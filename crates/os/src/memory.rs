//! The memory that a node has for jobs.

/// Kept back for the kernel, daemons and whatever else runs there, at least.
const RESERVE_BYTES: u64 = 256 << 20;

/// The machine's memory less a reserve of a sixteenth of it, at least 256 MiB; 0: it cannot be read.
pub fn for_jobs() -> u64 {
    std::fs::read_to_string("/proc/meminfo").map_or(0, |text| less_reserve(&text))
}

/// All of the machine's memory; 0: it cannot be read.
pub fn of_machine() -> u64 {
    std::fs::read_to_string("/proc/meminfo").map_or(0, |text| total(&text))
}

fn total(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn less_reserve(meminfo: &str) -> u64 {
    let total_bytes = total(meminfo);
    // A machine so small as the reserve is not one on which nothing may run.
    total_bytes.saturating_sub((total_bytes / 16).max(RESERVE_BYTES)).max(total_bytes / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_jobs_leaves_a_reserve() {
        assert_eq!(less_reserve("MemTotal:       16777216 kB\nMemFree: 1 kB\n"), 15 << 30);
        assert_eq!(less_reserve("MemTotal:       1048576 kB\n"), 768 << 20);
        assert_eq!(less_reserve("MemTotal:       262144 kB\n"), 128 << 20);
        assert_eq!(less_reserve(""), 0);
    }
}
