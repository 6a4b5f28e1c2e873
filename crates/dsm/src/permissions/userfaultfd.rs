//! Rights by userfaultfd. A page has an entry in the page table when the program may load from it, and that
//! entry is protected when it may not store to it:
//!
//! ```text
//! none --give, protected--> load --unprotect--> store
//!   ^ '---------give---------------------------> ^
//!   '----take---------------- load <--protect----'
//! ```
//!
//! Pages are protected when they are given, never before: an entry that is made later would not be (Linux
//! does not keep it). Only the touched page is given for sure, and what follows it as far as it has memory:
//! giving a page without memory would take some.
//!
//! Rights that were set are kept here, as an upper bound: the kernel drops entries when it needs memory.
//! So a touched page is given again, whatever is kept about it.

use std::io;

use super::{Backend, Permissions};
use crate::core::member::Access;
use crate::core::unit::{Run, UNIT_BYTES};
use crate::os;
use crate::os::userfaultfd::{Faults, take};

const NONE: u8 = 0;
const LOAD: u8 = 1;
const STORE: u8 = 2;

/// Rights by userfaultfd, on an arena that is a mapping of a shared file.
#[derive(Debug)]
pub struct Userfaultfd {
    faults: Faults,
    base: usize,
    /// By unit: what was set.
    rights: &'static mut [u8],
    /// Whether the kernel gives pages that are protected already.
    gives_protected: bool,
    calls: u64,
}

impl Userfaultfd {
    /// For an arena of so many units at an address.
    ///
    /// # Errors
    /// When the system does not permit it, or has no address space for what is kept.
    pub fn open(base: usize, units: u32) -> io::Result<Self> {
        let faults = Faults::open()?;
        let rights = os::bytes_mut(os::map_anywhere(units as usize)?, units as usize);
        Ok(Userfaultfd { faults, base, rights, gives_protected: true, calls: 0 })
    }

    /// The number of its descriptor.
    pub(super) fn descriptor(&self) -> i32 {
        self.faults.number()
    }

    fn address(&self, unit: u32) -> usize {
        self.base + unit as usize * UNIT_BYTES
    }

    fn right(&self, unit: u32) -> u8 {
        self.rights[unit as usize]
    }

    fn note(&mut self, run: Run, right: u8) {
        for kept in &mut self.rights[run.first as usize..run.end() as usize] {
            // A page of zeros that nobody has changed takes no memory.
            if *kept != right {
                *kept = right;
            }
        }
    }

    /// Units from one on that have a right, at most up to an end.
    fn alike(&self, first: u32, end: u32, right: u8) -> Run {
        let rights = &self.rights[first as usize..end as usize];
        Run { first, count: rights.iter().take_while(|kept| **kept == right).count() as u32 }
    }

    /// Accesses to units of a new mapping fault from now on.
    fn guard(&mut self, run: Run) -> io::Result<()> {
        let (address, bytes) = (self.address(run.first), run.count as usize * UNIT_BYTES);
        self.calls += 2;
        let guarded = self.faults.register(address, bytes).and_then(|()| take(address, bytes));
        guarded.map_err(|error| named(error, self.descriptor()))
    }

    fn take(&mut self, run: Run) -> io::Result<()> {
        self.calls += 1;
        take(self.address(run.first), run.count as usize * UNIT_BYTES)?;
        self.note(run, NONE);
        Ok(())
    }

    /// Units that are there lose the right to be stored to, or get it.
    fn protect(&mut self, run: Run, is_protected: bool) -> io::Result<()> {
        self.calls += 1;
        match self.faults.protect(self.address(run.first), run.count as usize * UNIT_BYTES, is_protected) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) && run.count > 1 => {
                // Parts of several mappings, which an older kernel wants one by one.
                let count = run.count / 2;
                self.protect(Run { first: run.first, count }, is_protected)?;
                return self
                    .protect(Run { first: run.first + count, count: run.count - count }, is_protected);
            }
            result => result?,
        }
        self.note(run, if is_protected { LOAD } else { STORE });
        Ok(())
    }

    /// Units of a run that may be stored to may be loaded from alone.
    fn protect_stored(&mut self, run: Run) -> io::Result<()> {
        let mut unit = run.first;
        while unit < run.end() {
            let stored = self.alike(unit, run.end(), STORE);
            if stored.count > 0 {
                self.protect(stored, true)?;
            }
            unit += stored.count.max(1);
        }
        Ok(())
    }

    /// Gives the first unit of a run, and those behind it as far as they have memory and one mapping.
    fn give(&mut self, mut run: Run, is_protected: bool) -> io::Result<()> {
        let right = if is_protected { LOAD } else { STORE };
        loop {
            let kept = is_protected && self.gives_protected;
            let address = self.address(run.first);
            self.calls += 1;
            let error = match self.faults.give(address, run.count as usize * UNIT_BYTES, kept) {
                Ok(bytes) => {
                    run.count = (bytes / UNIT_BYTES) as u32;
                    break;
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::ENOENT) if run.count > 1 => run.count /= 2,
                Some(libc::EINVAL) if kept => self.gives_protected = false,
                Some(libc::EEXIST) if self.right(run.first) == right => return Ok(()),
                Some(libc::EEXIST) => return self.protect(Run::of(run.first), is_protected),
                Some(libc::EFAULT) => {
                    run.count = 1;
                    self.calls += 1;
                    match self.faults.give_zeros(address, is_protected) {
                        Ok(()) => break,
                        // Another rank of the node, which shares the frame, was first.
                        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                        Err(error) => return Err(error),
                    }
                }
                _ => return Err(error),
            }
        }
        if is_protected && !self.gives_protected {
            return self.protect(run, true);
        }
        self.note(run, right);
        Ok(())
    }

    /// The program may load from a unit that it has touched, and from those behind it that are as near.
    fn allow_loads(&mut self, touched: u32, end: u32) -> io::Result<()> {
        let absent = self.alike(touched, end, NONE);
        self.give(if absent.count > 0 { absent } else { Run::of(touched) }, true)
    }

    /// The program may store to a unit that it has touched.
    fn allow_stores(&mut self, touched: u32) -> io::Result<()> {
        let run = Run::of(touched);
        if self.right(touched) == LOAD { self.protect(run, false) } else { self.give(run, false) }
    }

    fn change(&mut self, run: Run, touched: Option<u32>, access: Access) -> io::Result<()> {
        let touched = touched.filter(|unit| run.units().contains(unit));
        match (access, touched) {
            (Access::None, _) => self.take(run),
            (Access::Read, None) => self.protect_stored(run),
            (Access::Read, Some(touched)) => {
                self.protect_stored(run)?;
                self.allow_loads(touched, run.end())
            }
            (Access::Write, None) => Ok(()),
            (Access::Write, Some(touched)) => self.allow_stores(touched),
        }
    }
}

impl Permissions for Userfaultfd {
    fn backend(&self) -> Backend {
        Backend::Userfaultfd
    }

    fn close(&mut self) -> io::Result<()> {
        self.guard(Run { first: 0, count: self.rights.len() as u32 })?;
        os::forget(self.rights.as_ptr().addr(), self.rights.len());
        Ok(())
    }

    fn close_mapped(&mut self, run: Run) -> io::Result<()> {
        self.guard(run)?;
        self.note(run, NONE);
        Ok(())
    }

    fn set(&mut self, run: Run, touched: Option<u32>, access: Access) -> io::Result<()> {
        self.change(run, touched, access).map_err(|error| named(error, self.descriptor()))
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}

/// Error with its cause in words, where that is known.
fn named(error: io::Error, descriptor: i32) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EBADF | libc::ENOTTY) => io::Error::other(format!(
            "descriptor {descriptor} of userfaultfd was closed by the program or a library of it"
        )),
        _ => error,
    }
}
