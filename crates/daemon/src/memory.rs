//! The memory that a node has for jobs.

use tutti_sched::Bytes;

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

/// An amount as users write it, as for Slurm's --mem: K, M, G or T behind the number (KiB and KB are the same); M if there is none.
///
/// # Errors
/// One line for the user.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not an amount of memory: a number with K, M, G or T behind it, such as 512M or 1.5G"
        )
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let shift = match text[digits..].to_ascii_uppercase().as_str() {
        "K" | "KB" | "KIB" => 10,
        "" | "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let bytes = number * (1_u64 << shift) as f64;
    if (1.0..9e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// The same as people read it.
pub fn text(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_size_is_parsed_as_in_slurm() {
        for (text, bytes) in [
            ("512", 512 << 20),
            ("1K", 1 << 10),
            ("1.5G", 3 << 29),
            ("2g", 2 << 30),
            ("2GiB", 2 << 30),
            ("2GB", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "5B", "-1G", "1X", "1.2.3G", "0", "1 G", "99999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_for_jobs_leaves_a_reserve() {
        assert_eq!(less_reserve("MemTotal:       16777216 kB\nMemFree: 1 kB\n"), 15 << 30);
        assert_eq!(less_reserve("MemTotal:       1048576 kB\n"), 768 << 20);
        assert_eq!(less_reserve("MemTotal:       262144 kB\n"), 128 << 20);
        assert_eq!(less_reserve(""), 0);
    }
}
