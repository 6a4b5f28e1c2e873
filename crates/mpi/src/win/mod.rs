//! One-sided communication (MPI chapter 12): windows on memory that other ranks read, write and change.
//!
//! | module | what |
//! |---|---|
//! | [`window`] | a window as this process sees it: how the memory of each rank is reached |
//! | [`epoch`] | which accesses are allowed now; pure |
//! | [`creation`] | makes windows and frees them; attaches memory |
//! | [`operations`] | put, get, the accumulate family |
//! | [`other_nodes`] | the same where the target is on another node, or of another launch |
//! | [`synchronisation`] | fence, post-start-complete-wait, locks, flush |
//! | [`hints`] | info keys of windows |
//! | [`plan`] | where the memory of the ranks of a node lies |
//!
//! On a rank of the same node each operation is done when its call returns, so a flush is a fence of the
//! processor, and a request is done when it is made. Operations on ranks of other nodes are records
//! ([`tutti_runtime::remote_memory`]); a flush waits for them. So are those on ranks of other launches
//! (`engine::guest_memory`), whichever node they are on.

pub mod creation;
pub mod epoch;
pub mod hints;
pub mod operations;
pub mod other_nodes;
pub mod plan;
pub mod synchronisation;
pub mod window;

use crate::abi::*;
use crate::error::{Error, Result};
use crate::handle::{Kind, Slab};
use window::Window;

/// The windows of a process.
#[derive(Debug)]
pub struct Windows(Slab<Window>);

/// A call that reaches windows.
pub trait HasWindows {
    /// Windows.
    fn wins(&self) -> &Windows;

    /// Windows, to be changed.
    fn wins_mut(&mut self) -> &mut Windows;
}

impl Default for Windows {
    fn default() -> Self {
        Windows(Slab::new(Kind::Win))
    }
}

impl Windows {
    /// A window by handle.
    ///
    /// # Errors
    /// MPI_ERR_WIN when it names none.
    #[inline(always)]
    pub fn find(&self, handle: MPI_Win) -> Result<&Window> {
        self.0.find(handle.0).ok_or_else(|| bad_win(handle))
    }

    /// A window by handle, to be changed.
    ///
    /// # Errors
    /// MPI_ERR_WIN when it names none.
    pub fn find_mut(&mut self, handle: MPI_Win) -> Result<&mut Window> {
        self.0.find_mut(handle.0).ok_or_else(|| bad_win(handle))
    }

    /// A window by handle, if it names one.
    #[inline(always)]
    fn try_find(&self, handle: MPI_Win) -> Option<&Window> {
        self.0.find(handle.0)
    }

    /// The same, to be changed.
    #[inline(always)]
    fn try_find_mut(&mut self, handle: MPI_Win) -> Option<&mut Window> {
        self.0.find_mut(handle.0)
    }

    /// The window that works over a communicator of its own, and its error handler.
    pub fn of_comm(&self, comm: MPI_Comm) -> Option<(MPI_Win, MPI_Errhandler)> {
        let (index, window) = self.0.iter().find(|(_, window)| window.comm == comm)?;
        Some((MPI_Win(self.0.handle(index)), window.errhandler))
    }

    /// All windows.
    pub fn iter(&self) -> impl Iterator<Item = &Window> {
        self.0.iter().map(|(_, window)| window)
    }

    /// Keeps a new window; gives its handle.
    fn keep(&mut self, window: Window) -> MPI_Win {
        let index = self.0.insert(window);
        MPI_Win(self.0.handle(index))
    }

    /// Takes a window away, if it is there.
    fn take(&mut self, handle: MPI_Win) -> Option<Window> {
        self.0.index(handle.0).map(|index| self.0.remove(index))
    }
}

/// The error of a handle that names no window.
#[cold]
fn bad_win(handle: MPI_Win) -> Error {
    let what = if handle == MPI_WIN_NULL { "is MPI_WIN_NULL" } else { "is freed or was never one" };
    Error::new(MPI_ERR_WIN, format_args!("window {:#x} {what}", handle.0))
}
