//! Stdin on its way from the front end to the ranks that get it: one piece at a time, said again each second
//! until all have it.

use tutti_protocol::wire::Report;

use super::{Origin, RESEND_MS};
use crate::core::context::Context;
use crate::core::outbox::Outbox;
use crate::members::NodeId;
use crate::message::{JobId, Routed};

/// Stdin on its way to the ranks.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Nodes whose ranks get it.
    pub(super) takers: Vec<NodeId>,
    pub(super) piece: u64,
    /// Whether it came before it was known who takes it.
    pub(super) is_early: bool,
    /// Before the first piece of the front end that is there.
    pub(super) first: u64,
    pub(super) bytes: Vec<u8>,
    /// Nodes that have not yet taken the piece.
    pub(super) waiting: Vec<NodeId>,
    pub(super) sent_ms: u64,
}

impl Origin {
    /// A piece of the front end; without a number it is one of an earlier release, which counts none.
    pub(super) fn put_input(&mut self, cx: Context<'_>, job: JobId, (number, bytes): (u32, &[u8])) {
        let first = self.pieces;
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.input.piece = match number {
            0 => entry.input.piece.max(first) + 1,
            number => entry.input.first + u64::from(number),
        };
        entry.input.bytes = bytes.to_vec();
        entry.input.waiting = entry.input.takers.clone();
        entry.input.is_early = entry.streams.is_empty();
        self.send_input(cx, job);
    }

    /// Sets who takes input, now that it is known: what came before goes to them with the next tick.
    pub(super) fn begin_taking(&mut self, job: JobId, takers: Vec<NodeId>) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.input.takers = takers;
        if std::mem::take(&mut entry.input.is_early) {
            (entry.input.waiting, entry.input.sent_ms) = (entry.input.takers.clone(), 0);
        }
    }

    /// A new front end hears from where on its pieces count.
    pub(super) fn begin_input(&mut self, out: &Outbox, job: JobId) {
        let first = self.pieces;
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.input.first = entry.input.piece.max(first);
        let pieces = Report::Pieces(entry.input.first);
        self.report(out, job, &pieces);
    }

    pub(super) fn send_input(&mut self, cx: Context<'_>, job: JobId) {
        let now_ms = cx.local.now_ms;
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.input.sent_ms = now_ms;
        let (piece, bytes) = (entry.input.piece, entry.input.bytes.clone());
        for node in entry.input.waiting.clone() {
            cx.out.route(node, Routed::Input { job, piece, bytes: bytes.clone() });
        }
    }

    /// Pieces that some node has not taken are said again.
    pub(super) fn resend_inputs(&mut self, cx: Context<'_>) {
        let now_ms = cx.local.now_ms;
        let is_due = |input: &Input| !input.waiting.is_empty() && now_ms >= input.sent_ms + RESEND_MS;
        let due = self.jobs.iter().filter(|(_, entry)| is_due(&entry.input));
        let due: Vec<JobId> = due.map(|(job, _)| *job).collect();
        due.into_iter().for_each(|job| self.send_input(cx, job));
    }

    pub(in crate::core) fn handle_input_taken(
        &mut self,
        out: &Outbox,
        from: NodeId,
        job: JobId,
        piece: u64,
        unwanted: bool,
    ) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let input = &mut entry.input;
        let waited = input.waiting.contains(&from);
        if unwanted {
            input.takers.retain(|node| *node != from);
        }
        if unwanted || piece == input.piece {
            input.waiting.retain(|node| *node != from);
        }
        if unwanted && input.takers.is_empty() {
            self.report(out, job, &Report::InputUnwanted);
        } else if waited && input.waiting.is_empty() {
            self.report(out, job, &Report::InputTaken);
        }
    }
}
