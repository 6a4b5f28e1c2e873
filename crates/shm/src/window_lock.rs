//! The lock of a window at one target (`MPI_Win_lock`): exclusive or shared, in the order of asking.
//!
//! ```text
//! ask        ticket = asked++; owner[ticket] = rank
//! try        only if it would be granted at once
//! exclusive  granted when left == ticket          release: left++, entered++
//! shared     granted when entered == ticket;      release: left++
//!            then entered++: the next shared one enters too
//! ```
//!
//! Who releases, and who enters shared, learns which rank's turn it may be now and rings it. A rank of
//! another node has its ticket taken by the target, which is then its owner: so local and remote ranks wait
//! in one queue, and neither starves the other.
//!
//! Who shares the lock and leaves before others rings the first that waits behind them: what that one has
//! named to an onlooker ([`WindowLock::visit_before`]) holds no longer.
//!
//! A look that is too early and a ring that is too late cannot both be: the owner is stored before the counts
//! are read, the counts before the owner is. A stale owner is rung for nothing.

use std::ptr::NonNull;

use crate::LINE_BYTES;
use crate::sync::{AtomicU32, Ordering, then_look};

#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Counts {
    /// The next ticket.
    asked: AtomicU32,
    /// Tickets whose holders have entered shared or left: a shared one with this number may enter.
    entered: AtomicU32,
    /// Tickets whose holders have left: an exclusive one with this number may enter.
    left: AtomicU32,
    /// The first ticket of those that have entered since nobody held the lock. While `left` is the same, none
    /// of them has left. Writer: who enters, or leaves alone.
    begun: AtomicU32,
    /// Name by which its keeper knows the lock, plus one; 0: there is no name yet. Writer: the keeper.
    name: AtomicU32,
}

/// How a window is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Alone (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
    /// Beside others that lock it shared (`MPI_LOCK_SHARED`).
    Shared,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    number: u32,
    mode: Mode,
}

/// One rank's view of a lock.
#[derive(Clone, Copy, Debug)]
pub struct WindowLock {
    counts: NonNull<Counts>,
    owners: NonNull<AtomicU32>,
    mask: u32,
}

// SAFETY: the pointers lead to atomics in memory that outlives the value (the constructor's contract).
unsafe impl Send for WindowLock {}

/// Bytes of a lock for which at most `waiters` ask at once.
pub const fn bytes(waiters: u32) -> usize {
    let owners = (places(waiters) as usize * size_of::<AtomicU32>()).next_multiple_of(LINE_BYTES);
    size_of::<Counts>() + owners
}

const fn places(waiters: u32) -> u32 {
    waiters.next_power_of_two()
}

impl Ticket {
    /// Number of the ticket: tickets are numbered in the order of asking.
    pub fn number(&self) -> u32 {
        self.number
    }
}

impl WindowLock {
    /// A view of the lock at `at`.
    ///
    /// # Safety
    /// At `at` there are [`bytes`]`(waiters)` bytes, zeroed before the first use, aligned to a line and valid
    /// for the life of the value; never more than `waiters` hold a ticket.
    pub unsafe fn new(at: NonNull<u8>, waiters: u32) -> Self {
        // SAFETY: the owners follow the counts inside the bytes that the caller vouches for.
        let owners = unsafe { at.add(size_of::<Counts>()) }.cast();
        WindowLock { counts: at.cast(), owners, mask: places(waiters) - 1 }
    }

    /// Takes a place in the queue for the local rank `owner`, which is rung when its turn may have come.
    #[inline]
    pub fn ask(&self, mode: Mode, owner: u32) -> Ticket {
        let number = self.counts().asked.fetch_add(1, Ordering::SeqCst);
        let ticket = Ticket { number, mode };
        self.owner(number).store(owner + 1, Ordering::Release);
        if !self.is_due(ticket) {
            // Only who waits must be found by whoever gives way to it.
            self.owner(number).swap(owner + 1, Ordering::SeqCst);
            then_look();
        }
        ticket
    }

    /// Takes the lock for the local rank `owner` if nobody is before it. Also the rank that is to be rung, if
    /// one may be next.
    #[inline(always)]
    pub fn try_take(&self, mode: Mode, owner: u32) -> Option<(Ticket, Option<u32>)> {
        let asked = &self.counts().asked;
        let ticket = Ticket { number: asked.load(Ordering::Relaxed), mode };
        if !self.is_due(ticket) {
            return None;
        }
        // As long as nobody asks, nothing of what has been seen changes.
        let next = ticket.number.wrapping_add(1);
        asked.compare_exchange(ticket.number, next, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        self.owner(ticket.number).store(owner + 1, Ordering::Release);
        Some((ticket, self.enter(ticket)))
    }

    /// Whether the turn of a ticket has come.
    #[inline]
    pub fn is_due(&self, ticket: Ticket) -> bool {
        let counts = self.counts();
        let count = match ticket.mode {
            Mode::Exclusive => &counts.left,
            Mode::Shared => &counts.entered,
        };
        count.load(Ordering::SeqCst) == ticket.number
    }

    /// Enters with a ticket whose turn has come. Returns the rank that is to be rung, if one may be next.
    ///
    /// # Panics
    /// When the turn has not come.
    #[inline]
    pub fn enter(&self, ticket: Ticket) -> Option<u32> {
        assert!(self.is_due(ticket), "{ticket:?} is not due");
        match ticket.mode {
            Mode::Exclusive => None,
            Mode::Shared => {
                // The one writer of the count is who enters.
                let next = ticket.number.wrapping_add(1);
                if self.counts().left.load(Ordering::SeqCst) == ticket.number {
                    // Who sees the count below sees this.
                    self.counts().begun.store(ticket.number, Ordering::Release);
                }
                self.counts().entered.swap(next, Ordering::SeqCst);
                then_look();
                self.owner_of(next)
            }
        }
    }

    /// Gives the lock back. Returns the rank that is to be rung, if one may be next.
    #[inline]
    pub fn release(&self, ticket: Ticket) -> Option<u32> {
        let counts = self.counts();
        if ticket.mode == Mode::Exclusive {
            counts.begun.store(ticket.number.wrapping_add(1), Ordering::Release);
            counts.entered.store(ticket.number.wrapping_add(1), Ordering::Release);
        }
        counts.left.fetch_add(1, Ordering::SeqCst);
        then_look();
        // Of several that share, the last one to leave finds the first that waits here. The others ring it
        // too, for it may have named them to an onlooker.
        self.owner_of(counts.entered.load(Ordering::SeqCst))
    }

    /// Names the tickets, and their owners, of whom the turn of a ticket waits for: the one before it, or
    /// those inside when it is the first that waits. Names none when it is not known who is inside.
    ///
    /// What was named stays true until the owner of the ticket is rung, or a named owner goes on.
    pub fn visit_before(&self, ticket: Ticket, visit: &mut dyn FnMut(u32, u32)) {
        let counts = self.counts();
        let is_first = counts.entered.load(Ordering::SeqCst) == ticket.number;
        let (begun, left) = (counts.begun.load(Ordering::SeqCst), counts.left.load(Ordering::SeqCst));
        let first = match is_first {
            true if begun != left => return,
            true => left,
            false => ticket.number.wrapping_sub(1),
        };
        let count = ticket.number.wrapping_sub(first);
        for number in (0..count.min(self.mask + 1)).map(|index| first.wrapping_add(index)) {
            if let Some(owner) = self.owner_of(number) {
                visit(number, owner);
            }
        }
    }

    /// Name by which its keeper knows the lock, for those who ask there for places that it holds for others.
    pub fn name(&self) -> Option<u32> {
        self.counts().name.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Sets the name by which its keeper knows the lock from now on.
    pub fn set_name(&self, name: u32) {
        self.counts().name.store(name.wrapping_add(1), Ordering::SeqCst);
    }

    /// Holder of the ticket, as far as it has been stored.
    fn owner_of(&self, ticket: u32) -> Option<u32> {
        if self.counts().asked.load(Ordering::SeqCst) == ticket {
            // Nobody has asked for it.
            return None;
        }
        self.owner(ticket).load(Ordering::SeqCst).checked_sub(1)
    }

    fn owner(&self, ticket: u32) -> &AtomicU32 {
        // SAFETY: the place is below their number (the constructor's contract).
        unsafe { self.owners.add((ticket & self.mask) as usize).as_ref() }
    }

    fn counts(&self) -> &Counts {
        // SAFETY: valid by the constructor's contract.
        unsafe { self.counts.as_ref() }
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
