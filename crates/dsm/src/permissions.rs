//! Rights of the program on the pages of the arena: the back ends that set them. Called by the arena, under
//! the process lock.
//!
//! | back end | a page without rights | one to load from | fault |
//! |---|---|---|---|
//! | userfaultfd | its entry in the page table is dropped | given, protected | SIGBUS |
//! | mprotect | PROT_NONE | PROT_READ | SIGSEGV |
//!
//! Promises of both are the same (`permissions/tests.rs` holds them to it): a right is an upper bound. A
//! page may have less than was set, by the back end or by the kernel, which drops entries as it likes;
//! the access then faults, and the page is set once more as the one that was touched. More than was set
//! it never has.

mod userfaultfd;
mod window;

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::io;

pub use userfaultfd::Userfaultfd;
pub use window::Windowed;

use crate::core::member::Access;
use crate::core::unit::{Run, UNIT_BYTES};
use crate::os;

/// Ways to set rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// See userfaultfd(2).
    Userfaultfd,
    /// See mprotect(2).
    Mprotect,
}

impl Backend {
    /// The signal of an access without the right to it.
    pub fn signal(self) -> i32 {
        match self {
            Backend::Userfaultfd => libc::SIGBUS,
            Backend::Mprotect => libc::SIGSEGV,
        }
    }
}

/// Sets what the program may do with pages: one way to do it of several.
pub trait Permissions: Debug + Send {
    /// The back end that it is.
    fn backend(&self) -> Backend;

    /// Takes all rights on the arena away. The first call comes when the arena has been mapped and nobody
    /// has touched it.
    ///
    /// # Errors
    /// When the kernel does not.
    fn close(&mut self) -> io::Result<()>;

    /// Takes all rights on pages away that have been mapped anew, and that nobody has touched since.
    ///
    /// # Errors
    /// When the kernel has no room for it.
    fn close_mapped(&mut self, run: Run) -> io::Result<()>;

    /// From now on the program may do this with the pages, and no more. The one that the program has just
    /// touched it may use so at once, if it is among them; others may fault once more, and so may this one
    /// where the kernel had dropped its entry. Set a second time it may be used.
    ///
    /// # Errors
    /// When the kernel has no room for it.
    fn set(&mut self, run: Run, touched: Option<u32>, access: Access) -> io::Result<()>;

    /// Calls of the kernel so far.
    fn calls(&self) -> u64;
}

/// Rights by mprotect.
#[derive(Debug)]
pub struct Mprotect {
    base: usize,
    units: u32,
    calls: u64,
}

impl Mprotect {
    /// For an arena of so many units at an address.
    pub fn new(base: usize, units: u32) -> Self {
        Mprotect { base, units, calls: 0 }
    }
}

impl Permissions for Mprotect {
    fn backend(&self) -> Backend {
        Backend::Mprotect
    }

    fn close(&mut self) -> io::Result<()> {
        self.set(Run { first: 0, count: self.units }, None, Access::None)
    }

    fn close_mapped(&mut self, run: Run) -> io::Result<()> {
        self.set(run, None, Access::None)
    }

    fn set(&mut self, run: Run, _touched: Option<u32>, access: Access) -> io::Result<()> {
        self.calls += 1;
        os::protect(self.base + run.first as usize * UNIT_BYTES, run.count as usize * UNIT_BYTES, access)
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

/// Back end of this rank: the one that is wished, or else the faster one, as far as the system permits it.
/// Beside mprotect stands why userfaultfd is refused.
///
/// # Errors
/// When there is no address space for what it keeps.
pub fn choose(
    wished: Option<Backend>,
    base: usize,
    units: u32,
) -> io::Result<(Box<dyn Permissions>, Option<io::Error>)> {
    let refusal = match wished {
        Some(Backend::Mprotect) => None,
        Some(Backend::Userfaultfd) | None => match Userfaultfd::open(base, units) {
            Ok(userfaultfd) => return Ok((Box::new(userfaultfd), None)),
            Err(error) => Some(error),
        },
    };
    Ok((Box::new(Mprotect::new(base, units)), refusal))
}
