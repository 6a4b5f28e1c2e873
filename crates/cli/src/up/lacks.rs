//! Lacks of a container or pod that jobs would feel: a line each, said when its daemon is started.

use std::path::Path;

/// Smaller ones are full soon.
const SHARED_BYTES_MIN: u64 = 256 << 20;

/// Lines about this host; none: nothing is missing.
pub(super) fn of_this_host() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let ability = tutti_os::cgroup::ability();
    let shared = rustix::fs::statvfs("/dev/shm").map(|found| found.f_blocks * found.f_frsize).ok();
    let own = read("/proc/self/cgroup");
    let quota =
        own_quota(&own, &read).or_else(|| quota_of_version1(&read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")));
    let scope = read("/proc/sys/kernel/yama/ptrace_scope");
    [
        (!ability.freezes).then(|| "no cgroups can be made: jobs are stopped by signals".to_owned()),
        quota.map(|quota| {
            format!("a limit of processor time ({quota}) stops single ranks of a job in the middle: give whole processors (a Guaranteed pod) and no limit")
        }),
        (scope.trim().parse().is_ok_and(|scope: u32| scope >= 2))
            .then(|| "no process may read another one's memory: long messages are copied twice".to_owned()),
        shared.filter(|bytes| *bytes < SHARED_BYTES_MIN && Path::new("/dev/shm").is_dir()).map(|bytes| {
            format!("/dev/shm has {} MiB: programs of other MPIs need more (an emptyDir of medium Memory)", bytes >> 20)
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The limit of the cgroup of version 2, as it has it: `50000 100000`.
fn own_quota(memberships: &str, read: &impl Fn(&str) -> String) -> Option<String> {
    let place = memberships.lines().find_map(|line| line.strip_prefix("0::"))?;
    let found = [format!("/sys/fs/cgroup{place}/cpu.max"), "/sys/fs/cgroup/cpu.max".into()];
    let text = found.iter().map(|path| read(path)).find(|text| !text.is_empty())?;
    let text = text.trim();
    (!text.starts_with("max")).then(|| format!("cpu.max {text}"))
}

fn quota_of_version1(text: &str) -> Option<String> {
    let quota: i64 = text.trim().parse().ok()?;
    (quota > 0).then(|| format!("cpu.cfs_quota_us {quota}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_of_a_pod_is_named() {
        let with = |text: &'static str| {
            move |path: &str| if path == "/sys/fs/cgroup/cpu.max" { text.into() } else { String::new() }
        };
        assert_eq!(own_quota("0::/\n", &with("50000 100000\n")).as_deref(), Some("cpu.max 50000 100000"));
        assert_eq!(own_quota("0::/\n", &with("max 100000\n")), None);
        assert_eq!(own_quota("3:cpu:/x\n", &with("50000 100000\n")), None);
        assert_eq!(quota_of_version1("200000\n").as_deref(), Some("cpu.cfs_quota_us 200000"));
        assert_eq!(quota_of_version1("-1\n"), None);
    }
}
