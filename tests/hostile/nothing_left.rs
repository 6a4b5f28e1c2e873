//! Leftovers that jobs must not have on a machine: processes, zombies, cgroups of both versions, sockets,
//! files, and what daemons hold.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Machine;
use crate::harness::{await_that, comes_true};
use crate::leftovers::Held;
use crate::orphans::children;

/// A daemon keeps so many records of output files of jobs that are over, for a controller that does not know
/// yet that they are.
const JOURNALS_MAX: usize = 64;

/// State of the machine while no job is under way.
pub struct Before {
    held: Vec<Held>,
    files: BTreeSet<PathBuf>,
}

impl Before {
    /// Root's first job has been, so that what daemons make once and keep is there.
    #[track_caller]
    pub fn note(machine: &Machine, nodes: u32) -> Self {
        let words = ["run", "-N", &nodes.to_string(), "-n", &nodes.to_string(), "true"];
        machine.cluster.tutti(&words).expect_success();
        machine.await_state(1, "over");
        await_that("nothing of the first job is left", || {
            machine.groups.as_ref().is_none_or(|groups| groups.jobs_of_both().is_empty())
        });
        let held = (0..nodes).map(|node| Held::by(machine.daemon(node))).collect();
        Before { held, files: files(&machine.cluster.folder) }
    }
}

/// Waits until nothing is left of the users' jobs, with these numbers (16 digits); their files in their
/// folders are theirs.
#[track_caller]
pub fn assert_nothing_left(machine: &Machine, before: &Before, jobs: &BTreeSet<String>) {
    assert_eq!(machine.jobs(), [0; 0], "jobs are over");
    let uids = machine.users.uids();
    await_empty("processes and zombies of users", || {
        uids.iter().flat_map(|uid| machine.users.processes(*uid)).collect::<Vec<_>>()
    });
    await_empty("children of daemons, zombies too", || {
        (0..before.held.len() as u32).flat_map(|node| children(machine.daemon(node))).collect::<Vec<_>>()
    });
    if let Some(groups) = &machine.groups {
        await_empty("cgroups", || groups.jobs_of_both());
    }
    await_empty("sockets with names", || local_sockets(jobs, uids));
    await_empty("sockets of the network", || network_sockets(uids));
    // Journals are counted below. What users have used is one file of the controller's, written every 5 s.
    let is_kept = |path: &PathBuf| path.extension().is_some_and(|end| end == "journal" || end == "used");
    await_empty("files of daemons", || {
        let now = files(&machine.cluster.folder);
        now.difference(&before.files).filter(|path| !is_kept(path)).cloned().collect::<Vec<_>>()
    });
    for node in 0..before.held.len() {
        let journals = files(&machine.cluster.folder.join(format!("node{node}.output")));
        assert!(journals.len() <= JOURNALS_MAX, "node {node} keeps {journals:?}");
    }
    await_empty("files of users where all may write", || {
        let folders = [Path::new("/dev/shm").to_owned(), std::env::temp_dir()];
        folders.iter().flat_map(|folder| of_users(folder, uids)).collect::<Vec<_>>()
    });
    for (node, held) in before.held.iter().enumerate() {
        held.await_no_more(&machine.cluster, node as u32);
    }
}

#[track_caller]
fn await_empty<T: std::fmt::Debug>(what: &str, left: impl Fn() -> Vec<T>) {
    assert!(comes_true(|| left().is_empty()), "it was awaited that none are left: {what}: {:?}", left());
}

/// Abstract names of starters' sockets of these jobs, and of daemons of these users.
pub fn local_sockets(jobs: &BTreeSet<String>, uids: &[u32]) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/unix").expect("/proc");
    let names = table.lines().filter_map(|line| line.split_once('@').map(|(_, name)| name.to_owned()));
    let is_of_job = |name: &str| {
        let number = name.strip_prefix("tutti-").and_then(|name| name.get(..16));
        number.is_some_and(|number| jobs.contains(number))
    };
    let is_of_user = |name: &str| {
        let rest = name.strip_prefix("tutti/").or_else(|| name.strip_prefix("tutti-jobs/"));
        let uid = rest.and_then(|rest| rest.split('/').next()?.parse().ok());
        uid.is_some_and(|uid| uids.contains(&uid))
    };
    names.filter(|name| is_of_job(name) || is_of_user(name)).collect()
}

/// Sockets that the kernel has of these users.
fn network_sockets(uids: &[u32]) -> Vec<String> {
    let tables = ["tcp", "tcp6", "udp", "udp6"].map(|name| format!("/proc/net/{name}"));
    let texts = tables.iter().map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let rows = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let uid = |row: &String| row.split_whitespace().nth(7).and_then(|uid| uid.parse().ok());
    rows.filter(|row| uid(row).is_some_and(|uid: u32| uids.contains(&uid))).collect()
}

/// All files below a folder, but those that logs are written to.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if !["events", "turns"].iter().any(|log| name.starts_with(log)) && !name.ends_with(".log") {
            found.extend(files(&path));
            found.insert(path);
        }
    }
    found
}

fn of_users(folder: &Path, uids: &[u32]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.metadata().is_ok_and(|found| uids.contains(&found.uid())));
    own.map(|entry| entry.path()).collect()
}
