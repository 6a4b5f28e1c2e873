//! How many processes and threads a job may have on a node, where the keeper of the machine has not said it.

/// Part of what the kernel takes that one job may have.
const PART: u64 = 8;
/// No less, and no more: a job of 2,048 ranks with a few threads each fits in.
const BOUNDS: (u64, u64) = (1024, 16_384);

/// For a job of this machine.
#[must_use]
pub fn for_a_job() -> u64 {
    let read = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok();
    share(["pid_max", "threads-max"].into_iter().filter_map(read).min())
}

fn share(of_kernel: Option<u64>) -> u64 {
    of_kernel.map_or(BOUNDS.0, |most| most / PART).clamp(BOUNDS.0, BOUNDS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_limit_is_a_part_of_what_the_kernel_takes() {
        assert_eq!([Some(32_768), Some(4_194_304), Some(2048), None].map(share), [4096, 16_384, 1024, 1024]);
    }
}
