//! What users send is served in turns ([`crate::core::ledger::queue`]): a connection puts one piece, and
//! reads on when that has been served. Whoever sends much, or what takes long, waits; the others do not.
//!
//! ```text
//! connection --UserEvents::serve--> FairQueue --serve_users--> core, actions
//!      ^-------------------- served ------------------------------'
//! ```

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use super::{Shell, ShellEvent, ShellEvents};
use crate::core::ledger::queue::FairQueue;
use crate::gang::now_ns;

/// So long users are served before sockets, links and the clock are looked at again.
const TURN: Duration = Duration::from_millis(5);

/// What a user has sent.
pub(super) struct Piece {
    event: ShellEvent,
    /// Dropped when it has been served.
    _served: Option<oneshot::Sender<()>>,
}

#[cfg(test)]
impl Piece {
    pub(super) fn into_event(self) -> ShellEvent {
        self.event
    }
}

/// What users have sent and is not served.
pub(super) type Pieces = FairQueue<Piece>;

/// A connection's way to the main loop.
#[derive(Clone, Debug)]
pub(super) struct UserEvents {
    pub uid: u32,
    pub shell_events: ShellEvents,
}

impl UserEvents {
    /// Returns when it has been served; `false`: the daemon ends.
    pub(super) async fn serve(&self, event: ShellEvent) -> bool {
        let (served, is_served) = oneshot::channel();
        let piece = Piece { event, _served: Some(served) };
        if self.shell_events.send(ShellEvent::OfUser(self.uid, Box::new(piece))).is_err() {
            return false;
        }
        // Nothing is sent by it: it is dropped.
        let _ = is_served.await;
        true
    }

    /// The same, and does not wait. For what has another bound.
    pub(super) fn put(&self, event: ShellEvent) -> bool {
        let piece = Piece { event, _served: None };
        self.shell_events.send(ShellEvent::OfUser(self.uid, Box::new(piece))).is_ok()
    }
}

impl Shell {
    /// Serves users in turns, for a while.
    pub(super) fn serve_users(&mut self) {
        let began = Instant::now();
        while let Some((uid, piece)) = self.pieces.take(now_ns()) {
            let before_ns = thread_ns();
            self.speaker = Some(uid);
            self.handle(piece.event);
            self.act();
            self.speaker = None;
            self.pieces.charge(now_ns(), uid, thread_ns().saturating_sub(before_ns));
            if began.elapsed() >= TURN {
                break;
            }
        }
    }

    /// When somebody is to be served; none: nothing waits.
    pub(super) fn serves_at(&self) -> Option<tokio::time::Instant> {
        let at_ns = self.pieces.timeout_ns()?;
        let left = Duration::from_nanos(at_ns.saturating_sub(now_ns()));
        Some(tokio::time::Instant::now() + left)
    }
}

/// Processor time of this thread.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
