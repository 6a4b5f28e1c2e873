//! Turns in which what users send is served ([`crate::core::ledger::queue`]): a connection puts one piece,
//! and reads on when that has been served. Whoever sends much, or what takes long, waits; the others do not.
//!
//! ```text
//! connection --UserEvents::serve--> FairQueue --serve_users--> core, actions
//!      ^-------------------- served ------------------------------'
//! ```

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{mpsc, oneshot};

use crate::core::ledger::queue::FairQueue;
use crate::gang::now_ns;

/// Time for which users are served before sockets, links and the clock are looked at again.
pub(super) const TURN: Duration = Duration::from_millis(5);

/// Piece that a user has sent: an event of the main loop.
pub(super) struct Piece<E> {
    pub event: E,
    /// Dropped when it has been served.
    _served: Option<oneshot::Sender<()>>,
}

/// Pieces that users have sent and that are not served.
pub(super) type Pieces<E> = FairQueue<Piece<E>>;

/// A connection's way to the main loop, whose events can say that a user has sent a piece.
#[derive(Clone, Debug)]
pub(super) struct UserEvents<E> {
    pub uid: u32,
    pub shell_events: mpsc::UnboundedSender<E>,
}

impl<E: From<(u32, Piece<E>)>> UserEvents<E> {
    /// Returns when it has been served; `false`: the daemon ends.
    pub(super) async fn serve(&self, event: E) -> bool {
        let (served, is_served) = oneshot::channel();
        let piece = Piece { event, _served: Some(served) };
        if self.shell_events.send(E::from((self.uid, piece))).is_err() {
            return false;
        }
        // Nothing is sent by it: it is dropped.
        let _ = is_served.await;
        true
    }

    /// The same, and does not wait. For what has another bound.
    pub(super) fn put(&self, event: E) -> bool {
        let piece = Piece { event, _served: None };
        self.shell_events.send(E::from((self.uid, piece))).is_ok()
    }
}

/// When the first of the pieces is to be served; none: nothing waits.
pub(super) fn serves_at<E>(pieces: &Pieces<E>) -> Option<tokio::time::Instant> {
    let at_ns = pieces.timeout_ns()?;
    let left = Duration::from_nanos(at_ns.saturating_sub(now_ns()));
    Some(tokio::time::Instant::now() + left)
}

/// Processor time of this thread, in ns.
pub(super) fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
