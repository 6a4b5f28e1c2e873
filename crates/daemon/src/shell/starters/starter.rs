//! Starter of a part of a job on this node, as its daemon has it: its process, its end of the wire, the
//! cgroups of its part and the record that is kept of it.
//!
//! ```text
//! begun: this daemon has started it         --end--> said to end, heard until its wire closes --> reaped
//! away: an earlier daemon has   --come_back--^
//! enrolled: the mpiexec of a job without a daemon   --end--> its job goes on without this one
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tokio::sync::{Notify, mpsc};
use tutti_os::cgroup::PartGroup;
use tutti_protocol::wire::{self, Kind};

use super::process::{Death, Process};
use crate::shell::orphans::{KILLED_MAX, Wards};
use crate::shell::quota::DescriptorPermit;
use crate::shell::records::{File, remove_blocking, started};

/// Time after which a starter is dead that has closed its wire, or was ordered to end for good: it gives what
/// it has started as long as that.
pub(super) const DYING_MAX: Duration = Duration::from_secs(30);

/// Time after which a starter that was ordered to kill its part has said that the job is over, or root's
/// daemon kills all of it.
const KILL_MAX: Duration = Duration::from_secs(20);
/// A filler, which is behind nobody from then on.
const KILL_FILLER_MAX: Duration = Duration::from_secs(2);

/// A starter.
pub(in crate::shell) struct Starter {
    /// None: an earlier daemon has started it, or no daemon at all.
    child: Option<Process>,
    /// Whether it is the `mpiexec` of a job that was started without a daemon.
    enrolled: bool,
    /// None: it is not here yet.
    wire: Option<Wire>,
    /// Whether it has been ordered to end: what it still says is read, so that it can, and concerns nobody.
    ended: bool,
    /// The cgroups of its part, if this is root's daemon.
    pub group: Option<PartGroup>,
    /// Record that is kept of it.
    pub file: File,
    /// Permit for the descriptors of the daemon that its part has.
    _descriptors: Option<DescriptorPermit>,
}

/// End of the wire to a starter.
pub(super) struct Wire {
    number: u64,
    writer: mpsc::UnboundedSender<Vec<u8>>,
    listen: Arc<Notify>,
}

impl Wire {
    /// End number `number`: frames that are put into `writer` are sent, and `listen` lets more be read.
    pub(super) fn new(number: u64, writer: mpsc::UnboundedSender<Vec<u8>>, listen: Arc<Notify>) -> Self {
        Wire { number, writer, listen }
    }

    pub(super) fn send(&self, frame: Vec<u8>) {
        let _ = self.writer.send(frame);
    }
}

impl Starter {
    /// Starter that this daemon has started.
    pub(super) fn begun(
        child: Process,
        wire: Wire,
        group: Option<PartGroup>,
        file: File,
        descriptors: Option<DescriptorPermit>,
    ) -> Self {
        let (child, wire, _descriptors) = (Some(child), Some(wire), descriptors);
        Starter { child, enrolled: false, wire, ended: false, group, file, _descriptors }
    }

    /// Starter of an earlier daemon.
    pub(in crate::shell) fn away(file: File) -> Self {
        let group = file.group.as_ref().and_then(PartGroup::reopen);
        Starter { child: None, enrolled: false, wire: None, ended: false, group, file, _descriptors: None }
    }

    /// The mpiexec of a job that was started without a daemon; without a permit it is not heard.
    pub(super) fn enrolled(wire: Wire, file: File, descriptors: Option<DescriptorPermit>) -> Self {
        let wire = descriptors.is_some().then_some(wire);
        let (child, group, _descriptors) = (None, None, descriptors);
        Starter { child, enrolled: true, wire, ended: false, group, file, _descriptors }
    }

    /// Process that says that it is a starter, of a job that is not known here.
    pub(super) fn unknown(wire: Wire) -> Self {
        Starter { wire: Some(wire), ..Starter::away(File::of_none(0, 0)) }
    }

    /// Whether it is this process, which comes back with this token. One that no daemon has started has no
    /// token, and does not come back.
    pub(super) fn is_it(&self, pid: Option<Pid>, token: u64) -> bool {
        let is_its = pid.is_some_and(|pid| pid.as_raw_nonzero().get() as u32 == self.file.pid);
        is_its && !self.enrolled && token == self.file.token
    }

    /// Takes it back, by this wire.
    pub(super) fn come_back(&mut self, wire: Wire) {
        self.wire = Some(wire);
    }

    /// Whether its wire is number `number`.
    pub(super) fn has_wire(&self, number: u64) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.number == number)
    }

    /// Why it never was a starter; none: it was one. For when it is dead.
    pub(super) fn failure(&self, program: &Path, node: &str) -> Option<String> {
        self.child.as_ref()?.failure(program, node)
    }

    /// Whether it is an earlier daemon's and has not come to this one.
    pub(in crate::shell) fn is_away(&self) -> bool {
        !self.enrolled && self.wire.is_none()
    }

    /// Number, and when it was started; none: it is a front end of a job without one.
    pub(in crate::shell) fn process(&self) -> Option<(u32, u64)> {
        (!self.enrolled && self.file.pid != 0).then_some((self.file.pid, self.file.since))
    }

    pub(in crate::shell) fn put(&self, kind: Kind, number: u32, payload: &[u8]) {
        if kind == Kind::Kill && number != wire::SPARE_FILTERS {
            self.group.iter().for_each(PartGroup::end_behind);
        }
        let Some(wire) = &self.wire else { return };
        // An mpiexec that was stopped by its terminal reads nothing.
        if self.enrolled
            && matches!(kind, Kind::Resume | Kind::Kill | Kind::Signal)
            && let Some(pid) = Pid::from_raw(self.file.pid as i32)
            && let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
            // What the descriptor is of was there before this look.
            && started(self.file.pid) == Some(self.file.since)
        {
            let _ = pidfd_send_signal(&process, Signal::CONT);
        }
        let mut frame = Vec::new();
        wire::put(&mut frame, kind, number, payload);
        wire.send(frame);
    }

    pub(in crate::shell) fn listen(&self) {
        self.wire.iter().for_each(|wire| wire.listen.notify_one());
    }

    /// Ends what is left of its part, and it itself; no daemon will follow this one. One that is still away
    /// hears it when it comes.
    pub(in crate::shell) fn end(&mut self) {
        if self.enrolled {
            // Its job goes on without us.
            self.wire = None;
            return;
        }
        self.put(Kind::Leave, wire::FOR_GOOD, &[]);
        self.put(Kind::Kill, 0, &[]);
        // It closes the wire when it ends, and has perhaps much to say before.
        self.ended = true;
        self.listen();
    }

    /// Number of the wire of a starter that has been ordered to kill its part, and the time that it has for
    /// that. Its user can stop it: after that root's daemon kills the starter and all that is left.
    pub(super) fn time_to_kill(&self) -> Option<(u64, Duration)> {
        let (wire, group) = (self.wire.as_ref()?, self.group.as_ref()?);
        Some((wire.number, if group.enforced().behind { KILL_FILLER_MAX } else { KILL_MAX }))
    }

    /// The time is over. Its wire closes when it is dead.
    pub(in crate::shell) fn kill_overdue(&self, number: u64) {
        if self.has_wire(number) {
            self.group.iter().for_each(PartGroup::kill);
        }
    }

    /// Hears that the starter has said something; returns whether nobody wants to hear it any more.
    pub(in crate::shell) fn is_abandoned(&self) -> bool {
        if self.ended {
            self.listen();
        }
        self.ended
    }

    /// How it has died. Who lives on for longer is killed: a user may do with his starter what he likes.
    pub(super) fn reap_blocking(&mut self, grace: Duration, wards: &Wards) -> Death {
        let deadline = Instant::now() + grace;
        let File { pid, since, .. } = self.file;
        let is_alive = || started(pid) == Some(since);
        while is_alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_ours = is_alive();
        if is_ours && let Some(pid) = Pid::from_raw(pid as i32) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let Death { text, is_killed } = match &mut self.child {
            Some(child) => match child.wait_blocking(KILLED_MAX) {
                Some(how) => {
                    wards.remove(pid);
                    how
                }
                None => {
                    tracing::warn!("the starter {pid} of user {} was killed and does not die", child.uid());
                    wards.give_up(pid);
                    Death { text: "it does not die".into(), is_killed: true }
                }
            },
            None => Death { text: "it was an earlier daemon's".into(), is_killed: true },
        };
        Death { text, is_killed: is_killed && !is_ours }
    }

    /// The same, and waits for it.
    pub(in crate::shell) async fn end_and_wait(mut self, wards: Wards) {
        self.end();
        self.wire = None;
        if self.child.is_some() || self.group.is_some() {
            let reap = move || {
                self.reap_blocking(DYING_MAX, &wards);
                remove_blocking(self.group.as_ref());
            };
            let _ = tokio::task::spawn_blocking(reap).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tutti_protocol::wire::Decoder;

    use super::*;
    use crate::shell::quota::ConnectionQuota;

    type Frames = mpsc::UnboundedReceiver<Vec<u8>>;

    fn wire(number: u64) -> (Wire, Frames) {
        let (writer, frames) = mpsc::unbounded_channel();
        (Wire::new(number, writer, Arc::new(Notify::new())), frames)
    }

    /// Kinds and numbers of all that was sent.
    fn sent(frames: &mut Frames) -> Vec<(Kind, u32)> {
        let mut decoder = Decoder::default();
        while let Ok(frame) = frames.try_recv() {
            decoder.extend(&frame);
        }
        let next = || decoder.next_frame().unwrap().map(|(header, _)| (header.kind, header.rank));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn starter_that_is_away_hears_nothing_and_is_killed_when_it_comes_back() {
        let mut starter = Starter::away(File::of_none(7, 70));
        assert!(starter.is_away() && !starter.has_wire(3));
        starter.put(Kind::Resume, 0, &[]);
        let (wire, mut frames) = wire(3);
        starter.come_back(wire);
        assert!(!starter.is_away() && starter.has_wire(3) && !starter.has_wire(4));
        assert_eq!((sent(&mut frames), starter.is_abandoned()), (vec![], false));
        starter.end();
        assert_eq!(sent(&mut frames), [(Kind::Leave, wire::FOR_GOOD), (Kind::Kill, 0)]);
        assert!(starter.is_abandoned(), "what it still says concerns nobody");
    }

    #[test]
    fn starter_comes_back_as_its_process_and_with_its_token_alone() {
        let file = || File { token: 9, ..File::of_none(7, 70) };
        let pid = |pid| Pid::from_raw(pid);
        let starter = Starter::away(file());
        assert!(starter.is_it(pid(7), 9));
        assert!(!starter.is_it(pid(8), 9) && !starter.is_it(pid(7), 8) && !starter.is_it(None, 9));
        assert_eq!(starter.process(), Some((7, 70)));
    }

    #[test]
    fn starter_that_is_an_mpiexec_is_left_alone() {
        let file = File { token: 9, ..File::of_none(7, 70) };
        let quota = ConnectionQuota::new(0, 1000);
        let (wire, mut frames) = wire(3);
        let permit = quota.take_descriptors(5, 1).unwrap();
        let mut starter = Starter::enrolled(wire, file, Some(permit));
        assert_eq!(
            (starter.process(), starter.is_it(Pid::from_raw(7), 9), starter.is_away()),
            (None, false, false)
        );
        starter.end();
        assert_eq!((sent(&mut frames), starter.is_abandoned()), (vec![], false), "its job goes on");
        assert!(!starter.has_wire(3));
    }
}
