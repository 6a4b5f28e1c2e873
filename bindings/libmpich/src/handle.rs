//! Handles: an `int` there (a file: a pointer), a pointer's number here.
//!
//! Ours have a kind in bits 30 to 27, by which they are told from MPICH's predefined handles: none of a
//! type's has our kind of that type (checked below), so a handle of ours is the same number in both
//! interfaces.

use crate::abi::*;
use core::ffi::{c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/values.rs"));

/// A file there.
pub type MpichFile = *mut c_void;

/// Our predefined handles are below this.
const PREDEFINED_END: usize = 0x2000;
/// A number that no handle of ours has: bits above those that ours use.
pub(crate) const NO_HANDLE: usize = 1 << 40;
/// An integer that is no constant in either interface.
pub(crate) const ABSENT: c_int = c_int::MIN + 1;
/// A handle before ours has written it.
const UNWRITTEN: usize = usize::MAX;

/// A type of handle of ours.
pub(crate) trait Handle: Copy {
    /// The type that MPICH's functions take for it.
    type Theirs: Copy;
    /// The handle with these bits.
    fn of(number: usize) -> Self;
    /// Bits of the handle.
    fn number(self) -> usize;
    /// Ours of theirs.
    fn ours(theirs: Self::Theirs) -> Self;
    /// Theirs of ours.
    fn theirs(self) -> Self::Theirs;
}

/// The number of MPICH of a predefined handle of ours.
#[inline]
fn predefined(number: usize) -> c_int {
    match PREDEFINED.get(number) {
        Some(theirs) => *theirs,
        None if number == MPI_LB.0 => mpich::MPI_LB,
        None if number == MPI_UB.0 => mpich::MPI_UB,
        None => 0,
    }
}

macro_rules! handles {
    ($($class:ident $kind:literal $predefined:ident)*) => { $(
        impl Handle for $class {
            type Theirs = c_int;
            #[inline(always)]
            fn of(number: usize) -> Self {
                $class(number)
            }
            #[inline(always)]
            fn number(self) -> usize {
                self.0
            }
            #[inline(always)]
            fn ours(theirs: c_int) -> Self {
                match theirs as u32 >> 27 {
                    $kind => $class(theirs as u32 as usize),
                    _ => $class($predefined(theirs)),
                }
            }
            #[inline(always)]
            fn theirs(self) -> c_int {
                if self.0 < PREDEFINED_END { predefined(self.0) } else { self.0 as c_int }
            }
        }
    )* };
}

// The kinds are those of `crates/mpi/src/handle.rs`.
handles! {
    MPI_Comm 1 predefined_MPI_Comm
    MPI_Datatype 2 predefined_MPI_Datatype
    MPI_Errhandler 3 predefined_MPI_Errhandler
    MPI_Group 4 predefined_MPI_Group
    MPI_Info 5 predefined_MPI_Info
    MPI_Message 6 predefined_MPI_Message
    MPI_Op 7 predefined_MPI_Op
    MPI_Request 8 predefined_MPI_Request
    MPI_Session 9 predefined_MPI_Session
    MPI_Win 10 predefined_MPI_Win
}

impl Handle for MPI_File {
    type Theirs = MpichFile;
    #[inline(always)]
    fn of(number: usize) -> Self {
        MPI_File(number)
    }
    #[inline(always)]
    fn number(self) -> usize {
        self.0
    }
    #[inline(always)]
    fn ours(theirs: MpichFile) -> Self {
        match theirs.addr() {
            0 => MPI_FILE_NULL,
            number if number < PREDEFINED_END => MPI_File(NO_HANDLE),
            number => MPI_File(number),
        }
    }
    #[inline(always)]
    fn theirs(self) -> MpichFile {
        let number = if self == MPI_FILE_NULL { 0 } else { self.0 };
        core::ptr::without_provenance_mut(number)
    }
}

/// Ours of a handle of the caller.
#[inline(always)]
pub(crate) fn ours<T: Handle>(theirs: T::Theirs) -> T {
    T::ours(theirs)
}

/// The place of a handle that a call writes, perhaps after it has read it.
pub(crate) struct Place<T: Handle> {
    place: *mut T::Theirs,
    handle: T,
}

impl<T: Handle> Place<T> {
    #[inline(always)]
    pub(crate) unsafe fn new(place: *mut T::Theirs, reads: bool) -> Self {
        let is_read = reads && !place.is_null();
        // SAFETY: the caller gives the place of a handle, or null.
        let handle = if is_read { T::ours(unsafe { *place }) } else { T::of(UNWRITTEN) };
        Place { place, handle }
    }

    /// The pointer that our function gets; null stays null, which it refuses.
    #[inline(always)]
    pub(crate) fn address(&mut self) -> *mut T {
        if self.place.is_null() { core::ptr::null_mut() } else { &mut self.handle }
    }

    /// Gives the handle, if ours has written it.
    #[inline(always)]
    pub(crate) unsafe fn put(self) {
        if !self.place.is_null() && self.handle.number() != UNWRITTEN && self.handle.number() != NO_HANDLE {
            // SAFETY: as in `new`.
            unsafe { *self.place = self.handle.theirs() }
        }
    }
}
