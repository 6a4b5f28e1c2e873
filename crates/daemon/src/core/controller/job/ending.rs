//! How a job ends: why, with which status, and when its origin has all that it wrote.

use tutti_protocol::wire::Report;

use super::{Absence, JobRecord};
use crate::members::NodeId;
use crate::message::{EndKind, JobEnd, Run};

impl JobRecord {
    /// The job ends everywhere; the first who says so gives the status. Without an ender it is killed at
    /// once, also one that ends itself.
    pub(in crate::core::controller) fn end_by(&mut self, ender: Option<NodeId>, status: u8) {
        if self.order.run != Run::Kill {
            self.order.run = Run::Kill;
            self.end.begin(ender, status);
        } else if ender.is_none() {
            self.end.kill();
        }
        self.end.record_status(status);
    }

    /// Records the cause of its end, and warns its user of that with this line.
    pub(in crate::core::controller) fn warn_of_end(&mut self, kind: EndKind, cause: String, line: String) {
        self.end.record_noticed_cause(kind, cause, self.reports.next());
        self.report(Report::Warning(line));
    }

    /// The end, with what the origin is to have of each node; said again when a node has been lost since.
    pub(in crate::core::controller) fn report_end(&mut self, written: Vec<(NodeId, u64)>) {
        if self.written.as_ref() != Some(&written) {
            let counted = self.counted.values().copied().reduce(|mut all, part| {
                all.add(&part);
                all
            });
            self.reports.push(self.end.notice(written.clone(), counted));
            self.written = Some(written);
        }
    }

    /// How it has ended, when it is over.
    pub(in crate::core::controller) fn how_ended(&self) -> Option<JobEnd> {
        self.over.then(|| self.end.how_ended())
    }

    /// A node is gone, with all that ran on it.
    pub(in crate::core::controller) fn lose_node(&mut self, node: NodeId, name: &str) {
        if self.launch.has_node(node) && self.lost.insert(node) {
            let is_news = !self.is_ending() && !self.end.is_by_user();
            self.end_by(Some(node), 1);
            if is_news {
                self.end.mark(EndKind::NodeLost);
                let what = match self.launch.index(node) {
                    Some(_) => "its ranks are lost",
                    None => "which the job was given for its steps",
                };
                let text = format!("node {name} does not answer any more, {what}; the job is ended");
                self.warn_of_end(EndKind::NodeLost, text.clone(), text);
            }
        } else if self.launch.origin == node && !self.detached {
            self.end.mark(EndKind::NodeLost);
            self.end_by(None, 1);
        }
        self.reports.hasten();
    }

    /// Fails a job that has ended, or is about to, and whose output is nowhere: it has not ended well.
    pub(in crate::core::controller) fn fail_late(&mut self, text: String) {
        self.end.fail_late(text);
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
        let is_received = || self.order.forget || self.reports.are_received();
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
        self.over || self.order.run == Run::Kill && self.end.ender().is_none()
    }
}
