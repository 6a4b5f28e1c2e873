//! Stdin on its way from the front end to the ranks that get it: one piece at a time, said again each second until all have it.

use tutti_protocol::wire::Report;

use super::AGAIN_MS;
use crate::core::Core;
use crate::members::NodeId;
use crate::message::{JobId, Routed};

/// Stdin on its way to the ranks.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Nodes whose ranks get it.
    pub(super) takers: Vec<NodeId>,
    pub(super) piece: u64,
    pub(super) bytes: Vec<u8>,
    /// Who has not yet taken the piece.
    pub(super) waiting: Vec<NodeId>,
    pub(super) said_ms: u64,
}

impl Core {
    pub(super) fn put_input(&mut self, job: JobId, bytes: &[u8]) {
        let first = self.home.pieces;
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.input.piece = home.input.piece.max(first) + 1;
        home.input.bytes = bytes.to_vec();
        home.input.waiting = home.input.takers.clone();
        self.say_input(job);
    }

    pub(super) fn say_input(&mut self, job: JobId) {
        let now_ms = self.now_ms;
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.input.said_ms = now_ms;
        let (piece, bytes) = (home.input.piece, home.input.bytes.clone());
        for node in home.input.waiting.clone() {
            self.route(node, Routed::Input { job, piece, bytes: bytes.clone() });
        }
    }

    /// Pieces that some node has not taken are said again.
    pub(super) fn say_inputs_again(&mut self) {
        let now_ms = self.now_ms;
        let is_due = |input: &Input| !input.waiting.is_empty() && now_ms >= input.said_ms + AGAIN_MS;
        let due = self.home.homes.iter().filter(|(_, home)| is_due(&home.input));
        let due: Vec<JobId> = due.map(|(job, _)| *job).collect();
        due.into_iter().for_each(|job| self.say_input(job));
    }

    pub(in crate::core) fn handle_input_taken(
        &mut self,
        from: NodeId,
        job: JobId,
        piece: u64,
        unwanted: bool,
    ) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let input = &mut home.input;
        let waited = input.waiting.contains(&from);
        if unwanted {
            input.takers.retain(|node| *node != from);
        }
        if unwanted || piece == input.piece {
            input.waiting.retain(|node| *node != from);
        }
        if unwanted && input.takers.is_empty() {
            self.tell(job, &Report::InputUnwanted);
        } else if waited && input.waiting.is_empty() {
            self.tell(job, &Report::InputTaken);
        }
    }
}
