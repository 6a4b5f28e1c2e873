//! How a job and `mpiexec` itself end: asked to, by force, by themselves.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tutti_os::stderr::print_line;
use tutti_os::{cgroup, descendants};
use tutti_protocol::batch::{DEADLOCKED, IDLE_SUSPENDED, OnDeadlock, OnIdle};
use tutti_protocol::time_limit::GRACE_MS;
use tutti_protocol::wire::{Kind, Report};

use super::{End, Enrolment, Front, Keys, libc_signal};
use crate::link::{Link, State};

/// A killed job has this time to be gone before we leave without it; none where no daemon can kill it.
const KILL_MAX: Duration = Duration::from_secs(5);
/// Exit status after a time-out, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

impl Front {
    /// Gives an exit status when nothing more can be waited for.
    pub(super) fn handle_deadline(&mut self) -> Option<u8> {
        match self.end {
            End::Open => {
                let seconds = self.options.timeout.unwrap_or_default().as_secs_f64();
                let plural = if seconds == 1.0 { "" } else { "s" };
                self.complain(&format!(
                    "the job is ended: it did not finish within {seconds} second{plural}"
                ));
                match self.grace_at_limit() {
                    Some(_) => self.request_end(End::TimedOut, libc_signal(Signal::TERM)),
                    None => self.kill(TIMED_OUT),
                }
                None
            }
            End::TimedOut => {
                self.kill(TIMED_OUT);
                None
            }
            End::Requested(signal) => {
                self.kill(128 + signal as u8);
                None
            }
            // The daemon does not answer; it has the request.
            End::Detaching => Some(0),
            End::Killed(_) => Some(self.leave_by_force()),
        }
    }

    /// Time between TERM and KILL at the limit of the job; none: no TERM. `--time` gives some, `--timeout`
    /// none.
    pub(super) fn grace_at_limit(&self) -> Option<Duration> {
        let time = self.options.batch.time_ms.map(Duration::from_millis);
        let is_by_time = time.is_some() && time == self.options.timeout;
        self.kill_after().or(is_by_time.then_some(Duration::from_millis(GRACE_MS)))
    }

    /// The ranks of a job that is ours wait for each other for ever. What the controller does with a job of
    /// the cluster it does by itself.
    pub(super) fn handle_deadlock(&mut self) {
        match self.options.batch.on_deadlock {
            OnDeadlock::Suspend if self.end == End::Open => {
                self.complain("the job is suspended (--on-deadlock suspend)");
                self.put(Kind::Suspend, 0, &[]);
            }
            OnDeadlock::End if self.end == End::Open => {
                self.complain("the job is ended (--on-deadlock end)");
                self.kill(DEADLOCKED);
            }
            _ => {}
        }
    }

    /// The ranks of a job that is ours do no work, on all its nodes, or some do. What is done with a job of
    /// the cluster its controller does.
    pub(super) fn handle_idle(&mut self) {
        let is_idle = self.links.iter().all(|link| link.idle || !link.is_alive());
        let is_new = !std::mem::replace(&mut self.idle_acted, is_idle) && is_idle;
        if is_new && self.end == End::Open && self.options.batch.on_idle != OnIdle::Keep {
            self.complain(IDLE_SUSPENDED);
            self.put(Kind::Suspend, 0, &[]);
        }
    }

    pub(super) fn kill(&mut self, status: u8) {
        if !matches!(self.end, End::Killed(_)) {
            self.end = End::Killed(status);
            self.put(Kind::Kill, 0, &[]);
        }
        let is_heard = !self.is_without_daemon() || !self.is_written();
        self.deadline = Some(Instant::now() + if is_heard { KILL_MAX } else { Duration::ZERO });
    }

    pub(super) fn leave(&mut self) -> u8 {
        if self.links.iter().any(|link| link.state == State::Dead) {
            self.end_leftovers();
        }
        self.links.iter_mut().for_each(|link| drop(link.bury()));
        self.keys.iter_mut().for_each(Keys::give_back);
        let notices = self.floor.take_notices();
        notices.iter().chain(&self.late_notice.take()).for_each(|text| self.complain(text));
        if let Some(counted) = self.counted.take() {
            print_line(counted);
        }
        let status = match self.end {
            End::Killed(own) => own,
            End::TimedOut => TIMED_OUT,
            _ => self.status,
        };
        let status = self.flush_output(status);
        let used = self.used.map(Report::Used);
        used.iter().for_each(|report| {
            self.enrolment.iter_mut().for_each(|enrolment| enrolment.send_report(report));
        });
        self.enrolment.iter_mut().for_each(|enrolment| enrolment.send_report(&Report::End { status }));
        let pipe = libc_signal(Signal::PIPE);
        for signal in [libc_signal(Signal::INT), libc_signal(Signal::TERM), libc_signal(Signal::HUP), pipe] {
            let caught = self.end == End::Requested(signal) || matches!(self.end, End::Killed(_));
            if caught && status == 128 + signal as u8 {
                // Our parent sees what it would see of any program: a shell's loop ends on Ctrl-C.
                tutti_os::raise_default(signal);
            }
        }
        status
    }

    fn leave_by_force(&mut self) -> u8 {
        if self.is_without_daemon() {
            self.complain(&self.describe_loss());
        }
        self.links.iter_mut().for_each(Link::kill);
        self.end_leftovers();
        self.leave()
    }

    /// A starter is a plain process that anybody may have killed. The job ends on all nodes.
    pub(super) fn bury_starter(&mut self, index: usize) {
        if self.links[index].is_daemon() && self.may_come_back() {
            return self.lose_daemon(index);
        }
        self.links[index].state = State::Dead;
        self.floor.handle_end(index);
        let ended = self.links[index].bury();
        if self.end == End::Open && self.ender.is_none() {
            let node = self.links[index].node.map_or_else(String::new, |node| format!(" on node {node}"));
            self.complain(&match ended {
                None => self.describe_loss(),
                Some(Ok(status)) => format!("the job's starter{node} has died ({status}); the job is ended"),
                Some(Err(error)) => format!("the job's starter{node} has died ({error}); the job is ended"),
            });
        }
        if !matches!(self.end, End::Killed(_)) {
            self.kill(self.status.max(1));
        }
        if !self.links.iter().any(Link::is_alive) {
            self.end_leftovers();
        }
    }

    fn end_leftovers(&mut self) {
        let daemon = self.enrolment.as_ref().and_then(Enrolment::daemon);
        descendants::end_all(daemon, || {});
        for link in self.links.iter().filter(|link| !link.is_daemon()) {
            let name = cgroup::name(&tutti_os::cgroup::part_name(self.job, link.node));
            cgroup::place(&name).iter().for_each(|path| cgroup::remove(path));
        }
    }
}
