//! The ledger of users ([`crate::core::ledger`]) as connections and starters use it: each keeps a permit, and
//! what it has taken goes back when the permit is dropped. A stranger costs the daemon a bounded amount of
//! memory, and nobody else its turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::core::ledger::{Excess, Ledger};
use crate::gang::now_ns;

/// The shortest request counts as so many bytes.
const REQUEST_BYTES_MIN: usize = 4 << 10;
/// Bytes before a line in the log: time, level, node.
const PREFIX_BYTES: usize = 48;

/// All who are connected, by user.
#[derive(Clone, Debug)]
pub(super) struct ConnectionQuota(Arc<Mutex<Ledger>>);

/// One connection, counted until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    quota: ConnectionQuota,
    uid: u32,
    waits: bool,
    bytes: usize,
}

/// Descriptors, counted until it is dropped.
#[derive(Debug)]
pub(super) struct DescriptorPermit {
    quota: ConnectionQuota,
    uid: u32,
    count: u64,
}

impl ConnectionQuota {
    /// Of a daemon of this user's, which may open so many descriptors.
    pub(super) fn new(owner: u32, descriptors: u64) -> Self {
        ConnectionQuota(Arc::new(Mutex::new(Ledger::new(owner, descriptors))))
    }

    /// Counts a connection.
    ///
    /// # Errors
    /// When the user has too many; a text for him.
    pub(super) fn admit(&self, uid: u32) -> Result<ConnectionPermit, Excess> {
        self.ledger().connect(uid)?;
        Ok(ConnectionPermit { quota: self.clone(), uid, waits: true, bytes: 0 })
    }

    /// Counts descriptors that are opened for a job of this user's.
    ///
    /// # Errors
    /// When the user has too many; a text for him.
    pub(super) fn take_descriptors(&self, uid: u32, count: u64) -> Result<DescriptorPermit, Excess> {
        self.ledger().take_descriptors(uid, count)?;
        Ok(DescriptorPermit { quota: self.clone(), uid, count })
    }

    /// Gives `put` a line that a user causes, with the number of those that had no room before; nothing where
    /// this one has none.
    pub(super) fn log(&self, uid: u32, text: &str, put: impl FnOnce(u64)) {
        let room = self.ledger().try_log(now_ns(), uid, PREFIX_BYTES + text.len());
        if let Some(left_out) = room {
            put(left_out);
        }
    }

    /// The same of a kind of lines that are only said now and then.
    pub(super) fn log_seldom(&self, uid: u32, kind: &'static str, text: &str, put: impl FnOnce(u64)) {
        let bytes = PREFIX_BYTES + text.len();
        let room = self.ledger().try_log_seldom(now_ns(), uid, kind, bytes);
        if let Some(left_out) = room {
            put(left_out);
        }
    }

    /// Whether something waits to be written to somebody.
    pub(super) fn has_unread(&self) -> bool {
        self.ledger().has_unread()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Nothing that could panic is done with it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        self.quota.ledger().return_descriptors(self.uid, self.count);
    }
}

impl ConnectionPermit {
    /// User of the connection.
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Bytes of a request have been read.
    ///
    /// # Errors
    /// When the user has too many of them; a text for him.
    pub(super) fn hold_request(&mut self, bytes: usize) -> Result<(), Excess> {
        self.quota.ledger().charge_reading(now_ns(), self.uid, bytes);
        self.hold(bytes)
    }

    /// Bytes of anything have been read, and are kept until they are served.
    ///
    /// # Errors
    /// When the user has too many of them; a text for him.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Excess> {
        self.bytes += bytes;
        self.quota.ledger().keep(self.uid, bytes)
    }

    /// All but so many bytes are served.
    pub(super) fn release_to(&mut self, left: usize) {
        let served = self.bytes.saturating_sub(left);
        self.bytes -= served;
        self.quota.ledger().release(self.uid, served);
    }

    /// Waits until the user's earlier requests are paid for, up to a burst: parsing them must not take the
    /// cores from other users' jobs. The request that follows is then read at once.
    pub(super) async fn await_budget(&self) {
        loop {
            let delay_ns = {
                let mut ledger = self.quota.ledger();
                let now_ns = now_ns();
                let delay_ns = ledger.reading_delay_ns(now_ns, self.uid);
                if delay_ns == 0 {
                    ledger.charge_reading(now_ns, self.uid, REQUEST_BYTES_MIN);
                    return;
                }
                delay_ns
            };
            tokio::time::sleep(Duration::from_nanos(delay_ns)).await;
        }
    }

    /// For what its user is answered.
    pub(super) fn debts(&self) -> Debts {
        Debts { quota: self.quota.clone(), uid: self.uid }
    }

    /// Notes that the connection has asked for something.
    pub(super) fn is_known(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.quota.ledger().know(self.uid);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.is_known();
        self.release_to(0);
        self.quota.ledger().disconnect(now_ns(), self.uid);
    }
}

/// Answers to a user's programs that they have not read.
#[derive(Clone, Debug)]
pub(super) struct Debts {
    quota: ConnectionQuota,
    uid: u32,
}

impl Debts {
    /// User whose debts they are.
    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether so much more is too much. Whoever reads what he is answered may have an answer of any length.
    pub(super) fn is_over(&self, bytes: usize) -> bool {
        self.quota.ledger().is_unread_over(self.uid, bytes)
    }

    /// Notes that so much waits to be written.
    pub(super) fn owe(&self, bytes: usize) {
        self.quota.ledger().owe(self.uid, bytes);
    }

    /// Notes that so much has been written, or cannot be.
    pub(super) fn pay(&self, bytes: usize) {
        self.quota.ledger().pay(now_ns(), self.uid, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_permit_gives_back_what_it_has_taken() {
        let quota = ConnectionQuota::new(0, 10_000);
        let mut permit = quota.admit(7).unwrap();
        let debts = permit.debts();
        assert!(permit.hold(10 << 20).is_ok() && permit.hold(10 << 20).is_err());
        permit.release_to(1 << 20);
        assert!(permit.hold(10 << 20).is_ok());
        let job = quota.take_descriptors(7, 20).unwrap();
        debts.owe(7);
        drop(permit);
        drop(job);
        debts.pay(7);
        let before = format!("{:?}", ConnectionQuota::new(0, 10_000));
        assert_eq!(format!("{quota:?}"), before, "nothing is kept of who has gone");
    }
}
