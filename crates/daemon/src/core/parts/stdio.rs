//! Output of the ranks here on its way to the job's origin, and stdin on its way to them.

use tutti_protocol::wire::Kind;

use crate::core::{Action, Core};
use crate::message::{JobId, Routed, Run};

impl Core {
    pub(in crate::core) fn handle_room(&mut self, job: JobId, have: Option<u64>, limit: u64) {
        let Some(part) = self.parts.parts.get_mut(&job) else { return };
        let before = part.outlet.base();
        part.outlet.handle_room(have, limit, self.now_ms);
        let (base, origin, here) = (part.outlet.base(), part.launch.origin, part.here);
        if base > before {
            self.act(Action::ToStarter(job, Kind::Taken, 0, base.to_le_bytes().to_vec()));
        }
        if have.is_none() && here {
            // The origin may have nothing to wait for. Where its output begins, a starter of an earlier
            // incarnation says when it is back.
            self.route(origin, Routed::Data { job, offset: base, start: base, bytes: Vec::new() });
        }
    }

    /// Output goes on its way; starters whose output has room are listened to.
    pub(in crate::core) fn flush_parts(&mut self) {
        let jobs: Vec<JobId> = self.parts.parts.keys().copied().collect();
        for job in jobs {
            let now_ms = self.now_ms;
            while let Some(part) = self.parts.parts.get_mut(&job)
                && let Some((offset, bytes)) = part.outlet.poll(now_ms)
            {
                let (origin, start) = (part.launch.origin, part.outlet.base());
                self.route(origin, Routed::Data { job, offset, start, bytes });
            }
            let Some(part) = self.parts.parts.get_mut(&job) else { continue };
            let listens = part.alive && (part.outlet.has_room() || part.run == Run::Kill);
            if listens && std::mem::take(&mut part.ready) {
                self.act(Action::Listen(job));
            }
        }
    }

    pub(in crate::core) fn handle_input(&mut self, job: JobId, piece: u64, bytes: Vec<u8>) {
        let Some(part) = self.parts.parts.get_mut(&job).filter(|part| part.state.unbegun.is_none()) else {
            return;
        };
        // A starter that is back knows the lower half of the number.
        if part.piece as u32 == piece as u32 {
            part.piece = piece;
        }
        let has = piece <= part.piece;
        if part.unwanted || !part.alive || has && part.taken {
            self.ack_input(job);
        } else if !has && part.here {
            (part.piece, part.taken) = (piece, false);
            self.act(Action::ToStarter(job, Kind::Input, piece as u32, bytes));
        }
    }

    pub(super) fn ack_input(&mut self, job: JobId) {
        let Some(part) = self.parts.parts.get(&job) else { return };
        let (origin, unwanted) = (part.launch.origin, part.unwanted || !part.alive);
        self.route(origin, Routed::InputTaken { job, piece: part.piece, unwanted });
    }
}
