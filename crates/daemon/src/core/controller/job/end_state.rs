//! End of a job as far as it is known: which part causes it, with which status, and why.
//!
//! The first cause counts, what follows is a consequence of that. A job that one of its parts ends with
//! status 0 keeps that status, whatever the other parts report. [`super::JobRecord`] says when the
//! job ends; here is only what becomes of it.

use tutti_protocol::wire::Counted;

use super::kept::shorten;
use crate::members::NodeId;
use crate::message::{End, EndKind, Ending, JobEnd, Notice};

/// Lines of ranks and starters.
const CAUSE_BYTES_MAX: usize = 1 << 10;

/// End of a job, as far as it is known.
#[derive(Debug, Default)]
pub(in crate::core::controller) struct EndState {
    status: u8,
    /// A node has ended it with status 0: what the others report is a consequence.
    ends_well: bool,
    /// The part that ended the job.
    ender: Option<NodeId>,
    /// A user asked for its end.
    by_user: bool,
    /// Why it ended, as its user was told first.
    cause: Option<String>,
    /// The notice by which its user was warned of that.
    cause_notice: Option<u64>,
    /// A signal that was to end it, and who sent it; its user.
    signal: Option<(String, u32)>,
    /// In which way it ends.
    way: Ending,
}

impl EndState {
    /// Exit status, as far as it is known.
    pub(in crate::core::controller) fn status(&self) -> u8 {
        self.status
    }

    /// Why it ended.
    pub(in crate::core::controller) fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Whether a user asked for it.
    pub(in crate::core::controller) fn is_by_user(&self) -> bool {
        self.by_user
    }

    /// Whether it ends since another job takes its place.
    pub(in crate::core::controller) fn is_requeued(&self) -> bool {
        self.way.is(EndKind::Requeued)
    }

    /// The part that ended the job; none: no part did, or all are killed.
    pub(super) fn ender(&self) -> Option<NodeId> {
        self.ender
    }

    /// Begins the end: this part says so first, or none.
    pub(super) fn begin(&mut self, ender: Option<NodeId>, status: u8) {
        self.ender = ender;
        self.ends_well = ender.is_some() && status == 0;
    }

    /// All parts are killed, whichever began the end.
    pub(super) fn kill(&mut self) {
        self.ender = None;
    }

    /// Records the status of a part or rank: the first that is not 0 counts.
    pub(super) fn record_status(&mut self, status: u8) {
        if self.status == 0 && !self.ends_well {
            self.status = status;
        }
    }

    /// Records that a rank has ended by this signal.
    pub(super) fn record_kill(&mut self, signal: i32) {
        self.way.kill(signal);
    }

    /// Records the cause, unless one is known.
    pub(in crate::core::controller) fn record_cause(&mut self, kind: EndKind, text: String) {
        self.way.mark(kind);
        self.cause.get_or_insert(text);
    }

    /// The same, where this notice has said it, or is about to.
    pub(super) fn record_noticed_cause(&mut self, kind: EndKind, text: String, notice: usize) {
        if self.cause.is_none() {
            self.cause_notice = Some(notice as u64);
        }
        self.record_cause(kind, text);
    }

    /// In which way it ends, unless that is known.
    pub(in crate::core::controller) fn mark(&mut self, kind: EndKind) {
        self.way.mark(kind);
    }

    /// Records that a user asked for it.
    pub(in crate::core::controller) fn mark_by_user(&mut self) {
        self.by_user = true;
    }

    /// A user ends it.
    pub(in crate::core::controller) fn cancel(&mut self, uid: u32, text: String) {
        self.way.cancel(uid);
        self.cause.get_or_insert(text);
    }

    /// A user has sent a signal that is to end it.
    pub(in crate::core::controller) fn record_signal(&mut self, uid: u32, text: String) {
        self.by_user = true;
        self.signal = Some((text, uid));
    }

    /// All parts are over: a job that did not end well was ended by the signal that was to end it.
    pub(super) fn finish(&mut self) {
        if let Some((text, uid)) = self.signal.take().filter(|_| self.status != 0) {
            self.cancel(uid, text);
        }
    }

    /// Fails a job that has ended, or is about to, and whose output is nowhere: it has not ended well.
    pub(super) fn fail_late(&mut self, text: String) {
        self.record_cause(EndKind::Failed, text);
        self.ends_well = false;
        self.record_status(1);
    }

    /// Takes over what another controller has ordered.
    pub(super) fn learn(&mut self, end: End) {
        self.begin(end.by, end.status);
        (self.by_user, self.way) = (end.by_user, end.way);
        self.record_status(end.status);
    }

    /// The order that ends all parts.
    pub(super) fn order(&self) -> End {
        End { by: self.ender, status: self.status, by_user: self.by_user, way: self.way }
    }

    /// The end for an origin, with what that is to have of each node.
    pub(in crate::core::controller) fn notice(
        &self,
        written: Vec<(NodeId, u64)>,
        counted: Option<Counted>,
    ) -> Notice {
        let (status, cause, cause_report) = (self.status, self.cause.clone(), self.cause_notice);
        Notice::End { status, written, cause, counted, cause_report }
    }

    /// How it has ended, when it is over.
    pub(super) fn how_ended(&self) -> JobEnd {
        self.way.end(self.status)
    }

    /// Shortens what the list does not need at length.
    pub(super) fn shed(&mut self) {
        self.cause.iter_mut().for_each(|text| shorten(text, CAUSE_BYTES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_state_of_a_part_that_ends_well_stays_0() {
        let mut end = EndState::default();
        end.begin(Some(NodeId(1)), 0);
        end.record_status(0);
        end.record_status(143);
        assert_eq!((end.status(), end.ender()), (0, Some(NodeId(1))));
        end.fail_late("no file".into());
        assert_eq!((end.status(), end.cause()), (1, Some("no file")));
    }

    #[test]
    fn end_state_has_the_first_status_and_cause() {
        let mut end = EndState::default();
        end.begin(Some(NodeId(1)), 3);
        end.record_status(3);
        end.record_status(9);
        end.record_noticed_cause(EndKind::Memory, "first".into(), 4);
        end.record_noticed_cause(EndKind::Failed, "second".into(), 5);
        end.cancel(7, "third".into());
        let Notice::End { status, cause, cause_report, .. } = end.notice(Vec::new(), None) else {
            unreachable!()
        };
        assert_eq!((status, cause.as_deref(), cause_report), (3, Some("first"), Some(4)));
        assert_eq!(end.how_ended().kind, EndKind::Memory);
    }

    #[test]
    fn end_state_names_a_signal_only_if_it_ended_the_job() {
        let ended = |status| {
            let mut end = EndState::default();
            end.record_signal(7, "signal 15".into());
            end.begin(Some(NodeId(0)), status);
            end.record_status(status);
            end.finish();
            (end.is_by_user(), end.cause().map(str::to_owned), end.how_ended().kind)
        };
        assert_eq!(ended(0), (true, None, EndKind::Completed));
        assert_eq!(ended(143), (true, Some("signal 15".into()), EndKind::Cancelled));
    }

    #[test]
    fn end_state_is_learnt_from_its_order() {
        let mut end = EndState::default();
        end.begin(Some(NodeId(2)), 0);
        end.mark_by_user();
        let mut other = EndState::default();
        other.learn(end.order());
        other.record_status(9);
        assert_eq!(other.order(), end.order());
    }
}
