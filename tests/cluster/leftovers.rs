//! Holdings of daemons while no job is under way, and leftovers when they are gone: descriptors, memory,
//! network namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rustix::process::Pid;

use crate::Cluster;
use crate::cluster::net_of;
use crate::harness::await_that;

/// Holdings of a daemon.
#[derive(Debug)]
pub struct Held {
    /// Targets of its descriptors.
    descriptors: Vec<String>,
    /// Memory of jobs that it has mapped or open: of each job that takes turns the first page of its segment.
    segments: usize,
    /// Pages on which it tells jobs of their turns: mapped, not open.
    pages: usize,
    /// In KiB.
    pub resident: u64,
}

impl Held {
    /// Counts what this process holds now; nothing if it is dead.
    pub fn by(pid: Pid) -> Self {
        let place = format!("/proc/{}", pid.as_raw_nonzero());
        let entries = std::fs::read_dir(format!("{place}/fd")).into_iter().flatten().flatten();
        let target = |link: &Path| std::fs::read_link(link).ok().map(|to| to.to_string_lossy().into_owned());
        let announcements = announcements(&place);
        let descriptors: Vec<String> = entries
            .filter_map(|entry| target(&entry.path()))
            .filter(|descriptor| !announcements.contains(descriptor))
            .collect();
        let maps = std::fs::read_to_string(format!("{place}/maps")).unwrap_or_default();
        let is_page = |text: &&str| text.contains("/memfd:tutti-turns ");
        let pages = maps.lines().filter(is_page).count();
        let maps = maps.lines().filter(|line| !is_page(line));
        let is_board = |text: &str| text.contains("/memfd:tutti-board ");
        let is_shared = |text: &str| text.contains("/memfd:") || text.contains("/dev/shm/");
        let is_segment = |text: &&str| is_shared(text) && !is_board(text);
        let segments = descriptors.iter().map(String::as_str).chain(maps).filter(is_segment).count();
        let status = std::fs::read_to_string(format!("{place}/status")).unwrap_or_default();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok());
        Held { descriptors, segments, pages, resident: resident.unwrap_or(0) }
    }

    /// Counts what a daemon holds once it counts what each job sends that runs: it opens their segments
    /// within a second.
    #[track_caller]
    pub fn once_it_counts(pid: Pid) -> Self {
        let place = format!("/proc/{}", pid.as_raw_nonzero());
        let is_segment = |text: &str| text.contains("/memfd:tutti-segment ");
        await_that("the daemon counts what the jobs send", || {
            let entries = std::fs::read_dir(format!("{place}/fd")).into_iter().flatten().flatten();
            let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            let opened = links.filter(|to| is_segment(&to.to_string_lossy())).count();
            let maps = std::fs::read_to_string(format!("{place}/maps")).unwrap_or_default();
            opened >= maps.lines().filter(|line| is_segment(line)).count()
        });
        Held::by(pid)
    }

    /// Waits until a daemon holds no more descriptors, pages and other memory of jobs than this.
    #[track_caller]
    pub fn await_no_more(&self, cluster: &Cluster, node: u32) {
        let (mut now, mut shared) = (None, Vec::new());
        let is_so = || {
            let pid = cluster.daemon(node);
            let held = now.insert(Held::by(pid));
            shared = shared_memory(pid);
            held.segments <= self.segments
                && held.pages <= self.pages
                && held.descriptors.len() <= self.descriptors.len()
        };
        if !crate::harness::comes_true(is_so) {
            let now = now.expect("it was looked at");
            println!("the daemon of node {node} holds more than at first");
            println!("pages: {} at first, {} now; shared memory: {shared:#?}", self.pages, now.pages);
            println!("segments: {} at first, {} now", self.segments, now.segments);
            println!("descriptors at first: {:#?}", self.kinds());
            println!("descriptors now: {:#?}", now.kinds());
            panic!("the daemon of node {node} holds more than at first");
        }
    }

    /// How many descriptors of each kind.
    fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for descriptor in &self.descriptors {
            let kind = descriptor.split_once(":[").map_or(descriptor.as_str(), |(kind, _)| kind);
            *kinds.entry(kind).or_default() += 1;
        }
        kinds
    }
}

/// The mapped memory of a process that others may have mapped, too.
fn shared_memory(pid: Pid) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero())).unwrap_or_default();
    let is_shared = |line: &&str| line.contains("/memfd:") || line.contains("/dev/shm/");
    maps.lines().filter(is_shared).map(str::to_owned).collect()
}

/// Sockets that say that a user has jobs on this machine: they come when a controller looks for others, and
/// go.
fn announcements(place: &str) -> BTreeSet<String> {
    let table = std::fs::read_to_string(format!("{place}/net/unix")).unwrap_or_default();
    let rows = table.lines().filter(|line| line.contains(" @tutti/"));
    rows.filter_map(|line| Some(format!("socket:[{}]", line.split_whitespace().nth(6)?))).collect()
}

/// The network namespaces of a cluster's nodes that are not ours.
pub fn namespaces(cluster: &Cluster, nodes: u32) -> BTreeSet<u64> {
    let ours = net_of(rustix::process::getpid());
    (0..nodes).filter_map(|node| net_of(cluster.daemon(node))).filter(|one| Some(*one) != ours).collect()
}

/// Waits until no process is in these namespaces and none has one open: with them go their interfaces, on
/// both sides of a cable.
#[track_caller]
pub fn await_gone(namespaces: &BTreeSet<u64>) {
    let is_one = |path: &Path| {
        let to = std::fs::read_link(path).unwrap_or_default();
        let number = to.to_str().and_then(|text| text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
        number.is_some_and(|number: u64| namespaces.contains(&number))
    };
    await_that("nobody is in the namespaces of the nodes", || {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
        !processes.filter(|path| path.join("ns/net").is_symlink()).any(|path| {
            let open = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
            is_one(&path.join("ns/net")) || open.map(|entry| entry.path()).any(|link| is_one(&link))
        })
    });
}
