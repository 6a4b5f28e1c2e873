//! How many connections a user may have on the local socket, and what of him may wait there before he has
//! asked for something: a stranger costs the daemon a bounded amount of memory, and nobody else his turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Connections of one user.
const CONNECTIONS_MAX: u32 = 512;
/// Those of them that have not yet asked for anything.
const WAITING_MAX: u32 = 128;
/// Bytes of their requests.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of answers that they have not read, beside a last one.
const UNREAD_BYTES_MAX: usize = 16 << 20;
/// What reading requests of a user may cost: so many bytes a second in the long run,
const REQUEST_BYTES_PER_SECOND: u64 = 8 << 20;
/// and so many at once.
const REQUEST_BYTES_BURST: u64 = 32 << 20;
/// The shortest request counts as so many bytes.
const REQUEST_BYTES_MIN: usize = 4 << 10;

#[derive(Debug, Default)]
struct Count {
    connections: u32,
    waiting: u32,
    bytes: usize,
    unread: usize,
    /// When all that was read so far is paid for.
    paid_at: Option<Instant>,
}

/// All who are connected, by user.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionQuota(Arc<Mutex<HashMap<u32, Count>>>);

/// One connection, counted until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    quota: ConnectionQuota,
    uid: u32,
    waits: bool,
    bytes: usize,
}

impl ConnectionQuota {
    /// Counts a connection.
    ///
    /// # Errors
    /// When the user has too many; a text for him.
    pub(super) fn admit(&self, uid: u32) -> Result<ConnectionPermit, String> {
        let mut counts = self.counts();
        let count = counts.entry(uid).or_default();
        if count.waiting >= WAITING_MAX {
            return Err(format!(
                "{WAITING_MAX} connections of this user have sent no request: try again later"
            ));
        }
        if count.connections >= CONNECTIONS_MAX {
            return Err(format!("this user has {CONNECTIONS_MAX} connections: try again later"));
        }
        count.connections += 1;
        count.waiting += 1;
        Ok(ConnectionPermit { quota: self.clone(), uid, waits: true, bytes: 0 })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<u32, Count>> {
        // Nothing that could panic is done with it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Bytes of a request that is not whole.
    ///
    /// # Errors
    /// When the user has too many of them; a text for him.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), String> {
        let mut counts = self.quota.counts();
        let count = counts.entry(self.uid).or_default();
        count.charge(bytes);
        count.bytes += bytes;
        self.bytes += bytes;
        if count.bytes > BYTES_MAX {
            return Err("too many large requests of this user at once: try again later".into());
        }
        Ok(())
    }

    /// Waits until the user's earlier requests are paid for, up to a burst: parsing them must not take the
    /// cores from other users' jobs. The request that follows is then read at once.
    pub(super) async fn await_budget(&self) {
        loop {
            let delay = {
                let mut counts = self.quota.counts();
                let count = counts.entry(self.uid).or_default();
                let delay = count.delay(Instant::now());
                if delay.is_zero() {
                    count.charge(REQUEST_BYTES_MIN);
                    return;
                }
                delay
            };
            tokio::time::sleep(delay).await;
        }
    }

    /// For what its user is answered.
    pub(super) fn debts(&self) -> Debts {
        Debts { quota: self.quota.clone(), uid: self.uid }
    }

    /// It has asked for something.
    pub(super) fn is_known(&mut self) {
        let mut counts = self.quota.counts();
        let count = counts.entry(self.uid).or_default();
        count.waiting -= u32::from(std::mem::take(&mut self.waits));
        count.bytes -= std::mem::take(&mut self.bytes);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.is_known();
        let mut counts = self.quota.counts();
        let count = counts.entry(self.uid).or_default();
        count.connections -= 1;
        counts.retain(|_, count| count.is_needed());
    }
}

impl Count {
    fn is_needed(&self) -> bool {
        self.connections > 0 || self.unread > 0 || self.paid_at.is_some_and(|paid| paid > Instant::now())
    }

    fn charge(&mut self, bytes: usize) {
        let price = Duration::from_nanos(bytes as u64 * 1_000_000_000 / REQUEST_BYTES_PER_SECOND);
        let now = Instant::now();
        self.paid_at = Some(self.paid_at.map_or(now, |paid| paid.max(now)) + price);
    }

    /// How long to wait before more may be read.
    fn delay(&self, now: Instant) -> Duration {
        let burst = Duration::from_nanos(REQUEST_BYTES_BURST * 1_000_000_000 / REQUEST_BYTES_PER_SECOND);
        self.paid_at.map_or(Duration::ZERO, |paid| paid.saturating_duration_since(now + burst))
    }
}

/// What a user's programs have been answered and have not read.
#[derive(Clone, Debug)]
pub(super) struct Debts {
    quota: ConnectionQuota,
    uid: u32,
}

impl Debts {
    /// So much more is too much. Whoever reads what he is answered may have an answer of any length.
    pub(super) fn is_over(&self, bytes: usize) -> bool {
        let counts = self.quota.counts();
        let unread = counts.get(&self.uid).map_or(0, |count| count.unread);
        unread > 0 && unread + bytes > UNREAD_BYTES_MAX
    }

    /// So much waits to be written.
    pub(super) fn owe(&self, bytes: usize) {
        self.quota.counts().entry(self.uid).or_default().unread += bytes;
    }

    /// It has been written, or cannot be.
    pub(super) fn pay(&self, bytes: usize) {
        let mut counts = self.quota.counts();
        let Some(count) = counts.get_mut(&self.uid) else { return };
        count.unread = count.unread.saturating_sub(bytes);
        if !count.is_needed() {
            counts.remove(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_quota_is_per_user() {
        let quota = ConnectionQuota::default();
        let mut waiting: Vec<ConnectionPermit> = (0..WAITING_MAX).map(|_| quota.admit(7).unwrap()).collect();
        assert!(quota.admit(7).is_err());
        assert!(quota.admit(8).is_ok());
        waiting[0].is_known();
        let mut new = quota.admit(7).unwrap();
        assert!(new.hold(BYTES_MAX).is_ok() && waiting[1].hold(1).is_err());
        drop((new, waiting));
        let settle = || {
            let count = quota.counts().get_mut(&7).and_then(|count| count.paid_at.take());
            assert!(count.is_some_and(|paid| paid > Instant::now()), "what was read is not paid for yet");
            drop(quota.admit(7).unwrap());
        };
        settle();
        assert!(quota.counts().is_empty());
        let permit = quota.admit(7).unwrap();
        let debts = permit.debts();
        assert!(!debts.is_over(10 * UNREAD_BYTES_MAX), "it is the only one");
        debts.owe(UNREAD_BYTES_MAX);
        assert!(debts.is_over(1) && !quota.admit(8).unwrap().debts().is_over(1));
        drop(permit);
        assert!(debts.is_over(1), "they have not been written");
        debts.pay(UNREAD_BYTES_MAX);
        assert!(quota.counts().is_empty());
    }

    #[test]
    fn request_budget_bounds_a_users_bytes_over_time() {
        let begin = Instant::now();
        let mut count = Count::default();
        assert_eq!(count.delay(begin), Duration::ZERO);
        count.charge(REQUEST_BYTES_BURST as usize);
        let now = Instant::now();
        assert_eq!(count.delay(now), Duration::ZERO, "a burst goes at once");
        count.charge(8 * REQUEST_BYTES_PER_SECOND as usize);
        assert!(count.delay(begin) >= Duration::from_secs(8));
        assert!(count.delay(begin + Duration::from_secs(4)) >= Duration::from_secs(4));
        assert_eq!(count.delay(now + Duration::from_secs(8)), Duration::ZERO);
    }
}
