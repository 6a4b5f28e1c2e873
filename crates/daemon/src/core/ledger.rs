//! Costs of each user to this daemon: connections, bytes, descriptors, lines in the log, processor time. A
//! user is who the kernel names. Pure: no clock, no sockets; `crate::shell` asks before it accepts, reads or
//! logs.
//!
//! | account of a user | bound | beyond it |
//! |---|---|---|
//! | connections, and those without a request | [`CONNECTIONS_MAX`], [`WAITING_MAX`] | refused |
//! | bytes of requests and frames that are not whole or not served | [`BYTES_MAX`] | refused, closed |
//! | bytes of answers that are not read | [`UNREAD_BYTES_MAX`] | refused |
//! | bytes of requests a second | [`READ_PER_SECOND`] | reading waits |
//! | bytes in the log a second | [`LOG_PER_SECOND`] | lines are left out, and counted |
//! | lines of one kind in an hour, where nobody need cause one | [`SELDOM_MAX`] | the same |
//! | descriptors | as many as are still free | refused |
//! | processor time of the main loop | [`queue`]: an equal part of it, and no more than a part of a core | reading waits |
//!
//! The owner of the daemon has no bound of descriptors and of processor time: some are kept for it.

use std::collections::BTreeMap;

pub mod queue;

/// Connections of one user.
pub const CONNECTIONS_MAX: u32 = 512;
/// Connections of one user that have not yet asked for anything.
pub const WAITING_MAX: u32 = 128;
/// Bytes that it has sent and that are not served: of requests and of frames.
pub const BYTES_MAX: usize = 16 << 20;
/// Bytes of answers that it has not read, beside a last one.
pub const UNREAD_BYTES_MAX: usize = 16 << 20;
/// Bytes of requests a second in the long run,
const READ_PER_SECOND: u64 = 8 << 20;
/// and at once.
const READ_BURST: u64 = 32 << 20;
/// Bytes in the log a second in the long run,
const LOG_PER_SECOND: u64 = 256;
/// and at once.
pub const LOG_BURST: u64 = 64 << 10;
/// Descriptors that are kept for the daemon itself and for its owner.
pub const DESCRIPTORS_RESERVED: u64 = 64;

/// Lines of one kind about a user who does what nobody need do, in an hour.
pub const SELDOM_MAX: u64 = 8;

const SECOND_NS: u64 = 1_000_000_000;
const SELDOM_NS: u64 = 3600 * SECOND_NS;

/// Amount a second in the long run, and amount at once.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: u64,
    burst: u64,
}

const READ: Rate = Rate { per_second: READ_PER_SECOND, burst: READ_BURST };
const LOG: Rate = Rate { per_second: LOG_PER_SECOND, burst: LOG_BURST };

/// Use that was made of a [`Rate`]: when all of it is paid for.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    paid_ns: u64,
}

impl Bucket {
    fn charge(&mut self, rate: Rate, now_ns: u64, amount: u64) {
        let price_ns = u128::from(amount) * u128::from(SECOND_NS) / u128::from(rate.per_second);
        self.paid_ns = self.paid_ns.max(now_ns).saturating_add(u64::try_from(price_ns).unwrap_or(u64::MAX));
    }

    /// How long to wait before more may be had.
    fn delay_ns(&self, rate: Rate, now_ns: u64) -> u64 {
        let burst_ns = u128::from(rate.burst) * u128::from(SECOND_NS) / u128::from(rate.per_second);
        self.paid_ns.saturating_sub(now_ns.saturating_add(burst_ns as u64))
    }

    fn is_paid(&self, now_ns: u64) -> bool {
        self.paid_ns <= now_ns
    }
}

#[derive(Debug, Default)]
struct Account {
    connections: u32,
    waiting: u32,
    bytes: usize,
    unread: usize,
    descriptors: u64,
    read: Bucket,
    log: Bucket,
    /// Lines that had no room since the last one that had.
    left_out: u64,
    /// Lines by their kind that are only said now and then: how many, and since when they are counted.
    seldom: BTreeMap<&'static str, (u64, u64)>,
}

impl Account {
    fn is_needed(&self, now_ns: u64) -> bool {
        self.connections > 0
            || self.unread > 0
            || self.bytes > 0
            || self.descriptors > 0
            || self.left_out > 0
            || self.seldom.values().any(|(_, since_ns)| now_ns < since_ns + SELDOM_NS)
            || !self.read.is_paid(now_ns)
            || !self.log.is_paid(now_ns)
    }
}

/// Why a user is not given more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// Connections that ask for nothing.
    #[error("{WAITING_MAX} connections of this user have sent no request: try again later")]
    Waiting,
    /// Connections.
    #[error("this user has {CONNECTIONS_MAX} connections: try again later")]
    Connections,
    /// Bytes.
    #[error("too many large requests of this user at once: try again later")]
    Bytes,
    /// Descriptors: it has as many as are free.
    #[error(
        "this user's jobs and connections have {0} of the daemon's descriptors, and as many must stay free"
    )]
    Descriptors(u64),
}

/// The accounts of all users.
#[derive(Debug)]
pub struct Ledger {
    accounts: BTreeMap<u32, Account>,
    /// User who is not bounded by descriptors.
    owner: u32,
    /// Descriptors that users may have together.
    descriptors: u64,
}

impl Ledger {
    /// `descriptors`: how many the daemon may open.
    pub fn new(owner: u32, descriptors: u64) -> Self {
        let descriptors = descriptors.saturating_sub(DESCRIPTORS_RESERVED);
        Ledger { accounts: BTreeMap::new(), owner, descriptors }
    }

    /// Counts a connection, which has not asked for anything.
    ///
    /// # Errors
    /// When the user has too many.
    pub fn connect(&mut self, user: u32) -> Result<(), Excess> {
        let account = self.accounts.entry(user).or_default();
        if account.waiting >= WAITING_MAX {
            return Err(Excess::Waiting);
        }
        if account.connections >= CONNECTIONS_MAX {
            return Err(Excess::Connections);
        }
        self.take_descriptors(user, 1)?;
        let account = self.accounts.entry(user).or_default();
        account.connections += 1;
        account.waiting += 1;
        Ok(())
    }

    /// A connection has asked for something.
    pub fn know(&mut self, user: u32) {
        self.change(user, |account| account.waiting = account.waiting.saturating_sub(1));
    }

    /// Takes off a connection that is gone. One that never asked for anything is to be
    /// [known](Self::know) first.
    pub fn disconnect(&mut self, now_ns: u64, user: u32) {
        self.change(user, |account| account.connections = account.connections.saturating_sub(1));
        self.return_descriptors(user, 1);
        self.forget(now_ns);
    }

    /// Takes so many descriptors more for a user. A user may have as many as are free then: of n who
    /// want all each has one part in n + 1, and half of such a part is there for the next one that comes.
    ///
    /// # Errors
    /// When it has more already.
    pub fn take_descriptors(&mut self, user: u32, more: u64) -> Result<(), Excess> {
        let taken: u64 = self.accounts.values().map(|account| account.descriptors).sum();
        let account = self.accounts.entry(user).or_default();
        let free = self.descriptors.saturating_sub(taken + more);
        if user != self.owner && account.descriptors + more > free {
            return Err(Excess::Descriptors(account.descriptors));
        }
        account.descriptors += more;
        Ok(())
    }

    /// Takes off descriptors that are closed.
    pub fn return_descriptors(&mut self, user: u32, fewer: u64) {
        self.change(user, |account| account.descriptors = account.descriptors.saturating_sub(fewer));
    }

    /// Bytes of a request have come, or of a frame. They are kept until they are [released](Self::release).
    ///
    /// # Errors
    /// When there are too many.
    pub fn keep(&mut self, user: u32, bytes: usize) -> Result<(), Excess> {
        let account = self.accounts.entry(user).or_default();
        account.bytes += bytes;
        if account.bytes > BYTES_MAX { Err(Excess::Bytes) } else { Ok(()) }
    }

    /// Takes off bytes that are served.
    pub fn release(&mut self, user: u32, bytes: usize) {
        self.change(user, |account| account.bytes = account.bytes.saturating_sub(bytes));
    }

    /// Bytes of requests have been read, which takes time.
    pub fn charge_reading(&mut self, now_ns: u64, user: u32, bytes: usize) {
        self.accounts.entry(user).or_default().read.charge(READ, now_ns, bytes as u64);
    }

    /// Time for which a user's next request is not read.
    pub fn reading_delay_ns(&self, now_ns: u64, user: u32) -> u64 {
        self.accounts.get(&user).map_or(0, |account| account.read.delay_ns(READ, now_ns))
    }

    /// Whether something waits to be written to somebody.
    pub fn has_unread(&self) -> bool {
        self.accounts.values().any(|account| account.unread > 0)
    }

    /// Whether so much more that a user does not read is too much. Whoever reads what it is answered may
    /// have an answer of any length.
    pub fn is_unread_over(&self, user: u32, bytes: usize) -> bool {
        let unread = self.accounts.get(&user).map_or(0, |account| account.unread);
        unread > 0 && unread + bytes > UNREAD_BYTES_MAX
    }

    /// Adds bytes that wait to be written to the user.
    pub fn owe(&mut self, user: u32, bytes: usize) {
        self.accounts.entry(user).or_default().unread += bytes;
    }

    /// Takes off bytes that have been written, or cannot be.
    pub fn pay(&mut self, now_ns: u64, user: u32, bytes: usize) {
        self.change(user, |account| account.unread = account.unread.saturating_sub(bytes));
        self.forget(now_ns);
    }

    /// A line about a user, or of its own, is to be logged. The number of those that had no room before it;
    /// none: it has none either.
    pub fn try_log(&mut self, now_ns: u64, user: u32, bytes: usize) -> Option<u64> {
        let account = self.accounts.entry(user).or_default();
        let mut after = account.log;
        after.charge(LOG, now_ns, bytes as u64);
        if after.delay_ns(LOG, now_ns) > 0 {
            account.left_out += 1;
            return None;
        }
        account.log = after;
        Some(std::mem::take(&mut account.left_out))
    }

    /// The same of a kind of lines that are only said [`SELDOM_MAX`] times an hour.
    pub fn try_log_seldom(
        &mut self,
        now_ns: u64,
        user: u32,
        kind: &'static str,
        bytes: usize,
    ) -> Option<u64> {
        let account = self.accounts.entry(user).or_default();
        let (count, since_ns) = account.seldom.entry(kind).or_insert((0, now_ns));
        if now_ns >= *since_ns + SELDOM_NS {
            (*count, *since_ns) = (0, now_ns);
        }
        *count += 1;
        if *count > SELDOM_MAX {
            account.left_out += 1;
            return None;
        }
        self.try_log(now_ns, user, bytes)
    }

    fn change(&mut self, user: u32, change: impl FnOnce(&mut Account)) {
        if let Some(account) = self.accounts.get_mut(&user) {
            change(account);
        }
    }

    /// Forgets users who have nothing here.
    fn forget(&mut self, now_ns: u64) {
        self.accounts.retain(|_, account| account.is_needed(now_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 0;

    fn ledger() -> Ledger {
        Ledger::new(OWNER, 20_000)
    }

    #[test]
    fn ledger_bounds_connections_and_bytes_by_user() {
        let mut ledger = ledger();
        (0..WAITING_MAX).for_each(|_| ledger.connect(7).unwrap());
        assert_eq!(ledger.connect(7), Err(Excess::Waiting));
        ledger.connect(8).unwrap();
        ledger.know(7);
        ledger.connect(7).unwrap();
        ledger.keep(7, BYTES_MAX).unwrap();
        assert_eq!((ledger.keep(7, 1), ledger.keep(8, 1)), (Err(Excess::Bytes), Ok(())));
        ledger.release(7, BYTES_MAX + 1);
        ledger.release(8, 1);
        assert!(!ledger.is_unread_over(7, 10 * UNREAD_BYTES_MAX), "it is the only one");
        ledger.owe(7, UNREAD_BYTES_MAX);
        assert!(ledger.is_unread_over(7, 1) && !ledger.is_unread_over(8, 1));
        ledger.pay(0, 7, UNREAD_BYTES_MAX);
        for (user, connections) in [(7, WAITING_MAX + 1), (8, 1)] {
            for _ in 0..connections {
                ledger.know(user);
                ledger.disconnect(0, user);
            }
        }
        assert!(ledger.accounts.is_empty(), "{ledger:?}");
    }

    #[test]
    fn ledger_bounds_bytes_read_over_time() {
        let mut ledger = ledger();
        ledger.charge_reading(5, 7, READ_BURST as usize);
        assert_eq!(ledger.reading_delay_ns(5, 7), 0, "a burst goes at once");
        ledger.charge_reading(5, 7, 8 * READ_PER_SECOND as usize);
        assert_eq!(ledger.reading_delay_ns(5, 7), 8 * SECOND_NS);
        assert_eq!(ledger.reading_delay_ns(5 + 4 * SECOND_NS, 7), 4 * SECOND_NS);
        assert_eq!(ledger.reading_delay_ns(5, 8), 0);
    }

    #[test]
    fn ledger_bounds_lines_by_user_and_counts_those_left_out() {
        let mut ledger = ledger();
        let lines = (0..1000).filter(|_| ledger.try_log(0, 7, 100).is_some()).count();
        assert_eq!(lines as u64, LOG_BURST / 100);
        assert_eq!(ledger.try_log(0, 8, 100), Some(0), "another user");
        assert_eq!(ledger.try_log(SECOND_NS, 7, 100), Some(1000 - LOG_BURST / 100));
    }

    #[test]
    fn ledger_allows_a_seldom_kind_of_lines_a_few_times_an_hour() {
        let mut ledger = ledger();
        let said = |ledger: &mut Ledger, now_ns| {
            (0..1000).filter(|_| ledger.try_log_seldom(now_ns, 7, "unknown", 10).is_some()).count() as u64
        };
        assert_eq!((said(&mut ledger, 5), said(&mut ledger, SECOND_NS)), (SELDOM_MAX, 0));
        assert_eq!(ledger.try_log_seldom(SECOND_NS, 7, "another", 10), Some(2000 - SELDOM_MAX));
        assert_eq!(ledger.try_log_seldom(SECOND_NS, 8, "unknown", 10), Some(0), "another user");
        ledger.forget(2 * SECOND_NS);
        assert_eq!(said(&mut ledger, 3 * SECOND_NS), 0, "it is not forgotten");
        assert_eq!(said(&mut ledger, 5 + SELDOM_NS), SELDOM_MAX);
        ledger.try_log(6 + SELDOM_NS, 7, 10);
        ledger.forget(7 + 9 * SELDOM_NS);
        assert!(!ledger.accounts.contains_key(&7), "it has nothing here any more");
    }

    /// Whatever n users hold, a further one is given half of a part in n + 1, and the owner some always.
    #[test]
    fn ledger_keeps_descriptors_for_whoever_comes() {
        for users in 1..10_u32 {
            let mut ledger = Ledger::new(OWNER, 1024);
            let mut takes = true;
            while takes {
                takes = false;
                (1..=users).for_each(|user| takes |= ledger.take_descriptors(user, 26).is_ok());
            }
            let mut more = 0;
            while ledger.take_descriptors(100, 1).is_ok() {
                more += 1;
            }
            let part = (1024 - DESCRIPTORS_RESERVED) / u64::from(users + 1);
            assert!(more + 1 >= (part - 26) / 2, "{users} users, {more} of {part}");
            assert!(ledger.take_descriptors(OWNER, DESCRIPTORS_RESERVED).is_ok());
        }
    }
}
