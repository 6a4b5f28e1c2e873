//! Ten users with three jobs each, all at once on three nodes: each job is its user's and has its own output,
//! and nothing stays.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tutti_tests::comes_true;

use crate::Machine;
use crate::harness::{RANK, Running};
use crate::nothing_left::{Before, assert_nothing_left};

const NODES: u32 = 3;
const USERS: usize = 10;
/// Jobs of a user: two that are watched, and one that is submitted.
const JOBS: usize = 3;

/// Says where it is, waits until the gate is open, and then exchanges messages with the other ranks.
const SCRIPT: &str = "echo \"$0 up\"; \
     echo \"$0 rank $TUTTI_RANK uid $(id -u) id $TUTTI_JOB group $(sed -n 's/^0:://p' /proc/self/cgroup)\"; \
     : < \"$1\"; exec \"$2\" exchange \"say=$0 done\"";

/// A named pipe: who opens it to read waits until it is opened here.
struct Gate(PathBuf);

impl Gate {
    fn new(path: PathBuf) -> Self {
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a named pipe");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("it is ours");
        Gate(path)
    }

    /// Open as long as the file is held, also for those that come later.
    fn open(&self) -> File {
        File::options().read(true).write(true).open(&self.0).expect("it is ours")
    }
}

/// A job of the crowd.
struct Job {
    user: usize,
    label: String,
    kind: Kind,
}

enum Kind {
    Watched(Running),
    Submitted(u32, PathBuf),
}

impl Job {
    fn start(machine: &Machine, user: usize, index: usize, gate: &Path, rank: &Path) -> Self {
        let label = format!("user{user}-job{index}");
        let nodes = NODES.to_string();
        let (gate, rank) = (gate.to_string_lossy(), rank.to_string_lossy());
        let words = ["-N", &nodes, "-n", &nodes, "sh", "-c", SCRIPT, &label, &gate, &rank];
        let kind = if index + 1 < JOBS {
            Kind::Watched(machine.start(user, &[&["run"], &words[..]].concat()))
        } else {
            let name = format!("{label}.out");
            let number = machine.submit(user, &[&["-o", &name], &words[..]].concat());
            Kind::Submitted(number, machine.users.folder(machine.uid(user)).join(name))
        };
        Job { user, label, kind }
    }

    #[track_caller]
    fn await_up(&mut self) {
        let line = format!("{} up", self.label);
        match &mut self.kind {
            Kind::Watched(job) => (0..NODES).for_each(|_| job.await_line(&line)),
            Kind::Submitted(_, file) => {
                let read = || std::fs::read_to_string(&*file).unwrap_or_default();
                let count = || read().lines().filter(|said| *said == line).count();
                assert!(comes_true(|| count() == NODES as usize), "{}: {:?}", self.label, read());
            }
        }
    }

    /// Waits for its end, which must be good, and gives its output.
    #[track_caller]
    fn end(self, machine: &Machine) -> Vec<String> {
        match self.kind {
            Kind::Watched(job) => {
                let (status, said, lines) = job.end_with_output();
                assert_eq!((status, said.as_str()), (0, ""), "{}: {lines:?}", self.label);
                lines
            }
            Kind::Submitted(number, file) => {
                machine.tutti(self.user, &["wait", &number.to_string()]).expect_success();
                machine.await_state(number, "over");
                let text = std::fs::read_to_string(&file).expect("its output");
                std::fs::remove_file(&file).expect("it is there");
                text.lines().map(str::to_owned).collect()
            }
        }
    }
}

/// Checks what a job has written; gives its number.
#[track_caller]
fn check(machine: &Machine, label: &str, uid: u32, lines: &[String]) -> String {
    let count = |line: &str| lines.iter().filter(|said| *said == line).count();
    let nodes = NODES as usize;
    let own = (count(&format!("{label} up")), count(&format!("{label} done")), lines.len());
    assert_eq!(own, (nodes, nodes, 4 * nodes), "{label}: {lines:?}");
    let mut ids = BTreeSet::new();
    for rank in 0..nodes {
        let is_heard =
            |line: &String| line.starts_with(&format!("rank {rank} of {NODES}, node {rank} of {NODES}, "));
        assert_eq!(lines.iter().filter(|line| is_heard(line)).count(), 1, "{label}, rank {rank}: {lines:?}");
        let start = format!("{label} rank {rank} uid {uid} id ");
        let rest = lines.iter().find_map(|line| line.strip_prefix(&start));
        let (id, group) = rest.and_then(|rest| rest.split_once(" group ")).unwrap_or_else(|| {
            panic!("{label}: it was awaited that rank {rank} is of user {uid}: {lines:?}")
        });
        ids.insert(id.to_owned());
        if machine.groups.is_some() {
            let (part, job) = (format!("tutti-part-{id}-"), format!("tutti-job-{id}-"));
            let mut steps = group.rsplit('/');
            let is_inside = steps.next() == Some("ranks")
                && steps.next().is_some_and(|step| step.starts_with(&job))
                && steps.next().is_some_and(|step| step.starts_with(&part));
            assert!(is_inside, "{label}: rank {rank} is in {group}");
        }
    }
    assert_eq!(ids.len(), 1, "{label}: one number: {lines:?}");
    ids.into_iter().next().expect("one")
}

/// Each part has a cgroup of version 2, all of it is root's.
#[track_caller]
fn assert_groups_are_roots(machine: &Machine) {
    let Some(groups) = &machine.groups else { return };
    assert_eq!(groups.jobs().len(), USERS * JOBS * NODES as usize, "a cgroup for each part");
    for group in groups.jobs_of_both() {
        let found = std::fs::metadata(&group).expect("it is there");
        assert_eq!((found.uid(), found.mode() & 0o022), (0, 0), "{}", group.display());
    }
}

#[test]
fn jobs_of_ten_users_at_once_stay_apart_and_leave_nothing() {
    let Some(machine) = Machine::up_within_groups("hostile-crowd", NODES, USERS as u32, &["--slice", "20"])
    else {
        return;
    };
    let before = Before::note(&machine, NODES);
    let (gate, rank) = (Gate::new(machine.users.root().join("gate")), machine.users.reachable(RANK.as_ref()));
    let numbers = (0..USERS).flat_map(|user| (0..JOBS).map(move |index| (user, index)));
    let mut jobs: Vec<Job> =
        numbers.map(|(user, index)| Job::start(&machine, user, index, &gate.0, &rank)).collect();
    jobs.iter_mut().for_each(Job::await_up);
    assert_eq!(machine.jobs().len(), USERS * JOBS, "all are there at once");
    assert_groups_are_roots(&machine);
    let open = gate.open();
    let mut ids = BTreeSet::new();
    for job in jobs {
        let (label, uid) = (job.label.clone(), machine.uid(job.user));
        ids.insert(check(&machine, &label, uid, &job.end(&machine)));
    }
    drop(open);
    assert_eq!(ids.len(), USERS * JOBS, "each has a number of its own");
    assert_nothing_left(&machine, &before, &ids);
    for uid in machine.users.uids() {
        let left: Vec<_> =
            std::fs::read_dir(machine.users.folder(*uid)).expect("a folder").flatten().collect();
        assert!(left.is_empty(), "user {uid}: {left:?}");
    }
}
