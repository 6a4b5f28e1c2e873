//! End of a daemon: for good, because nobody needs it, or for the next one.

use std::time::Duration;

use tokio::time::Instant;

use super::clock::now_ms;
use super::starters::Starter;
use super::{Shell, orphans};
use crate::key::KeySource;

/// A daemon that is replaced writes so long what waits to be written, and looks so often whether it is.
const LAST_WRITES_MAX: Duration = Duration::from_secs(1);
const LAST_WRITES_LOOK: Duration = Duration::from_millis(2);

impl Shell {
    /// Ends this process alone: the next daemon takes its jobs over, as if this one had been killed.
    ///
    /// One whose key is in no file has no next one. In an allocation `scancel --signal` means the ranks,
    /// which have the signal too.
    ///
    /// What waits to be written to front ends is written first, unless they do not read: the next daemon has
    /// none of it.
    pub(super) async fn leave_to_next(&mut self) {
        if matches!(self.settings.key, KeySource::Text(_)) {
            return;
        }
        let deadline = Instant::now() + LAST_WRITES_MAX;
        while self.quota.has_unread() && Instant::now() < deadline {
            tokio::time::sleep(LAST_WRITES_LOOK).await;
        }
        tracing::info!("replaced (SIGUSR1): jobs wait for the next daemon");
        self.preparing.end_all();
        // No destructor: what is open is taken over as it is.
        std::process::exit(0)
    }

    /// A daemon that was started on demand goes when nobody has needed it for long enough.
    pub(super) fn leave_if_idle(&mut self) {
        let Some(leave_ms) = self.settings.delays.leave_ms else { return };
        let now_ms = now_ms();
        let is_at_work =
            !self.starters.is_empty() || !self.preparing.is_empty() || self.epilogs.has_waiting();
        if !self.clients.is_empty() || is_at_work || !self.core.is_idle() {
            self.needed_ms = now_ms;
        }
        // A clock that was set back begins anew.
        self.needed_ms = self.needed_ms.min(now_ms);
        self.leaving |= now_ms - self.needed_ms >= leave_ms;
    }

    /// The end: starters die with us, and their jobs with them.
    pub(super) async fn end(&mut self) {
        let _ = std::fs::remove_file(&self.settings.folders.socket);
        self.manifest.renounce();
        self.peers.clear();
        self.clients.clear();
        self.region_clients.clear();
        self.writers.clear();
        self.preparing.end_all();
        // All hear it before one is waited for.
        self.starters.values_mut().for_each(Starter::end);
        for (job, starter) in self.starters.drain() {
            starter.end_and_wait(self.wards.clone()).await;
            self.folder.remove(job);
        }
        // Nor do epilogs that have not begun, by a daemon that may never come.
        self.owed.load().into_iter().for_each(|(job, _)| self.owed.remove(job));
        for _ in 0..orphans::LAST_LOOKS {
            if !self.wards.end_orphans() {
                break;
            }
            tokio::time::sleep(orphans::PAUSE / 10).await;
        }
    }
}
