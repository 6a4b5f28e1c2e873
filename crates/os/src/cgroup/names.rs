//! Names of cgroups.

/// The cgroup inside a job's in which its processes are. The starter stops this one, when the job is
/// suspended; the daemon freezes the one around it, when it is not the job's turn. So neither undoes what the
/// other did: the kernel lets the processes run only when both are thawed.
pub const INNER: &str = "ranks";

/// Beginning of the name of a part.
pub(super) const PART: &str = "tutti-part-";

/// Beginning of the name of the cgroup of a user's jobs.
pub(super) const USER: &str = "tutti-user-";

/// Text for the names of what belongs to one part of a job: its number, and its node if there are several.
pub fn part_name(job: u64, node: Option<u32>) -> String {
    node.map_or_else(|| format!("{job:016x}"), |node| format!("{job:016x}-{node}"))
}

/// The cgroup of a starter's part of a job; `name` is [`part_name`].
pub fn name(name: &str) -> String {
    format!("tutti-job-{name}")
}
