//! Output of the ranks here on its way to the job's origin, and stdin on its way to them.

use tutti_protocol::wire::Kind;

use super::Parts;
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::outbox::Outbox;
use crate::message::{JobId, Routed};

impl Parts {
    pub(in crate::core) fn handle_room(
        &mut self,
        cx: Context<'_>,
        job: JobId,
        have: Option<u64>,
        limit: u64,
    ) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        let before = part.outlet.base();
        part.outlet.handle_room(have, limit, cx.local.now_ms);
        let (base, origin, here) = (part.outlet.base(), part.launch.origin, part.here);
        if base > before {
            cx.out.act(Action::ToStarter(job, Kind::Taken, 0, base.to_le_bytes().to_vec()));
        }
        if have.is_none() && here {
            // The origin may have nothing to wait for. Where its output begins, a starter of an earlier
            // incarnation says when it is back.
            cx.out.route(origin, Routed::Data { job, offset: base, start: base, bytes: Vec::new() });
        }
    }

    pub(in crate::core) fn jobs(&self) -> Vec<JobId> {
        self.parts.keys().copied().collect()
    }

    /// Output of a job goes on its way, as far as its origin has room. `false`: no more.
    pub(in crate::core) fn send_output(&mut self, cx: Context<'_>, job: JobId) -> bool {
        let Some(part) = self.parts.get_mut(&job) else { return false };
        let Some((offset, bytes)) = part.outlet.poll(cx.local.now_ms) else { return false };
        let (origin, start) = (part.launch.origin, part.outlet.base());
        cx.out.route(origin, Routed::Data { job, offset, start, bytes });
        true
    }

    /// A starter whose output has room is listened to.
    pub(in crate::core) fn listen(&mut self, out: &Outbox, job: JobId) {
        let Some(part) = self.parts.get_mut(&job) else { return };
        let listens = part.alive && (part.outlet.has_room() || part.is_killed());
        if listens && std::mem::take(&mut part.ready) {
            out.act(Action::Listen(job));
        }
    }

    pub(in crate::core) fn handle_input(&mut self, out: &Outbox, job: JobId, piece: u64, bytes: Vec<u8>) {
        let Some(part) = self.parts.get_mut(&job).filter(|part| part.state.unbegun.is_none()) else {
            return;
        };
        // A starter that is back knows the lower half of the number.
        if part.piece as u32 == piece as u32 {
            part.piece = piece;
        }
        let has = piece <= part.piece;
        if part.unwanted || !part.alive || has && part.taken {
            self.ack_input(out, job);
        } else if !has && part.here {
            (part.piece, part.taken) = (piece, false);
            out.act(Action::ToStarter(job, Kind::Input, piece as u32, bytes));
        }
    }

    pub(super) fn ack_input(&mut self, out: &Outbox, job: JobId) {
        let Some(part) = self.parts.get(&job) else { return };
        let (origin, unwanted) = (part.launch.origin, part.unwanted || !part.alive);
        out.route(origin, Routed::InputTaken { job, piece: part.piece, unwanted });
    }
}
