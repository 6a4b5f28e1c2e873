//! A strict switch: the channels of this node's ranks are tested, saved and compared while these are frozen
//! ([`crate::network_context`]).
//!
//! ```text
//! Context Test, g -> (all ranks are frozen) probes until steady -> ContextDone Test, g, steady?
//! Context Save, g -> a copy                                     -> ContextDone Save, g, 1
//! Context Restore, g' -> compared, sockets are the ranks'       -> ContextDone Restore, g', equal?
//! ```
//!
//! A job that is not frozen, or has no channels, is answered for at once.

use super::Starter;
use crate::network_context::NetworkContext;
use crate::parts::Parts;
use crate::readiness::now_ns;
use tutti_protocol::wire::{self, ContextStep, Kind, Report};

impl Starter {
    /// The daemon wants this done with the channels.
    pub(super) fn handle_context(&mut self, step: u32, payload: &[u8]) {
        let (Some(step), Some((generation, within_ns))) =
            (ContextStep::of_number(step), wire::two_numbers(payload))
        else {
            return;
        };
        match step {
            ContextStep::Test => self.begin_test(generation, within_ns),
            ContextStep::Save => {
                let is_saved = self.save_context();
                self.put_context_done(step, generation, is_saved);
            }
            ContextStep::Restore => {
                let is_equal = self.end_context();
                self.put_context_done(step, generation, is_equal);
            }
        }
    }

    fn begin_test(&mut self, generation: u64, within_ns: u64) {
        let is_frozen = self.is_job_frozen();
        let Parts { segment, peers, sockets, ranks, .. } = &self.parts;
        let has_channels = segment.is_some() && peers.is_some();
        self.context = match (segment, peers) {
            (Some(segment), Some((_, peers))) if is_frozen => {
                let is_here = |rank| !ranks.has_finalized(rank);
                let times = (now_ns(), within_ns);
                NetworkContext::begin((segment, peers, &sockets[..]), is_here, generation, times).ok()
            }
            _ => None,
        };
        if self.context.is_none() {
            // Without channels nothing is on its way.
            return self.put_context_done(ContextStep::Test, generation, !has_channels);
        }
        self.handle_context_time(now_ns());
    }

    /// Time has passed, or answers have come.
    pub(super) fn handle_context_time(&mut self, now_ns: u64) {
        let Some(context) = &mut self.context else { return };
        let Some(is_steady) = context.advance(now_ns) else { return };
        let (generation, took_ns) = (context.generation(), now_ns.saturating_sub(context.begun_ns()));
        self.log_debug(|| format!("switch {generation}: steady {is_steady} after {} us", took_ns / 1000));
        self.put_context_done(ContextStep::Test, generation, is_steady);
    }

    /// Datagrams have come for a rank that was frozen for a switch.
    pub(super) fn handle_frozen_socket(&mut self, rank: u32) {
        // One that runs reads them itself.
        if !self.is_job_frozen() {
            return self.drop_context();
        }
        if let (Some(context), Some(segment)) = (&mut self.context, &self.parts.segment) {
            context.handle_readable(rank, segment);
        }
        self.handle_context_time(now_ns());
    }

    /// The ranks run: a test that is under way is over, and is answered as any other.
    fn drop_context(&mut self) {
        if let Some(context) = self.context.take()
            && !context.is_tested()
        {
            self.put_context_done(ContextStep::Test, context.generation(), false);
        }
    }

    fn save_context(&mut self) -> bool {
        let (Some(context), Some(segment)) = (&mut self.context, &self.parts.segment) else { return false };
        let bytes = context.save(segment);
        self.log_debug(|| format!("{bytes} bytes of network context are saved"));
        true
    }

    /// Ranks are about to go on: returns whether nothing has changed since they were saved.
    fn end_context(&mut self) -> bool {
        let (Some(context), Some(segment)) = (self.context.take(), &self.parts.segment) else { return true };
        let Some(difference) = context.difference(segment) else { return true };
        let why = "a process has changed it meanwhile";
        self.report(&Report::Warning(format!("{difference} while the job was frozen: {why}")));
        false
    }

    fn put_context_done(&mut self, step: ContextStep, generation: u64, is_well: bool) {
        let numbers = [generation, u64::from(is_well)].map(u64::to_le_bytes).concat();
        let mut frame = Vec::new();
        wire::put(&mut frame, Kind::ContextDone, step as u32, &numbers);
        self.put(&frame);
    }
}
