//! How a job ends: why, with which status, and when its origin has all that it wrote.

use tutti_protocol::wire::{Counted, Report};

use super::{Absence, JobRecord};
use crate::members::NodeId;
use crate::message::{EndKind, JobEnd, Notice, Run};

impl JobRecord {
    /// The job ends everywhere; the first who says so gives the status. Without an ender it is killed at
    /// once, also one that ends itself.
    pub(in crate::core::controller) fn end_by(&mut self, ender: Option<NodeId>, status: u8) {
        if self.order.run != Run::Kill {
            self.order.run = Run::Kill;
            self.ender = ender;
            self.ends_well = ender.is_some() && status == 0;
        } else if ender.is_none() {
            self.ender = None;
        }
        self.record_status(status);
    }

    /// Records the first cause of its end: what follows is a consequence of that.
    pub(in crate::core::controller) fn record_cause(&mut self, kind: EndKind, text: String) {
        self.way.mark(kind);
        self.cause.get_or_insert(text);
    }

    /// The same, where a notice has said it, or is about to.
    pub(super) fn record_noticed_cause(&mut self, kind: EndKind, text: String, notice: usize) {
        if self.cause.is_none() {
            self.cause_notice = Some(notice as u64);
        }
        self.record_cause(kind, text);
    }

    /// Records the cause of its end, and warns its user of that with this line.
    pub(in crate::core::controller) fn warn_of_end(&mut self, kind: EndKind, cause: String, line: String) {
        self.record_noticed_cause(kind, cause, self.notices.len());
        self.report(Report::Warning(line));
    }

    /// How it ends for an origin, with what that is to have of each node.
    pub(in crate::core::controller) fn end_notice(
        &self,
        written: Vec<(NodeId, u64)>,
        counted: Option<Counted>,
    ) -> Notice {
        let (status, cause, cause_report) = (self.status, self.cause.clone(), self.cause_notice);
        Notice::End { status, written, cause, counted, cause_report }
    }

    /// The end, with what the origin is to have of each node; said again when a node has been lost since.
    pub(in crate::core::controller) fn report_end(&mut self, written: Vec<(NodeId, u64)>) {
        if self.written.as_ref() != Some(&written) {
            let counted = self.counted.values().copied().reduce(|mut all, part| {
                all.add(&part);
                all
            });
            self.notices.push(self.end_notice(written.clone(), counted));
            self.written = Some(written);
        }
    }

    /// In which way it ends, unless that is known.
    pub(in crate::core::controller) fn mark_end(&mut self, kind: EndKind) {
        self.way.mark(kind);
    }

    /// A user ends it.
    pub(in crate::core::controller) fn record_cancel(&mut self, uid: u32, text: String) {
        self.way.cancel(uid);
        self.cause.get_or_insert(text);
    }

    /// A user has sent a signal that is to end it.
    pub(in crate::core::controller) fn record_ending_signal(&mut self, uid: u32, text: String) {
        self.ended_by = Some((text, uid));
    }

    /// How it has ended, when it is over.
    pub(in crate::core::controller) fn how_ended(&self) -> Option<JobEnd> {
        self.over.then(|| self.way.end(self.status))
    }

    pub(in crate::core::controller) fn record_status(&mut self, status: u8) {
        if self.status == 0 && !self.ends_well {
            self.status = status;
        }
    }

    /// Fails a job that has ended, or is about to, and whose output is nowhere: it has not ended well.
    pub(in crate::core::controller) fn fail_late(&mut self, text: String) {
        self.record_cause(EndKind::Failed, text);
        self.ends_well = false;
        self.record_status(1);
    }

    /// The node is lost whose files it writes to: what it wrote is kept a while for a daemon that comes back.
    pub(in crate::core::controller) fn waits_for_origin(&mut self, now_ms: u64, keep_ms: u64) -> bool {
        let has_files = self.launch.output.is_some() && !self.launch.enrolled;
        if self.absence == Absence::None {
            self.absence = Absence::Until(now_ms + keep_ms);
        }
        has_files && matches!(self.absence, Absence::Until(until_ms) if now_ms < until_ms)
    }

    /// Ends the wait for the origin.
    pub(in crate::core::controller) fn lose_origin(&mut self, origin: &str) {
        self.absence = Absence::Final;
        if self.launch.output.is_some() {
            let text = format!(
                "node {origin}, where the job was submitted, did not come back: the end of the output is lost"
            );
            self.output.trouble.get_or_insert(text);
        }
    }

    /// Whether it is over, and its output is in its files.
    pub(in crate::core::controller) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether that is new.
    pub(in crate::core::controller) fn poll_done(&mut self) -> bool {
        let is_received = || self.order.forget || self.received >= self.notices.len() as u64;
        let is_written = || self.absence == Absence::Final || is_received();
        let done = self.over && (self.launch.output.is_none() || is_written());
        done && !std::mem::replace(&mut self.done, true)
    }

    /// Whether nobody may do anything to it that is not the job's own end.
    pub(in crate::core::controller) fn is_ending(&self) -> bool {
        self.over || self.order.run == Run::Kill
    }

    /// Whether it is over, or all of it is being killed: nothing of it may go on by itself.
    pub(in crate::core::controller) fn is_killed(&self) -> bool {
        self.over || self.order.run == Run::Kill && self.ender.is_none()
    }
}
