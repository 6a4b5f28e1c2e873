//! Program at the other end of the local socket, as the kernel says: what a submission has of its user's that
//! the program does not say itself.
//!
//! Made when a program connects, asked with its first request ([`super`]). Whatever a request says of the
//! user's groups, the session, the key or the caller is replaced.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::process::Pid;
use tutti_os::peer_pidfd;
use tutti_os::random::fill_random;
use tutti_os::session::Session;
use tutti_os::stat::Stat;
use tutti_protocol::job_numbers::JobNumbers;

use super::super::peer_users::PeerProcess;
use crate::message::{JobId, Request, User};

/// A process of a job is so far below its starter at most, to be found.
const ANCESTORS_MAX: usize = 4096;
/// Program at the other end, as the kernel says.
pub(super) struct Peer {
    pub(super) user: User,
    pub(super) groups: Vec<u32>,
    pub(super) pid: Option<Pid>,
    /// The same as it was when it was looked at.
    pub(super) process: Option<PeerProcess>,
    /// Whether the process is seen from here, and was dead.
    pub(super) has_ended: bool,
    /// Ours, whose cores its session has.
    pub(super) machine: Arc<str>,
    /// The series of numbers of an on-demand daemon, which has jobs of one user.
    pub(super) numbers: Option<Arc<JobNumbers>>,
    /// The starters of jobs here: number, and when it was started.
    pub(super) starters: Vec<(JobId, (u32, u64))>,
}

impl Peer {
    /// Adds to a job what it has of its user's that he does not say himself.
    pub(super) fn vouch(&self, request: &mut Request, socket: BorrowedFd<'_>) -> Result<(), String> {
        let may_be_step = matches!(request, Request::Run(_));
        let (submit, runs_already) = match request {
            Request::Run(submit) | Request::Submit(submit) => (submit, false),
            Request::Enrol(submit) => (submit, true),
            _ => return Ok(()),
        };
        submit.script.caller = None;
        // Whose account it is was asked of the process that has connected.
        if self.has_ended {
            return Err("the process that has connected has ended".into());
        }
        if may_be_step {
            submit.script.caller = self.job();
        }
        submit.groups = self.groups.clone();
        submit.key = draw_number()?;
        // An array has a number of its own, and one for each task.
        let jobs = submit.batch.array().map_or(1, |array| array.tasks.len() as u64 + 1);
        let reserved = submit.script.reserved.filter(|_| runs_already && self.numbers.is_none());
        submit.script.reserved = reserved;
        submit.job.number = self.number(submit.job.number.filter(|_| runs_already), jobs);
        // It names the job's sockets and cgroups. That of one that runs already names nothing here.
        if !runs_already {
            submit.job.id = draw_number()?;
        }
        let session = (!runs_already).then(|| self.session(socket)).transpose();
        let refused = |error| format!("cannot read the limits of the session: {error}");
        submit.session = session.map_err(refused)?.map(Box::new);
        Ok(())
    }

    /// The number of a job, or the first of so many, where the controller does not count alone. One that the
    /// job has drawn itself counts if it is of the same series.
    fn number(&self, drawn: Option<u64>, jobs: u64) -> Option<u64> {
        let numbers = self.numbers.as_ref()?;
        let is_own = self.user.uid == rustix::process::geteuid().as_raw();
        drawn.filter(|_| is_own).or_else(|| numbers.draw(jobs).ok())
    }

    /// The job that its process is of: the nearest of its ancestors that is a starter. Starters adopt the
    /// orphans below them, so nothing of a job has left them.
    fn job(&self) -> Option<JobId> {
        let mut pid = self.pid.filter(|_| !self.starters.is_empty())?;
        for _ in 0..ANCESTORS_MAX {
            let Stat { parent, since, .. } = Stat::of(pid)?;
            let number = pid.as_raw_nonzero().get() as u32;
            if let Some((job, _)) = self.starters.iter().find(|(_, starter)| *starter == (number, since)) {
                return Some(*job);
            }
            pid = Pid::from_raw(parent)?;
        }
        None
    }

    fn session(&self, socket: BorrowedFd<'_>) -> io::Result<Session> {
        let pid = self.pid.ok_or_else(|| io::Error::other("its process is in another pid namespace"))?;
        let pidfd = peer_pidfd(socket, pid, self.user.uid)?;
        Session::of(pid, pidfd.as_fd(), &self.machine)
    }
}

fn draw_number() -> Result<u64, String> {
    let mut number = [0; 8];
    fill_random(&mut number).map_err(|error| format!("cannot draw random bytes: {error}"))?;
    Ok(u64::from_ne_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Request of `tutti submit`, with what it says of itself.
    const SUBMISSION: &str = r#"{"Submit": {
        "job": {"id": 7, "front_end": 0, "programs": [], "input": "None", "input_inherited": false, "terminal": null,
                "pty": false, "binding": "None", "cores_per_rank": null, "no_oversubscribe": false, "part": null,
                "debug": false},
        "nodes": null, "per_node": null, "hosts": [], "environment": [], "directory": "/", "umask": 18,
        "groups": [0], "key": 7, "session": {"limits": [], "nice": -20, "policy": 0, "io_priority": 0,
        "oom_score_adjustment": -1000, "no_new_privileges": false, "bounding": 0, "cores": "0", "machine": "there"}
    }}"#;

    #[test]
    fn submission_has_key_groups_and_session_of_the_kernels_whatever_it_says() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let peer = Peer {
            user: User::new(uid, gid),
            groups: vec![5],
            pid: Some(rustix::process::getpid()),
            process: None,
            has_ended: false,
            machine: "here".into(),
            numbers: None,
            starters: Vec::new(),
        };
        let vouched = || {
            let mut request = serde_json::from_str(SUBMISSION).unwrap();
            peer.vouch(&mut request, one.as_fd()).unwrap();
            match request {
                Request::Submit(submit) => submit,
                _ => unreachable!("it is a submission"),
            }
        };
        let jobs: Vec<_> = (0..64).map(|_| vouched()).collect();
        for job in &jobs {
            let session = job.session.as_ref().expect("the kernel knows it");
            assert_eq!((&job.groups, session.limits.len(), &*session.machine), (&vec![5], 16, "here"));
        }
        // Whatever is made of the ids of two jobs: half of the bits of their keys differ, and which ones
        // nobody can say.
        let (mut ever, mut always) = (0, u64::MAX);
        for pair in jobs.windows(2) {
            let differ = pair[0].key ^ pair[1].key;
            (ever, always) = (ever | differ, always & differ);
            assert!(
                ![pair[0].job.id, 7].contains(&pair[0].key) && pair[0].key != pair[0].job.id.rotate_left(17)
            );
        }
        assert_eq!((ever, always), (u64::MAX, 0));
    }
}
