//! Epochs of a window (MPI 12.5): which ranks this process may access now, and who may access it.
//!
//! ```text
//! access    none -- fence -------> fence -- fence with NOSUCCEED, start, lock --> ...
//!           none -- start -------> started (some ranks) -- complete --> none
//!           none -- lock --------> locked (some ranks) -- unlock of the last --> none
//!           none -- lock_all ----> locked (all) -- unlock_all --> none
//! exposure  none -- post --------> posted -- wait, or test that says so --> none
//! ```
//!
//! A fence opens an epoch only if operations follow, so whatever may follow `none` may follow it.

use crate::abi::{MPI_ERR_RMA_SYNC, MPI_MODE_NOSUCCEED};
use crate::error::{Result, check};
use tutti_shm::window_lock::Ticket;

/// Kind of call that opened the access epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Access {
    #[default]
    None,
    Fence,
    Started,
    Locked,
    LockedAll,
}

/// A lock that this process has.
#[derive(Clone, Copy, Debug)]
pub enum Held {
    /// Place in the queue.
    Ticket(Ticket),
    /// Grant by a rank of another node.
    Granted,
    /// The program says that nobody else locks (`MPI_MODE_NOCHECK`).
    Unchecked,
}

/// The epochs of a window.
#[derive(Debug)]
pub struct Epochs {
    access: Access,
    /// All ranks may be accessed.
    is_open: bool,
    /// The ranks that may be accessed, where not all may.
    open: Vec<bool>,
    /// Locks of this process, by rank.
    held: Vec<Option<Held>>,
    /// Room for as many, when they all change at once.
    spare: Vec<Option<Held>>,
    /// Ranks of the access epoch begun by start.
    started: Vec<usize>,
    /// Ranks of the exposure epoch, if there is one.
    posted: Option<Vec<usize>>,
}

impl Epochs {
    /// Epochs of a new window of so many ranks.
    pub fn new(ranks: usize) -> Self {
        Epochs {
            access: Access::None,
            is_open: false,
            open: vec![false; ranks],
            held: vec![None; ranks],
            spare: Vec::new(),
            started: Vec::new(),
            posted: None,
        }
    }

    /// Whether this process may access a rank's memory.
    #[inline(always)]
    pub fn may_access(&self, rank: usize) -> bool {
        self.is_open || self.open[rank]
    }

    /// The same; why not.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC.
    #[inline(always)]
    pub fn check_access(&self, rank: usize) -> Result<()> {
        if self.may_access(rank) { Ok(()) } else { Err(self.no_access(rank)) }
    }

    #[cold]
    fn no_access(&self, rank: usize) -> crate::error::Error {
        let text = match self.access {
            Access::None | Access::Fence => {
                "no epoch is open: call MPI_Win_fence, MPI_Win_start or MPI_Win_lock first"
            }
            Access::Started => "MPI_Win_start has not named it",
            Access::Locked | Access::LockedAll => "it is not locked",
        };
        crate::error::Error::new(MPI_ERR_RMA_SYNC, format_args!("access to rank {rank}: {text}"))
    }

    /// A fence closes an epoch, and opens one unless the program says that none follows.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC inside an epoch of another kind.
    pub fn fence(&mut self, assert: i32) -> Result<()> {
        self.check_no_access("MPI_Win_fence")?;
        check(self.posted.is_none(), MPI_ERR_RMA_SYNC, || {
            "MPI_Win_fence inside an exposure epoch: call MPI_Win_wait first".into()
        })?;
        self.is_open = assert & MPI_MODE_NOSUCCEED == 0;
        self.access = if self.is_open { Access::Fence } else { Access::None };
        Ok(())
    }

    /// Opens an access epoch to some ranks.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC inside another one.
    pub fn start(&mut self, ranks: Vec<usize>) -> Result<()> {
        self.check_no_access("MPI_Win_start")?;
        self.close_fence();
        self.access = Access::Started;
        for rank in &ranks {
            self.open[*rank] = true;
        }
        self.started = ranks;
        Ok(())
    }

    /// Closes it; the ranks.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC when there is none.
    pub fn complete(&mut self) -> Result<Vec<usize>> {
        check(self.access == Access::Started, MPI_ERR_RMA_SYNC, || {
            "MPI_Win_complete without MPI_Win_start".into()
        })?;
        self.access = Access::None;
        let ranks = std::mem::take(&mut self.started);
        for rank in &ranks {
            self.open[*rank] = false;
        }
        Ok(ranks)
    }

    /// Opens an exposure epoch to some ranks.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC inside another one.
    pub fn post(&mut self, ranks: Vec<usize>) -> Result<()> {
        check(self.posted.is_none(), MPI_ERR_RMA_SYNC, || {
            "MPI_Win_post inside an exposure epoch: call MPI_Win_wait first".into()
        })?;
        self.posted = Some(ranks);
        Ok(())
    }

    /// The ranks of the exposure epoch.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC when there is none.
    pub fn posted(&self) -> Result<&[usize]> {
        match &self.posted {
            Some(ranks) => Ok(ranks),
            None => Err(crate::error::Error::new(
                MPI_ERR_RMA_SYNC,
                "MPI_Win_wait or MPI_Win_test without MPI_Win_post",
            )),
        }
    }

    /// Ends the exposure epoch.
    pub fn end_exposure(&mut self) {
        self.posted = None;
    }

    /// Whether a rank may be locked.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC when it is locked already, or another kind of epoch is open.
    pub fn check_lock(&self, rank: usize) -> Result<()> {
        check(self.may_lock(rank), MPI_ERR_RMA_SYNC, || match self.access {
            Access::Started | Access::LockedAll => {
                "MPI_Win_lock inside an access epoch of another kind".into()
            }
            _ => format!("MPI_Win_lock: this process has locked rank {rank} already"),
        })
    }

    /// Whether [`Self::check_lock`] finds nothing.
    #[inline(always)]
    pub fn may_lock(&self, rank: usize) -> bool {
        !matches!(self.access, Access::Started | Access::LockedAll) && self.held[rank].is_none()
    }

    /// A rank is locked.
    #[inline]
    pub fn lock(&mut self, rank: usize, held: Held) {
        self.close_fence();
        self.access = Access::Locked;
        self.open[rank] = true;
        self.held[rank] = Some(held);
    }

    /// Unlocks a rank; gives its lock.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC when it was not locked.
    pub fn unlock(&mut self, rank: usize) -> Result<Held> {
        let held = self.held[rank].filter(|_| self.access == Access::Locked);
        let held = held.ok_or_else(|| {
            let text = format_args!("this process has not locked rank {rank}");
            crate::error::Error::new(MPI_ERR_RMA_SYNC, text)
        })?;
        self.end_lock(rank);
        Ok(held)
    }

    /// The same, if it was locked by a ticket.
    #[inline(always)]
    pub fn unlock_ticket(&mut self, rank: usize) -> Option<Ticket> {
        let Some(Held::Ticket(ticket)) = self.held[rank].filter(|_| self.access == Access::Locked) else {
            return None;
        };
        self.end_lock(rank);
        Some(ticket)
    }

    fn end_lock(&mut self, rank: usize) {
        (self.held[rank], self.open[rank]) = (None, false);
        if self.held.iter().all(Option::is_none) {
            self.access = Access::None;
        }
    }

    /// Whether all ranks may be locked.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC inside another epoch.
    pub fn check_lock_all(&self) -> Result<()> {
        self.check_no_access("MPI_Win_lock_all")
    }

    /// Room for the locks of all ranks, none of which is held: that of the last time, if it was kept.
    pub fn room(&mut self) -> Vec<Option<Held>> {
        let mut room = std::mem::take(&mut self.spare);
        room.resize(self.held.len(), None);
        room
    }

    /// Keeps such room for the next time.
    pub fn keep(&mut self, mut room: Vec<Option<Held>>) {
        room.clear();
        self.spare = room;
    }

    /// All ranks are locked, with these locks.
    pub fn lock_all(&mut self, held: Vec<Option<Held>>) {
        let room = std::mem::replace(&mut self.held, held);
        self.keep(room);
        self.is_open = true;
        self.access = Access::LockedAll;
    }

    /// Unlocks all ranks; gives their locks.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC when they were not locked.
    pub fn unlock_all(&mut self) -> Result<Vec<Option<Held>>> {
        check(self.access == Access::LockedAll, MPI_ERR_RMA_SYNC, || {
            "MPI_Win_unlock_all without MPI_Win_lock_all".into()
        })?;
        self.is_open = false;
        self.access = Access::None;
        let none = self.room();
        Ok(std::mem::replace(&mut self.held, none))
    }

    /// Whether operations on a rank may be flushed.
    #[inline(always)]
    pub fn may_flush(&self, rank: usize) -> bool {
        match self.access {
            Access::LockedAll => true,
            Access::Locked => self.open[rank],
            _ => false,
        }
    }

    /// Whether a flush makes sense: at `rank`, or at all ranks.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC outside an epoch opened by a lock.
    #[inline]
    pub fn check_flush(&self, rank: Option<usize>) -> Result<()> {
        let is_locked = match rank {
            Some(rank) => self.may_flush(rank),
            None => matches!(self.access, Access::Locked | Access::LockedAll),
        };
        check(is_locked, MPI_ERR_RMA_SYNC, || match rank {
            Some(rank) => format!("flush of rank {rank}, which is not locked"),
            None => "flush outside an epoch opened by MPI_Win_lock or MPI_Win_lock_all".into(),
        })
    }

    /// Whether the window may be freed.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC inside an epoch.
    pub fn check_free(&self) -> Result<()> {
        self.check_no_access("MPI_Win_free")?;
        check(self.posted.is_none(), MPI_ERR_RMA_SYNC, || {
            "MPI_Win_free inside an exposure epoch: call MPI_Win_wait first".into()
        })
    }

    fn check_no_access(&self, call: &str) -> Result<()> {
        let end = match self.access {
            Access::None | Access::Fence => return Ok(()),
            Access::Started => "MPI_Win_complete",
            Access::Locked => "MPI_Win_unlock",
            Access::LockedAll => "MPI_Win_unlock_all",
        };
        check(false, MPI_ERR_RMA_SYNC, || format!("{call} inside an access epoch: call {end} first"))
    }

    fn close_fence(&mut self) {
        self.is_open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sync_error<T>(result: Result<T>) -> bool {
        result.is_err_and(|error| error.class == MPI_ERR_RMA_SYNC)
    }

    #[test]
    fn epoch_access_needs_one_that_names_the_rank() {
        let mut epochs = Epochs::new(3);
        assert!(is_sync_error(epochs.check_access(1)));
        epochs.fence(0).unwrap();
        epochs.check_access(1).unwrap();
        epochs.fence(MPI_MODE_NOSUCCEED).unwrap();
        assert!(is_sync_error(epochs.check_access(1)));
        epochs.fence(0).unwrap();
        epochs.start(vec![2]).unwrap();
        epochs.check_access(2).unwrap();
        assert!(is_sync_error(epochs.check_access(1)));
        assert!(is_sync_error(epochs.fence(0)) && is_sync_error(epochs.check_lock(1)));
        assert_eq!(epochs.complete().unwrap(), [2]);
        assert!(is_sync_error(epochs.complete()) && is_sync_error(epochs.check_access(2)));
        epochs.check_lock(0).unwrap();
        epochs.lock(0, Held::Unchecked);
        epochs.check_lock(1).unwrap();
        epochs.lock(1, Held::Unchecked);
        assert!(is_sync_error(epochs.check_lock(1)) && is_sync_error(epochs.check_access(2)));
        assert!(epochs.check_flush(Some(1)).is_ok() && epochs.check_flush(None).is_ok());
        assert!(is_sync_error(epochs.check_flush(Some(2))) && is_sync_error(epochs.check_free()));
        epochs.unlock(0).unwrap();
        assert!(is_sync_error(epochs.unlock(0)) && is_sync_error(epochs.check_lock_all()));
        epochs.unlock(1).unwrap();
        epochs.check_lock_all().unwrap();
        epochs.lock_all(vec![None; 3]);
        epochs.check_access(2).unwrap();
        assert!(is_sync_error(epochs.unlock(1)));
        epochs.unlock_all().unwrap();
        assert!(is_sync_error(epochs.check_flush(None)));
        epochs.check_free().unwrap();
    }

    #[test]
    fn epoch_exposure_stands_beside_access() {
        let mut epochs = Epochs::new(2);
        assert!(epochs.posted().is_err());
        epochs.post(vec![1]).unwrap();
        assert!(is_sync_error(epochs.post(vec![0])) && is_sync_error(epochs.fence(0)));
        epochs.start(vec![1]).unwrap();
        assert_eq!(epochs.posted().unwrap(), [1]);
        epochs.complete().unwrap();
        assert!(is_sync_error(epochs.check_free()));
        epochs.end_exposure();
        epochs.check_free().unwrap();
    }
}
