//! Lenders of turns: processes of jobs here that wait for services of other jobs here.
//!
//! | what | is known by |
//! |---|---|
//! | the process that waits | SO_PEERCRED of its connection with this daemon |
//! | the process that serves | SO_PEERCRED of the connection of both, which comes with the question |
//! | the jobs of both | their ancestors: starters whose jobs this daemon knows |
//!
//! Jobs that wait for services of each other, all the time between two looks, are named to their users.
//!
//! A process in no job has no turns to lend, and one that serves in none needs none: both are refused.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt;
use rustix::process::Pid;
use tutti_os::stat::Stat;
use tutti_sched::JobId;

use super::quota::ConnectionPermit;
use crate::gang::wishes::{Listeners, Wish};

/// Ancestors that are looked at.
const ANCESTORS_MAX: usize = 64;
/// Between two looks for rings.
const LOOK_MS: u64 = 1000;

/// A process that waits, on its connection.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) stream: std::os::unix::net::UnixStream,
    /// Connection of the process with a service.
    pub(super) service: OwnedFd,
    pub(super) permit: ConnectionPermit,
}

/// The starters of the jobs that take turns here.
#[derive(Debug, Default)]
struct Starters(HashMap<u32, JobId>);

impl Starters {
    fn begin(&mut self, job: JobId, starters: &[u32]) {
        self.end(job);
        self.0.extend(starters.iter().map(|starter| (*starter, job)));
    }

    fn end(&mut self, job: JobId) {
        self.0.retain(|_, other| *other != job);
    }

    /// The job to which the process at the other end of a connection belongs. Who has made one for a process
    /// that has ended waits until another user's has its number, whose turns it would lend.
    fn job_of_peer(&self, connection: BorrowedFd<'_>) -> Option<JobId> {
        let peer = sockopt::socket_peercred(connection).ok()?;
        let pidfd = tutti_os::peer_pidfd(connection, peer.pid, peer.uid.as_raw()).ok()?;
        let job = self.job_of(peer.pid)?;
        // While it lives its number is its own.
        let is_alive = tutti_os::look(&mut [PollFd::new(&pidfd, PollFlags::IN)]) == Ok(0);
        is_alive.then_some(job)
    }

    /// The job to which a process belongs.
    fn job_of(&self, process: Pid) -> Option<JobId> {
        let mut process = process;
        for _ in 0..ANCESTORS_MAX {
            if let Some(job) = self.0.get(&(process.as_raw_nonzero().get() as u32)) {
                return Some(*job);
            }
            process = Pid::from_raw(Stat::of(process)?.parent)?;
        }
        None
    }
}

/// Processes that are heard, and what was seen of them.
#[derive(Debug, Default)]
struct Rings {
    /// Each with the number of its changes at the last look, if it waited then.
    wishes: Vec<(Wish, Option<u64>)>,
    /// Rings that were named, and have not ended.
    named: BTreeSet<Vec<JobId>>,
    looked_ms: u64,
}

impl Rings {
    fn add(&mut self, wish: Wish) {
        self.wishes.push((wish, None));
    }

    /// Rings of jobs that are there now and were at the last look, each once; and the users of their jobs.
    fn look(&mut self) -> Vec<(Vec<JobId>, BTreeSet<u32>)> {
        self.wishes.retain(|(wish, _)| !wish.is_over());
        let mut waits = Vec::new();
        for (wish, seen) in &mut self.wishes {
            let now = wish.waits_since();
            if now.is_some() && now == *seen {
                waits.push(wish.about());
            }
            *seen = now;
        }
        let edges: Vec<(JobId, JobId)> = waits.iter().map(|(from, to, _)| (*from, *to)).collect();
        let found = rings(&edges);
        let news: Vec<_> = found.difference(&self.named).cloned().collect();
        self.named = found;
        let users = |ring: &Vec<JobId>| {
            waits.iter().filter(|(from, ..)| ring.contains(from)).map(|(.., user)| *user).collect()
        };
        news.into_iter().map(|ring| (ring.clone(), users(&ring))).collect()
    }
}

/// A shortest ring through each job that is in one, beginning with its least job.
fn rings(edges: &[(JobId, JobId)]) -> BTreeSet<Vec<JobId>> {
    let starts: BTreeSet<JobId> = edges.iter().map(|edge| edge.0).collect();
    let mut found = BTreeSet::new();
    for start in starts {
        let (mut from, mut queue) = (BTreeMap::new(), VecDeque::from([start]));
        while let Some(job) = queue.pop_front() {
            for &(_, to) in edges.iter().filter(|edge| edge.0 == job) {
                if let std::collections::btree_map::Entry::Vacant(place) = from.entry(to) {
                    place.insert(job);
                    queue.push_back(to);
                }
            }
        }
        let Some(mut job) = from.get(&start).copied() else { continue };
        let mut ring = vec![start];
        while job != start {
            ring.push(job);
            job = from[&job];
        }
        ring[1..].reverse();
        let least = (0..ring.len()).min_by_key(|at| ring[*at]).unwrap_or(0);
        ring.rotate_left(least);
        found.insert(ring);
    }
    found
}

/// Knowledge of a daemon about lenders.
#[derive(Debug)]
pub(super) struct Lending {
    starters: Starters,
    rings: Rings,
    listeners: Listeners,
}

impl Lending {
    pub(super) fn new(listeners: Listeners) -> Self {
        Lending { starters: Starters::default(), rings: Rings::default(), listeners }
    }

    /// The ranks of a job run here, below these starters, as the kernel says.
    pub(super) fn begin(&mut self, job: JobId, starters: &[u32]) {
        self.starters.begin(job, starters);
    }

    /// Forgets the starters of a job of which nothing is left here.
    pub(super) fn end(&mut self, job: JobId) {
        self.starters.end(job);
    }

    /// Hears a process from now on, if it is in one job and waits for another one; else its connection ends.
    pub(super) fn hear(&mut self, waiting: Waiting) -> Option<Wish> {
        let Waiting { stream, service, permit } = waiting;
        let client = sockopt::socket_peercred(&stream).ok()?;
        let of_peer = |connection: BorrowedFd<'_>| self.starters.job_of_peer(connection);
        let jobs = of_peer(stream.as_fd()).zip(of_peer(service.as_fd()));
        let jobs = jobs.filter(|(lender, borrower)| lender != borrower)?;
        let wish = self.listeners.hear(jobs, client.uid.as_raw(), stream, permit).ok()?;
        self.rings.add(wish.clone());
        Some(wish)
    }

    /// Lines that name jobs that wait for services of each other, with their users; now and then.
    pub(super) fn poll_lines(&mut self, now_ms: u64) -> Vec<(u32, String)> {
        if now_ms < self.rings.looked_ms + LOOK_MS {
            return Vec::new();
        }
        self.rings.looked_ms = now_ms;
        let found = self.rings.look().into_iter().flat_map(|(ring, users)| {
            let all = ring.iter().chain(&ring[..1]).map(|job| format!("job {job}")).collect::<Vec<_>>();
            let text = all.join(" waits for a service of ");
            users.into_iter().map(move |user| (user, text.clone()))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    /// Socket to which the second process of the next test connects.
    const SOCKET: &str = "SOCKET_OF_TEST";

    /// The number may be another process's by then, of another user's job.
    #[test]
    fn connection_of_a_process_that_has_ended_is_of_no_job() {
        if let Some(path) = std::env::var_os(SOCKET) {
            let _connection = UnixStream::connect(path).expect("a listener");
            println!("connected");
            std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
            return;
        }
        let scratch = tutti_testkit::Scratch::new("lender");
        let path = scratch.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let name = "shell::lending::tests::connection_of_a_process_that_has_ended_is_of_no_job";
        let mut other = Command::new(std::env::current_exe().expect("this test"));
        other.args([name, "--exact", "--nocapture"]).env(SOCKET, &path);
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is started");
        let mut lines = BufReader::new(other.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "connected"));
        let (connection, _) = listener.accept().expect("a connection");
        let mut starters = Starters::default();
        starters.begin(JobId(1), &[other.id()]);
        assert_eq!(starters.job_of_peer(connection.as_fd()), Some(JobId(1)));
        drop(other.stdin.take());
        other.wait().expect("our child");
        assert_eq!(starters.job_of_peer(connection.as_fd()), None);
    }

    fn found(edges: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let edges: Vec<_> = edges.iter().map(|(from, to)| (JobId(*from), JobId(*to))).collect();
        rings(&edges).into_iter().map(|ring| ring.into_iter().map(|job| job.0).collect()).collect()
    }

    #[test]
    fn rings_of_jobs_are_found_once_each() {
        assert_eq!(found(&[]), [[0; 0]; 0]);
        assert_eq!(found(&[(1, 2), (2, 3), (1, 3)]), [[0; 0]; 0], "the last one answers");
        assert_eq!(found(&[(2, 1), (1, 2), (2, 1), (7, 1)]), [[1, 2]]);
        assert_eq!(found(&[(3, 1), (1, 9), (9, 3), (3, 4), (4, 3)]), [vec![1, 9, 3], vec![3, 4]]);
    }
}
