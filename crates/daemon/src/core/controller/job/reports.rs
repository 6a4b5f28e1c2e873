//! Reports of a job for its origin: each is sent until the origin has it.
//!
//! ```text
//! push --> take_unreceived --Routed::Reports(first, ...)--> origin
//!              ^                                              |
//!              '-- is_due: unanswered for RESEND_MS           |
//!          record_received <--number of the first one missing-'
//! ```
//!
//! Used by [`super::JobRecord`] and by the controller, which sends them. Never drops one that the origin may
//! lack, but with all of a job that is forgotten ([`Reports::clear`]).

use crate::message::Notice;
use tutti_protocol::wire::Report;

/// Reports without an answer are sent again after this time.
const RESEND_MS: u64 = 1000;

/// Reports of a job, and how many of them its origin has.
#[derive(Debug, Default)]
pub(in crate::core::controller) struct Reports {
    notices: Vec<Notice>,
    received: u64,
    sent_ms: u64,
}

impl Reports {
    pub(super) fn new(first: Option<Notice>) -> Self {
        Reports { notices: first.into_iter().collect(), ..Reports::default() }
    }

    pub(in crate::core::controller) fn push(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Number of the next one.
    pub(in crate::core::controller) fn next(&self) -> usize {
        self.notices.len()
    }

    /// Reports from this number on.
    pub(in crate::core::controller) fn from(&self, number: usize) -> &[Notice] {
        &self.notices[number..]
    }

    /// Whether the origin has all.
    pub(in crate::core::controller) fn are_received(&self) -> bool {
        self.received >= self.notices.len() as u64
    }

    /// Takes what the origin does not have, with the number of the first: it is sent now.
    pub(in crate::core::controller) fn take_unreceived(&mut self, now_ms: u64) -> Option<(u64, Vec<Notice>)> {
        if self.are_received() {
            return None;
        }
        self.sent_ms = now_ms;
        Some((self.received, self.from(self.received as usize).to_vec()))
    }

    /// Records that the origin has those below this number. `true`: it has more than was known.
    pub(in crate::core::controller) fn record_received(&mut self, below: u64) -> bool {
        let before = self.received;
        self.received = before.max(below.min(self.notices.len() as u64));
        self.received > before
    }

    /// Records that nothing is to be sent to the origin any more.
    pub(in crate::core::controller) fn give_up(&mut self) {
        self.received = self.notices.len() as u64;
    }

    /// Whether they are to be sent again.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        !self.are_received() && now_ms >= self.sent_ms + RESEND_MS
    }

    /// Sends those that are open without waiting for an answer to the last ones.
    pub(in crate::core::controller) fn hasten(&mut self) {
        self.sent_ms = 0;
    }

    /// Sends all anew: the origin has lost them.
    pub(in crate::core::controller) fn begin_anew(&mut self) {
        (self.received, self.sent_ms) = (0, 0);
    }

    /// Says of the job's places that it has no front end.
    pub(super) fn detach(&mut self) {
        for notice in &mut self.notices {
            if let Notice::Placed { has_front_end, .. } = notice {
                *has_front_end = false;
            }
        }
    }

    /// The last warning of the user, with its number.
    pub(super) fn last_warning(&self) -> Option<(usize, &str)> {
        self.notices.iter().enumerate().rev().find_map(|(number, notice)| match notice {
            Notice::Report(Report::Warning(text)) => Some((number, text.as_str())),
            _ => None,
        })
    }

    /// Drops all.
    pub(super) fn clear(&mut self) {
        (self.notices, self.received) = (Vec::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(text: &str) -> Notice {
        Notice::Report(Report::Warning(text.into()))
    }

    fn reports(texts: &[&str]) -> Reports {
        let mut reports = Reports::new(None);
        texts.iter().for_each(|text| reports.push(warning(text)));
        reports
    }

    #[test]
    fn reports_are_sent_until_the_origin_has_them() {
        let mut reports = reports(&["a", "b"]);
        assert!(reports.is_due(5000));
        assert_eq!(reports.take_unreceived(5000), Some((0, vec![warning("a"), warning("b")])));
        assert!(!reports.is_due(5000 + RESEND_MS - 1) && reports.is_due(5000 + RESEND_MS));
        assert!(reports.record_received(1));
        assert_eq!(reports.take_unreceived(6000), Some((1, vec![warning("b")])));
        assert!(reports.record_received(2) && reports.are_received());
        assert!(!reports.is_due(u64::MAX));
        assert_eq!(reports.take_unreceived(7000), None);
    }

    #[test]
    fn reports_received_neither_fall_nor_pass_the_last_one() {
        let mut reports = reports(&["a", "b"]);
        assert!(reports.record_received(9));
        reports.push(warning("c"));
        assert!(!reports.record_received(1));
        assert_eq!(reports.take_unreceived(0), Some((2, vec![warning("c")])));
    }

    #[test]
    fn reports_of_an_origin_that_begins_anew_are_all_sent_again() {
        let mut reports = reports(&["a"]);
        reports.give_up();
        assert!(reports.are_received());
        reports.begin_anew();
        assert!(reports.is_due(RESEND_MS));
        assert_eq!(reports.take_unreceived(0), Some((0, vec![warning("a")])));
    }

    #[test]
    fn reports_that_are_hastened_are_due_at_once() {
        let mut reports = reports(&["a"]);
        reports.take_unreceived(9000);
        assert!(!reports.is_due(9001));
        reports.hasten();
        assert!(reports.is_due(9001));
    }

    #[test]
    fn reports_know_their_last_warning() {
        let mut reports = reports(&["a", "b"]);
        reports.push(Notice::Resumed);
        assert_eq!(reports.last_warning(), Some((1, "b")));
        assert_eq!(reports.from(2), [Notice::Resumed]);
    }
}
